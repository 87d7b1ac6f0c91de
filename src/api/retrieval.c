/* Retrieval services: the observation machine on the loop, its user's callback
 * on a callback thread. */
#define _GNU_SOURCE
#include <simba/retrieval.h>

#include "api/contender.h"
#include "core/observe.h"
#include "runtime/request.h"
#include "util/container.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_POLL_MS = 1000 };

/* So many changes wait for a callback that takes its time; further ones are a
 * gap. */
enum { NOTES_MOST = 1000 };

/* The core does not know of backends. */
_Static_assert(SIMBA_ENDED_UNKNOWN == SIMBA__ENDED_UNKNOWN,
               "what a store does not know is called by two names");

struct simba_retrieval {
    simba_store *store;
    struct simba__observe machine; /* inside the loop */
    struct simba__caller caller;
    simba_timer timer;
    struct simba__subscriber subscriber;
    struct simba__serial_queue serial_queue;
    simba_contender_fn on_changed;
    void *user;
    char *mutex;

    /* Inside the loop: what the user was told last, and what not yet. */
    simba_owner told;
    bool is_behind, has_gap;
    _Atomic int notes;                 /* on their way to the callback */
    _Atomic bool is_started, is_heard; /* changed inside the loop */
};

struct owner_note {
    struct simba__task task;
    simba_retrieval *retrieval;
    simba_state state;
};

/* --- inside the loop ----------------------------------------------------- */

static void run_note(struct simba__task *task)
{
    struct owner_note *note = (struct owner_note *)task;

    assert(atomic_load(&note->retrieval->notes) > 0);
    note->retrieval->on_changed(note->retrieval->user, &note->state);
    atomic_fetch_sub(&note->retrieval->notes, 1);
    free(note);
}

static void feed(simba_retrieval *r, struct simba__observe_event event)
{
    struct simba__observe_update update;
    struct simba__pending *pending;
    struct owner_note *note = NULL;

    assert(simba__loop_is_inside(r->store->loop));
    event.now_ms = simba_loop_now_ms();
    simba__observe_step(&r->machine, &event, &update);
    atomic_store(&r->is_heard, r->machine.is_heard);
    simba_timer_set(r->store->loop, &r->timer,
                    simba__observe_wake_at(&r->machine));
    /* What there is no room for is told with the next step, which the next poll
     * makes at the latest; what came in between is then a gap. */
    if (update.changed) {
        r->has_gap = r->has_gap || update.has_gap || r->is_behind;
        r->is_behind = true;
    }
    if (r->is_behind && atomic_load(&r->notes) < NOTES_MOST) {
        note = calloc(1, sizeof *note);
    }
    if (note != NULL) {
        atomic_fetch_add(&r->notes, 1);
        note->task.run = run_note;
        note->retrieval = r;
        note->state.before = r->told;
        note->state.after = r->machine.seen;
        note->state.has_gap = r->has_gap;
        r->told = r->machine.seen;
        r->is_behind = r->has_gap = false;
        simba__serial_queue_push(&r->store->pool, &r->serial_queue,
                                 &note->task);
    }
    if (!update.read) {
        return;
    }
    pending = simba__request_make(
        &(simba_request){.kind = SIMBA_READ,
                         .mutex = r->mutex,
                         .seq = update.seq,
                         .deadline_ms = r->machine.now_ms + update.timeout_ms});
    if (pending != NULL) {
        simba__request_send(pending, &r->caller, r->store->backend);
    } else {
        feed(r, (struct simba__observe_event){.type = SIMBA__OBSERVE_FAILED,
                                              .seq = update.seq});
    }
}

static void done(struct simba__caller *caller,
                 const struct simba__pending *pending,
                 int status,
                 const simba_error *error)
{
    simba_retrieval *r = container_of(caller, simba_retrieval, caller);
    struct simba__observe_event event = {
        .type = SIMBA__OBSERVE_FAILED,
        .seq = pending->request.seq,
        .owner = &pending->request.reply.owner,
        .ended = pending->request.reply.ended,
        .serial = pending->request.reply.serial,
        .next_serial = pending->request.reply.next_serial};

    if (status == SIMBA_OK) {
        event.type = SIMBA__OBSERVE_READ;
    } else {
        simba__store_log(r->store, SIMBA_LOG_WARN, "retrieval", "%s: %s",
                         r->mutex, simba__error_text(status, error));
    }
    feed(r, event);
}

static void on_timer(simba_timer *timer)
{
    feed(container_of(timer, simba_retrieval, timer),
         (struct simba__observe_event){.type = SIMBA__OBSERVE_TIMER});
}

static void on_wake(struct simba__subscriber *subscriber)
{
    feed(container_of(subscriber, simba_retrieval, subscriber),
         (struct simba__observe_event){.type = SIMBA__OBSERVE_WAKE});
}

static void on_observed(struct simba__subscriber *subscriber,
                        const simba_owner *owner,
                        uint64_t ended)
{
    struct simba__observe_event event = {
        .type = SIMBA__OBSERVE_PUSHED, .owner = owner, .ended = ended};

    if (owner == NULL) {
        event.type = SIMBA__OBSERVE_WAKE;
    }
    feed(container_of(subscriber, simba_retrieval, subscriber), event);
}

