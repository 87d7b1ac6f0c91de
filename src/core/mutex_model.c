/* The rules of one mutex; see mutex_model.h and S4, S5, S8, S10, S11 in
 * docs/safety.md. */
#include "core/mutex_model.h"

#include "core/plant.h"

#include <assert.h>

bool simba__mutex_has_room(const struct simba__mutex_snapshot *s,
                           uint32_t slots)
{
    uint32_t limit = simba__slots_limit(slots);
    uint32_t others = limit;

    if (s->owners.count > 0) {
        others = simba__slots_limit(s->owners.limit);
    }
    if (s->offered.count > 0) {
        others =
            simba__slots_least(others, simba__slots_limit(s->offered.limit));
    }
    if (PLANTED(LIMIT_IGNORED) && limit > 1 && others > 1) {
        return true;
    }
    if (!PLANTED(LIMIT_MINE_ONLY)) {
        limit = simba__slots_least(limit, others);
    }
    return s->owners.count + s->offered.count < limit;
}

/* S4: the clock carries the token over lost data, the counter over a clock that
 * stands still or steps back. */
static uint64_t next_token(const struct simba__mutex_snapshot *s,
                           uint64_t above)
{
    uint64_t micros = PLANTED(TOKEN_COUNTS) ? 0 : (uint64_t)s->now_ms * 1000;
    uint64_t last = s->last_token > above ? s->last_token : above;

    if (PLANTED(TOKEN_STUCK)) {
        return last;
    }
    return last + 1 > micros ? last + 1 : micros;
}

/* Somebody came or went, and so another is the first that waits. */
static bool is_another_first(const struct simba__mutex_snapshot *s,
                             const struct simba__verdict *v)
{
    return v->answer != SIMBA__REFUSE ||
           (v->evict && (s->mine.is_live || s->me.is_queued));
}

/* S10: what is free is offered to the first live waiter, or to the successor
 * that the owner named. Who comes next is woken as well: it is refused for as
 * long as the offer runs, and so knows when to ask again. One offer runs at a
 * time: who takes it offers what is left on; if it does not come, who has come
 * to be the first knows when to ask. */
static void offer_next(const struct simba__mutex_snapshot *s,
                       struct simba__verdict *v)
{
    bool is_named = s->named.is_there &&
                    s->named.position != s->first.position &&
                    !PLANTED(SUCCESSOR_PASSED);

    if (PLANTED(NO_OFFER)) {
        return;
    }
    if (s->offered.count > 0) {
        v->wake = s->first.is_there && is_another_first(s, v);
    } else if (is_named && simba__mutex_has_room(s, s->named.slots)) {
        v->offer_to = SIMBA__OFFER_NAMED;
        v->wake = s->first.is_there;
    } else if (s->first.is_there && simba__mutex_has_room(s, s->first.slots)) {
        v->offer_to = SIMBA__OFFER_FIRST;
        v->wake = s->second.is_there;
    }
}

/* Who is refused takes or keeps a position. A newcomer goes to the end; who had
 * a position gets it back. */
static void join(const struct simba__mutex_snapshot *s,
                 const simba_request *request,
                 struct simba__verdict *v)
{
    const struct simba__candidate *head =
        v->offer_to == SIMBA__OFFER_FIRST ? &s->second : &s->first;
    uint64_t micros = (uint64_t)s->now_ms * 1000;

    if (!request->join) {
        return;
    }
    v->join = true;
    if (s->me.is_queued) {
        v->position = s->me.position;
    } else if (request->position != 0) {
        v->position = request->position;
    } else { /* like tokens, positions follow the clock over lost data */
        v->position =
            s->last_position >= micros ? s->last_position + 1 : micros;
    }
    v->is_head =
        s->me.is_connected && (s->me.is_first || !head->is_there ||
                               head->is_me || v->position < head->position);
}

static void grant(const struct simba__mutex_snapshot *s,
                  const simba_request *request,
                  struct simba__verdict *v)
{
    struct simba__mutex_snapshot after = *s;

    v->answer = SIMBA__GRANT;
    v->token = next_token(s, request->token_above);
    v->slot = PLANTED(SLOT_TWICE) ? s->owners.count : s->lowest_free_slot;
    v->slots = request->slots > 1 ? request->slots : 0;
    after.owners.limit =
        after.owners.count == 0
            ? request->slots
            : simba__slots_least(after.owners.limit, request->slots);
    after.owners.count++;
    if (!PLANTED(GRANT_OFFERS_NONE)) {
        offer_next(&after, v); /* where slots are left, each grant offers one */
    }
}

/* When the first of those ends who are in the way. */
static int64_t room_in_ms(const struct simba__mutex_snapshot *s)
{
    int64_t owned = s->owners.count > 0 ? s->owners.first_end_ms : INT64_MAX;
    int64_t offered =
        s->offered.count > 0 ? s->offered.first_end_ms : INT64_MAX;

    return (owned < offered ? owned : offered) - s->now_ms;
}

