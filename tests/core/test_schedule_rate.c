/* The schedule machine at a fixed rate: the grid of beats, those that are
 * missed, the grid on the store's clock, and the ends of time. */
#include "schedule_driver.h"

/* Fixed rate. */

TEST(test_schedule_rate__rate_counts_from_beat_to_beat)
{
    use_rate(0, 100);
    acquire(1000, 7);
    done(1030);
    expect_wake_at(1100);
    timer(1100);
    expect_run(1100);
    done(1199);
    expect_wake_at(1200);
}

TEST(test_schedule_rate__beats_during_work_are_skipped)
{
    use_rate(0, 100);
    acquire(1000, 7);
    timer(1100);
    expect_nothing();
    done(1250); /* the beats of 1100 and 1200 are over */
    expect_nothing();
    expect_skipped(2);
    expect_wake_at(1300);
}

TEST(test_schedule_rate__beat_at_the_instant_of_done_is_run)
{
    use_rate(0, 100);
    acquire(1000, 7);
    done(1200);
    expect_run(1200);
    expect_skipped(1);
}

TEST(test_schedule_rate__late_timer_runs_at_once)
{
    use_rate(50, 100);
    acquire(1000, 7);
    timer(1149); /* 99 late */
    expect_run(1050);
    expect_skipped(0);
    done(1149);
    expect_wake_at(1150); /* still on the grid */
}

TEST(test_schedule_rate__beats_slept_through_are_skipped)
{
    use_rate(50, 100);
    acquire(1000, 7);
    timer(1399); /* 1050, 1150, 1250 are over; 1350 is 49 late */
    expect_run(1350);
    expect_skipped(3);
    done(1400);
    expect_skipped(0);
    expect_wake_at(1450);
}

TEST(test_schedule_rate__beat_held_up_by_old_work_is_run_late)
{
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

TEST(test_schedule_rate__release_counts_the_beats_work_hung_through)
{
    use_rate(0, 100);
    acquire(1000, 7);
    release(1450);
    expect_stop(1, 7);
    expect_skipped(4);
    done(9000); /* those after the release were not ours */
    expect_skipped(0);
}

TEST(test_schedule_rate__release_counts_the_beats_slept_through)
{
    use_rate(100, 100);
    acquire(1000, 7);
    release(1300); /* before the timers of 1100 and 1200 could fire */
    expect_nothing();
    expect_skipped(2);
}

/* The aligned grid. */

TEST(test_schedule_rate__aligned_beats_are_multiples_in_store_time)
{
    use_rate(0, 1000);
    acquire_aligned(5250, 400); /* 5650 in the store */
    expect_nothing();
    expect_wake_at(5600);
    timer(5600);
    expect_run(6000);
    done(5700);
    expect_wake_at(6600);
}

TEST(test_schedule_rate__aligned_beat_of_this_instant_is_run)
{
    use_rate(0, 1000);
    acquire_aligned(5250, -250);
    expect_run(5000);
}

TEST(test_schedule_rate__aligned_beat_respects_initial_delay)
{
    use_rate(100, 1000);
    acquire_aligned(950, 0);
    expect_wake_at(2000); /* 1000 is less than 100 away */
}

TEST(test_schedule_rate__aligned_beats_exist_before_zero)
{
    use_rate(0, 1000);
    acquire_aligned(100, -5350); /* -5250 in the store */
    expect_wake_at(350);
    timer(350);
    expect_run(-5000);
}

TEST(test_schedule_rate__aligned_beats_follow_the_stores_clock)
{
    use_rate(0, 1000);
    acquire_aligned(100, 0);
    measure_offset(200, 5); /* it runs ahead */
    expect_nothing();
    expect_wake_at(995);
    measure_offset(300, -7);
    expect_wake_at(1007);
}

TEST(test_schedule_rate__measured_offset_can_make_a_beat_due)
{
    use_rate(0, 1000);
    acquire_aligned(100, 0);
    measure_offset(998, 2);
    expect_run(1000);
}

TEST(test_schedule_rate__no_beat_runs_twice_when_the_store_steps_back)
{
    use_rate(0, 1000);
    acquire_aligned(1000, 0);
    expect_run(1000);
    done(1001);
    measure_offset(1002, -500);
    timer(1500); /* 1000 again in the store */
    expect_nothing();
    expect_wake_at(2500);
}

TEST(test_schedule_rate__offset_means_nothing_without_alignment)
{
    use_rate(50, 100);
    measure_offset(10, 77); /* owns nothing */
    acquire(1000, 7);
    measure_offset(1001, 5000);
    expect_nothing();
    expect_wake_at(1050);
}

/* Not the same beat again, although the clock has not moved: the grid of a
 * tenure without alignment begins with it. */
TEST(test_schedule_rate__tenures_without_alignment_share_no_beat)
{
    use_rate(0, 100);
    acquire(1033, 7);
    expect_run(1033);
    done(1033);
    release(1033);
    acquire(1033, 8);
    expect_run(1033);
    done(1040);
    expect_wake_at(1133);
}

TEST(test_schedule_rate__alignment_ends_with_the_tenure)
{
    use_rate(50, 100);
    acquire_aligned(1000, 33);
    release(1001);
    measure_offset(1002, 5000);
    acquire(1003, 8);
    expect_wake_at(1053);
}

/* The ends of time. */

TEST(test_schedule_rate__beats_beyond_the_end_of_time_never_come)
{
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

TEST(test_schedule_rate__last_beat_skipped_is_the_last)
{
    use_rate(0, 100);
    acquire(NEVER - 150, 7);
    done(NEVER - 20); /* the beat at NEVER - 50 is over, and no other fits */
    expect_skipped(1);
    expect_wake_at(NEVER);
}

TEST(test_schedule_rate__absurd_offsets_do_not_overflow)
{
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

TEST(test_schedule_rate__longest_sleep_is_counted)
{
    use_rate(0, 1);
    acquire(INT64_MIN, 7);
    done(INT64_MIN);
    timer(NEVER - 1);
    expect_run(NEVER - 1);
    /* All milliseconds but the first and the one that runs. */
    expect_skipped(UINT64_MAX - 2);
}
