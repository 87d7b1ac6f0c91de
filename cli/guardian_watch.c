/* The front's watch over the guardian. The guardian keeps the deadline; the
 * front keeps it when the guardian is stopped, stuck or dead, from what the
 * guardian wrote into the shared page while it could. */
#define _GNU_SOURCE
#include "cli/clock.h"
#include "cli/front.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

enum {
    HEAD_START_MS = 50, /* for the guardian, at U: no second TERM then */
    KILL_START_MS = 20, /* the same at H - 250 ms */
    FRESH_MS = 100,     /* a guardian that ran so recently is at work */
    SILENT_MS = 3000,   /* one in RELEASING looks up far more often */
    ROUND_PART = 8,     /* between two rounds of KILL: this part of the time */
    ROUND_MOST_MS = 64, /* it has taken already, at most so long */
};

static int64_t term_at(const struct simba__front *front)
{
    int64_t use_until_ms = atomic_load(&front->share->use_until_ms);
    int64_t hard_until_ms = atomic_load(&front->share->hard_until_ms);
    int64_t start_ms = (hard_until_ms - use_until_ms) / 4;

    return use_until_ms + (start_ms < HEAD_START_MS ? start_ms : HEAD_START_MS);
}

static int64_t kill_at(const struct simba__front *front)
{
    int64_t kill_ms =
        atomic_load(&front->share->hard_until_ms) - SIMBA__KILL_MS;
    int64_t use_until_ms = atomic_load(&front->share->use_until_ms);

    /* A budget of less than 250 ms: then TERM and KILL come together. */
    return (kill_ms > use_until_ms ? kill_ms : use_until_ms) + KILL_START_MS;
}

static int64_t silent_at(const struct simba__front *front)
{
    int64_t beat_ms = atomic_load(&front->share->beat_ms) + SILENT_MS;
    int64_t hard_until_ms = atomic_load(&front->share->hard_until_ms);

    return beat_ms > hard_until_ms ? beat_ms : hard_until_ms;
}

int64_t simba__watch_next(const struct simba__front *front)
{
    int64_t at_ms;

    switch (atomic_load(&front->share->phase)) {
    case SIMBA__WAITING:
    case SIMBA__IDLE:
        return front->cancelled != 0 ? front->cancel_until_ms
                                     : SIMBA__CLOCK_NEVER;
    case SIMBA__RUNNING:
        at_ms = kill_at(front);
        return !atomic_load(&front->share->is_termed) && term_at(front) < at_ms
                   ? term_at(front)
                   : at_ms;
    case SIMBA__ENDING:
        return kill_at(front);
    default:
        return silent_at(front);
    }
}

/* True: no child is left, and therefore nothing below, for what is orphaned
 * comes to us. */
static bool reap_all(struct simba__front *front)
{
    pid_t pid;

    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
        if (pid == front->guardian) {
            front->is_guardian_gone = true;
        } else if (pid == front->anchor) {
            front->anchor = 0;
        }
    }
    return pid < 0 && errno == ECHILD;
}

/* The guardian goes first: from then on the front is the nearest subreaper, and
 * whatever is orphaned comes to it. Ends when nothing is left; what can't be
 * killed is waited for, with the store's life descriptor still open. */
static void kill_everything(struct simba__front *front)
{
    int64_t since_ms = simba__clock_ms();
    int64_t round_ms, taken_ms = 0;
    pid_t cmd = atomic_load(&front->share->cmd);

    assert(front->guardian > 0);
    if (!front->is_guardian_gone) {
        (void)kill(front->guardian, SIGKILL);
    }
    while (!reap_all(front)) {
        int left;

        simba__reaper_spare(&front->reaper, since_ms,
                            atomic_load(&front->share->hard_until_ms));
        left = simba__reaper_signal(&front->reaper, SIGKILL, 0);

        if (left < 0 && cmd > 0) {
            (void)kill(-cmd, SIGKILL); /* no /proc: what we know of */
        }
        if (reap_all(front) || (left == 0 && front->is_guardian_gone)) {
            return;
        }
        round_ms = 1 + taken_ms / ROUND_PART;
        round_ms = round_ms < ROUND_MOST_MS ? round_ms : ROUND_MOST_MS;
        simba__clock_pause(round_ms);
        taken_ms += round_ms;
    }
}

/* Do the guardian's duty in its place, and answer. */
static int take_over(struct simba__front *front, const char *why)
{
    struct simba__note note = {.kind = SIMBA__NOTE_LOST, .status = SIMBA_ELOST};
    int code = SIMBA__EXIT_LOST;

    switch (atomic_load(&front->share->phase)) {
    case SIMBA__WAITING: /* nothing was held */
    case SIMBA__IDLE:    /* or for nothing */
        why += strncmp(why, "lost: ", 6) == 0 ? 6 : 0;
        note.kind = SIMBA__NOTE_FAILED;
        note.status = SIMBA_EINTERNAL;
        code = front->cancelled != 0 ? SIMBA__EXIT_SIGNAL + front->cancelled
                                     : SIMBA__EXIT_FAULT;
        break;
    case SIMBA__RELEASING: /* CMD has ended; the lease will lapse */
        note.kind = SIMBA__NOTE_LOG;
        code = atomic_load(&front->share->exit_code);
        break;
    default:
        break;
    }
    note.number = code;
    kill_everything(front);
    (void)snprintf(note.text, sizeof note.text, "%s: %s", front->job->mutex,
                   why);
    note.boot_ms = simba__clock_ms();
    note.until_ms = atomic_load(&front->share->use_until_ms);
    note.token = front->was_acquired ? front->share->token : 0;
    simba__events_tell(front, &note);
    return code;
}

int simba__watch_guardian(struct simba__front *front)
{
    /* On a busy machine a search of all processes could take until KILL is
     * due. */
    struct simba__reaper below = {.root = front->guardian, .is_hurried = true};
    int64_t now_ms = simba__clock_ms();
    int phase = atomic_load(&front->share->phase);
    bool is_stuck = now_ms - atomic_load(&front->share->beat_ms) > FRESH_MS;

    if (phase == SIMBA__DONE) {
        return -1;
    }
    if (front->is_guardian_gone) {
        return take_over(front, "lost: the guardian process was killed");
    }
    if (phase == SIMBA__RUNNING && now_ms < term_at(front)) {
        /* It was renewed all the same. */
        atomic_store(&front->share->is_termed, false);
    } else if (phase == SIMBA__RUNNING &&
               !atomic_load(&front->share->is_termed)) {
        /* At U the guardian should have sent TERM, and it has not. */
        atomic_store(&front->share->is_termed, true);
        (void)simba__reaper_signal(&below, SIGTERM, 0);
    }
    if (((phase == SIMBA__RUNNING || phase == SIMBA__ENDING) &&
         now_ms >= kill_at(front) && is_stuck) ||
        (phase == SIMBA__RELEASING && now_ms >= silent_at(front)) ||
        ((phase == SIMBA__WAITING || phase == SIMBA__IDLE) &&
         front->cancelled != 0 && now_ms >= front->cancel_until_ms)) {
        return take_over(front, "lost: the guardian process does not answer");
    }
    return -1;
}
