/* Back again: how soon contenders own after a server was gone, with its data
 * and without, and that the metrics tell. Through the public API. */
#define _GNU_SOURCE
#define PATIENCE_MS 60000 /* a server is started or found again */

#include "fixtures/api_harness.h"
#include "fixtures/redis_server.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    TTL_MS = 4000,
    TRANSITION_MS = 1000,
    GRACE_MS = 2000,
    SECOND_MS = 1000,
    TRIES = 4 /* for what a busy machine may spoil */
};

#define MUTEX "lost-and-found"

struct contender {
    simba_store *store;
    simba_locker *locker;
};

static struct redis server;
static struct contender owner, waiter;
static _Atomic int64_t granted_ms;
static _Atomic bool was_double;

static void open_contender(struct contender *c)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_error error;

    options.mutex = MUTEX;
    options.times.ttl_ms = TTL_MS;
    options.times.transition_ms = TRANSITION_MS;
    if (simba_store_open(redis_url(&server, "?restart_grace=2s"), NULL,
                         &c->store, &error) != SIMBA_OK ||
        simba_locker_open(c->store, &options, &c->locker, &error) != SIMBA_OK) {
        fail_msg("%s", error.message);
    }
}

static void close_contender(struct contender *c)
{
    simba_locker_close(c->locker);
    simba_store_close(c->store);
    *c = (struct contender){NULL, NULL};
}

static int close_all(void **state)
{
    (void)state;
    close_contender(&owner);
    close_contender(&waiter);
    return 0;
}

static void own(void)
{
    assert_int_equal(
        simba_locker_acquire(owner.locker, PATIENCE_MS, NULL, NULL), SIMBA_OK);
}

static void *wait_for_it(void *argument)
{
    (void)argument;
    if (simba_locker_acquire(waiter.locker, PATIENCE_MS, NULL, NULL) ==
        SIMBA_OK) {
        atomic_store(&was_double, simba_locker_is_owner(owner.locker) &&
                                      simba_locker_is_owner(waiter.locker));
        atomic_store(&granted_ms, now_ms());
    }
    return NULL;
}

static long long queue_length(void)
{
    return redis_number(&server, "ZCARD simba:{" MUTEX "}:contender");
}

/* One owns, the other stands in the queue. */
static pthread_t begin_waiting(void)
{
    pthread_t thread;

    own();
    atomic_store(&granted_ms, 0);
    pthread_create(&thread, NULL, wait_for_it, NULL);
    await(queue_length() > 0);
    return thread;
}

/* So long that those who try to connect do it at their slowest. */
static int64_t restart(void)
{
    redis_kill(&server);
    redis_nap_ms(1200);
    redis_run(&server);
    return now_ms();
}

/* How long after the restart the waiter owns. */
static int64_t once_around(bool owner_releases)
{
    pthread_t thread;
    int64_t back_ms;

    open_contender(&owner);
    open_contender(&waiter);
    thread = begin_waiting();
    back_ms = restart();
    if (owner_releases) {
        (void)!simba_locker_release(owner.locker, NULL);
    }
    pthread_join(thread, NULL);
    close_all(NULL);
    assert_true(atomic_load(&granted_ms) != 0);
    assert_false(atomic_load(&was_double));
    return atomic_load(&granted_ms) - back_ms;
}

static void expect_back_within(int64_t limit_ms, bool owner_releases)
{
    int64_t best_ms = INT64_MAX;

    for (int i = 0; i < TRIES && best_ms > limit_ms; i++) {
        int64_t took_ms = once_around(owner_releases);

        best_ms = took_ms < best_ms ? took_ms : best_ms;
    }
    assert_in_range(best_ms, 0, limit_ms);
}

static int restart_with(const char *appendonly)
{
    redis_remove(&server);
    redis_start(&server, (const char *[]){"--appendonly", appendonly,
                                          "--appendfsync", "always", NULL});
    return 0;
}

#define BACK_TEST(test) TEST_AROUND(test, NULL, close_all)

BACK_TEST(test_redis_connection_reconnect__within_a_second_when_data_was_kept)
{
    restart_with("yes");
    expect_back_within(SECOND_MS, true);
}

BACK_TEST(test_redis_connection_reconnect__within_grace_and_a_second_when_not)
{
    restart_with("no");
    expect_back_within(GRACE_MS + SECOND_MS, false);
}

/* What a killed server had not yet written to its file is forgotten, however
 * soon it is back: its owner must hear of that before anybody else is granted,
 * also one that does nothing but own. */
BACK_TEST(test_redis_connection_reconnect__owner_hears_what_was_forgotten)
{
    char command[128];
    pthread_t thread;

    restart_with("yes");
    open_contender(&owner);
    open_contender(&waiter);
    thread = begin_waiting();
    redis_kill(&server);
    snprintf(command, sizeof command, "rm -rf %s/appendonly*",
             server.directory);
    assert_int_equal(system(command), 0);
    redis_run(&server);
    pthread_join(thread, NULL);
    assert_true(atomic_load(&granted_ms) != 0);
    assert_false(atomic_load(&was_double));
}

/* --- metrics ------------------------------------------------------------- */

static uint64_t reconnects(void)
{
    simba_metrics *metrics;
    uint64_t count;

    assert_int_equal(simba_metrics_read(owner.store, &metrics, NULL), SIMBA_OK);
    count = simba_metrics_store(metrics)->reconnects;
    simba_metrics_free(metrics);
    return count;
}

BACK_TEST(test_redis_connection_reconnect__reconnects_are_counted)
{
    restart_with("yes");
    open_contender(&owner);
    own();
    assert_int_equal(reconnects(), 0);
    for (uint64_t i = 1; i <= 3; i++) {
        redis_number(&server, "CLIENT KILL TYPE normal");
        await(reconnects() >= i);
        assert_int_equal(reconnects(), i);
    }
}

static int remove_server(void **state)
{
    (void)state;
    redis_remove(&server);
    return 0;
}

int main(void)
{
    return run_unit_tests(NULL, remove_server);
}
