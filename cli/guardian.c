/* The guardian: holds the mutex while CMD runs, and sees to it that nothing of
 * CMD is left when the mutex may go to another.
 *
 *     WAITING ─acquired─► IDLE ─due─► RUNNING ─CMD ended, lost, front─► ENDING
 *      │   ▲               │ ▲                   gone                      │
 *      │   │ lead, every   │ └───────to run again, nothing left────────────┤
 *      │   └───────────────┴─────RELEASING ◄─────lost, nothing left────────┤
 *      └──failed, cancelled──► DONE ◄── RELEASING ◄──nothing left──────────┘
 *
 * It never blocks but in ppoll(): what may block is the holder's. Its
 * descriptors stand at 0, 1 and 3, so that a store has room under a low limit
 * of open files. */
#define _GNU_SOURCE
#include "cli/guardian.h"
#include "cli/clock.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <simba/state.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINK = 0, TIMER = 1, GATE = 3, FIRST_FREE = 4 };

enum {
    TICK_MOST_MS = 500,    /* between two looks at the deadlines */
    TICK_LEAST_MS = 5,     /* the same, and between two rounds of KILL */
    RECANCEL_MS = 10,      /* until the holder has noticed */
    CANCEL_MOST_MS = 1000, /* for leaving the queue */
    SETTLE_MS = 200,       /* for closing the store after a failure */
    HEARD_MS = 500         /* within it we hear of a grant on a busy machine */
};

/* --- what it is told ----------------------------------------------------- */

static void cancel(struct simba__guardian *g, int number)
{
    if (g->cancelled == 0 && simba__job_is_ended_by(g->job, number)) {
        g->cancelled = number;
    }
}

