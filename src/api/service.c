/* Services: a contender whose callbacks run on callback threads. */
#define _GNU_SOURCE
#include <simba/service.h>

#include "api/contender.h"
#include "util/container.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

/* So many changes wait for an on_changed that takes its time. */
enum { CHANGES_MOST = 1000 };

/* One callback on its way to a callback thread. */
struct note {
    struct simba__task task;
    simba_service *service;
    simba_contender_fn call;
    simba_state state;
};

/* For who is told of changes between others. */
struct watch {
    simba_owner seen;    /* what the user was told last */
    _Atomic int changes; /* on their way to on_changed */
};

/* A stop that nobody waits for. */
struct stop {
    struct simba__task task;
    simba_service *service;
    simba_stopped_fn call;
    void *user;
    int status;
};

/* In the place of one that is on its way to a callback thread. */
static struct stop queued;

struct simba_service {
    struct simba__lifecycle lifecycle; /* first: hooks get this */
    struct simba__serial_queue serial_queue;
    void *user;

    /* Changed inside the loop only. */
    struct notes *notes;         /* NULL while it only waits */
    struct watch *watch;         /* NULL: it has no on_changed */
    _Atomic(struct stop *) stop; /* from the asking until it is called */
};

/* Most services of a store have the same, and share them: with the kind, to
 * which each points anyway. */
struct simba__service_callbacks {
    struct simba__contender_kind kind; /* first */
    simba_contender_fn on_acquired, on_released, on_changed;
    size_t services;
};

/* They must be told whatever happens (S9), so there is memory for them before a
 * tenure is asked for. One each will do: the next tenure does not begin before
 * on_released is back, and on_acquired comes before that. */
struct notes {
    struct note acquired, released;
    simba_owner seen; /* what the user was told last, without watch */
    struct simba__contend_tenure tenure; /* the machine's */
};

/* --- callbacks ----------------------------------------------------------- */

static struct simba__service_callbacks *callbacks_of(const simba_service *s)
{
    const void *kind = s->lifecycle.base.contention.hooks;

    return (struct simba__service_callbacks *)(uintptr_t)kind;
}

static void run_acquired(struct simba__task *task)
{
    struct note *note = (struct note *)task;

    if (note->call != NULL) {
        note->call(note->service->user, &note->state);
    }
}

static void run_released(struct simba__task *task)
{
    run_acquired(task);
    simba__contention_returned(
        &((struct note *)task)->service->lifecycle.base.contention);
}

static void run_changed(struct simba__task *task)
{
    struct note *note = (struct note *)task;

    assert(atomic_load(&note->service->watch->changes) > 0);
    run_acquired(task);
    atomic_fetch_sub(&note->service->watch->changes, 1);
    free(note);
}

static void run_stopped(struct simba__task *task)
{
    struct stop stop = *(struct stop *)task;

    free(task);
    atomic_store(&stop.service->stop, NULL); /* it may ask again */
    if (stop.call != NULL) {
        stop.call(stop.user, stop.status);
    }
}

static void push_task(simba_service *s, struct simba__task *task)
{
    simba__serial_queue_push(&s->lifecycle.base.store->pool, &s->serial_queue,
                             task);
}

/* Once for each stop that was asked for: it may be started and stopped again
 * before this is run. */
static void push_stopped(simba_service *s)
{
    push_task(s, &atomic_exchange(&s->stop, &queued)->task);
}

/* Moves what the user knows to `after` and queues the callback. */
static void push_note(simba_service *s,
                      struct note *note,
                      simba_contender_fn call,
                      const simba_owner *after)
{
    simba_owner *seen = s->watch != NULL ? &s->watch->seen : &s->notes->seen;

    assert(simba__loop_is_inside(s->lifecycle.base.store->loop));
    note->service = s;
    note->call = call;
    note->state.before = *seen;
    note->state.after = *after;
    *seen = *after;
    push_task(s, &note->task);
}

/* A change between others; our own are told as acquired and released. Until its
 * lease is over the store names us by a tenure that we know is lost. What there
 * is no room for is told with the next change. */
static void push_change(simba_service *s, const simba_owner *after)
{
    simba_state state = {.before = s->watch->seen, .after = *after};
    struct note *note;

    if (simba_state_is_changed(&state) &&
        !simba_owner_is_owner(
            after, simba__contention_id(&s->lifecycle.base.contention)) &&
        atomic_load(&s->watch->changes) < CHANGES_MOST &&
        (note = calloc(1, sizeof *note)) != NULL) {
        atomic_fetch_add(&s->watch->changes, 1);
        note->task.run = run_changed;
        push_note(s, note, callbacks_of(s)->on_changed, after);
    }
}

/* --- hooks, inside the loop ---------------------------------------------- */

