/* The contention machine on its way out: stop in every phase, on_released
 * before the store (S6), overruns, min_hold. How the store is told is in
 * test_contend_release.c, starting again in test_contend_restart.c. */
#include "contend_driver.h"

/* --- stop while waiting -------------------------------------------------- */

TEST(test_contend_stop__before_asking_there_is_nothing_to_do)
{
    struct simba__contend_config config = default_config();

    config.initial_delay_ms = 700;
    use(config);
    start(S);
    stop(S + 699);
    expect_stopped();
    stop(S + 700); /* twice is once */
    expect_nothing();
}

TEST(test_contend_stop__without_a_position_there_is_nothing_to_undo)
{
    use(default_config());
    ask();
    refused(S + 10, 5000);
    stop(S + 20);
    expect_stopped();
}

TEST(test_contend_stop__failed_asking_left_nothing_behind)
{
    use(default_config());
    ask();
    failed(S + 10);
    stop(S + 20);
    expect_stopped();
}

TEST(test_contend_stop__position_is_given_up)
{
    simba_attempt attempt;

    use(default_config());
    ask();
    attempt = sent.attempt;
    is_queued(S + 10, 5000, 77);
    stop(S + 20);
    expect_sent(SIMBA_LEAVE);
    expect_told(0);
    assert_true(simba__attempt_equal(sent.attempt, attempt));
    assert_int_equal(sent.tombstone_ms, 0);
    assert_int_equal(patience_ms, OVER / 4);
    expect_status(STOPPING);
    answered(S + 30);
    expect_stopped();
}

TEST(test_contend_stop__asking_under_way_is_undone)
{
    simba_attempt attempt;

    use(default_config());
    ask();
    attempt = sent.attempt;
    stop(S + 20);
    expect_sent(SIMBA_RELEASE);
    expect_told(0);
    assert_true(simba__attempt_equal(sent.attempt, attempt));
    assert_int_equal(sent.token, 0);
    assert_int_equal(sent.tombstone_ms, LEASE);
    answered(S + 30);
    expect_stopped();
}

TEST(test_contend_stop__asking_from_the_queue_is_undone)
{
    use(default_config());
    ask();
    is_queued(S + 10, 5000, 77);
    wake_up(S + 20);
    expect_sent(SIMBA_ACQUIRE);
    stop(S + 30);
    expect_sent(SIMBA_RELEASE);
    assert_int_equal(sent.tombstone_ms, LEASE);
}

TEST(test_contend_stop__position_outlives_a_later_failure)
{
    use(default_config());
    ask();
    is_queued(S + 10, 5000, 77);
    wake_up(S + 20);
    failed(S + 25);
    stop(S + 30);
    expect_sent(SIMBA_LEAVE);
}

TEST(test_contend_stop__forgotten_position_is_not_left)
{
    use(default_config());
    ask();
    is_queued(S + 10, 5000, 77);
    wake_up(S + 20);
    refused(S + 30, 5000); /* the store knows of no position any more */
    stop(S + 40);
    expect_stopped();
}

/* --- stop as owner: S6 --------------------------------------------------- */

TEST(test_contend_stop__user_hears_before_the_store)
{
    use(default_config());
    own_and_stop(S + 1000);
    expect_wake_at(S + 1000 + BUDGET);
    returned(S + 1700);
    expect_told(0);
    expect_sent(SIMBA_RELEASE);
    assert_int_equal(sent.token, 5);
    assert_int_equal(sent.tombstone_ms, 0);
    assert_int_equal(patience_ms, (OVER - 1700) / 4);
    expect_status(STOPPING);
    answered(S + 1710);
    expect_stopped();
}

TEST(test_contend_stop__lease_is_renewed_while_the_user_leaves)
{
    use(default_config());
    own_and_stop(S + RENEW - 500);
    assert_int_equal(wake(), S + RENEW);
    expect_sent(SIMBA_RENEW);
    expect_told(0);
    yes(S + RENEW + 10, 5);
    expect_nothing(); /* owner it is not again */
    returned(S + RENEW + 400);
    expect_sent(SIMBA_RELEASE);
    /* The store's lease now runs from the renewal. */
    assert_int_equal(patience_ms, (OVER - 400) / 4);
}

