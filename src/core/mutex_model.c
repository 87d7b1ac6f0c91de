/* The rules of one mutex; see mutex_model.h and S4, S5, S8, S10, S11 in
 * docs/safety.md. */
#include "core/mutex_model.h"

#include "core/plant.h"

#include <assert.h>

static uint32_t lesser(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* How many may own it: alone, both without slots and with one. */
static uint32_t limit_of(uint32_t slots)
{
    return slots == 0 ? 1 : slots;
}

/* Does one more with this limit fit in? The least of all limits counts. */
static bool has_room(const struct simba__mutex_snapshot *s, uint32_t slots)
{
    uint32_t limit = limit_of(slots);

    if (s->owners.count > 0) {
        limit = lesser(limit, limit_of(s->owners.limit));
    }
    if (s->offered.count > 0) {
        limit = lesser(limit, limit_of(s->offered.limit));
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

/* S10: what is free is offered to the first live waiter. The second is woken as
 * well: it is refused for as long as the offer runs, and so knows when to ask
 * again. */
static void offer_next(const struct simba__mutex_snapshot *s,
                       struct simba__verdict *v)
{
    if (s->first.is_there && has_room(s, s->first.slots) &&
        !PLANTED(NO_OFFER)) {
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
    v->is_head = s->me.is_connected && (!head->is_there || head->is_me ||
                                        v->position < head->position);
}

static void grant(const struct simba__mutex_snapshot *s,
                  const simba_request *request,
                  struct simba__verdict *v)
{
    struct simba__mutex_snapshot after = *s;

    v->answer = SIMBA__GRANT;
    v->token = next_token(s, request->token_above);
    v->slot = s->lowest_free_slot;
    after.owners.limit = after.owners.count == 0
                             ? request->slots
                             : lesser(after.owners.limit, request->slots);
    after.owners.count++;
    if (after.first.is_me) {
        after.first = after.second;
        after.second.is_there = false;
    }
    offer_next(&after, v); /* where slots are left, each grant offers one on */
}

static void decide_acquire(const struct simba__mutex_snapshot *given,
                           const simba_request *request,
                           struct simba__verdict *v)
{
    struct simba__mutex_snapshot s = *given;

    if (PLANTED(OFFER_FORGOTTEN)) {
        s.offered.count = 0;
        s.me.is_offered = false;
    }
    if (s.me.is_entombed) {
        return; /* S8: undone before it came */
    }
    if (s.mine.is_there && s.mine.is_live && !s.mine.is_broken) {
        v->answer = SIMBA__EXTEND; /* asked again: the lease runs from now */
        v->token = s.mine.token;
        v->slot = s.mine.slot;
        return;
    }
    if (s.mine.is_there && s.mine.is_live) { /* broken: to its end */
        v->wait_ms = s.mine.end_ms - s.now_ms;
    } else if (!has_room(&s, request->slots)) {
        v->wait_ms = (s.owners.count > 0 ? s.owners.first_end_ms
                                         : s.offered.first_end_ms) -
                     s.now_ms;
    } else if (s.me.is_offered || !s.first.is_there || s.first.is_me ||
               PLANTED(BARGING)) {
        grant(&s, request, v);
        return;
    } else { /* S11: it is free, but somebody stands before me */
        offer_next(&s, v);
        v->wait_ms = SIMBA__OFFER_MS;
    }
    join(&s, request, v);
}

struct simba__verdict simba__mutex_decide(
    const struct simba__mutex_snapshot *snapshot,
    const simba_request *request)
{
    const struct simba__mutex_snapshot *s = snapshot;
    struct simba__verdict v = {.answer = SIMBA__REFUSE};

    assert(s->first.is_there || !s->second.is_there);
    assert(s->mine.is_there || !s->mine.is_live);
    switch (request->kind) {
    case SIMBA_ACQUIRE:
        decide_acquire(s, request, &v);
        break;
    case SIMBA_RENEW: /* S5: extends this very tenure; never creates, steals */
        if (s->mine.is_there && (s->mine.is_live || PLANTED(RENEW_CREATES)) &&
            (!s->mine.is_broken || PLANTED(BREAK_RENEWS))) {
            v.answer = SIMBA__EXTEND;
            v.token = s->mine.token;
            v.slot = s->mine.slot;
        }
        break;
    case SIMBA_RELEASE:
    case SIMBA_LEAVE:
        v.evict = true;
        if (s->mine.is_there || s->me.is_offered) {
            offer_next(s, &v);
        }
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
