/* The guardian's decisions: what to do in which phase. */
#define _GNU_SOURCE
#include "clock.h"
#include "exit.h"
#include "guardian.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void send_text(const struct simba__guardian *g,
                      struct simba__note *note,
                      const char *text)
{
    note->boot_ms = simba__clock_ms();
    (void)snprintf(note->text, sizeof(note->text), "%s", text);
    simba__link_send(g->link, note, -1);
}

/* The front may be asleep because CMD was stopped; it must not sleep on when
 * there is nothing left to continue. */
static void wake_front(const struct simba__guardian *g)
{
    if (atomic_load(&g->share->is_front_idle) && getppid() == g->job->front) {
        (void)kill(g->job->front, SIGCONT);
    }
}

static _Noreturn void finish(struct simba__guardian *g, int exit_code)
{
    atomic_store(&g->share->exit_code, exit_code);
    atomic_store(&g->share->phase, SIMBA__DONE);
    wake_front(g);
    _exit(0);
}

/* CMD was never let run: its process still waits at the gate. */
static void dismiss_command(struct simba__guardian *g)
{
    if (g->cmd > 0 && !g->is_cmd_gone) {
        (void)kill(g->cmd, SIGKILL);
        while (waitpid(g->cmd, NULL, 0) < 0 && errno == EINTR) {
        }
        g->is_cmd_gone = true;
    }
}

_Noreturn void simba__guardian_fail(struct simba__guardian *g,
                                    int link,
                                    int error_number)
{
    struct simba__note note = {.kind = SIMBA__NOTE_FAILED,
                               .number = SIMBA__EXIT_FAULT,
                               .status = SIMBA_EINTERNAL};

    (void)snprintf(note.text, sizeof(note.text), "cannot start: %s",
                   strerror(error_number));
    simba__link_send(link, &note, -1);
    dismiss_command(g);
    finish(g, SIMBA__EXIT_FAULT);
}

/* ── Signals ─────────────────────────────────────────────────────────────── */

/* CMD's group, and CMD too in case it has made itself another one. */
static void pass_on(const struct simba__guardian *g, int number)
{
    if (g->is_cmd_gone) {
        return;
    }
    (void)kill(-g->cmd, number);
    if (getpgid(g->cmd) != g->cmd) {
        (void)kill(g->cmd, number);
    }
}

/* To everything below us. The group first, since that is one call; the search
 * then finds those who left it. */
