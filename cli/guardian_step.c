/* The guardian's decisions while it waits for the mutex and while CMD runs. */
#define _GNU_SOURCE
#include "clock.h"
#include "exit.h"
#include "guardian.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Within this time we hear of a grant, even on a busy machine. */
enum { HEARD_MS = 500 };

/* ── What it is told ─────────────────────────────────────────────────────── */

static void cancel(struct simba__guardian *g, int number)
{
    if (g->cancelled == 0 && simba__job_is_ended_by(g->job, number)) {
        g->cancelled = number;
    }
}

static void on_signal_waiting(struct simba__guardian *g, int number)
{
    switch (number) {
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
        g->is_paused = true;
        break;
    case SIGCONT:
        g->is_paused = false;
        break;
    default:
        cancel(g, number);
        break;
    }
}

/* Who leads does not contend again once it was told to end, however CMD takes
 * it. */
static void on_signal_running(struct simba__guardian *g, int number)
{
    if (g->job->kind != SIMBA__JOB_LOCK) {
        cancel(g, number);
    }
    if (number > 0 && number <= 64) {
        g->passed |= UINT64_C(1) << (number - 1);
    }
    simba__guardian_pass_on(g, number);
}

void simba__guardian_on_note(struct simba__guardian *g,
                             const struct simba__note *note)
{
    if (note->kind == SIMBA__NOTE_ANCHORED) {
        g->is_anchored = g->is_anchored || note->number == g->cmd;
        return;
    }
    if (note->number == SIGCONT) {
        g->resumes = note->seen;
    }
    if (g->was_started) {
        on_signal_running(g, note->number);
    } else {
        on_signal_waiting(g, note->number);
    }
}

/* ── Reaping ─────────────────────────────────────────────────────────────── */

static void on_command_status(struct simba__guardian *g, int status)
{
    struct simba__note note = {.kind = SIMBA__NOTE_STOPPED, .seen = g->resumes};

    if (WIFSTOPPED(status)) {
        note.number = WSTOPSIG(status);
        simba__link_send(g->link, &note, -1);
    } else if (WIFCONTINUED(status)) {
        /* Somebody continued CMD behind our back. */
        simba__guardian_wake_front(g);
    } else {
        g->is_cmd_gone = true;
        g->cmd_status = status;
    }
}

void simba__guardian_reap(struct simba__guardian *g)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
        if (pid == g->cmd) {
            on_command_status(g, status);
        }
    }
    /* Whoever lives below us has a child of ours above it, or is one. */
    g->has_children = pid == 0;
}

/* ── Running ─────────────────────────────────────────────────────────────── */

/* The deadline counts, also when the library has not called yet: its thread
 * may be as late as anything else. */
bool simba__guardian_has_lost(struct simba__guardian *g)
{
    return atomic_load(&g->holder.is_lost) ||
           simba__clock_ms() >= atomic_load(&g->share->use_until_ms);
}

/* Was it U because of --max-hold? That counts from the grant, of which we heard
 * a little later. */
static bool is_capped(const struct simba__guardian *g)
{
    int64_t cap_ms = g->job->max_hold_ms;

    return cap_ms > 0 && atomic_load(&g->share->use_until_ms) + HEARD_MS >=
                             g->acquired_ms + cap_ms;
}

void simba__guardian_tell_lost(struct simba__guardian *g)
{
    struct simba__note note = {.kind = SIMBA__NOTE_LOST,
                               .status = SIMBA_ELOST,
                               .number = g->was_started,
                               .until_ms =
                                   atomic_load(&g->share->use_until_ms)};
    char text[sizeof(note.text)];
    bool is_at_cap = is_capped(g);

    g->is_lost = true;
    if (atomic_load(&g->holder.is_lost) && !is_at_cap) {
        simba__guardian_send(g, &note, g->holder.why.message);
        return;
    }
    (void)snprintf(text, sizeof(text), "%s: lost: %s", g->job->mutex,
                   is_at_cap ? "it was held for --max-hold"
                             : "no renewal was answered in time");
    simba__guardian_send(g, &note, text);
}