TEST(test_contend_stop__who_leaves_need_not_make_progress)
{
    struct simba__contend_config config = default_config();

    config.progress_ms = 1000;
    use(config);
    own_and_stop(S + RENEW - 500);
    assert_int_equal(wake(), S + RENEW);
    expect_sent(SIMBA_RENEW);
}

TEST(test_contend_stop__renewal_under_way_is_given_up)
{
    simba_reply renewed = {.mine = true};
    struct simba__contend_event late = {
        .type = SIMBA__REPLIED, .now_ms = S + 7100, .reply = &renewed};

    use(default_config());
    own_and_renew();
    late.seq = sent.seq;
    stop(S + 7000);
    expect_told(SIMBA__TELL_RELEASED);
    returned(S + 7050);
    expect_sent(SIMBA_RELEASE);
    feed(&late);
    expect_nothing();
    answered(S + 7200);
    expect_stopped();
}

/* The last renewals failed; U and H pass while on_released runs. */
TEST(test_contend_stop__renewals_go_on_to_the_deadline)
{
    use(default_config());
    own_and_renew();
    stop(S + USE - 1);
    expect_released(SIMBA__CAUSE_STOP, S + HARD - 1);
    failed(S + USE + 500); /* later than its backoff: at once */
    expect_sent(SIMBA_RENEW);
    assert_int_equal(patience_ms, 50); /* U is past: the least there is */
    returned(S + USE + 510);
    expect_sent(SIMBA_RELEASE);
}

TEST(test_contend_stop__overrun_tells_user_and_store)
{
    use(default_config());
    own_and_stop(S + 1000);
    assert_int_equal(wake(), S + 1000 + BUDGET);
    expect_told(SIMBA__TELL_OVERRUN);
    expect_sent(SIMBA_RELEASE);
    answered(S + 3010);
    expect_stopped();
    returned(S + 9000); /* at last */
    expect_nothing();
}

TEST(test_contend_stop__gone_tenure_needs_no_release)
{
    use(default_config());
    own_and_stop(S + RENEW - 500);
    wake();
    answered(S + RENEW + 10); /* not yours */
    expect_nothing();
    expect_wake_at(S + RENEW - 500 + BUDGET); /* no renewal either */
    returned(S + RENEW + 20);
    expect_stopped();
}

TEST(test_contend_stop__gone_and_overrun_is_let_go)
{
    use(default_config());
    own_and_stop(S + RENEW - 500);
    wake();
    answered(S + RENEW + 10); /* not yours */
    assert_int_equal(wake(), S + RENEW - 500 + BUDGET);
    expect_told(SIMBA__TELL_OVERRUN | SIMBA__TELL_STOPPED);
    expect_sent(SIMBA_NO_REQUEST);
}

TEST(test_contend_stop__second_stop_changes_nothing)
{
    use(default_config());
    own_and_stop(S + 1000);
    stop(S + 1100);
    expect_nothing();
    expect_wake_at(S + 1000 + BUDGET);
    returned(S + 1200);
    stop(S + 1300);
    expect_nothing();
    answered(S + 1400);
    expect_stopped();
}

TEST(test_contend_stop__wake_makes_a_leaver_do_nothing)
{
    use(default_config());
    own_and_stop(S + 1000);
    wake_up(S + 1001);
    expect_nothing();
    expect_wake_at(S + 1000 + BUDGET);
    returned(S + 1100);
    wake_up(S + 1101);
    expect_nothing();
    answered(S + 1200);
    expect_stopped();
}

/* --- stop on the way out ------------------------------------------------- */

TEST(test_contend_stop__after_a_loss_it_asks_no_more)
{
    use(default_config());
    own_and_renew();
    answered(S + RENEW + 5); /* gone */
    stop(S + RENEW + 10);
    expect_nothing();
    expect_status(STOPPING);
    returned(S + RENEW + 20);
    expect_stopped();
}

