/* The contention machine and what the store says unasked: wake-ups, which only
 * make it ask (S7), and the store's clock, steps of which are noticed (S1). */
#include "contend_driver.h"

/* --- wake-ups ------------------------------------------------------------ */

TEST(test_contend_wake__storm_of_wakes_is_no_storm_of_questions)
{
    int asked = 0;

    use(default_config());
    ask();
    head_of_line(S + 10, 5000);
    for (int i = 1; i <= 100; i++) { /* ten wake-ups and an answer each ms */
        for (int k = 0; k < 10; k++) {
            wake_up(S + 10 + i);
            asked += up.send.kind == SIMBA_ACQUIRE;
        }
        if (machine.inflight == SIMBA_ACQUIRE) {
            head_of_line(S + 10 + i, 5000);
            asked += up.send.kind == SIMBA_ACQUIRE;
        }
    }
    assert_in_range(asked, 40, 60);
}

/* Who is woken as the second of the queue, and refused, is the first soon
 * after. */
TEST(test_contend_wake__wake_soon_after_another_is_followed_at_once)
{
    use(default_config());
    ask();
    head_of_line(S, 9000);
    wake_up(S);
    expect_sent(SIMBA_ACQUIRE);
    head_of_line(S, 9000);
    wake_up(S + 1);
    expect_sent(SIMBA_ACQUIRE);
}

TEST(test_contend_wake__wake_while_asking_is_followed_at_the_answer)
{
    use(default_config());
    ask();
    wake_up(S);
    head_of_line(S + 1, 9000);
    expect_sent(SIMBA_ACQUIRE);
}

TEST(test_contend_wake__after_a_calm_time_wakes_are_followed_again)
{
    use(default_config());
    ask();
    head_of_line(S, 9000);
    for (int i = 0; i < 10; i++) {
        wake_up(S);
        if (machine.inflight == SIMBA_ACQUIRE) {
            head_of_line(S, 9000);
        }
    }
    wake_up(S + 1);
    expect_nothing();
    expect_wake_at(S + 2);
    timer(S + 2);
    head_of_line(S + 2, 9000);
    wake_up(S + 500);
    head_of_line(S + 500, 9000);
    wake_up(S + 500);
    expect_sent(SIMBA_ACQUIRE);
}

TEST(test_contend_wake__wake_makes_a_waiter_ask)
{
    use(default_config());
    ask();
    head_of_line(S + 10, 9000);
    wake_up(S + 500);
    expect_sent(SIMBA_ACQUIRE);
    expect_told(0);
}

TEST(test_contend_wake__wake_cuts_a_backoff_short)
{
    use(default_config());
    ask();
    failed(S + 1);
    wake_up(S + 2);
    expect_sent(SIMBA_ACQUIRE);
}

TEST(test_contend_wake__wake_while_asking_asks_once_more)
{
    use(default_config());
    ask();
    wake_up(S + 5);
    expect_nothing();
    wake_up(S + 6); /* doubled */
    expect_nothing();
    head_of_line(S + 10, 9000);
    expect_sent(SIMBA_ACQUIRE);
    head_of_line(S + 20, 9000);
    expect_nothing();
    expect_wake_at(S + 20 + 9001);
}

TEST(test_contend_wake__wake_while_asking_outlives_a_failure)
{
    use(default_config());
    ask();
    wake_up(S + 5);
    failed(S + 10);
    expect_sent(SIMBA_ACQUIRE);
    failed(S + 11);
    expect_nothing();
}

TEST(test_contend_wake__wake_is_no_grant)
{
    use(default_config());
    ask();
    wake_up(S + 5);
    head_of_line(S + 10, 9000);
    wake_up(S + 500);
    expect_told(0);
    assert_false(simba__contend_is_owner(&machine, S + 500));
    yes(S + 510, 5);
    expect_acquired(5);
}

TEST(test_contend_wake__wake_while_asking_is_moot_when_granted)
{
    use(default_config());
    ask();
    wake_up(S + 5);
    yes(S + 10, 5);
    expect_sent(SIMBA_NO_REQUEST);
    expect_wake_at(S + RENEW);
}

