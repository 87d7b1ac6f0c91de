/* The contention machine on its way to an answer: settings, starting, asking,
 * backing off, the status. The position in the queue is in
 * test_contend_queue.c. */
#include "contend_driver.h"

/* --- settings ------------------------------------------------------------ */

static void expect_problem(struct simba__contend_config config,
                           enum simba__contend_problem problem)
{
    assert_int_equal(simba__contend_config_check(&config), problem);
}

TEST(test_contend_wait__wrong_settings_are_named)
{
    struct simba__contend_config config = default_config();

    expect_problem(config, SIMBA__CONTEND_FINE);
    config.lease.ttl_ms = 99;
    expect_problem(config, SIMBA__CONTEND_LEASE);
    config = default_config();
    config.initial_delay_ms = -1;
    expect_problem(config, SIMBA__CONTEND_INITIAL_DELAY);
    config = default_config();
    config.max_hold_ms = -1;
    expect_problem(config, SIMBA__CONTEND_MAX_HOLD);
    config = default_config();
    config.min_hold_ms = -1;
    expect_problem(config, SIMBA__CONTEND_MIN_HOLD);
    config = default_config();
    config.progress_ms = -1;
    expect_problem(config, SIMBA__CONTEND_PROGRESS);
}

TEST(test_contend_wait__settings_may_last_ten_years)
{
    int64_t most = SIMBA__LEASE_MOST_MS;
    struct simba__contend_config config = default_config();

    config.initial_delay_ms = config.progress_ms = most;
    config.max_hold_ms = config.min_hold_ms = most;
    expect_problem(config, SIMBA__CONTEND_FINE);
    config.progress_ms = most + 1;
    expect_problem(config, SIMBA__CONTEND_PROGRESS);
    config.min_hold_ms = most + 1;
    expect_problem(config, SIMBA__CONTEND_MIN_HOLD);
    config.max_hold_ms = most + 1;
    expect_problem(config, SIMBA__CONTEND_MAX_HOLD);
    config.initial_delay_ms = most + 1;
    expect_problem(config, SIMBA__CONTEND_INITIAL_DELAY);
}

TEST(test_contend_wait__min_hold_fits_into_max_hold)
{
    struct simba__contend_config config = default_config();

    config.min_hold_ms = 500;
    expect_problem(config, SIMBA__CONTEND_FINE); /* there is no cap */
    config.max_hold_ms = 500;
    expect_problem(config, SIMBA__CONTEND_FINE);
    config.max_hold_ms = 499;
    expect_problem(config, SIMBA__CONTEND_HOLD_ORDER);
    config.max_hold_ms = 1;
    config.min_hold_ms = 2;
    expect_problem(config, SIMBA__CONTEND_HOLD_ORDER);
}

TEST(test_contend_wait__attempts_are_equal_in_both_halves)
{
    simba_attempt a = {1, 2}, other_high = {3, 2}, other_low = {1, 3};

    assert_true(simba__attempt_equal(a, a));
    assert_false(simba__attempt_equal(a, other_high));
    assert_false(simba__attempt_equal(a, other_low));
}

/* --- asking -------------------------------------------------------------- */

TEST(test_contend_wait__rests_until_it_is_started)
{
    use(default_config());
    expect_wake_at(NEVER);
    timer(1);
    expect_nothing();
    wake_up(2);
    expect_nothing();
    stop(3);
    expect_nothing();
    progress(4);
    expect_nothing();
    returned(5);
    expect_nothing();
    yes(6, 5); /* an answer to what was never asked */
    expect_nothing();
    happen((enum simba__contend_event_type)99, 7); /* of a later version */
    expect_nothing();
    expect_wake_at(NEVER);
    expect_status(INITIAL);
}

TEST(test_contend_wait__start_asks_at_once)
{
    use(default_config());
    start(S);
    expect_sent(SIMBA_ACQUIRE);
    expect_told(0);
    assert_int_equal(patience_ms, ASK_TRY);
    assert_int_equal(sent.waiter_ms, WAITER_LIFE);
    assert_int_equal(sent.token, 0);
    assert_int_equal(sent.position, 0);
    assert_int_equal(sent.tombstone_ms, 0);
    assert_true(sent.join);
    expect_wake_at(S + ASK_TRY);
    expect_status(STARTING);
}

