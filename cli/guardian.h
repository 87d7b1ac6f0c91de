/* The guardian's inside: when CMD is to run (plan.c), the thread that talks to
 * the store (holder.c) with the file of figures (metrics_file.c), the
 * guardian's loop and decisions (guardian.c), how it runs CMD, ends it and
 * leaves (guardian_run.c). */
#ifndef SIMBA_CLI_GUARDIAN_H
#define SIMBA_CLI_GUARDIAN_H

#include "cli/job.h"
#include "cli/output.h"
#include "cli/reaper.h"

#include <simba/locker.h>

/* --- plan.c -------------------------------------------------------------- */

/* When CMD is to run while the mutex is held: at once, again after it ended, or
 * at a beat. No I/O. Times are CLOCK_BOOTTIME; beats lie on another clock, the
 * store's where it tells one.
 *
 * The library's scheduler does not do: it runs work on a thread of its own,
 * and CMD is the guardian's. */

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

/* --- metrics_file.c ------------------------------------------------------ */

/** What became of the runs of CMD; counted by the guardian. */
struct simba__run_metrics {
    _Atomic uint64_t started;
    _Atomic uint64_t failed; /* another exit code than 0 */
    _Atomic uint64_t skipped;
    _Atomic int exit_code;        /* of the last one */
    _Atomic int64_t started_unix; /* when it began, in seconds; 0: none has */
    _Atomic int64_t ended_unix;   /* when it ended */
    _Atomic int64_t waited_ms;    /* for the mutex, for the last time */
};

struct simba__metrics_file {
    simba_store *store; /* NULL: it could not be opened */
    const char *path;
    const char *mutex;
    const char *result; /* what became of it; NULL: it goes on */
    struct simba__run_metrics runs;
    /* Told on that thread why the file could not be written. */
    void (*complain)(void *user, const simba_error *error);
    void *user;

    pthread_t thread;
    bool is_running;
    pthread_mutex_t lock;
    pthread_cond_t told;
    bool is_over; /* under the lock */
};

/** Write the file now. */
void simba__metrics_file_save(struct simba__metrics_file *gauge);

/** Start the thread; without one the file is written only by
 * simba__metrics_file_save(). */
void simba__metrics_file_start(struct simba__metrics_file *gauge);

/** End the thread, if there is one, and wait for that. */
void simba__metrics_file_stop(struct simba__metrics_file *gauge);

/* --- holder.c ------------------------------------------------------------ */

/* The thread that talks to the store. Its calls may block for as long as a
 * store can be silent, and the guardian must never be kept from its deadline by
 * that.
 */

enum simba__holder_state {
    SIMBA__HOLDER_BUSY,   /* opening, acquiring or releasing */
    SIMBA__HOLDER_PAUSED, /* left the queue or yielded (`error` tells trouble),
                             and waits for an order */
    SIMBA__HOLDER_HELD,   /* acquired; waits for an order */
    SIMBA__HOLDER_FAILED, /* not acquired, see `error`; closes the store */
    SIMBA__HOLDER_RELEASED, /* or left; `error` tells trouble; all is closed */
};

enum simba__holder_order {
    SIMBA__HOLDER_WAIT,
    SIMBA__HOLDER_ACQUIRE,
    SIMBA__HOLDER_YIELD, /* release, to acquire again later */
    SIMBA__HOLDER_RELEASE
};

struct simba__holder {
    const struct simba__job *job;
    pthread_t guardian; /* gets SIGUSR1 when there is something to look at */
    int link;           /* the library's messages go to the front */
    int64_t wait_until_ms;
    simba_store *store; /* valid once the mutex is held */
    int64_t lease_ms;   /* likewise; ttl + transition */
    struct simba__metrics_file metrics;
    struct simba__wait_notice notice;
    simba_owner owner; /* whom we wait for; "": unknown */

    _Atomic(simba_locker *) locker;
    _Atomic int state;     /* enum simba__holder_state */
    _Atomic bool was_held; /* so what is said later, no error says */
    atomic_bool is_lost;
    simba_error error; /* written before `state` */
    simba_error why;   /* written before `is_lost` */

    /* Under the lock. */
    pthread_mutex_t lock;
    pthread_cond_t told;
    enum simba__holder_order order;
    bool is_all_gone; /* set when nothing that used the mutex is left: a loss
                         may then be acknowledged */
    bool is_handing_over; /* to be, and not yet begun */
    bool is_closed;       /* the store is */
    bool is_called_off;   /* while there is no locker yet to cancel */
};

/** Start the thread, which opens the store and acquires; false with errno. */
bool simba__holder_start(struct simba__holder *holder);

/** Make it stop waiting in the queue; say it again until the state shows it. */
void simba__holder_cancel(struct simba__holder *holder);

/** Acquire again after a pause, yield, or release what is held and close. */
void simba__holder_order(struct simba__holder *holder,
                         enum simba__holder_order order);

