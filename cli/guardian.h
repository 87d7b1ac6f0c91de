/* The guardian's inside, shared by its loop (guardian.c), its decisions
 * (guardian_step.c), how it runs CMD (guardian_run.c), how it ends CMD
 * (guardian_end.c) and what it leaves behind (guardian_leave.c). */
#ifndef SIMBA_CLI_GUARDIAN_H
#define SIMBA_CLI_GUARDIAN_H

#include "holder.h"
#include "job.h"
#include "link.h"
#include "nursery.h"
#include "plan.h"
#include "reaper.h"

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
    bool is_leaving; /* the holder was asked to leave the line */
    int cancelled;   /* by this signal; lead, every: also while CMD runs */
    uint64_t passed; /* signals that CMD was given: bit n - 1 */
    int resumes;     /* how often the front was continued */
    bool is_life_sent;

    bool was_started; /* CMD was let run */
    bool is_lost;     /* the mutex, in this tenure */
    bool is_killing;
    bool is_yielding; /* in RELEASING: to contend again */
    bool is_final;    /* the end of this run is our end */
    int fault;        /* 0, or our exit code whatever CMD's is */
    uint64_t token;   /* of the tenure */
    int64_t tick_ms;
    int64_t armed_ms;
    int64_t acquired_ms;
    int64_t ended_ms;   /* when ENDING began */
    int64_t killing_ms; /* when KILL was sent first, if it was */
    int64_t kill_after_ms;
    int64_t give_up_ms; /* when not to wait for the holder any longer */
    int64_t cancel_most_ms;
    int64_t release_most_ms;
};

/* guardian_step.c */

/** The front says something. */
void simba__guardian_on_note(struct simba__guardian *g,
                             const struct simba__note *note);

/** Reap whatever has ended below us. */
void simba__guardian_reap(struct simba__guardian *g);

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

/** Tell of beats that passed. */
void simba__guardian_tell_skips(struct simba__guardian *g, const char *why);

/** The nursery says something, or is gone. */
void simba__guardian_on_nursery(struct simba__guardian *g);

/** Nothing of the run is left. */
void simba__guardian_run_over(struct simba__guardian *g);

/* guardian_end.c */

/** Tell the front that the guardian could not be set up, and end. */
_Noreturn void simba__guardian_fail(struct simba__guardian *g,
                                    int error_number);

/** When KILL is due in ENDING. */
int64_t simba__guardian_kill_at(const struct simba__guardian *g);

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

/** Look on, in this phase. */
void simba__guardian_step_ending(struct simba__guardian *g);

/* guardian_leave.c */

/** Nothing is left below us: give the mutex back, or our position in the queue,
 * and end. */
void simba__guardian_release(struct simba__guardian *g);

/** Give the mutex back, and contend for it again. */
void simba__guardian_yield(struct simba__guardian *g);

/** Look on, in this phase. */
void simba__guardian_step_releasing(struct simba__guardian *g);

/** Leave the answer for the front, and exit. */
_Noreturn void simba__guardian_finish(struct simba__guardian *g, int exit_code);

#endif
