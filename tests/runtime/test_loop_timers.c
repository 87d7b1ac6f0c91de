/* The loop's timers: they fire in order, whatever was set, moved and cleared
 * before. */
#include "core/rng.h"
#include "runtime/loop.h"

#include <stddef.h>

#include "fixtures/unit_test.h"

enum { COUNT = 500, LATEST_MS = 1000 };

struct clock {
    simba_timer timer;
    int64_t fired_ms; /* the time it was set for when it fired; 0: not yet */
};

static struct clock clocks[COUNT];
static int64_t last_ms;
static int fired;

static void fire(simba_timer *timer)
{
    struct clock *clock = (struct clock *)timer;

    assert_false(timer->is_set);
    assert_true(timer->at_ms >= last_ms);
    last_ms = timer->at_ms;
    clock->fired_ms = timer->at_ms;
    fired++;
}

static int set_up(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        clocks[i] = (struct clock){.timer.fire = fire};
    }
    last_ms = 0;
    fired = 0;
    return 0;
}

TEST_AROUND(test_loop_timers__fire_in_order_and_not_before, set_up, NULL)
{
    simba_loop loop = {.timers = NULL};
    struct simba__rng rng;

    simba__rng_seed(&rng, 7);
    for (int i = 0; i < COUNT; i++) {
        simba_timer_set(&loop, &clocks[i].timer,
                        1 + (int64_t)(simba__rng_next(&rng) % LATEST_MS));
    }
    for (int64_t now = 0; now <= LATEST_MS; now += 10) {
        simba__timers_fire(&loop, now);
        assert_true(simba__timers_next(&loop) > now);
        assert_true(last_ms <= now);
    }
    assert_int_equal(fired, COUNT);
    assert_true(simba__timers_next(&loop) == INT64_MAX);
}

/* A plain array is the model. */
TEST_AROUND(test_loop_timers__agree_with_a_list, set_up, NULL)
{
    simba_loop loop = {.timers = NULL};
    int64_t model[COUNT];
    struct simba__rng rng;

    simba__rng_seed(&rng, 11);
    for (int i = 0; i < COUNT; i++) {
        model[i] = INT64_MAX;
    }
    for (int round = 0; round < 20000; round++) {
        size_t i = (size_t)(simba__rng_next(&rng) % COUNT);
        int64_t least = INT64_MAX;

        model[i] = simba__rng_next(&rng) % 3 == 0
                       ? INT64_MAX
                       : (int64_t)(simba__rng_next(&rng) % LATEST_MS);
        simba_timer_set(&loop, &clocks[i].timer, model[i]);
        for (size_t k = 0; k < COUNT; k++) {
            least = model[k] < least ? model[k] : least;
        }
        assert_true(simba__timers_next(&loop) == least);
        assert_true(clocks[i].timer.is_set == (model[i] != INT64_MAX));
    }
}

TEST_AROUND(test_loop_timers__cleared_one_stays_silent, set_up, NULL)
{
    simba_loop loop = {.timers = NULL};

    for (int i = 0; i < 3; i++) {
        simba_timer_set(&loop, &clocks[i].timer, 10 + i);
    }
    simba_timer_clear(&loop, &clocks[1].timer);
    simba_timer_clear(&loop, &clocks[1].timer);
    simba__timers_fire(&loop, 100);
    assert_int_equal(fired, 2);
    assert_int_equal(clocks[1].fired_ms, 0);
}
