/* The contention machine: events in, dispatch, timers, invariants. What a
 * phase does about them is in contend_wait.c, contend_own.c and
 * contend_leave.c. */
#include "core/contend_internal.h"
#include "core/plant.h"

#include <assert.h>
#include <string.h>

/* No try is cut off earlier: a healthy store may take this long. */
enum { TRY_LEAST_MS = 50 };

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Adds without overflow, so that "never" stays never. */
int64_t simba__contend_later(int64_t at_ms, int64_t by_ms)
{
    assert(by_ms >= 0);
    return at_ms > SIMBA__NEVER - by_ms ? SIMBA__NEVER : at_ms + by_ms;
}

/* Four tries fit into what is left (design 5). */
int64_t simba__contend_try_ms(int64_t left_ms)
{
    return left_ms / 4 > TRY_LEAST_MS ? left_ms / 4 : TRY_LEAST_MS;
}

/* Doubles with every failure in a row, spread by a quarter either way so that
 * contenders that failed together do not come back together. */
int64_t simba__contend_backoff_ms(struct simba__contend *c,
                                  int64_t first_ms,
                                  int64_t most_ms)
{
    unsigned doublings = c->failures < 16 ? c->failures : 16;
    int64_t delay = earlier(first_ms << doublings, most_ms);
    uint64_t spread = (uint64_t)delay / 2;

    assert(first_ms > 0 && most_ms > 0);
    c->failures++;
    return delay - delay / 4 + (int64_t)simba__rng_below(&c->rng, spread);
}

/* A request under way when the next is sent is given up: its reply is stale
 * from here on. */
void simba__contend_send(struct simba__contend *c,
                         enum simba_request_kind kind,
                         int64_t timeout_ms,
                         struct simba__contend_update *up)
{
    assert(up->send.kind == SIMBA_NO_REQUEST); /* one request a step */
    c->inflight = kind;
    c->sent_ms = c->now_ms;
    c->timeout_at_ms = simba__contend_later(c->now_ms, timeout_ms);
    c->next_ms = SIMBA__NEVER;
    c->seq++;
    if (kind == SIMBA_ACQUIRE || kind == SIMBA_RENEW) {
        c->last_claim_ms = c->now_ms;
    }
    up->send.size = sizeof up->send;
    up->send.reply.size = sizeof up->send.reply;
    up->send.kind = kind;
    up->send.seq = c->seq;
    up->send.attempt = c->attempt;
    up->send.token = c->token;
    up->send.ttl_ms = c->config.lease.ttl_ms;
    up->send.transition_ms = c->config.lease.transition_ms;
    up->send.deadline_ms = c->timeout_at_ms;
}

static bool is_out_of_range(int64_t ms)
{
    return ms < 0 || ms > SIMBA__LEASE_MOST_MS;
}

enum simba__contend_problem simba__contend_config_check(
    const struct simba__contend_config *config)
{
    if (simba__lease_check(&config->lease) != SIMBA__LEASE_FINE) {
        return SIMBA__CONTEND_LEASE;
    }
    if (is_out_of_range(config->initial_delay_ms)) {
        return SIMBA__CONTEND_INITIAL_DELAY;
    }
    if (is_out_of_range(config->max_hold_ms)) {
        return SIMBA__CONTEND_MAX_HOLD;
    }
    if (is_out_of_range(config->min_hold_ms)) {
        return SIMBA__CONTEND_MIN_HOLD;
    }
    if (config->max_hold_ms > 0 && config->min_hold_ms > config->max_hold_ms) {
        return SIMBA__CONTEND_HOLD_ORDER;
    }
    if (is_out_of_range(config->progress_ms)) {
        return SIMBA__CONTEND_PROGRESS;
    }
    return SIMBA__CONTEND_FINE;
}

void simba__contend_init(struct simba__contend *c,
                         const struct simba__contend_config *config,
                         const struct simba__rng *rng)
{
    assert(simba__contend_config_check(config) == SIMBA__CONTEND_FINE);
    memset(c, 0, sizeof *c);
    c->config = *config;
    c->granted = config->lease;
    c->rng = *rng;
    c->next_ms = SIMBA__NEVER;
    c->last_claim_ms = -1;
}

/* Told, and far enough from the ends of the number line to reckon with. */
static bool is_clock(int64_t store_ms)
{
    return store_ms > 0 && store_ms < SIMBA__NEVER / 4;
}

static int64_t later_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* S1: a step of the store's clock shows as two intervals of its offset that
 * clock rates alone cannot explain. What is known of the offset is kept as
 * narrow as the answers allow: a slow one must not hide a step. */
