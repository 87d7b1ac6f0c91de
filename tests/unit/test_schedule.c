/* The schedule machine: when work starts, when it does not, and what becomes
 * of the beats it misses. Scenarios first, then random histories that are
 * judged by a checker of their own. */
#include "core/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define NEVER INT64_MAX

static struct simba__schedule machine;
static struct simba__schedule_update up;

static struct simba__schedule_config config_of(enum simba__schedule_kind kind,
                                               int64_t initial_delay_ms,
                                               int64_t period_ms)
{
    struct simba__schedule_config config = {kind, initial_delay_ms, period_ms};

    return config;
}

static void use(enum simba__schedule_kind kind,
                int64_t initial_delay_ms,
                int64_t period_ms)
{
    struct simba__schedule_config config =
        config_of(kind, initial_delay_ms, period_ms);

    simba__schedule_init(&machine, &config);
}

static void use_rate(int64_t initial_delay_ms, int64_t period_ms)
{
    use(SIMBA__SCHEDULE_FIXED_RATE, initial_delay_ms, period_ms);
}

static void use_delay(int64_t initial_delay_ms, int64_t period_ms)
{
    use(SIMBA__SCHEDULE_FIXED_DELAY, initial_delay_ms, period_ms);
}

static void step(enum simba__schedule_event_type type, int64_t now_ms)
{
    struct simba__schedule_event event = {.type = type, .now_ms = now_ms};

    simba__schedule_step(&machine, &event, &up);
}

static void acquire(int64_t now_ms, uint64_t token)
{
    struct simba__schedule_event event = {
        .type = SIMBA__SCHEDULE_ACQUIRED, .now_ms = now_ms, .token = token};

    simba__schedule_step(&machine, &event, &up);
}

static void acquire_aligned(int64_t now_ms, int64_t store_offset_ms)
{
    struct simba__schedule_event event = {.type = SIMBA__SCHEDULE_ACQUIRED,
                                          .now_ms = now_ms,
                                          .token = 1,
                                          .aligned = true,
                                          .store_offset_ms = store_offset_ms};

    simba__schedule_step(&machine, &event, &up);
}

static void measure_offset(int64_t now_ms, int64_t store_offset_ms)
{
    struct simba__schedule_event event = {.type = SIMBA__SCHEDULE_OFFSET,
                                          .now_ms = now_ms,
                                          .store_offset_ms = store_offset_ms};

    simba__schedule_step(&machine, &event, &up);
}

static void release(int64_t now_ms)
{
    step(SIMBA__SCHEDULE_RELEASED, now_ms);
}

static void done(int64_t now_ms)
{
    step(SIMBA__SCHEDULE_DONE, now_ms);
}

static void timer(int64_t now_ms)
{
    step(SIMBA__SCHEDULE_TIMER, now_ms);
}

static void expect_wake_at(int64_t at_ms)
{
    assert_int_equal(simba__schedule_wake_at(&machine), at_ms);
}

static void expect_run_number(uint64_t run)
{
    assert_int_equal(up.flags, SIMBA__SCHEDULE_RUN);
    assert_int_equal(up.run, run);
    assert_true(simba__schedule_is_working(&machine));
    expect_wake_at(NEVER); /* while it works, only DONE can bring news */
}

/* The last step started work for the beat at `beat_ms`. */
static void expect_run(int64_t beat_ms)
{
    expect_run_number(up.run);
    assert_int_equal(up.beat_ms, beat_ms);
}

static void expect_stop(uint64_t run, uint64_t token)
{
    assert_int_equal(up.flags, SIMBA__SCHEDULE_STOP_WORK);
    assert_int_equal(up.run, run);
    assert_int_equal(up.token, token);
}

static void expect_nothing(void)
{
    assert_int_equal(up.flags, 0);
}

static void expect_skipped(uint64_t beats)
{
    assert_int_equal(up.skipped, beats);
}

static void expect_problem(enum simba__schedule_kind kind,
                           int64_t initial_delay_ms,
                           int64_t period_ms,
                           enum simba__schedule_problem problem)
{
    struct simba__schedule_config config =
        config_of(kind, initial_delay_ms, period_ms);

