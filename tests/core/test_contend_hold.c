/* The contention machine and the limits of a tenure: max_hold, and renewal only
 * while the user makes progress. min_hold is in test_contend_stop.c. */
#include "contend_driver.h"

/* --- max_hold ------------------------------------------------------------ */

static void own_at_most(int64_t max_hold_ms)
{
    struct simba__contend_config config = default_config();

    config.max_hold_ms = max_hold_ms;
    use(config);
    own();
}

TEST(test_contend_hold__max_hold_counts_from_the_grant)
{
    own_at_most(3000);
    expect_owner_until(S + 3010);
    assert_int_equal(wake(), S + 3010);
    expect_told(SIMBA__TELL_RELEASED);
    expect_released(SIMBA__CAUSE_MAX_HOLD, S + 3010 + BUDGET);
    returned(S + 3100);
    expect_sent(SIMBA_RELEASE);
    answered(S + 3105);
    expect_sent(SIMBA_ACQUIRE); /* the next tenure is a new one */
    yes(S + 3110, 6);
    expect_owner_until(S + 3110 + 3000);
}

TEST(test_contend_hold__max_hold_caps_renewals)
{
    own_at_most(15000);
    expect_owner_until(S + USE);
    wake();
    yes(S + RENEW + 1, 5);
    expect_owner_until(S + 15010);
    wake(); /* S + 2 * RENEW */
    yes(S + 2 * RENEW + 1, 5);
    assert_int_equal(wake(), S + 15010);
    expect_released(SIMBA__CAUSE_MAX_HOLD, S + 15010 + BUDGET);
}

/* The renewal that is under way goes on: on_released needs the lease. */
TEST(test_contend_hold__renewal_outlives_max_hold)
{
    own_at_most(7000);
    wake();
    expect_sent(SIMBA_RENEW);
    assert_int_equal(wake(), S + 7010);
    expect_released(SIMBA__CAUSE_MAX_HOLD, S + 7010 + BUDGET);
    expect_sent(SIMBA_NO_REQUEST);
    expect_wake_at(S + RENEW + RENEW_TRY);
    yes(S + 7020, 5);
    expect_nothing();
    expect_wake_at(S + 7010 + BUDGET);
}

TEST(test_contend_hold__sleeper_over_cap_and_end_has_expired)
{
    own_at_most(3000);
    timer(S + USE);
    expect_released(SIMBA__CAUSE_EXPIRED, S + HARD);
    own_at_most(3000);
    timer(S + USE - 1);
    expect_released(SIMBA__CAUSE_MAX_HOLD, S + HARD - 1);
}

/* --- progress ------------------------------------------------------------ */

static void own_with_progress(int64_t progress_ms)
{
    struct simba__contend_config config = default_config();

    config.progress_ms = progress_ms;
    use(config);
    own();
}

TEST(test_contend_hold__stalled_owner_is_not_renewed)
{
    own_with_progress(RENEW - 11);
    assert_int_equal(wake(), S + RENEW); /* 1 ms longer than allowed */
    expect_nothing();
    assert_int_equal(wake(), S + USE);
    expect_told(SIMBA__TELL_RELEASED);
    expect_released(SIMBA__CAUSE_STALLED, S + HARD);
    returned(S + USE + 1);
    expect_sent(SIMBA_RELEASE);
}

TEST(test_contend_hold__progress_counts_from_the_grant)
{
    struct simba__contend_config config = default_config();

    config.progress_ms = RENEW - 10;
    use(config);
    ask();
    progress(S + 1); /* owns nothing yet: means nothing */
    expect_nothing();
    yes(S + 10, 5);
    assert_int_equal(wake(), S + RENEW);
    expect_sent(SIMBA_RENEW);
}

TEST(test_contend_hold__sign_of_progress_keeps_renewing)
{
    own_with_progress(1000);
    progress(S + RENEW - 1000);
    expect_nothing(); /* no renewal is due */
    expect_wake_at(S + RENEW);
    wake();
    expect_sent(SIMBA_RENEW);
    progress(S + RENEW + 1);
    expect_nothing(); /* one is under way */
    yes(S + RENEW + 2, 5);
    progress(S + RENEW + 3);
    expect_nothing();
    expect_wake_at(S + 2 * RENEW);
}

TEST(test_contend_hold__sign_of_progress_sends_what_was_held)
{
    own_with_progress(1000);
    wake();
    expect_nothing();
    progress(S + 9000);
    expect_sent(SIMBA_RENEW);
    expect_told(0);
    yes(S + 9010, 5);
    expect_owner_until(S + 9000 + USE);
}

/* Wake-ups in vain are followed more and more seldom, later than a short lease
 * is renewed. */
TEST(test_contend_hold__wake_up_does_not_put_off_what_was_held)
{
    struct simba__contend_config config = default_config();
    int64_t at;

    config.lease = (struct simba__lease){.ttl_ms = 900, .budget_ms = 1};
    config.progress_ms = 50;
    use(config);
    own();
    for (int i = 0; i < 4; i++) {
        wake_up(machine.sent_ms + 10);
        at = simba__contend_wake_at(&machine);
        progress(at - 1);
        timer(at);
        expect_sent(SIMBA_RENEW);
        yes(at + 2, 5);
    }
    at = simba__contend_wake_at(&machine);
    timer(at);
    expect_nothing();
    wake_up(at + 1);
    expect_nothing();
    progress(at + 2);
    expect_sent(SIMBA_RENEW);
}

/* A sign that was given at `given_ms` and is told of at `now_ms`. */
static void progress_given(int64_t given_ms, int64_t now_ms)
{
    struct simba__contend_event event = {
        .type = SIMBA__PROGRESS, .now_ms = now_ms, .progress_ms = given_ms};

    feed(&event);
}

TEST(test_contend_hold__sign_counts_from_when_it_was_given)
{
    own_with_progress(1000);
    wake();
    expect_nothing(); /* held back */
    progress_given(S + 7999, S + 9000);
    expect_nothing(); /* 1 ms longer ago than allowed */
    progress_given(S + 8001, S + 9001);
    expect_sent(SIMBA_RENEW);
}

TEST(test_contend_hold__older_sign_takes_nothing_back)
{
    own_with_progress(1000);
    progress(S + RENEW - 1000);
    progress_given(S + 20, S + RENEW - 500); /* overtaken on its way */
    expect_nothing();
    assert_int_equal(wake(), S + RENEW);
    expect_sent(SIMBA_RENEW);
}

TEST(test_contend_hold__hung_renewal_is_not_a_stalled_user)
{
    own_with_progress(8000);
    wake();
    expect_sent(SIMBA_RENEW);
    timer(S + USE); /* slept while the renewal was under way */
    expect_released(SIMBA__CAUSE_EXPIRED, S + HARD);
    own_with_progress(8000);
    timer(S + USE); /* slept before it was due */
    expect_released(SIMBA__CAUSE_EXPIRED, S + HARD);
}

/* min_hold keeps others out, so a renewal held back must be sent after all. */
TEST(test_contend_hold__stalled_owner_who_stops_is_renewed)
{
    struct simba__contend_config config = default_config();

    config.progress_ms = 1000;
    config.min_hold_ms = 60000;
    use(config);
    own();
    assert_int_equal(wake(), S + RENEW);
    expect_nothing(); /* held back */
    stop(S + RENEW + 100);
    expect_told(SIMBA__TELL_RELEASED);
    expect_sent(SIMBA_RENEW);
}
