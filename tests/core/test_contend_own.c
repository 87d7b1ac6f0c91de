/* The contention machine as owner: the grant, renewing, losing. Its limits are
 * in test_contend_hold.c, the way out in test_contend_stop.c. */
#include "contend_driver.h"

/* --- owning -------------------------------------------------------------- */

TEST(test_contend_own__grant_makes_owner)
{
    use(default_config());
    ask();
    yes(S + 10, 5);
    expect_acquired(5);
    expect_sent(SIMBA_NO_REQUEST);
    expect_owner_until(S + USE);
    expect_wake_at(S + RENEW);
    expect_status(RUNNING);
}

TEST(test_contend_own__lease_runs_from_the_asking)
{
    use(default_config());
    ask();
    wake(); /* unanswered: what counts is the request that was answered */
    yes(S + ASK_TRY + 3000, 5);
    expect_owner_until(S + ASK_TRY + USE);
    expect_wake_at(S + ASK_TRY + RENEW);
}

TEST(test_contend_own__grant_heard_at_the_last_instant_counts)
{
    use(default_config());
    ask();
    yes(S + USE - 1, 5);
    expect_told(SIMBA__TELL_ACQUIRED);
    expect_sent(SIMBA_RENEW); /* long due */
    expect_owner_until(S + USE);
}

TEST(test_contend_own__grant_heard_too_late_is_given_back)
{
    simba_attempt attempt;

    use(default_config());
    ask();
    attempt = sent.attempt;
    yes(S + USE, 5);
    expect_told(0);
    expect_sent(SIMBA_RELEASE);
    assert_true(simba__attempt_equal(sent.attempt, attempt));
    assert_int_equal(sent.token, 5);
    answered(S + USE + 10);
    expect_told(0);
    expect_sent(SIMBA_ACQUIRE);
    assert_false(simba__attempt_equal(sent.attempt, attempt));
    assert_int_equal(sent.token, 0);
}

TEST(test_contend_own__grant_that_is_over_needs_no_release)
{
    use(default_config());
    ask();
    yes(S + OVER - 1, 5);
    expect_sent(SIMBA_RELEASE);
    use(default_config());
    ask();
    yes(S + OVER, 5);
    expect_told(0);
    expect_sent(SIMBA_ACQUIRE);
}

/* --- renewing ------------------------------------------------------------ */

TEST(test_contend_own__renews_at_two_thirds_of_ttl)
{
    simba_attempt attempt;

    use(default_config());
    own();
    attempt = sent.attempt;
    assert_int_equal(wake(), S + RENEW);
    expect_sent(SIMBA_RENEW);
    expect_told(0);
    assert_int_equal(sent.token, 5);
    assert_int_equal(patience_ms, RENEW_TRY);
    assert_true(simba__attempt_equal(sent.attempt, attempt));
}

TEST(test_contend_own__renewal_moves_the_end)
{
    use(default_config());
    own_and_renew();
    expect_owner_until(S + USE);
    yes(S + RENEW + 700, 5);
    expect_nothing();
    expect_owner_until(S + RENEW + USE);
    assert_int_equal(wake(), S + 2 * RENEW);
    expect_sent(SIMBA_RENEW);
    assert_int_equal(patience_ms, RENEW_TRY);
    yes(S + 2 * RENEW + 1, 5);
    expect_owner_until(S + 2 * RENEW + USE);
}

/* Each try has a quarter of what is left, and the next follows at once; only
 * the last ones, cut off at the least of 50 ms, can be outlasted by the spread
 * of their backoff, which is at most 62 ms. */
static void expect_tries_until_the_end(void)
{
    int64_t at = S + RENEW;
    int tries = 1;

    while (at < S + USE - 120) {
        int64_t quarter = (S + USE - at) / 4;
        int64_t limit = quarter > 50 ? quarter : 50;

        assert_int_equal(patience_ms, limit);
        expect_owner_until(S + USE);
        assert_int_equal(wake(), at + limit);
        expect_told(0);
        if (up.send.kind == SIMBA_NO_REQUEST) {
            assert_in_range(wake(), at + limit, at + 62);
        }
        expect_sent(SIMBA_RENEW);
        at = machine.now_ms;
        tries++;
    }
    assert_true(tries > 10);
}