    assert_int_equal(simba__schedule_config_check(&config), problem);
}

/* Configuration. */

static void test_schedule__wrong_values_are_named(void **state)
{
    const enum simba__schedule_kind rate = SIMBA__SCHEDULE_FIXED_RATE;
    const enum simba__schedule_kind delay = SIMBA__SCHEDULE_FIXED_DELAY;
    const int64_t most = SIMBA__SCHEDULE_MOST_MS;

    (void)state;
    expect_problem(rate, 0, 1, SIMBA__SCHEDULE_FINE);
    expect_problem(delay, 0, 0, SIMBA__SCHEDULE_FINE);
    expect_problem(rate, most, most, SIMBA__SCHEDULE_FINE);
    expect_problem((enum simba__schedule_kind)2, 0, 1,
                   SIMBA__SCHEDULE_KIND_UNKNOWN);
    expect_problem(rate, -1, 1, SIMBA__SCHEDULE_INITIAL_DELAY_NEGATIVE);
    expect_problem(rate, most + 1, 1, SIMBA__SCHEDULE_INITIAL_DELAY_LONG);
    expect_problem(delay, 0, -1, SIMBA__SCHEDULE_PERIOD_NEGATIVE);
    expect_problem(delay, 0, most + 1, SIMBA__SCHEDULE_PERIOD_LONG);
    expect_problem(rate, 0, 0, SIMBA__SCHEDULE_RATE_WITHOUT_PERIOD);
}

static void test_schedule__every_problem_has_its_own_text(void **state)
{
    (void)state;
    assert_string_equal(
        simba__schedule_problem_text(SIMBA__SCHEDULE_PERIOD_NEGATIVE),
        "the period is negative");
    for (unsigned i = 0; i < SIMBA__SCHEDULE_PROBLEM_COUNT; i++) {
        for (unsigned j = 0; j < i; j++) {
            assert_string_not_equal(simba__schedule_problem_text(i),
                                    simba__schedule_problem_text(j));
        }
    }
}

/* What holds for both kinds. */

static void test_schedule__runs_nothing_before_it_is_acquired(void **state)
{
    (void)state;
    use_rate(0, 100);
    expect_wake_at(NEVER);
    timer(5000);
    expect_nothing();
    assert_false(simba__schedule_is_working(&machine));
}

static void test_schedule__first_run_comes_at_once_without_delay(void **state)
{
    (void)state;
    use_rate(0, 100);
    acquire(1000, 7);
    expect_run(1000);
    assert_int_equal(up.token, 7);
    use_delay(0, 100);
    acquire(1000, 7);
    expect_run(1000);
    assert_int_equal(up.token, 7);
}

static void test_schedule__first_run_waits_for_initial_delay(void **state)
{
    (void)state;
    use_delay(30, 100);
    acquire(1000, 7);
    expect_nothing();
    expect_wake_at(1030);
    timer(1029); /* spurious */
    expect_nothing();
    timer(1030);
    expect_run(1030);
}

static void test_schedule__initial_delay_counts_from_each_acquired(void **state)
{
    (void)state;
    use_rate(30, 100);
    acquire(1000, 7);
    release(1010);
    expect_nothing();
    expect_wake_at(NEVER);
    acquire(1020, 8);
    expect_wake_at(1050);
}

static void test_schedule__released_work_is_told_to_stop_once(void **state)
{
    (void)state;
    use_rate(0, 100);
    acquire(1000, 7);
    release(1050);
    expect_stop(1, 7);
    assert_true(simba__schedule_is_working(&machine));
    release(1060); /* the user stops, too */
    expect_nothing();
    done(1070);
    expect_nothing();
    assert_false(simba__schedule_is_working(&machine));
    expect_wake_at(NEVER);
    release(1080);
    expect_nothing();
    assert_false(simba__schedule_is_working(&machine));
}

static void test_schedule__no_run_follows_work_that_outlives_tenure(
    void **state)
{
    (void)state;
    use_delay(0, 0);
    acquire(1000, 7);
    release(1050);
    done(1070);
    expect_nothing();
    timer(9000);
    expect_nothing();
}

