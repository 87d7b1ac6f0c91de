/* Measuring: ours against the floor, in turns, so that a noisy machine is as
 * noisy for both. */
#ifndef SIMBA_BENCH_BENCH_H
#define SIMBA_BENCH_BENCH_H

#include <simba/error.h>
#include <simba/locker.h>
#include <simba/sys/bench.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* One who is measured. */
struct simba__bench_side {
    /** One exchange; its length in nanoseconds. */
    int (*once)(void *self, int64_t *ns, simba_error *error);
    void *self; /* NULL: there is no such side */
};

/* Ours, the floor, and the floor that looks before it sleeps. */
enum { SIMBA__BENCH_SIDES = 3 };

struct simba__bench_plan {
    int64_t length_ms; /* of the whole */
    size_t most;       /* exchanges of our side; 0: as many as fit */
    /* An exchange takes seconds: at most 15 of them unless `most` says so, and
     * none is begun after length_ms. */
    bool is_slow;
    void (*progress)(void *user, int percent);
    void *user;
};

/* How times are spread: the least, the one at every 200th of all, the greatest.
 */
enum { SIMBA__BENCH_STEPS = 200 };

struct simba__bench_spread {
    size_t count; /* 0: nothing was measured */
    int64_t at[SIMBA__BENCH_STEPS + 1];
};

/* Times in nanoseconds. */
struct simba__bench_result {
    size_t count;
    size_t rounds;
    int64_t p50, p99, p999;
    int64_t floor_p50; /* 0: no floor */
    double ratio_p50;  /* the median of the rounds' ratios */
    double ratio_low, ratio_high;
    int64_t spinning_p50; /* of the floor that looks; 0: there is none */
    double spinning_ratio_p50;
    int64_t cpu_each; /* that one exchange of ours takes of this process */
    double seconds;   /* that our side took */
    double per_second;
    double floor_per_second; /* where rates are compared; else 0 */
    const char *since;       /* from when times count, where it differs */

    size_t contenders; /* 0: not of this scenario */
    size_t processes;  /* likewise */
    /* idle and start */
    size_t mutexes;
    double start_seconds, bytes_each, cpu_percent, requests_per_second;

    struct simba__bench_spread spreads[SIMBA__BENCH_SIDES];
};

/** Measure both in at least 15 rounds, unless fewer exchanges were wanted:
 * first ours, then the floor. */
