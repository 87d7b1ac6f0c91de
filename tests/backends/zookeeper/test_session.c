/* How long a session is certain. */
#include "backends/zookeeper/zookeeper.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixtures/unit_test.h"

/* --- certainty ----------------------------------------------------------- */

enum { T = 16000, QUARTER = T / 4 };

static simba_certainty certainty;

static void begin(int64_t made_ms)
{
    certainty = (simba_certainty){
        .timeout_ms = T, .apart_ms = QUARTER, .since_ms = made_ms};
}

TEST(test_certainty__new_session_is_certain_at_once)
{
    begin(1000);
    assert_int_equal(simba_certainty_lease(&certainty, 1000), T);
    assert_int_equal(simba_certainty_lease(&certainty, 2000), T - 1000 - 21);
    assert_int_equal(simba_certainty_lease(&certainty, 1000 + T), 1);
}

TEST(test_certainty__one_alone_promises_nothing)
{
    begin(0);
    simba_certainty_answered(&certainty, 9000, 9010);
    assert_int_equal(simba_certainty_lease(&certainty, 9000), T - 9000 - 189);
}

TEST(test_certainty__two_count_from_the_first)
{
    begin(0);
    simba_certainty_answered(&certainty, 9000, 9010);
    simba_certainty_answered(&certainty, 9010 + QUARTER - 1, 9020 + QUARTER);
    assert_int_equal(certainty.since_ms, 0); /* not far enough apart */
    simba_certainty_answered(&certainty, 9010 + QUARTER, 9020 + QUARTER);
    assert_int_equal(certainty.since_ms, 9000);
}

TEST(test_certainty__slow_answer_is_counted_from_when_it_came)
{
    begin(0);
    simba_certainty_answered(&certainty, 9000, 9000 + QUARTER);
    simba_certainty_answered(&certainty, 9000 + QUARTER, 9001 + QUARTER);
    assert_int_equal(certainty.since_ms, 0);
}

/* However often writes come, what is certain is what the best pair says, less
 * the distance of two marks. */
TEST(test_certainty__many_are_as_good_as_few)
{
    begin(0);
    for (int64_t at = 0; at < 100000; at += 7) {
        simba_certainty_answered(&certainty, at, at + 3);
        if (at > QUARTER + 10) {
            assert_true(certainty.since_ms <= at - QUARTER - 3);
            assert_true(certainty.since_ms >= at - QUARTER - T / 16 - 20);
        }
    }
}

/* Quorum writes every T/4 leave who becomes the lowest at any time with enough.
 */
TEST(test_certainty__every_quarter_leaves_three_eighths)
{
    for (int64_t late = 0; late < QUARTER; late += 50) {
        int64_t now;

        begin(-10 * T);
        for (int i = 0; i <= 8; i++) {
            simba_certainty_answered(&certainty, i * QUARTER, i * QUARTER + 2);
        }
        now = 8 * QUARTER + late;
        simba_certainty_answered(&certainty, now, now + 2);
        assert_true(simba_certainty_lease(&certainty, now) >= T * 3 / 8);
    }
}

/* With the default budget, sessions must last for 5.5 s. */
TEST(test_certainty__budget_fits_into_the_shortest_grant)
{
    assert_int_equal(simba__zk_budget_most_ms(T), 5863);
    assert_true(simba__zk_budget_most_ms(5480) >= 2000);
    assert_true(simba__zk_budget_most_ms(5460) < 2000);
    assert_int_equal(simba__zk_budget_most_ms(2000), 723);
    assert_true(simba__zk_budget_most_ms(300) >= 1);
}

/* A follower says so by itself, however long it has been cut off. */
TEST(test_certainty__only_what_the_leader_answers_counts)
{
    static const int others[] = {
        SIMBA__ZK_THROTTLED,     SIMBA__ZK_NOT_READ_ONLY,
        SIMBA__ZK_SESSION_MOVED, SIMBA__ZK_MARSHALLING,
        SIMBA__ZK_AUTH_FAILED,   SIMBA__ZK_UNIMPLEMENTED};

    assert_true(simba__zk_is_by_quorum(SIMBA__ZK_OK));
    assert_true(simba__zk_is_by_quorum(SIMBA__ZK_NO_NODE));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_false(simba__zk_is_by_quorum(others[i]));
    }
}