static void signal_all(const struct simba__guardian *g, int number)
{
    pid_t group = g->is_cmd_gone ? 0 : g->cmd;

    pass_on(g, number);
    if (number == SIGTERM) {
        pass_on(g, SIGCONT); /* one that is stopped would not notice */
    }
    if (simba__reaper_signal(&g->reaper, number, group) < 0) {
        (void)kill(-g->cmd, number); /* no /proc: the group is all we know */
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
        pass_on(g, note->number);
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
        wake_front(g); /* somebody continued CMD behind our back */
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

/* ── Releasing ───────────────────────────────────────────────────────────── */

static int answer(const struct simba__guardian *g)
{
    if (g->is_lost) {
        return SIMBA__EXIT_LOST;
    }
    if (!g->was_started) {
        return SIMBA__EXIT_SIGNAL + g->cancelled;
    }
    return simba__exit_of_wait(g->cmd_status);
}

static void begin_release(struct simba__guardian *g)
{
    int64_t now_ms = simba__clock_ms();
    int64_t held_until_ms = g->acquired_ms + g->job->min_hold_ms;

    atomic_store(&g->share->exit_code, answer(g));
    atomic_store(&g->share->phase, SIMBA__RELEASING);
    g->ended_ms = now_ms;
    g->give_up_ms =
        g->release_most_ms +
        (g->was_started && held_until_ms > now_ms ? held_until_ms : now_ms);
    simba__holder_all_gone(&g->holder);
    simba__holder_order(&g->holder, SIMBA__HOLDER_RELEASE);
}

static void tell_exec_failure(const struct simba__guardian *g)
{
    struct simba__note note = {.kind = SIMBA__NOTE_FAILED};
    int number = atomic_load(&g->share->exec_errno);

    if (number != 0) {
        note.number = simba__exit_of_exec(number);
        note.status = SIMBA_EINVAL;
        send_text(g, &note, strerror(number));
    }
}

static void tell_silence(const struct simba__guardian *g)
{
    struct simba__note note = {.kind = SIMBA__NOTE_LOG,
                               .number = SIMBA_LOG_ERROR};
    int64_t left_ms = g->job->ttl_ms > 0 ? g->job->ttl_ms : 10000;
    char text[160];

    left_ms += g->job->transition_ms >= 0 ? g->job->transition_ms : 6000;
    (void)snprintf(text, sizeof(text),
                   "the store has not answered the release; the mutex is free "
                   "when the lease ends, in %.0f s at most",
                   (double)left_ms / 1000);
    send_text(g, &note, text);
}

static void end_released(struct simba__guardian *g)
{
    struct simba__note note = {.kind = SIMBA__NOTE_RELEASED,
                               .boot_ms = g->ended_ms};
    int code = answer(g);

    if (g->holder.error.code == SIMBA_OK) {
        simba__link_send(g->link, &note, -1);
    } else if (g->holder.error.code == SIMBA_ELOST && !g->is_lost) {
        /* Somebody freed it by force, and CMD ended before we heard of it. */
        note.kind = SIMBA__NOTE_LOST;
        send_text(g, &note, g->holder.error.message);
        code = SIMBA__EXIT_LOST;
    } else if (!g->is_lost) {
        tell_silence(g);
    }
    tell_exec_failure(g);
    finish(g, code);
}

static void step_releasing(struct simba__guardian *g)
{
    simba__holder_publish(&g->holder);
    if (atomic_load(&g->holder.state) == SIMBA__HOLDER_RELEASED) {
        end_released(g);
    }
    if (simba__clock_ms() >= g->give_up_ms) {
        if (!g->is_lost) {
            tell_silence(g);
        }
        tell_exec_failure(g);
        finish(g, answer(g));
    }
}

/* ── Running and ending ──────────────────────────────────────────────────── */

int64_t simba__guardian_kill_at(const struct simba__guardian *g)
{
    int64_t polite_ms = g->ended_ms + g->kill_after_ms;
    int64_t due_ms = atomic_load(&g->share->hard_until_ms) - SIMBA__KILL_MS;

    return polite_ms < due_ms ? polite_ms : due_ms;
}

static void step_ending(struct simba__guardian *g)
{
    simba__holder_publish(&g->holder);
    if (!g->has_children) {
        begin_release(g);
        return;
    }
    if (simba__clock_ms() >= simba__guardian_kill_at(g)) {
        g->is_killing = true;
        signal_all(g, SIGKILL); /* again, until nothing is left */
    }
}

static void begin_end(struct simba__guardian *g)
{
    atomic_store(&g->share->phase, SIMBA__ENDING);
    g->ended_ms = simba__clock_ms();
    if (g->has_children) {
        signal_all(g, SIGTERM);
    }
    step_ending(g);
}

/* The deadline counts, also when the library has not called yet: its thread
 * may be as late as anything else. */
static bool is_lost(struct simba__guardian *g)
{
    return atomic_load(&g->holder.is_lost) ||
           simba__clock_ms() >= atomic_load(&g->share->use_until_ms);
}

static void step_running(struct simba__guardian *g)
{
    struct simba__note note = {.kind = SIMBA__NOTE_LOST};

    simba__holder_publish(&g->holder);
    if (!g->is_cmd_gone && is_lost(g)) {
        g->is_lost = true;
        send_text(g, &note,
                  atomic_load(&g->holder.is_lost)
                      ? g->holder.why.message
                      : "the lease could not be renewed in time");
        begin_end(g);
    } else if (g->is_cmd_gone || g->is_front_gone) {
        begin_end(g);
    }
}

/* ── Waiting ─────────────────────────────────────────────────────────────── */

static void start_command(struct simba__guardian *g)
{
    struct simba__note note = {.kind = SIMBA__NOTE_ACQUIRED,
                               .boot_ms = simba__clock_ms()};
    int64_t budget_ms;

    simba__holder_publish(&g->holder);
    budget_ms = atomic_load(&g->share->hard_until_ms) -
                atomic_load(&g->share->use_until_ms);
    g->kill_after_ms = g->job->kill_after_ms >= 0   ? g->job->kill_after_ms
                       : budget_ms > SIMBA__KILL_MS ? budget_ms - SIMBA__KILL_MS
                                                    : 0;
    g->acquired_ms = note.boot_ms;
    g->was_started = true;
    /* The front's copy keeps the store from taking a dead guardian for the
     * end of all that used the mutex. It is on its way before CMD starts. */
    simba__link_send(g->link, &note, simba_store_life_fd(g->holder.store));
    atomic_store(&g->share->phase, SIMBA__RUNNING);
    if (is_lost(g) || write(g->gate, "!", 1) != 1) {
        (void)kill(g->cmd, SIGKILL);
    }
    (void)close(g->gate);
    if (g->is_paused) {
        pass_on(g, SIGTSTP);
    }
}

static void step_held(struct simba__guardian *g)
{
    if (g->cancelled != 0) {
        dismiss_command(g);
        begin_release(g);
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
    send_text(g, &note, g->holder.error.message);
    dismiss_command(g);
    finish(g, code);
}

static _Noreturn void end_cancelled(struct simba__guardian *g)
{
    dismiss_command(g);
    finish(g, SIMBA__EXIT_SIGNAL + g->cancelled);
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
        if (g->cancelled != 0) {
            end_cancelled(g);
        }
        g->is_leaving = false;
        if (!g->is_paused) {
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
        step_ending(g);
        break;
    default:
        step_releasing(g);
        break;
    }
}
