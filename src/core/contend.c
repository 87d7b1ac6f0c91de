/* The contention machine; see contend.h for its phases and docs/safety.md for
 * the rules. In the order of this file: what all phases share, the way out
 * (LEAVING, RELEASING), OWNER, WAITING, and the events that drive them. */
#include "core/contend.h"

#include "core/mutex_model.h"
#include "core/plant.h"

#include <assert.h>
#include <string.h>

enum {
    /* No try is cut off earlier: a healthy store may take this long. */
    TRY_LEAST_MS = 50,
    /* Asking again after a failure. */
    ASK_FIRST_MS = 50,
    ASK_MOST_MS = 5000,
    /* Renewing again after a failure: fast at first (S8). */
    RENEW_FIRST_MS = 10,
    RENEW_LATE_MS = 1000,
    /* Releasing again after a failure. */
    PART_FIRST_MS = 20,
    PART_MOST_MS = 1000,
    /* For those without a position in the queue, around the end of a lease. */
    JITTER_LOW_MS = -200,
    JITTER_HIGH_MS = 1000,
    /* However little the store says is left, ask no oftener than this. */
    ASK_SPACING_MS = 5,
    /* A wake-up is followed at once, but a storm of them, forged or doubled,
     * must not become a storm of requests: so many, until it was calm. */
    WAKE_HURRIES = 4,
    WAKE_SPACING_MS = 2,
    WAKE_CALM_MS = 100,
    OWNER_WAKE_SPACING_MS = 50,
    WAKE_DOUBLINGS = 4
};

/* --- what all phases share ----------------------------------------------- */

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t later_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Adds without overflow, so that "never" stays never. */
static int64_t later(int64_t at_ms, int64_t by_ms)
{
    assert(by_ms >= 0);
    return at_ms > SIMBA__NEVER - by_ms ? SIMBA__NEVER : at_ms + by_ms;
}

/* Four tries fit into what is left. */
static int64_t try_ms(int64_t left_ms)
{
    return left_ms / 4 > TRY_LEAST_MS ? left_ms / 4 : TRY_LEAST_MS;
}

/* When to try again what failed. The delay doubles with every failure in a row
 * and is spread by a quarter either way, so that contenders that failed
 * together do not come back together. */
static void retry(struct simba__contend *c,
                  int64_t first_ms,
                  int64_t most_ms,
                  struct simba__rng *rng)
{
    unsigned doublings = c->failures < 16 ? c->failures : 16;
    int64_t delay = earlier(first_ms << doublings, most_ms);
    uint64_t spread = (uint64_t)delay / 2;

    assert(first_ms > 0 && most_ms > 0);
    c->failures = (uint8_t)(doublings + 1);
    delay += (int64_t)simba__rng_below(rng, spread) - delay / 4;
    c->due_ms = later_of(later(c->sent_ms, delay), c->now_ms);
}

/* A request under way when the next is sent is given up: its reply is stale
 * from here on. */
static void send(struct simba__contend *c,
                 enum simba_request_kind kind,
                 int64_t timeout_ms,
                 struct simba__contend_update *up)
{
    assert(up->send.kind == SIMBA_NO_REQUEST); /* one request a step */
    c->inflight = (uint8_t)kind;
    c->sent_ms = c->now_ms;
    c->due_ms = later(c->now_ms, timeout_ms);
    c->seq++;
    c->has_claimed |= kind == SIMBA_ACQUIRE;
    up->send.size = sizeof up->send;
    up->send.reply.size = sizeof up->send.reply;
    up->send.kind = kind;
    up->send.seq = c->seq;
    up->send.attempt = c->attempt;
    up->send.token = simba__contend_token(c);
    up->send.ttl_ms = c->config->lease.ttl_ms;
    up->send.transition_ms = c->config->lease.transition_ms;
    up->send.deadline_ms = c->due_ms;
    up->send.slots = c->config->slots;
}

/* A new attempt, the first request of which is due at `at_ms`. */
static void begin(struct simba__contend *c,
                  int64_t at_ms,
                  struct simba__rng *rng)
{
    c->phase = SIMBA__WAITING;
    c->attempt.high = simba__rng_next(rng);
    c->attempt.low = simba__rng_next(rng);
    c->is_doubtful = c->is_queued = c->is_gone = false;
    c->is_woken = c->is_backstop = c->is_urgent = c->has_claimed = false;
    c->hurries = c->vain_wakes = 0;
    c->position = 0;
    if (c->tenure != NULL) {
        c->tenure->token = c->tenure->slot = 0;
        c->tenure->to[0] = '\0';
    }
    c->due_ms = at_ms;
}

