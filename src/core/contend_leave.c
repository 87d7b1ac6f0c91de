/* LEAVING and RELEASING: the orderly way out of a tenure or of the line.
 *
 * S6: the user hears of the end before the store does, so that nobody else can
 * be granted the mutex while the user still works. */
#include "core/contend_internal.h"
#include "core/plant.h"

#include <assert.h>

/* Telling the store again after a failure. */
enum { PART_FIRST_MS = 20, PART_MOST_MS = 1000 };

static int64_t hard_until(const struct simba__contend *c)
{
    int64_t hard = simba__lease_hard_ms(&c->granted);

    return hard < 0 ? c->lease_from_ms
                    : simba__contend_later(c->lease_from_ms, hard);
}

static bool is_by_choice(enum simba__cause cause)
{
    return cause == SIMBA__CAUSE_STOP || cause == SIMBA__CAUSE_MAX_HOLD;
}

/* By choice on_released has its budget from now: at most U, so it ends before
 * H. On loss it has until H; after a pause over U the budget all the same, for
 * the lease is spoilt already and an overrun should mean the user's slowness.
 */
static int64_t callback_deadline(const struct simba__contend *c)
{
    int64_t budget = simba__contend_later(c->now_ms, c->config.lease.budget_ms);
    int64_t hard = hard_until(c);

    return is_by_choice(c->cause) || budget > hard ? budget : hard;
}

void simba__contend_leave(struct simba__contend *c,
                          enum simba__cause cause,
                          struct simba__contend_update *up)
{
    assert(c->phase == SIMBA__OWNER && !c->is_calling);
    c->phase = SIMBA__LEAVING;
    c->owner_until_ms = 0;
    c->cause = cause;
    c->is_calling = true;
    c->is_overrun = false;
    c->leave_until_ms = callback_deadline(c);
    c->keep_until_ms = 0;
    if (cause == SIMBA__CAUSE_STOP && c->config.min_hold_ms > 0) {
        c->keep_until_ms =
            simba__contend_later(c->held_since_ms, c->config.min_hold_ms);
    }
    if (!is_by_choice(cause)) {
        c->inflight = SIMBA_NO_REQUEST;
        c->next_ms = SIMBA__NEVER;
    } else if (c->inflight == SIMBA_NO_REQUEST && c->next_ms == SIMBA__NEVER) {
        c->next_ms = c->now_ms; /* held back for want of progress; but now it
                                 * is renewed until on_released is back */
    }
    up->tell |= SIMBA__TELL_RELEASED;
    up->cause = cause;
    up->token = c->token;
    up->deadline_ms = c->leave_until_ms;
    if (PLANTED(RELEASE_FIRST)) {
        simba__contend_part(c, SIMBA_RELEASE, up);
    }
}

/* The instant at which LEAVING has something to do. */
int64_t simba__contend_leave_at(const struct simba__contend *c)
{
    if (c->is_calling && !c->is_overrun) {
        return c->leave_until_ms;
    }
    return c->is_gone ? 0 : c->keep_until_ms; /* renewed meanwhile */
}

void simba__contend_left(struct simba__contend *c,
                         struct simba__contend_update *up)
{
    if (c->now_ms < simba__contend_leave_at(c)) {
        return;
    }
    if (c->is_calling && !c->is_overrun) {
        c->is_overrun = true;
        up->tell |= SIMBA__TELL_OVERRUN;
        if (c->now_ms < simba__contend_leave_at(c)) {
            return; /* min_hold goes on */
        }
    }
    if (c->is_gone && !c->is_doubtful) {
        simba__contend_finish(c, up);
    } else {
        simba__contend_part(c, SIMBA_RELEASE, up);
    }
}

/* By then the store has ended the lease by itself, whatever it heard. An
 * acquire still on its way makes its lease only when it arrives, so a doubtful
 * attempt counts from now: the tombstone must get there (S8). A position in the
 * queue outlives a lease, so leaving it counts from now as well. */
static int64_t part_until(const struct simba__contend *c)
{
    bool is_tenure = c->parting == SIMBA_RELEASE && !c->is_doubtful;

    return simba__contend_later(is_tenure ? c->last_claim_ms : c->now_ms,
                                simba__lease_over_ms(&c->config.lease));
}

void simba__contend_part(struct simba__contend *c,
                         enum simba_request_kind parting,
                         struct simba__contend_update *up)
{
    c->phase = SIMBA__RELEASING;
    c->parting = parting;
    c->part_until_ms = part_until(c);
    c->failures = 0;
    if (c->now_ms >= c->part_until_ms) {
        simba__contend_finish(c, up); /* nothing is left to release */
    } else {
        simba__contend_parting(c, up);
    }
}

/* Tell the store, once more if need be. */
void simba__contend_parting(struct simba__contend *c,
                            struct simba__contend_update *up)
{
    int64_t left = c->part_until_ms - c->now_ms;

    assert(c->phase == SIMBA__RELEASING);
    simba__contend_send(c, c->parting, simba__contend_try_ms(left), up);
    if (c->is_doubtful && !PLANTED(NO_TOMBSTONE)) {
        up->send.tombstone_ms = simba__lease_length_ms(&c->config.lease);
    }
}

/* S8: repeated until answered ... */
void simba__contend_parted(struct simba__contend *c,
                           const simba_reply *reply,
                           struct simba__contend_update *up)
{
    int64_t at;

    if (reply != NULL) {
        simba__contend_finish(c, up);
        return;
    }
    at = simba__contend_later(
        c->sent_ms, simba__contend_backoff_ms(c, PART_FIRST_MS, PART_MOST_MS));
    c->next_ms = at > c->now_ms ? at : c->now_ms;
}

/* ... or the lease is over. */
void simba__contend_part_if_over(struct simba__contend *c,
                                 struct simba__contend_update *up)
{
    if (c->now_ms >= c->part_until_ms) {
        up->tell |= SIMBA__TELL_UNRELEASED;
        simba__contend_finish(c, up);
    }
}

/* The store knows nothing of us any more: rest, or contend anew. */
void simba__contend_finish(struct simba__contend *c,
                           struct simba__contend_update *up)
{
    c->inflight = SIMBA_NO_REQUEST;
    c->failures = 0;
    if (!c->stopping) {
        simba__contend_begin(c, c->now_ms);
        return;
    }
    c->phase = SIMBA__IDLE;
    c->stopping = false;
    c->is_heard = false;
    c->last_claim_ms = -1;
    c->next_ms = SIMBA__NEVER;
    up->tell |= SIMBA__TELL_STOPPED;
    if (PLANTED(TOLD_AFTER_STOP)) {
        up->tell |= SIMBA__TELL_ACQUIRED;
    }
}
