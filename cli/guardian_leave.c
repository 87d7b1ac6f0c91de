/* What the guardian leaves behind: a mutex that is free for others, and the
 * answer for the front. */
#define _GNU_SOURCE
#include "clock.h"
#include "exit.h"
#include "guardian.h"

#include <stdio.h>
#include <string.h>

static int answer(const struct simba__guardian *g)
{
    bool is_lock = g->job->kind == SIMBA__JOB_LOCK;

    if (g->fault != 0) {
        return g->fault;
    }
    if (g->is_lost && is_lock) {
        return SIMBA__EXIT_LOST;
    }
    if (is_lock ? !g->was_started : !g->is_final) {
        return SIMBA__EXIT_SIGNAL + g->cancelled;
    }
    return simba__exit_of_wait(g->cmd_status);
}

/* Who is called off while it waits has but a position in the queue to give
 * back, and the user has a prompt to get back to: the place lapses by itself.
 */
enum { LEAVE_MOST_MS = 500 };

static void tell_kept(const struct simba__guardian *g, int64_t until_ms)
{
    struct simba__note note = {.kind = SIMBA__NOTE_KEPT, .until_ms = until_ms};

    if (g->acquired_ms != 0 && g->job->min_hold_ms > 0 && !g->is_lost) {
        simba__guardian_send(g, &note, "");
    }
}

static void leave(struct simba__guardian *g, enum simba__holder_order order)
{
    int64_t now_ms = simba__clock_ms();
    int64_t held_until_ms = g->acquired_ms + g->job->min_hold_ms;
    int64_t most_ms = g->acquired_ms == 0 ? LEAVE_MOST_MS : g->release_most_ms;

    atomic_store(&g->share->exit_code, answer(g));
    atomic_store(&g->share->phase, SIMBA__RELEASING);
    simba__plan_end(&g->plan);
    g->ended_ms = now_ms;
    g->give_up_ms =
        most_ms + (g->acquired_ms != 0 && held_until_ms > now_ms ? held_until_ms
                                                                 : now_ms);
    tell_kept(g, held_until_ms);
    simba__holder_all_gone(&g->holder);
    simba__holder_order(&g->holder, order);
}

void simba__guardian_release(struct simba__guardian *g)
{
    g->is_yielding = false;
    leave(g, SIMBA__HOLDER_RELEASE);
}

void simba__guardian_yield(struct simba__guardian *g)
{
    g->is_yielding = true;
    leave(g, SIMBA__HOLDER_YIELD);
}

static void tell_exec_failure(const struct simba__guardian *g)
{
    struct simba__note note = {.kind = SIMBA__NOTE_FAILED};
    int number = atomic_load(&g->share->exec_errno);
    char text[sizeof(note.text)];

    if (number > 0) {
        note.number = simba__exit_of_exec(number);
        (void)snprintf(text, sizeof(text), "cannot run '%s': %s",
                       g->job->argv[0], strerror(number));
        simba__guardian_send(g, &note, text);
    }
}

/* Of a mutex that was held; who was called off while waiting has none to give
 * back, or will never know. */
static void tell_silence(const struct simba__guardian *g)
{
    struct simba__note note = {.kind = SIMBA__NOTE_LOG,
                               .number = SIMBA_LOG_ERROR};
    char text[sizeof(note.text)];

    if (g->acquired_ms == 0) {
        return;
    }
    (void)snprintf(text, sizeof(text),
                   "%s: the store has not answered the release; it is free "
                   "when the lease ends, in %.0f s at most",
                   g->job->mutex, (double)g->holder.lease_ms / 1000);
    simba__guardian_send(g, &note, text);
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

static void end_released(struct simba__guardian *g)
{
    int code = answer(g);

    if (tell_release(g) && g->job->kind == SIMBA__JOB_LOCK) {
        code = SIMBA__EXIT_LOST;
    }
    tell_exec_failure(g);
    simba__guardian_finish(g, code);
}

/* The holder rests, or we do not wait for it any longer: what it has not done
 * it will do before it acquires again. */
static void end_yielded(struct simba__guardian *g)
{
    (void)tell_release(g);
    g->is_yielding = g->is_lost = false;
    g->token = 0;
    g->give_up_ms = 0;
    g->acquired_ms = 0;
    atomic_store(&g->share->phase, SIMBA__WAITING);
    simba__guardian_step(g);
}

void simba__guardian_step_releasing(struct simba__guardian *g)
{
    int state = atomic_load(&g->holder.state);

    if (state == SIMBA__HOLDER_RELEASED) {
        end_released(g);
    }
    if (g->is_yielding && state == SIMBA__HOLDER_PAUSED) {
        end_yielded(g);
        return;
    }
    /* Who will contend again has time; but not when it is to end. */
    if (g->is_yielding && g->cancelled == 0 && !g->is_front_gone) {
        g->give_up_ms = simba__clock_ms() + g->release_most_ms;
    }
    if (simba__clock_ms() >= g->give_up_ms) {
        if (!g->is_lost) {
            tell_silence(g);
        }
        tell_exec_failure(g);
        simba__guardian_finish(g, answer(g));
    }
}