static bool has_clock_jumped(struct simba__contend *c, int64_t store_ms)
{
    int64_t margin = simba__lease_margin_ms(&c->config.lease);
    int64_t drift = (c->now_ms - c->clock_seen_ms) / 1000 * 21 + 21;
    int64_t low = store_ms - c->now_ms, high = store_ms - c->sent_ms;
    int64_t old_low = c->clock_low_ms - drift;
    int64_t old_high = c->clock_high_ms + drift;
    bool jumped = c->is_clock_known &&
                  (low > old_high + margin || high < old_low - margin);

    if (c->is_clock_known && low <= old_high && high >= old_low) {
        low = later_of(low, old_low);
        high = earlier(high, old_high);
    }
    c->is_clock_known = true;
    c->clock_seen_ms = c->sent_ms;
    c->clock_low_ms = low;
    c->clock_high_ms = high;
    return jumped;
}

/* `reply` is NULL when there is no answer. */
static void dispatch_reply(struct simba__contend *c,
                           enum simba__outcome outcome,
                           const simba_reply *reply,
                           struct simba__contend_update *up)
{
    enum simba_request_kind kind = c->inflight;
    bool jumped = false;

    assert((outcome == SIMBA__ANSWERED) == (reply != NULL));
    c->inflight = SIMBA_NO_REQUEST;
    if (reply != NULL) {
        c->is_heard = true;
        jumped =
            is_clock(reply->store_ms) && has_clock_jumped(c, reply->store_ms);
    }
    if (kind == SIMBA_ACQUIRE) {
        simba__contend_asked(c, outcome, reply, up);
    } else if (kind == SIMBA_RENEW) {
        simba__contend_renewed(c, reply, up);
    } else {
        simba__contend_parted(c, reply, up);
    }
    if (jumped) {
        up->tell |= SIMBA__TELL_CLOCK_JUMP;
        if (c->phase == SIMBA__OWNER) { /* asks again at once, once */
            c->next_ms =
                c->was_jump
                    ? simba__contend_later(c->sent_ms, SIMBA__WAKE_SPACING_MS)
                    : c->now_ms;
        }
    }
    if (reply != NULL) {
        c->was_jump = jumped;
    }
}

static void step_reply(struct simba__contend *c,
                       const struct simba__contend_event *event,
                       struct simba__contend_update *up)
{
    bool is_stale = event->seq != c->seq && !PLANTED(STALE_REPLIES);

    if (c->inflight == SIMBA_NO_REQUEST || is_stale) {
        return; /* given up long ago: nothing may hang on it any more */
    }
    dispatch_reply(c, event->outcome,
                   event->outcome == SIMBA__ANSWERED ? event->reply : NULL, up);
}

static void step_wake(struct simba__contend *c,
                      struct simba__contend_update *up)
{
    int64_t soon = simba__contend_later(c->sent_ms, SIMBA__WAKE_SPACING_MS);

    if (PLANTED(WAKE_IS_GRANT) && c->phase == SIMBA__WAITING) {
        simba_reply grant = {.mine = true, .token = c->token + 1};

        c->sent_ms = c->now_ms;
        c->inflight = SIMBA_NO_REQUEST;
        simba__contend_own(c, &grant, up);
        return;
    }
    if (c->last_claim_ms < 0) {
        return; /* we have not asked yet: it cannot be meant for us */
    }
    if (c->inflight != SIMBA_NO_REQUEST) {
        /* S10: the store may have looked before it changed. */
        c->is_woken = !PLANTED(WAKE_DROPPED);
    } else if (c->phase == SIMBA__WAITING) {
        c->next_ms = simba__contend_woken_at(c);
        c->is_backstop = false;
    } else if (c->phase == SIMBA__OWNER) {
        c->next_ms = earlier(c->next_ms, soon);
    }
}

static void step_stop(struct simba__contend *c,
                      struct simba__contend_update *up)
{
    if (c->phase == SIMBA__IDLE || c->stopping) {
        return;
    }
    c->stopping = true;
    if (c->phase == SIMBA__WAITING) {
        simba__contend_quit(c, up);
    } else if (c->phase == SIMBA__OWNER) {
        simba__contend_leave(c, SIMBA__CAUSE_STOP, up);
    }
}

static void step_start(struct simba__contend *c)
{
    assert(c->phase == SIMBA__IDLE);
    c->stopping = false;
    c->is_heard = false;
    c->failures = 0;
    simba__contend_begin(
        c, simba__contend_later(c->now_ms, c->config.initial_delay_ms));
}

static void step_progress(struct simba__contend *c, int64_t given_ms)
{
    if (given_ms == 0) {
        given_ms = c->now_ms;
    }
    if (given_ms > c->progress_ms) {
        c->progress_ms = given_ms;
    }
    if (c->phase == SIMBA__OWNER && c->inflight == SIMBA_NO_REQUEST &&
        c->next_ms == SIMBA__NEVER) {
        c->next_ms = c->now_ms; /* a renewal had been held back */
    }
}