/* As happen(), while too many acquires of the handle are under way. */
static void happen_full(enum simba__contend_event_type type, int64_t now_ms)
{
    feed(&(struct simba__contend_event){
        .type = type, .now_ms = now_ms, .is_full = true});
}

TEST(test_contend_wait__asks_only_when_there_is_room)
{
    use(default_config());
    happen_full(SIMBA__START, S);
    expect_nothing();
    expect_wake_at(NEVER);
    happen_full(SIMBA__TIMER, S + 1);
    expect_nothing();
    timer(S + 500);
    expect_sent(SIMBA_ACQUIRE);
    expect_wake_at(S + 500 + ASK_TRY); /* it counts from the sending */
}

TEST(test_contend_wait__who_waits_for_room_can_stop_without_a_word)
{
    use(default_config());
    happen_full(SIMBA__START, S);
    stop(S + 1);
    expect_told(SIMBA__TELL_STOPPED);
    expect_wake_at(NEVER);
}

TEST(test_contend_wait__who_asks_once_needs_no_room)
{
    struct simba__contend_config config = default_config();

    config.join = false;
    use(config);
    happen_full(SIMBA__START, S);
    expect_sent(SIMBA_ACQUIRE);
}

TEST(test_contend_wait__who_is_woken_needs_no_room)
{
    use(default_config());
    start(S);
    is_queued(S + 1, 1000, 1);
    happen_full(SIMBA__TIMER, S + 2000);
    expect_nothing();
    happen_full(SIMBA__WAKE_UP, S + 2001);
    expect_sent(SIMBA_ACQUIRE);
}

TEST(test_contend_wait__initial_delay_comes_before_the_asking)
{
    struct simba__contend_config config = default_config();

    config.initial_delay_ms = 700;
    use(config);
    start(S);
    expect_nothing();
    wake_up(S + 1); /* nobody can mean us yet */
    expect_nothing();
    assert_int_equal(wake(), S + 700);
    expect_sent(SIMBA_ACQUIRE);
}

TEST(test_contend_wait__same_seed_makes_the_same_attempt)
{
    simba_attempt first, same, other;

    use_seeded(default_config(), 1);
    ask();
    first = sent.attempt;
    use_seeded(default_config(), 1);
    ask();
    same = sent.attempt;
    use_seeded(default_config(), 2);
    ask();
    other = sent.attempt;
    assert_true(simba__attempt_equal(first, same));
    assert_false(simba__attempt_equal(first, other));
    assert_true(first.high != first.low);
}

TEST(test_contend_wait__unanswered_asking_is_repeated_at_once)
{
    simba_attempt attempt;

    use(default_config());
    ask();
    attempt = sent.attempt;
    assert_int_equal(wake(), S + ASK_TRY);
    expect_sent(SIMBA_ACQUIRE);
    expect_told(0);
    assert_true(simba__attempt_equal(sent.attempt, attempt));
    expect_wake_at(S + 2 * ASK_TRY);
    expect_status(STARTING);
}

TEST(test_contend_wait__stale_answers_are_ignored)
{
    simba_reply grant = {.mine = true, .token = 5, .store_ms = 1};
    struct simba__contend_event late = {
        .type = SIMBA__REPLIED, .now_ms = S + 4000, .reply = &grant};

    use(default_config());
    ask();
    late.seq = sent.seq;
    wake();
    feed(&late);
    expect_nothing();
    expect_wake_at(S + 2 * ASK_TRY);
    expect_status(STARTING);
}

TEST(test_contend_wait__answer_counts_once)
{
    use(default_config());
    ask();
    refused(S + 10, 5000);
    yes(S + 11, 5); /* the same seq: doubled on the way */
    expect_nothing();
}

/* The process slept: the answer is older than its deadline, and still true. */
TEST(test_contend_wait__answer_beats_a_timer_that_is_late)
{
    use(default_config());
    ask();
    yes(S + ASK_TRY + 500, 5);
    expect_acquired(5);
    expect_sent(SIMBA_NO_REQUEST);
}

