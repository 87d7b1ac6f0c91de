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

#include "cli/cli.h"

#include <simba/owner.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

/** In place of an errno: the mutex was lost before CMD could begin. */
enum { SIMBA__TOO_LATE = -1 };

/** From KILL to the last of CMD's processes being gone . */
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

enum simba__job_phase {
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
    _Atomic int64_t use_until_ms;  /* U and H, CLOCK_BOOTTIME; */
    _Atomic int64_t hard_until_ms; /* 0 before the mutex was acquired */
    _Atomic int64_t beat_ms;       /* when the guardian last ran */
    _Atomic int phase; /* enum simba__job_phase, set by the guardian */
    _Atomic int exit_code;
    _Atomic int exec_errno;    /* why CMD could not be run */
    _Atomic int guardian;      /* process id */
    _Atomic int cmd;           /* likewise, and process group; 0: none yet */
    atomic_bool is_tty_lent;   /* CMD's group was given the terminal */
    atomic_bool is_front_idle; /* the front stopped itself because CMD did */
    atomic_bool is_termed; /* this CMD, by the front, in the guardian's place */
    uint64_t token;        /* written before CMD is told to start */
    uint32_t slot;         /* likewise */
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
    uint32_t slots;        /* how many may hold it; 0: we alone */
    bool keeps_secrets;    /* CMD sees our passwords */
    int64_t kill_after_ms; /* negative: what fits the default budget */
    int conflict_code;
    const char *metrics_file; /* NULL: none */
    uint32_t tell;            /* about the holder, of enum simba_tell */
    char *command;            /* what is told of CMD; NULL: nothing */
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

/** $SIMBA_HELD tells CMD, and any simba below it, what is held by those above:
 * such a word for each tenure, parted by blanks. To be freed; NULL: no memory.
 *
 * @param id  NULL: just what all words of this mutex begin with */
#define SIMBA__HELD "SIMBA_HELD"
char *simba__job_held(const char *mutex, const char *id, uint64_t token);

/** Run the job as the front; returns simba's exit code. */
int simba__front_run(struct simba__job *job);

/** Be the guardian, in a new child of the front; `link` leads to the front. */
_Noreturn void simba__guardian_run(struct simba__job *job, int link);

/* --- what the processes tell each other: job.c --------------------------- */

/* Short messages between front and guardian, in order, each whole. Nothing here
 * blocks; when one end dies the other one sees the end of file. */

enum simba__note_kind {
    /* guardian to front */
    SIMBA__NOTE_BORN,     /* CMD's process exists: number = its id */
    SIMBA__NOTE_ACQUIRED, /* carries the store's life descriptor, if any */
    SIMBA__NOTE_WAITING,  /* for a second: text = id of the owner, if known */
    SIMBA__NOTE_STOPPED,  /* CMD stopped: number = signal, seen = resumes */
    SIMBA__NOTE_LOST,     /* text = why; number = whether CMD ran, or
                             SIMBA__EXIT_LOST when this is our end */
    SIMBA__NOTE_RELEASED, /* text = why, of lead and every */
    SIMBA__NOTE_STARTED,  /* a run of CMD began; lead and every only */
    SIMBA__NOTE_ENDED,    /* nothing of it is left: number = exit code, seen =
                             the signal it died of; 0: none */
    SIMBA__NOTE_SKIPPED,  /* number = how many beats, text = why */
    SIMBA__NOTE_FAILED,   /* number = exit code; status, text and seen, an errno
                             or 0 = why */
    SIMBA__NOTE_KEPT,     /* CMD has ended, but --min-hold lasts until_ms;
                             number = the signal that asks to end, or 0 */
    SIMBA__NOTE_LOG,      /* number = level, text = who: message, seen = where
                             the message begins */
    /* front to guardian */
    SIMBA__NOTE_SIGNAL,  /* number = signal; SIGCONT: seen = resumes */
    SIMBA__NOTE_ANCHORED /* CMD's process group has its anchor: number as in
                            BORN */
};

struct simba__note {
    int kind;
    int number;
    int status;
    int seen;
    int64_t boot_ms;
    int64_t until_ms; /* LOST: when it ceased to be relied on; ACQUIRED: when
                         the first run of every is due, else 0 */
    uint64_t token;   /* of the tenure; 0: none */
    uint64_t run;     /* STARTED, ENDED: counted from 1 */
    int64_t beat_ms;  /* STARTED, SKIPPED: when it was due, or the first of
                         those skipped; 0: it has no beat */
    int64_t store_ms; /* ACQUIRED: when, by the store's clock; 0: not told */
    char text[320];
};

/** Send, with a descriptor unless it is -1. A full link drops the note: the
 * other end is stopped, and all that must not be lost is in the shared page. */
void simba__link_send(int end, const struct simba__note *note, int descriptor);

/**
 * Receive one note.
 *
 * @param[out] descriptor  what came with it, else -1; NULL: none is expected
 * @return 1; 0 when there is none now; -1 when the other end is gone
 */
int simba__link_receive(int end, struct simba__note *note, int *descriptor);

/* --- CMD, and who makes it: child.c -------------------------------------- */

enum simba__nursery_order {
    SIMBA__NURSERY_MAKE = '+', /* a CMD that waits; one that waits already
                                  ends */
    SIMBA__NURSERY_START = '!' /* let it run */
};

/** Start it, before the session is left; -1 with errno. `front` is the way to
 * the front, which it does not need; `link` leads to it. */
pid_t simba__nursery_start(struct simba__job *job, int front, int *link);

/** Order something. What comes of it is seen by the answer to MAKE, or by the
 * end of the nursery. */
void simba__nursery_order(int link, enum simba__nursery_order order);

/** The answer to MAKE: 0, and share->cmd is the new process, a child of ours;
 * else an errno; -1: none yet. */
int simba__nursery_answer(int link);

/** End it, and wait for that. */
void simba__nursery_end(pid_t nursery);

/** Be CMD, in a new child of the guardian or of the nursery, as soon as `gate`
 * says so: then the guardian must be the parent. */
_Noreturn void simba__child_run(struct simba__job *job, int gate);

#endif