static void told(struct simba__contention *c,
                 const struct simba__contend_update *update)
{
    simba_service *s = (simba_service *)c;
    struct simba__log_entry entry = {.level = SIMBA_LOG_INFO,
                                     .token = update->token};
    const simba_owner *heard = simba__contention_heard(c);
    simba_owner none = simba_owner_none();
    struct stop *stop;

    if (update->tell & SIMBA__TELL_RELEASED) {
        enum simba_cause cause =
            simba__contender_cause(&s->lifecycle.base, update);

        entry.cause = simba_cause_name(cause);
        simba__contender_log(&s->lifecycle.base, entry,
                             "released, token %" PRIu64 ": %s", update->token,
                             simba__cause_text(cause));
        s->notes->released.state.cause = cause;
        push_note(s, &s->notes->released, callbacks_of(s)->on_released, &none);
    } else if (update->tell & SIMBA__TELL_ACQUIRED) {
        simba__contender_log(&s->lifecycle.base, entry,
                             "acquired, token %" PRIu64, update->token);
    }
    if (update->tell & SIMBA__TELL_ACQUIRED) {
        push_note(s, &s->notes->acquired, callbacks_of(s)->on_acquired,
                  heard == NULL ? &none : heard);
    }
    if (update->tell & SIMBA__TELL_OVERRUN) {
        simba__contender_warn(&s->lifecycle.base,
                              "on_released took longer than its budget");
    }
    simba__contender_warn_clock(&s->lifecycle.base, update);
    if (update->tell & SIMBA__TELL_STOPPED) {
        simba__lifecycle_end(&s->lifecycle, update);
        simba__lifecycle_rest(&s->lifecycle);
        stop = atomic_load(&s->stop);
        if (stop != NULL && stop != &queued) {
            stop->status =
                s->lifecycle.is_unreleased ? SIMBA_EUNKNOWN : SIMBA_OK;
            push_stopped(s);
        }
    }
}

static void answered(struct simba__contention *c,
                     const simba_request *request,
                     int status,
                     const simba_error *error)
{
    const simba_owner *heard = simba__contention_heard(c);
    simba_service *s = (simba_service *)c;

    simba__contender_log_answer(&s->lifecycle.base, true, status, error);
    if (status != SIMBA_OK) {
        return;
    }
    if (request->kind == SIMBA_ACQUIRE && !request->reply.mine &&
        s->watch != NULL && heard != NULL) {
        push_change(s, heard);
    }
    if (simba__contention_rests(c)) {
        free(s->notes);
        s->notes = NULL;
        c->core.tenure = NULL;
    }
}

static bool prepare(struct simba__contention *c)
{
    simba_service *s = (simba_service *)c;

    if (s->notes == NULL) {
        s->notes = calloc(1, sizeof *s->notes);
        if (s->notes != NULL) {
            s->notes->acquired.task.run = run_acquired;
            s->notes->released.task.run = run_released;
            c->core.tenure = &s->notes->tenure;
        }
    }
    return s->notes != NULL;
}

/* --- life ---------------------------------------------------------------- */

static void free_service(simba_service *s)
{
    free(s->watch);
    free(s->notes);
    free(s);
}

/* NULL: no memory. Inside the loop. */
static struct simba__service_callbacks *share_callbacks(
    simba_store *store,
    const simba_contender *given)
{
    static const struct simba__contender_kind kind = {
        {.told = told,
         .answered = answered,
         .prepare = prepare,
         .id_at = sizeof(simba_service)},
        "service",
        "callback"};
    struct simba__service_callbacks *shared = store->last_callbacks;

    if (shared == NULL || shared->on_acquired != given->on_acquired ||
        shared->on_released != given->on_released ||
        shared->on_changed != given->on_changed) {
        shared = malloc(sizeof *shared);
        if (shared == NULL) {
            return NULL;
        }
        *shared =
            (struct simba__service_callbacks){.kind = kind,
                                              .on_acquired = given->on_acquired,
                                              .on_released = given->on_released,
                                              .on_changed = given->on_changed};
        shared->kind.hooks.hears_owners = given->on_changed != NULL;
        store->last_callbacks = shared;
    }
    shared->services++;
    return shared;
}

static void unshare_callbacks(simba_store *store,
                              struct simba__service_callbacks *shared)
{
    simba_loop_enter(store->loop);
    if (--shared->services == 0) {
        if (store->last_callbacks == shared) {
            store->last_callbacks = NULL;
        }
        free(shared);
    }
    simba_loop_leave(store->loop);
}

