/* The fault shim: `fault:seed=7,lose=5,…:INNER-URL`. It does to operations and
 * wake-ups what networks and servers do: loses, delays, reorders, doubles,
 * fails.
 *
 * Each operation is a delivery: a copy that goes to the inner store, and the
 * one that is answered for it. The two part when an answer is lost, or comes
 * after the deadline; the copy lives on and may yet take effect (S8). */
#include "shims/fault.h"
#include "shims/shims.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct simba__delivery {
    struct simba__caller caller; /* of the copy */
    simba_timer timer;
    struct simba__fault_shim *fault;
    struct simba__delivery *next;
    simba_request *request;  /* to be answered; NULL: it was */
    struct simba__box *copy; /* to be sent; NULL: it was, or never will be */
    enum simba__fault what;
    int64_t late_ms;
    int64_t left_ms; /* from the submission to the deadline */
    int64_t send_ms; /* DELAY: when the copy goes off */
    bool is_filled;  /* SLOW: `request` has its reply, and waits */
    int status;
    simba_error error;
};

static void on_timer(simba_timer *timer);
static void on_done(struct simba__caller *caller,
                    const struct simba__box *copy,
                    int status,
                    const simba_error *error);

/* --- making and dropping ------------------------------------------------- */

static struct simba__delivery *make_delivery(struct simba__fault_shim *fault,
                                             simba_request *request)
{
    struct simba__delivery *d = calloc(1, sizeof *d);

    if (d == NULL || (d->copy = simba__shim_copy(request)) == NULL) {
        free(d);
        return NULL;
    }
    d->caller.done = on_done;
    d->timer.fire = on_timer;
    d->fault = fault;
    d->request = request;
    d->left_ms = request->deadline_ms - simba_loop_now_ms();
    d->next = fault->deliveries;
    fault->deliveries = d;
    return d;
}

static void free_delivery(struct simba__delivery *d)
{
    simba_timer_clear(d->fault->shim.base.loop, &d->timer);
    simba__box_free(d->copy);
    free(d);
}

static void drop_delivery(struct simba__delivery *d)
{
    struct simba__delivery **other = &d->fault->deliveries;

    while (*other != d) {
        other = &(*other)->next;
    }
    *other = d->next;
    free_delivery(d);
}

/* --- steps --------------------------------------------------------------- */

static void wake_at(struct simba__delivery *d, int64_t at_ms)
{
    simba_timer_set(d->fault->shim.base.loop, &d->timer, at_ms);
}

/* The last word to who asked; the copy may still be under way. */
static void answer(struct simba__delivery *d, int status, const char *words)
{
    simba_request *request = d->request;
    simba_error error;

    if (request != NULL) {
        d->request = NULL;
        simba_request_done(
            request, simba_error_set(&error, status, 0, "fault: %s", words),
            &error);
    }
}

static void send_copy(struct simba__delivery *d)
{
    struct simba__box *copy = d->copy;

    d->copy = NULL;
    /* A store does not know for how long its client waits. */
    copy->request.deadline_ms = simba_loop_now_ms() + d->left_ms;
    simba__box_send(copy, &d->caller, d->fault->shim.inner);
}

/* The same once more, for nobody. */
static void send_again(struct simba__delivery *d,
                       const struct simba__box *first)
{
    bool is_late = d->what == SIMBA__FAULT_ECHO;

    d->what = SIMBA__FAULT_NONE;
    d->copy = simba__shim_copy(&first->request);
    if (d->copy == NULL) {
        drop_delivery(d);
        return;
    }
    d->copy->request.is_driven = false;
    if (is_late) {
        d->send_ms = simba_loop_now_ms() + d->late_ms;
        wake_at(d, d->send_ms);
    } else {
        send_copy(d);
    }
}

/* SLOW: the answer is there, and is told later. */
static void keep_answer(struct simba__delivery *d,
                        const struct simba__box *copy,
                        int status,
                        const simba_error *error)
{
    simba__shim_fill(d->request, copy);
    d->is_filled = true;
    d->status = status;
    if (error != NULL) {
        d->error = *error;
    }
    wake_at(d, simba_loop_now_ms() + d->late_ms);
}

static void on_done(struct simba__caller *caller,
                    const struct simba__box *copy,
                    int status,
                    const simba_error *error)
{
    struct simba__delivery *d = (struct simba__delivery *)caller;
    simba_request *request = d->request;

    if (request != NULL && d->what == SIMBA__FAULT_SLOW) {
        keep_answer(d, copy, status, error);
        return;
    }
    if (d->what == SIMBA__FAULT_MUTE) {
        answer(d, SIMBA_EUNKNOWN, "the answer was lost");
    } else if (request != NULL) {
        d->request = NULL;
        simba__shim_answer(request, copy, status, error);
    }
    if (d->what == SIMBA__FAULT_DOUBLE || d->what == SIMBA__FAULT_ECHO) {
        send_again(d, copy);
    } else {
        drop_delivery(d);
    }
}

static void tell_kept(struct simba__delivery *d)
{
    simba_request *request = d->request;

    d->request = NULL;
    simba_request_done(request, d->status, &d->error);
    drop_delivery(d);
}

/* Something is due: an answer that was kept, the end of patience, or a copy
 * that goes off late. */