static void test_schedule__new_tenure_waits_for_work_of_the_old(void **state)
{
    (void)state;
    use_delay(10, 100);
    acquire(1000, 7);
    timer(1010);
    release(1020);
    acquire(1030, 8);
    expect_nothing();
    expect_wake_at(NEVER);
    timer(1040); /* the initial delay is over, the old work is not */
    expect_nothing();
    done(1500);
    expect_run_number(2);
    assert_int_equal(up.token, 8);
    assert_int_equal(up.beat_ms, 1040);
}

static void test_schedule__old_work_done_early_keeps_initial_delay(void **state)
{
    (void)state;
    use_rate(100, 1000);
    acquire(1000, 7);
    timer(1100);
    release(1110);
    acquire(1120, 8);
    done(1130);
    expect_nothing();
    expect_wake_at(1220);
}

static void test_schedule__old_work_is_not_told_to_stop_again(void **state)
{
    (void)state;
    use_rate(0, 100);
    acquire(1000, 7);
    release(1010);
    expect_stop(1, 7);
    acquire(1020, 8);
    release(1030);
    expect_nothing();
    acquire(1040, 9);
    done(1050);
    expect_run_number(2);
    assert_int_equal(up.token, 9);
}

static void test_schedule__runs_are_numbered_across_tenures(void **state)
{
    (void)state;
    use_delay(0, 10);
    acquire(0, 1);
    expect_run_number(1);
    done(5);
    timer(15);
    expect_run_number(2);
    release(16);
    done(17);
    acquire(20, 2);
    expect_run_number(3);
}

/* Fixed delay. */

static void test_schedule__delay_counts_from_done(void **state)
{
    (void)state;
    use_delay(0, 100);
    acquire(1000, 7);
    done(1730);
    expect_nothing();
    expect_wake_at(1830);
    timer(1830);
    expect_run(1830);
    expect_skipped(0);
}

static void test_schedule__delay_of_zero_runs_back_to_back(void **state)
{
    (void)state;
    use_delay(0, 0);
    acquire(1000, 7);
    done(1003);
    expect_run(1003);
    done(1003);
    expect_run_number(3);
}

static void test_schedule__overslept_delay_skips_nothing(void **state)
{
    (void)state;
    use_delay(0, 100);
    acquire(1000, 7);
    done(1010);
    timer(9999);
    expect_run(1110);
    expect_skipped(0);
    release(99999);
    expect_skipped(0);
}

static void test_schedule__delay_ignores_alignment(void **state)
{
    (void)state;
    use_delay(10, 100);
    acquire_aligned(1000, 33);
    expect_wake_at(1010);
    measure_offset(1001, 5000);
    expect_nothing();
    expect_wake_at(1010);
}

/* Fixed rate. */

static void test_schedule__rate_counts_from_beat_to_beat(void **state)
{
    (void)state;
    use_rate(0, 100);
    acquire(1000, 7);
    done(1030);
    expect_wake_at(1100);
    timer(1100);
    expect_run(1100);
    done(1199);
    expect_wake_at(1200);
}

static void test_schedule__beats_during_work_are_skipped(void **state)
{
    (void)state;
    use_rate(0, 100);
    acquire(1000, 7);
    timer(1100);
    expect_nothing();
    done(1250); /* the beats of 1100 and 1200 are over */
    expect_nothing();
    expect_skipped(2);
    expect_wake_at(1300);
}

static void test_schedule__beat_at_the_instant_of_done_is_run(void **state)
{
    (void)state;
    use_rate(0, 100);
    acquire(1000, 7);
    done(1200);
    expect_run(1200);
    expect_skipped(1);
}

static void test_schedule__late_timer_runs_at_once(void **state)
{
    (void)state;
    use_rate(50, 100);
    acquire(1000, 7);
    timer(1149); /* 99 late */
    expect_run(1050);
    expect_skipped(0);
    done(1149);
    expect_wake_at(1150); /* still on the grid */
}