TEST(test_contend_stop__while_releasing_it_asks_no_more)
{
    use(default_config());
    own_and_renew();
    timer(S + USE);
    returned(S + USE + 10);
    expect_sent(SIMBA_RELEASE);
    stop(S + USE + 20);
    expect_nothing();
    answered(S + USE + 30);
    expect_stopped();
}

TEST(test_contend_stop__stop_heard_after_the_end_is_a_loss)
{
    use(default_config());
    own();
    stop(S + 60000); /* the machine was asleep */
    expect_told(SIMBA__TELL_RELEASED);
    expect_released(SIMBA__CAUSE_EXPIRED, S + 60000 + BUDGET);
    returned(S + 60010);
    expect_stopped(); /* the lease is long over */
}

TEST(test_contend_stop__overrun_of_a_loss_is_told_at_h)
{
    use(default_config());
    own_and_renew();
    timer(S + USE);
    expect_released(SIMBA__CAUSE_EXPIRED, S + HARD);
    assert_int_equal(wake(), S + HARD);
    expect_told(SIMBA__TELL_OVERRUN);
    expect_sent(SIMBA_RELEASE);
}

/* --- min_hold ------------------------------------------------------------ */

static void use_min_hold(int64_t min_hold_ms)
{
    struct simba__contend_config config = default_config();

    config.min_hold_ms = min_hold_ms;
    use(config);
}

TEST(test_contend_stop__min_hold_counts_from_the_grant)
{
    use_min_hold(5000);
    own_and_stop(S + 1000);
    returned(S + 1100);
    expect_nothing();
    assert_int_equal(wake(), S + 10 + 5000);
    expect_told(0);
    expect_sent(SIMBA_RELEASE);
}

TEST(test_contend_stop__min_hold_that_is_over_holds_nothing)
{
    use_min_hold(5000);
    own_and_stop(S + 5500);
    returned(S + 5510);
    expect_sent(SIMBA_RELEASE);
}

TEST(test_contend_stop__min_hold_is_renewed_for)
{
    use_min_hold(20000);
    own_and_stop(S + 1000);
    returned(S + 1100);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(wake(), S + i * RENEW);
        expect_sent(SIMBA_RENEW);
        yes(S + i * RENEW + 1, 5);
        expect_nothing();
    }
    assert_int_equal(wake(), S + 10 + 20000);
    expect_sent(SIMBA_RELEASE);
}

/* The store may have renewed it although no answer came: to release it at H
 * would let others in early. */
TEST(test_contend_stop__min_hold_goes_on_without_answers)
{
    use_min_hold(60000);
    own_and_stop(S + 1000);
    returned(S + 1100);
    wake();
    expect_sent(SIMBA_RENEW);
    timer(S + HARD);
    expect_told(0);
    expect_sent(SIMBA_RENEW);
    timer(S + 10 + 60000); /* by now the lease is over anyhow */
    expect_told(SIMBA__TELL_STOPPED);
    expect_sent(SIMBA_NO_REQUEST);
}

TEST(test_contend_stop__min_hold_goes_on_after_an_overrun)
{
    use_min_hold(5000);
    own_and_stop(S + 1000);
    assert_int_equal(wake(), S + 1000 + BUDGET);
    expect_told(SIMBA__TELL_OVERRUN);
    expect_sent(SIMBA_NO_REQUEST);
    assert_int_equal(wake(), S + 10 + 5000);
    expect_told(0);
    expect_sent(SIMBA_RELEASE);
}

TEST(test_contend_stop__min_hold_ends_when_it_is_gone)
{
    use_min_hold(20000);
    own_and_stop(S + 1000);
    returned(S + 1100);
    wake();
    answered(S + RENEW + 1); /* an admin freed it */
    expect_stopped();
}

TEST(test_contend_stop__min_hold_is_for_stops_only)
{
    use_min_hold(60000);
    own_and_renew();
    timer(S + USE);
    returned(S + USE + 1);
    expect_sent(SIMBA_RELEASE);
}