/* The store knows nothing of us any more: rest, or contend anew. */
static void finish(struct simba__contend *c, struct simba__contend_update *up)
{
    c->inflight = SIMBA_NO_REQUEST;
    c->is_held = false;
    c->failures = 0;
    if (!c->stopping) {
        begin(c, c->now_ms, up->rng);
        return;
    }
    c->phase = SIMBA__IDLE;
    c->stopping = false;
    c->is_heard = false;
    c->has_claimed = false;
    c->due_ms = SIMBA__NEVER;
    up->tell |= SIMBA__TELL_STOPPED;
    if (PLANTED(TOLD_AFTER_STOP)) {
        up->tell |= SIMBA__TELL_ACQUIRED;
    }
}

/* --- RELEASING: telling the store ---------------------------------------- */

/* Once more if need be (S8). */
static void tell_store(struct simba__contend *c,
                       struct simba__contend_update *up)
{
    int64_t left = c->until_ms - c->now_ms;

    assert(c->phase == SIMBA__RELEASING);
    send(c, c->parting, try_ms(left), up);
    up->send.to =
        c->tenure != NULL && c->tenure->to[0] != '\0' ? c->tenure->to : NULL;
    if (c->is_doubtful && !PLANTED(NO_TOMBSTONE)) {
        up->send.tombstone_ms = simba__lease_length_ms(&c->config->lease);
    }
}

/* A release is sent until it is answered, or until the store has ended the
 * lease by itself, whatever it heard. An acquire still on its way makes its
 * lease only when it arrives, so a doubtful attempt counts from now: the
 * tombstone must get there (S8). A position in the queue outlives a lease, so
 * leaving it counts from now as well. */
static void part(struct simba__contend *c,
                 enum simba_request_kind parting,
                 struct simba__contend_update *up)
{
    bool is_tenure = parting == SIMBA_RELEASE && !c->is_doubtful;

    c->phase = SIMBA__RELEASING;
    c->is_held = false;
    c->parting = (uint8_t)parting;
    /* What a tenure has sent last is an acquire or a renewal. */
    c->until_ms = later(is_tenure ? c->sent_ms : c->now_ms,
                        simba__lease_over_ms(&c->config->lease));
    c->failures = 0;
    if (c->now_ms >= c->until_ms) {
        finish(c, up); /* nothing is left to release */
    } else {
        tell_store(c, up);
    }
}

/* --- LEAVING: on_released runs ------------------------------------------- */

static struct simba__lease granted_lease(const struct simba__contend *c)
{
    return simba__lease_shorten(&c->config->lease, c->tenure->granted_ms);
}

static void leave(struct simba__contend *c,
                  enum simba__cause cause,
                  struct simba__contend_update *up)
{
    bool is_by_choice = cause == SIMBA__CAUSE_STOP ||
                        cause == SIMBA__CAUSE_MAX_HOLD ||
                        cause == SIMBA__CAUSE_ASKED;
    int64_t budget_until = later(c->now_ms, c->config->lease.budget_ms);
    struct simba__lease granted = granted_lease(c);
    int64_t hard = simba__lease_hard_ms(&granted);
    int64_t hard_until = later(c->tenure->lease_from_ms, later_of(hard, 0));

    assert(c->phase == SIMBA__OWNER && !c->is_calling);
    c->phase = SIMBA__LEAVING;
    c->tenure->owner_until_ms = 0;
    c->is_calling = true;
    c->is_overrun = false;
    /* By choice on_released has its budget from now: at most U, so it ends
     * before H. On loss it has until H; after a pause over U the budget all the
     * same, for the lease is spoilt already and an overrun should mean the
     * user's slowness. */
    c->until_ms =
        is_by_choice ? budget_until : later_of(budget_until, hard_until);
    c->is_kept = cause == SIMBA__CAUSE_STOP || cause == SIMBA__CAUSE_ASKED;
    if (!is_by_choice) {
        c->inflight = SIMBA_NO_REQUEST;
        c->due_ms = SIMBA__NEVER;
    } else if (c->inflight == SIMBA_NO_REQUEST && c->due_ms == SIMBA__NEVER) {
        c->due_ms = c->now_ms; /* held back for want of progress; but now it
                                * is renewed until on_released is back */
    }
    up->tell |= SIMBA__TELL_RELEASED;
    up->cause = cause;
    up->token = c->tenure->token;
    up->slot = c->tenure->slot;
    up->deadline_ms = c->until_ms;
    if (PLANTED(RELEASE_FIRST)) {
        part(c, SIMBA_RELEASE, up);
    }
}

