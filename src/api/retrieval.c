/* Retrieval services: the observation machine on the loop, its user's callback
 * on a callback thread. */
#define _GNU_SOURCE
#include <simba/retrieval.h>

#include "api/contender.h"
#include "core/observe.h"
#include "runtime/request.h"
#include "util/array.h"
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
    struct simba__observer observer;
    struct simba__serial_queue serial_queue;
    simba_contender_fn on_changed;
    void *user;
    char *mutex;

    /* Inside the loop: what the user was told last, what the machine has seen,
     * and whether these differ. */
    struct simba__owners told, seen;
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

/* A note for each tenure that has begun or ended. What there is no room for is
 * told with the next step, which the next poll makes at the latest; what came
 * in between is then a gap. */
static void tell(simba_retrieval *r)
{
    while (r->is_behind && atomic_load(&r->notes) < NOTES_MOST &&
           simba__array_reserve(&r->told.all, &r->told.room, r->seen.count + 1,
                                sizeof *r->told.all)) {
        struct owner_note *note = calloc(1, sizeof *note);
        simba_state *state;

        if (note == NULL) {
            return;
        }
        state = &note->state;
        r->is_behind = simba__owners_step(&r->told, &r->seen, &state->before,
                                          &state->after);
        if (!r->is_behind && !r->has_gap) {
            free(note);
            return;
        }
        if (!r->is_behind && r->told.count > 0) { /* the gap is all there is */
            state->before = state->after = r->told.all[0];
        }
        state->owned = (uint32_t)r->told.count;
        state->has_gap = r->has_gap;
        r->has_gap = false;
        atomic_fetch_add(&r->notes, 1);
        note->task.run = run_note;
        note->retrieval = r;
        simba__serial_queue_push(&r->store->pool, &r->serial_queue,
                                 &note->task);
    }
}

/* The event's owners are ours from now on. */
static void feed(simba_retrieval *r, struct simba__observe_event event)
{
    struct simba__observe_update update;
    struct simba__pending *pending;

    assert(simba__loop_is_inside(r->store->loop));
    event.now_ms = simba_loop_now_ms();
    simba__observe_step(&r->machine, &event, &update);
    atomic_store(&r->is_heard, r->machine.is_heard);
    simba_timer_set(r->store->loop, &r->timer,
                    simba__observe_wake_at(&r->machine));
    if (update.changed) {
        r->has_gap = r->has_gap || update.has_gap || r->is_behind;
        r->is_behind = true;
        free(r->seen.all);
        r->seen.all = (simba_owner *)event.owners;
        r->seen.count = event.owner_count;
    } else {
        free((void *)event.owners);
    }
    tell(r);
    if (!update.read) {
        return;
    }
    pending = simba__request_make(
        &(simba_request){.kind = SIMBA_READ,
                         .mutex = r->mutex,
                         .seq = update.seq,
                         .want_queue = update.wants_all,
                         .deadline_ms = r->machine.now_ms + update.timeout_ms});
    if (pending != NULL) {
        simba__request_send(pending, &r->caller, r->store->backend);
    } else {
        feed(r, (struct simba__observe_event){.type = SIMBA__OBSERVE_FAILED,
                                              .seq = update.seq});
    }
}

static int compare_tokens(const void *a, const void *b)
{
    uint64_t one = ((const simba_owner *)a)->token;
    uint64_t other = ((const simba_owner *)b)->token;

    return (one > other) - (one < other);
}

/* The one owner, or all if there are several, for an event. False: no memory.
 */
static bool take_owners(struct simba__observe_event *event,
                        const simba_owner *owner,
                        const simba_report *report)
{
    size_t count = report == NULL ? 0 : simba_report_owner_count(report);
    simba_owner *owners;

    if (count == 0 && owner->id[0] == '\0') {
        return true;
    }
    owners = calloc(count + (count == 0), sizeof *owners);
    if (owners == NULL) {
        return false;
    }
    owners[0] = *owner;
    for (size_t i = 0; i < count; i++) {
        owners[i] = *simba_report_owner_at(report, i);
    }
    event->owner_count = count + (count == 0);
    qsort(owners, event->owner_count, sizeof *owners, compare_tokens);
    event->owners = owners;
    return true;
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
        .owned = pending->request.reply.owned,
        .ended = pending->request.reply.ended,
        .serial = pending->request.reply.serial,
        .next_serial = pending->request.reply.next_serial};

    if (status == SIMBA_OK) {
        event.type =
            take_owners(&event, &pending->request.reply.owner, pending->report)
                ? SIMBA__OBSERVE_READ
                : SIMBA__OBSERVE_FAILED;
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

static void on_wake(simba_timer *place)
{
    feed(container_of(place, simba_retrieval, observer.subscriber.place),
         (struct simba__observe_event){.type = SIMBA__OBSERVE_WAKE});
}

static void on_observed(struct simba__observer *observer,
                        const simba_owner *owner,
                        uint64_t ended)
{
    struct simba__observe_event event = {.type = SIMBA__OBSERVE_PUSHED,
                                         .ended = ended};

    if (owner == NULL || !take_owners(&event, owner, NULL)) {
        event.type = SIMBA__OBSERVE_WAKE;
    }
    feed(container_of(observer, simba_retrieval, observer), event);
}

/* --- life ---------------------------------------------------------------- */

static void free_retrieval(simba_retrieval *r)
{
    free(r->told.all);
    free(r->seen.all);
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
                                      sizeof retriever, 0};
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
    r->observer.subscriber.place.fire = on_wake;
    r->observer.observed = on_observed;
    simba__serial_queue_init(&r->serial_queue);
    simba__observe_init(
        &r->machine,
        retriever.poll_ms == 0 ? DEFAULT_POLL_MS : retriever.poll_ms,
        (store->backend->ops->capabilities & SIMBA_TELLS_ENDED) != 0);
    simba_loop_enter(store->loop);
    is_added =
        simba__subscriber_add(store->loop, &r->observer.subscriber, r->mutex);
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
        simba__subscribe(r->store->loop, &r->observer.subscriber,
                         SIMBA_SUBSCRIBE_OBSERVE);
        r->told.count = r->seen.count = 0;
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
        simba__subscribe(r->store->loop, &r->observer.subscriber,
                         SIMBA_SUBSCRIBE_NONE);
        atomic_store(&r->is_started, false);
    }
    simba_loop_leave(r->store->loop);
    simba__callback_pool_block(&r->store->pool);
    simba__serial_queue_wait(&r->store->pool, &r->serial_queue);
    simba__callback_pool_unblock(&r->store->pool);
    return SIMBA_OK;
}

enum simba_service_status simba_retrieval_status(const simba_retrieval *r)
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
        simba__subscriber_remove(r->store->loop, &r->observer.subscriber);
        simba__caller_leave(&r->caller);
        simba_loop_leave(r->store->loop);
    }
    atomic_fetch_sub(&r->store->handles, 1);
    free_retrieval(r);
}
