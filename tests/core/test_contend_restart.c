/* The contention machine started again: a new attempt, which waits until the
 * on_released of the last tenure has returned (S9). */
#include "contend_driver.h"

TEST(test_contend_restart__start_again_is_a_new_attempt)
{
    simba_attempt attempt;

    use(default_config());
    own_and_stop(S + 1000);
    attempt = sent.attempt;
    returned(S + 1100);
    answered(S + 1110);
    expect_stopped();
    start(S + 2000);
    expect_sent(SIMBA_ACQUIRE);
    expect_status(STARTING); /* the store has not answered anew */
    assert_false(simba__attempt_equal(sent.attempt, attempt));
    assert_int_equal(sent.token, 0);
    yes(S + 2010, 6);
    expect_acquired(6);
}

/* Stopped by an overrun; on_released still runs. */
static void stop_with_overrun(void)
{
    own_and_stop(S + 1000);
    wake();
    answered(S + 3010);
    expect_stopped();
}

TEST(test_contend_restart__restart_waits_for_on_released)
{
    use(default_config());
    stop_with_overrun();
    start(S + 4000);
    expect_nothing(); /* its on_acquired could not be called (S9) */
    expect_wake_at(NEVER);
    timer(S + 8000);
    expect_nothing();
    wake_up(S + 8500);
    expect_nothing();
    returned(S + 9000);
    expect_sent(SIMBA_ACQUIRE);
    yes(S + 9010, 6);
    expect_acquired(6);
}

TEST(test_contend_restart__restart_keeps_its_initial_delay)
{
    struct simba__contend_config config = default_config();

    config.initial_delay_ms = 700;
    use(config);
    start(S - 700);
    wake();
    yes(S + 10, 5);
    stop(S + 1000);
    wake();
    answered(S + 3010);
    start(S + 4000);
    returned(S + 4500);
    expect_nothing();
    assert_int_equal(wake(), S + 4700);
    expect_sent(SIMBA_ACQUIRE);
}

TEST(test_contend_restart__stop_before_on_released_is_back)
{
    use(default_config());
    stop_with_overrun();
    start(S + 4000);
    stop(S + 5000);
    expect_stopped();
    returned(S + 6000);
    expect_nothing();
}

TEST(test_contend_restart__loss_waits_for_on_released_too)
{
    use(default_config());
    own_and_renew();
    timer(S + USE);
    wake();
    expect_told(SIMBA__TELL_OVERRUN);
    answered(S + HARD + 10);
    expect_nothing(); /* contends anew, but may not ask yet */
    expect_wake_at(NEVER);
    expect_status(RUNNING);
    returned(S + HARD + 500);
    expect_sent(SIMBA_ACQUIRE);
}

TEST(test_contend_restart__each_tenure_overruns_for_itself)
{
    use(default_config());
    stop_with_overrun();
    returned(S + 3500);
    start(S + 4000);
    yes(S + 4010, 6);
    stop(S + 5000);
    expect_released(SIMBA__CAUSE_STOP, S + 5000 + BUDGET);
    assert_int_equal(wake(), S + 5000 + BUDGET);
    expect_told(SIMBA__TELL_OVERRUN);
    expect_sent(SIMBA_RELEASE);
}

TEST(test_contend_restart__old_answers_do_not_count)
{
    simba_reply grant = {.mine = true, .token = 5};
    struct simba__contend_event late = {
        .type = SIMBA__REPLIED, .now_ms = S + 50, .reply = &grant};

    use(default_config());
    ask();
    late.seq = sent.seq;
    stop(S + 10);
    feed(&late); /* granted after all; the release is on its way */
    expect_nothing();
    answered(S + 60);
    expect_stopped();
    feed(&late);
    expect_nothing();
    start(S + 70);
    feed(&late);
    expect_nothing();
    yes(S + 80, 6);
    expect_acquired(6);
}

TEST(test_contend_restart__old_failures_are_forgotten)
{
    use(default_config());
    ask();
    for (int i = 0; i < 5; i++) {
        failed(machine.now_ms);
        wake();
    }
    failed(machine.now_ms);
    stop(machine.now_ms);
    expect_stopped();
    start(S + 9000);
    failed(S + 9000);
    expect_wake_in(S + 9038, S + 9062);
}

TEST(test_contend_restart__stopped_contender_ignores_wakes)
{
    use(default_config());
    ask();
    is_queued(S + 10, 5000, 77);
    stop(S + 20);
    answered(S + 30);
    expect_stopped();
    wake_up(S + 40);
    expect_nothing();
    expect_wake_at(NEVER);
    start(S + 50);
    assert_int_equal(sent.position, 0); /* nor is the old position asked for */
}

/* --- nothing of one tenure shows through in the next --------------------- */

TEST(test_contend_restart__position_ends_with_the_attempt)
{
    use(default_config());
    ask();
    is_queued(S + 10, 5000, 77);
    wake_up(S + 100);
    yes(S + 110, 5);
    wake_up(S + 200);
    answered(S + 210); /* gone */
    returned(S + 220);
    failed(S + 230);
    stop(S + 240); /* there is no position to leave */
    expect_told(SIMBA__TELL_STOPPED);
    expect_sent(SIMBA_NO_REQUEST);
}

TEST(test_contend_restart__tenure_after_a_gone_one_is_released)
{
    use(default_config());
    own();
    wake_up(S + 200);
    answered(S + 210); /* gone */
    returned(S + 220);
    expect_sent(SIMBA_ACQUIRE);
    yes(S + 230, 6);
    stop(S + 300);
    returned(S + 310);
    expect_sent(SIMBA_RELEASE);
    assert_int_equal(sent.token, 6);
}

/* The first tenure was stopped early, and gone before its min_hold was over. */
TEST(test_contend_restart__min_hold_ends_with_its_tenure)
{
    struct simba__contend_config config = default_config();

    config.min_hold_ms = 60000;
    use(config);
    own();
    wake_up(S + 100);
    stop(S + 110);
    answered(S + 120);
    returned(S + 130);
    expect_told(SIMBA__TELL_STOPPED);
    start(S + 200);
    yes(S + 210, 6);
    timer(S + 200 + USE);
    expect_released(SIMBA__CAUSE_EXPIRED, S + 200 + HARD);
    returned(S + 200 + USE);
    expect_sent(SIMBA_RELEASE);
}

TEST(test_contend_restart__max_hold_counts_anew)
{
    struct simba__contend_config config = default_config();

    config.max_hold_ms = 3000;
    use(config);
    own();
    stop(S + 100);
    returned(S + 110);
    answered(S + 120);
    start(S + 5000);
    yes(S + 5010, 6);
    expect_acquired(6);
    expect_owner_until(S + 5010 + 3000);
}

TEST(test_contend_restart__store_clock_is_remembered)
{
    use(default_config());
    ask();
    reply(S + 10,
          (simba_reply){.mine = true, .token = 5, .store_ms = S + 500000});
    stop(S + 100);
    returned(S + 110);
    answered(S + 120);
    start(S + 200);
    reply(S + 210,
          (simba_reply){.mine = true, .token = 6, .store_ms = S + 900000});
    expect_told(SIMBA__TELL_ACQUIRED | SIMBA__TELL_CLOCK_JUMP);
    expect_sent(SIMBA_RENEW); /* an owner asks again at once */
}