/* The instant at which LEAVING has something to do. */
static int64_t leave_at(const struct simba__contend *c)
{
    if (c->is_calling && !c->is_overrun) {
        return c->until_ms;
    }
    return c->is_kept && !c->is_gone /* renewed meanwhile */
               ? later(c->tenure->held_since_ms, c->config->min_hold_ms)
               : 0;
}

static void left(struct simba__contend *c, struct simba__contend_update *up)
{
    if (c->now_ms < leave_at(c)) {
        return;
    }
    if (c->is_calling && !c->is_overrun) {
        c->is_overrun = true;
        up->tell |= SIMBA__TELL_OVERRUN;
        if (c->now_ms < leave_at(c)) {
            return; /* min_hold goes on */
        }
    }
    if (c->is_gone && !c->is_doubtful) {
        finish(c, up);
    } else {
        part(c, SIMBA_RELEASE, up);
    }
}

/* --- OWNER: renewing the lease, and noticing that it is lost ------------- */

static int64_t use_from(int64_t from_ms, const struct simba__lease *granted)
{
    /* Below zero when less was granted than the budget takes. */
    return later(from_ms, later_of(simba__lease_use_ms(granted), 0));
}

static int64_t use_until(const struct simba__contend *c)
{
    struct simba__lease granted = granted_lease(c);

    return use_from(c->tenure->lease_from_ms, &granted);
}

/* A wake-up may say that we are asked to hand over, or be for another of this
 * handle: in vain again and again, it is followed once in a second; while no
 * progress is made, not at all. */
static int64_t owner_woken_at(const struct simba__contend *c)
{
    return later(c->sent_ms, OWNER_WAKE_SPACING_MS << c->vain_wakes);
}

/* The newest grant counts, unless an older one lasts longer: a store may grant
 * less, but never takes back what it has granted. */
static void extend(struct simba__contend *c, int64_t granted_ms)
{
    bool is_first = c->phase == SIMBA__OWNER && c->tenure->owner_until_ms == 0;
    /* S2: the lease runs from when we asked, never from when we heard; the
     * store began to count somewhere in between. */
    int64_t from = PLANTED(LEASE_FROM_REPLY) ? c->now_ms : c->sent_ms;
    int64_t max_hold = c->config->max_hold_ms, use, until;
    struct simba__lease granted;

    granted_ms = PLANTED(GRANT_STRETCHED) ? 0 : granted_ms;
    granted = simba__lease_shorten(&c->config->lease, granted_ms);
    use = use_from(from, &granted);
    until = is_first ? 0 : use_until(c);
    c->failures = 0;
    c->due_ms = later(from, simba__lease_renew_after_ms(&granted));
    if (is_first || use > until) {
        c->tenure->lease_from_ms = from;
        c->tenure->granted_ms = granted_ms;
        until = use;
    }
    if (c->is_woken) { /* asked for while the renewal was under way */
        c->is_woken = false;
        c->due_ms = earlier(c->due_ms, owner_woken_at(c));
    }
    if (c->phase == SIMBA__OWNER) {
        c->tenure->owner_until_ms = earlier(
            until, max_hold == 0 ? SIMBA__NEVER
                                 : later(c->tenure->held_since_ms, max_hold));
    }
}

/* The store granted the request sent at `sent_ms`. */
static void own(struct simba__contend *c,
                const simba_reply *reply,
                struct simba__contend_update *up)
{
    assert(c->tenure != NULL);
    up->tell |= c->is_backstop && !c->is_woken ? SIMBA__TELL_BACKSTOP : 0U;
    c->tenure->token = reply->token;
    c->tenure->slot = reply->slot;
    c->is_woken = false;
    c->tenure->held_since_ms = c->tenure->progress_ms = c->now_ms;
    c->phase = SIMBA__OWNER;
    extend(c, reply->lease_ms);
    if (c->now_ms >= c->tenure->owner_until_ms) { /* the answer came too late */
        c->tenure->owner_until_ms = 0;
        part(c, SIMBA_RELEASE, up);
        return;
    }
    up->tell |= SIMBA__TELL_ACQUIRED;
    up->token = reply->token;
    up->slot = reply->slot;
}

