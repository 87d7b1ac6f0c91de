/* The contention machine in the queue: the position it is given and gives back,
 * and the backstop that asks again when every wake-up is lost. */
#include "contend_driver.h"

/* --- the backstop -------------------------------------------------------- */

TEST(test_contend_queue__head_asks_when_the_lease_ends)
{
    use(default_config());
    ask();
    head_of_line(S + 10, 5000);
    expect_nothing();
    assert_int_equal(wake(), S + 10 + 5001); /* after its last millisecond */
    expect_sent(SIMBA_ACQUIRE);
}

TEST(test_contend_queue__others_let_the_head_go_first)
{
    use(default_config());
    ask();
    is_queued(S + 10, 5000, 1);
    expect_nothing();
    assert_int_equal(wake(), S + 10 + 5000 + SIMBA__OFFER_MS);
    expect_sent(SIMBA_ACQUIRE);
}

TEST(test_contend_queue__offer_lasts_300_ms)
{
    assert_int_equal(SIMBA__OFFER_MS, 300);
}

/* The least and the greatest delay that a refusal without a position leads to.
 */
struct span {
    int64_t least, most;
};

static struct span backstop_of(struct simba__contend_config config,
                               int64_t wait_ms)
{
    struct span span = {NEVER, 0};

    for (uint64_t seed = 0; seed < 20000; seed++) {
        int64_t delay;

        use_seeded(config, seed);
        ask();
        refused(S + 10, wait_ms);
        delay = simba__contend_wake_at(&machine) - (S + 10);
        span.least = delay < span.least ? delay : span.least;
        span.most = delay > span.most ? delay : span.most;
    }
    return span;
}

TEST(test_contend_queue__who_has_no_position_asks_with_jitter)
{
    struct span span = backstop_of(default_config(), 5000);

    assert_int_equal(span.least, 5000 - 200);
    assert_int_equal(span.most, 5000 + 999);
}

TEST(test_contend_queue__no_transition_no_early_asking)
{
    struct simba__contend_config config = default_config();
    struct span span;

    config.lease.transition_ms = 0;
    config.lease.budget_ms = 1000;
    span = backstop_of(config, 5000);
    assert_int_equal(span.least, 5000);
    assert_int_equal(span.most, 5000 + 999);
}

TEST(test_contend_queue__jitter_asks_no_oftener_than_5_ms)
{
    struct span span = backstop_of(default_config(), 0);

    assert_int_equal(span.least, 5);
    assert_int_equal(span.most, 999);
}

static void expect_head_delay(int64_t wait_ms, int64_t delay_ms)
{
    use(default_config());
    ask();
    head_of_line(S + 10, wait_ms);
    expect_nothing();
    expect_wake_at(S + 10 + delay_ms);
}

TEST(test_contend_queue__head_asks_no_oftener_than_5_ms)
{
    expect_head_delay(-100, 5);
    expect_head_delay(0, 5);
    expect_head_delay(4, 5);
    expect_head_delay(5, 6);
}

TEST(test_contend_queue__no_wait_is_longer_than_a_lease)
{
    expect_head_delay(LEASE - 1, LEASE);
    expect_head_delay(LEASE, LEASE + 1);
    expect_head_delay(LEASE + 1, LEASE + 1);
    expect_head_delay(NEVER, LEASE + 1); /* an owner of another kind */
    use(default_config());
    ask();
    is_queued(S, NEVER, 1);
    expect_wake_at(S + LEASE + SIMBA__OFFER_MS);
}

TEST(test_contend_queue__wait_counts_from_the_hearing)
{
    use(default_config());
    ask();
    head_of_line(S + 3000, 1000);
    expect_wake_at(S + 4001);
}

TEST(test_contend_queue__waits_on_when_the_owner_renews)
{
    int64_t now = S;

    use(default_config());
    ask();
    for (int i = 0; i < 5; i++) {
        head_of_line(now + 3, 7000);
        assert_int_equal(wake(), now + 3 + 7001);
        expect_sent(SIMBA_ACQUIRE);
        now += 3 + 7001;
    }
    yes(now + 3, 5);
    expect_told(SIMBA__TELL_ACQUIRED | SIMBA__TELL_BACKSTOP);
    assert_int_equal(up.token, 5);
    expect_owner_until(now + USE);
}

TEST(test_contend_queue__delay_follows_the_newest_answer)
{
    use(default_config());
    ask();
    is_queued(S, 1000, 7);
    wake();
    head_of_line(S + 1300, 1000); /* who stood before us has gone */
    expect_wake_at(S + 1300 + 1001);
    wake();
    refused(S + 2301, 1000); /* the store forgot the queue */
    expect_wake_in(S + 2301 + 800, S + 2301 + 1999);
}

/* --- the position -------------------------------------------------------- */

TEST(test_contend_queue__position_is_given_back_with_each_ask)
{
    simba_attempt attempt;

    use(default_config());
    ask();
    attempt = sent.attempt;
    is_queued(S + 10, 1000, 77);
    wake();
    assert_int_equal(sent.position, 77);
    assert_true(simba__attempt_equal(sent.attempt, attempt));
    assert_int_equal(sent.waiter_ms, WAITER_LIFE);
    assert_true(sent.join);
}

