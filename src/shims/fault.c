/* The fault shim: `fault:seed=7,lose=5,…:INNER-URL`. It does to requests and
 * wake-ups what networks and servers do: loses, delays, reorders, doubles,
 * fails. What it does to which is a function of its seed. */
#define _GNU_SOURCE
#include "core/rng.h"
#include "kit/parameters.h"
#include "shims/shim.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PERCENT = 100, LATE_DEFAULT_MS = 30, LATE_MOST_MS = 3600000 };

/* Wake-ups have a stream of their own, or their number would change the fate of
 * requests. */
#define WAKE_STREAM UINT64_C(0x68696e7400000000)

enum fault {
    FAULT_NONE,
    FAULT_FAIL,   /* refused, surely without effect */
    FAULT_LOSE,   /* the request never arrives */
    FAULT_MUTE,   /* it arrives, the reply does not */
    FAULT_DELAY,  /* the request arrives later, others pass it */
    FAULT_SLOW,   /* the reply comes later */
    FAULT_DOUBLE, /* it is carried out twice */
    FAULT_ECHO,   /* and the second time late */
    FAULT_KINDS
};

struct options {
    uint64_t seed;
    /* Percent of requests. `lose` is half requests, half replies; `delay`
     * likewise. */
    int lose, delay, twice, fail, echo;
    int wake_lose, wake_late, wake_double; /* percent of wake-ups */
    int late_ms;                           /* the longest delay */
    uint64_t nth; /* only the n-th request, from 1; 0: off */
    int as;       /* enum fault: what befalls the n-th */
    int only;     /* simba_request_kind; 0: all of the contention */
};

/* What befalls one. */
struct fate {
    enum fault fault;
    int64_t late_ms; /* for those that are late, from 1 */
};

struct fault_shim {
    struct simba__shim shim;
    struct options options;
    struct pending *pending; /* requests not yet at their end */
    struct late_wake *wakes; /* not yet passed on */
    uint64_t request_count, wake_count;
    uint64_t counts[FAULT_KINDS]; /* of requests */
    uint64_t wake_faults;
};

/* A copy of a request that goes to the inner store, and the request that is
 * answered for it. The two part when a reply is lost, or comes after the
 * deadline; the copy lives on and may yet take effect (S8). */
struct pending {
    struct simba__caller caller; /* of the copy */
    simba_timer timer;
    struct fault_shim *fault;
    struct pending *next;
    simba_request *request; /* to be answered; NULL: it was */
    struct simba__pending
        *copy; /* to be sent; NULL: it was, or never will be */
    struct fate fate;
    int64_t left_ms; /* from the submission to the deadline */
    int64_t send_ms; /* DELAY: when the copy goes off */
    bool is_filled;  /* SLOW: `request` has its reply, and waits */
    int status;
    simba_error error;
};

struct late_wake {
    simba_timer timer;
    struct fault_shim *fault;
    struct late_wake *next;
    bool is_any;
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
};

/* --- options ------------------------------------------------------------- */

#define OFFSET(member) offsetof(struct options, member)
#define RATE(name, member, help)                                               \
    {                                                                          \
        name, SIMBA__PARAMETER_INT, OFFSET(member), NULL, PERCENT, help        \
    }

static const struct simba__parameter parameters[] = {
    {"seed", SIMBA__PARAMETER_U64, OFFSET(seed), NULL, UINT64_MAX,
     "which of the streams of chance"},
    RATE("lose", lose, "percent of requests or replies that never arrive"),
    RATE("delay", delay, "percent that arrive late"),
    RATE("double", twice, "percent that are carried out twice"),
    RATE("fail", fail, "percent that are refused"),
    RATE("echo", echo, "percent that are carried out again later"),
    RATE("wake_lose", wake_lose, "percent of wake-ups that never arrive"),
    RATE("wake_late", wake_late, "percent that arrive late"),
    RATE("wake_double", wake_double, "percent that arrive twice"),
    {"late", SIMBA__PARAMETER_INT, OFFSET(late_ms), NULL, LATE_MOST_MS,
     "the longest delay in milliseconds"},
    {"nth", SIMBA__PARAMETER_U64, OFFSET(nth), NULL, UINT64_MAX,
     "only this request, from 1"},
    {"as", SIMBA__PARAMETER_CHOICE, OFFSET(as),
     "none fail lose mute delay slow double echo", 0, "what befalls it"},
    {"only", SIMBA__PARAMETER_CHOICE, OFFSET(only),
     "all acquire renew release leave read list break doctor init", 0,
     "requests of this kind"},
    {0}};