static void on_timer(simba_timer *timer)
{
    struct simba__delivery *d =
        SIMBA__CONTAINER(timer, struct simba__delivery, timer);

    if (d->is_filled) {
        tell_kept(d);
        return;
    }
    if (d->what == SIMBA__FAULT_LOSE) {
        answer(d, SIMBA_EUNKNOWN, "the request was lost");
        drop_delivery(d);
        return;
    }
    if (simba_loop_now_ms() < d->send_ms) {
        answer(d, SIMBA_EUNKNOWN, "the request is late");
        wake_at(d, d->send_ms);
        return;
    }
    send_copy(d);
}

/* --- submitting ---------------------------------------------------------- */

static void delay(struct simba__delivery *d)
{
    int64_t now_ms = simba_loop_now_ms();

    d->send_ms = now_ms + d->late_ms;
    wake_at(d, d->late_ms < d->left_ms ? d->send_ms : now_ms + d->left_ms);
}

/* What goes off by a timer is not waited for on the caller's thread. */
static void begin(struct simba__delivery *d)
{
    switch (d->what) {
    case SIMBA__FAULT_FAIL:
        answer(d, SIMBA_EUNAVAIL, "failed on purpose");
        drop_delivery(d);
        break;
    case SIMBA__FAULT_LOSE:
        wake_at(d, simba_loop_now_ms() + d->left_ms);
        break;
    case SIMBA__FAULT_DELAY:
        d->copy->request.is_driven = false;
        delay(d);
        break;
    default:
        send_copy(d);
        break;
    }
}

/* Admins ask once and do not retry, so they are spared unless named. */
static bool is_exposed(const struct simba__fault_shim *fault,
                       const simba_request *request)
{
    return fault->options.only == request->kind ||
           (fault->options.only == 0 && request->kind <= SIMBA_READ);
}

static void submit(simba_backend *self, simba_request *request)
{
    struct simba__fault_shim *fault = (struct simba__fault_shim *)self;
    struct simba__delivery *d = make_delivery(fault, request);
    struct simba__fate fate = {SIMBA__FAULT_NONE, 0};

    if (d == NULL) {
        simba__shim_no_memory(request);
        return;
    }
    if (is_exposed(fault, request)) {
        fate = simba__fault_draw(&fault->options, ++fault->op_count);
    }
    fault->counts[fate.fault]++;
    d->what = fate.fault;
    d->late_ms = fate.late_ms;
    begin(d);
}

/* --- life ---------------------------------------------------------------- */

static void detach(simba_backend *self)
{
    struct simba__fault_shim *fault = (struct simba__fault_shim *)self;

    simba__fault_drop_wakes(fault);
    for (struct simba__delivery *d = fault->deliveries; d != NULL;
         d = d->next) {
        simba_timer_clear(self->loop, &d->timer);
    }
}

static void tell_counts(const struct simba__fault_shim *fault)
{
    const uint64_t *n = fault->counts;
    char line[320];

    snprintf(line, sizeof line,
             "of %" PRIu64 " operations %" PRIu64 " failed, %" PRIu64
             " requests and %" PRIu64 " answers were lost, %" PRIu64
             " and %" PRIu64 " late, %" PRIu64 " doubled; of %" PRIu64
             " hints %" PRIu64 " were lost, late or doubled",
             fault->op_count, n[SIMBA__FAULT_FAIL], n[SIMBA__FAULT_LOSE],
             n[SIMBA__FAULT_MUTE], n[SIMBA__FAULT_DELAY], n[SIMBA__FAULT_SLOW],
             n[SIMBA__FAULT_DOUBLE] + n[SIMBA__FAULT_ECHO], fault->wake_count,
             fault->wake_faults);
    fault->log(fault->log_user, SIMBA_LOG_INFO, "fault", line);
}

/* What the inner store still had is answered when it closes. */
static void close_fault(simba_backend *self)
{
    struct simba__fault_shim *fault = (struct simba__fault_shim *)self;

    simba_loop_enter(self->loop);
    for (struct simba__delivery *d = fault->deliveries; d != NULL;
         d = d->next) {
        d->what = SIMBA__FAULT_NONE; /* nothing is sent again */
    }
    simba_loop_leave(self->loop);
    simba__shim_close(&fault->shim);
    simba_loop_enter(self->loop);
    for (struct simba__delivery *d = fault->deliveries, *next; d != NULL;
         d = next) {
        next = d->next;
        answer(d, SIMBA_ECANCELED, "the store was closed");
        free_delivery(d);
    }
    simba_loop_leave(self->loop);
    tell_counts(fault);
    free(fault);
}

static const struct simba__shim_kind kind = {.ops = &simba__fault_ops,
                                             .wake = simba__fault_wake,
                                             .detach = detach};

static int open_fault(const simba_backend_config *config,
                      simba_backend **backend,
                      simba_error *error)
{
    struct simba__fault_shim *fault = calloc(1, sizeof *fault);
    const char *inner_url;
    char *options = NULL;
    int rc;

    *backend = NULL;
    if (fault == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    fault->log = config->log;
    fault->log_user = config->log_user;
    rc = simba__shim_split(config->rest, &options, &inner_url, error);
    if (rc == SIMBA_OK) {
        rc = simba__fault_options_read(&fault->options, options, error);
    }
    if (rc == SIMBA_OK) {
        rc = simba__shim_open(&fault->shim, &kind, config, error);
    }
    free(options);
    if (rc != SIMBA_OK) {
        free(fault);
        return rc;
    }
    *backend = &fault->shim.base;
    return SIMBA_OK;
}

const simba_backend_ops simba__fault_ops = {
    .abi = SIMBA_BACKEND_ABI,
    .scheme = "fault",
    .open = open_fault,
    .submit = submit,
    .close = close_fault,
    .schema = simba__shim_schema,
};
