/* How the guardian ends CMD: nothing of it may be left when the mutex is given
 * back. */
#define _GNU_SOURCE
#include "clock.h"
#include "exit.h"
#include "guardian.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CRASH_PATIENCE_MS = 5 };

void simba__guardian_send(const struct simba__guardian *g,
                          struct simba__note *note,
                          const char *text)
{
    note->boot_ms = simba__clock_ms();
    note->token = g->token;
    (void)snprintf(note->text, sizeof(note->text), "%s", text);
    simba__link_send(g->link, note, -1);
}

/* The front may be asleep because CMD was stopped; it must not sleep on when
 * there is nothing left to continue. */
void simba__guardian_wake_front(const struct simba__guardian *g)
{
    if (atomic_load(&g->share->is_front_idle) && getppid() == g->job->front) {
        (void)kill(g->job->front, SIGCONT);
    }
}

/* And what it may be making. */
static void end_nursery(struct simba__guardian *g)
{
    if (g->nursery > 0) {
        simba__nursery_end(g->nursery);
        (void)simba__reaper_signal(&g->reaper, SIGKILL, 0);
        while (waitpid(-1, NULL, 0) > 0 || errno == EINTR) {
        }
    }
}

_Noreturn void simba__guardian_finish(struct simba__guardian *g, int exit_code)
{
    atomic_store(&g->share->exit_code, exit_code);
    end_nursery(g);
    atomic_store(&g->share->phase, SIMBA__DONE);
    simba__guardian_wake_front(g);
    _exit(0);
}

/* CMD was never let run: its process still waits at the gate. */
void simba__guardian_dismiss(struct simba__guardian *g)
{
    if (g->cmd > 0 && !g->is_cmd_gone) {
        (void)kill(g->cmd, SIGKILL);
        while (waitpid(g->cmd, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    g->is_cmd_gone = true;
}

_Noreturn void simba__guardian_fail(struct simba__guardian *g, int error_number)
{
    struct simba__note note = {.kind = SIMBA__NOTE_FAILED,
                               .number = SIMBA__EXIT_FAULT,
                               .status = SIMBA_EINTERNAL};

    (void)snprintf(note.text, sizeof(note.text), "cannot start: %s",
                   strerror(error_number));
    simba__link_send(g->link, &note, -1);
    simba__guardian_dismiss(g);
    simba__guardian_finish(g, SIMBA__EXIT_FAULT);
}

/* CMD's group, and CMD too in case it has made itself another one. */
void simba__guardian_pass_on(const struct simba__guardian *g, int number)
{
    if (g->is_cmd_gone || g->cmd <= 0) {
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

    simba__guardian_pass_on(g, number);
    if (number == SIGTERM) {
        /* One that is stopped would not notice. */
        simba__guardian_pass_on(g, SIGCONT);
    }
    if (simba__reaper_signal(&g->reaper, number, group) < 0 && g->cmd > 0) {
        (void)kill(-g->cmd, number); /* no /proc: the group is all we know */
    }
}

/* ── Ending ──────────────────────────────────────────────────────────────── */

/* Whoever killed the front with KILL did not ask politely, and others wait for
 * the mutex: CMD has a moment to leave, no more. */
static int64_t patience(const struct simba__guardian *g)
{
    return g->is_front_gone && g->kill_after_ms > CRASH_PATIENCE_MS
               ? CRASH_PATIENCE_MS
               : g->kill_after_ms;
}

int64_t simba__guardian_kill_at(const struct simba__guardian *g)
{
    int64_t polite_ms = g->ended_ms + patience(g);
    int64_t due_ms = atomic_load(&g->share->hard_until_ms) - SIMBA__KILL_MS;

    return polite_ms < due_ms ? polite_ms : due_ms;
}

void simba__guardian_step_ending(struct simba__guardian *g)
{
    int64_t now_ms = simba__clock_ms();

    simba__holder_publish(&g->holder);
    if (!g->has_children) {
        simba__guardian_run_over(g);
        return;
    }
    if (now_ms >= simba__guardian_kill_at(g)) {
        g->killing_ms = g->is_killing ? g->killing_ms : now_ms;
        g->is_killing = true;
        g->reaper.spares_guardians = simba__reaper_may_spare(
            g->killing_ms, atomic_load(&g->share->hard_until_ms));
        signal_all(g, SIGKILL); /* again, until nothing is left */
    }
}

void simba__guardian_end(struct simba__guardian *g)
{
    atomic_store(&g->share->phase, SIMBA__ENDING);
    g->ended_ms = simba__clock_ms();
    /* A search of the whole machine would take the patience of a crash. */
    g->reaper.is_hurried = g->is_front_gone;
    if (g->has_children) {
        signal_all(g, SIGTERM);
    }
    simba__guardian_step_ending(g);
}