static const struct simba__url_form form = {.store = "fault",
                                            .example =
                                                "fault:seed=7,lose=5:URL",
                                            .parameters = parameters,
                                            .separator = ','};

/* Reads "seed=7,lose=5,…"; `text` is torn apart. */
static int read_options(struct simba__shim *shim,
                        char *text,
                        simba_error *error)
{
    struct options *options = &((struct fault_shim *)shim)->options;
    bool is_chosen = false; /* does the text say how often, or when? */
    int rc;

    *options = (struct options){.late_ms = LATE_DEFAULT_MS, .as = FAULT_FAIL};
    for (const struct simba__parameter *p = parameters; p->name != NULL; p++) {
        const char *at = strstr(text, p->name);

        is_chosen |= at != NULL && at[strlen(p->name)] == '=' &&
                     (p->most == PERCENT || strcmp(p->name, "nth") == 0);
    }
    if (!is_chosen) {
        options->lose = options->twice = options->fail = 5;
        options->delay = options->wake_lose = 10;
        options->wake_late = options->wake_double = 10;
    }
    rc = simba__parameters_read(&form, text, options, error);
    options->late_ms = options->late_ms == 0 ? 1 : options->late_ms;
    if (rc == SIMBA_OK &&
        (options->lose + options->delay + options->twice + options->fail +
                 options->echo >
             PERCENT ||
         options->wake_lose + options->wake_late + options->wake_double >
             PERCENT)) {
        rc = simba_error_set(error, SIMBA_EINVAL, 0,
                             "fault: more than 100 percent altogether");
    }
    return rc;
}

/* --- drawing ------------------------------------------------------------- */

/* The fate of the n-th request, or of the n-th wake-up, from 1. Of a wake-up it
 * is NONE, LOSE, DELAY or DOUBLE (and late). */
static struct fate draw(const struct options *options, uint64_t n, bool is_wake)
{
    const int of_request[] = {options->lose, options->delay, options->twice,
                              options->fail, options->echo};
    const int of_wake[] = {options->wake_lose, options->wake_late,
                           options->wake_double, 0, 0};
    const int *percents = is_wake ? of_wake : of_request;
    enum fault faults[] = {FAULT_LOSE, FAULT_DELAY, FAULT_DOUBLE, FAULT_FAIL,
                           FAULT_ECHO};
    struct fate fate = {.fault = FAULT_NONE};
    struct simba__rng rng;
    int roll;

    assert(n > 0 && options->late_ms > 0);
    simba__rng_seed(&rng, (options->seed * UINT64_C(0x9e3779b97f4a7c15) + n) ^
                              (is_wake ? WAKE_STREAM : 0));
    roll = (int)simba__rng_below(&rng, PERCENT);
    if (!is_wake && simba__rng_below(&rng, 2) != 0) {
        faults[0] = FAULT_MUTE; /* the reply, not the request */
        faults[1] = FAULT_SLOW;
    }
    for (size_t i = 0; i < 5 && fate.fault == FAULT_NONE; i++) {
        fate.fault = roll < percents[i] ? faults[i] : FAULT_NONE;
        roll -= percents[i];
    }
    if (!is_wake && n == options->nth) {
        fate.fault = (enum fault)options->as;
    }
    fate.late_ms =
        1 + (int64_t)simba__rng_below(&rng, (uint64_t)options->late_ms);
    return fate;
}

/* --- requests, inside the loop ------------------------------------------- */

static void free_pending(struct pending *p)
{
    simba_timer_clear(p->fault->shim.base.loop, &p->timer);
    simba__request_free(p->copy);
    free(p);
}

static void drop(struct pending *p)
{
    struct pending **other = &p->fault->pending;

    while (*other != p) {
        assert(*other != NULL);
        other = &(*other)->next;
    }
    *other = p->next;
    free_pending(p);
}

static void wake_at(struct pending *p, int64_t at_ms)
{
    simba_timer_set(p->fault->shim.base.loop, &p->timer, at_ms);
}

