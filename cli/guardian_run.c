/* How the guardian runs CMD while the mutex is held: once for a lock, again and
 * again for those who lead; how it ends CMD, so that nothing of it is left when
 * the mutex is given back; and what it leaves behind: a mutex that is free for
 * others, and the answer for the front.
 *
 *     IDLE ──due──► made by the nursery ──anchored──► RUNNING ──► ENDING
 *      ▲                                                            │
 *      └───────────── to run again in this tenure ──────────────────┘ */
#define _GNU_SOURCE
#include "cli/clock.h"
#include "cli/guardian.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    BUDGET_MOST_MS = 2000,  /* the library's limit of one nobody chose */
    CRASH_PATIENCE_MS = 5,  /* for CMD, when the front was killed */
    RELEASE_MOST_MS = 2000, /* for the answer to a release */
    /* Who is called off while it waits has but a position in the queue to give
     * back, and the user has a prompt to get back to: it lapses by itself. */
    LEAVE_MOST_MS = 500
};

static bool is_lock(const struct simba__guardian *g)
{
    return g->job->kind == SIMBA__JOB_LOCK;
}

void simba__guardian_send(const struct simba__guardian *g,
                          struct simba__note *note,
                          const char *text)
{
    note->boot_ms = simba__clock_ms();
    note->token = g->token;
    (void)snprintf(note->text, sizeof note->text, "%s", text);
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

/* Tell the front why there is nothing to run, or no longer. */
static void tell_fault(const struct simba__guardian *g,
                       const char *what,
                       int error_number)
{
    struct simba__note note = {.kind = SIMBA__NOTE_FAILED,
                               .number = SIMBA__EXIT_FAULT,
                               .status = SIMBA_EINTERNAL};
    char text[sizeof note.text];

    assert(error_number > 0);
    (void)snprintf(text, sizeof text, "cannot start%s%s%s: %s",
                   what == NULL ? "" : " '", what == NULL ? "" : what,
                   what == NULL ? "" : "'", strerror(error_number));
    simba__guardian_send(g, &note, text);
}

/* --- the tenure ---------------------------------------------------------- */

void simba__guardian_begin(struct simba__guardian *g)
{
    struct simba__share *share = g->share;
    struct simba__note note = {.kind = SIMBA__NOTE_ACQUIRED};
    struct simba__plan_clock clock;
    int64_t budget_ms, most_ms = g->holder.lease_ms / 8;

    assert(g->acquired_ms == 0 && g->cancelled == 0);
    assert(atomic_load(&g->holder.state) == SIMBA__HOLDER_HELD);
    simba__holder_publish(&g->holder);
    /* What is left of the library's default budget. A capped tenure has its U
     * earlier, so that H - U alone would be too long. */
    budget_ms =
        atomic_load(&share->hard_until_ms) - atomic_load(&share->use_until_ms);
    most_ms = most_ms < BUDGET_MOST_MS ? most_ms : BUDGET_MOST_MS;
    budget_ms = budget_ms < most_ms ? budget_ms : most_ms;
    g->kill_after_ms = g->job->kill_after_ms >= 0   ? g->job->kill_after_ms
                       : budget_ms > SIMBA__KILL_MS ? budget_ms - SIMBA__KILL_MS
                                                    : 0;
    g->acquired_ms = simba__clock_ms();
    g->token = share->token;
    g->session_ms = simba_locker_session_ms(atomic_load(&g->holder.locker));
    simba__holder_clock(&g->holder, &clock.offset_ms, &clock.granted_ms);
    g->granted_ms = clock.granted_ms - clock.offset_ms;
    simba__plan_begin(&g->plan, g->acquired_ms, &clock);
    note.boot_ms = g->acquired_ms;
    (void)simba_locker_clock(atomic_load(&g->holder.locker), NULL,
                             &note.store_ms);
    note.token = g->token;
    note.until_ms =
        g->job->kind == SIMBA__JOB_EVERY ? simba__plan_wake_at(&g->plan) : 0;
    /* The front's copy of the life descriptor keeps the store from taking a
     * dead guardian for the end of all that used the mutex. It is on its way
     * before CMD starts. */
    simba__link_send(g->link, &note,
                     g->is_life_sent ? -1
                                     : simba_store_life_fd(g->holder.store));
    g->is_life_sent = true;
    atomic_store(&share->phase, SIMBA__IDLE);
    simba__guardian_step_idle(g);
}

/* --- starting ------------------------------------------------------------ */

/* Once we are to end, no run was to come. */
void simba__guardian_tell_skips(struct simba__guardian *g, const char *why)
{
    struct simba__note note = {.kind = SIMBA__NOTE_SKIPPED,
                               .beat_ms = g->plan.skipped_ms};

    if (g->plan.skipped > 0 && g->cancelled == 0) {
        note.number =
            g->plan.skipped < INT32_MAX ? (int)g->plan.skipped : INT32_MAX;
        note.run = g->plan.runs;
        simba__guardian_send(g, &note, why);
        atomic_fetch_add(&g->holder.metrics.runs.skipped, g->plan.skipped);
    }
    g->plan.skipped = 0;
}

/* Without CMD there is nothing to hold the mutex for. */
static void fail_to_make(struct simba__guardian *g, int error_number)
{
    tell_fault(g, g->job->argv[0], error_number);
    g->fault = SIMBA__EXIT_FAULT;
    simba__guardian_leave(g, SIMBA__HOLDER_RELEASE);
}

void simba__guardian_on_nursery(struct simba__guardian *g)
{
    int answer = simba__nursery_answer(g->gate);

    if (answer == 0) {
        g->is_making = false;
        g->cmd = atomic_load(&g->share->cmd);
        /* One that ended before we knew of it was reaped as any other. */
        g->is_cmd_gone = getpgid(g->cmd) < 0;
        g->is_anchored = g->job->tty < 0;
    } else if (answer == ECHILD && !g->is_making) {
        g->gate = -1; /* it was killed: that is seen when it is missed */
    } else if (answer > 0) {
        g->is_making = false;
        fail_to_make(g, answer);
    }
}

static void start_command(struct simba__guardian *g)
{
    struct simba__note note = {.kind = SIMBA__NOTE_STARTED, .number = g->cmd};
    ssize_t ignored;

    assert(g->cmd > 0 && g->is_anchored && !g->was_started);
    g->was_started = true;
    g->passed = 0;
    atomic_store(&g->share->exec_errno, 0);
    atomic_store(&g->share->is_termed, false);
    simba__plan_started(&g->plan, simba__clock_ms());
    if (!is_lock(g)) {
        note.run = g->plan.runs;
        note.beat_ms = g->plan.beat_ms;
        simba__guardian_send(g, &note, "");
    }
    atomic_fetch_add(&g->holder.metrics.runs.started, 1);
    atomic_store(&g->holder.metrics.runs.started_unix, (int64_t)time(NULL));
    atomic_store(&g->share->phase, SIMBA__RUNNING);
    if (g->nursery > 0) {
        simba__nursery_order(g->gate, SIMBA__NURSERY_START);
    } else {
        /* A failure means that the process was killed, which will be seen. */
        ignored = write(g->gate, "!", 1);
        (void)ignored;
        (void)close(g->gate);
    }
    if (g->is_paused) {
        simba__guardian_pass_on(g, SIGTSTP);
    }
}

/* CMD is due: make it, have its group anchored, start it. */
static void prepare(struct simba__guardian *g)
{
    struct simba__note born = {.kind = SIMBA__NOTE_BORN, .number = g->cmd};

    assert(g->plan.is_due && !g->was_started);
    if (g->cmd != 0 && !g->is_cmd_gone) {
        if (g->is_anchored) {
            start_command(g);
        } else {
            /* The front may have missed it: it is said until it answers. */
            simba__link_send(g->link, &born, -1);
        }
    } else if (g->gate < 0) {
        fail_to_make(g, ECHILD);
    } else if (!g->is_making) {
        g->is_making = true;
        g->cmd = 0;
        atomic_store(&g->share->cmd, 0);
        simba__nursery_order(g->gate, SIMBA__NURSERY_MAKE);
    }
}

void simba__guardian_step_idle(struct simba__guardian *g)
{
    int64_t now_ms = simba__clock_ms();
    struct simba__plan_clock clock;
    bool is_lost;

    simba__holder_publish(&g->holder);
    is_lost = simba__guardian_has_lost(g);
    if (is_lost) {
        simba__guardian_tell_lost(g);
    } else if (g->cancelled == 0 &&
               (g->is_front_gone || (is_lock(g) && g->is_cmd_gone))) {
        g->cancelled = SIGKILL; /* that is what happened to it */
    }
    if (is_lost || g->cancelled != 0 || (g->is_paused && !is_lock(g))) {
        /* Without the mutex, or without a reason to have it: the process that
         * waits to become CMD must not. */
        simba__guardian_dismiss(g);
        g->cmd = 0;
        simba__guardian_leave(g, g->cancelled != 0 || is_lock(g)
                                     ? SIMBA__HOLDER_RELEASE
                                     : SIMBA__HOLDER_YIELD);
        return;
    }
    simba__holder_clock(&g->holder, &clock.offset_ms, &clock.granted_ms);
    simba__plan_tune(&g->plan, now_ms, clock.offset_ms);
    simba__plan_look(&g->plan, now_ms);
    simba__guardian_tell_skips(g, "it was noticed too late");
    if (g->plan.is_due) {
        prepare(g);
    }
}

/* --- afterwards ---------------------------------------------------------- */

/* Is the end of this run our end? So it is when CMD died of a signal that was
 * meant for it. From the keyboard that comes to CMD alone. */
static bool is_final(const struct simba__guardian *g, int code, int number)
{
    bool is_passed = number > 0 && number <= 64 &&
                     (g->passed & UINT64_C(1) << (number - 1)) != 0;
    bool is_key = (number == SIGINT || number == SIGQUIT) &&
                  atomic_load(&g->share->is_tty_lent);

    if (atomic_load(&g->share->exec_errno) != 0 || g->cancelled != 0 ||
        is_passed || is_key) {
        return true;
    }
    return g->job->kind != SIMBA__JOB_EVERY &&
           (g->job->restart == SIMBA__RESTART_NEVER ||
            (g->job->restart == SIMBA__RESTART_ON_FAILURE && code == 0));
}

/* Nothing of the run is left. */
static void end_run(struct simba__guardian *g)
{
    struct simba__run_metrics *runs = &g->holder.metrics.runs;
    struct simba__note note = {.kind = SIMBA__NOTE_ENDED};
    int code = simba__exit_of_wait(g->cmd_status);

    assert(!g->has_children && g->was_started);
    atomic_fetch_add(&runs->failed, code == 0 ? 0 : 1);
    atomic_store(&runs->exit_code, code);
    atomic_store(&runs->ended_unix, (int64_t)time(NULL));
    if (is_lock(g)) {
        simba__guardian_leave(g, SIMBA__HOLDER_RELEASE);
        return;
    }
    note.seen = WIFSIGNALED(g->cmd_status) ? WTERMSIG(g->cmd_status) : 0;
    /* Before the front hears of it, and takes the terminal back. */
    g->is_final = !g->is_lost && is_final(g, code, note.seen);
    simba__plan_done(&g->plan, simba__clock_ms());
    simba__guardian_tell_skips(g, "the run before was still going on");
    note.number = code;
    note.run = g->plan.runs;
    note.beat_ms = g->plan.beat_ms;
    simba__guardian_send(g, &note, "");
    /* Ready for the next run; there is none of whom a late signal could be. */
    g->cmd = 0;
    g->is_cmd_gone = g->was_started = g->is_killing = false;
    if (g->is_final || g->cancelled != 0 || g->is_front_gone) {
        simba__guardian_leave(g, SIMBA__HOLDER_RELEASE);
    } else if (g->is_lost) {
        simba__guardian_leave(g, SIMBA__HOLDER_YIELD);
    } else {
        atomic_store(&g->share->phase, SIMBA__IDLE);
        simba__guardian_step_idle(g);
    }
}

/* --- ending CMD ---------------------------------------------------------- */

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

int64_t simba__guardian_kill_at(const struct simba__guardian *g)
{
    /* Whoever killed the front with KILL did not ask politely, and others wait
     * for the mutex: CMD has a moment to leave, no more. */
    int64_t patience_ms =
        g->is_front_gone && g->kill_after_ms > CRASH_PATIENCE_MS
            ? CRASH_PATIENCE_MS
            : g->kill_after_ms;
    int64_t due_ms = atomic_load(&g->share->hard_until_ms) - SIMBA__KILL_MS;

    assert(g->ended_ms > 0 && g->kill_after_ms >= 0);
    return g->ended_ms + patience_ms < due_ms ? g->ended_ms + patience_ms
                                              : due_ms;
}

void simba__guardian_step_ending(struct simba__guardian *g)
{
    int64_t now_ms = simba__clock_ms();

    simba__holder_publish(&g->holder);
    if (!g->has_children) {
        end_run(g);
        return;
    }
    if (now_ms >= simba__guardian_kill_at(g)) {
        g->killing_ms = g->is_killing ? g->killing_ms : now_ms;
        g->is_killing = true;
        simba__reaper_spare(&g->reaper, g->killing_ms,
                            atomic_load(&g->share->hard_until_ms));
        signal_all(g, SIGKILL); /* again, until nothing is left */
    }
}

void simba__guardian_end(struct simba__guardian *g)
{
    assert(atomic_load(&g->share->phase) == SIMBA__RUNNING);
    atomic_store(&g->share->phase, SIMBA__ENDING);
    g->ended_ms = simba__clock_ms();
    /* A search of the whole machine would take the patience of a crash. */
    g->reaper.is_hurried = g->is_front_gone;
    if (g->has_children) {
        signal_all(g, SIGTERM);
    }
    simba__guardian_step_ending(g);
}

/* --- leaving ------------------------------------------------------------- */

_Noreturn void simba__guardian_finish(struct simba__guardian *g, int exit_code)
{
    atomic_store(&g->share->exit_code, exit_code);
    if (g->nursery > 0) { /* and what it may be making */
        simba__nursery_end(g->nursery);
        (void)simba__reaper_signal(&g->reaper, SIGKILL, 0);
        while (waitpid(-1, NULL, 0) > 0 || errno == EINTR) {
        }
    }
    atomic_store(&g->share->phase, SIMBA__DONE);
    simba__guardian_wake_front(g);
    _exit(0);
}

_Noreturn void simba__guardian_fail(struct simba__guardian *g, int error_number)
{
    tell_fault(g, NULL, error_number);
    simba__guardian_dismiss(g);
    simba__guardian_finish(g, SIMBA__EXIT_FAULT);
}

static int answer(const struct simba__guardian *g)
{
    if (g->fault != 0) {
        return g->fault;
    }
    if (g->is_lost && is_lock(g)) {
        return SIMBA__EXIT_LOST;
    }
    if (is_lock(g) ? !g->was_started : !g->is_final) {
        return SIMBA__EXIT_SIGNAL + g->cancelled;
    }
    return simba__exit_of_wait(g->cmd_status);
}

void simba__guardian_leave(struct simba__guardian *g,
                           enum simba__holder_order order)
{
    int64_t now_ms = simba__clock_ms();
    int64_t kept_ms = g->acquired_ms + g->job->min_hold_ms;
    struct simba__note kept = {.kind = SIMBA__NOTE_KEPT, .until_ms = kept_ms};

    assert(order == SIMBA__HOLDER_RELEASE || order == SIMBA__HOLDER_YIELD);
    g->is_yielding = order == SIMBA__HOLDER_YIELD;
    atomic_store(&g->share->exit_code, answer(g));
    atomic_store(&g->share->phase, SIMBA__RELEASING);
    simba__plan_end(&g->plan);
    g->ended_ms = now_ms;
    if (g->acquired_ms == 0) {
        g->give_up_ms = now_ms + LEAVE_MOST_MS;
    } else {
        g->give_up_ms = (kept_ms > now_ms ? kept_ms : now_ms) + RELEASE_MOST_MS;
        if (g->job->min_hold_ms > 0 && !g->is_lost) {
            simba__guardian_send(g, &kept, "");
        }
    }
    simba__flag_set(&g->holder.is_all_gone, &g->holder.lock, &g->holder.told);
    simba__holder_order(&g->holder, order);
}

/* Of a mutex that was held; who was called off while waiting has none to give
 * back, or will never know. */
static void tell_unreleased(const struct simba__guardian *g, const char *why)
{
    struct simba__note note = {.kind = SIMBA__NOTE_LOG,
                               .number = SIMBA_LOG_ERROR};
    char text[sizeof note.text], leads[64] = "";

    if (g->acquired_ms == 0) {
        return;
    }
    if (!is_lock(g)) {
        (void)snprintf(leads, sizeof leads,
                       "no longer leads, token %" PRIu64 ": ", g->token);
    }
    (void)snprintf(
        text, sizeof text, "%s: %s%s; it is free when the %s, in %s%.0f s%s",
        g->job->mutex, leads, why,
        g->session_ms > 0 ? "session with the store ends" : "lease ends",
        g->session_ms > 0 ? "about " : "",
        (double)(g->session_ms > 0 ? g->session_ms : g->holder.lease_ms) / 1000,
        g->session_ms > 0 ? "" : " at most");
    simba__guardian_send(g, &note, text);
}

static void tell_silence(const struct simba__guardian *g)
{
    tell_unreleased(g, "the store has not answered the release");
}

bool simba__guardian_is_kept(struct simba__guardian *g, int number)
{
    struct simba__note kept = {.kind = SIMBA__NOTE_KEPT,
                               .number = number,
                               .until_ms =
                                   g->acquired_ms + g->job->min_hold_ms};

    if (atomic_load(&g->share->phase) != SIMBA__RELEASING ||
        g->acquired_ms == 0 || g->is_lost || g->is_yielding ||
        simba__clock_ms() >= kept.until_ms) {
        return false;
    }
    if (g->is_hurried) {
        tell_unreleased(g, "ended before --min-hold was over");
        simba__guardian_finish(g, SIMBA__EXIT_SIGNAL + number);
    }
    g->is_hurried = true;
    simba__guardian_send(g, &kept, "");
    return true;
}

/* Why the mutex is given back. */
static void describe_end(const struct simba__guardian *g,
                         char *text,
                         size_t room)
{
    const char *cmd = g->job->argv[0];

    if (g->fault != 0 || atomic_load(&g->share->exec_errno) != 0) {
        (void)snprintf(text, room, "%s cannot be run", cmd);
    } else if (g->cancelled != 0) {
        (void)snprintf(text, room, "told to end by signal %d (%s)",
                       g->cancelled, strsignal(g->cancelled));
    } else if (g->is_yielding) {
        (void)snprintf(text, room, "stopped by its user");
    } else if (WIFSIGNALED(g->cmd_status)) {
        (void)snprintf(text, room, "%s was ended by signal %d (%s)", cmd,
                       WTERMSIG(g->cmd_status),
                       strsignal(WTERMSIG(g->cmd_status)));
    } else {
        (void)snprintf(text, room, "%s ended with exit code %d", cmd,
                       WEXITSTATUS(g->cmd_status));
    }
}

/* True: it turned out as lost only now. Somebody freed it by force, and CMD
 * ended before we heard of it. */
static bool tell_release(struct simba__guardian *g)
{
    struct simba__note note = {.kind = SIMBA__NOTE_RELEASED,
                               .boot_ms = g->ended_ms,
                               .token = g->token};

    if (g->acquired_ms == 0) {
        return false; /* it was called off while it waited */
    }
    if (g->holder.error.code == SIMBA_OK) {
        if (!is_lock(g)) {
            describe_end(g, note.text, sizeof note.text);
        }
        simba__link_send(g->link, &note, -1);
    } else if (g->holder.error.code == SIMBA_ELOST && !g->is_lost) {
        note.kind = SIMBA__NOTE_LOST;
        note.until_ms = g->ended_ms;
        note.number = g->is_yielding ? 0 : SIMBA__EXIT_LOST;
        simba__guardian_send(g, &note, g->holder.error.message);
        return true;
    } else if (!g->is_lost) {
        tell_silence(g);
    }
    return false;
}

/* The end; why CMD could not be run, if so, is told last. */
static _Noreturn void finish_with(struct simba__guardian *g, int code)
{
    struct simba__note note = {.kind = SIMBA__NOTE_FAILED};
    int number = atomic_load(&g->share->exec_errno);
    char text[sizeof note.text];

    if (number > 0) {
        note.number = simba__exit_of_exec(number);
        (void)snprintf(text, sizeof text, "cannot run '%s': %s",
                       g->job->argv[0], strerror(number));
        simba__guardian_send(g, &note, text);
    }
    simba__guardian_finish(g, code);
}

void simba__guardian_step_releasing(struct simba__guardian *g)
{
    int state = atomic_load(&g->holder.state);
    int code = answer(g);

    if (state == SIMBA__HOLDER_RELEASED) {
        bool is_lost = tell_release(g) && is_lock(g);

        finish_with(g, is_lost ? SIMBA__EXIT_LOST : code);
    }
    if (g->is_yielding && state == SIMBA__HOLDER_PAUSED) {
        /* The holder rests: contend again. */
        (void)tell_release(g);
        g->is_yielding = g->is_lost = false;
        g->token = 0;
        g->give_up_ms = 0;
        g->acquired_ms = 0;
        atomic_store(&g->share->phase, SIMBA__WAITING);
        simba__guardian_step(g);
        return;
    }
    if (g->is_yielding && g->cancelled == 0 && !g->is_front_gone) {
        /* It contends again later, so the release may take its time. */
        g->give_up_ms = simba__clock_ms() + RELEASE_MOST_MS;
    }
    if (simba__clock_ms() >= g->give_up_ms) {
        if (!g->is_lost) {
            tell_silence(g);
        }
        finish_with(g, code);
    }
}