static void renew(struct simba__contend *c, struct simba__contend_update *up)
{
    bool is_stalled =
        c->phase == SIMBA__OWNER && c->is_progress_asked &&
        c->now_ms - c->tenure->progress_ms > c->config->progress_ms;

    assert(c->phase == SIMBA__OWNER || c->phase == SIMBA__LEAVING);
    c->due_ms = SIMBA__NEVER;
    if (!is_stalled) { /* else the next sign of progress renews */
        send(c, SIMBA_RENEW, try_ms(use_until(c) - c->now_ms), up);
    }
}

/* Another is to have it; "@": whoever is next. */
static void hand_over(struct simba__contend *c,
                      const char *to,
                      struct simba__contend_update *up)
{
    size_t length = strcmp(to, "@") == 0 ? 0 : strlen(to);

    assert(length <= SIMBA_ID_MAX);
    if (c->phase == SIMBA__OWNER && c->tenure != NULL) {
        memcpy(c->tenure->to, to, length);
        c->tenure->to[length] = '\0';
        leave(c, SIMBA__CAUSE_ASKED, up);
    }
}

/* S8: renewed, lost, or unknown; the last is asked again until U. */
static void renewed(struct simba__contend *c,
                    const simba_reply *reply,
                    struct simba__contend_update *up)
{
    struct simba__lease granted = granted_lease(c);
    int64_t left = use_until(c) - c->now_ms;
    int64_t due = simba__lease_renew_after_ms(&granted);
    bool is_due = c->sent_ms >= later(c->tenure->lease_from_ms, due);

    if (reply == NULL && !PLANTED(UNKNOWN_IS_LOST)) {
        /* After U it is only for min_hold, and there is no hurry. */
        retry(c, RENEW_FIRST_MS, left > 0 ? try_ms(left) : RENEW_LATE_MS,
              up->rng);
    } else if (reply != NULL && reply->mine &&
               reply->token == c->tenure->token) {
        c->vain_wakes =
            is_due ? 0 : (uint8_t)earlier(c->vain_wakes + 1, WAKE_DOUBLINGS);
        extend(c, reply->lease_ms);
        if (PLANTED(TELL_TWICE)) {
            up->tell |= SIMBA__TELL_ACQUIRED;
        }
        if (reply->asked[0] != '\0') {
            hand_over(c, reply->asked, up);
        }
    } else {
        /* Ours, but under another token: a doubled acquire began a tenure that
         * nobody was told of. It is given back like any other. */
        c->is_gone = reply == NULL || !reply->mine;
        c->due_ms = SIMBA__NEVER;
        if (c->phase == SIMBA__OWNER) {
            leave(c, SIMBA__CAUSE_GONE, up);
        }
    }
}

/* The time is up: say of what. */
static void lapse(struct simba__contend *c, struct simba__contend_update *up)
{
    bool is_held_back =
        c->inflight == SIMBA_NO_REQUEST && c->due_ms == SIMBA__NEVER;
    enum simba__cause cause = SIMBA__CAUSE_EXPIRED;

    if (c->now_ms < use_until(c)) {
        cause = SIMBA__CAUSE_MAX_HOLD;
    } else if (is_held_back) {
        cause = SIMBA__CAUSE_STALLED;
    }
    leave(c, cause, up);
}

/* --- WAITING: asking, the queue, the backstop behind wake-ups ------------ */

/* The same attempt asks again and again until it is granted or given up, so
 * that an earlier request whose answer was lost is found, not repeated (S8). */
static void ask(struct simba__contend *c, struct simba__contend_update *up)
{
    const struct simba__lease *lease = &c->config->lease;
    int64_t backstop = simba__lease_length_ms(lease) + JITTER_HIGH_MS;

    assert(c->phase == SIMBA__WAITING && !c->is_calling);
    c->is_woken = false;
    c->is_urgent = false;
    c->is_held = false;
    send(c, SIMBA_ACQUIRE, try_ms(simba__lease_use_ms(lease)), up);
    up->send.position = c->position;
    up->send.join = c->join;
    up->send.is_backstop = c->is_backstop && c->is_queued;
    up->send.budget_ms = lease->budget_ms;
    up->send.waiter_ms = 2 * backstop;
}

