/* The schedule machine: decides when the periodic work of an owner starts.
 *
 * Who owns the mutex is told by events; what the work is, and the thread it
 * runs on, are the caller's. Beats are kept on the grid's clock, which is ours
 * or, for an aligned grid, the store's; only wake_at goes back to ours. */
#include "core/schedule.h"

#include "core/saturate.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#define NEVER INT64_MAX

typedef struct simba__schedule schedule;
typedef struct simba__schedule_event event;
typedef struct simba__schedule_update update;

/* From the earlier to the later; exact, whatever their signs. */
static uint64_t distance(int64_t earlier, int64_t later)
{
    assert(earlier <= later);
    return (uint64_t)later - (uint64_t)earlier;
}

static bool is_rate(const schedule *s)
{
    return s->config.kind == SIMBA__SCHEDULE_FIXED_RATE;
}

static uint64_t period_of(const schedule *s)
{
    return (uint64_t)s->config.period_ms;
}

static bool is_owned(const schedule *s)
{
    return s->state == SIMBA__SCHEDULE_WAITING ||
           s->state == SIMBA__SCHEDULE_WORKING ||
           s->state == SIMBA__SCHEDULE_OVERTAKEN;
}

/* The time of an event by the clock that the beats are kept on. */
static int64_t grid_now(const schedule *s, const event *ev)
{
    return simba__add_saturating(ev->now_ms, s->offset_ms);
}

/* A beat beyond the end of time is no beat: it is not due even there. */
static bool is_due(const schedule *s, int64_t now)
{
    return s->next_ms <= now && s->next_ms != NEVER;
}

/* How far `at` is from the next multiple of the period, 0 when it is one. */
static int64_t until_multiple(int64_t at, int64_t period)
{
    int64_t past = at % period; /* negative before 0 */

    if (past > 0) {
        return period - past;
    }
    return -past;
}

/* Move the next beat to the last one at or before `now`. Returns how many were
 * passed over. */
static uint64_t skip_to_latest(schedule *s, int64_t now)
{
    uint64_t beats;

    assert(is_rate(s) && s->config.period_ms > 0);
    if (!is_due(s, now)) {
        return 0;
    }
    beats = distance(s->next_ms, now) / period_of(s);
    s->next_ms = (int64_t)((uint64_t)s->next_ms + beats * period_of(s));
    return beats;
}

/* Move the next beat to the first one at or after `now`. Returns how many were
 * passed over: all before `now`, but not one that is due right now. */
static uint64_t skip_past(schedule *s, int64_t now)
{
    uint64_t beats = skip_to_latest(s, now);

    if (s->next_ms < now) {
        s->next_ms = simba__add_saturating(s->next_ms, s->config.period_ms);
        beats++;
    }
    return beats;
}

static void begin_tenure(schedule *s, const event *ev)
{
    int64_t first;

    assert(!is_owned(s));
    s->state = s->state == SIMBA__SCHEDULE_LEAVING ? SIMBA__SCHEDULE_OVERTAKEN
                                                   : SIMBA__SCHEDULE_WAITING;
    s->token = ev->token;
    s->aligned = ev->aligned && is_rate(s);
    s->offset_ms = s->aligned ? ev->store_offset_ms : 0;
    first = simba__add_saturating(grid_now(s, ev), s->config.initial_delay_ms);
    if (s->aligned) {
        first = simba__add_saturating(
            first, until_multiple(first, s->config.period_ms));
    }
    s->first_ms = first;
    s->next_ms = first;
}

/* The beats that passed without a run are counted up to here: work that hangs
 * for a whole tenure would otherwise seem to have missed nothing. */
static void end_tenure(schedule *s, const event *ev, update *up)
{
    if (!is_owned(s)) {
        return; /* the user stops what is over already */
    }
    if (is_rate(s)) {
        up->skipped = skip_past(s, grid_now(s, ev));
    }
    if (s->state == SIMBA__SCHEDULE_WORKING) {
        up->flags |= SIMBA__SCHEDULE_STOP_WORK;
        up->token = s->token;
        up->run = s->run;
    }
    s->state = s->state == SIMBA__SCHEDULE_WAITING ? SIMBA__SCHEDULE_IDLE
                                                   : SIMBA__SCHEDULE_LEAVING;
    s->next_ms = NEVER;
}

/* Work of an earlier tenure does not touch the beats of this one. They can be
 * far apart, and to skip the first because of a second's delay could leave a
 * daily job undone for a day; so it is run late instead. */
static void end_work(schedule *s, const event *ev, update *up)
{
    int64_t now = grid_now(s, ev);

    assert(simba__schedule_is_working(s));
    if (s->state == SIMBA__SCHEDULE_LEAVING) {
        s->state = SIMBA__SCHEDULE_IDLE;
        return;
    }
    if (s->state == SIMBA__SCHEDULE_WORKING) {
        if (is_rate(s)) {
            up->skipped = skip_past(s, now);
        } else {
            s->next_ms = simba__add_saturating(now, s->config.period_ms);
        }
    }
    s->state = SIMBA__SCHEDULE_WAITING;
}

