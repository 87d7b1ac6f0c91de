/* When CMD is to run while the mutex is held: at once, again after it ended, or
 * at a beat. No I/O. Times are CLOCK_BOOTTIME; beats lie on another clock, the
 * store's where it tells one.
 *
 * The library's scheduler does not do: it runs work on a thread of its own,
 * and CMD is the guardian's. */
#ifndef SIMBA_CLI_PLAN_H
#define SIMBA_CLI_PLAN_H

#include "job.h"

struct simba__plan {
    const struct simba__job *job;
    bool is_due;     /* CMD shall run now */
    bool is_running; /* and does, or will be made to */
    int64_t beat_ms; /* of the present run, by the clock of beats; 0: it has
                        none */
    uint64_t runs;   /* how often CMD was started */
    /* Beats that were skipped and not told yet. */
    uint64_t skipped;
    int64_t skipped_ms; /* the first of them */

    int64_t due_ms;     /* SIMBA__CLOCK_NEVER: not before something happens */
    int64_t next_ms;    /* at a rate: the beat that comes next, by its clock */
    int64_t offset_ms;  /* that clock less ours */
    int64_t backoff_ms; /* lead: before the next start */
    int64_t started_ms; /* lead */
};

/** The clock of beats, and when the tenure was granted by it. */
struct simba__plan_clock {
    int64_t offset_ms; /* it less ours */
    int64_t granted_ms;
};

void simba__plan_init(struct simba__plan *plan, const struct simba__job *job);

/** A tenure begins. */
void simba__plan_begin(struct simba__plan *plan,
                       int64_t now_ms,
                       const struct simba__plan_clock *clock);

/** The clock of beats was measured again. */
void simba__plan_tune(struct simba__plan *plan,
                      int64_t now_ms,
                      int64_t offset_ms);

/** When to look again though nothing happens. */
int64_t simba__plan_wake_at(const struct simba__plan *plan);

/** Is CMD due by now? Has a beat passed while it ran? */
void simba__plan_look(struct simba__plan *plan, int64_t now_ms);

/** CMD was started, and is not due any more. */
void simba__plan_started(struct simba__plan *plan, int64_t now_ms);

/** The run is over, and CMD is to run again in this tenure. */
void simba__plan_done(struct simba__plan *plan, int64_t now_ms);

/** The tenure is over, and the run with it. */
void simba__plan_end(struct simba__plan *plan);

#endif
