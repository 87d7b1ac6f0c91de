/* The guardian's decisions while it waits for the mutex and while CMD runs.
 * How it ends is in guardian_end.c. */
#define _GNU_SOURCE
#include "clock.h"
#include "exit.h"
#include "guardian.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The library's own limit of a budget nobody chose (design 5). */
enum { BUDGET_MOST_MS = 2000 };

/* ── What it is told ─────────────────────────────────────────────────────── */

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
    case SIGURG:
    case SIGWINCH:
        break; /* nothing to tell, and nobody to tell it to */
    default:
        g->cancelled = g->cancelled == 0 ? number : g->cancelled;
        break;
    }
}

void simba__guardian_on_note(struct simba__guardian *g,
                             const struct simba__note *note)
{
    if (note->kind == SIMBA__NOTE_ANCHORED) {
        g->is_anchored = true;
        return;
    }
    if (note->number == SIGCONT) {
        g->resumes = note->seen;
    }
    if (g->was_started) {
        simba__guardian_pass_on(g, note->number);
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
static bool is_lost(struct simba__guardian *g)
{
    return atomic_load(&g->holder.is_lost) ||
           simba__clock_ms() >= atomic_load(&g->share->use_until_ms);
}

static void tell_lost(const struct simba__guardian *g)
{
    struct simba__note note = {.kind = SIMBA__NOTE_LOST, .status = SIMBA_ELOST};
    int64_t cap_ms = g->job->max_hold_ms;
    bool is_capped = cap_ms > 0 && simba__clock_ms() >= g->acquired_ms + cap_ms;
    char text[sizeof(note.text)];

    if (atomic_load(&g->holder.is_lost)) {
        simba__guardian_send(g, &note, g->holder.why.message);
        return;
    }
    (void)snprintf(text, sizeof(text), "%s: lost: %s", g->job->mutex,
                   is_capped ? "it was held for --max-hold"
                             : "no renewal was answered in time");
    simba__guardian_send(g, &note, text);
}

static void step_running(struct simba__guardian *g)
{
    simba__holder_publish(&g->holder);
    if (!g->is_cmd_gone && is_lost(g)) {
        g->is_lost = true;
        tell_lost(g);
        simba__guardian_end(g);
    } else if (g->is_cmd_gone || g->is_front_gone) {
        simba__guardian_end(g);
    }
}

/* ── Waiting ─────────────────────────────────────────────────────────────── */

/* What is left of the library's default budget. A capped tenure has its U
 * earlier, so that H - U alone would be too long. */
static int64_t default_kill_after(const struct simba__guardian *g)
{
    int64_t budget_ms = atomic_load(&g->share->hard_until_ms) -
                        atomic_load(&g->share->use_until_ms);
    int64_t most_ms = g->holder.lease_ms / 8;

    most_ms = most_ms < BUDGET_MOST_MS ? most_ms : BUDGET_MOST_MS;
    budget_ms = budget_ms < most_ms ? budget_ms : most_ms;
    return budget_ms > SIMBA__KILL_MS ? budget_ms - SIMBA__KILL_MS : 0;
}

static void start_command(struct simba__guardian *g)
{
    struct simba__note note = {.kind = SIMBA__NOTE_ACQUIRED,
                               .boot_ms = simba__clock_ms()};
    ssize_t ignored;

    simba__holder_publish(&g->holder);
    g->kill_after_ms = g->job->kill_after_ms >= 0 ? g->job->kill_after_ms
                                                  : default_kill_after(g);
    g->acquired_ms = note.boot_ms;
    g->was_started = true;
    /* The front's copy keeps the store from taking a dead guardian for the
     * end of all that used the mutex. It is on its way before CMD starts. */
    simba__link_send(g->link, &note, simba_store_life_fd(g->holder.store));
    atomic_store(&g->share->phase, SIMBA__RUNNING);
    if (is_lost(g)) {
        step_running(g); /* so late already: CMD must not start */
        return;
    }
    /* A failure means that the process was killed, which will be seen. */
    ignored = write(g->gate, "!", 1);
    (void)ignored;
    (void)close(g->gate);
    if (g->is_paused) {
        simba__guardian_pass_on(g, SIGTSTP);
    }
}

static void leave(struct simba__guardian *g)
{
    simba__guardian_dismiss(g);
    simba__guardian_release(g);
}

static void step_held(struct simba__guardian *g)
{
    if (g->cancelled != 0) {
        leave(g);
    } else if (g->is_anchored) {
        start_command(g);
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
    if (g->cancelled == 0 && (g->is_front_gone || g->is_cmd_gone)) {
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