static void run_if_due(schedule *s, int64_t now, update *up)
{
    if (s->state != SIMBA__SCHEDULE_WAITING || !is_due(s, now)) {
        return;
    }
    if (is_rate(s)) {
        up->skipped += skip_to_latest(s, now);
    }
    s->state = SIMBA__SCHEDULE_WORKING;
    s->run++;
    up->flags |= SIMBA__SCHEDULE_RUN;
    up->token = s->token;
    up->run = s->run;
    up->beat_ms = s->next_ms;
    /* After a delay the next run is known only when this one is done. */
    s->next_ms = is_rate(s)
                     ? simba__add_saturating(s->next_ms, s->config.period_ms)
                     : NEVER;
}

/* Holds after every step; a build without asserts has an empty function. */
static void check_invariants(const schedule *s, int64_t now, const update *up)
{
    assert(s->state <= SIMBA__SCHEDULE_OVERTAKEN);
    assert(s->run > 0 || !simba__schedule_is_working(s));
    assert(is_owned(s) || s->next_ms == NEVER);
    assert(is_rate(s) || (up->skipped == 0 && s->offset_ms == 0));
    /* Nothing that is due is left lying. */
    assert(s->state != SIMBA__SCHEDULE_WAITING || !is_due(s, now));
    /* The grid is never left; after a delay there is none to leave. */
    assert(!is_rate(s) || s->next_ms == NEVER ||
           distance(s->first_ms, s->next_ms) % period_of(s) == 0);
    assert(is_rate(s) || s->state != SIMBA__SCHEDULE_WORKING ||
           s->next_ms == NEVER);
    /* Work starts in its own tenure, and is told of its end by that end. */
    assert((up->flags & SIMBA__SCHEDULE_RUN) == 0 ||
           (s->state == SIMBA__SCHEDULE_WORKING && up->beat_ms <= now));
    assert((up->flags & SIMBA__SCHEDULE_STOP_WORK) == 0 ||
           s->state == SIMBA__SCHEDULE_LEAVING);
    (void)s;
    (void)now;
    (void)up;
}

enum simba__schedule_problem simba__schedule_config_check(
    const struct simba__schedule_config *config)
{
    assert(config != NULL);
    if (config->kind != SIMBA__SCHEDULE_FIXED_RATE &&
        config->kind != SIMBA__SCHEDULE_FIXED_DELAY) {
        return SIMBA__SCHEDULE_KIND_UNKNOWN;
    }
    if (config->initial_delay_ms < 0) {
        return SIMBA__SCHEDULE_INITIAL_DELAY_NEGATIVE;
    }
    if (config->initial_delay_ms > SIMBA__SCHEDULE_MOST_MS) {
        return SIMBA__SCHEDULE_INITIAL_DELAY_LONG;
    }
    if (config->period_ms < 0) {
        return SIMBA__SCHEDULE_PERIOD_NEGATIVE;
    }
    if (config->period_ms > SIMBA__SCHEDULE_MOST_MS) {
        return SIMBA__SCHEDULE_PERIOD_LONG;
    }
    if (config->kind == SIMBA__SCHEDULE_FIXED_RATE && config->period_ms == 0) {
        return SIMBA__SCHEDULE_RATE_WITHOUT_PERIOD;
    }
    return SIMBA__SCHEDULE_FINE;
}

const char *const simba__schedule_problem_texts[] = {
#define X(name, text) text,
    SIMBA__SCHEDULE_PROBLEM_MAP(X)
#undef X
};

void simba__schedule_init(struct simba__schedule *s,
                          const struct simba__schedule_config *config)
{
    assert(s != NULL);
    assert(simba__schedule_config_check(config) == SIMBA__SCHEDULE_FINE);
    memset(s, 0, sizeof *s);
    s->config = *config;
    s->state = SIMBA__SCHEDULE_IDLE;
    s->next_ms = NEVER;
}

void simba__schedule_step(struct simba__schedule *s,
                          const struct simba__schedule_event *ev,
                          struct simba__schedule_update *up)
{
    assert(s != NULL && ev != NULL && up != NULL);
    memset(up, 0, sizeof *up);
    switch (ev->type) {
    case SIMBA__SCHEDULE_ACQUIRED:
        begin_tenure(s, ev);
        break;
    case SIMBA__SCHEDULE_RELEASED:
        end_tenure(s, ev, up);
        break;
    case SIMBA__SCHEDULE_DONE:
        end_work(s, ev, up);
        break;
    case SIMBA__SCHEDULE_OFFSET:
        s->offset_ms = s->aligned ? ev->store_offset_ms : 0;
        break;
    case SIMBA__SCHEDULE_TIMER:
        break; /* what is due is run below, whichever event brought us here */
    }
    run_if_due(s, grid_now(s, ev), up);
    check_invariants(s, grid_now(s, ev), up);
}

int64_t simba__schedule_wake_at(const struct simba__schedule *s)
{
    assert(s != NULL);
    if (s->state != SIMBA__SCHEDULE_WAITING || s->next_ms == NEVER) {
        return NEVER;
    }
    /* A step leaves no beat that is due, so this one lies ahead of us, and the
     * difference can only be too large. */
    if (s->offset_ms < 0 && s->next_ms > INT64_MAX + s->offset_ms) {
        return NEVER;
    }
    return s->next_ms - s->offset_ms;
}

bool simba__schedule_is_working(const struct simba__schedule *s)
{
    assert(s != NULL);
    return s->state == SIMBA__SCHEDULE_WORKING ||
           s->state == SIMBA__SCHEDULE_LEAVING ||
           s->state == SIMBA__SCHEDULE_OVERTAKEN;
}
