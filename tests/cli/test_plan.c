/* When simba lock, lead and every run CMD: the plan, without a guardian. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>

#include "fixtures/unit_test.h"

#include "cli/clock.h"
#include "cli/guardian.h"

enum { PERIOD_MS = 100 };

static struct simba__job job_of(enum simba__job_kind kind)
{
    return (struct simba__job){.kind = kind, .period_ms = PERIOD_MS};
}

/* A tenure that began at 1,000 of our clock; beats lie on a clock that is
 * 5,030 ahead. */
static void begin(struct simba__plan *plan, const struct simba__job *job)
{
    struct simba__plan_clock clock = {.offset_ms = 5030, .granted_ms = 6030};

    simba__plan_init(plan, job);
    simba__plan_begin(plan, 1000, &clock);
}

static void run(struct simba__plan *plan, int64_t from_ms, int64_t to_ms)
{
    simba__plan_look(plan, from_ms);
    assert_true(plan->is_due);
    simba__plan_started(plan, from_ms);
    simba__plan_done(plan, to_ms);
}

TEST(test_plan__lock_runs_at_once)
{
    struct simba__job job = job_of(SIMBA__JOB_LOCK);
    struct simba__plan plan;

    begin(&plan, &job);
    simba__plan_look(&plan, 1000);
    assert_true(plan.is_due);
    simba__plan_started(&plan, 1000);
    assert_true(simba__plan_wake_at(&plan) == SIMBA__CLOCK_NEVER);
}

TEST(test_plan__lead_starts_again_later_and_later)
{
    struct simba__job job = job_of(SIMBA__JOB_LEAD);
    struct simba__plan plan;
    int64_t now_ms = 1000;

    begin(&plan, &job);
    for (int64_t wait_ms = 1000; wait_ms < 60000; wait_ms *= 2) {
        run(&plan, now_ms, now_ms + 10);
        assert_int_equal(simba__plan_wake_at(&plan), now_ms + 10 + wait_ms);
        now_ms += 10 + wait_ms;
    }
    run(&plan, now_ms, now_ms + 10);
    assert_int_equal(simba__plan_wake_at(&plan), now_ms + 10 + 60000);
    /* One that ran well for a while is not to blame. */
    now_ms += 10 + 60000;
    run(&plan, now_ms, now_ms + 60000);
    assert_int_equal(simba__plan_wake_at(&plan), now_ms + 60000 + 1000);
}

TEST(test_plan__rate_is_at_multiples_of_the_other_clock)
{
    struct simba__job job = job_of(SIMBA__JOB_EVERY);
    struct simba__plan plan;

    begin(&plan, &job);
    assert_int_equal(simba__plan_wake_at(&plan), 1070);
    simba__plan_look(&plan, 1069);
    assert_false(plan.is_due);
    run(&plan, 1070, 1075);
    assert_int_equal(plan.beat_ms, 6100);
    assert_int_equal(simba__plan_wake_at(&plan), 1170);
    assert_int_equal(plan.skipped, 0);
}

TEST(test_plan__beat_of_the_grant_is_anothers)
{
    struct simba__job job = job_of(SIMBA__JOB_EVERY);
    struct simba__plan_clock clock = {.offset_ms = 5000, .granted_ms = 6000};
    struct simba__plan plan;

    simba__plan_init(&plan, &job);
    simba__plan_begin(&plan, 1000, &clock);
    simba__plan_look(&plan, 1000);
    assert_false(plan.is_due);
    assert_int_equal(simba__plan_wake_at(&plan), 1100);
    /* Granted before it, but heard of after it: then it is ours. */
    clock.granted_ms = 5999;
    simba__plan_begin(&plan, 1000, &clock);
    simba__plan_look(&plan, 1000);
    assert_true(plan.is_due);
}

TEST(test_plan__beats_while_it_runs_are_skipped)
{
    struct simba__job job = job_of(SIMBA__JOB_EVERY);
    struct simba__plan plan;

    begin(&plan, &job);
    simba__plan_look(&plan, 1070);
    simba__plan_started(&plan, 1070);
    simba__plan_look(&plan, simba__plan_wake_at(&plan));
    assert_int_equal(plan.skipped, 1);
    assert_int_equal(plan.skipped_ms, 6200);
    plan.skipped = 0; /* that was told */
    simba__plan_done(&plan, 1395);
    assert_int_equal(plan.skipped, 2);
    assert_int_equal(plan.skipped_ms, 6300);
    assert_int_equal(simba__plan_wake_at(&plan), 1470);
}

TEST(test_plan__end_at_a_beat_runs_it)
{
    struct simba__job job = job_of(SIMBA__JOB_EVERY);
    struct simba__plan plan;

    begin(&plan, &job);
    run(&plan, 1070, 1170);
    assert_int_equal(plan.skipped, 0);
    simba__plan_look(&plan, 1170);
    assert_true(plan.is_due);
    assert_int_equal(plan.beat_ms, 6200);
}

TEST(test_plan__of_missed_beats_the_last_is_run)
{
    struct simba__job job = job_of(SIMBA__JOB_EVERY);
    struct simba__plan plan;

    begin(&plan, &job);
    simba__plan_look(&plan, 1399); /* the machine slept */
    assert_true(plan.is_due);
    assert_int_equal(plan.beat_ms, 6400);
    assert_int_equal(plan.skipped, 3);
    assert_int_equal(plan.skipped_ms, 6100);
}

TEST(test_plan__clock_set_back_does_not_stop_it)
{
    struct simba__job job = job_of(SIMBA__JOB_EVERY);
    struct simba__plan plan;

    begin(&plan, &job);
    simba__plan_tune(&plan, 1000, 5020); /* that is drift */
    assert_int_equal(simba__plan_wake_at(&plan), 1080);
    simba__plan_tune(&plan, 1000, 1020); /* and that is not */
    assert_int_equal(simba__plan_wake_at(&plan), 1080);
    run(&plan, 1080, 1081);
    assert_int_equal(plan.beat_ms, 2100);
}

TEST(test_plan__initial_delay_outlasts_a_step)
{
    struct simba__job job = job_of(SIMBA__JOB_EVERY);
    struct simba__plan plan;

    job.initial_delay_ms = 1000;
    begin(&plan, &job);
    assert_int_equal(simba__plan_wake_at(&plan), 2070);
    simba__plan_tune(&plan, 1000, 5029);
    assert_int_equal(simba__plan_wake_at(&plan), 2071);
}

TEST(test_plan__delay_counts_from_the_end)
{
    struct simba__job job = job_of(SIMBA__JOB_EVERY);
    struct simba__plan plan;

    job.is_delay = true;
    job.initial_delay_ms = 7;
    begin(&plan, &job);
    assert_int_equal(simba__plan_wake_at(&plan), 1007);
    run(&plan, 1007, 1500);
    assert_int_equal(plan.beat_ms, 0);
    assert_int_equal(plan.skipped, 0);
    assert_int_equal(simba__plan_wake_at(&plan), 1600);
}