int simba__bench_run(const struct simba__bench_plan *plan,
                     const struct simba__bench_side sides[SIMBA__BENCH_SIDES],
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
    size_t mutexes; /* that they wait for; 0: each for one of its own */
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

/** Connect, exchange once and disconnect by the bare client. */
int simba__bench_bare(const char *url, simba_error *error);

/** The floor of a store, one connection of it: simba/sys/bench.h. */
struct simba__floor;

/** Connect; NULL with SIMBA_OK: this store has no floor. */
int simba__floor_open(const char *store,
                      const char *mutex,
                      struct simba__floor **floor,
                      simba_error *error);
int simba__floor_step(struct simba__floor *floor,
                      enum simba_floor_step step,
                      simba_error *error);
void simba__floor_close(struct simba__floor *floor); /* NULL is a no-op */

/** Does it wait for a server? */
bool simba__floor_is_remote(const struct simba__floor *floor);

/** From now on, have all that wait in this program look for 100 µs before they
 * sleep; or no more. */
void simba__floor_spin(bool is_on);

/** Release in one process until acquired in another. */
int simba__bench_successor(const struct simba__bench_job *job,
                           struct simba__bench_result *result,
                           simba_error *error);
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

/** How long it takes until so many wait. */
int simba__bench_start(const struct simba__bench_job *job,
                       struct simba__bench_result *result,
                       simba_error *error);

/** From one to the next of many who wait for one mutex. */
int simba__bench_waiters(const struct simba__bench_job *job,
                         struct simba__bench_result *result,
                         simba_error *error);

/** What there is to measure. */
struct simba__bench_scenario {
    const char *name;
    int (*run)(const struct simba__bench_job *job,
               struct simba__bench_result *result,
               simba_error *error);
    bool is_shared;    /* between processes */
    uint32_t needs;    /* of enum simba_capability */
    bool is_slow;      /* a lease for each exchange */
    bool has_no_count; /* -n says nothing */
    size_t contenders; /* by default; 0: it has none to choose */
    size_t processes;  /* likewise */
    bool has_mutexes;  /* whose number can be chosen */
    /* A report measures it with so many contenders, then with 10, 100, … up to
     * so many; 0: once. */
    size_t report_from, report_most;
    bool is_in_report;
};

/** All, ended by one without a name. */
extern const struct simba__bench_scenario simba__bench_scenarios[];

/** Is the store there at all? Bare client libraries may wait for it for long.
 */
int simba__bench_reach(const char *url, simba_error *error);

/** A fresh name. */
void simba__bench_name(struct simba__bench_job *job);

/** SIMBA_ECANCELED: a signal came (simba__interrupt() in cli.h). */
int simba__bench_cancel(simba_error *error);

/** A clock for lengths of time. */
int64_t simba__bench_now_ns(void);

/* --- contest.c: percentiles ---------------------------------------------- */

/** Sort times, and tell the one at so many per mille; 0 of none. */
void simba__bench_sort(int64_t *ns, size_t count);
int64_t simba__bench_percentile(const int64_t *sorted,
                                size_t count,
                                size_t per_mille);

/** The percentiles and the spread of our side; `ns` is sorted by it. */
void simba__bench_put_times(struct simba__bench_result *result,
                            int64_t *ns,
                            size_t count);

/** How one side's times are spread. */
void simba__bench_put_spread(struct simba__bench_spread *spread,
                             const int64_t *sorted,
                             size_t count);

/** The median of the rounds' ratios, and between what most are; `ratios` is
 * sorted by it. */
void simba__bench_put_ratios(struct simba__bench_result *result,
                             double *ratios,
                             size_t count);

/* --- workers.c ----------------------------------------------------------- */

/** The other process of a measurement: forked before a store is opened, with a
 * pipe each way. It ends when it reads the end of its orders. */
struct simba__bench_child {
    pid_t pid;
    int in, out; /* what it answers, what it is told; in it: the other way */
};

/** Start one; `live` runs in it, with its own ends of the pipes. */
int simba__bench_child_start(struct simba__bench_child *child,
                             void (*live)(const struct simba__bench_job *job,
                                          struct simba__bench_child *self),
                             const struct simba__bench_job *job,
                             simba_error *error);

/** Kill it, and wait until it is gone. */
void simba__bench_child_kill(struct simba__bench_child *child);

/** Tell it to end, wait for that, but not for ever. One that was never started
 * is all zero. */
void simba__bench_child_end(struct simba__bench_child *child);

/** Write all of it; false: nobody reads. */
bool simba__bench_tell(int fd, const void *what, size_t size);

/** Read all of it; SIMBA_ECANCELED when a signal came, else SIMBA_EINTERNAL
 * when the other process is gone. */
int simba__bench_hear(int fd, void *what, size_t size, simba_error *error);

/** The newest times of one who is measured, zero where there is none. */
struct simba__bench_times {
    int64_t *ns;
    size_t room;
    size_t done; /* how many there were */
};

void simba__bench_note_time(struct simba__bench_times *times, int64_t ns);

/** Many who are measured at once, each on a thread of its own: they run
 * together for a slice of time, and then rest. */
struct simba__crew_slice {
    int64_t length_ns;
    size_t most;   /* exchanges of all together */
    size_t active; /* of a crew: so many of them work */
};

/* What a slice came to. */
struct simba__crew_tally {
    size_t count;
    int64_t elapsed_ns;
    int rc;
    simba_error error; /* the first, when rc is not SIMBA_OK */
};

struct simba__crew_member;

struct simba__crew {
    /* The caller's. */
    const struct simba__bench_side *sides;
    size_t count;
    int64_t *ns; /* times, the newest of each; zero where there is none */
    size_t room;

    /* Its own. */
    struct simba__crew_member *members;
    size_t started;
    pthread_mutex_t lock;
    pthread_cond_t begun, ended;
    uint64_t slices; /* so far */
    size_t working;
    bool is_over;
    struct simba__crew_slice slice;
    int64_t until_ns;
    _Atomic int64_t left; /* exchanges of this slice */
    struct simba__crew_tally tally;
};

int simba__crew_start(struct simba__crew *crew, simba_error *error);
void simba__crew_run(struct simba__crew *crew,
                     const struct simba__crew_slice *slice,
                     struct simba__crew_tally *tally);
void simba__crew_stop(struct simba__crew *crew);

/** Put the times that are there side by side; how many there are. */
size_t simba__crew_gather(int64_t *ns, size_t room);

#endif
