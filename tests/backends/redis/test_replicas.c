/* `replicas=n`: what fewer than n replicas have is not owned, and as soon as
 * they have it, it is. One master and one replica, through the public API. */
#define _GNU_SOURCE
#define PATIENCE_MS 60000 /* a server is started or found again */

#include "fixtures/api_harness.h"
#include "fixtures/redis_server.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MUTEX "copied"

static struct redis master, replica, another;
static simba_store *store;
static simba_locker *locker;
static const char *shim = ""; /* before the URL */

static void open_locker(const char *user, int64_t ttl_ms)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_error error;
    char url[160];

    snprintf(url, sizeof url,
             "%sredis://%s127.0.0.1:%d?replicas=1&restart_grace=0", shim, user,
             master.port);
    options.mutex = MUTEX;
    options.times.ttl_ms = ttl_ms;
    options.times.transition_ms = ttl_ms / 2;
    if (simba_store_open(url, NULL, &store, &error) != SIMBA_OK ||
        simba_locker_open(store, &options, &locker, &error) != SIMBA_OK) {
        fail_msg("%s", error.message);
    }
}

static long long waits_of_master(void)
{
    static const char field[] = "cmdstat_wait:calls=";
    const char *found = strstr(redis_text(&master, "INFO commandstats"), field);

    return found == NULL ? 0 : atoll(found + strlen(field));
}

static void await_waits(long long more)
{
    long long wanted = waits_of_master() + more;

    await(waits_of_master() >= wanted);
}

static int close_locker(void **state)
{
    (void)state;
    redis_pause(&replica, false);
    simba_locker_close(locker);
    simba_store_close(store);
    locker = NULL;
    store = NULL;
    return 0;
}

/* Who reads its own replies must not forget the connection for replicas: then
 * some would be answered only when they are given up. */
TEST_AROUND(test_redis_replicas__lone_caller_is_answered, NULL, close_locker)
{
    enum { PAIRS = 200, SLOW_MS = 2000 };
    int slow = 0;

    open_locker("", 10000);
    for (int i = 0; i < PAIRS; i++) {
        int64_t from = now_ms();

        assert_int_equal(simba_locker_acquire(locker, PATIENCE_MS, NULL, NULL),
                         SIMBA_OK);
        slow += now_ms() - from > SLOW_MS;
        assert_int_equal(simba_locker_release(locker, NULL), SIMBA_OK);
    }
    assert_in_range(slow, 0, 2); /* a busy machine may do that too */
}

static void *acquire(void *argument)
{
    (void)argument;
    return (void *)(intptr_t)simba_locker_acquire(locker, -1, NULL, NULL);
}

/* A grant that was taken back must not stand in the way of the next. */
TEST_AROUND(test_redis_replicas__owned_when_they_are_back, NULL, close_locker)
{
    enum { TTL_MS = 60000 };
    pthread_t waiting;
    void *rc;
    int64_t back;

    open_locker("", TTL_MS);
    redis_pause(&replica, true);
    pthread_create(&waiting, NULL, acquire, NULL);
    await_waits(2); /* so the first was taken back */
    assert_false(simba_locker_is_owner(locker));
    redis_pause(&replica, false);
    back = now_ms();
    pthread_join(waiting, &rc);
    assert_int_equal((intptr_t)rc, SIMBA_OK);
    assert_in_range(now_ms() - back, 0, TTL_MS / 2);
}

/* A request that comes a second time finds the mutex its own, and no replica:
 * that takes nothing from who was told that it owns it. */
TEST_AROUND(test_redis_replicas__only_the_grant_itself_is_taken_back,
            NULL,
            close_locker)
{
    enum { TTL_MS = 4000, DEADLINE_MS = 2000 };
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_store *others_store;
    simba_locker *other;
    long long waits;

    shim = "fault:seed=3,only=acquire,echo=100,late=300:";
    open_locker("", TTL_MS);
    shim = "";
    assert_int_equal(simba_locker_acquire(locker, PATIENCE_MS, NULL, NULL),
                     SIMBA_OK);
    waits = waits_of_master();
    redis_pause(&replica, true);
    await(waits_of_master() > waits);
    options.mutex = MUTEX;
    assert_int_equal(simba_store_open(redis_url(&master, "?restart_grace=0"),
                                      NULL, &others_store, NULL),
                     SIMBA_OK);
    assert_int_equal(simba_locker_open(others_store, &options, &other, NULL),
                     SIMBA_OK);
    assert_int_not_equal(simba_locker_acquire(other, DEADLINE_MS, NULL, NULL),
                         SIMBA_OK);
    assert_true(simba_locker_is_owner(locker));
    simba_locker_close(other);
    simba_store_close(others_store);
}

