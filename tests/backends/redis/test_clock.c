/* The server's wall clock goes back: what the dead hold is held no longer than
 * a lease by the clocks of those who wait, and what the living hold is theirs.
 * Through the public API. */
#define _GNU_SOURCE
#include "fixtures/api_harness.h"
#include "fixtures/redis_server.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

enum { LEASE_MS = 500, HOUR_MS = 3600 * 1000 };

#define KEY "simba:{m}"

static struct redis server;
static struct log_counter steps = {SIMBA_LOG_WARN, "it went back by", 0};
static struct log_counter ends = {SIMBA_LOG_WARN, "it was ended", 0};
static simba_store *store;
static simba_locker *waiter, *owner;

static void count_both(void *user,
                       enum simba_log_level level,
                       const char *component,
                       const char *message)
{
    (void)user;
    count_log(&steps, level, component, message);
    count_log(&ends, level, component, message);
}

static simba_locker *open_locker(int64_t lease_ms)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;

    options.mutex = "m";
    options.times.ttl_ms = lease_ms * 3 / 5;
    options.times.transition_ms = lease_ms * 2 / 5;
    return must_open_locker(store, &options);
}

static int set_up(void **state)
{
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;

    (void)state;
    redis_step_clock(&server, 0);
    redis_number(&server, "FLUSHALL");
    steps.count = ends.count = 0;
    options.log = count_both;
    store_url = redis_url(&server, "?restart_grace=0");
    store = open_store_with(&options);
    waiter = open_locker(LEASE_MS);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    simba_locker_close(waiter);
    simba_locker_close(owner);
    owner = NULL;
    simba_store_close(store);
    return 0;
}

#define CLOCK_TEST(name) TEST_AROUND(name, set_up, tear_down)

/* Acquires in another process, which then dies. */
static void die_as_owner(void)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        store = open_store();
        if (simba_locker_acquire(open_locker(LEASE_MS), -1, NULL, NULL) ==
            SIMBA_OK) {
            raise(SIGKILL);
        }
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
}

/* Before anybody waits, so that nothing of it is seen but what is left. */
CLOCK_TEST(test_redis_clock__dead_owner_is_waited_for_by_our_own_clock)
{
    int64_t from = now_ms();

    die_as_owner();
    redis_step_clock(&server, -HOUR_MS);
    assert_true(redis_number(&server, "PTTL " KEY) > HOUR_MS / 2);
    assert_int_equal(simba_locker_acquire(waiter, PATIENCE_MS, NULL, NULL),
                     SIMBA_OK);
    assert_true(now_ms() - from > LEASE_MS);
    assert_int_equal(ends.count, 1);
}

/* Broken without haste, it is free at the end of its lease, by the same clock;
 * and who waits for that does not ask on and on. */
CLOCK_TEST(test_redis_clock__what_was_broken_is_ended_as_well)
{
    simba_break wish = SIMBA_BREAK_INIT;

    die_as_owner();
    wish.mutex = "m";
    wish.token = strtoull(redis_text(&server, "GET " KEY ":token"), NULL, 10);
    assert_int_equal(simba_admin_break(store, &wish, NULL, NULL), SIMBA_OK);
    redis_step_clock(&server, -HOUR_MS);
    assert_int_equal(simba_locker_acquire(waiter, LEASE_MS * 4, NULL, NULL),
                     SIMBA_OK);
    assert_int_equal(ends.count, 1);
}

static _Atomic bool is_over;

static void *step_again_and_again(void *argument)
{
    (void)argument;
    for (long i = 1; !is_over; i++) {
        redis_step_clock(&server, -HOUR_MS * i);
        nap_ms(LEASE_MS / 5);
    }
    return NULL;
}

/* Its clock would never come to the end of a lease. */
CLOCK_TEST(test_redis_clock__steps_in_a_row_keep_no_mutex)
{
    int64_t from = now_ms();
    pthread_t thread;
    int rc;

    die_as_owner();
    is_over = false;
    pthread_create(&thread, NULL, step_again_and_again, NULL);
    rc = simba_locker_acquire(waiter, PATIENCE_MS, NULL, NULL);
    is_over = true;
    pthread_join(thread, NULL);
    assert_int_equal(rc, SIMBA_OK);
    assert_true(now_ms() - from > LEASE_MS);
}

/* Who lives renews, and nobody else owns; the step is told. */
CLOCK_TEST(test_redis_clock__live_owner_keeps_it)
{
    uint64_t token;

    owner = open_locker(LEASE_MS * 2);
    assert_int_equal(simba_locker_acquire(owner, -1, &token, NULL), SIMBA_OK);
    redis_step_clock(&server, -HOUR_MS);
    assert_int_equal(simba_locker_acquire(waiter, LEASE_MS * 3, NULL, NULL),
                     SIMBA_ETIMEDOUT);
    assert_int_equal(simba_locker_token(owner), token);
    assert_int_equal(ends.count, 0);
    assert_true(steps.count > 0);
}

/* An older version renews as well, but does not count. */
CLOCK_TEST(test_redis_clock__what_does_not_count_is_left_alone)
{
    redis_text(&server, "SET " KEY " old PX %d", LEASE_MS);
    redis_text(&server, "SET " KEY ":token 123 PX %d", LEASE_MS);
    redis_text(&server, "SET " KEY ":tenure %s PX %d",
               "00000000000000010000000000000002 123<100 1794800000000 200 old",
               LEASE_MS);
    redis_step_clock(&server, -HOUR_MS);
    assert_int_equal(simba_locker_acquire(waiter, LEASE_MS * 3 / 2, NULL, NULL),
                     SIMBA_ETIMEDOUT);
    assert_string_equal(redis_text(&server, "GET " KEY), "old");
}

/* It was offered to one that died before it came. */
CLOCK_TEST(test_redis_clock__offer_is_kept_for_a_moment_only)
{
    int64_t from = now_ms();

    redis_text(&server, "SET " KEY ":next dead PX 300");
    redis_step_clock(&server, -HOUR_MS);
    assert_int_equal(simba_locker_acquire(waiter, PATIENCE_MS, NULL, NULL),
                     SIMBA_OK);
    assert_true(now_ms() - from >= 300);
}

int main(void)
{
    int rc;

    redis_prepare(&server);
    server.has_own_clock = true;
    redis_step_clock(&server, 0);
    redis_run(&server);
    rc = run_unit_tests(NULL, NULL);
    redis_remove(&server);
    return rc;
}
