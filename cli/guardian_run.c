/* How the guardian runs CMD while the mutex is held: once for a lock, again and
 * again for those who lead.
 *
 *     IDLE ──due──► made by the nursery ──anchored──► RUNNING ──► ENDING
 *      ▲                                                            │
 *      └───────────── to run again in this tenure ──────────────────┘ */
#define _GNU_SOURCE
#include "clock.h"
#include "exit.h"
#include "guardian.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The library's own limit of a budget nobody chose (design 5). */
enum { BUDGET_MOST_MS = 2000 };

static bool is_lock(const struct simba__guardian *g)
{
    return g->job->kind == SIMBA__JOB_LOCK;
}

/* ── The tenure ──────────────────────────────────────────────────────────── */

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

/* The front's copy of the life descriptor keeps the store from taking a dead
 * guardian for the end of all that used the mutex. It is on its way before CMD
 * starts. */
static void tell_acquired(struct simba__guardian *g)
{
    struct simba__note note = {.kind = SIMBA__NOTE_ACQUIRED,
                               .boot_ms = g->acquired_ms,
                               .token = g->token};
    bool is_every = g->job->kind == SIMBA__JOB_EVERY;
    int life = g->is_life_sent ? -1 : simba_store_life_fd(g->holder.store);

    note.until_ms = is_every ? simba__plan_wake_at(&g->plan) : 0;
    simba__link_send(g->link, &note, life);
    g->is_life_sent = true;
}

void simba__guardian_begin(struct simba__guardian *g)
{
    struct simba__plan_clock clock;

    simba__holder_publish(&g->holder);
    g->kill_after_ms = g->job->kill_after_ms >= 0 ? g->job->kill_after_ms
                                                  : default_kill_after(g);
    g->acquired_ms = simba__clock_ms();
    g->token = g->share->token;
    simba__holder_clock(&g->holder, &clock.offset_ms, &clock.granted_ms);
    simba__plan_begin(&g->plan, g->acquired_ms, &clock);
    tell_acquired(g);
    atomic_store(&g->share->phase, SIMBA__IDLE);
    simba__guardian_step_idle(g);
}

/* ── Starting ────────────────────────────────────────────────────────────── */

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
        atomic_fetch_add(&g->holder.gauge.runs.skipped, g->plan.skipped);
    }
    g->plan.skipped = 0;
}

/* Without CMD there is nothing to hold the mutex for. */
static void fail(struct simba__guardian *g, int error_number)
{
    struct simba__note note = {.kind = SIMBA__NOTE_FAILED,
                               .number = SIMBA__EXIT_FAULT,
                               .status = SIMBA_EINTERNAL};
    char text[sizeof(note.text)];

    (void)snprintf(text, sizeof(text), "cannot start '%s': %s", g->job->argv[0],
                   strerror(error_number));
    simba__guardian_send(g, &note, text);
    g->fault = SIMBA__EXIT_FAULT;
    simba__guardian_release(g);
}

static void make_command(struct simba__guardian *g)
{
    if (g->gate < 0) {
        fail(g, ECHILD);
    } else if (!g->is_making) {
        g->is_making = true;
        g->cmd = 0;
        atomic_store(&g->share->cmd, 0);
        simba__nursery_order(g->gate, SIMBA__NURSERY_MAKE);
    }
}

/* The front may have missed it: it is said again until it answers. */
static void ask_for_anchor(struct simba__guardian *g)
{
    struct simba__note born = {.kind = SIMBA__NOTE_BORN, .number = g->cmd};

    simba__link_send(g->link, &born, -1);
}

/* One that ended before we knew of it was reaped as any other. */
static void adopt(struct simba__guardian *g)
{
    g->is_making = false;
    g->cmd = atomic_load(&g->share->cmd);
    g->is_cmd_gone = getpgid(g->cmd) < 0;
    g->is_anchored = g->job->tty < 0;
}

void simba__guardian_on_nursery(struct simba__guardian *g)
{
    int answer = simba__nursery_answer(g->gate);

    if (answer == 0) {
        adopt(g);
    } else if (answer == ECHILD && !g->is_making) {
        g->gate = -1; /* it was killed: that is seen when it is missed */
    } else if (answer > 0) {
        g->is_making = false;
        fail(g, answer);
    }
}

static void tell_started(struct simba__guardian *g)
{
    struct simba__note note = {.kind = SIMBA__NOTE_STARTED,
                               .run = g->plan.runs,
                               .beat_ms = g->plan.beat_ms,
                               .number = g->cmd};

    if (!is_lock(g)) {
        simba__guardian_send(g, &note, "");
        atomic_fetch_add(&g->holder.gauge.runs.started, 1);
    }
}

static void open_gate(struct simba__guardian *g)
{
    ssize_t ignored;

    if (g->nursery > 0) {
        simba__nursery_order(g->gate, SIMBA__NURSERY_START);
        return;
    }
    /* A failure means that the process was killed, which will be seen. */
    ignored = write(g->gate, "!", 1);
    (void)ignored;
    (void)close(g->gate);
}

