/* What waiting costs a database server: with a thousand contenders in the
 * queue, one statement for all of them now and then. And connections that were
 * lost are counted. */
#define _GNU_SOURCE
#include "fixtures/api_harness.h"
#include "fixtures/sql_server.h"

#include <stdlib.h>
#include <string.h>

enum { MUTEXES = 200, WAITERS = 1000, WINDOW_MS = 20000 };

static _Atomic int acquired;

static void on_acquired(void *user, const simba_state *change)
{
    (void)user;
    (void)change;
    atomic_fetch_add(&acquired, 1);
}

static simba_service *contend(simba_store *store, const char *name, int index)
{
    simba_contender contender = SIMBA_CONTENDER_INIT;
    simba_service *service;
    char mutex[80];

    snprintf(mutex, sizeof mutex, "%s/%d", name, index);
    contender.mutex = mutex;
    contender.on_acquired = on_acquired;
    service = must_open_service(store, &contender);
    assert_int_equal(simba_service_start(service, NULL), SIMBA_OK);
    return service;
}

/* However many wait, one statement asks for all: with wake-ups every 15 s and
 * at the ends of leases, without one ten times a second. */
static int64_t most_asks(void)
{
    bool has_no_wake_ups = getenv("SIMBA_SERVER_POOLED") != NULL ||
                           getenv("SIMBA_SERVER_GALERA") != NULL;

    return has_no_wake_ups ? WINDOW_MS / 100 + 12 : 12;
}

TEST(test_sql_heartbeat_idle__one_statement_for_all_who_wait)
{
    simba_store *owners = open_store();
    simba_store *waiters = open_store();
    simba_service *owner[MUTEXES], *waiter[WAITERS];
    const char *name = fresh_mutex();
    int64_t asks;

    for (int i = 0; i < MUTEXES; i++) {
        owner[i] = contend(owners, name, i);
    }
    await(atomic_load(&acquired) == MUTEXES);
    for (int i = 0; i < WAITERS; i++) {
        waiter[i] = contend(waiters, name, i % MUTEXES);
    }
    await(server_sql("SELECT count(*) FROM simba_line") == WAITERS);
    asks = server_count_asks();
    nap_ms(WINDOW_MS);
    asks = server_count_asks() - asks;
    assert_in_range(asks, 1, most_asks());
    assert_int_equal(server_sql("SELECT count(*) FROM simba_line"), WAITERS);
    assert_int_equal(atomic_load(&acquired), MUTEXES);
    /* They still hear when they are offered it. */
    simba_service_close(owner[0]);
    await(atomic_load(&acquired) == MUTEXES + 1);
    for (int i = 0; i < WAITERS; i++) {
        simba_service_close(waiter[i]);
    }
    for (int i = 1; i < MUTEXES; i++) {
        simba_service_close(owner[i]);
    }
    simba_store_close(owners);
    simba_store_close(waiters);
}

static uint64_t count_reconnects(simba_store *store)
{
    simba_metrics *metrics;
    uint64_t count;

    assert_int_equal(simba_metrics_read(store, &metrics, NULL), SIMBA_OK);
    count = simba_metrics_store(metrics)->reconnects;
    simba_metrics_free(metrics);
    return count;
}

TEST(test_sql_heartbeat_idle__counts_connections_made_anew)
{
    simba_store *store = open_store();
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker;

    if (getenv("SIMBA_SERVER_POOLED") != NULL) {
        skip(); /* the pooler keeps ours, and makes its own anew */
    }
    options.mutex = fresh_mutex();
    locker = must_open_locker(store, &options);
    assert_int_equal(simba_locker_acquire(locker, PATIENCE_MS, NULL, NULL),
                     SIMBA_OK);
    assert_int_equal(simba_locker_release(locker, NULL), SIMBA_OK);
    assert_int_equal(count_reconnects(store), 0);
    server_kill_sessions();
    assert_int_equal(simba_locker_acquire(locker, PATIENCE_MS, NULL, NULL),
                     SIMBA_OK);
    assert_int_equal(simba_locker_release(locker, NULL), SIMBA_OK);
    assert_true(count_reconnects(store) >= 1);
    simba_locker_close(locker);
    simba_store_close(store);
}

int main(void)
{
    store_url = getenv("SIMBA_SERVER_URL");
    server_log_statements();
    return run_unit_tests(NULL, NULL);
}