TEST(test_contend_own__hung_renewals_are_repeated_until_the_end)
{
    for (uint64_t seed = 0; seed < 50; seed++) {
        use_seeded(default_config(), seed);
        own_and_renew();
        expect_tries_until_the_end();
        timer(S + USE - 1);
        expect_told(0);
        timer(S + USE);
        expect_told(SIMBA__TELL_RELEASED);
        expect_released(SIMBA__CAUSE_EXPIRED, S + HARD);
        expect_sent(SIMBA_NO_REQUEST);
    }
}

TEST(test_contend_own__failed_renewal_is_repeated_fast)
{
    int64_t now = S + RENEW;
    int64_t delay = 10;

    use(default_config());
    own_and_renew();
    for (int i = 0; i < 5; i++) {
        failed(now);
        expect_nothing();
        expect_wake_in(now + delay - delay / 4, now + delay + delay / 4);
        now = wake();
        expect_sent(SIMBA_RENEW);
        delay *= 2;
    }
    yes(now, 5);
    expect_owner_until(now + USE);
    now = wake();
    failed(now); /* the first in a row again */
    expect_wake_in(now + 8, now + 12);
}

TEST(test_contend_own__failed_renewals_come_at_least_as_tries)
{
    int64_t now = S + RENEW;

    use(default_config());
    own_and_renew();
    while (now < S + USE - 300) {
        int64_t quarter = (S + USE - now) / 4;

        failed(now);
        expect_wake_in(now, now + quarter + quarter / 4);
        now = wake();
        expect_sent(SIMBA_RENEW);
    }
}

TEST(test_contend_own__unknown_renewal_is_not_lost)
{
    use(default_config());
    own_and_renew();
    unknown(S + RENEW + 1000);
    expect_told(0);
    expect_sent(SIMBA_RENEW); /* later than its backoff: at once */
    expect_owner_until(S + USE);
    yes(S + RENEW + 1001, 5);
    expect_owner_until(S + RENEW + 1000 + USE);
}

/* --- losing -------------------------------------------------------------- */

TEST(test_contend_own__store_says_not_yours)
{
    simba_attempt attempt;

    use(default_config());
    own_and_renew();
    attempt = sent.attempt;
    answered(S + RENEW + 5);
    expect_told(SIMBA__TELL_RELEASED);
    expect_released(SIMBA__CAUSE_GONE, S + HARD);
    assert_int_equal(up.token, 5);
    expect_sent(SIMBA_NO_REQUEST);
    expect_status(RUNNING);
    expect_wake_at(S + HARD);
    returned(S + RENEW + 50);
    expect_told(0);
    expect_sent(SIMBA_ACQUIRE); /* there is nothing to release */
    assert_false(simba__attempt_equal(sent.attempt, attempt));
}

TEST(test_contend_own__another_token_is_another_tenure)
{
    use(default_config());
    own_and_renew();
    yes(S + RENEW + 5, 6);
    expect_released(SIMBA__CAUSE_GONE, S + HARD);
    assert_int_equal(up.token, 5);
    returned(S + RENEW + 6);
    expect_sent(SIMBA_RELEASE); /* the store has it under our attempt */
}

TEST(test_contend_own__token_alone_proves_nothing)
{
    use(default_config());
    own_and_renew();
    reply(S + RENEW + 5, (simba_reply){.mine = false, .token = 5});
    expect_released(SIMBA__CAUSE_GONE, S + HARD);
}

