/* When CMD is to run while the mutex is held. */
#define _GNU_SOURCE
#include "cli/clock.h"
#include "cli/guardian.h"

#include <assert.h>
#include <string.h>

enum {
    BACKOFF_LEAST_MS = 1000, /* doubled with each early end */
    BACKOFF_MOST_MS = 60000,
    STEADY_MS = 60000 /* who ran so long begins again with the least */
};

static bool is_rate(const struct simba__plan *plan)
{
    return plan->job->kind == SIMBA__JOB_EVERY && !plan->job->is_delay;
}

void simba__plan_init(struct simba__plan *plan, const struct simba__job *job)
{
    memset(plan, 0, sizeof *plan);
    plan->job = job;
    plan->due_ms = SIMBA__CLOCK_NEVER;
    plan->backoff_ms = BACKOFF_LEAST_MS;
}

/* The first multiple of the period from there on. */
static int64_t round_up(int64_t at_ms, int64_t period_ms)
{
    int64_t past_ms = at_ms % period_ms; /* negative before 0 */

    assert(period_ms > 0);
    return at_ms - past_ms + (past_ms > 0 ? period_ms : 0);
}

/* A beat of the very millisecond of the grant, or before, may have been run by
 * the leader before us. */
void simba__plan_begin(struct simba__plan *plan,
                       int64_t now_ms,
                       const struct simba__plan_clock *clock)
{
    int64_t first_ms = now_ms + plan->job->initial_delay_ms;
    int64_t beat_ms = first_ms + clock->offset_ms;

    plan->is_due = plan->is_running = false;
    plan->due_ms = first_ms;
    plan->offset_ms = clock->offset_ms;
    if (is_rate(plan)) {
        beat_ms = beat_ms > clock->granted_ms ? beat_ms : clock->granted_ms + 1;
        plan->next_ms = round_up(beat_ms, plan->job->period_ms);
    }
}

/* A clock that was set back by more than a beat would leave us idle for as
 * long: then its beats are counted anew. */
void simba__plan_tune(struct simba__plan *plan,
                      int64_t now_ms,
                      int64_t offset_ms)
{
    int64_t period_ms = plan->job->period_ms;
    int64_t ahead_ms = plan->next_ms - now_ms - offset_ms;

    if (is_rate(plan) && offset_ms < plan->offset_ms - period_ms &&
        ahead_ms > period_ms) {
        plan->next_ms = round_up(now_ms + offset_ms, period_ms);
    }
    plan->offset_ms = offset_ms;
}

/* By our clock. A beat that comes while CMD runs is skipped a moment later: if
 * CMD ends in that very instant it is not too late. */
int64_t simba__plan_wake_at(const struct simba__plan *plan)
{
    if (plan->is_due) {
        return SIMBA__CLOCK_NEVER; /* it is being seen to */
    }
    if (is_rate(plan)) {
        return plan->next_ms - plan->offset_ms + (plan->is_running ? 1 : 0);
    }
    return plan->is_running ? SIMBA__CLOCK_NEVER : plan->due_ms;
}

static void skip(struct simba__plan *plan, uint64_t count)
{
    if (count > 0 && plan->skipped == 0) {
        plan->skipped_ms = plan->next_ms;
    }
    plan->skipped += count;
    plan->next_ms += (int64_t)count * plan->job->period_ms;
}

/* Told at once, not when CMD ends: it may hang. */
static void look_on(struct simba__plan *plan, int64_t now_ms)
{
    int64_t late_ms = now_ms + plan->offset_ms - plan->next_ms;

    if (late_ms > 0 && is_rate(plan)) {
        skip(plan, (uint64_t)((late_ms - 1) / plan->job->period_ms) + 1);
    }
}

void simba__plan_look(struct simba__plan *plan, int64_t now_ms)
{
    int64_t late_ms = now_ms + plan->offset_ms - plan->next_ms;

    if (plan->is_running) {
        look_on(plan, now_ms);
    } else if (is_rate(plan)) {
        if (late_ms >= 0) {
            /* Of several beats that passed unnoticed the last is run, late. */
            skip(plan, (uint64_t)(late_ms / plan->job->period_ms));
            plan->beat_ms = plan->next_ms;
            plan->next_ms += plan->job->period_ms;
            plan->is_due = plan->is_running = true;
        }
    } else if (now_ms >= plan->due_ms) {
        plan->is_due = plan->is_running = true;
    }
}

void simba__plan_started(struct simba__plan *plan, int64_t now_ms)
{
    assert(plan->is_due && plan->is_running);
    plan->is_due = false;
    plan->started_ms = now_ms;
    plan->runs++;
}

void simba__plan_done(struct simba__plan *plan, int64_t now_ms)
{
    int64_t wait_ms = plan->job->period_ms;

    assert(plan->is_running && !plan->is_due);
    look_on(plan, now_ms);
    plan->is_running = false;
    if (plan->job->kind != SIMBA__JOB_EVERY) {
        wait_ms = now_ms - plan->started_ms >= STEADY_MS ? BACKOFF_LEAST_MS
                                                         : plan->backoff_ms;
        plan->backoff_ms =
            wait_ms < BACKOFF_MOST_MS / 2 ? wait_ms * 2 : BACKOFF_MOST_MS;
    }
    plan->due_ms = now_ms + wait_ms;
}

void simba__plan_end(struct simba__plan *plan)
{
    plan->is_due = plan->is_running = false;
    plan->due_ms = SIMBA__CLOCK_NEVER;
    plan->skipped = 0;
}