/* The last word to who asked; the copy may still be under way. */
static void fail(struct pending *p, int status, const char *words)
{
    simba_request *request = p->request;
    simba_error error;

    if (request != NULL) {
        p->request = NULL;
        simba_request_done(
            request, simba_error_set(&error, status, 0, "fault: %s", words),
            &error);
    }
}

static void send_copy(struct pending *p)
{
    struct simba__pending *copy = p->copy;

    assert(copy != NULL);
    p->copy = NULL;
    /* A store does not know for how long its client waits. */
    copy->request.deadline_ms = simba_loop_now_ms() + p->left_ms;
    simba__request_send(copy, &p->caller, p->fault->shim.inner);
}

/* The same once more, for nobody. */
static void send_again(struct pending *p, const struct simba__pending *first)
{
    bool is_late = p->fate.fault == FAULT_ECHO;

    assert(p->copy == NULL && p->request == NULL);
    p->fate.fault = FAULT_NONE;
    p->copy = simba__request_make(&first->request);
    if (p->copy == NULL) {
        drop(p);
        return;
    }
    p->copy->request.is_driven = false;
    if (is_late) {
        p->send_ms = simba_loop_now_ms() + p->fate.late_ms;
        wake_at(p, p->send_ms);
    } else {
        send_copy(p);
    }
}

static void on_done(struct simba__caller *caller,
                    const struct simba__pending *copy,
                    int status,
                    const simba_error *error)
{
    struct pending *p = (struct pending *)caller;
    simba_request *request = p->request;
    enum fault fault = p->fate.fault;

    assert(p->copy == NULL && !p->is_filled);
    if (request != NULL && fault == FAULT_SLOW) {
        simba__shim_fill(request, copy); /* it is there, and is told later */
        p->is_filled = true;
        p->status = status;
        if (error != NULL) {
            p->error = *error;
        }
        wake_at(p, simba_loop_now_ms() + p->fate.late_ms);
        return;
    }
    if (fault == FAULT_MUTE) {
        fail(p, SIMBA_EUNKNOWN, "the answer was lost");
    } else if (request != NULL) {
        p->request = NULL;
        simba__shim_fill(request, copy);
        simba_request_done(request, status, error);
    }
    if (fault == FAULT_DOUBLE || fault == FAULT_ECHO) {
        send_again(p, copy);
    } else {
        drop(p);
    }
}

/* Something is due: a reply that was kept, the end of patience, or a copy that
 * goes off late. */
static void on_timer(simba_timer *timer)
{
    struct pending *p = container_of(timer, struct pending, timer);
    simba_request *request = p->request;

    if (p->is_filled) {
        p->request = NULL;
        simba_request_done(request, p->status, &p->error);
        drop(p);
    } else if (p->fate.fault == FAULT_LOSE) {
        fail(p, SIMBA_EUNKNOWN, "the request was lost");
        drop(p);
    } else if (simba_loop_now_ms() < p->send_ms) {
        fail(p, SIMBA_EUNKNOWN, "the request is late");
        wake_at(p, p->send_ms);
    } else {
        send_copy(p);
    }
}

static void submit(simba_backend *self, simba_request *request)
{
    struct fault_shim *fault = (struct fault_shim *)self;
    struct pending *p = calloc(1, sizeof *p);
    int64_t now_ms = simba_loop_now_ms();

    if (p == NULL || (p->copy = simba__request_make(request)) == NULL) {
        free(p);
        simba__shim_no_memory(request);
        return;
    }
    p->caller.done = on_done;
    p->timer.fire = on_timer;
    p->fault = fault;
    p->request = request;
    p->left_ms = request->deadline_ms - now_ms;
    p->next = fault->pending;
    fault->pending = p;
    /* Admins ask once and do not retry, so they are spared unless named. */
    if (fault->options.only == (int)request->kind ||
        (fault->options.only == 0 && request->kind <= SIMBA_READ)) {
        p->fate = draw(&fault->options, ++fault->request_count, false);
    }
    fault->counts[p->fate.fault]++;
    switch (p->fate.fault) {
    case FAULT_FAIL:
        fail(p, SIMBA_EUNAVAIL, "failed on purpose");
        drop(p);
        break;
    case FAULT_LOSE:
        wake_at(p, now_ms + p->left_ms);
        break;
    case FAULT_DELAY:
        /* What goes off by a timer is not waited for on the caller's thread. */
        p->copy->request.is_driven = false;
        p->send_ms = now_ms + p->fate.late_ms;
        wake_at(p, p->fate.late_ms < p->left_ms ? p->send_ms
                                                : now_ms + p->left_ms);
        break;
    default:
        send_copy(p);
        break;
    }
}

