/* OWNER: renewing the lease, and noticing that it is lost. */
#include "core/contend_internal.h"
#include "core/plant.h"

#include <assert.h>

/* Renewing again after a failure: fast at first (S8). */
enum { RENEW_FIRST_MS = 10, RENEW_LATE_MS = 1000 };

/* S2: the lease runs from when we asked, never from when we heard; the store
 * began to count somewhere in between. */
static int64_t lease_from(const struct simba__contend *c)
{
    return PLANTED(LEASE_FROM_REPLY) ? c->now_ms : c->sent_ms;
}

static int64_t use_from(int64_t from_ms, const struct simba__lease *granted)
{
    /* Below zero when less was granted than the budget takes. */
    int64_t use = simba__lease_use_ms(granted);

    return use < 0 ? from_ms : simba__contend_later(from_ms, use);
}

static int64_t use_until(const struct simba__contend *c)
{
    return use_from(c->lease_from_ms, &c->granted);
}

/* The newest grant counts, unless an older one lasts longer: a store may grant
 * less, but never takes back what it has granted. */
static void extend(struct simba__contend *c, int64_t granted_ms)
{
    bool is_first = c->phase == SIMBA__OWNER && c->owner_until_ms == 0;
    int64_t from = lease_from(c), until;
    struct simba__lease granted = simba__lease_shorten(
        &c->config.lease, PLANTED(GRANT_STRETCHED) ? 0 : granted_ms);

    c->failures = 0;
    c->next_ms =
        simba__contend_later(from, simba__lease_renew_after_ms(&granted));
    if (is_first || use_from(from, &granted) > use_until(c)) {
        c->lease_from_ms = from;
        c->granted = granted;
    }
    if (c->is_woken) { /* asked for while the renewal was under way */
        c->is_woken = false;
        c->next_ms = simba__contend_later(c->sent_ms, SIMBA__WAKE_SPACING_MS);
    }
    until = use_until(c);
    if (c->phase == SIMBA__OWNER) {
        c->owner_until_ms = until < c->cap_ms ? until : c->cap_ms;
    }
}

/* The store granted the request sent at `sent_ms`. */
void simba__contend_own(struct simba__contend *c,
                        const simba_reply *reply,
                        struct simba__contend_update *up)
{
    int64_t max_hold = c->config.max_hold_ms;

    c->token = reply->token;
    c->is_woken = false;
    c->cap_ms = max_hold == 0 ? SIMBA__NEVER
                              : simba__contend_later(c->now_ms, max_hold);
    c->phase = SIMBA__OWNER;
    extend(c, reply->lease_ms);
    if (c->now_ms >= c->owner_until_ms) { /* the answer came too late */
        c->owner_until_ms = 0;
        simba__contend_part(c, SIMBA_RELEASE, up);
        return;
    }
    c->held_since_ms = c->now_ms;
    c->progress_ms = c->now_ms;
    up->tell |= SIMBA__TELL_ACQUIRED;
    up->token = reply->token;
}

static bool is_stalled(const struct simba__contend *c)
{
    return c->phase == SIMBA__OWNER && c->config.progress_ms > 0 &&
           c->now_ms - c->progress_ms > c->config.progress_ms;
}

void simba__contend_renew(struct simba__contend *c,
                          struct simba__contend_update *up)
{
    int64_t left = use_until(c) - c->now_ms;

    assert(c->phase == SIMBA__OWNER || c->phase == SIMBA__LEAVING);
    c->next_ms = SIMBA__NEVER;
    if (!is_stalled(c)) { /* else the next sign of progress renews */
        simba__contend_send(c, SIMBA_RENEW, simba__contend_try_ms(left), up);
    }
}

static void retry(struct simba__contend *c)
{
    int64_t left = use_until(c) - c->now_ms;
    /* After U it is only for min_hold, and there is no hurry. */
    int64_t most = left > 0 ? simba__contend_try_ms(left) : RENEW_LATE_MS;
    int64_t delay = simba__contend_backoff_ms(c, RENEW_FIRST_MS, most);
    int64_t at = simba__contend_later(c->sent_ms, delay);

    c->next_ms = at > c->now_ms ? at : c->now_ms;
}

/* S8: renewed, lost, or unknown; the last is asked again until U. */
void simba__contend_renewed(struct simba__contend *c,
                            const simba_reply *reply,
                            struct simba__contend_update *up)
{
    if (reply == NULL && !PLANTED(UNKNOWN_IS_LOST)) {
        retry(c);
    } else if (reply != NULL && reply->mine && reply->token == c->token) {
        extend(c, reply->lease_ms);
        if (PLANTED(TELL_TWICE)) {
            up->tell |= SIMBA__TELL_ACQUIRED;
        }
    } else {
        /* Ours, but under another token: a doubled acquire began a tenure that
         * nobody was told of. It is given back like any other. */
        c->is_gone = reply == NULL || !reply->mine;
        c->next_ms = SIMBA__NEVER;
        if (c->phase == SIMBA__OWNER) {
            simba__contend_leave(c, SIMBA__CAUSE_GONE, up);
        }
    }
}

/* The time is up: say of what. */
void simba__contend_lapse(struct simba__contend *c,
                          struct simba__contend_update *up)
{
    bool is_held_back =
        c->inflight == SIMBA_NO_REQUEST && c->next_ms == SIMBA__NEVER;
    enum simba__cause cause = SIMBA__CAUSE_EXPIRED;

    if (c->now_ms < use_until(c)) {
        cause = SIMBA__CAUSE_MAX_HOLD;
    } else if (is_held_back) {
        cause = SIMBA__CAUSE_STALLED;
    }
    simba__contend_leave(c, cause, up);
}