static void test_schedule__beats_slept_through_are_skipped(void **state)
{
    (void)state;
    use_rate(50, 100);
    acquire(1000, 7);
    timer(1399); /* 1050, 1150, 1250 are over; 1350 is 49 late */
    expect_run(1350);
    expect_skipped(3);
    done(1400);
    expect_skipped(0);
    expect_wake_at(1450);
}

static void test_schedule__beat_held_up_by_old_work_is_run_late(void **state)
{
    (void)state;
    use_rate(0, 86400000);
    acquire(1000, 7);
    release(1100);
    acquire(1200, 8);
    done(2200);
    expect_run(1200); /* and not a day later */
    expect_skipped(0);
    done(2300);
    expect_wake_at(86401200);
}

static void test_schedule__release_counts_the_beats_work_hung_through(
    void **state)
{
    (void)state;
    use_rate(0, 100);
    acquire(1000, 7);
    release(1450);
    expect_stop(1, 7);
    expect_skipped(4);
    done(9000); /* those after the release were not ours */
    expect_skipped(0);
}

static void test_schedule__release_counts_the_beats_slept_through(void **state)
{
    (void)state;
    use_rate(100, 100);
    acquire(1000, 7);
    release(1300); /* before the timers of 1100 and 1200 could fire */
    expect_nothing();
    expect_skipped(2);
}

/* The aligned grid. */

static void test_schedule__aligned_beats_are_multiples_in_store_time(
    void **state)
{
    (void)state;
    use_rate(0, 1000);
    acquire_aligned(5250, 400); /* 5650 in the store */
    expect_nothing();
    expect_wake_at(5600);
    timer(5600);
    expect_run(6000);
    done(5700);
    expect_wake_at(6600);
}

static void test_schedule__aligned_beat_of_this_instant_is_run(void **state)
{
    (void)state;
    use_rate(0, 1000);
    acquire_aligned(5250, -250);
    expect_run(5000);
}

static void test_schedule__aligned_beat_respects_initial_delay(void **state)
{
    (void)state;
    use_rate(100, 1000);
    acquire_aligned(950, 0);
    expect_wake_at(2000); /* 1000 is less than 100 away */
}

static void test_schedule__aligned_beats_exist_before_zero(void **state)
{
    (void)state;
    use_rate(0, 1000);
    acquire_aligned(100, -5350); /* -5250 in the store */
    expect_wake_at(350);
    timer(350);
    expect_run(-5000);
}

static void test_schedule__aligned_beats_follow_the_stores_clock(void **state)
{
    (void)state;
    use_rate(0, 1000);
    acquire_aligned(100, 0);
    measure_offset(200, 5); /* it runs ahead */
    expect_nothing();
    expect_wake_at(995);
    measure_offset(300, -7);
    expect_wake_at(1007);
}

static void test_schedule__measured_offset_can_make_a_beat_due(void **state)
{
    (void)state;
    use_rate(0, 1000);
    acquire_aligned(100, 0);
    measure_offset(998, 2);
    expect_run(1000);
}

static void test_schedule__no_beat_runs_twice_when_the_store_steps_back(
    void **state)
{
    (void)state;
    use_rate(0, 1000);
    acquire_aligned(1000, 0);
    expect_run(1000);
    done(1001);
    measure_offset(1002, -500);
    timer(1500); /* 1000 again in the store */
    expect_nothing();
    expect_wake_at(2500);
}

static void test_schedule__offset_means_nothing_without_alignment(void **state)
{
    (void)state;
    use_rate(50, 100);
    measure_offset(10, 77); /* owns nothing */
    acquire(1000, 7);
    measure_offset(1001, 5000);
    expect_nothing();
    expect_wake_at(1050);
}

static void test_schedule__alignment_ends_with_the_tenure(void **state)
{
    (void)state;
    use_rate(50, 100);
    acquire_aligned(1000, 33);
    release(1001);
    measure_offset(1002, 5000);
    acquire(1003, 8);
    expect_wake_at(1053);
}

/* The ends of time. */

static void test_schedule__beats_beyond_the_end_of_time_never_come(void **state)
{
    (void)state;
    use_rate(10, 100);
    acquire(NEVER - 5, 7);
    expect_wake_at(NEVER);
    timer(NEVER);
    expect_nothing();
    release(NEVER);
    expect_skipped(0);
    use_rate(0, 100);
    acquire(NEVER - 50, 7);
    expect_run(NEVER - 50);
    done(NEVER - 10);
    expect_wake_at(NEVER);
}