TEST(test_contend_wake__wake_makes_an_owner_renew)
{
    use(default_config());
    own();
    wake_up(S + 3000);
    expect_sent(SIMBA_RENEW);
    expect_told(0);
    assert_int_equal(patience_ms, (USE - 3000) / 4);
    answered(S + 3010);
    expect_released(SIMBA__CAUSE_GONE, S + HARD);
}

TEST(test_contend_wake__owner_spaces_out_what_wakes_ask)
{
    use(default_config());
    own();
    wake_up(S + 20);
    expect_nothing();
    expect_wake_at(S + 50);
    wake_up(S + 21);
    expect_nothing();
    assert_int_equal(wake(), S + 50);
    expect_sent(SIMBA_RENEW);
}

TEST(test_contend_wake__wake_never_puts_a_renewal_off)
{
    use(default_config());
    own_and_renew();
    failed(S + RENEW + 1);
    expect_wake_in(S + RENEW + 8, S + RENEW + 12);
    wake_up(S + RENEW + 2);
    expect_nothing();
    expect_wake_in(S + RENEW + 8, S + RENEW + 12);
}

TEST(test_contend_wake__wake_while_renewing_renews_once_more)
{
    use(default_config());
    own_and_renew();
    wake_up(S + RENEW + 1);
    expect_nothing();
    yes(S + RENEW + 2, 5);
    expect_nothing();
    expect_wake_at(S + RENEW + 50); /* spaced: wake-ups may come in storms */
    wake();
    expect_sent(SIMBA_RENEW);
    yes(S + RENEW + 60, 5);
    expect_nothing();
    expect_wake_at(S + RENEW + 50 + RENEW);
}

/* --- the store's clock --------------------------------------------------- */

/* The store's clock is `offset_ms` ahead of ours when it answers. */
static void renewed_by_clock(int64_t now_ms, int64_t store_ms)
{
    reply(now_ms,
          (simba_reply){.mine = true, .token = 5, .store_ms = store_ms});
}

/* Owner; the store's clock was read as being 500 000 ms ahead, give or take
 * the 10 ms of the round trip. */
static void own_by_clock(void)
{
    use(default_config());
    ask();
    renewed_by_clock(S + 10, S + 10 + 500000);
    expect_acquired(5);
}

/* The next answer, to a renewal sent at S + RENEW and heard at once. */
static void expect_jump(int64_t offset_ms, bool is_jump)
{
    own_by_clock();
    wake();
    renewed_by_clock(S + RENEW, S + RENEW + offset_ms);
    expect_told(is_jump ? SIMBA__TELL_CLOCK_JUMP : 0);
    expect_sent(is_jump ? SIMBA_RENEW : SIMBA_NO_REQUEST);
}

TEST(test_contend_wake__clock_may_drift_within_the_margin)
{
    /* 6 seconds and a part between the answers, 21 ms each. */
    int64_t allowed = MARGIN + 7 * 21;

    expect_jump(500000, false);
    expect_jump(500010 + allowed, false);
    expect_jump(500010 + allowed + 1, true);
    expect_jump(500000 - allowed, false);
    expect_jump(500000 - allowed - 1, true);
}

TEST(test_contend_wake__slow_answer_leaves_the_clock_in_doubt)
{
    int64_t allowed = MARGIN + 8 * 21;

    own_by_clock();
    wake();
    /* Sent at RENEW, heard 1000 ms later: stamped anywhere in between. */
    renewed_by_clock(S + RENEW + 1000, S + RENEW + 1000 + 500010 + allowed);
    expect_told(0);
    own_by_clock();
    wake();
    renewed_by_clock(S + RENEW + 1000, S + RENEW + 500000 - allowed);
    expect_told(0);
    own_by_clock();
    wake();
    renewed_by_clock(S + RENEW + 1000, S + RENEW + 500000 - allowed - 1);
    expect_told(SIMBA__TELL_CLOCK_JUMP);
}

/* A slow answer says little of the clock, and must not make us forget. */
TEST(test_contend_wake__slow_answer_hides_no_step)
{
    own_by_clock();
    wake();
    renewed_by_clock(S + RENEW + 1700, S + RENEW + 1700 + 500000);
    expect_told(0);
    wake();
    renewed_by_clock(S + 2 * RENEW + 10, S + 2 * RENEW + 10 + 501500);
    expect_told(SIMBA__TELL_CLOCK_JUMP);
}

