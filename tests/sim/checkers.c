/* The checkers: they own the truth. They look at what the contenders answer,
 * what the store did and what the users heard, never at why. */
#include "sim/world.h"

#include <stdarg.h>
#include <string.h>

const char *const rule_names[RULES] = {"S1",  "S4",       "S5",     "S6",
                                       "S7",  "S8",       "S9",     "S10",
                                       "S11", "PROGRESS", "HISTORY"};

void violate(struct world *w, enum rule rule, const char *format, ...)
{
    va_list args;

    w->violations[rule]++;
    if (w->trace == NULL) {
        return;
    }
    fprintf(w->trace,
            "[%6lld] VIOLATION of %s: ", (long long)(w->now_us / 1000),
            rule_names[rule]);
    va_start(args, format);
    vfprintf(w->trace, format, args);
    va_end(args);
    fputc('\n', w->trace);
}

/* S1: at no true instant does a contender answer is_owner = true while more do
 * than it suffers, nor two with one slot. Ownership begins with an event and
 * ends by itself, so after every event is enough. */
void check_owners(struct world *w)
{
    uint32_t owners = 0, limit = UINT32_MAX;
    uint64_t slots = 0;

    if (w->now_us < w->forced_until_us) {
        return;
    }
    for (int i = 0; i < w->node_count; i++) {
        const struct node *n = &w->node[i];

        if (!world_is_owner(w, i)) {
            continue;
        }
        owners++;
        limit = simba__slots_least(limit, simba__slots_limit(n->slots));
        if (n->tenure.slot >= simba__slots_limit(n->slots) ||
            (n->tenure.slot < 64 && (slots >> n->tenure.slot & 1) != 0)) {
            violate(w, S1, "n%d has slot %u, with another or of none", i,
                    n->tenure.slot);
        }
        slots |= n->tenure.slot < 64 ? UINT64_C(1) << n->tenure.slot : 0;
    }
    if (owners > limit) {
        violate(w, S1, "%u owners, but one suffers %u", owners, limit);
    }
}

/* S1: contenders that know of one owner only see one until the last ends. */
static void check_shown(struct world *w)
{
    int64_t now = world_store_ms(w);
    simba_owner shown = simba__mutex_shown(&w->record, now);
    const struct simba__tenure *tenure;

    for (size_t i = 0; (tenure = simba__mutex_tenure(&w->record, i)) != NULL;
         i++) {
        if (simba__tenure_is_live(tenure, now) &&
            (tenure->owner.transition_at_ms > shown.transition_at_ms ||
             shown.id[0] == '\0')) {
            violate(w, S1, "%s owns it, and others see it free",
                    tenure->owner.id);
        }
    }
}

/* --- what a contender did ------------------------------------------------ */

static bool is_known_undone(const struct world *w, simba_attempt a)
{
    for (int i = 0; i < WORLD_UNDONE; i++) {
        if (simba__attempt_equal(w->undone[i].attempt, a)) {
            return true;
        }
    }
    return false;
}

static void note_undone(struct world *w, simba_attempt attempt)
{
    if (!is_known_undone(w, attempt)) {
        w->undone[w->undone_next] =
            (struct undone){.attempt = attempt, .at_us = w->now_us};
        w->undone_next = (w->undone_next + 1) % WORLD_UNDONE;
    }
}

/* S6, on stop: the store is not told while on_released runs in its time. */
static void check_order_of_release(struct world *w,
                                   int i,
                                   const struct simba__contend_update *up)
{
    const struct node *n = &w->node[i];
    bool is_running = n->is_calling || (up->tell & SIMBA__TELL_RELEASED) != 0;

    if (up->send.kind == SIMBA_RELEASE && is_running && !n->is_excused &&
        !(up->tell & SIMBA__TELL_OVERRUN)) {
        violate(w, S6, "n%d releases while on_released runs", i);
    }
}

/* S7: a wake-up changes nothing but the time of the next question. */
static void check_wake(struct world *w,
                       int i,
                       const struct simba__contend_event *event,
                       const struct simba__contend_update *up)
{
    bool is_loss = (up->tell & SIMBA__TELL_RELEASED) != 0 &&
                   up->cause == SIMBA__CAUSE_GONE;

    if (event->type == SIMBA__WAKE_UP &&
        (is_loss || (up->tell & SIMBA__TELL_ACQUIRED) != 0)) {
        violate(w, S7, "n%d changes ownership on a wake-up", i);
    }
}