static void on_note(struct simba__guardian *g, const struct simba__note *note)
{
    int number = note->number;

    if (note->kind == SIMBA__NOTE_ANCHORED) {
        g->is_anchored = g->is_anchored || number == g->cmd;
        return;
    }
    if (number == SIGUSR1 && g->job->kind == SIMBA__JOB_LEAD) {
        simba__holder_hand_over(&g->holder);
        return;
    }
    if (number == SIGCONT) {
        g->resumes = note->seen;
    }
    if (simba__job_is_ended_by(g->job, number) &&
        simba__guardian_is_kept(g, number)) {
        return;
    }
    if (g->was_started) {
        /* Who leads does not contend again once it was told to end, however CMD
         * takes it. */
        if (g->job->kind != SIMBA__JOB_LOCK) {
            cancel(g, number);
        }
        if (number > 0 && number <= 64) {
            g->passed |= UINT64_C(1) << (number - 1);
        }
        simba__guardian_pass_on(g, number);
        return;
    }
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

static void reap(struct simba__guardian *g)
{
    struct simba__note note = {.kind = SIMBA__NOTE_STOPPED, .seen = g->resumes};
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
        if (pid != g->cmd) {
            continue;
        }
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
    /* Whoever lives below us has a child of ours above it, or is one. */
    g->has_children = pid == 0;
}

/* --- running ------------------------------------------------------------- */

/* The deadline counts, also when the library has not called yet: its thread
 * may be as late as anything else. */
bool simba__guardian_has_lost(struct simba__guardian *g)
{
    return atomic_load(&g->holder.is_lost) ||
           simba__clock_ms() >= atomic_load(&g->share->use_until_ms);
}

void simba__guardian_tell_lost(struct simba__guardian *g)
{
    int64_t until_ms = atomic_load(&g->share->use_until_ms);
    int64_t cap_ms = g->job->max_hold_ms;
    struct simba__note note = {.kind = SIMBA__NOTE_LOST,
                               .status = SIMBA_ELOST,
                               .number = g->was_started,
                               .until_ms = until_ms};
    char text[sizeof note.text];
    /* Was it U because of --max-hold? The library says so in its own word, if
     * it came first. Else that counts from the grant; where the store tells no
     * time, we heard of it a little later. Of a tenure that was over when we
     * did, we have not heard U. */
    int64_t end_ms = until_ms < g->granted_ms ? simba__clock_ms() : until_ms;
    bool is_told = atomic_load(&g->holder.is_lost) &&
                   g->holder.why.native == SIMBA_CAUSE_MAX_HOLD;
    bool is_capped =
        is_told || (cap_ms > 0 && end_ms + HEARD_MS >= g->granted_ms + cap_ms);

    assert(g->acquired_ms > 0 && !g->is_lost);
    g->is_lost = true;
    if (atomic_load(&g->holder.is_lost) && !is_capped) {
        simba__guardian_send(g, &note, g->holder.why.message);
        return;
    }
    (void)snprintf(text, sizeof text, "%s: lost: %s", g->job->mutex,
                   is_capped ? "it was held for --max-hold"
                             : "no renewal was answered in time");
    simba__guardian_send(g, &note, text);
}

/* --- waiting ------------------------------------------------------------- */

static void step_waiting(struct simba__guardian *g)
{
    struct simba__holder *holder = &g->holder;
    struct simba__note note = {.kind = SIMBA__NOTE_FAILED};
    int state = atomic_load(&holder->state);
    int64_t now_ms = simba__clock_ms();

    if (g->cancelled == 0 &&
        (g->is_front_gone || (g->is_cmd_gone && g->nursery == 0))) {
        g->cancelled = SIGKILL; /* that is what happened to one of us */
    }
    if (state == SIMBA__HOLDER_FAILED) {
        note.status = holder->error.code;
        note.seen = holder->error.native;
        note.number = simba__exit_of_status(note.status);
        if (note.number == SIMBA__EXIT_NOT_ACQUIRED) {
            note.number = g->job->conflict_code;
        }
        simba__guardian_send(g, &note, holder->error.message);
        simba__guardian_dismiss(g);
        /* A moment for the store to be closed. */
        (void)simba__flag_wait(&holder->is_closed, &holder->lock, &holder->told,
                               SETTLE_MS);
        simba__guardian_finish(g, note.number);
    } else if (state != SIMBA__HOLDER_HELD && state != SIMBA__HOLDER_PAUSED) {
        /* The holder is at work: ask it to leave the queue when it should. */
        g->is_leaving = g->cancelled != 0 || g->is_paused;
        if (g->is_leaving) {
            simba__holder_cancel(holder);
        }
        if (g->cancelled != 0 && g->give_up_ms == 0) {
            g->give_up_ms = now_ms + CANCEL_MOST_MS;
        }
        if (g->cancelled != 0 && now_ms >= g->give_up_ms) {
            /* A silent store: what it grants will lapse. */
            simba__guardian_dismiss(g);
            simba__guardian_finish(g, SIMBA__EXIT_SIGNAL + g->cancelled);
        }
    } else if (g->cancelled != 0) {
        simba__guardian_dismiss(g);
        simba__guardian_leave(g, SIMBA__HOLDER_RELEASE);
    } else if (state == SIMBA__HOLDER_HELD) {
        simba__guardian_begin(g);
    } else {
        g->is_leaving = false;
        if (!g->is_paused) {
            simba__holder_order(holder, SIMBA__HOLDER_ACQUIRE);
        }
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
        simba__holder_publish(&g->holder);
        /* One that ended of itself has ended, whatever came of the mutex. */
        if (atomic_load(&g->share->exec_errno) == SIMBA__TOO_LATE ||
            ((!g->is_cmd_gone || atomic_load(&g->share->is_termed)) &&
             simba__guardian_has_lost(g))) {
            simba__guardian_tell_lost(g);
            simba__guardian_end(g);
        } else if (g->is_cmd_gone || g->is_front_gone) {
            simba__guardian_end(g);
        } else {
            simba__plan_look(&g->plan, simba__clock_ms());
            simba__guardian_tell_skips(g, "the run before still goes on");
        }
        break;
    case SIMBA__ENDING:
        simba__guardian_step_ending(g);
        break;
    default:
        simba__guardian_step_releasing(g);
        break;
    }
}

/* --- setting up ---------------------------------------------------------- */

static void handle_nothing(int number)
{
    (void)number; /* ppoll() returns, which is all that is wanted */
}

/* CMD must be of the session that the guardian leaves: either it is there
 * already, or somebody stays behind who makes it. */
static bool fork_first(struct simba__guardian *g, int *gate)
{
    int ends[2] = {-1, -1};

    assert(g->cmd == 0 && g->nursery == 0);
    if (g->job->kind != SIMBA__JOB_LOCK) {
        g->nursery = simba__nursery_start(g->job, g->link, gate);
        (void)setsid();
        return g->nursery > 0;
    }
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return false;
    }
    g->cmd = fork();
    if (g->cmd == 0) {
        (void)close(g->link);
        (void)close(ends[1]);
        simba__child_run(g->job, ends[0]);
    }
    if (g->cmd > 0) {
        (void)setpgid(g->cmd, g->cmd);
        atomic_store(&g->share->cmd, g->cmd);
    }
    *gate = ends[1];
    (void)setsid();
    return g->cmd > 0;
}