/* By as much as is sure. */
TEST(test_contend_wake__step_is_told_with_its_length)
{
    expect_jump(500000 - 60000, true);
    assert_int_equal(up.clock_step_ms, -60000 + 7 * 21);
    expect_jump(500010 + 60000, true);
    assert_int_equal(up.clock_step_ms, 60000 - 7 * 21);
}

/* Woken every 20 ms from here on for ten seconds; returns how often it renews.
 */
static int renewals_when_woken(int64_t from_ms)
{
    int count = 0;

    for (int64_t now = from_ms; now < from_ms + 10000; now += 20) {
        wake_up(now);
        if (machine.inflight == SIMBA_NO_REQUEST) {
            timer(now + 1);
        }
        if (machine.inflight == SIMBA_RENEW) {
            yes(now + 2, 5);
            count++;
        }
    }
    return count;
}

/* Others of its handle come and go, and each wake-up may be meant for it. */
TEST(test_contend_wake__owner_that_is_woken_in_vain_renews_seldom)
{
    use(default_config());
    own();
    assert_in_range(renewals_when_woken(S + 100), 5, 20);
}

/* With a short lease its own renewals are due before that. */
TEST(test_contend_wake__owner_that_is_woken_in_vain_renews_in_time)
{
    struct simba__contend_config config = default_config();

    config.lease = (struct simba__lease){.ttl_ms = 270, .budget_ms = 1};
    use(config);
    own();
    for (int i = 0; i < 20; i++) {
        int64_t at = simba__contend_wake_at(&machine);

        assert_true(at <= machine.sent_ms + 180);
        timer(at);
        expect_sent(SIMBA_RENEW);
        wake_up(at + 1);
        yes(at + 2, 5);
    }
}

TEST(test_contend_wake__owner_is_told_soon_again_after_a_calm)
{
    use(default_config());
    own();
    (void)renewals_when_woken(S + 100);
    yes(wake() + 1, 5); /* what the last wake-up had left */
    yes(wake() + 1, 5); /* in its time: nobody had woken it */
    wake_up(machine.sent_ms + 60);
    expect_sent(SIMBA_RENEW);
}

TEST(test_contend_wake__owner_asks_at_once_when_the_clock_jumps)
{
    expect_jump(900000, true);
    expect_owner_until(S + RENEW + USE);
    renewed_by_clock(S + RENEW + 5, S + RENEW + 5 + 900000);
    expect_nothing(); /* the new time is the time now */
}

/* Answers from two servers whose clocks disagree. */
TEST(test_contend_wake__flapping_clock_is_no_storm)
{
    expect_jump(900000, true);
    renewed_by_clock(S + RENEW + 2, S + RENEW + 2 + 500000);
    expect_told(SIMBA__TELL_CLOCK_JUMP);
    expect_sent(SIMBA_NO_REQUEST);
    expect_wake_at(S + RENEW + 50);
}

TEST(test_contend_wake__waiter_tells_of_a_jump_and_waits_on)
{
    simba_reply line = {
        .is_queued = true, .is_head = true, .wait_ms = 2000, .store_ms = 1};

    use(default_config());
    ask();
    reply(S + 10, line);
    expect_told(0);
    assert_int_equal(wake(), S + 10 + 2001);
    line.store_ms = 700000;
    reply(S + 2020, line);
    expect_told(SIMBA__TELL_CLOCK_JUMP);
    expect_sent(SIMBA_NO_REQUEST);
    expect_wake_at(S + 2020 + 2001);
}

TEST(test_contend_wake__clock_not_told_is_not_compared)
{
    own_by_clock();
    wake();
    yes(S + RENEW, 5); /* a store that does not tell its time */
    expect_nothing();
    wake();
    feed(&(struct simba__contend_event){
        .type = SIMBA__REPLIED,
        .now_ms = S + 2 * RENEW,
        .seq = sent.seq,
        .outcome = SIMBA__UNKNOWN,
        .reply = &(simba_reply){.store_ms = 1}}); /* of no meaning */
    expect_nothing();
    wake();
    renewed_by_clock(S + 2 * RENEW + 50, S + 2 * RENEW + 50 + 500000);
    expect_nothing();
}
