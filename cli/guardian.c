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
#include "guardian.h"
#include "clock.h"
#include "exit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINK = 0, TIMER = 1, GATE = 3, FIRST_FREE = 4 };

enum {
    TICK_MOST_MS = 500,     /* between two looks at the deadlines */
    TICK_LEAST_MS = 5,      /* the same, and between two rounds of KILL */
    RECANCEL_MS = 10,       /* until the holder has noticed */
    CANCEL_MOST_MS = 1000,  /* for leaving the line */
    RELEASE_MOST_MS = 2000, /* for the answer to a release */
};

static void handle_nothing(int number)
{
    (void)number; /* ppoll() returns, which is all that is wanted */
}

/* Everything stays blocked but while ppoll() waits. */
static void set_handlers(struct simba__guardian *g)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_handler = handle_nothing;
    (void)sigaction(SIGCHLD, &action, NULL);
    (void)sigaction(SIGUSR1, &action, NULL);
    (void)sigfillset(&g->awake);
    (void)sigdelset(&g->awake, SIGCHLD);
    (void)sigdelset(&g->awake, SIGUSR1);
}

static bool fork_command(struct simba__guardian *g, int gate[2])
{
    g->cmd = fork();
    if (g->cmd < 0) {
        return false;
    }
    if (g->cmd == 0) {
        (void)close(g->link);
        (void)close(gate[1]);
        simba__child_run(g->job, gate[0]);
    }
    (void)setpgid(g->cmd, g->cmd);
    atomic_store(&g->share->cmd, g->cmd);
    return true;
}

/* CMD must be of the session that the guardian leaves: either it is there
 * already, or somebody stays behind who makes it. */
static bool fork_first(struct simba__guardian *g, int *gate)
{
    int ends[2] = {-1, -1};
    bool is_fine;

    if (g->job->kind == SIMBA__JOB_LOCK) {
        is_fine = pipe2(ends, O_CLOEXEC) == 0 && fork_command(g, ends);
        *gate = ends[1];
    } else {
        g->nursery = simba__nursery_start(g->job, g->link, gate);
        is_fine = g->nursery > 0;
    }
    (void)setsid();
    return is_fine;
}

/* The front's end of the pipes that CMD reads and writes must be CMD's alone,
 * so 0 and 1 get a new meaning. Other inherited descriptors are closed. */
static bool place_descriptors(struct simba__guardian *g, int gate)
{
    int timer;

    if (dup2(g->link, LINK) < 0 || dup2(gate, GATE) < 0) {
        return false;
    }
    g->link = LINK;
    (void)close_range(FIRST_FREE, ~0U, 0);
    timer = simba__clock_timer();
    if (timer < 0 || dup2(timer, TIMER) < 0) {
        return false;
    }
    (void)close(timer);
    return true;
}

static bool set_up(struct simba__guardian *g)
{
    struct simba__note born = {.kind = SIMBA__NOTE_BORN};
    int gate = -1;

    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    (void)prctl(PR_SET_NAME, SIMBA__REAPER_GUARDIAN);
    atomic_store(&g->share->guardian, getpid());
    if (!fork_first(g, &gate) || !place_descriptors(g, gate)) {
        return false;
    }
    if (!g->is_anchored) {
        born.number = g->cmd;
        simba__link_send(LINK, &born, -1);
    }
    set_handlers(g);
    return simba__holder_start(&g->holder);
}

/* When to look again though nothing happens. */
static int64_t next_wake(const struct simba__guardian *g, int64_t now_ms)
{
    int64_t at_ms = now_ms + g->tick_ms;
    int64_t due_ms = SIMBA__CLOCK_NEVER;

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

static void receive_notes(struct simba__guardian *g)
{
    struct simba__note note = {0};
    int rc;

    while ((rc = simba__link_receive(LINK, &note, NULL)) > 0) {
        simba__guardian_on_note(g, &note);
    }
    if (rc < 0) {
        g->is_front_gone = true;
    }
}

static void wait_for_events(struct simba__guardian *g)
{
    struct pollfd sources[] = {
        {.fd = TIMER, .events = POLLIN},
        {.fd = g->nursery > 0 ? g->gate : -1, .events = POLLIN},
        /* A front that is gone stays readable for ever. */
        {.fd = g->is_front_gone ? -1 : LINK, .events = POLLIN}};
    int64_t at_ms = next_wake(g, simba__clock_ms());

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
        receive_notes(g);
    }
}

/* Tick often enough to publish a renewal long before the front could take its
 * absence for a stuck guardian: a sixth of the ttl lies between (design 5). */
static int64_t choose_tick(const struct simba__job *job)
{
    int64_t tick_ms = job->ttl_ms > 0 ? job->ttl_ms / 20 : TICK_MOST_MS;

    if (tick_ms > TICK_MOST_MS) {
        return TICK_MOST_MS;
    }
    return tick_ms < TICK_LEAST_MS ? TICK_LEAST_MS : tick_ms;
}

_Noreturn void simba__guardian_run(struct simba__job *job, int link)
{
    static struct simba__guardian guardian; /* outlives the other threads */
    struct simba__guardian *g = &guardian;

    g->job = job;
    g->share = job->share;
    g->link = link; /* until it has its place */
    g->gate = GATE;
    g->tick_ms = choose_tick(job);
    g->is_anchored = job->kind != SIMBA__JOB_LOCK || !job->is_anchor_first;
    simba__plan_init(&g->plan, job);
    g->holder.job = job;
    g->holder.link = LINK;
    g->cancel_most_ms = CANCEL_MOST_MS;
    g->release_most_ms = RELEASE_MOST_MS;
    if (!set_up(g)) {
        simba__guardian_fail(g, errno);
    }
    g->reaper.root = getpid();
    g->reaper.spared[0] = g->nursery; /* it makes the next CMD */
    for (;;) {
        wait_for_events(g);
        atomic_store(&g->share->beat_ms, simba__clock_ms());
        simba__guardian_reap(g);
        simba__guardian_step(g);
    }
}