/* S8: silence is no answer. Who says "gone" was told so by the store, who says
 * "expired" waited until U. */
static void check_loss(struct world *w,
                       int i,
                       const struct simba__contend_update *up)
{
    const struct node *n = &w->node[i];

    if (!(up->tell & SIMBA__TELL_RELEASED)) {
        return;
    }
    if (up->cause == SIMBA__CAUSE_GONE && !n->was_refused) {
        violate(w, S8, "n%d gave up what the store never took", i);
    }
    if (up->cause == SIMBA__CAUSE_EXPIRED &&
        world_local_ms(w, n) < n->was_until_ms) {
        violate(w, S8, "n%d expired before its time", i);
    }
}

/* S9: acquired and released strictly alternate; none after the stop. */
static void check_alternation(struct world *w,
                              int i,
                              const struct simba__contend_update *up)
{
    const struct node *n = &w->node[i];
    bool acquired = (up->tell & SIMBA__TELL_ACQUIRED) != 0;
    bool released = (up->tell & SIMBA__TELL_RELEASED) != 0;

    if (acquired && (n->is_told || n->is_calling || n->is_inside)) {
        violate(w, S9, "n%d acquired twice", i);
    }
    if (released && !n->is_told) {
        violate(w, S9, "n%d released what it did not have", i);
    }
    if (acquired && n->c.phase != SIMBA__OWNER) {
        violate(w, S9, "n%d told acquired while it is not owner", i);
    }
    if ((up->tell & SIMBA__TELL_STOPPED) && n->is_told) {
        violate(w, S9, "n%d stopped without released", i);
    }
}

void check_step(struct world *w,
                int i,
                const struct simba__contend_event *event,
                const struct step_before *before,
                const struct simba__contend_update *up)
{
    struct node *n = &w->node[i];
    bool is_abandoned = before->phase != SIMBA__IDLE &&
                        (n->c.phase == SIMBA__IDLE ||
                         !simba__attempt_equal(before->attempt, n->c.attempt));

    check_order_of_release(w, i, up);
    check_wake(w, i, event, up);
    check_loss(w, i, up);
    check_alternation(w, i, up);
    if (is_abandoned) {
        n->queued.is_in = false;
    }
    if (is_abandoned && !(up->tell & SIMBA__TELL_UNRELEASED)) {
        note_undone(w, before->attempt);
    }
}

/* --- what the store did -------------------------------------------------- */

/* The tenure of this attempt, if its lease runs. */
static const struct simba__tenure *live_tenure(
    const struct world *w,
    const struct simba__mutex_record *record,
    simba_attempt attempt)
{
    const struct simba__tenure *tenure =
        simba__mutex_find_tenure(record, attempt);

    return tenure != NULL && simba__tenure_is_live(tenure, world_store_ms(w))
               ? tenure
               : NULL;
}

/* S5: nobody but the tenure itself renews, repeats or ends a tenure. */
static void check_identity(struct world *w,
                           const struct simba__mutex_record *before,
                           const struct message *m,
                           const simba_reply *reply)
{
    const struct simba__tenure *mine =
        live_tenure(w, before, m->request.attempt);
    const struct simba__tenure *tenure;

    if (m->request.kind == SIMBA_ACQUIRE && reply->mine &&
        live_tenure(w, &w->record, m->request.attempt) == NULL) {
        violate(w, S5, "n%d's acquire took a running tenure", m->node);
    }
    if (m->request.kind == SIMBA_RENEW && reply->mine &&
        (mine == NULL || mine->owner.is_broken)) {
        violate(w, S5, "n%d renewed what is not its tenure", m->node);
    }
    for (size_t i = 0; (tenure = simba__mutex_tenure(before, i)) != NULL; i++) {
        if (simba__tenure_is_live(tenure, world_store_ms(w)) &&
            tenure != mine &&
            live_tenure(w, &w->record, tenure->attempt) == NULL) {
            violate(w, S5, "n%d ended another tenure", m->node);
        }
    }
}

/* S8: what was undone stays undone. Copies are the network's, not ours: no
 * contender can know of them, and they cost a lease, not safety. */
static void check_undone(struct world *w, const struct message *m)
{
    int64_t window_us = world_lease_us(w) / 100 * 95;

    for (int i = 0; i < WORLD_UNDONE; i++) {
        const struct undone *u = &w->undone[i];
        if (simba__attempt_equal(u->attempt, m->request.attempt) &&
            !m->is_copy && w->now_us - u->at_us < window_us) {
            violate(w, S8, "n%d was granted an undone attempt", m->node);
        }
    }
}