static void start_command(struct simba__guardian *g)
{
    g->was_started = true;
    g->passed = 0;
    atomic_store(&g->share->exec_errno, 0);
    simba__plan_started(&g->plan, simba__clock_ms());
    tell_started(g);
    atomic_store(&g->share->phase, SIMBA__RUNNING);
    open_gate(g);
    if (g->is_paused) {
        simba__guardian_pass_on(g, SIGTSTP);
    }
}

/* ── Idle ────────────────────────────────────────────────────────────────── */

/* Without the mutex, or without a reason to have it: the process that waits to
 * become CMD must not. */
static void leave_idle(struct simba__guardian *g)
{
    bool is_over = g->cancelled != 0 || is_lock(g);

    simba__guardian_dismiss(g);
    g->cmd = 0;
    if (is_over) {
        simba__guardian_release(g);
    } else {
        simba__guardian_yield(g);
    }
}

static bool is_unwanted(struct simba__guardian *g)
{
    if (g->cancelled == 0 &&
        (g->is_front_gone || (is_lock(g) && g->is_cmd_gone))) {
        g->cancelled = SIGKILL; /* that is what happened to it */
    }
    return g->cancelled != 0 || (g->is_paused && !is_lock(g));
}

static void prepare(struct simba__guardian *g)
{
    if (g->cmd == 0 || g->is_cmd_gone) {
        make_command(g);
    } else if (!g->is_anchored) {
        ask_for_anchor(g);
    } else {
        start_command(g);
    }
}

void simba__guardian_step_idle(struct simba__guardian *g)
{
    int64_t now_ms = simba__clock_ms();
    struct simba__plan_clock clock;

    simba__holder_publish(&g->holder);
    if (simba__guardian_has_lost(g)) {
        simba__guardian_tell_lost(g);
        leave_idle(g);
        return;
    }
    if (is_unwanted(g)) {
        leave_idle(g);
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

/* ── Afterwards ──────────────────────────────────────────────────────────── */

/* Which one CMD died of; 0: none. */
static int signal_of(const struct simba__guardian *g)
{
    return WIFSIGNALED(g->cmd_status) ? WTERMSIG(g->cmd_status) : 0;
}

/* Did it die of a signal that was meant for it? From the keyboard it comes to
 * CMD alone. */
static bool is_ended_by_user(const struct simba__guardian *g)
{
    int number = signal_of(g);
    bool is_key = number == SIGINT || number == SIGQUIT;

    return g->cancelled != 0 ||
           (number > 0 && number <= 64 &&
            (g->passed & UINT64_C(1) << (number - 1)) != 0) ||
           (is_key && atomic_load(&g->share->is_tty_lent));
}

static bool is_final(const struct simba__guardian *g, int code)
{
    if (atomic_load(&g->share->exec_errno) != 0 || is_ended_by_user(g)) {
        return true;
    }
    if (g->job->kind == SIMBA__JOB_EVERY) {
        return false;
    }
    return g->job->restart == SIMBA__RESTART_NEVER ||
           (g->job->restart == SIMBA__RESTART_ON_FAILURE && code == 0);
}

static void count_ended(struct simba__gauge_runs *runs, int code)
{
    atomic_fetch_add(&runs->failed, code == 0 ? 0 : 1);
    atomic_store(&runs->exit_code, code);
    atomic_store(&runs->ended_unix, (int64_t)time(NULL));
}

static void tell_ended(struct simba__guardian *g, int code)
{
    struct simba__note note = {.kind = SIMBA__NOTE_ENDED,
                               .number = code,
                               .seen = signal_of(g),
                               .run = g->plan.runs,
                               .beat_ms = g->plan.beat_ms};

    count_ended(&g->holder.gauge.runs, code);
    simba__guardian_send(g, &note, "");
}

/* Ready for the next run; there is none of whom a late signal could be. */
static void forget_command(struct simba__guardian *g)
{
    g->cmd = 0;
    g->is_cmd_gone = false;
    g->was_started = false;
    g->is_killing = false;
}

void simba__guardian_run_over(struct simba__guardian *g)
{
    int code = simba__exit_of_wait(g->cmd_status);

    if (is_lock(g)) {
        simba__guardian_release(g);
        return;
    }
    /* Before the front hears of it, and takes the terminal back. */
    g->is_final = !g->is_lost && is_final(g, code);
    simba__plan_done(&g->plan, simba__clock_ms());
    simba__guardian_tell_skips(g, "the run before was still going on");
    tell_ended(g, code);
    forget_command(g);
    if (g->is_final || g->cancelled != 0 || g->is_front_gone) {
        simba__guardian_release(g);
    } else if (g->is_lost) {
        simba__guardian_yield(g);
    } else {
        atomic_store(&g->share->phase, SIMBA__IDLE);
        simba__guardian_step_idle(g);
    }
}
