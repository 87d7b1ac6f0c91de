/* Counting without a loop: what the machine tells becomes counts. */
#include <stddef.h>
#include <stdint.h>

#include "fixtures/unit_test.h"

#include "runtime/metrics.h"

#include <stdio.h>

/* What is told is so at 1250 us, or 1700 us if a tenure ends by it. */
static void tell(struct simba__contender_metrics *mine,
                 struct simba__loop_metrics *all,
                 unsigned tell,
                 enum simba__cause cause)
{
    struct simba__contend_update update = {.tell = tell, .cause = cause};

    simba__metrics_find(mine, all, "m");
    simba__metrics_tell(mine, all, &update,
                        tell & SIMBA__TELL_RELEASED ? 1700 : 1250);
}

TEST(test_metrics__bounds_belong_to_their_bucket)
{
    assert_int_equal(simba__histogram_bucket(0), 0);
    for (size_t i = 0; i + 1 < SIMBA_HISTOGRAM_BUCKETS; i++) {
        uint64_t bound = simba_histogram_bound_us(i);

        assert_int_equal(simba__histogram_bucket(bound), i);
        assert_int_equal(simba__histogram_bucket(bound + 1), i + 1);
    }
    assert_int_equal(simba__histogram_bucket(UINT64_MAX),
                     SIMBA_HISTOGRAM_BUCKETS - 1);
    assert_true(simba_histogram_bound_us(1000) == UINT64_MAX);
}

TEST(test_metrics__counts_each_cause_for_itself)
{
    static const enum simba__cause causes[] = {
        SIMBA__CAUSE_STOP,     SIMBA__CAUSE_EXPIRED, SIMBA__CAUSE_GONE,
        SIMBA__CAUSE_MAX_HOLD, SIMBA__CAUSE_STALLED, SIMBA__CAUSE_STALLED};
    struct simba__loop_metrics all = {.owned = 0};
    struct simba__contender_metrics mine = {.counts = NULL};

    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++) {
        simba__metrics_ask(&mine, 1000);
        tell(&mine, &all, SIMBA__TELL_ACQUIRED, SIMBA__CAUSE_STOP);
        assert_int_equal(all.owned, 1);
        tell(&mine, &all, SIMBA__TELL_RELEASED, causes[i]);
        assert_int_equal(all.owned, 0);
    }
    assert_int_equal(mine.counts->acquires, 6);
    assert_int_equal(mine.counts->releases, 1);
    assert_int_equal(mine.counts->lost_expired, 1);
    assert_int_equal(mine.counts->lost_taken, 1);
    assert_int_equal(mine.counts->lost_broken, 0);
    assert_int_equal(mine.counts->lost_max_hold, 1);
    assert_int_equal(mine.counts->lost_stalled, 2);
    assert_int_equal(mine.counts->hold.count, 6);
    assert_int_equal(mine.counts->hold.sum_us, 6 * 450);
    assert_int_equal(mine.counts->wait.sum_us, 6 * 250);
    simba__loop_metrics_fini(&all);
}

TEST(test_metrics__counts_trouble)
{
    struct simba__loop_metrics all = {.owned = 0};
    struct simba__contender_metrics mine = {.counts = NULL};

    simba__metrics_ask(&mine, 1000);
    tell(&mine, &all, SIMBA__TELL_CLOCK_JUMP, SIMBA__CAUSE_STOP);
    tell(&mine, &all, SIMBA__TELL_ACQUIRED | SIMBA__TELL_BACKSTOP,
         SIMBA__CAUSE_STOP);
    tell(&mine, &all, SIMBA__TELL_RELEASED, SIMBA__CAUSE_STOP);
    simba__metrics_ask(&mine, 1000);
    tell(&mine, &all, SIMBA__TELL_OVERRUN, SIMBA__CAUSE_STOP);
    tell(&mine, &all, SIMBA__TELL_STOPPED | SIMBA__TELL_UNRELEASED,
         SIMBA__CAUSE_STOP);
    simba__metrics_renewed(&mine, true, 5);
    simba__metrics_renewed(&mine, true, -5); /* late, yet granted */
    simba__metrics_renewed(&mine, false, 5);
    assert_int_equal(mine.counts->clock_jumps, 1);
    assert_int_equal(mine.counts->backstops, 1);
    assert_int_equal(mine.counts->overruns, 1);
    assert_int_equal(mine.counts->unreleased, 1);
    assert_int_equal(mine.counts->abandoned, 1);
    assert_int_equal(mine.counts->renewals, 2);
    assert_int_equal(mine.counts->renewal_failures, 1);
    assert_int_equal(mine.counts->renewal_margin.sum_us, 5000);
    simba__loop_metrics_fini(&all);
}

/* Who waits in vain for nothing costs nothing. */
TEST(test_metrics__finds_its_mutex_when_there_is_something)
{
    struct simba__loop_metrics all = {.owned = 0};
    struct simba__contender_metrics first = {.counts = NULL},
                                    second = {.counts = NULL};

    simba__metrics_ask(&first, 1000);
    assert_int_equal(all.mutexes.count, 0);
    tell(&first, &all, SIMBA__TELL_ACQUIRED, SIMBA__CAUSE_STOP);
    simba__metrics_ask(&second, 1000);
    tell(&second, &all, SIMBA__TELL_STOPPED, SIMBA__CAUSE_STOP);
    assert_int_equal(all.mutexes.count, 1);
    assert_ptr_equal(first.counts, second.counts);
    simba__loop_metrics_fini(&all);
}
