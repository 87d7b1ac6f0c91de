/* Measuring: ours against the floor, in turns, so that a noisy machine is as
 * noisy for both. */
#ifndef SIMBA_CLI_BENCH_H
#define SIMBA_CLI_BENCH_H

#include <simba/error.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One who is measured. */
struct simba__bench_side {
    /** One exchange; its length in nanoseconds. */
    int (*once)(void *self, int64_t *ns, simba_error *error);
    void *self; /* NULL: there is no such side */
};

struct simba__bench_plan {
    int64_t length_ms; /* of the whole */
    size_t most;       /* exchanges of our side; 0: as many as fit */
    void (*progress)(void *user, int percent);
    void *user;
};

/* Times in nanoseconds. */
struct simba__bench_result {
    size_t count;
    size_t rounds;
    int64_t p50, p99, p999;
    int64_t floor_p50; /* 0: no floor */
    double ratio_p50;  /* the median of the rounds' ratios */
    double ratio_low, ratio_high;
    double seconds; /* that our side took */
};

/** Measure both in at least 15 rounds, unless fewer exchanges were wanted:
 * first ours, then the floor. */
int simba__bench_run(const struct simba__bench_plan *plan,
                     const struct simba__bench_side sides[2],
                     struct simba__bench_result *result,
                     simba_error *error);

/** What a scenario is given. */
struct simba__bench_job {
    const char *url; /* NULL: the default store */
    char mutex[48];  /* fresh */
    struct simba__bench_plan plan;
};

/** An uncontended acquire and release by one locker. */
int simba__bench_pair(const struct simba__bench_job *job,
                      struct simba__bench_result *result,
                      simba_error *error);

/** Release in one process until acquired in another. */
int simba__bench_handoff(const struct simba__bench_job *job,
                         struct simba__bench_result *result,
                         simba_error *error);

/** SIMBA_ECANCELED: a signal came (interrupt.h). */
int simba__bench_cancel(simba_error *error);

/** A clock for lengths of time. */
int64_t simba__bench_now_ns(void);

#endif
