/* Many who wait through one handle: they do not ask each for itself, and still
 * notice what nobody has told them. */
#define _GNU_SOURCE
#include "fixtures/redis_server.h"

#include <stddef.h>
#include <stdint.h>

#include "fixtures/unit_test.h"

#include <simba.h>
#include <simba/metrics.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MANY = 100,
    LEASE = 600, /* of who waits */
    WAITER = 2 * (LEASE + 1000),
    PATIENCE_MS = 30000,
};

static struct redis server;
static simba_store *owners, *waiters;
static simba_locker *owner;
static simba_service *services[MANY];
static int64_t odd_ms; /* so much longer are the leases of every other one */
static _Atomic int granted;

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void on_acquired(void *user, const simba_state *state)
{
    (void)user;
    (void)state;
    atomic_fetch_add(&granted, 1);
}

static void open_store(simba_store **store)
{
    simba_error error;

    if (simba_store_open(redis_url(&server, "?restart_grace=0"), NULL, store,
                         &error) != SIMBA_OK) {
        fail_msg("%s", error.message);
    }
}

static int start_all(void **state)
{
    (void)state;
    redis_start(&server, NULL);
    open_store(&owners);
    open_store(&waiters);
    atomic_store(&granted, 0);
    odd_ms = 0;
    return 0;
}

static int end_all(void **state)
{
    (void)state;
    for (int i = 0; i < MANY; i++) {
        simba_service_close(services[i]);
        services[i] = NULL;
    }
    simba_locker_close(owner);
    owner = NULL;
    simba_store_close(waiters);
    simba_store_close(owners);
    redis_remove(&server);
    return 0;
}

/* Through another handle, for longer than a test takes. */
static void own(const char *mutex)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_error error;

    options.mutex = mutex;
    options.id = "owner";
    options.times.ttl_ms = 600000;
    if (simba_locker_open(owners, &options, &owner, &error) != SIMBA_OK ||
        simba_locker_acquire(owner, PATIENCE_MS, NULL, &error) != SIMBA_OK) {
        fail_msg("%s", error.message);
    }
}

/* The first has mutex 0, and so on. */
static void wait_for(int mutexes)
{
    int64_t until = now_ms() + PATIENCE_MS;

    for (int i = 0; i < MANY; i++) {
        simba_contender options = SIMBA_CONTENDER_INIT;
        char mutex[16], id[16];
        simba_error error;

        snprintf(mutex, sizeof mutex, "m%d", i % mutexes);
        snprintf(id, sizeof id, "c%d", i);
        options.mutex = mutex;
        options.id = id;
        options.times.ttl_ms = LEASE + (i % 2 == 0 ? 0 : odd_ms);
        options.times.transition_ms = 0;
        options.on_acquired = on_acquired;
        if (simba_service_open(waiters, &options, &services[i], &error) !=
                SIMBA_OK ||
            simba_service_start(services[i], &error) != SIMBA_OK) {
            fail_msg("%s", error.message);
        }
    }
    for (int i = 0; i < MANY; i++) {
        while (simba_service_status(services[i]) != SIMBA_RUNNING) {
            assert_true(now_ms() < until);
            redis_nap_ms(1);
        }
    }
}

static void await_grants(int count)
{
    int64_t until = now_ms() + PATIENCE_MS;

    while (atomic_load(&granted) < count) {
        if (now_ms() > until) {
            fail_msg("%d were granted it, not %d", atomic_load(&granted),
                     count);
        }
        redis_nap_ms(1);
    }
}

/* Until what is counted is so much. */
static void await_number(const char *command, long long wanted)
{
    int64_t until = now_ms() + PATIENCE_MS;

    while (redis_number(&server, command) != wanted) {
        if (now_ms() > until) {
            fail_msg("%s: %lld, not %lld", command,
                     redis_number(&server, command), wanted);
        }
        redis_nap_ms(5);
    }
}

static uint64_t requests(void)
{
    simba_metrics *metrics;
    uint64_t count;

    assert_int_equal(simba_metrics_read(waiters, &metrics, NULL), SIMBA_OK);
    count = simba_metrics_store(metrics)->requests;
    simba_metrics_free(metrics);
    return count;
}

static long long calls(void)
{
    const char *at = strstr(redis_text(&server, "INFO commandstats"),
                            "cmdstat_evalsha:calls=");

    return at == NULL ? 0 : atoll(at + strlen("cmdstat_evalsha:calls="));
}