int simba_service_open(simba_store *store,
                       const simba_contender *given,
                       simba_service **out,
                       simba_error *error)
{
    simba_contender contender = SIMBA_CONTENDER_INIT;
    struct simba__service_callbacks *callbacks;
    struct simba__contender *base;
    simba_service *s;
    const struct simba__given take = {given, "SIMBA_CONTENDER_INIT", &contender,
                                      sizeof contender,
                                      offsetof(simba_contender, reserved)};
    int rc = simba__given_take(store, &take, error);

    *out = NULL;
    if (rc != SIMBA_OK) {
        return rc;
    }
    simba_loop_enter(store->loop);
    callbacks = share_callbacks(store, &contender);
    simba_loop_leave(store->loop);
    if (callbacks == NULL) {
        return simba__fail_memory(error);
    }
    rc = simba__contender_make(&callbacks->kind, contender.id, &base, error);
    if (rc != SIMBA_OK) {
        unshare_callbacks(store, callbacks);
        return rc;
    }
    s = (simba_service *)base;
    s->user = contender.user;
    simba__serial_queue_init(&s->serial_queue);
    s->watch =
        contender.on_changed == NULL ? NULL : calloc(1, sizeof *s->watch);
    rc = contender.on_changed != NULL && s->watch == NULL
             ? simba__fail_memory(error)
             : simba__contender_open(base, store, &contender, error);
    if (rc != SIMBA_OK) {
        free_service(s);
        unshare_callbacks(store, callbacks);
        return rc;
    }
    *out = s;
    return SIMBA_OK;
}

int simba_service_start(simba_service *s, simba_error *error)
{
    return simba__lifecycle_start(&s->lifecycle, error);
}

int simba_service_stop(simba_service *s, simba_error *error)
{
    struct simba__callback_pool *pool = &s->lifecycle.base.store->pool;
    int rc = simba__lifecycle_stop(
        &s->lifecycle, &s->serial_queue,
        simba__serial_queue_is_mine(&s->serial_queue), error);

    if (rc == SIMBA_OK || rc == SIMBA_EUNKNOWN) {
        simba__callback_pool_block(pool);
        simba__serial_queue_wait(pool, &s->serial_queue);
        simba__callback_pool_unblock(pool);
    }
    return rc;
}

int simba_service_stop_async(simba_service *s,
                             simba_stopped_fn on_stopped,
                             void *user,
                             simba_error *error)
{
    int rc = simba__store_check(s->lifecycle.base.store, error);
    struct stop *stop = rc == SIMBA_OK ? malloc(sizeof *stop) : NULL;

    if (rc != SIMBA_OK) {
        return rc;
    }
    if (stop == NULL) {
        return simba__fail_memory(error);
    }
    *stop = (struct stop){.task.run = run_stopped,
                          .service = s,
                          .call = on_stopped,
                          .user = user};
    simba_loop_enter(s->lifecycle.base.store->loop);
    if (atomic_load(&s->stop) != NULL) {
        rc = simba_error_set(
            error, SIMBA_EMISUSE, 0, "%s: the service is told to stop already",
            simba__contention_mutex(&s->lifecycle.base.contention));
    } else {
        atomic_store(&s->stop, stop); /* it may stop in the asking */
        stop = NULL;
        if (!simba__lifecycle_ask_stop(&s->lifecycle)) {
            push_stopped(s);
        }
    }
    simba_loop_leave(s->lifecycle.base.store->loop);
    free(stop);
    return rc;
}

void simba_service_close(simba_service *s)
{
    struct simba__service_callbacks *callbacks;

    if (s == NULL) {
        return;
    }
    callbacks = callbacks_of(s);
    if (!simba__contender_may_close(
            &s->lifecycle.base,
            simba__serial_queue_is_mine(&s->serial_queue))) {
        free_service(s);
        return;
    }
    simba__contender_close(&s->lifecycle.base, simba_service_stop(s, NULL));
    unshare_callbacks(s->lifecycle.base.store, callbacks);
    free_service(s);
}

/* --- questions ----------------------------------------------------------- */

bool simba_service_is_owner(const simba_service *s)
{
    return simba__contention_is_owner(&s->lifecycle.base.contention);
}

uint64_t simba_service_token(const simba_service *s)
{
    return simba__contention_token(&s->lifecycle.base.contention);
}

int simba_service_hand_over(simba_service *s,
                            const char *to,
                            simba_error *error)
{
    int rc = simba__contender_may_hand_over(&s->lifecycle.base, to, error);

    if (rc == SIMBA_OK) {
        simba_loop_enter(s->lifecycle.base.store->loop);
        rc = simba__contender_hand_over(&s->lifecycle.base, to, error);
        simba_loop_leave(s->lifecycle.base.store->loop);
    }
    return rc;
}

enum simba_service_status simba_service_status(const simba_service *s)
{
    return simba__lifecycle_status(&s->lifecycle);
}

void simba_service_progress(simba_service *s)
{
    simba__contention_progress(&s->lifecycle.base.contention);
}