static bool set_up(struct simba__guardian *g)
{
    struct simba__note born = {.kind = SIMBA__NOTE_BORN};
    struct sigaction action;
    int gate = -1;
    int timer;

    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    (void)prctl(PR_SET_NAME, SIMBA__REAPER_GUARDIAN);
    atomic_store(&g->share->guardian, getpid());
    /* The front's end of the pipes that CMD reads and writes must be CMD's
     * alone, so 0 and 1 get a new meaning. Other inherited descriptors are
     * closed. */
    if (!fork_first(g, &gate) || dup2(g->link, LINK) < 0 ||
        dup2(gate, GATE) < 0) {
        return false;
    }
    g->link = LINK;
    (void)close_range(FIRST_FREE, ~0U, 0);
    timer = simba__clock_timer();
    if (timer < 0 || dup2(timer, TIMER) < 0) {
        return false;
    }
    (void)close(timer);
    if (!g->is_anchored) {
        born.number = g->cmd;
        simba__link_send(LINK, &born, -1);
    }
    /* Everything stays blocked but while ppoll() waits. */
    memset(&action, 0, sizeof action);
    action.sa_handler = handle_nothing;
    (void)sigaction(SIGCHLD, &action, NULL);
    (void)sigaction(SIGUSR1, &action, NULL);
    (void)sigfillset(&g->awake);
    (void)sigdelset(&g->awake, SIGCHLD);
    (void)sigdelset(&g->awake, SIGUSR1);
    return simba__holder_start(&g->holder);
}

/* --- the loop ------------------------------------------------------------ */

/* When to look again though nothing happens. */
static int64_t next_wake(const struct simba__guardian *g, int64_t now_ms)
{
    int64_t at_ms = now_ms + g->tick_ms;
    int64_t due_ms = SIMBA__CLOCK_NEVER;

    assert(g->tick_ms > 0);
    switch (atomic_load(&g->share->phase)) {
    case SIMBA__WAITING:
        if (g->is_leaving) {
            return now_ms + RECANCEL_MS;
        }
        return g->job->is_watched ? at_ms : SIMBA__CLOCK_NEVER;
    case SIMBA__IDLE:
    case SIMBA__RUNNING:
        due_ms = simba__plan_wake_at(&g->plan);
        if (due_ms > atomic_load(&g->share->use_until_ms)) {
            due_ms = atomic_load(&g->share->use_until_ms);
        }
        break;
    case SIMBA__ENDING:
        due_ms =
            g->is_killing ? now_ms + TICK_LEAST_MS : simba__guardian_kill_at(g);
        break;
    default:
        due_ms = g->give_up_ms;
        break;
    }
    return due_ms < at_ms ? due_ms : at_ms;
}

static void wait_for_events(struct simba__guardian *g)
{
    struct pollfd sources[] = {
        {.fd = TIMER, .events = POLLIN},
        {.fd = g->nursery > 0 ? g->gate : -1, .events = POLLIN},
        /* A front that is gone stays readable for ever. */
        {.fd = g->is_front_gone ? -1 : LINK, .events = POLLIN}};
    int64_t at_ms = next_wake(g, simba__clock_ms());
    struct simba__note note = {0};
    int rc = 0;

    if (at_ms != g->armed_ms) {
        simba__clock_arm(TIMER, at_ms);
        g->armed_ms = at_ms;
    }
    if (ppoll(sources, 3, NULL, &g->awake) <= 0) {
        return;
    }
    if (sources[0].revents != 0) {
        simba__clock_calm(TIMER);
        g->armed_ms = 0;
    }
    if (sources[1].revents != 0) {
        simba__guardian_on_nursery(g);
    }
    if (sources[2].revents != 0) {
        while ((rc = simba__link_receive(LINK, &note, NULL)) > 0) {
            on_note(g, &note);
        }
        g->is_front_gone = g->is_front_gone || rc < 0;
    }
}

_Noreturn void simba__guardian_run(struct simba__job *job, int link)
{
    static struct simba__guardian guardian; /* outlives the other threads */
    struct simba__guardian *g = &guardian;
    int64_t tick_ms = job->ttl_ms > 0 ? job->ttl_ms / 20 : TICK_MOST_MS;

    g->job = job;
    g->share = job->share;
    g->link = link; /* until it has its place */
    g->gate = GATE;
    /* Often enough to publish a renewal long before the front could take its
     * absence for a stuck guardian: a sixth of the ttl lies between. */
    g->tick_ms = tick_ms > TICK_MOST_MS    ? TICK_MOST_MS
                 : tick_ms < TICK_LEAST_MS ? TICK_LEAST_MS
                                           : tick_ms;
    g->is_anchored = job->kind != SIMBA__JOB_LOCK || !job->is_anchor_first;
    simba__plan_init(&g->plan, job);
    g->holder.job = job;
    g->holder.link = LINK;
    if (!set_up(g)) {
        simba__guardian_fail(g, errno);
    }
    g->reaper.root = getpid();
    g->reaper.spared[0] = g->nursery; /* it makes the next CMD */
    for (;;) {
        wait_for_events(g);
        atomic_store(&g->share->beat_ms, simba__clock_ms());
        reap(g);
        simba__guardian_step(g);
    }
}
