/* The guardian's inside, shared by its loop (guardian.c) and its decisions
 * (guardian_step.c). */
#ifndef SIMBA_CLI_GUARDIAN_H
#define SIMBA_CLI_GUARDIAN_H

#include "holder.h"
#include "job.h"
#include "link.h"
#include "reaper.h"

struct simba__guardian {
    struct simba__job *job;
    struct simba__share *share;
    struct simba__holder holder;
    struct simba__reaper reaper;
    sigset_t awake; /* the mask while waiting */
    int link;
    int gate; /* -1 when it was opened */

    pid_t cmd;
    int cmd_status; /* of waitpid() */
    bool is_cmd_gone;
    bool has_children; /* CMD or orphans */

    bool is_front_gone;
    bool is_anchored;
    bool is_paused;  /* the user stopped us while we wait in line */
    bool is_leaving; /* the holder was asked to leave the line */
    int cancelled;   /* by this signal, while waiting */
    int resumes;     /* how often the front was continued */

    bool was_started; /* CMD was let run */
    bool is_lost;
    bool is_killing;
    int64_t tick_ms;
    int64_t armed_ms;
    int64_t acquired_ms;
    int64_t ended_ms; /* when ENDING began */
    int64_t kill_after_ms;
    int64_t give_up_ms; /* when not to wait for the holder any longer */
    int64_t cancel_most_ms;
    int64_t release_most_ms;
};

/** Tell the front that the guardian could not be set up, and end. */
_Noreturn void simba__guardian_fail(struct simba__guardian *g,
                                    int link,
                                    int error_number);

/** When KILL is due in ENDING. */
int64_t simba__guardian_kill_at(const struct simba__guardian *g);

/** The front says something. */
void simba__guardian_on_note(struct simba__guardian *g,
                             const struct simba__note *note);

/** Reap whatever has ended below us. */
void simba__guardian_reap(struct simba__guardian *g);

/** Look at what is known now, and do what follows from it. */
void simba__guardian_step(struct simba__guardian *g);

#endif
