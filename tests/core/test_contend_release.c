/* The contention machine telling the store: releases that are repeated until
 * answered or until the lease is over, and tombstones for attempts of which an
 * acquire may still be on its way (S8). */
#include "contend_driver.h"

/* Releasing since S + 1000, stopped; the last claim was at S. */
static void release_at_stop(void)
{
    own();
    stop(S + 1000);
    returned(S + 1000);
    expect_sent(SIMBA_RELEASE);
}

/* --- repeating ----------------------------------------------------------- */

TEST(test_contend_release__failed_release_is_repeated)
{
    simba_attempt attempt;
    int64_t now = S + 1000;
    int64_t delay = 20;

    use(default_config());
    release_at_stop();
    attempt = sent.attempt;
    for (int i = 0; i < 8; i++) {
        failed(now);
        expect_nothing();
        expect_wake_in(now + delay - delay / 4, now + delay + delay / 4);
        now = wake();
        expect_sent(SIMBA_RELEASE);
        expect_told(0);
        assert_true(simba__attempt_equal(sent.attempt, attempt));
        assert_int_equal(sent.token, 5);
        delay = delay * 2 < 1000 ? delay * 2 : 1000;
    }
    answered(now + 5);
    expect_told(SIMBA__TELL_STOPPED);
}

TEST(test_contend_release__hung_release_is_repeated_at_once)
{
    use(default_config());
    release_at_stop();
    assert_int_equal(patience_ms, (OVER - 1000) / 4);
    assert_int_equal(wake(), S + 1000 + (OVER - 1000) / 4);
    expect_sent(SIMBA_RELEASE);
    expect_told(0);
}

TEST(test_contend_release__backoff_counts_from_the_sending)
{
    use(default_config());
    release_at_stop();
    unknown(S + 1010);
    expect_wake_in(S + 1015, S + 1025);
    wake();
    unknown(S + 2000); /* later than the backoff */
    expect_sent(SIMBA_RELEASE);
}

TEST(test_contend_release__position_is_left_as_persistently)
{
    use(default_config());
    ask();
    is_queued(S + 10, 5000, 77);
    stop(S + 20);
    expect_sent(SIMBA_LEAVE);
    failed(S + 30);
    expect_wake_in(S + 35, S + 45);
    wake();
    expect_sent(SIMBA_LEAVE);
}

TEST(test_contend_release__late_answer_still_counts)
{
    use(default_config());
    release_at_stop();
    answered(S + 1000 + (OVER - 1000) / 4 + 9); /* before its timer came */
    expect_told(SIMBA__TELL_STOPPED);
    expect_sent(SIMBA_NO_REQUEST);
}

/* Failures from now on, until the machine gives up. */
static void fail_to_the_end(int64_t now_ms, int64_t end_ms)
{
    int tries = 0;

    while (!is_told(SIMBA__TELL_UNRELEASED)) {
        if (up.send.kind != SIMBA_NO_REQUEST) {
            expect_sent(SIMBA_RELEASE);
            assert_true(patience_ms >= 50);
            failed(now_ms);
            tries++;
        }
        now_ms = wake();
    }
    assert_true(tries > 5);
    assert_int_equal(now_ms, end_ms);
}

TEST(test_contend_release__gives_up_when_the_lease_is_over)
{
    use(default_config());
    release_at_stop();
    fail_to_the_end(S + 1000, S + OVER);
    expect_told(SIMBA__TELL_UNRELEASED | SIMBA__TELL_STOPPED);
    expect_sent(SIMBA_NO_REQUEST);
    expect_wake_at(NEVER);
}

TEST(test_contend_release__lease_runs_from_the_last_claim)
{
    use(default_config());
    own_and_renew(); /* never answered, but the store may have heard it */
    stop(S + RENEW + 100);
    returned(S + RENEW + 100);
    fail_to_the_end(S + RENEW + 100, S + RENEW + OVER);
}

TEST(test_contend_release__gives_up_and_contends_anew)
{
    simba_attempt attempt;

    use(default_config());
    own();
    attempt = sent.attempt;
    timer(S + USE);
    returned(S + USE);
    timer(S + OVER - 1); /* hung, and hung again */
    expect_sent(SIMBA_RELEASE);
    assert_int_equal(patience_ms, 50);
    expect_wake_at(S + OVER); /* no try is longer than there is time */
    timer(S + OVER);
    expect_told(SIMBA__TELL_UNRELEASED);
    expect_sent(SIMBA_ACQUIRE);
    assert_false(simba__attempt_equal(sent.attempt, attempt));
    assert_int_equal(sent.tombstone_ms, 0);
}

TEST(test_contend_release__failures_do_not_slow_the_asking)
{
    use(default_config());
    own();
    timer(S + USE);
    returned(S + USE);
    for (int i = 0; i < 4; i++) {
        failed(machine.now_ms);
        wake();
    }
    answered(machine.now_ms);
    expect_sent(SIMBA_ACQUIRE);
    failed(machine.now_ms);
    expect_wake_in(machine.now_ms + 38, machine.now_ms + 62);
}

