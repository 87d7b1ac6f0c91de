/* The schedule machine: its settings, what holds for both kinds, and the fixed
 * delay. Fixed rates are in test_schedule_rate.c. */
#include "schedule_driver.h"

/* Configuration. */

TEST(test_schedule__wrong_values_are_named)
{
    const enum simba__schedule_kind rate = SIMBA__SCHEDULE_FIXED_RATE;
    const enum simba__schedule_kind delay = SIMBA__SCHEDULE_FIXED_DELAY;
    const int64_t most = SIMBA__SCHEDULE_MOST_MS;

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

TEST(test_schedule__every_problem_has_its_own_text)
{
    assert_string_equal(
        simba__schedule_problem_texts[SIMBA__SCHEDULE_PERIOD_NEGATIVE],
        "the period is negative");
    for (unsigned i = 0; i < SIMBA__SCHEDULE_PROBLEM_COUNT; i++) {
        for (unsigned j = 0; j < i; j++) {
            assert_string_not_equal(simba__schedule_problem_texts[i],
                                    simba__schedule_problem_texts[j]);
        }
    }
}

/* What holds for both kinds. */

TEST(test_schedule__runs_nothing_before_it_is_acquired)
{
    use_rate(0, 100);
    expect_wake_at(NEVER);
    timer(5000);
    expect_nothing();
    assert_false(simba__schedule_is_working(&machine));
}

TEST(test_schedule__events_of_a_later_version_mean_nothing)
{
    use_rate(30, 100);
    acquire(1000, 7);
    step((enum simba__schedule_event_type)99, 1010);
    expect_nothing();
    expect_wake_at(1030);
}

TEST(test_schedule__first_run_comes_at_once_without_delay)
{
    use_rate(0, 100);
    acquire(1000, 7);
    expect_run(1000);
    assert_int_equal(up.token, 7);
    use_delay(0, 100);
    acquire(1000, 7);
    expect_run(1000);
    assert_int_equal(up.token, 7);
}

TEST(test_schedule__first_run_waits_for_initial_delay)
{
    use_delay(30, 100);
    acquire(1000, 7);
    expect_nothing();
    expect_wake_at(1030);
    timer(1029); /* spurious */
    expect_nothing();
    timer(1030);
    expect_run(1030);
}

TEST(test_schedule__initial_delay_counts_from_each_acquired)
{
    use_rate(30, 100);
    acquire(1000, 7);
    release(1010);
    expect_nothing();
    expect_wake_at(NEVER);
    acquire(1020, 8);
    expect_wake_at(1050);
}

TEST(test_schedule__released_work_is_told_to_stop_once)
{
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

TEST(test_schedule__no_run_follows_work_that_outlives_tenure)
{
    use_delay(0, 0);
    acquire(1000, 7);
    release(1050);
    done(1070);
    expect_nothing();
    timer(9000);
    expect_nothing();
}

TEST(test_schedule__new_tenure_waits_for_work_of_the_old)
{
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

TEST(test_schedule__old_work_done_early_keeps_initial_delay)
{
    use_rate(100, 1000);
    acquire(1000, 7);
    timer(1100);
    release(1110);
    acquire(1120, 8);
    done(1130);
    expect_nothing();
    expect_wake_at(1220);
}

TEST(test_schedule__old_work_is_not_told_to_stop_again)
{
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

TEST(test_schedule__runs_are_numbered_across_tenures)
{
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

TEST(test_schedule__delay_counts_from_done)
{
    use_delay(0, 100);
    acquire(1000, 7);
    done(1730);
    expect_nothing();
    expect_wake_at(1830);
    timer(1830);
    expect_run(1830);
    expect_skipped(0);
}

TEST(test_schedule__delay_of_zero_runs_back_to_back)
{
    use_delay(0, 0);
    acquire(1000, 7);
    done(1003);
    expect_run(1003);
    done(1003);
    expect_run_number(3);
}

TEST(test_schedule__overslept_delay_skips_nothing)
{
    use_delay(0, 100);
    acquire(1000, 7);
    done(1010);
    timer(9999);
    expect_run(1110);
    expect_skipped(0);
    release(99999);
    expect_skipped(0);
}

TEST(test_schedule__delay_ignores_alignment)
{
    use_delay(10, 100);
    acquire_aligned(1000, 33);
    expect_wake_at(1010);
    measure_offset(1001, 5000);
    expect_nothing();
    expect_wake_at(1010);
}