static long long clock_ms(void)
{
    redisReply *time = redis_do(&server, "TIME");
    long long ms = atoll(time->element[0]->str) * 1000 +
                   atoll(time->element[1]->str) / 1000;

    freeReplyObject(time);
    return ms;
}

/* --- */

/* For longer than their waiter leases, which are renewed all the same. */
TEST_AROUND(test_redis_looks__nobody_asks_for_itself, start_all, end_all)
{
    uint64_t asked;
    long long called;

    own("m0");
    wait_for(1);
    redis_nap_ms(LEASE); /* the last of them may have asked in doubt */
    asked = requests();
    called = calls();
    redis_nap_ms(WAITER + LEASE);
    /* Each would have asked four times; on a slow machine some do in doubt. */
    assert_in_range(requests() - asked, 0, MANY / 4);
    assert_in_range(calls() - called, 2, MANY / 2);
    assert_int_equal(redis_number(&server, "ZCARD simba:{m0}:contender"), MANY);
    assert_int_equal(redis_number(&server,
                                  "ZCOUNT simba:{m0}:waiters %lld +inf",
                                  clock_ms()),
                     MANY);
    assert_int_equal(atomic_load(&granted), 0);
}

/* Each is looked for with the waiter lease of its own. */
TEST_AROUND(test_redis_looks__several_leases, start_all, end_all)
{
    uint64_t asked;

    odd_ms = 30000;
    own("m0");
    wait_for(1);
    redis_nap_ms(LEASE);
    asked = requests();
    redis_nap_ms(WAITER + LEASE);
    assert_in_range(requests() - asked, 0, MANY / 4);
    assert_int_equal(redis_number(&server,
                                  "ZCOUNT simba:{m0}:waiters %lld +inf",
                                  clock_ms()),
                     MANY);
    assert_int_equal(redis_number(&server,
                                  "ZCOUNT simba:{m0}:waiters %lld +inf",
                                  clock_ms() + 2 * WAITER),
                     MANY / 2);
}

/* A free mutex that no message told of. */
TEST_AROUND(test_redis_looks__lost_wake_up, start_all, end_all)
{
    own("m0");
    wait_for(1);
    redis_number(&server, "DEL simba:{m0} simba:{m0}:token simba:{m0}:tenure");
    await_grants(1);
}

/* Its owner died: nobody says when its lease ends. The others own theirs. */
TEST_AROUND(test_redis_looks__dead_owner, start_all, end_all)
{
    int64_t until = now_ms() + PATIENCE_MS;

    own("m7");
    wait_for(MANY);
    assert_false(simba_service_is_owner(services[7]));
    redis_number(&server, "PEXPIRE simba:{m7} 100");
    while (!simba_service_is_owner(services[7])) {
        assert_true(now_ms() < until);
        redis_nap_ms(1);
    }
}

/* Their positions were deleted: they take new ones. */
TEST_AROUND(test_redis_looks__forgotten_waiters, start_all, end_all)
{
    own("m0");
    wait_for(1);
    redis_number(&server, "DEL simba:{m0}:contender simba:{m0}:waiters "
                          "simba:{m0}:attempts");
    await_number("ZCARD simba:{m0}:waiters", MANY);
    await_number("ZCARD simba:{m0}:contender", MANY);
}

/* A JVM contender has passed them; its release is only broadcast. */
TEST_AROUND(test_redis_looks__jvm_owner, start_all, end_all)
{
    own("m0");
    wait_for(1);
    redis_number(&server, "DEL simba:{m0}:token simba:{m0}:tenure");
    assert_string_equal(redis_text(&server, "SET simba:{m0} jvm PX 600000"),
                        "OK");
    await_number("EVAL return(redis.call('PUBSUB','NUMSUB',KEYS[1])[2]) 1 "
                 "simba:{m0}",
                 1);
    redis_number(&server, "DEL simba:{m0} simba:{m0}:contender");
    redis_number(&server, "PUBLISH simba:{m0} released@@jvm");
    await_grants(1);
}

/* The script is forgotten by the server, and sent again. */
TEST_AROUND(test_redis_looks__forgotten_script, start_all, end_all)
{
    uint64_t asked;

    own("m0");
    wait_for(1);
    assert_string_equal(redis_text(&server, "SCRIPT FLUSH"), "OK");
    redis_nap_ms(2 * LEASE + 1000); /* they ask for themselves once */
    asked = requests();
    redis_nap_ms(2 * LEASE);
    assert_in_range(requests() - asked, 0, MANY / 4);
}

int main(void)
{
    return run_unit_tests(NULL, NULL);
}
