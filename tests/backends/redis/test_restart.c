/* A server without an append-only file is restarted and has forgotten its
 * owners: until when they are certain, who acquires when, and what is said of
 * it. Through the public API, and by simba(1). */
#define _GNU_SOURCE
#include "fixtures/api_harness.h"
#include "fixtures/redis_server.h"

#include <stdlib.h>
#include <sys/wait.h>

/* A server tells its age in whole seconds, so all this takes up to one more. */
#define GRACE "restart_grace=1s"
enum { GRACE_MS = 1000, HOUR_MS = 3600 * 1000 };

static const char *simba;
static struct redis server;
static simba_store *store, *second;
static simba_locker *locker;

static int start(void **state)
{
    (void)state;
    redis_start(&server, NULL);
    return 0;
}

static int end(void **state)
{
    (void)state;
    simba_locker_close(locker);
    simba_store_close(store);
    simba_store_close(second);
    locker = NULL;
    store = second = NULL;
    redis_remove(&server);
    return 0;
}

#define RESTART_TEST(name) TEST_AROUND(name, start, end)

static simba_store *open_at(const char *url, const simba_store_options *options)
{
    store_url = url;
    return open_store_with(options);
}

static simba_locker_options lease_of(int64_t ttl_ms, int64_t transition_ms)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;

    options.mutex = "m";
    options.times.ttl_ms = ttl_ms;
    options.times.transition_ms = transition_ms;
    return options;
}

/* Its lease does not matter: it is woken as soon as the server is old enough,
 * and says once why it waits. */
RESTART_TEST(test_redis_restart__new_server_is_of_use_after_the_grace)
{
    struct log_counter waits = {SIMBA_LOG_WARN, "nobody acquires for another",
                                0};
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;
    simba_locker_options lease = lease_of(HOUR_MS / 2, HOUR_MS / 2);
    simba_error error;
    int64_t from = now_ms();

    options.log = count_log;
    options.log_user = &waits;
    store = open_at(redis_url(&server, "?" GRACE), &options);
    locker = must_open_locker(store, &lease);
    assert_int_equal(simba_locker_acquire(locker, 0, NULL, &error),
                     SIMBA_EBUSY);
    assert_non_null(strstr(error.message, "appendonly yes"));
    assert_non_null(strstr(error.message, "restart_grace"));
    assert_int_equal(simba_locker_acquire(locker, 100, NULL, &error),
                     SIMBA_ETIMEDOUT);
    assert_non_null(strstr(error.message, "nobody acquires for another"));
    assert_int_equal(waits.count, 1); /* who tries once is told by the error */
    assert_int_equal(simba_locker_acquire(locker, PATIENCE_MS, NULL, &error),
                     SIMBA_OK);
    assert_int_equal(waits.count, 2);
    assert_in_range(now_ms() - from, GRACE_MS / 2, GRACE_MS + 1500);
    /* From here on nothing is said of it. */
    assert_int_equal(simba_locker_release(locker, &error), SIMBA_OK);
    assert_int_equal(simba_locker_acquire(locker, PATIENCE_MS, NULL, &error),
                     SIMBA_OK);
    assert_int_equal(waits.count, 2);
}

/* The owner has a lease of an hour and no way to the server that forgot it; who
 * asks has one of a moment. */
RESTART_TEST(test_redis_restart__short_lease_does_not_pass_a_forgotten_owner)
{
    simba_locker_options hour = lease_of(HOUR_MS / 2, HOUR_MS / 2);
    simba_locker_options moment = lease_of(200, 100);
    int64_t use_until, hard_until, from;
    simba_locker *asker;
    bool is_double;
    char url[160];

    redis_stop(&server);
    snprintf(url, sizeof url, "%s/socket", server.directory);
    redis_option(&server, "--unixsocket", url);
    redis_run(&server);
    snprintf(url, sizeof url, "redis+unix://%s/socket?" GRACE,
             server.directory);
    store = open_at(url, NULL);
    locker = must_open_locker(store, &hour);
    assert_int_equal(simba_locker_acquire(locker, PATIENCE_MS, NULL, NULL),
                     SIMBA_OK);
    simba_locker_deadlines(locker, &use_until, &hard_until);
    assert_in_range(hard_until - now_ms(), GRACE_MS / 2, GRACE_MS);
    /* It is renewed for as long as the server is there. */
    from = use_until;
    await((simba_locker_deadlines(locker, &use_until, NULL),
           use_until > from + GRACE_MS / 2));
    assert_true(simba_locker_is_owner(locker));
    redis_kill(&server);
    server.option_count = 0;
    redis_run(&server);
    second = open_at(redis_url(&server, "?" GRACE), NULL);
    asker = must_open_locker(second, &moment);
    assert_int_equal(simba_locker_acquire(asker, PATIENCE_MS, NULL, NULL),
                     SIMBA_OK);
    is_double = simba_locker_is_owner(locker);
    simba_locker_close(asker);
    redis_kill(
        &server); /* let the owner find it: it would not part otherwise */
    server.option_count = 2;
    redis_run(&server);
    assert_false(is_double);
}