static void test_schedule__last_beat_skipped_is_the_last(void **state)
{
    (void)state;
    use_rate(0, 100);
    acquire(NEVER - 150, 7);
    done(NEVER - 20); /* the beat at NEVER - 50 is over, and no other fits */
    expect_skipped(1);
    expect_wake_at(NEVER);
}

static void test_schedule__absurd_offsets_do_not_overflow(void **state)
{
    (void)state;
    use_rate(0, 1000);
    acquire_aligned(-500, INT64_MIN); /* the store's clock cannot go lower */
    expect_nothing();
    expect_wake_at(808); /* from there to the first multiple */
    measure_offset(-400, NEVER);
    assert_int_equal(up.flags, SIMBA__SCHEDULE_RUN);
    use_rate(0, 1000);
    acquire_aligned(1, 0);
    measure_offset(2, INT64_MIN);
    expect_nothing();
    expect_wake_at(NEVER); /* further away than there is time */
    use_rate(0, SIMBA__SCHEDULE_MOST_MS);
    acquire_aligned(0, NEVER - 1);
    expect_wake_at(NEVER);
}

static void test_schedule__longest_sleep_is_counted(void **state)
{
    (void)state;
    use_rate(0, 1);
    acquire(INT64_MIN, 7);
    done(INT64_MIN);
    timer(NEVER - 1);
    expect_run(NEVER - 1);
    /* All milliseconds but the first and the one that runs. */
    expect_skipped(UINT64_MAX - 2);
}

/* Random histories. The checker keeps its own books: from the events it fed
 * and the updates it got, never from the fields of the machine. */

struct history {
    uint64_t random;
    struct simba__schedule_config config;
    int64_t now;
    bool aligned;
    int64_t offset;
    bool owned;
    bool working;
    uint64_t token;
    uint64_t run;
    int64_t first;       /* first beat of the tenure, by the grid's clock */
    int64_t last;        /* last beat that ran in the tenure */
    uint64_t ran;        /* beats of the tenure that ran */
    uint64_t skipped;    /* beats of the tenure reported as skipped */
    int64_t not_before;  /* fixed delay: no run is due before this */
    uint64_t total_runs; /* so that the test can tell that it tested */
    uint64_t total_skipped;
};

static uint64_t draw(struct history *h, uint64_t bound)
{
    uint64_t x = h->random += UINT64_C(0x9E3779B97F4A7C15);

    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (x ^ (x >> 31)) % bound;
}

static int64_t grid_time(const struct history *h)
{
    return h->now + h->offset;
}

static bool is_rate(const struct history *h)
{
    return h->config.kind == SIMBA__SCHEDULE_FIXED_RATE;
}

static void check_run(struct history *h)
{
    assert_true(h->owned);
    assert_false(h->working);
    assert_int_equal(up.token, h->token);
    assert_int_equal(up.run, h->run + 1);
    assert_true(up.beat_ms <= grid_time(h));
    if (is_rate(h)) {
        assert_int_equal((up.beat_ms - h->first) % h->config.period_ms, 0);
        assert_true(up.beat_ms >= h->first);
        assert_true(h->ran == 0 || up.beat_ms > h->last);
        assert_true(grid_time(h) - up.beat_ms < h->config.period_ms);
    } else {
        assert_int_equal(up.beat_ms, h->not_before);
    }
    h->working = true;
    h->run = up.run;
    h->last = up.beat_ms;
    h->ran++;
    h->total_runs++;
}

/* Every beat up to now has either run or been reported, and none twice. The
 * beat of this very instant may go either way. */
static void check_beats_add_up(const struct history *h)
{
    int64_t now = grid_time(h);
    int64_t period = h->config.period_ms;
    uint64_t before =
        now > h->first ? (uint64_t)((now - h->first - 1) / period + 1) : 0;
    bool ran_now = h->ran > 0 && h->last == now;

    assert_int_equal(h->ran + h->skipped, before + (ran_now ? 1 : 0));
}