/* The backstop: with every wake-up lost, a waiter asks when the owner's lease
 * ends. The head of the queue right then; who stands behind it one offer later,
 * in case the head is dead; who has no position some time around it. */
static int64_t backstop_ms(const struct simba__contend *c,
                           const simba_reply *reply,
                           struct simba__rng *rng)
{
    int64_t most = simba__lease_length_ms(&c->config->lease);
    int64_t wait = later_of(earlier(reply->wait_ms, most), 0);
    int64_t low = c->config->lease.transition_ms == 0 ? 0 : JITTER_LOW_MS;

    if (!reply->is_queued) {
        wait += low + (int64_t)simba__rng_below(
                          rng, (uint64_t)(JITTER_HIGH_MS - low));
    } else if (!reply->is_head) {
        wait += SIMBA__OFFER_MS;
    } else {
        wait += 1; /* the store frees a lease after its last millisecond */
    }
    return later_of(wait, ASK_SPACING_MS);
}

static int64_t woken_at(struct simba__contend *c)
{
    int64_t calm = c->now_ms - c->sent_ms;

    if (calm >= WAKE_CALM_MS) {
        c->hurries = 1;
    } else if (c->hurries <= WAKE_HURRIES) {
        c->hurries++;
    }
    return c->hurries <= WAKE_HURRIES || calm >= WAKE_SPACING_MS
               ? c->now_ms
               : later(c->sent_ms, WAKE_SPACING_MS);
}

/* Granted, refused, or failed, and then perhaps without our knowing granted. */
static void asked(struct simba__contend *c,
                  enum simba__outcome outcome,
                  const simba_reply *reply,
                  struct simba__contend_update *up)
{
    int64_t most = simba__lease_length_ms(&c->config->lease) / 4;

    if (reply != NULL && reply->mine) {
        own(c, reply, up);
        return;
    }
    if (reply != NULL) {
        c->failures = 0;
        c->is_queued = reply->is_queued;
        c->is_backstop = !c->is_woken;
        if (reply->is_queued) {
            c->position = reply->position;
        }
        if (!c->is_woken) {
            c->due_ms = later(c->now_ms, backstop_ms(c, reply, up->rng));
        }
    } else {
        c->is_doubtful |= outcome == SIMBA__UNKNOWN;
        c->is_backstop = false;
        retry(c, ASK_FIRST_MS, earlier(most, ASK_MOST_MS), up->rng);
    }
    if (c->is_woken) {
        c->due_ms = woken_at(c);
        c->is_urgent = true;
    }
    if (reply == NULL && PLANTED(NO_RETRY)) {
        c->due_ms = SIMBA__NEVER;
    }
}

/* --- events -------------------------------------------------------------- */

void simba__contend_init(struct simba__contend *c,
                         const struct simba__contend_config *config)
{
    assert(simba__contend_config_check(config) == SIMBA__CONTEND_FINE);
    memset(c, 0, sizeof *c);
    c->config = config;
    c->join = config->join;
    c->is_progress_asked = config->progress_ms > 0;
    c->due_ms = SIMBA__NEVER;
}

/* S1: a step of the store's clock shows as two intervals of its offset that
 * clock rates alone cannot explain. What is known of the offset is kept as
 * narrow as the answers allow: a slow one must not hide a step. */
static int64_t clock_step_ms(struct simba__contend *c, int64_t store_ms)
{
    int64_t margin = simba__lease_margin_ms(&c->config->lease);
    int64_t drift = (c->now_ms - c->clock_seen_ms) / 1000 * 21 + 21;
    int64_t low = store_ms - c->now_ms, high = store_ms - c->sent_ms;
    int64_t old_low = c->clock_low_ms - drift;
    int64_t old_high = c->clock_high_ms + drift;
    int64_t step = 0;

    if (c->is_clock_known && low > old_high + margin) {
        step = low - old_high;
    } else if (c->is_clock_known && high < old_low - margin) {
        step = high - old_low;
    }
    if (c->is_clock_known && low <= old_high && high >= old_low) {
        low = later_of(low, old_low);
        high = earlier(high, old_high);
    }
    c->is_clock_known = true;
    c->clock_seen_ms = c->sent_ms;
    c->clock_low_ms = low;
    c->clock_high_ms = high;
    return step;
}

