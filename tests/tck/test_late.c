/* A refusal that arrives when the same attempt has been granted since is old
 * news: it changes nothing that a user is told. Found by seed 326 of tck_seeds
 * on a slow machine; played by the backend `broken:late_refusals`. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>

#include "fixtures/unit_test.h"

#include <simba.h>

#include <stdatomic.h>
#include <time.h>

enum { PATIENCE_MS = 20000 };

struct witness {
    _Atomic uint64_t acquired, released; /* tokens */
    _Atomic int changes;
};

static void on_acquired(void *user, const simba_state *state)
{
    atomic_store(&((struct witness *)user)->acquired, state->after.token);
}

static void on_released(void *user, const simba_state *state)
{
    atomic_store(&((struct witness *)user)->released, state->before.token);
}

static void on_changed(void *user, const simba_state *state)
{
    (void)state;
    atomic_fetch_add(&((struct witness *)user)->changes, 1);
}

static simba_service *contend(simba_store *store, struct witness *w)
{
    simba_contender contender = SIMBA_CONTENDER_INIT;
    simba_service *service;

    contender.mutex = "late";
    contender.times.ttl_ms = 2000;
    contender.times.transition_ms = 2000;
    contender.on_acquired = on_acquired;
    contender.on_released = on_released;
    contender.on_changed = on_changed;
    contender.user = w;
    assert_int_equal(simba_service_open(store, &contender, &service, NULL),
                     SIMBA_OK);
    assert_int_equal(simba_service_start(service, NULL), SIMBA_OK);
    return service;
}

static void await_tenure(struct witness *w)
{
    for (int i = 0; i < PATIENCE_MS && atomic_load(&w->acquired) == 0; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_true(atomic_load(&w->acquired) != 0);
}

TEST(test_late__refusal_is_old_news)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    struct witness w = {0};
    simba_store *store;
    simba_locker *locker;
    simba_service *service;

    options.mutex = "late";
    assert_int_equal(
        simba_store_open("broken:late_refusals", NULL, &store, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_open(store, &options, &locker, NULL),
                     SIMBA_OK);
    assert_int_equal(simba_locker_acquire(locker, 1000, NULL, NULL), SIMBA_OK);
    service = contend(store, &w);
    assert_int_equal(simba_locker_release(locker, NULL), SIMBA_OK);
    await_tenure(&w);
    assert_int_equal(simba_service_stop(service, NULL), SIMBA_OK);
    assert_int_equal(atomic_load(&w.changes), 0);
    assert_true(atomic_load(&w.released) == atomic_load(&w.acquired));
    simba_service_close(service);
    simba_locker_close(locker);
    simba_store_close(store);
}