TEST(test_contend_own__sleeper_over_the_end_answers_no_first)
{
    use(default_config());
    own();
    assert_false(simba__contend_is_owner(&machine, S + USE));
    timer(S + 60000); /* the machine was asleep, H has passed as well */
    expect_told(SIMBA__TELL_RELEASED);
    expect_released(SIMBA__CAUSE_EXPIRED, S + 60000 + BUDGET);
    expect_sent(SIMBA_NO_REQUEST);
}

TEST(test_contend_own__deadline_of_a_late_loss_is_the_budget)
{
    use(default_config());
    own();
    timer(S + USE + 1);
    expect_released(SIMBA__CAUSE_EXPIRED, S + HARD + 1);
}

TEST(test_contend_own__renewal_heard_after_the_end_is_too_late)
{
    use(default_config());
    own_and_renew();
    yes(S + USE, 5); /* sent in time, but the process slept over U */
    expect_told(SIMBA__TELL_RELEASED);
    expect_released(SIMBA__CAUSE_EXPIRED, S + HARD);
    yes(S + USE + 1, 5);
    expect_nothing();
    expect_wake_at(S + HARD);
}

TEST(test_contend_own__loss_is_released_and_contended_anew)
{
    use(default_config());
    own_and_renew();
    timer(S + USE);
    expect_released(SIMBA__CAUSE_EXPIRED, S + HARD);
    returned(S + USE + 100);
    expect_sent(SIMBA_RELEASE);
    expect_told(0);
    answered(S + USE + 105);
    expect_sent(SIMBA_ACQUIRE);
    expect_told(0);
    yes(S + USE + 110, 9);
    expect_acquired(9);
    expect_owner_until(S + USE + 105 + USE);
}

/* Two threads may stamp their events out of order. */
TEST(test_contend_own__time_never_runs_backwards)
{
    use(default_config());
    own();
    wake_up(S + 5000);
    expect_sent(SIMBA_RENEW);
    yes(S + 4000, 5); /* stamped earlier, heard later */
    expect_owner_until(S + 5000 + USE);
    wake_up(S + 4010);
    expect_nothing();
    expect_wake_at(S + 5100);
}

/* --- less than was asked for --------------------------------------------- */

static void yes_for(int64_t now_ms, int64_t lease_ms)
{
    reply(now_ms,
          (simba_reply){.mine = true, .token = 5, .lease_ms = lease_ms});
}

TEST(test_contend_own__shorter_grant_is_counted_as_such)
{
    use(default_config());
    ask();
    yes_for(S + 10, 8000);
    expect_acquired(5);
    expect_owner_until(S + 8000 - 178 - BUDGET);
    expect_wake_at(S + 3333);
}

TEST(test_contend_own__each_renewal_has_its_own_length)
{
    int64_t at;

    use(default_config());
    own_and_renew();
    yes_for(S + RENEW + 10, 12000);
    expect_owner_until(S + RENEW + 12000 - 262 - BUDGET);
    at = wake();
    expect_sent(SIMBA_RENEW);
    yes(at + 10, 5);
    expect_owner_until(at + USE);
}

TEST(test_contend_own__what_was_granted_is_not_taken_back)
{
    use(default_config());
    own_and_renew();
    yes_for(S + RENEW + 100, BUDGET + 100);
    expect_told(0);
    expect_sent(SIMBA_RENEW); /* at once: the new grant is of little use */
    expect_owner_until(S + USE);
}

TEST(test_contend_own__shorter_grant_sets_the_hard_end)
{
    int64_t hard = S + 8000 - 178;

    use(default_config());
    ask();
    yes_for(S + 10, 8000);
    while (user.owns) {
        timer(simba__contend_wake_at(&machine));
    }
    expect_released(SIMBA__CAUSE_EXPIRED, hard);
}

TEST(test_contend_own__grant_too_short_to_use_is_given_back)
{
    use(default_config());
    ask();
    yes_for(S + 10, BUDGET + 30);
    expect_told(0);
    expect_sent(SIMBA_RELEASE);
}