/* `reply` is NULL when there is no answer. */
static void answered(struct simba__contend *c,
                     enum simba__outcome outcome,
                     const simba_reply *reply,
                     struct simba__contend_update *up)
{
    enum simba_request_kind kind = c->inflight;
    int64_t step = 0;

    assert((outcome == SIMBA__ANSWERED) == (reply != NULL));
    c->inflight = SIMBA_NO_REQUEST;
    if (reply != NULL) {
        c->is_heard = true;
        /* Told, and far enough from the ends of the numbers to reckon with. */
        if (reply->store_ms > 0 && reply->store_ms < SIMBA__NEVER / 4) {
            step = clock_step_ms(c, reply->store_ms);
        }
    }
    if (kind == SIMBA_ACQUIRE) {
        asked(c, outcome, reply, up);
    } else if (kind == SIMBA_RENEW) {
        renewed(c, reply, up);
    } else if (reply != NULL) {
        finish(c, up);
    } else {
        retry(c, PART_FIRST_MS, PART_MOST_MS, up->rng);
    }
    if (step != 0) {
        up->tell |= SIMBA__TELL_CLOCK_JUMP;
        up->clock_step_ms = step;
        if (c->phase == SIMBA__OWNER) { /* asks again at once, once */
            c->due_ms = c->was_jump ? later(c->sent_ms, OWNER_WAKE_SPACING_MS)
                                    : c->now_ms;
        }
    }
    if (reply != NULL) {
        c->was_jump = step != 0;
    }
}

static void step_wake(struct simba__contend *c,
                      struct simba__contend_update *up)
{
    if (PLANTED(WAKE_IS_GRANT) && c->phase == SIMBA__WAITING) {
        simba_reply grant = {.mine = true,
                             .token = simba__contend_token(c) + 1};

        c->sent_ms = c->now_ms;
        c->inflight = SIMBA_NO_REQUEST;
        own(c, &grant, up);
        return;
    }
    if (!c->has_claimed) {
        return; /* we have not asked yet: it cannot be meant for us */
    }
    if (c->inflight != SIMBA_NO_REQUEST) { /* S10: it may have looked before */
        c->is_woken = !PLANTED(WAKE_DROPPED);
    } else if (c->phase == SIMBA__WAITING) {
        c->due_ms = woken_at(c);
        c->is_backstop = false;
        c->is_urgent = true;
        c->is_held = false;
    } else if (c->phase == SIMBA__OWNER && c->due_ms != SIMBA__NEVER) {
        c->due_ms = earlier(c->due_ms, owner_woken_at(c));
    }
}

static void step_stop(struct simba__contend *c,
                      struct simba__contend_update *up)
{
    if (c->phase == SIMBA__IDLE || c->stopping) {
        return;
    }
    c->stopping = true;
    if (c->phase == SIMBA__OWNER) {
        leave(c, SIMBA__CAUSE_STOP, up);
    } else if (c->phase == SIMBA__WAITING) {
        /* Take back what the store may know of us. */
        c->is_doubtful |=
            c->inflight == SIMBA_ACQUIRE && !PLANTED(FORGET_ON_STOP);
        if (c->is_doubtful) {
            part(c, SIMBA_RELEASE, up);
        } else if (c->is_queued) {
            part(c, SIMBA_LEAVE, up);
        } else {
            finish(c, up);
        }
    }
}

static void step_progress(struct simba__contend *c, int64_t given_ms)
{
    if (c->tenure != NULL) {
        c->tenure->progress_ms = later_of(c->tenure->progress_ms,
                                          given_ms == 0 ? c->now_ms : given_ms);
    }
    if (c->phase == SIMBA__OWNER && c->inflight == SIMBA_NO_REQUEST &&
        c->due_ms == SIMBA__NEVER) {
        c->due_ms = c->now_ms; /* a renewal had been held back */
    }
}