static void dispatch(struct simba__contend *c,
                     const struct simba__contend_event *event,
                     struct simba__contend_update *up)
{
    switch (event->type) {
    case SIMBA__START:
        step_start(c);
        break;
    case SIMBA__STOP:
        step_stop(c, up);
        break;
    case SIMBA__REPLIED:
        step_reply(c, event, up);
        break;
    case SIMBA__WAKE_UP:
        step_wake(c, up);
        break;
    case SIMBA__RETURNED:
        c->is_calling = false;
        break;
    case SIMBA__PROGRESS:
        step_progress(c, event->progress_ms);
        break;
    case SIMBA__TIMER:
        break; /* what is due is done after every event */
    }
}

/* No new tenure while the end of the last one is still being told: its
 * on_acquired could not be called (S9). */
static bool may_send(const struct simba__contend *c)
{
    return c->inflight == SIMBA_NO_REQUEST &&
           !(c->phase == SIMBA__WAITING && c->is_calling);
}

static void send_next(struct simba__contend *c,
                      struct simba__contend_update *up)
{
    if (c->phase == SIMBA__WAITING) {
        simba__contend_ask(c, up);
    } else if (c->phase == SIMBA__RELEASING) {
        simba__contend_parting(c, up);
    } else {
        simba__contend_renew(c, up);
    }
}

/* Everything that has come due by now, in the order of its urgency. */
static void do_what_is_due(struct simba__contend *c,
                           struct simba__contend_update *up)
{
    if (c->inflight != SIMBA_NO_REQUEST && c->now_ms >= c->timeout_at_ms) {
        dispatch_reply(c, SIMBA__UNKNOWN, NULL, up);
    }
    if (c->phase == SIMBA__LEAVING) {
        simba__contend_left(c, up);
    }
    if (c->phase == SIMBA__RELEASING) {
        simba__contend_part_if_over(c, up);
    }
    if (may_send(c) && c->now_ms >= c->next_ms) {
        send_next(c, up);
    }
}

static void check_invariants(const struct simba__contend *c)
{
    bool is_asking = c->inflight == SIMBA_ACQUIRE;
    bool is_parting =
        c->inflight == SIMBA_RELEASE || c->inflight == SIMBA_LEAVE;

    assert((c->phase == SIMBA__OWNER) == (c->owner_until_ms != 0));
    assert(c->phase != SIMBA__OWNER || c->owner_until_ms > c->now_ms);
    assert(c->phase != SIMBA__OWNER || !c->is_calling);
    assert(c->phase != SIMBA__IDLE || c->inflight == SIMBA_NO_REQUEST);
    assert(!is_asking || c->phase == SIMBA__WAITING);
    assert(!is_parting || c->phase == SIMBA__RELEASING);
    assert(c->phase != SIMBA__WAITING || !c->stopping);
    assert(c->phase != SIMBA__OWNER || !c->stopping);
}

void simba__contend_step(struct simba__contend *c,
                         const struct simba__contend_event *event,
                         struct simba__contend_update *update)
{
    memset(update, 0, sizeof *update);
    if (event->now_ms > c->now_ms) {
        c->now_ms = event->now_ms;
    }
    if (c->phase == SIMBA__OWNER && c->now_ms >= c->owner_until_ms) {
        simba__contend_lapse(c, update); /* noticed before anything else */
    }
    dispatch(c, event, update);
    do_what_is_due(c, update);
    if (!ANYTHING_PLANTED()) {
        check_invariants(c);
    }
}

bool simba__contend_is_owner(const struct simba__contend *c, int64_t now_ms)
{
    return PLANTED(OWNER_FLAG) ? c->owner_until_ms != 0
                               : now_ms < c->owner_until_ms;
}

int64_t simba__contend_wake_at(const struct simba__contend *c)
{
    int64_t at = SIMBA__NEVER;

    if (c->inflight != SIMBA_NO_REQUEST) {
        at = c->timeout_at_ms;
    } else if (may_send(c)) {
        at = c->next_ms;
    }
    if (c->phase == SIMBA__OWNER) {
        at = earlier(at, c->owner_until_ms);
    } else if (c->phase == SIMBA__LEAVING) {
        at = earlier(at, simba__contend_leave_at(c));
    } else if (c->phase == SIMBA__RELEASING) {
        at = earlier(at, c->part_until_ms);
    }
    return at;
}

enum simba__status simba__contend_status(const struct simba__contend *c)
{
    if (c->phase == SIMBA__IDLE) {
        return SIMBA__INITIAL;
    }
    if (c->stopping) {
        return SIMBA__STOPPING;
    }
    return c->is_heard ? SIMBA__RUNNING : SIMBA__STARTING;
}
