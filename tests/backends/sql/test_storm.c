/* Contenders go on contending while something happens to their database server;
 * the history checker reads afterwards what they asked and heard. */
#define _GNU_SOURCE
#include "fixtures/await.h"
#include "fixtures/contender_threads.h"
#include "fixtures/sql_server.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "clock_change.h"

enum { SOME = 10, LEASE_TTL_MS = 2000, LEASE_TRANSITION_MS = 1500 };

static void begin(void)
{
    crowd_ttl_ms = LEASE_TTL_MS;
    crowd_transition_ms = LEASE_TRANSITION_MS;
    crowd_begin(getenv("SIMBA_SERVER_URL"), getenv("SIMBA_SERVER_DIR"));
    crowd_await(SOME);
}

static void end(void)
{
    crowd_await(SOME);
    crowd_end(CROWD_MUST_EXCLUDE);
}

static void test_sql_storm__a_restart(void **state)
{
    (void)state;
    begin();
    for (int i = 0; i < 2; i++) {
        server_control("--restart");
        crowd_await(SOME);
    }
    end();
}

static void test_sql_storm__killed_sessions(void **state)
{
    (void)state;
    begin();
    for (int i = 0; i < 8; i++) {
        server_kill_sessions();
        crowd_await(2);
    }
    end();
}

/* For longer than waits for locks and statements last. */
static void test_sql_storm__a_locked_table(void **state)
{
    static const char *const tables[] = {LOCK_MUTEX, LOCK_LINE};

    (void)state;
    begin();
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        server_hold("%s", tables[i]);
        nap_ms(2500);
        server_let_go();
        crowd_await(SOME);
    }
    end();
}

static void test_sql_storm__a_read_only_server(void **state)
{
    (void)state;
    if (getenv("SIMBA_SERVER_POOLED") != NULL) {
        skip(); /* the pooler's sessions are as they were made */
    }
    begin();
    server_set_read_only(true);
    nap_ms(1500);
    server_set_read_only(false);
    end();
}

/* --- a full disk --------------------------------------------------------- */

static void fill_disk(const char *path)
{
    static const char zeros[65536];
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    while (write(fd, zeros, sizeof zeros) > 0) {
    }
    close(fd);
}

/* What cannot be written is not granted. The server may end over it. */
static void test_sql_storm__a_full_disk(void **state)
{
    char path[512];

    (void)state;
    begin();
    snprintf(path, sizeof path, "%s/data/filler", getenv("SIMBA_SERVER_DIR"));
    fill_disk(path);
    assert_false(server_try(FILL_DISK)); /* the server has met its end */
    nap_ms(1000);
    unlink(path);
    server_control("--restart");
    end();
}

/* --- an hour that comes twice -------------------------------------------- */

/* No lease in the tables ends farther from now than a lease is long, give or
 * take what a slow machine needs. */
static void expect_true_leases(int64_t now)
{
    static const int slack_s = 600;

    assert_int_equal(server_sql("SELECT count(*) FROM simba_mutex "
                                "WHERE transition_at <> 0 AND "
                                "(transition_at < %lld OR "
                                "transition_at > %lld)",
                                (long long)(now - slack_s) * 1000,
                                (long long)(now + slack_s) * 1000),
                     0);
}

static void storm_over_change(int64_t moment)
{
    int64_t now;

    server_restart_before(moment);
    begin();
    do {
        crowd_await(2);
        now = server_sql(SERVER_EPOCH);
        expect_true_leases(now);
    } while (now < moment + (LEASE_TTL_MS + LEASE_TRANSITION_MS) / 1000);
    end();
}

static void test_sql_storm__an_hour_that_comes_twice(void **state)
{
    (void)state;
    for (int i = 0; i < CHANGES; i++) {
        storm_over_change(clock_changes[i]);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sql_storm__a_restart),
        cmocka_unit_test(test_sql_storm__killed_sessions),
        cmocka_unit_test(test_sql_storm__a_locked_table),
        cmocka_unit_test(test_sql_storm__a_read_only_server),
    };
    const struct CMUnitTest small[] = {
        cmocka_unit_test(test_sql_storm__a_full_disk),
    };

    const struct CMUnitTest over_change[] = {
        cmocka_unit_test(test_sql_storm__an_hour_that_comes_twice),
    };

    crowd_simba = argc > 1 ? argv[1] : "simba";
    if (getenv("SIMBA_SERVER_SMALL") != NULL) {
        return cmocka_run_group_tests(small, NULL, NULL);
    }
    if (getenv("SIMBA_SERVER_TIME") != NULL) {
        return cmocka_run_group_tests(over_change, NULL, NULL);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