TEST(test_contend_release__release_starts_with_the_least_backoff)
{
    use(default_config());
    own_and_renew();
    for (int i = 0; i < 6; i++) {
        failed(machine.now_ms);
        wake();
        expect_sent(SIMBA_RENEW);
    }
    stop(machine.now_ms);
    returned(machine.now_ms);
    expect_sent(SIMBA_RELEASE);
    failed(machine.now_ms);
    expect_wake_in(machine.now_ms + 15, machine.now_ms + 25);
}

TEST(test_contend_release__over_by_itself_is_not_told)
{
    use(default_config());
    own();
    stop(S + 1000);
    returned(S + OVER - 1); /* an overrun that nobody had time to notice */
    expect_sent(SIMBA_RELEASE);
    use(default_config());
    own();
    stop(S + 1000);
    returned(S + OVER);
    expect_told(SIMBA__TELL_STOPPED);
    expect_sent(SIMBA_NO_REQUEST);
}

/* --- tombstones ---------------------------------------------------------- */

TEST(test_contend_release__undone_asking_leaves_a_tombstone)
{
    use(default_config());
    ask();
    unknown(S + 10);
    stop(S + 20);
    expect_sent(SIMBA_RELEASE);
    assert_int_equal(sent.tombstone_ms, LEASE);
    assert_int_equal(patience_ms, OVER / 4); /* counted from now */
}

TEST(test_contend_release__position_can_be_doubtful)
{
    use(default_config());
    ask();
    unknown(S + 10);
    wake();
    is_queued(S + 80, 5000, 77);
    stop(S + 90);
    expect_sent(SIMBA_RELEASE); /* leaving alone would not bar the first */
    assert_int_equal(sent.tombstone_ms, LEASE);
}

TEST(test_contend_release__tenure_found_by_asking_again_has_one)
{
    use(default_config());
    ask();
    wake(); /* unanswered */
    yes(S + ASK_TRY + 10, 5);
    stop(S + 5000);
    returned(S + 5010);
    expect_sent(SIMBA_RELEASE);
    assert_int_equal(sent.token, 5);
    assert_int_equal(sent.tombstone_ms, LEASE);
}

TEST(test_contend_release__gone_tenure_can_be_doubtful)
{
    use(default_config());
    ask();
    wake(); /* unanswered: it may come yet */
    yes(S + ASK_TRY + 10, 5);
    wake_up(S + 5000);
    answered(S + 5010);
    expect_released(SIMBA__CAUSE_GONE, S + ASK_TRY + HARD);
    returned(S + 5020);
    expect_sent(SIMBA_RELEASE);
    assert_int_equal(sent.tombstone_ms, LEASE);
    answered(S + 5030);
    expect_sent(SIMBA_ACQUIRE);
}

TEST(test_contend_release__repetition_carries_the_tombstone)
{
    use(default_config());
    ask();
    stop(S + 10);
    failed(S + 20);
    wake();
    expect_sent(SIMBA_RELEASE);
    assert_int_equal(sent.tombstone_ms, LEASE);
    timer(S + 10 + OVER - 1);
    expect_sent(SIMBA_RELEASE);
    timer(S + 10 + OVER);
    expect_told(SIMBA__TELL_UNRELEASED | SIMBA__TELL_STOPPED);
}

TEST(test_contend_release__new_attempt_is_not_doubtful)
{
    use(default_config());
    ask();
    stop(S + 10);
    answered(S + 20);
    start(S + 30);
    yes(S + 40, 6);
    stop(S + 50);
    returned(S + 60);
    expect_sent(SIMBA_RELEASE);
    assert_int_equal(sent.tombstone_ms, 0);
}

/* An acquire still on its way makes its lease only when it arrives. */
TEST(test_contend_release__long_pause_keeps_the_tombstone)
{
    use(default_config());
    ask();
    stop(S + 60000);
    expect_sent(SIMBA_RELEASE);
    assert_int_equal(sent.tombstone_ms, LEASE);
    use(default_config());
    ask();
    unknown(S + 10);
    stop(S + 60000);
    expect_sent(SIMBA_RELEASE);
    assert_int_equal(sent.tombstone_ms, LEASE);
    expect_wake_at(S + 60000 + OVER / 4);
}

TEST(test_contend_release__doubtful_tenure_slept_over_is_undone)
{
    use(default_config());
    ask();
    wake(); /* unanswered */
    yes(S + ASK_TRY + 10, 5);
    timer(S + 60000);
    expect_released(SIMBA__CAUSE_EXPIRED, S + 60000 + BUDGET);
    returned(S + 60010);
    expect_sent(SIMBA_RELEASE);
    assert_int_equal(sent.tombstone_ms, LEASE);
    answered(S + 60020);
    expect_sent(SIMBA_ACQUIRE);
}

/* A position lives longer than a lease: left behind, it would be offered the
 * mutex. */
TEST(test_contend_release__position_is_left_after_a_lease)
{
    use(default_config());
    ask();
    is_queued(S + 3000, LEASE, 1);
    stop(S + OVER + 654);
    expect_sent(SIMBA_LEAVE);
    answered(S + OVER + 660);
    expect_told(SIMBA__TELL_STOPPED);
}