/* --- wake-ups, inside the loop ------------------------------------------- */

static void pass_late(simba_timer *timer)
{
    struct late_wake *wake = container_of(timer, struct late_wake, timer);
    struct simba__shim *shim = &wake->fault->shim;
    struct late_wake **other = &wake->fault->wakes;

    while (*other != wake) {
        other = &(*other)->next;
    }
    *other = wake->next;
    simba__wake_pass(shim->base.loop, &shim->filter,
                     wake->is_any ? NULL : wake->mutex);
    free(wake);
}

static void on_wake(struct simba__wake_filter *filter, const char *mutex)
{
    struct simba__shim *shim = container_of(filter, struct simba__shim, filter);
    struct fault_shim *fault = (struct fault_shim *)shim;
    struct fate fate = draw(&fault->options, ++fault->wake_count, true);
    bool is_late = fate.fault == FAULT_DELAY || fate.fault == FAULT_DOUBLE;
    struct late_wake *wake = is_late ? calloc(1, sizeof *wake) : NULL;

    fault->wake_faults += fate.fault != FAULT_NONE;
    if (wake != NULL) { /* without memory it is lost, which does no harm (S7) */
        wake->fault = fault;
        wake->timer.fire = pass_late;
        wake->is_any = mutex == NULL;
        if (mutex != NULL) {
            memcpy(wake->mutex, mutex, strlen(mutex) + 1);
        }
        wake->next = fault->wakes;
        fault->wakes = wake;
        simba_timer_set(shim->base.loop, &wake->timer,
                        simba_loop_now_ms() + fate.late_ms);
    }
    if (fate.fault == FAULT_NONE || fate.fault == FAULT_DOUBLE) {
        simba__wake_pass(shim->base.loop, filter, mutex);
    }
}

/* --- life ---------------------------------------------------------------- */

static void detach(simba_backend *self)
{
    struct fault_shim *fault = (struct fault_shim *)self;

    assert(simba__loop_is_inside(self->loop));
    while (fault->wakes != NULL) {
        struct late_wake *wake = fault->wakes;

        fault->wakes = wake->next;
        simba_timer_clear(self->loop, &wake->timer);
        free(wake);
    }
    for (struct pending *p = fault->pending; p != NULL; p = p->next) {
        simba_timer_clear(self->loop, &p->timer);
        p->fate.fault = FAULT_NONE; /* nothing is sent again */
    }
}

/* What the inner store still had was answered when it closed. */
static void closed(struct simba__shim *shim, bool was_open)
{
    struct fault_shim *fault = (struct fault_shim *)shim;
    const uint64_t *n = fault->counts;
    char line[320];

    if (!was_open) {
        return;
    }
    simba_loop_enter(shim->base.loop);
    for (struct pending *p = fault->pending, *next; p != NULL; p = next) {
        next = p->next;
        fail(p, SIMBA_ECANCELED, "the store was closed");
        free_pending(p);
    }
    simba_loop_leave(shim->base.loop);
    snprintf(line, sizeof line,
             "of %" PRIu64 " requests %" PRIu64 " failed, %" PRIu64
             " and %" PRIu64 " replies were lost, %" PRIu64 " and %" PRIu64
             " late, %" PRIu64 " doubled; of %" PRIu64 " wake-ups %" PRIu64
             " were lost, late or doubled",
             fault->request_count, n[FAULT_FAIL], n[FAULT_LOSE], n[FAULT_MUTE],
             n[FAULT_DELAY], n[FAULT_SLOW], n[FAULT_DOUBLE] + n[FAULT_ECHO],
             fault->wake_count, fault->wake_faults);
    shim->log(shim->log_user, SIMBA_LOG_INFO, "fault", line);
}

const struct simba__shim_kind simba__fault_kind = {
    "fault",          sizeof(struct fault_shim), read_options,    on_wake,
    .submit = submit, .closed = closed,          .detach = detach};
