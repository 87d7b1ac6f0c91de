/* Measuring: ours against the floor, in turns, so that a noisy machine is as
 * noisy for both. */
#ifndef SIMBA_CLI_BENCH_H
#define SIMBA_CLI_BENCH_H

#include <simba/error.h>
#include <simba/locker.h>

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
    /* An exchange takes seconds: at most 15 of them unless `most` says so, and
     * none is begun after length_ms. */
    bool is_slow;
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
    double per_second;
    double floor_per_second; /* where rates are compared; else 0 */
    const char *since;       /* from when times count, where it differs */

    size_t contenders; /* 0: not of this scenario */
    size_t processes;  /* likewise */
    /* idle */
    double bytes_each, cpu_percent, store_ops_per_second;
};

/** Measure both in at least 15 rounds, unless fewer exchanges were wanted:
 * first ours, then the floor. */
int simba__bench_run(const struct simba__bench_plan *plan,
                     const struct simba__bench_side sides[2],
                     struct simba__bench_result *result,
                     simba_error *error);

/** How many rounds fit, from 15 on; fewer if there are fewer exchanges. */
size_t simba__bench_round_count(const struct simba__bench_plan *plan);

/** What a scenario is given. */
struct simba__bench_job {
    const char *url;   /* NULL: the default store */
    char mutex[48];    /* fresh */
    size_t contenders; /* of each process */
    size_t processes;
    struct simba__bench_plan plan;
    size_t index;         /* which child it is given to */
    int64_t *room;        /* where that one leaves its times */
    _Atomic int *is_over; /* it shall end what it does */
};

/** An uncontended acquire and release by one locker. */
int simba__bench_pair(const struct simba__bench_job *job,
                      struct simba__bench_result *result,
                      simba_error *error);

/** Acquire, however long it takes, unless a signal comes: that is noticed when
 * so much time has passed, which costs the position in the queue. */
int simba__bench_acquire(simba_locker *locker,
                         int64_t look_up_ms,
                         simba_error *error);

/** One exchange of a simba_locker, and of a simba_bench. */
int simba__bench_lock_once(void *self, int64_t *ns, simba_error *error);
int simba__bench_floor_once(void *self, int64_t *ns, simba_error *error);

/** Release in one process until acquired in another. */
int simba__bench_handoff(const struct simba__bench_job *job,
                         struct simba__bench_result *result,
                         simba_error *error);

/** Many mutexes at once through one store handle, or one of each process. */
int simba__bench_throughput(const struct simba__bench_job *job,
                            struct simba__bench_result *result,
                            simba_error *error);

/** The owner is killed, until acquired by another process. */
int simba__bench_crash(const struct simba__bench_job *job,
                       struct simba__bench_result *result,
                       simba_error *error);

/** What contenders cost that only wait. */
int simba__bench_idle(const struct simba__bench_job *job,
                      struct simba__bench_result *result,
                      simba_error *error);

/** SIMBA_ECANCELED: a signal came (interrupt.h). */
int simba__bench_cancel(simba_error *error);

/** A clock for lengths of time. */
int64_t simba__bench_now_ns(void);

#endif
