/* How long a session is certain. */
#include "backends/zookeeper/zookeeper.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* --- certainty ----------------------------------------------------------- */

enum { T = 16000, QUARTER = T / 4 };

static struct simba__zk_certainty certainty;

static void test_certainty__new_session_is_certain_at_once(void **state)
{
    (void)state;
    simba__zk_certainty_init(&certainty, T, 1000);
    assert_int_equal(simba__zk_certainty_lease(&certainty, 1000), T);
    assert_int_equal(simba__zk_certainty_lease(&certainty, 2000),
                     T - 1000 - 21);
    assert_int_equal(simba__zk_certainty_lease(&certainty, 1000 + T), 1);
}

static void test_certainty__one_alone_promises_nothing(void **state)
{
    (void)state;
    simba__zk_certainty_init(&certainty, T, 0);
    simba__zk_certainty_answered(&certainty, ZOK, 9000, 9010);
    assert_int_equal(simba__zk_certainty_lease(&certainty, 9000),
                     T - 9000 - 189);
}

static void test_certainty__two_count_from_the_first(void **state)
{
    (void)state;
    simba__zk_certainty_init(&certainty, T, 0);
    simba__zk_certainty_answered(&certainty, ZOK, 9000, 9010);
    simba__zk_certainty_answered(&certainty, ZOK, 9010 + QUARTER - 1,
                                 9020 + QUARTER);
    assert_int_equal(certainty.since_ms, 0); /* not far enough apart */
    simba__zk_certainty_answered(&certainty, ZOK, 9010 + QUARTER,
                                 9020 + QUARTER);
    assert_int_equal(certainty.since_ms, 9000);
}

static void test_certainty__slow_answer_is_counted_from_when_it_came(
    void **state)
{
    (void)state;
    simba__zk_certainty_init(&certainty, T, 0);
    simba__zk_certainty_answered(&certainty, ZOK, 9000, 9000 + QUARTER);
    simba__zk_certainty_answered(&certainty, ZOK, 9000 + QUARTER,
                                 9001 + QUARTER);
    assert_int_equal(certainty.since_ms, 0);
}

/* However often writes come, what is certain is what the best pair says, less
 * the distance of two marks. */
static void test_certainty__many_are_as_good_as_few(void **state)
{
    (void)state;
    simba__zk_certainty_init(&certainty, T, 0);
    for (int64_t at = 0; at < 100000; at += 7) {
        simba__zk_certainty_answered(&certainty, ZOK, at, at + 3);
        if (at > QUARTER + 10) {
            assert_true(certainty.since_ms <= at - QUARTER - 3);
            assert_true(certainty.since_ms >= at - QUARTER - T / 16 - 20);
        }
    }
}

/* Quorum writes every T/4 leave who becomes the lowest at any time with enough.
 */
static void test_certainty__every_quarter_leaves_three_eighths(void **state)
{
    (void)state;
    for (int64_t late = 0; late < QUARTER; late += 50) {
        int64_t now;

        simba__zk_certainty_init(&certainty, T, -10 * T);
        for (int i = 0; i <= 8; i++) {
            simba__zk_certainty_answered(&certainty, ZOK, i * QUARTER,
                                         i * QUARTER + 2);
        }
        now = 8 * QUARTER + late;
        simba__zk_certainty_answered(&certainty, ZOK, now, now + 2);
        assert_true(simba__zk_certainty_lease(&certainty, now) >= T * 3 / 8);
    }
}

/* A follower says so by itself, however long it has been cut off. */
static void test_certainty__only_what_the_leader_answers_counts(void **state)
{
    static const int others[] = {
        ZTHROTTLEDOP,      ZNOTREADONLY,      ZCONNECTIONLOSS,
        ZSESSIONMOVED,     ZMARSHALLINGERROR, ZAUTHFAILED,
        ZOPERATIONTIMEOUT, ZUNIMPLEMENTED,    ZRECONFIGINPROGRESS};

    (void)state;
    assert_true(simba__zk_is_by_quorum(ZOK));
    assert_true(simba__zk_is_by_quorum(ZNONODE));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_false(simba__zk_is_by_quorum(others[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_certainty__new_session_is_certain_at_once),
        cmocka_unit_test(test_certainty__one_alone_promises_nothing),
        cmocka_unit_test(test_certainty__two_count_from_the_first),
        cmocka_unit_test(
            test_certainty__slow_answer_is_counted_from_when_it_came),
        cmocka_unit_test(test_certainty__many_are_as_good_as_few),
        cmocka_unit_test(test_certainty__every_quarter_leaves_three_eighths),
        cmocka_unit_test(test_certainty__only_what_the_leader_answers_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