TEST(test_contend_wait__time_never_runs_backwards)
{
    use(default_config());
    start(S);
    head_of_line(S - 900, 5000); /* heard before it was sent */
    expect_nothing();
    expect_wake_at(S + 5001); /* it is S all the same */
}

/* The n-th failure waits first * 2^n, at most `most`, a quarter more or less.
 * Answers the time of the last failure. */
static void expect_backoff(int64_t first_ms, int64_t most_ms, int failures)
{
    int64_t delay = first_ms < most_ms ? first_ms : most_ms;
    int64_t now = S;

    for (int i = 0; i < failures; i++) {
        failed(now);
        expect_nothing();
        expect_wake_in(now + delay - delay / 4, now + delay + delay / 4);
        now = wake();
        expect_sent(SIMBA_ACQUIRE);
        delay = delay * 2 < most_ms ? delay * 2 : most_ms;
    }
}

TEST(test_contend_wait__failures_back_off_doubling)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        use_seeded(default_config(), seed);
        ask();
        expect_backoff(50, LEASE / 4, 80);
        expect_status(STARTING);
    }
}

TEST(test_contend_wait__backoff_has_a_cap)
{
    struct simba__contend_config config = default_config();

    config.lease.ttl_ms = 60000;
    use(config);
    ask();
    expect_backoff(50, 5000, 25);
    config.lease = (struct simba__lease){.ttl_ms = 100, .transition_ms = 60};
    config.lease.budget_ms = 20;
    use(config);
    ask();
    expect_backoff(50, 40, 5);
}

TEST(test_contend_wait__backoff_is_spread_by_a_quarter)
{
    int64_t least = NEVER, most = 0;

    for (uint64_t seed = 0; seed < 500; seed++) {
        use_seeded(default_config(), seed);
        ask();
        failed(S);
        least = simba__contend_wake_at(&machine) < least
                    ? simba__contend_wake_at(&machine)
                    : least;
        most = simba__contend_wake_at(&machine) > most
                   ? simba__contend_wake_at(&machine)
                   : most;
    }
    assert_int_equal(least, S + 38);
    assert_int_equal(most, S + 62);
}

TEST(test_contend_wait__backoff_counts_from_the_asking)
{
    use(default_config());
    ask();
    failed(S + 30);
    expect_wake_in(S + 38, S + 62);
    wake();
    unknown(S + 3000); /* later than the backoff */
    expect_sent(SIMBA_ACQUIRE);
}

TEST(test_contend_wait__answer_ends_the_backoff)
{
    int64_t now = S;

    use(default_config());
    ask();
    for (int i = 0; i < 4; i++) {
        failed(now);
        now = wake();
    }
    head_of_line(now, 500);
    assert_int_equal(wake(), now + 501);
    failed(now + 501);
    expect_wake_in(now + 501 + 38, now + 501 + 62);
}

TEST(test_contend_wait__service_runs_when_the_store_has_answered)
{
    use(default_config());
    ask();
    failed(S);
    expect_status(STARTING);
    wake();
    unknown(S + 70);
    expect_status(STARTING);
    wake();
    refused(S + 300, 1000);
    expect_status(RUNNING);
}

/* --- the end of time ----------------------------------------------------- */

TEST(test_contend_wait__end_of_time_does_not_overflow)
{
    struct simba__contend_config config = default_config();

    config.initial_delay_ms = 11;
    use(config);
    start(NEVER - 10);
    expect_wake_at(NEVER);
    config.initial_delay_ms = 10;
    use(config);
    start(NEVER - 11);
    expect_wake_at(NEVER - 1);
    config.initial_delay_ms = 0;
    use(config);
    start(NEVER - 10);
    expect_sent(SIMBA_ACQUIRE);
    expect_wake_at(NEVER);
    yes(NEVER - 9, 5);
    expect_acquired(5);
    expect_wake_at(NEVER);
    stop(NEVER - 8);
    expect_released(SIMBA__CAUSE_STOP, NEVER);
}