static void feed(struct history *h, struct simba__schedule_event event)
{
    event.now_ms = h->now;
    simba__schedule_step(&machine, &event, &up);
    h->skipped += up.skipped;
    h->total_skipped += up.skipped;
    if ((up.flags & SIMBA__SCHEDULE_RUN) != 0) {
        check_run(h);
    }
    assert_int_equal(simba__schedule_is_working(&machine), h->working);
    if (!h->owned || h->working) {
        expect_wake_at(NEVER);
    } else {
        assert_true(simba__schedule_wake_at(&machine) > h->now);
    }
}

static void feed_acquired(struct history *h)
{
    struct simba__schedule_event event = {.type = SIMBA__SCHEDULE_ACQUIRED};

    event.aligned = draw(h, 2) == 0;
    event.store_offset_ms = (int64_t)draw(h, 20000) - 10000;
    event.token = ++h->token;
    h->owned = true;
    h->aligned = event.aligned && is_rate(h);
    h->offset = h->aligned ? event.store_offset_ms : 0;
    h->first = grid_time(h) + h->config.initial_delay_ms;
    while (h->aligned && h->first % h->config.period_ms != 0) {
        h->first++;
    }
    h->not_before = h->first;
    h->ran = 0;
    h->skipped = 0;
    feed(h, event);
}

static void feed_released(struct history *h)
{
    struct simba__schedule_event event = {.type = SIMBA__SCHEDULE_RELEASED};
    bool was_owned = h->owned;
    bool of_this_tenure = h->owned && h->working && h->ran > 0;

    h->owned = false;
    feed(h, event);
    assert_int_equal(up.flags, of_this_tenure ? SIMBA__SCHEDULE_STOP_WORK : 0);
    if (of_this_tenure) {
        expect_stop(h->run, h->token);
    }
    if (was_owned && is_rate(h)) {
        check_beats_add_up(h);
    }
    h->offset = 0;
    h->aligned = false;
}

static void feed_done(struct history *h)
{
    struct simba__schedule_event event = {.type = SIMBA__SCHEDULE_DONE};

    h->working = false;
    if (h->owned && h->ran > 0) { /* else it is work of an earlier tenure */
        h->not_before = h->now + h->config.period_ms;
    }
    feed(h, event);
}

static void feed_offset(struct history *h)
{
    struct simba__schedule_event event = {.type = SIMBA__SCHEDULE_OFFSET};

    /* Only forward: a step back makes beats come again, which "add up" does
     * not know of. */
    event.store_offset_ms = h->offset + (int64_t)draw(h, 30);
    if (h->aligned) {
        h->offset = event.store_offset_ms;
    }
    feed(h, event);
}

/* A timer on time must start the work, one a millisecond early must not. */
static void feed_timer(struct history *h)
{
    struct simba__schedule_event event = {.type = SIMBA__SCHEDULE_TIMER};
    int64_t wake_at = simba__schedule_wake_at(&machine);

    if (wake_at != NEVER && draw(h, 2) == 0) {
        h->now = wake_at - 1;
        feed(h, event);
        assert_int_equal(up.flags, 0);
        h->now = wake_at;
    }
    feed(h, event);
    assert_int_equal(up.flags, wake_at <= h->now ? SIMBA__SCHEDULE_RUN : 0);
}

static void feed_random(struct history *h)
{
    h->now += (int64_t)draw(h, draw(h, 8) == 0 ? 400 : 40);
    switch (draw(h, 8)) {
    case 0:
        feed_released(h); /* sometimes of what is not owned */
        break;
    case 1:
        if (!h->owned) {
            feed_acquired(h);
        }
        break;
    case 2:
    case 3:
    case 4:
        if (h->working) {
            feed_done(h);
        }
        break;
    case 5:
        feed_offset(h);
        break;
    default:
        feed_timer(h);
        break;
    }
}