static void dispatch(struct simba__contend *c,
                     const struct simba__contend_event *event,
                     struct simba__contend_update *up)
{
    switch (event->type) {
    case SIMBA__START:
        assert(c->phase == SIMBA__IDLE);
        c->stopping = false;
        c->is_heard = false;
        c->failures = 0;
        begin(c, later(c->now_ms, c->config->initial_delay_ms), up->rng);
        break;
    case SIMBA__STOP:
        step_stop(c, up);
        break;
    case SIMBA__REPLIED:
        /* Else it was given up long ago: nothing may hang on it any more. */
        if (c->inflight != SIMBA_NO_REQUEST &&
            (event->seq == c->seq || PLANTED(STALE_REPLIES))) {
            bool is_answer = event->outcome == SIMBA__ANSWERED;

            answered(c, event->outcome, is_answer ? event->reply : NULL, up);
        }
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
    case SIMBA__HAND_OVER:
        hand_over(c, event->to == NULL ? "@" : event->to, up);
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

/* Everything that has come due by now, in the order of its urgency. */
static void do_what_is_due(struct simba__contend *c,
                           bool is_full,
                           struct simba__contend_update *up)
{
    if (c->inflight != SIMBA_NO_REQUEST && c->now_ms >= c->due_ms) {
        answered(c, SIMBA__UNKNOWN, NULL, up);
    }
    if (c->phase == SIMBA__LEAVING) {
        left(c, up);
    }
    if (c->phase == SIMBA__RELEASING && c->now_ms >= c->until_ms) {
        up->tell |= SIMBA__TELL_UNRELEASED;
        finish(c, up);
    }
    if (!may_send(c) || c->now_ms < c->due_ms) {
        return;
    }
    /* Who asks once waits for that one answer without a limit of its own. */
    if (c->phase == SIMBA__WAITING && is_full && !c->is_urgent && c->join) {
        c->is_held = true;
    } else if (c->phase == SIMBA__WAITING) {
        ask(c, up);
    } else if (c->phase == SIMBA__RELEASING) {
        tell_store(c, up);
    } else {
        renew(c, up);
    }
}

static void check_invariants(const struct simba__contend *c)
{
    bool is_asking = c->inflight == SIMBA_ACQUIRE;
    bool is_parting =
        c->inflight == SIMBA_RELEASE || c->inflight == SIMBA_LEAVE;

    assert((c->phase == SIMBA__OWNER) == (simba__contend_owner_until(c) != 0));
    assert(c->phase != SIMBA__OWNER || c->tenure->owner_until_ms > c->now_ms);
    assert(c->phase != SIMBA__OWNER || !c->is_calling);
    assert(c->phase != SIMBA__IDLE || c->inflight == SIMBA_NO_REQUEST);
    assert(!is_asking || c->phase == SIMBA__WAITING);
    assert(!c->is_held ||
           (c->phase == SIMBA__WAITING && c->inflight == SIMBA_NO_REQUEST));
    assert(!is_parting || c->phase == SIMBA__RELEASING);
    assert(c->phase != SIMBA__WAITING || !c->stopping);
    assert(c->phase != SIMBA__OWNER || !c->stopping);
}

void simba__contend_step(struct simba__contend *c,
                         const struct simba__contend_event *event,
                         struct simba__contend_update *update)
{
    memset(update, 0,
           offsetof(struct simba__contend_update, send.reply.size) +
               sizeof update->send.reply.size);
    update->rng = event->rng;
    if (event->now_ms > c->now_ms) {
        c->now_ms = event->now_ms;
    }
    if (c->phase == SIMBA__OWNER && c->now_ms >= c->tenure->owner_until_ms) {
        lapse(c, update); /* noticed before anything else */
    }
    dispatch(c, event, update);
    do_what_is_due(c, event->is_full, update);
    if (!ANYTHING_PLANTED()) {
        check_invariants(c);
    }
}

bool simba__contend_is_owner(const struct simba__contend *c, int64_t now_ms)
{
    int64_t until_ms = simba__contend_owner_until(c);

    return PLANTED(OWNER_FLAG) ? until_ms != 0 : now_ms < until_ms;
}

int64_t simba__contend_wake_at(const struct simba__contend *c)
{
    int64_t at = SIMBA__NEVER;

    if (c->inflight != SIMBA_NO_REQUEST || (may_send(c) && !c->is_held)) {
        at = c->due_ms;
    }
    if (c->phase == SIMBA__OWNER) {
        at = earlier(at, c->tenure->owner_until_ms);
    } else if (c->phase == SIMBA__LEAVING) {
        at = earlier(at, leave_at(c));
    } else if (c->phase == SIMBA__RELEASING) {
        at = earlier(at, c->until_ms);
    }
    return at;
}
