/* The schedule machine on a table: the test feeds one event at a time and looks
 * at what is to be done about it. */
#ifndef TESTS_CORE_SCHEDULE_DRIVER_H
#define TESTS_CORE_SCHEDULE_DRIVER_H

#include "core/schedule.h"

#include <stddef.h>
#include <string.h>

#include "fixtures/unit_test.h"

#define NEVER INT64_MAX

static struct simba__schedule machine;
static struct simba__schedule_update up;

static inline struct simba__schedule_config config_of(
    enum simba__schedule_kind kind,
    int64_t initial_delay_ms,
    int64_t period_ms)
{
    struct simba__schedule_config config = {kind, initial_delay_ms, period_ms};

    return config;
}

static inline void use(enum simba__schedule_kind kind,
                       int64_t initial_delay_ms,
                       int64_t period_ms)
{
    struct simba__schedule_config config =
        config_of(kind, initial_delay_ms, period_ms);

    simba__schedule_init(&machine, &config);
}

static inline void use_rate(int64_t initial_delay_ms, int64_t period_ms)
{
    use(SIMBA__SCHEDULE_FIXED_RATE, initial_delay_ms, period_ms);
}

static inline void use_delay(int64_t initial_delay_ms, int64_t period_ms)
{
    use(SIMBA__SCHEDULE_FIXED_DELAY, initial_delay_ms, period_ms);
}

static inline void step(enum simba__schedule_event_type type, int64_t now_ms)
{
    struct simba__schedule_event event = {.type = type, .now_ms = now_ms};

    simba__schedule_step(&machine, &event, &up);
}

static inline void acquire(int64_t now_ms, uint64_t token)
{
    struct simba__schedule_event event = {
        .type = SIMBA__SCHEDULE_ACQUIRED, .now_ms = now_ms, .token = token};

    simba__schedule_step(&machine, &event, &up);
}

static inline void acquire_aligned(int64_t now_ms, int64_t store_offset_ms)
{
    struct simba__schedule_event event = {.type = SIMBA__SCHEDULE_ACQUIRED,
                                          .now_ms = now_ms,
                                          .token = 1,
                                          .aligned = true,
                                          .store_offset_ms = store_offset_ms};

    simba__schedule_step(&machine, &event, &up);
}

static inline void measure_offset(int64_t now_ms, int64_t store_offset_ms)
{
    struct simba__schedule_event event = {.type = SIMBA__SCHEDULE_OFFSET,
                                          .now_ms = now_ms,
                                          .store_offset_ms = store_offset_ms};

    simba__schedule_step(&machine, &event, &up);
}

static inline void release(int64_t now_ms)
{
    step(SIMBA__SCHEDULE_RELEASED, now_ms);
}

static inline void done(int64_t now_ms)
{
    step(SIMBA__SCHEDULE_DONE, now_ms);
}

static inline void timer(int64_t now_ms)
{
    step(SIMBA__SCHEDULE_TIMER, now_ms);
}

static inline void expect_wake_at(int64_t at_ms)
{
    assert_int_equal(simba__schedule_wake_at(&machine), at_ms);
}

static inline void expect_run_number(uint64_t run)
{
    assert_int_equal(up.flags, SIMBA__SCHEDULE_RUN);
    assert_int_equal(up.run, run);
    assert_true(simba__schedule_is_working(&machine));
    expect_wake_at(NEVER); /* while it works, only DONE can bring news */
}

/* The last step started work for the beat at `beat_ms`. */
static inline void expect_run(int64_t beat_ms)
{
    expect_run_number(up.run);
    assert_int_equal(up.beat_ms, beat_ms);
}

static inline void expect_stop(uint64_t run, uint64_t token)
{
    assert_int_equal(up.flags, SIMBA__SCHEDULE_STOP_WORK);
    assert_int_equal(up.run, run);
    assert_int_equal(up.token, token);
}

static inline void expect_nothing(void)
{
    assert_int_equal(up.flags, 0);
}

static inline void expect_skipped(uint64_t beats)
{
    assert_int_equal(up.skipped, beats);
}

static inline void expect_problem(enum simba__schedule_kind kind,
                                  int64_t initial_delay_ms,
                                  int64_t period_ms,
                                  enum simba__schedule_problem problem)
{
    struct simba__schedule_config config =
        config_of(kind, initial_delay_ms, period_ms);

    assert_int_equal(simba__schedule_config_check(&config), problem);
}

#endif