static bool is_standing(const struct queued *s, const struct message *m)
{
    return s->is_in && simba__attempt_equal(s->attempt, m->request.attempt);
}

static bool has_offer(const struct world *w, const struct queued *s)
{
    return s->is_in && s->offered_ms >= world_store_ms(w);
}

/* S11: nobody who is alive stands in the queue before the one who is next,
 * and nobody else is offered it. Who is next was decided when it was offered,
 * or is now, when it is granted without an offer. */
static void check_fairness(struct world *w, int next, simba_attempt attempt)
{
    const struct queued *mine = &w->node[next].queued;
    bool am_in = mine->is_in && simba__attempt_equal(mine->attempt, attempt);
    int64_t now = world_store_ms(w);

    for (int i = 0; i < w->node_count; i++) {
        const struct queued *s = &w->node[i].queued;
        bool is_late = s->offered_ms != 0 && s->offered_ms < now;
        bool is_live = s->lapses_ms >= now &&
                       w->host.is_connected(w->host.self, s->connection);
        bool is_first = !am_in || s->position < mine->position;
        /* It has its slot, and we another. */
        bool is_beside =
            has_offer(w, s) && w->node[i].slots > 1 && w->node[next].slots > 1;
        if (i != next && s->is_in && is_live && !is_late && !is_beside &&
            (is_first || has_offer(w, s))) {
            violate(w, S11, "n%d passed n%d, at %llu before %llu", next, i,
                    (unsigned long long)s->position,
                    am_in ? (unsigned long long)mine->position : 0);
        }
    }
}

/* S6, on loss: when the store grants to the next, the last one is out. */
static void check_nobody_inside(struct world *w, int granted)
{
    uint32_t inside = 1, limit = simba__slots_limit(w->node[granted].slots);

    for (int i = 0; i < w->node_count; i++) {
        const struct node *n = &w->node[i];
        if (i != granted && n->is_up && n->is_inside && !n->is_excused &&
            n->paused_until_us <= w->now_us &&
            w->now_us >= w->forced_until_us) {
            inside++;
            limit = simba__slots_least(limit, simba__slots_limit(n->slots));
        }
    }
    if (inside > limit) {
        violate(w, S6, "n%d is granted while %u others are inside", granted,
                inside - 1);
    }
}

/* The contender has finished with this attempt, or stopped altogether. */
static bool is_given_up(const struct node *n, const struct message *m)
{
    return n->c.phase == SIMBA__IDLE ||
           !simba__attempt_equal(m->request.attempt, n->c.attempt);
}

static void check_grant(struct world *w,
                        const struct message *m,
                        const simba_reply *reply)
{
    const struct node *n = &w->node[m->node];
    bool is_dead = !n->is_up || m->life != n->life || is_given_up(n, m);

    w->grants++;
    if (reply->token <= w->newest_token) {
        violate(w, S4, "n%d got a token that does not grow", m->node);
    }
    w->newest_token = reply->token;
    check_undone(w, m);
    if (!is_dead && !(is_standing(&n->queued, m) && has_offer(w, &n->queued))) {
        check_fairness(w, m->node, m->request.attempt);
    }
    check_nobody_inside(w, m->node);
    world_say(w, "store grants to n%d", m->node);
}

/* S11: a new position is behind all others; an old one was its own before. */
static void check_position(struct world *w,
                           const struct message *m,
                           uint64_t position)
{
    const struct queued *s = &w->node[m->node].queued;
    bool is_own = position == m->request.position || position == s->position ||
                  position == w->position_before;

    if (position > w->newest_position) {
        w->newest_position = position;
    } else if (!is_own) {
        violate(w, S11, "n%d was given a position before others", m->node);
    }
}

static void note_queue(struct world *w,
                       const struct message *m,
                       const simba_reply *reply)
{
    struct node *n = &w->node[m->node];
    struct queued *s = &n->queued;

    /* Whoever sent it: the store has carried it out. */
    if (!reply->is_queued && is_standing(s, m) &&
        m->request.kind != SIMBA_RENEW) {
        s->is_in = false; /* granted, released, left */
    }
    if (reply->is_queued && m->life == n->life && !is_given_up(n, m)) {
        world_say(w, "n%d waits at %llu", m->node,
                  (unsigned long long)reply->position);
        check_position(w, m, reply->position);
        s->position = reply->position;
        s->is_in = true;
        s->attempt = m->request.attempt;
        s->connection = m->connection;
        s->lapses_ms = world_store_ms(w) + m->request.waiter_ms;
        s->offered_ms = 0;
    }
}