TEST_AROUND(test_redis_replicas__forbidden_wait_is_named, NULL, close_locker)
{
    simba_error error;

    redis_number(&master, "ACL SETUSER poor on >pw +@all -wait ~* &*");
    open_locker("poor:pw@", 10000);
    assert_int_equal(simba_locker_acquire(locker, PATIENCE_MS, NULL, &error),
                     SIMBA_EDENIED);
    assert_non_null(strstr(error.message, "+wait"));
    assert_int_equal(redis_number(&master, "EXISTS simba:{" MUTEX "}"), 0);
}

static void await_replica_of(const struct redis *of)
{
    int64_t until = now_ms() + PATIENCE_MS;

    while (strstr(redis_text(of, "INFO replication"), "state=online") == NULL) {
        if (now_ms() > until) {
            fail_msg("%s", "the replica does not come");
        }
        redis_nap_ms(10);
    }
}

static struct redis gone, fresh;
static char socket_path[160];

static void run_at_socket(struct redis *redis)
{
    redis_prepare(redis);
    if (socket_path[0] == '\0') {
        snprintf(socket_path, sizeof socket_path, "%s/socket",
                 redis->directory);
    }
    redis_option(redis, "--unixsocket", socket_path);
    redis_option(redis, "--repl-diskless-sync-delay", "0");
    redis->has_own_clock = true;
    redis_step_clock(redis, 0);
    redis_run(redis);
    redis_number(&replica, "REPLICAOF 127.0.0.1 %d", redis->port);
    await_replica_of(redis);
}

static int close_and_remove(void **state)
{
    redis_pause(&gone, false);
    close_locker(state);
    redis_remove(&fresh);
    redis_remove(&gone);
    redis_number(&replica, "REPLICAOF 127.0.0.1 %d", master.port);
    await_replica_of(&master);
    return 0;
}

/* As after a power failure: connections to the one that is gone say nothing,
 * and the one that is idle is not missed. Another without its data is there at
 * once, and nobody may acquire from it yet. */
TEST_AROUND(test_redis_replicas__idle_connection_vouches_for_no_new_server,
            NULL,
            close_and_remove)
{
    enum { GRACE_MS = 6000 };
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    char url[256];
    int64_t from;

    run_at_socket(&gone);
    redis_step_clock(&gone, 10L * GRACE_MS); /* it is up for long */
    snprintf(url, sizeof url, "redis+unix://%s?replicas=1&restart_grace=%dms",
             socket_path, (int)GRACE_MS);
    assert_int_equal(simba_store_open(url, NULL, &store, NULL), SIMBA_OK);
    options.mutex = MUTEX;
    options.times.ttl_ms = 600;
    options.times.transition_ms = 300;
    assert_int_equal(simba_locker_open(store, &options, &locker, NULL),
                     SIMBA_OK);
    assert_int_equal(simba_locker_acquire(locker, PATIENCE_MS, NULL, NULL),
                     SIMBA_OK);
    assert_int_equal(simba_locker_release(locker, NULL), SIMBA_OK);
    redis_pause(&gone, true);
    from = now_ms();
    run_at_socket(&fresh);
    assert_int_equal(simba_locker_acquire(locker, PATIENCE_MS, NULL, NULL),
                     SIMBA_OK);
    assert_true(now_ms() - from >= GRACE_MS);
}

static void start_replica(struct redis *of_master)
{
    char port[16];

    redis_prepare(of_master);
    snprintf(port, sizeof port, "%d", master.port);
    redis_option(of_master, "--replicaof", "127.0.0.1");
    redis_option(of_master, port, NULL);
    redis_run(of_master);
}

static int close_and_remove_another(void **state)
{
    redis_remove(&another);
    return close_locker(state);
}

/* One of two may be promoted without having what the other acknowledged. */
TEST_AROUND(test_redis_replicas__doctor_asks_for_all_of_them,
            NULL,
            close_and_remove_another)
{
    simba_report *report;
    const simba_finding *found = NULL;

    open_locker("", 10000);
    start_replica(&another);
    await(strstr(redis_text(&master, "INFO replication"),
                 "connected_slaves:2") != NULL);
    assert_int_equal(simba_admin_doctor(store, &report, NULL), SIMBA_OK);
    for (size_t i = 0; i < simba_report_finding_count(report); i++) {
        if (strcmp(simba_report_finding(report, i)->name, "replicas") == 0) {
            found = simba_report_finding(report, i);
        }
    }
    assert_non_null(found);
    assert_int_equal(found->gravity, SIMBA_FINDING_WEAK);
    assert_non_null(strstr(found->text, "unless replicas=2"));
    simba_report_close(report);
}

static int start_two(void **state)
{
    (void)state;
    redis_start(&master,
                (const char *[]){"--repl-diskless-sync-delay", "0", NULL});
    start_replica(&replica);
    await_replica_of(&master);
    return 0;
}

static int end_two(void **state)
{
    (void)state;
    redis_remove(&replica);
    redis_remove(&master);
    return 0;
}

int main(void)
{
    return run_unit_tests(start_two, end_two);
}