TEST(test_contend_queue__newest_position_is_kept)
{
    use(default_config());
    ask();
    is_queued(S + 10, 1000, 77);
    wake();
    assert_int_equal(sent.position, 77);
    is_queued(S + 1400, 1000, 99); /* it missed its call: to the end */
    wake();
    assert_int_equal(sent.position, 99);
    refused(S + 2800, 1000); /* no position this time: ask for the old one */
    wake();
    assert_int_equal(sent.position, 99);
}

TEST(test_contend_queue__position_may_come_late)
{
    use(default_config());
    ask();
    refused(S + 10, 1000);
    wake();
    assert_int_equal(sent.position, 0);
    is_queued(S + 2100, 1000, 88);
    wake();
    assert_int_equal(sent.position, 88);
}

TEST(test_contend_queue__position_outlives_failures)
{
    use(default_config());
    ask();
    is_queued(S + 10, 1000, 77);
    wake();
    unknown(S + 1320);
    wake();
    assert_int_equal(sent.position, 77);
    failed(S + 1500);
    wake();
    assert_int_equal(sent.position, 77);
}

/* Only who is in the queue and has heard nothing since asks for form's sake. */
TEST(test_contend_queue__says_when_nothing_has_happened)
{
    use(default_config());
    ask();
    assert_false(sent.is_backstop);
    is_queued(S + 10, 1000, 77);
    wake();
    assert_true(sent.is_backstop);
    is_queued(S + 1400, 1000, 77);
    wake_up(S + 1500);
    assert_false(sent.is_backstop);
    wake_up(S + 1501); /* while asking */
    is_queued(S + 1510, 1000, 77);
    wake();
    assert_false(sent.is_backstop);
    failed(S + 1520);
    wake();
    assert_false(sent.is_backstop);
    refused(S + 1600, 1000); /* without a position */
    wake();
    assert_false(sent.is_backstop);
}

/* What has led to a grant: a wake-up, also one that came while it asked, or
 * nothing but the backstop. */
TEST(test_contend_queue__tells_when_no_wake_up_led_to_it)
{
    for (int woken = 0; woken < 4; woken++) {
        use(default_config());
        ask();
        if (woken == 3) {
            refused(S + 10, 1000); /* without a position */
        } else {
            is_queued(S + 10, 1000, 77);
        }
        if (woken == 1) {
            wake_up(S + 20);
        } else {
            wake();
        }
        if (woken == 2) {
            wake_up(machine.now_ms + 1);
        }
        yes(machine.now_ms + 2, 5);
        assert_int_equal(is_told(SIMBA__TELL_BACKSTOP),
                         woken == 0 || woken == 3);
    }
    use(default_config());
    ask();
    yes(S + 10, 5); /* nobody had it */
    assert_false(is_told(SIMBA__TELL_BACKSTOP));
}

TEST(test_contend_queue__new_attempt_has_no_position)
{
    use(default_config());
    ask();
    is_queued(S + 10, 1000, 77);
    wake_up(S + 500);
    yes(S + 510, 5);
    wake_up(S + 600);
    answered(S + 610); /* the tenure is gone */
    returned(S + 620);
    expect_sent(SIMBA_ACQUIRE);
    assert_int_equal(sent.position, 0);
    is_queued(S + 630, 1000, 80);
    wake();
    assert_int_equal(sent.position, 80);
}

TEST(test_contend_queue__position_lives_twice_the_longest_wait)
{
    struct simba__contend_config config = default_config();

    config.lease.ttl_ms = 3000;
    config.lease.transition_ms = 1000;
    config.lease.budget_ms = 500;
    use(config);
    ask();
    assert_int_equal(sent.waiter_ms, 2 * (4000 + 1000));
}

TEST(test_contend_queue__who_does_not_join_says_so)
{
    struct simba__contend_config config = default_config();

    config.join = false;
    use(config);
    ask();
    assert_false(sent.join);
    refused(S + 10, 1000);
    wake();
    expect_sent(SIMBA_ACQUIRE);
    assert_false(sent.join);
}

/* --- wake-ups ------------------------------------------------------------ */

TEST(test_contend_queue__offered_waiter_comes_at_once)
{
    use(default_config());
    ask();
    is_queued(S + 10, 9000, 77);
    wake_up(S + 4000);
    expect_sent(SIMBA_ACQUIRE);
    assert_int_equal(sent.position, 77);
    yes(S + 4003, 5);
    expect_acquired(5);
}

/* The second in the queue is told too, and learns how long the first may take.
 */
TEST(test_contend_queue__second_waits_for_the_offer)
{
    use(default_config());
    ask();
    is_queued(S + 10, 9000, 77);
    wake_up(S + 4000);
    head_of_line(S + 4005, 300);
    assert_int_equal(wake(), S + 4005 + 301);
    expect_sent(SIMBA_ACQUIRE);
}