/* Who was offered it and did not come was sent to the end of the queue. */
static void note_requeued(struct world *w)
{
    for (size_t k = 0; k < w->record.queue_count; k++) {
        const struct simba__waiter *waiter = &w->record.queue[k];
        struct queued *s =
            &w->node[waiter->connection % WORLD_NODES_MOST].queued;
        bool is_same =
            s->is_in && simba__attempt_equal(s->attempt, waiter->attempt);
        bool is_late = s->offered_ms != 0 && s->offered_ms < world_store_ms(w);
        if (is_same && is_late && waiter->position > w->newest_position) {
            s->position = w->newest_position = waiter->position;
        }
    }
}

/* Whoever is offered it and does not come in time has lost it. */
void check_offered(struct world *w)
{
    note_requeued(w);
    for (int i = 0; i < w->node_count && w->record.is_offered; i++) {
        struct queued *s = &w->node[i].queued;
        if (s->is_in && /* else of a dead incarnation */
            simba__attempt_equal(s->attempt, w->record.offered.attempt) &&
            s->offered_ms != w->record.offered_until_ms) {
            world_say(w, "store offers it to n%d", i);
            if (w->successor == NULL ||
                strcmp(w->successor, w->node[i].id) != 0) {
                check_fairness(w, i, s->attempt);
            }
            s->offered_ms = w->record.offered_until_ms;
        }
    }
}

/* S11: the successor that an owner names is the next, if it waits and lives,
 * and fits. */
static void check_successor(struct world *w,
                            const struct message *m,
                            const simba_reply *reply)
{
    int64_t now = world_store_ms(w);
    const struct simba__tenure *tenure;
    uint32_t limit, owners = 1;

    if (w->successor == NULL || m->request.kind != SIMBA_RELEASE ||
        reply->to[0] == '\0' || strcmp(reply->to, w->successor) == 0) {
        return;
    }
    for (size_t k = 0; k < w->record.queue_count; k++) {
        const struct simba__waiter *waiter = &w->record.queue[k];

        if (strcmp(waiter->id, w->successor) != 0 || waiter->lapses_ms < now ||
            !w->host.is_connected(w->host.self, waiter->connection)) {
            continue;
        }
        limit = simba__slots_limit(waiter->slots);
        for (size_t i = 0;
             (tenure = simba__mutex_tenure(&w->record, i)) != NULL; i++) {
            owners += simba__tenure_is_live(tenure, now);
            limit = simba__slots_least(limit,
                                       simba__slots_limit(tenure->owner.slots));
        }
        if (owners <= limit) {
            violate(w, S11, "%s was passed, whom n%d had named", w->successor,
                    m->node);
        }
        return;
    }
}

void check_served(struct world *w,
                  const struct simba__mutex_record *before,
                  const struct message *m,
                  const simba_reply *reply)
{
    bool is_grant = m->request.kind == SIMBA_ACQUIRE && reply->mine &&
                    live_tenure(w, before, m->request.attempt) == NULL;

    check_identity(w, before, m, reply);
    check_shown(w);
    check_successor(w, m, reply);
    if (is_grant) {
        check_grant(w, m, reply);
    }
    if (m->request.kind == SIMBA_RELEASE && !m->is_copy) {
        note_undone(w, m->request.attempt);
    }
    if (m->request.kind == SIMBA_RENEW &&
        (!reply->mine || reply->token != m->request.token)) {
        w->node[m->node].was_refused = true;
    }
    /* A release leaves the queue before the next is offered it, and so does who
     * is granted; who is refused joins it after that. */
    if (m->request.kind == SIMBA_ACQUIRE && !reply->mine) {
        check_offered(w);
    }
    note_queue(w, m, reply);
    check_offered(w);
}

void check_wiped(struct world *w)
{
    for (int i = 0; i < w->node_count; i++) {
        w->node[i].queued.is_in = false;
        w->node[i].was_refused = true;
    }
    memset(w->undone, 0, sizeof w->undone); /* tombstones are gone as well */
}
