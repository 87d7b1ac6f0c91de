#include "witness.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static void object(struct tck_witness *w, const char *offence)
{
    atomic_store(&w->offence, offence);
}

/* Held up, but not for ever: a test that failed meanwhile must come to its
 * end. */
enum { HELD_UP_MOST_MS = 10000 };

static void enter(struct tck_witness *w)
{
    int64_t until = simba_loop_now_ms() + HELD_UP_MOST_MS;

    if (atomic_exchange(&w->is_busy, true)) {
        object(w, "two callbacks of one contender ran at once");
    }
    while (atomic_load(&w->is_held_up) && simba_loop_now_ms() < until) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static void leave(struct tck_witness *w)
{
    atomic_store(&w->is_busy, false);
}

static void on_acquired(void *user, const simba_state *state)
{
    struct tck_witness *w = user;

    enter(w);
    if (atomic_exchange(&w->is_inside, true)) {
        object(w, "on_acquired was called twice in a row");
    }
    if (state->after.token <= atomic_load(&w->token)) {
        object(w, "a token did not grow");
    }
    if (strcmp(state->after.id, w->contender.id) != 0) {
        object(w, "on_acquired names somebody else");
    }
    atomic_store(&w->token, state->after.token);
    atomic_fetch_add(&w->acquired, 1);
    leave(w);
}

static void on_released(void *user, const simba_state *state)
{
    struct tck_witness *w = user;

    enter(w);
    if (!atomic_exchange(&w->is_inside, false)) {
        object(w, "on_released was called without on_acquired");
    }
    if (state->before.token != atomic_load(&w->token)) {
        object(w, "on_released names another tenure");
    }
    atomic_fetch_add(&w->released, 1);
    leave(w);
}

static void on_changed(void *user, const simba_state *state)
{
    struct tck_witness *w = user;

    enter(w);
    if (!simba_state_is_changed(state)) {
        object(w, "on_changed was called without a change");
    }
    atomic_fetch_add(&w->changed, 1);
    leave(w);
}

struct tck_witness *tck_witness(struct tck *t)
{
    struct tck_witness *w = tck_alloc(t, sizeof *w);
    simba_contender contender = SIMBA_CONTENDER_INIT;

    tck_need_all(t);
    snprintf(w->id, sizeof w->id, "tck-");
    tck_fresh(w->id + strlen(w->id));
    contender.mutex = t->mutex;
    contender.id = w->id;
    contender.times.ttl_ms = t->long_lease.ttl_ms;
    contender.times.transition_ms = t->long_lease.transition_ms;
    contender.on_acquired = on_acquired;
    contender.on_released = on_released;
    contender.on_changed = on_changed;
    contender.user = w;
    w->t = t;
    w->contender = contender;
    return w;
}

static void close_service(void *what)
{
    struct tck_witness *w = what;

    atomic_store(&w->is_held_up, false);
    simba_service_close(w->service);
    w->service = NULL;
}

/* What is undone is known by its address, and the witness's own is taken by its
 * memory: the service is undone by that of its handle. */
static void close_by_handle(void *what)
{
    simba_service **handle = what;

    close_service((char *)handle - offsetof(struct tck_witness, service));
}

void tck_open(struct tck_witness *w, simba_store *store)
{
    simba_error error = {0};
    int rc = simba_service_open(store, &w->contender, &w->service, &error);

    assert(w->contender.mutex != NULL);
    if (rc != SIMBA_OK) {
        tck_fail(w->t, TCK_HERE, "cannot open a service: %s", error.message);
    }
    tck_later(w->t, close_by_handle, &w->service);
}

void tck_start(struct tck_witness *w)
{
    assert(w->service != NULL);
    EXPECT_STATUS(w->t, simba_service_start(w->service, NULL), SIMBA_OK);
}

void tck_contend(struct tck_witness *w, simba_store *store)
{
    tck_open(w, store);
    tck_start(w);
}

/* On a faulty store the last release may stay unanswered. */
void tck_stop(struct tck_witness *w)
{
    int rc = simba_service_stop(w->service, NULL);

    if (rc != SIMBA_OK && !(w->t->is_faulty && rc == SIMBA_EUNKNOWN)) {
        tck_expect_status(w->t, TCK_HERE, rc, SIMBA_OK);
    }
}

void tck_close(struct tck_witness *w)
{
    tck_now(w->t, &w->service);
}

static int fewest(struct tck_witness **w, int count)
{
    int least = atomic_load(&w[0]->acquired);

    for (int i = 1; i < count; i++) {
        int times = atomic_load(&w[i]->acquired);

        least = times < least ? times : least;
    }
    return least;
}

void tck_pass_around(struct tck_witness **w, int count, int times)
{
    struct tck *t = w[0]->t;
    int64_t until = tck_patience(t) + tck_lease_ms(&t->long_lease);

    assert(count > 0 && times > 0);
    while (fewest(w, count) < times) {
        for (int i = 0; i < count; i++) {
            if (atomic_load(&w[i]->is_inside)) {
                tck_stop(w[i]);
                EXPECT_NUMBER(t, atomic_load(&w[i]->acquired),
                              atomic_load(&w[i]->released));
                tck_start(w[i]);
            }
        }
        tck_pause(t, until, TCK_HERE, "each contender to own the mutex");
    }
}

/* --- lockers ------------------------------------------------------------- */

static void close_locker(void *what)
{
    simba_locker_close(what);
}

simba_locker_options tck_locker_options(struct tck *t)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;

    tck_need_all(t);
    options.mutex = t->mutex;
    options.times.ttl_ms = t->long_lease.ttl_ms;
    options.times.transition_ms = t->long_lease.transition_ms;
    return options;
}

simba_locker *tck_locker_with(struct tck *t,
                              simba_store *store,
                              const simba_locker_options *options)
{
    simba_locker *locker;
    simba_error error = {0};

    if (simba_locker_open(store, options, &locker, &error) != SIMBA_OK) {
        tck_fail(t, TCK_HERE, "cannot open a locker: %s", error.message);
    }
    tck_later(t, close_locker, locker);
    return locker;
}

simba_locker *tck_locker(struct tck *t, simba_store *store)
{
    simba_locker_options options = tck_locker_options(t);

    return tck_locker_with(t, store, &options);
}