/** Hand the mutex over, if it is held and somebody waits for it. */
void simba__holder_hand_over(struct simba__holder *holder);

/** Put U and H into the shared page; after a loss they stay as they were. Not
 * to be called once the release was ordered. */
void simba__holder_publish(struct simba__holder *holder);

/** The store's clock less ours, and when it granted the mutex; by the wall
 * clock where the store tells no time. While the mutex is held. */
void simba__holder_clock(const struct simba__holder *holder,
                         int64_t *offset_ms,
                         int64_t *granted_ms);

/* --- the guardian -------------------------------------------------------- */

struct simba__guardian {
    struct simba__job *job;
    struct simba__share *share;
    struct simba__holder holder;
    struct simba__reaper reaper;
    struct simba__plan plan;
    sigset_t awake; /* the mask while waiting */
    int link;
    int gate;      /* of a lock's only CMD; of others the way to the nursery */
    pid_t nursery; /* 0: a lock has none */

    pid_t cmd; /* 0: there is none, or it is being made */
    bool is_making;
    int cmd_status; /* of waitpid() */
    bool is_cmd_gone;
    bool has_children; /* CMD or orphans */

    bool is_front_gone;
    bool is_anchored;
    bool is_paused;  /* the user stopped us while CMD did not run */
    bool is_leaving; /* the holder was asked to leave the queue */
    int cancelled;   /* by this signal; lead, every: also while CMD runs */
    uint64_t passed; /* signals that CMD was given: bit n - 1 */
    int resumes;     /* how often the front was continued */
    bool is_life_sent;

    bool was_started; /* CMD was let run */
    bool is_lost;     /* the mutex, in this tenure */
    bool is_killing;
    bool is_yielding;   /* in RELEASING: to contend again */
    bool is_hurried;    /* in RELEASING: told to end while --min-hold lasts */
    bool is_final;      /* the end of this run is our end */
    int fault;          /* 0, or our exit code whatever CMD's is */
    uint64_t token;     /* of the tenure */
    int64_t session_ms; /* what the store frees it by; 0: by its lease */
    int64_t tick_ms;
    int64_t armed_ms;
    int64_t acquired_ms;
    int64_t granted_ms; /* as the store's clock tells it, by ours; else the same
                         * as acquired_ms */
    int64_t ended_ms;   /* when ENDING began */
    int64_t killing_ms; /* when KILL was sent first, if it was */
    int64_t kill_after_ms;
    int64_t give_up_ms; /* when not to wait for the holder any longer */
};

/* guardian.c */

/** Look at what is known now, and do what follows from it. */
void simba__guardian_step(struct simba__guardian *g);

/** Is the mutex lost, or should it be given up by now? */
bool simba__guardian_has_lost(struct simba__guardian *g);

/** It is: say so, once in a tenure. */
void simba__guardian_tell_lost(struct simba__guardian *g);

/* guardian_run.c */

/** The mutex is held from now on. */
void simba__guardian_begin(struct simba__guardian *g);

/** Look on, in this phase. */
void simba__guardian_step_idle(struct simba__guardian *g);
void simba__guardian_step_ending(struct simba__guardian *g);
void simba__guardian_step_releasing(struct simba__guardian *g);

/** Tell of beats that passed. */
void simba__guardian_tell_skips(struct simba__guardian *g, const char *why);

/** The nursery says something, or is gone. */
void simba__guardian_on_nursery(struct simba__guardian *g);

/** Send a note with the time and this text. */
void simba__guardian_send(const struct simba__guardian *g,
                          struct simba__note *note,
                          const char *text);

/** Continue the front if it sleeps because CMD was stopped. */
void simba__guardian_wake_front(const struct simba__guardian *g);

/** Send a signal to CMD and its process group. */
void simba__guardian_pass_on(const struct simba__guardian *g, int number);

/** End the process that waits to become CMD. */
void simba__guardian_dismiss(struct simba__guardian *g);

/** Make everything below us end, politely at first. */
void simba__guardian_end(struct simba__guardian *g);

/** When KILL is due in ENDING. */
int64_t simba__guardian_kill_at(const struct simba__guardian *g);

/** Nothing is left below us: give the mutex back, or our position in the queue,
 * and end, or with SIMBA__HOLDER_YIELD contend for it again. */
void simba__guardian_leave(struct simba__guardian *g,
                           enum simba__holder_order order);

/** Is CMD gone, and the mutex held for --min-hold only? Then the first signal
 * that would end us is answered by how long that lasts, and the next one ends
 * us. */
bool simba__guardian_is_kept(struct simba__guardian *g, int number);

/** Leave the answer for the front, and exit. */
_Noreturn void simba__guardian_finish(struct simba__guardian *g, int exit_code);

/** Tell the front that the guardian could not be set up, and end. */
_Noreturn void simba__guardian_fail(struct simba__guardian *g,
                                    int error_number);

#endif