static void start_history(struct history *h, uint64_t seed)
{
    memset(h, 0, sizeof *h);
    h->random = seed;
    h->config.kind = draw(h, 2) == 0 ? SIMBA__SCHEDULE_FIXED_RATE
                                     : SIMBA__SCHEDULE_FIXED_DELAY;
    h->config.initial_delay_ms = draw(h, 2) == 0 ? 0 : (int64_t)draw(h, 150);
    h->config.period_ms = (int64_t)draw(h, 100) + (is_rate(h) ? 1 : 0);
    h->now = (int64_t)draw(h, 2000) - 1000;
    simba__schedule_init(&machine, &h->config);
}

static void test_schedule__random_histories_keep_the_rules(void **state)
{
    uint64_t runs = 0;
    uint64_t skipped = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        struct history h;

        start_history(&h, seed);
        for (int i = 0; i < 200; i++) {
            feed_random(&h);
        }
        runs += h.total_runs;
        skipped += h.total_skipped;
    }
    assert_true(runs > 10000); /* a checker that saw nothing proves nothing */
    assert_true(skipped > 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedule__wrong_values_are_named),
        cmocka_unit_test(test_schedule__every_problem_has_its_own_text),
        cmocka_unit_test(test_schedule__runs_nothing_before_it_is_acquired),
        cmocka_unit_test(test_schedule__first_run_comes_at_once_without_delay),
        cmocka_unit_test(test_schedule__first_run_waits_for_initial_delay),
        cmocka_unit_test(
            test_schedule__initial_delay_counts_from_each_acquired),
        cmocka_unit_test(test_schedule__released_work_is_told_to_stop_once),
        cmocka_unit_test(
            test_schedule__no_run_follows_work_that_outlives_tenure),
        cmocka_unit_test(test_schedule__new_tenure_waits_for_work_of_the_old),
        cmocka_unit_test(
            test_schedule__old_work_done_early_keeps_initial_delay),
        cmocka_unit_test(test_schedule__old_work_is_not_told_to_stop_again),
        cmocka_unit_test(test_schedule__runs_are_numbered_across_tenures),
        cmocka_unit_test(test_schedule__delay_counts_from_done),
        cmocka_unit_test(test_schedule__delay_of_zero_runs_back_to_back),
        cmocka_unit_test(test_schedule__overslept_delay_skips_nothing),
        cmocka_unit_test(test_schedule__delay_ignores_alignment),
        cmocka_unit_test(test_schedule__rate_counts_from_beat_to_beat),
        cmocka_unit_test(test_schedule__beats_during_work_are_skipped),
        cmocka_unit_test(test_schedule__beat_at_the_instant_of_done_is_run),
        cmocka_unit_test(test_schedule__late_timer_runs_at_once),
        cmocka_unit_test(test_schedule__beats_slept_through_are_skipped),
        cmocka_unit_test(test_schedule__beat_held_up_by_old_work_is_run_late),
        cmocka_unit_test(
            test_schedule__release_counts_the_beats_work_hung_through),
        cmocka_unit_test(test_schedule__release_counts_the_beats_slept_through),
        cmocka_unit_test(
            test_schedule__aligned_beats_are_multiples_in_store_time),
        cmocka_unit_test(test_schedule__aligned_beat_of_this_instant_is_run),
        cmocka_unit_test(test_schedule__aligned_beat_respects_initial_delay),
        cmocka_unit_test(test_schedule__aligned_beats_exist_before_zero),
        cmocka_unit_test(test_schedule__aligned_beats_follow_the_stores_clock),
        cmocka_unit_test(test_schedule__measured_offset_can_make_a_beat_due),
        cmocka_unit_test(
            test_schedule__no_beat_runs_twice_when_the_store_steps_back),
        cmocka_unit_test(test_schedule__offset_means_nothing_without_alignment),
        cmocka_unit_test(test_schedule__alignment_ends_with_the_tenure),
        cmocka_unit_test(
            test_schedule__beats_beyond_the_end_of_time_never_come),
        cmocka_unit_test(test_schedule__last_beat_skipped_is_the_last),
        cmocka_unit_test(test_schedule__absurd_offsets_do_not_overflow),
        cmocka_unit_test(test_schedule__longest_sleep_is_counted),
        cmocka_unit_test(test_schedule__random_histories_keep_the_rules),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
