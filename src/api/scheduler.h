/* What the files of the scheduler share. */
#ifndef SIMBA_API_SCHEDULER_H
#define SIMBA_API_SCHEDULER_H

#include <simba/scheduler.h>

#include "api/course.h"
#include "api/store.h"
#include "core/schedule.h"
#include "runtime/contention.h"

struct simba_scheduler {
    struct simba__contention base; /* first: hooks get this */
    simba_store *store;
    simba_work_fn work;
    void *user;
    struct simba__schedule_config config;
    struct simba__course course;
    int64_t progress_ms; /* asked of the work while it runs; 0: nothing is */

    _Atomic bool is_told; /* S6: the run must end; cleared by a new tenure */

    /* Inside the loop only. */
    struct simba__schedule machine;
    simba_timer timer;
    bool is_leading;     /* between acquired and released */
    bool is_release_due; /* on_released is back when the work is done */
    bool has_run;        /* the thread shall begin `run` */
    simba_run run;
    int64_t granted_ms; /* store's time of the grant; INT64_MIN: not told */
    simba_scheduler_counts counts;

    /* The thread, from the first run of a tenure to its end. */
    pthread_t thread;
    bool has_thread;
    bool is_thread_over; /* it has ended, and is to be joined */
    pthread_t ended;

    int stop_fd; /* for the life of the handle */
    struct simba__fork_entry fork_entry;
};

/* scheduler.c, inside the loop */

/** Put its hooks in place. */
void simba__scheduler_init(simba_scheduler *s);

/** Feed the machine and do what it says. */
void simba__scheduler_feed(simba_scheduler *s,
                           struct simba__schedule_event event);

/** At rest when neither the machine nor a thread is left. */
void simba__scheduler_settle(simba_scheduler *s);

/* scheduler_work.c */

/** Make the descriptor that tells the work to end; close it. Outside the
 * loop. */
int simba__scheduler_open_fd(simba_scheduler *s, simba_error *error);
void simba__scheduler_close_fd(simba_scheduler *s);

/** Make a thread for the run that is due, or wake the one that waits. False:
 * the system gives none now. Inside the loop. */
bool simba__scheduler_wake(simba_scheduler *s);

/** Tell the run, if there is one, to end, and the thread too. Inside the
 * loop. */
void simba__scheduler_tell(simba_scheduler *s);

/** A tenure begins: the thread of the last may still be there. Inside the
 * loop. */
void simba__scheduler_untell(simba_scheduler *s);

/** Join the thread that has ended, if any. Outside the loop. */
void simba__scheduler_bury(simba_scheduler *s);

/** Is the calling thread inside its work? */
bool simba__scheduler_is_mine(const simba_scheduler *s);

#endif
