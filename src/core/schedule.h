/* The schedule machine: when the periodic work of an owner starts.
 *
 * Pure: no I/O, no clock, no threads, no allocation, no globals. The caller
 * feeds events stamped with the boot clock and carries out the update: start
 * the work, tell the running work to stop, wake again at
 * simba__schedule_wake_at().
 *
 *                ACQUIRED               a beat is due
 *        IDLE --------------> WAITING ---------------> WORKING
 *         ^ ^                  | ^  ^                   |   |
 *         | '------------------' |  '-------------------'   |
 *         |       RELEASED       |           DONE           | RELEASED:
 *         |                      | DONE                     | STOP_WORK
 *         |                      |                          |
 *         |                  OVERTAKEN <-------------- LEAVING
 *         |                      |        ACQUIRED     ^  |
 *         |                      '---------------------'  |
 *         |                             RELEASED          |
 *         '-----------------------------------------------'
 *                               DONE
 *
 * Rules:
 * - Work starts only between ACQUIRED and RELEASED.
 * - Work never overlaps itself, not even work of two tenures: in OVERTAKEN the
 *   mutex is ours again while the work of the earlier tenure still runs, and
 *   the first run of the new tenure waits for its DONE.
 * - The initial delay counts from each ACQUIRED.
 * - Fixed delay: the next run is one period after DONE; period 0 is back to
 *   back.
 * - Fixed rate: beats lie at first + n * period and never leave that grid. A
 *   beat that comes while work of the same tenure runs is skipped. A beat that
 *   is noticed late (the process slept, or the work of an earlier tenure was in
 *   the way) is run at once if it is late by less than one period; those before
 *   it are skipped. No beat runs twice. Skipped beats are counted, at the
 *   latest by RELEASED, and up to the time that it carries.
 * - An aligned grid consists of the multiples of the period in the *store's*
 *   time, so that owners that follow one another keep one beat. */
#ifndef SIMBA_CORE_SCHEDULE_H
#define SIMBA_CORE_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

/** The longest period and initial delay: ten years. */
#define SIMBA__SCHEDULE_MOST_MS (INT64_C(10) * 366 * 86400 * 1000)

enum simba__schedule_kind {
    SIMBA__SCHEDULE_FIXED_RATE,
    SIMBA__SCHEDULE_FIXED_DELAY,
};

struct simba__schedule_config {
    enum simba__schedule_kind kind;
    int64_t initial_delay_ms; /* from ACQUIRED to the first run */
    int64_t period_ms;        /* rate: beat to beat; delay: DONE to run */
};

/* What is wrong with a configuration, in words for a message. */
#define SIMBA__SCHEDULE_PROBLEM_MAP(X)                                         \
    X(FINE, "the schedule is valid")                                           \
    X(KIND_UNKNOWN, "the schedule is neither a rate nor a delay")              \
    X(INITIAL_DELAY_NEGATIVE, "the initial delay is negative")                 \
    X(INITIAL_DELAY_LONG, "the initial delay is longer than ten years")        \
    X(PERIOD_NEGATIVE, "the period is negative")                               \
    X(PERIOD_LONG, "the period is longer than ten years")                      \
    X(RATE_WITHOUT_PERIOD, "a fixed rate needs a period of 1 ms or more")

enum simba__schedule_problem {
#define X(name, text) SIMBA__SCHEDULE_##name,
    SIMBA__SCHEDULE_PROBLEM_MAP(X)
#undef X
        SIMBA__SCHEDULE_PROBLEM_COUNT
};

enum simba__schedule_event_type {
    SIMBA__SCHEDULE_ACQUIRED, /* a tenure began; never twice in a row */
    SIMBA__SCHEDULE_RELEASED, /* it ended, or the user stops: then also when
                               * nothing is owned, and nothing happens */
    SIMBA__SCHEDULE_DONE,     /* the work returned; once for each RUN */
    SIMBA__SCHEDULE_TIMER,    /* wake_at was reached; spurious ones are fine */
    SIMBA__SCHEDULE_OFFSET,   /* the store's clock was measured again */
};

struct simba__schedule_event {
    enum simba__schedule_event_type type;
    int64_t now_ms;          /* boot clock */
    uint64_t token;          /* ACQUIRED: fencing token of the tenure */
    bool aligned;            /* ACQUIRED: put the beats of a fixed rate on
                              * multiples of the period in the store's time */
    int64_t store_offset_ms; /* ACQUIRED if aligned, and OFFSET: the store's
                              * time less ours. Clocks drift apart by seconds a
                              * day, so a long tenure wants OFFSET events;
                              * without an aligned grid they change nothing */
};

/* simba__schedule_update.flags, at most one of them. */
enum {
    SIMBA__SCHEDULE_RUN = 1 << 0,       /* start the work */
    SIMBA__SCHEDULE_STOP_WORK = 1 << 1, /* tell it that ownership ended */
};

struct simba__schedule_update {
    unsigned flags;
    uint64_t token;   /* with a flag: of the tenure the run belongs to */
    uint64_t run;     /* with a flag: number of the run, counted from 1 */
    int64_t beat_ms;  /* RUN: when it was due; store's time if aligned */
    uint64_t skipped; /* beats that by this event turned out as skipped */
};

enum simba__schedule_state {
    SIMBA__SCHEDULE_IDLE,      /* not owner, no work runs */
    SIMBA__SCHEDULE_WAITING,   /* owner, until the next beat */
    SIMBA__SCHEDULE_WORKING,   /* owner, work of this tenure runs */
    SIMBA__SCHEDULE_LEAVING,   /* not owner, work was told to stop and runs */
    SIMBA__SCHEDULE_OVERTAKEN, /* owner, work of an earlier tenure runs */
};

/** Fields are read by no one but schedule.c. */
struct simba__schedule {
    struct simba__schedule_config config;
    enum simba__schedule_state state;
    uint64_t run;      /* number of the last run */
    uint64_t token;    /* of the present or last tenure */
    bool aligned;      /* its grid is on the store's clock */
    int64_t offset_ms; /* grid's clock less ours; 0 unless aligned */
    int64_t first_ms;  /* first beat of the tenure, by the grid's clock */
    int64_t next_ms;   /* next beat, by the grid's clock; INT64_MAX: none */
};

/** Say what is wrong with a configuration, if anything. */
enum simba__schedule_problem simba__schedule_config_check(
    const struct simba__schedule_config *config);

/** The problems in words, without a full stop. */
extern const char *const simba__schedule_problem_texts[];

/** Make a machine that owns nothing. `config` is copied and must be fine. */
void simba__schedule_init(struct simba__schedule *schedule,
                          const struct simba__schedule_config *config);

/**
 * Take one event and say what to do.
 *
 * RUN says that work is due, not that the mutex is still owned: a process that
 * was stopped sees its timers before it hears of its loss. The caller asks
 * is_owner (S3) right before it starts the work; if the answer is no, it does
 * not start and feeds DONE.
 *
 * `update` is filled on every call; nothing of `event` is kept.
 */
void simba__schedule_step(struct simba__schedule *schedule,
                          const struct simba__schedule_event *event,
                          struct simba__schedule_update *update);

/** When the next TIMER is due by our clock; INT64_MAX: never. */
int64_t simba__schedule_wake_at(const struct simba__schedule *schedule);

/** Is work running, of whatever tenure, whose DONE is still to come? */
bool simba__schedule_is_working(const struct simba__schedule *schedule);

#endif