/* It does not wait in the queue. */
/* --- life ---------------------------------------------------------------- */

static void free_retrieval(simba_retrieval *r)
{
    free(r->mutex);
    free(r);
}

int simba_retrieval_open(simba_store *store,
                         const simba_retriever *given,
                         simba_retrieval **out,
                         simba_error *error)
{
    simba_retriever retriever = SIMBA_RETRIEVER_INIT;
    simba_retrieval *r;
    bool is_added;
    const struct simba__given take = {given, "SIMBA_RETRIEVER_INIT", &retriever,
                                      sizeof retriever};
    int rc = simba__given_take(store, &take, error);

    *out = NULL;
    if (rc == SIMBA_OK) {
        rc = simba__config_mutex(retriever.mutex, error);
    }
    if (rc == SIMBA_OK && retriever.on_changed == NULL) {
        rc = simba_error_set(error, SIMBA_EINVAL, 0,
                             "a retriever needs on_changed");
    }
    if (rc == SIMBA_OK &&
        (retriever.poll_ms < 0 || retriever.poll_ms > SIMBA__LEASE_MOST_MS)) {
        rc = simba_error_set(error, SIMBA_EINVAL, 0,
                             "poll_ms is negative or too long");
    }
    if (rc != SIMBA_OK) {
        return rc;
    }
    r = calloc(1, sizeof *r);
    if (r == NULL || (r->mutex = strdup(retriever.mutex)) == NULL) {
        free(r);
        return simba__fail_memory(error);
    }
    r->store = store;
    r->on_changed = retriever.on_changed;
    r->user = retriever.user;
    r->caller.done = done;
    r->timer.fire = on_timer;
    r->subscriber.wake = on_wake;
    r->subscriber.observed = on_observed;
    simba__serial_queue_init(&r->serial_queue);
    simba__observe_init(
        &r->machine,
        retriever.poll_ms == 0 ? DEFAULT_POLL_MS : retriever.poll_ms,
        (store->backend->ops->capabilities & SIMBA_TELLS_ENDED) != 0);
    simba_loop_enter(store->loop);
    is_added = simba__subscriber_add(store->loop, &r->subscriber, r->mutex);
    simba_loop_leave(store->loop);
    if (!is_added) {
        free_retrieval(r);
        return simba__fail_memory(error);
    }
    atomic_fetch_add(&store->handles, 1);
    *out = r;
    return SIMBA_OK;
}

int simba_retrieval_start(simba_retrieval *r, simba_error *error)
{
    int rc = simba__store_check(r->store, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    simba_loop_enter(r->store->loop);
    if (atomic_load(&r->is_started)) {
        rc = simba_error_set(error, SIMBA_EMISUSE, 0,
                             "%s: the retrieval is started already", r->mutex);
    } else {
        atomic_store(&r->is_started, true);
        simba__subscribe(r->store->loop, &r->subscriber,
                         SIMBA_SUBSCRIBE_OBSERVE);
        r->told = simba_owner_none();
        r->is_behind = r->has_gap = false;
        feed(r, (struct simba__observe_event){.type = SIMBA__OBSERVE_START});
    }
    simba_loop_leave(r->store->loop);
    return rc;
}

int simba_retrieval_stop(simba_retrieval *r, simba_error *error)
{
    int rc = simba__store_check(r->store, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    if (simba__serial_queue_is_mine(&r->serial_queue)) {
        return simba_error_set(error, SIMBA_EMISUSE, 0,
                               "%s: stop was called from its own callback",
                               r->mutex);
    }
    simba_loop_enter(r->store->loop);
    if (atomic_load(&r->is_started)) {
        feed(r, (struct simba__observe_event){.type = SIMBA__OBSERVE_STOP});
        simba__subscribe(r->store->loop, &r->subscriber, SIMBA_SUBSCRIBE_NONE);
        atomic_store(&r->is_started, false);
    }
    simba_loop_leave(r->store->loop);
    simba__callback_pool_block(&r->store->pool);
    simba__serial_queue_wait(&r->store->pool, &r->serial_queue);
    simba__callback_pool_unblock(&r->store->pool);
    return SIMBA_OK;
}

enum simba_service_status simba_retrieval_status(simba_retrieval *r)
{
    if (!atomic_load(&r->is_started)) {
        return SIMBA_INITIAL;
    }
    return atomic_load(&r->is_heard) ? SIMBA_RUNNING : SIMBA_STARTING;
}

void simba_retrieval_close(simba_retrieval *r)
{
    if (r == NULL) {
        return;
    }
    if (simba__is_forked(r->store->mark)) {
        free_retrieval(r);
        return;
    }
    if (simba__serial_queue_is_mine(&r->serial_queue)) {
        fputs("simba: a retrieval was closed by its own callback\n", stderr);
        abort();
    }
    if (simba_retrieval_stop(r, NULL) == SIMBA_OK) {
        simba_loop_enter(r->store->loop);
        simba_timer_clear(r->store->loop, &r->timer);
        simba__subscriber_remove(r->store->loop, &r->subscriber);
        simba__caller_leave(&r->caller);
        simba_loop_leave(r->store->loop);
    }
    atomic_fetch_sub(&r->store->handles, 1);
    free_retrieval(r);
}
