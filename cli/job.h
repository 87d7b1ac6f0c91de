/* One call of `simba lock`, `lead` or `every`: what was asked for, and what its
 * processes share.
 *
 *     front      the process the user started; in the user's session; watches
 *       |        the guardian, passes signals on, handles the terminal
 *     guardian   in a session of its own; holds the mutex, keeps the deadline,
 *       |  |     reaps everything below it
 *       |  nursery   lead and every only: in the user's session, where the
 *       |            guardian is not any more; makes the next CMD
 *     CMD        in the user's session, in a process group of its own
 *
 * Front and guardian are child subreapers, so whatever CMD leaves behind comes
 * to the guardian, and to the front when the guardian is dead. Each of the two
 * ends CMD and all its descendants when the other one is gone. */
#ifndef SIMBA_CLI_JOB_H
#define SIMBA_CLI_JOB_H

#include "opt.h"

#include <simba/owner.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

/** In place of an errno: the mutex was lost before CMD could begin. */
enum { SIMBA__TOO_LATE = -1 };

/** From KILL to the last of CMD's processes being gone (design 5). */
enum { SIMBA__KILL_MS = 250 };

enum simba__job_kind {
    SIMBA__JOB_LOCK, /* one tenure, one run */
    SIMBA__JOB_LEAD, /* tenure after tenure, CMD running in each */
    SIMBA__JOB_EVERY /* likewise, CMD running at each beat */
};

/** lead: is CMD started again when it ends while we lead? */
enum simba__restart {
    SIMBA__RESTART_NEVER,
    SIMBA__RESTART_ON_FAILURE,
    SIMBA__RESTART_ALWAYS
};

enum simba__phase {
    SIMBA__WAITING,   /* for the mutex; CMD does not run */
    SIMBA__IDLE,      /* the mutex is held; CMD does not run, or not yet */
    SIMBA__RUNNING,   /* CMD runs */
    SIMBA__ENDING,    /* it ended or must end; descendants may be left */
    SIMBA__RELEASING, /* nothing is left below the guardian */
    SIMBA__DONE       /* `exit_code` is the answer */
};

/** A page that front, guardian and the process that becomes CMD share. What is
 * here must be readable while its writer is stopped or dead. */
struct simba__share {
    _Atomic int64_t use_until_ms;  /* U and H of design 5, CLOCK_BOOTTIME; */
    _Atomic int64_t hard_until_ms; /* 0 before the mutex was acquired */
    _Atomic int64_t beat_ms;       /* when the guardian last ran */
    _Atomic int phase;             /* enum simba__phase, set by the guardian */
    _Atomic int exit_code;
    _Atomic int exec_errno;    /* why CMD could not be run */
    _Atomic int guardian;      /* process id */
    _Atomic int cmd;           /* likewise, and process group; 0: none yet */
    atomic_bool is_tty_lent;   /* CMD's group was given the terminal */
    atomic_bool is_front_idle; /* the front stopped itself because CMD did */
    uint64_t token;            /* written before CMD is told to start */
    char id[SIMBA_ID_MAX + 1];
};

/** What was asked for, and what the front found at its start. */
struct simba__job {
    enum simba__job_kind kind;
    struct simba__cli cli;
    const char *mutex;
    const char *id; /* NULL: made by the guardian */
    char **argv;
    int64_t wait_ms; /* negative: for ever */
    int64_t ttl_ms;
    int64_t transition_ms; /* negative: the library's default */
    int64_t max_hold_ms;
    int64_t min_hold_ms;
    int64_t kill_after_ms; /* negative: what fits the default budget */
    int conflict_code;
    const char *metrics_file; /* NULL: none */
    enum simba__restart restart;
    int64_t period_ms; /* every: from beat to beat, or from end to start */
    int64_t initial_delay_ms;
    bool is_delay;       /* every: after the end of the last run */
    bool is_ready_early; /* tell systemd before we lead */
    bool is_watched;     /* a watchdog wants signs of life */

    struct simba__share *share;
    sigset_t mask;                /* as it was given to us, and is to CMD */
    struct sigaction old_sigchld; /* likewise */
    pid_t front;
    pid_t front_group;
    int tty;              /* controlling terminal, or -1 */
    bool is_tty_for_cmd;  /* give CMD the terminal at its start */
    bool is_anchor_first; /* CMD may start when its group has an anchor */
};

/** Is it ended by this signal while no CMD is there that could take it? */
bool simba__job_is_ended_by(const struct simba__job *job, int number);

/** Run the job as the front; returns simba's exit code. */
int simba__front_run(struct simba__job *job);

/** Be the guardian, in a new child of the front; `link` leads to the front. */
_Noreturn void simba__guardian_run(struct simba__job *job, int link);

/** Be the nursery, in a new child of the guardian; `link` leads there. */
_Noreturn void simba__nursery_run(struct simba__job *job, int link);

/** Be CMD, in a new child of the guardian or of the nursery, as soon as `gate`
 * says so: then the guardian must be the parent. */
_Noreturn void simba__child_run(struct simba__job *job, int gate);

#endif