static bool is_too_late(const struct simba__guardian *g)
{
    return atomic_load(&g->share->exec_errno) == SIMBA__TOO_LATE;
}

static void step_running(struct simba__guardian *g)
{
    simba__holder_publish(&g->holder);
    if (is_too_late(g) || (!g->is_cmd_gone && simba__guardian_has_lost(g))) {
        simba__guardian_tell_lost(g);
        simba__guardian_end(g);
    } else if (g->is_cmd_gone || g->is_front_gone) {
        simba__guardian_end(g);
    } else {
        simba__plan_look(&g->plan, simba__clock_ms());
        simba__guardian_tell_skips(g, "the run before still goes on");
    }
}

/* ── Waiting ─────────────────────────────────────────────────────────────── */

static void leave(struct simba__guardian *g)
{
    simba__guardian_dismiss(g);
    simba__guardian_release(g);
}

static void step_held(struct simba__guardian *g)
{
    if (g->cancelled != 0) {
        leave(g);
    } else {
        simba__guardian_begin(g);
    }
}

static _Noreturn void end_failed(struct simba__guardian *g)
{
    struct simba__note note = {.kind = SIMBA__NOTE_FAILED};
    int code = simba__exit_of_status(g->holder.error.code);

    if (code == SIMBA__EXIT_NOT_ACQUIRED) {
        code = g->job->conflict_code;
    }
    note.number = code;
    note.status = g->holder.error.code;
    simba__guardian_send(g, &note, g->holder.error.message);
    simba__guardian_dismiss(g);
    simba__holder_settle(&g->holder);
    simba__guardian_finish(g, code);
}

static _Noreturn void end_cancelled(struct simba__guardian *g)
{
    simba__guardian_dismiss(g);
    simba__guardian_finish(g, SIMBA__EXIT_SIGNAL + g->cancelled);
}

/* While the holder is at work: ask it to leave the line when it should. */
static void step_queueing(struct simba__guardian *g)
{
    int64_t now_ms = simba__clock_ms();

    g->is_leaving = g->cancelled != 0 || g->is_paused;
    if (g->is_leaving) {
        simba__holder_cancel(&g->holder);
    }
    if (g->cancelled != 0) {
        if (g->give_up_ms == 0) {
            g->give_up_ms = now_ms + g->cancel_most_ms;
        }
        if (now_ms >= g->give_up_ms) {
            end_cancelled(g); /* a silent store: what it grants will lapse */
        }
    }
}

static void step_waiting(struct simba__guardian *g)
{
    if (g->cancelled == 0 &&
        (g->is_front_gone || (g->is_cmd_gone && g->nursery == 0))) {
        g->cancelled = SIGKILL; /* that is what happened to one of us */
    }
    switch (atomic_load(&g->holder.state)) {
    case SIMBA__HOLDER_HELD:
        step_held(g);
        break;
    case SIMBA__HOLDER_FAILED:
        end_failed(g);
    case SIMBA__HOLDER_PAUSED:
        g->is_leaving = false;
        if (g->cancelled != 0) {
            leave(g);
        } else if (!g->is_paused) {
            simba__holder_order(&g->holder, SIMBA__HOLDER_ACQUIRE);
        }
        break;
    default:
        step_queueing(g);
        break;
    }
}

void simba__guardian_step(struct simba__guardian *g)
{
    switch (atomic_load(&g->share->phase)) {
    case SIMBA__WAITING:
        step_waiting(g);
        break;
    case SIMBA__IDLE:
        simba__guardian_step_idle(g);
        break;
    case SIMBA__RUNNING:
        step_running(g);
        break;
    case SIMBA__ENDING:
        simba__guardian_step_ending(g);
        break;
    default:
        simba__guardian_step_releasing(g);
        break;
    }
}