/* What is given must fit; what is not given does. */
RESTART_TEST(test_redis_restart__budget_must_fit_into_the_grace)
{
    simba_locker_options options = lease_of(HOUR_MS / 2, HOUR_MS / 2);
    simba_error error;

    store = open_at(redis_url(&server, "?" GRACE), NULL);
    options.times.budget_ms = 900;
    locker = must_open_locker(store, &options);
    assert_int_equal(simba_locker_acquire(locker, PATIENCE_MS, NULL, &error),
                     SIMBA_EMISCONFIG);
    assert_non_null(strstr(error.message, "restart_grace"));
    assert_non_null(strstr(error.message, "at most 552 ms"));
    simba_locker_close(locker);
    options.times.budget_ms = 552;
    locker = must_open_locker(store, &options);
    assert_int_equal(simba_locker_acquire(locker, PATIENCE_MS, NULL, &error),
                     SIMBA_OK);
    simba_locker_close(locker);
    options.times.budget_ms = 0;
    locker = must_open_locker(store, &options);
    assert_int_equal(simba_locker_acquire(locker, PATIENCE_MS, NULL, &error),
                     SIMBA_OK);
    simba_locker_close(locker);
    redis_number(&server, "CONFIG SET appendonly yes");
    second = open_at(redis_url(&server, "?" GRACE), NULL);
    options.times.budget_ms = 900;
    locker = must_open_locker(second, &options);
    assert_int_equal(simba_locker_acquire(locker, PATIENCE_MS, NULL, &error),
                     SIMBA_OK);
}

/* --- simba(1) ------------------------------------------------------------ */

static char said[4096];

static int run_simba_with(const char *parameters, const char *words)
{
    char command[1024];
    size_t length;
    FILE *pipe;

    snprintf(command, sizeof command, "SIMBA_STORE='%s' '%s' %s 2>&1",
             redis_url(&server, parameters), simba, words);
    pipe = popen(command, "re");
    assert_non_null(pipe);
    length = fread(said, 1, sizeof said - 1, pipe);
    said[length] = '\0';
    return WEXITSTATUS(pclose(pipe));
}

static int run_simba(const char *words)
{
    return run_simba_with("?" GRACE, words);
}

RESTART_TEST(test_redis_restart__lock_says_not_now_or_waits)
{
    static const char lasting[] = "?restart_grace=1m";

    assert_int_equal(run_simba_with(lasting, "lock m -n -- true"), 75);
    assert_non_null(strstr(said, "nobody acquires for another"));
    assert_non_null(strstr(said, "-w DUR would wait"));
    assert_int_equal(run_simba_with(lasting, "lock m -w 300ms -- true"), 75);
    assert_non_null(strstr(said, "give a longer --wait"));
    redis_kill(&server);
    redis_run(&server); /* or its grace may be over before it is asked */
    assert_int_equal(run_simba("lock m --ttl 1h -w 20s -- true"), 0);
    assert_non_null(strstr(said, "nobody acquires for another"));
    await(run_simba("lock m -n -- true") == 0);
    assert_int_equal(run_simba("lock m -w 20s -- true"), 0);
    assert_string_equal(said, "");
    assert_int_equal(run_simba("doctor"), 0);
    assert_non_null(strstr(said, "nobody acquires for 1 s"));
}

/* Also of who has not been granted anything yet; but not of who only looks. */
RESTART_TEST(test_redis_restart__other_graces_are_noticed)
{
    assert_int_equal(run_simba_with("?restart_grace=3s", "list"), 0);
    assert_int_equal(run_simba_with("?restart_grace=3s", "doctor"), 0);
    assert_int_equal(run_simba("lock m -n -- true"), 75);
    assert_int_equal(run_simba("doctor"), 0);
    assert_null(strstr(said, "for others"));
    assert_int_equal(run_simba_with("", "lock m -n -- true"), 75);
    assert_int_equal(run_simba("doctor"), 1);
    assert_non_null(strstr(said, "it is 16 s for others and 1 s here"));
    assert_int_equal(run_simba_with("?restart_grace=0", "lock m -n -- true"),
                     0);
    assert_int_equal(run_simba("doctor"), 1);
    assert_non_null(strstr(said, "it is 0 s for others and 1 s here"));
    assert_int_equal(run_simba_with("", "doctor"), 1);
    assert_non_null(strstr(said, "it is 1 s for others and 16 s here"));
    assert_null(strstr(said, "16 s for others"));
}

/* And bench measures no part of the wait. */
RESTART_TEST(test_redis_restart__bench_and_tck_wait_first)
{
    const char *longest;

    assert_int_equal(run_simba("--json bench pair -n 16"), 0);
    assert_non_null(strstr(said, "; waiting"));
    longest = strstr(said, "\"p999_us\":");
    assert_non_null(longest);
    assert_in_range(atoi(longest + 10), 0, GRACE_MS * 1000 / 4);
    redis_kill(&server);
    redis_run(&server);
    assert_int_equal(run_simba("tck 'acquire.[!l]*'"), 0);
    assert_non_null(strstr(said, "; waiting"));
    assert_non_null(strstr(said, " 0 failed"));
    assert_int_equal(run_simba("tck acquire.long_lease_is_kept"), 0);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s SIMBA\n", argv[0]);
        return 64;
    }
    simba = argv[1];
    return run_unit_tests(NULL, NULL);
}