/* My tenure goes on. S1: who has suffered others never ceases to; but it may
 * let more in, and then these are offered it. */
static void extend(const struct simba__mutex_snapshot *s,
                   const simba_request *request,
                   struct simba__verdict *v)
{
    struct simba__mutex_snapshot after = *s;
    bool is_wider =
        simba__slots_limit(request->slots) > simba__slots_limit(s->mine.slots);

    v->answer = SIMBA__EXTEND;
    v->token = s->mine.token;
    v->slot = s->mine.slot;
    v->slots = is_wider ? request->slots : s->mine.slots;
    if (is_wider) {
        after.owners.limit =
            after.owners.count == 0
                ? v->slots
                : simba__slots_least(after.owners.limit, v->slots);
        after.owners.count++;
        offer_next(&after, v);
    }
}

static void decide_acquire(const struct simba__mutex_snapshot *given,
                           const simba_request *request,
                           struct simba__verdict *v)
{
    struct simba__mutex_snapshot s = *given;
    bool may_pass;

    if (PLANTED(OFFER_FORGOTTEN)) {
        s.offered.count = 0;
        s.me.is_offered = false;
    }
    may_pass = PLANTED(BARGING) || (PLANTED(SHARED_PASSES) &&
                                    request->slots > 1 && s.owners.count > 0);
    if (s.me.is_entombed) {
        return; /* S8: undone before it came */
    }
    if (s.mine.is_there && s.mine.is_live && !s.mine.is_broken) {
        extend(&s, request, v); /* asked again: the lease runs from now */
        return;
    }
    if (s.mine.is_there && s.mine.is_live) { /* broken: to its end */
        v->wait_ms = s.mine.end_ms - s.now_ms;
        if (s.mine.slots > 1) {
            return; /* it could not take what would be offered to it */
        }
    } else if (!simba__mutex_has_room(&s, request->slots)) {
        v->wait_ms = room_in_ms(&s);
        /* S10: who stands before me may fit where I do not. */
        if (!s.me.is_first) {
            offer_next(&s, v);
        }
    } else if (s.me.is_offered || s.me.is_first || !s.first.is_there ||
               may_pass) {
        grant(&s, request, v);
        return;
    } else { /* S11: there is room, but somebody stands before me */
        offer_next(&s, v);
        v->wait_ms = SIMBA__OFFER_MS;
        /* Who stands there may not fit: then an owner must go first, or it may
         * die, of which nobody is told. */
        if (v->offer_to == SIMBA__OFFER_NOBODY && s.offered.count == 0) {
            v->wait_ms = room_in_ms(&s);
            if (v->wait_ms > SIMBA__LOOK_AGAIN_MS) {
                v->wait_ms = SIMBA__LOOK_AGAIN_MS;
            }
        }
    }
    join(&s, request, v);
}

struct simba__verdict simba__mutex_decide(
    const struct simba__mutex_snapshot *snapshot,
    const simba_request *request)
{
    const struct simba__mutex_snapshot *s = snapshot;
    struct simba__verdict v = {.answer = SIMBA__REFUSE};
    const struct simba__candidate *next;

    assert(s->first.is_there || !s->second.is_there);
    assert(s->mine.is_there || !s->mine.is_live);
    switch (request->kind) {
    case SIMBA_ACQUIRE:
        decide_acquire(s, request, &v);
        break;
    case SIMBA_RENEW: /* S5: extends this very tenure; never creates, steals */
        if (s->mine.is_there && (s->mine.is_live || PLANTED(RENEW_CREATES)) &&
            (!s->mine.is_broken || PLANTED(BREAK_RENEWS))) {
            extend(s, request, &v);
        }
        break;
    case SIMBA_RELEASE:
    case SIMBA_LEAVE:
        v.evict = true;
        /* Who leaves the queue of a shared mutex may have been in the way of
         * those behind it. */
        if (s->mine.is_there || s->me.is_offered ||
            (s->me.is_queued && s->owners.limit > 1)) {
            offer_next(s, &v);
        }
        break;
    case SIMBA_HAND_OVER:
        /* Nobody is asked to go in vain: who is to follow has to fit then. */
        next = request->to == NULL ? &s->first : &s->named;
        v.is_asked = s->mine.is_live && !s->mine.is_broken && next->is_there &&
                     simba__mutex_has_room(s, next->slots);
        break;
    case SIMBA_BREAK:
        v.is_broken = s->mine.is_live;
        v.evict = s->mine.is_live && request->now;
        if (v.evict) {
            offer_next(s, &v);
        }
        break;
    default:
        break;
    }
    return v;
}
