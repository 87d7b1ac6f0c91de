/* One mutex as a store keeps it; see mutex_record.h. */
#include "core/mutex_record.h"

#include "core/plant.h"
#include "util/array.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void simba__mutex_fini(struct simba__mutex_record *record)
{
    free(record->others);
    free(record->queue);
    free(record->tombstones);
    memset(record, 0, sizeof *record);
}

void simba__mutex_clear(struct simba__mutex_record *record)
{
    struct simba__mutex_record kept = *record;

    *record =
        (struct simba__mutex_record){.others = kept.others,
                                     .other_room = kept.other_room,
                                     .queue = kept.queue,
                                     .queue_room = kept.queue_room,
                                     .tombstones = kept.tombstones,
                                     .tombstone_room = kept.tombstone_room};
}

bool simba__mutex_is_same_offer(const struct simba__mutex_record *a,
                                const struct simba__mutex_record *b)
{
    return a->is_offered == b->is_offered &&
           (!a->is_offered ||
            (a->offered_until_ms == b->offered_until_ms &&
             simba__attempt_equal(a->offered.attempt, b->offered.attempt)));
}

/* --- tenures ------------------------------------------------------------- */

struct simba__tenure *simba__mutex_tenure(
    const struct simba__mutex_record *record,
    size_t i)
{
    struct simba__mutex_record *r = (struct simba__mutex_record *)record;

    if (i == 0) {
        return r->owner.id[0] == '\0' ? NULL : &r->first;
    }
    return i <= r->other_count ? &r->others[i - 1] : NULL;
}

struct simba__tenure *simba__mutex_find_tenure(
    const struct simba__mutex_record *record,
    simba_attempt attempt)
{
    struct simba__tenure *tenure;

    for (size_t i = 0; (tenure = simba__mutex_tenure(record, i)) != NULL; i++) {
        if (simba__attempt_equal(tenure->attempt, attempt)) {
            return tenure;
        }
    }
    return NULL;
}

const simba_owner *simba__mutex_next_owner(
    const struct simba__mutex_record *record,
    int64_t now_ms,
    size_t *next)
{
    const struct simba__tenure *tenure;

    do {
        tenure = simba__mutex_tenure(record, (*next)++);
    } while (tenure != NULL && !simba__tenure_is_live(tenure, now_ms));
    return tenure == NULL ? NULL : &tenure->owner;
}

struct simba__mutex_owners simba__mutex_owners(
    const struct simba__mutex_record *record)
{
    return (struct simba__mutex_owners){.first_token = record->owner.token,
                                        .last_token = record->tenure_token,
                                        .other_count = record->other_count,
                                        .is_shared = record->owner.slots > 1};
}

bool simba__mutex_is_other(struct simba__mutex_owners before,
                           struct simba__mutex_owners after)
{
    return before.first_token != after.first_token ||
           before.other_count != after.other_count ||
           before.last_token != after.last_token;
}

void simba__mutex_end(struct simba__mutex_record *record,
                      struct simba__tenure *tenure)
{
    struct simba__tenure *others = record->others;
    size_t i = tenure == &record->first ? 0 : (size_t)(tenure - others);

    assert(tenure == &record->first || i < record->other_count);
    if (record->other_count == 0) {
        memset(tenure, 0, sizeof *tenure);
        return;
    }
    if (tenure == &record->first) {
        record->first = others[0];
    }
    record->other_count--;
    memmove(&others[i], &others[i + 1],
            (record->other_count - i) * sizeof *others);
}

/* Of several tenures those go whose leases are over. One alone stays: what it
 * was is told. */
static void forget_ended(struct simba__mutex_record *record, int64_t now_ms)
{
    size_t i = 0;

    while (record->other_count > 0 && i <= record->other_count) {
        struct simba__tenure *tenure = simba__mutex_tenure(record, i);

        if (simba__tenure_is_live(tenure, now_ms)) {
            i++;
        } else {
            simba__mutex_end(record, tenure);
        }
    }
}

bool simba__mutex_is_held(const struct simba__mutex_record *record,
                          int64_t now_ms)
{
    struct simba__tenure *tenure;

    for (size_t i = 0; (tenure = simba__mutex_tenure(record, i)) != NULL; i++) {
        if (simba__tenure_is_live(tenure, now_ms)) {
            return true;
        }
    }
    return false;
}

simba_owner simba__mutex_shown(const struct simba__mutex_record *record,
                               int64_t now_ms)
{
    simba_owner shown = record->owner;

    for (size_t i = 0; i < record->other_count; i++) {
        const simba_owner *owner = &record->others[i].owner;

        if (owner->transition_at_ms < now_ms) {
            continue;
        }
        memcpy(shown.id, SIMBA__CROWD_ID, sizeof SIMBA__CROWD_ID);
        if ((owner->transition_at_ms > shown.transition_at_ms) !=
            PLANTED(CROWD_ENDS_FIRST)) {
            shown.ttl_at_ms = owner->ttl_at_ms;
            shown.transition_at_ms = owner->transition_at_ms;
        }
    }
    return shown;
}

/* Who owns it; of several the oldest, or whose answer it is. */
static void read_for(const struct simba__mutex_record *record,
                     const struct simba__tenure *whose,
                     int64_t now_ms,
                     simba_reply *reply)
{
    const struct simba__tenure *tenure;
    uint32_t owned = 0, slots = 0;
    uint64_t ended = record->tenure_token;

    for (size_t i = 0; (tenure = simba__mutex_tenure(record, i)) != NULL; i++) {
        if (!simba__tenure_is_live(tenure, now_ms)) {
            continue;
        }
        if (owned++ == 0) {
            whose = whose == NULL ? tenure : whose;
            slots = tenure->owner.slots;
        }
        /* Of several the one that began last may be gone. */
        if (tenure->owner.slots <= 1 ||
            tenure->owner.token == record->tenure_token) {
            ended = record->former_token;
        }
        slots = simba__slots_least(slots, tenure->owner.slots);
    }
    reply->store_ms = now_ms;
    if (whose == NULL) {
        reply->owner = simba_owner_none();
    } else {
        reply->owner = whose->owner;
    }
    reply->ended = ended;
    if (reply->size >= offsetof(simba_reply, session_ms)) {
        reply->slots = slots;
        reply->owned = owned;
    }
}

void simba__mutex_read(const struct simba__mutex_record *record,
                       int64_t now_ms,
                       simba_reply *reply)
{
    read_for(record, NULL, now_ms, reply);
}

/* --- tombstones ---------------------------------------------------------- */

static struct simba__tombstone *find_tombstone(
    struct simba__mutex_record *record,
    simba_attempt attempt,
    int64_t now_ms)
{
    size_t i = 0;

    while (i < record->tombstone_count) {
        struct simba__tombstone *one = &record->tombstones[i];

        if (one->until_ms < now_ms) {
            *one = record->tombstones[--record->tombstone_count];
        } else if (simba__attempt_equal(one->attempt, attempt)) {
            return one;
        } else {
            i++;
        }
    }
    return NULL;
}

/* A repeated release renews the tombstone: it runs from the newest. */
static bool entomb(struct simba__mutex_record *record,
                   const struct simba__mutex_request *given)
{
    const simba_request *request = given->request;
    struct simba__tombstone *tombstone =
        find_tombstone(record, request->attempt, given->now_ms);

    if (tombstone == NULL) {
        if (!simba__array_reserve(&record->tombstones, &record->tombstone_room,
                                  record->tombstone_count + 1,
                                  sizeof *record->tombstones)) {
            return false; /* no memory */
        }
        tombstone = &record->tombstones[record->tombstone_count++];
        tombstone->attempt = request->attempt;
    }
    tombstone->until_ms = given->now_ms + request->tombstone_ms;
    return true;
}

/* --- the queue ----------------------------------------------------------- */

static size_t find_in_queue(const struct simba__mutex_record *record,
                            simba_attempt attempt)
{
    size_t i = 0;

    while (i < record->queue_count &&
           !simba__attempt_equal(record->queue[i].attempt, attempt)) {
        i++;
    }
    return i;
}

const struct simba__waiter *simba__mutex_find_waiter(
    const struct simba__mutex_record *record,
    simba_attempt attempt)
{
    size_t i = find_in_queue(record, attempt);

    return i == record->queue_count ? NULL : &record->queue[i];
}

static void remove_from_queue(struct simba__mutex_record *record, size_t i)
{
    if (i < record->queue_count) {
        record->queue_count--;
        memmove(&record->queue[i], &record->queue[i + 1],
                (record->queue_count - i) * sizeof *record->queue);
    }
}

static void insert(struct simba__mutex_record *record,
                   const struct simba__waiter *waiter)
{
    size_t i = record->queue_count;

    assert(record->queue_count < record->queue_room);
    while (i > 0 && record->queue[i - 1].position > waiter->position) {
        i--;
    }
    memmove(&record->queue[i + 1], &record->queue[i],
            (record->queue_count - i) * sizeof *record->queue);
    record->queue_count++;
    record->queue[i] = *waiter;
    if (waiter->position > record->last_position) {
        record->last_position = waiter->position;
    }
}

/* Room for one more; false: no memory. */
static bool reserve_queue(struct simba__mutex_record *record)
{
    return simba__array_reserve(&record->queue, &record->queue_room,
                                record->queue_count + 1, sizeof *record->queue);
}

/* S10: who was offered the mutex and did not come goes to the end. False: no
 * memory, and nothing has changed. */
static bool requeue_missing(struct simba__mutex_record *record, int64_t now_ms)
{
    uint64_t micros = (uint64_t)now_ms * 1000;

    if (!record->is_offered || record->offered_until_ms >= now_ms) {
        return true;
    }
    if (record->offered.lapses_ms >= now_ms) {
        if (!reserve_queue(record)) {
            return false;
        }
        record->offered.position = record->last_position >= micros
                                       ? record->last_position + 1
                                       : micros;
        insert(record, &record->offered);
    }
    record->is_offered = false;
    return true;
}

bool simba__mutex_next_waiter(struct simba__waiter_walk *walk,
                              simba_waiter *told)
{
    const struct simba__mutex_record *record = walk->record;
    const struct simba__mutex_host *host = walk->host;

    while (walk->next <= record->queue_count) { /* the offered one is first */
        bool is_offered = walk->next++ == 0;
        const struct simba__waiter *waiter =
            is_offered ? &record->offered : &record->queue[walk->next - 2];

        if ((is_offered && (!record->is_offered ||
                            record->offered_until_ms < walk->now_ms)) ||
            waiter->lapses_ms < walk->now_ms ||
            !host->is_connected(host->self, waiter->connection)) {
            continue;
        }
        if (told != NULL) {
            /* A position is the store's clock in microseconds, or a little more
             * when several came at once. */
            *told = (simba_waiter){.position = waiter->position,
                                   .joined_at_ms =
                                       (int64_t)(waiter->position / 1000),
                                   .is_offered = is_offered,
                                   .slots = waiter->slots};
            memcpy(told->id, waiter->id, sizeof told->id);
        }
        return true;
    }
    return false;
}

/* --- the snapshot -------------------------------------------------------- */

/* One request on its way: what it is asked of, what was seen, what comes of
 * it. */
struct view {
    struct simba__mutex_record *record;
    const struct simba__mutex_host *host;
    const struct simba__mutex_request *given;
    struct simba__mutex_snapshot snapshot;
    struct simba__verdict verdict;
    struct simba__tenure *mine;
    size_t first, second, named; /* in the queue */
};

/* The next from `i` on who waits and lives; NULL: whoever it is, else with this
 * id. If I am the first, that is noted, and the one behind me is. Who has
 * lapsed is removed. One whose connection is gone is passed over, not removed:
 * it may be reconnecting, and its position is its own until its waiter lease
 * lapses. */
static size_t find_candidate(struct view *view,
                             size_t i,
                             const char *id,
                             struct simba__candidate *found)
{
    struct simba__mutex_record *record = view->record;
    const struct simba__mutex_host *host = view->host;
    struct simba__mutex_snapshot *s = &view->snapshot;
    const simba_request *request = view->given->request;
    bool may_be_dead = PLANTED(DEAD_OFFERED) ||
                       (id != NULL && PLANTED(SUCCESSOR_DEAD_WAITED_FOR));

    while (i < record->queue_count) {
        const struct simba__waiter *waiter = &record->queue[i];
        bool is_me = simba__attempt_equal(waiter->attempt, request->attempt);
        /* Who asks may have a new connection, or the request is a late one of
         * an old connection. */
        bool is_here = is_me && s->me.is_connected;

        if (waiter->lapses_ms < s->now_ms) {
            remove_from_queue(record, i);
        } else if ((is_me && request->kind != SIMBA_ACQUIRE) ||
                   (id != NULL && strcmp(waiter->id, id) != 0) ||
                   !(is_here || may_be_dead ||
                     host->is_connected(host->self, waiter->connection))) {
            i++;
        } else if (is_me && found == &s->first) {
            s->me.is_first = true;
            if (request->slots <= 1) {
                break; /* those behind me are not needed */
            }
            i++;
        } else {
            *found = (struct simba__candidate){.is_there = true,
                                               .is_me = is_me,
                                               .position = waiter->position,
                                               .slots = waiter->slots};
            break;
        }
    }
    return i;
}

static bool is_leaving(const simba_request *request)
{
    return request->kind == SIMBA_RELEASE || request->kind == SIMBA_LEAVE;
}

/* S5: a tenure is known by its attempt, never by the id alone. */
static bool is_my_tenure(const struct simba__tenure *tenure,
                         const simba_request *request)
{
    bool is_by_id =
        (PLANTED(ACQUIRE_BY_ID) && request->kind == SIMBA_ACQUIRE) ||
        (PLANTED(RENEW_BY_ID) && request->kind == SIMBA_RENEW) ||
        (PLANTED(RELEASE_BY_ID) && is_leaving(request));

    if (request->kind == SIMBA_BREAK || request->kind == SIMBA_HAND_OVER) {
        return tenure->owner.token == request->token ||
               (request->kind == SIMBA_HAND_OVER && request->token == 0);
    }
    return simba__attempt_equal(tenure->attempt, request->attempt) ||
           (is_by_id && strcmp(tenure->owner.id, request->id) == 0);
}

/* My tenure, and the crowd of all others. */
static void look_at_tenures(struct view *view)
{
    const struct simba__mutex_record *record = view->record;
    struct simba__mutex_snapshot *s = &view->snapshot;
    struct simba__crowd *owners = &s->owners;
    struct simba__tenure *tenure;
    uint32_t taken;

    for (size_t i = 0; (tenure = simba__mutex_tenure(record, i)) != NULL; i++) {
        const simba_owner *owner = &tenure->owner;
        bool is_live = simba__tenure_is_live(tenure, s->now_ms);

        if (view->mine == NULL && is_my_tenure(tenure, view->given->request)) {
            view->mine = tenure;
            s->mine.is_there = true;
            s->mine.is_live = is_live;
            s->mine.is_broken = owner->is_broken;
            s->mine.end_ms = owner->transition_at_ms;
            s->mine.token = owner->token;
            s->mine.slot = owner->slot;
            s->mine.slots = owner->slots;
        } else if (is_live) {
            if (owners->count++ == 0) {
                owners->limit = owner->slots;
                owners->first_end_ms = owner->transition_at_ms;
            }
            owners->limit = simba__slots_least(owners->limit, owner->slots);
            if (owner->transition_at_ms < owners->first_end_ms) {
                owners->first_end_ms = owner->transition_at_ms;
            }
        }
    }
    if (owners->count == 0) {
        return;
    }
    do { /* in the order of tokens slots mostly rise: one walk or two */
        taken = s->lowest_free_slot;
        for (size_t i = 0; (tenure = simba__mutex_tenure(record, i)) != NULL;
             i++) {
            s->lowest_free_slot += tenure->owner.slot == s->lowest_free_slot &&
                                   simba__tenure_is_live(tenure, s->now_ms);
        }
    } while (taken != s->lowest_free_slot);
}

static void look(struct view *view)
{
    struct simba__mutex_record *record = view->record;
    const struct simba__mutex_host *host = view->host;
    const struct simba__mutex_request *given = view->given;
    const simba_request *request = given->request;
    struct simba__mutex_snapshot *s = &view->snapshot;
    const struct simba__waiter *me;
    bool is_wider;

    s->now_ms = given->now_ms;
    s->last_token = record->last_token;
    s->last_position = record->last_position;
    look_at_tenures(view);
    is_wider = s->mine.is_live && simba__slots_limit(request->slots) >
                                      simba__slots_limit(s->mine.slots);
    if (request->kind == SIMBA_RENEW && !is_wider) {
        return; /* the queue is of no interest, nor need it be loaded */
    }
    if (record->is_offered) {
        s->me.is_offered =
            simba__attempt_equal(record->offered.attempt, request->attempt);
        if (!s->me.is_offered) {
            s->offered =
                (struct simba__crowd){.count = 1,
                                      .limit = record->offered.slots,
                                      .first_end_ms = record->offered_until_ms};
        }
    }
    me = simba__mutex_find_waiter(record, request->attempt);
    s->me.is_queued = me != NULL;
    if (me != NULL) {
        s->me.position = me->position;
    }
    if (request->kind == SIMBA_ACQUIRE) {
        s->me.is_entombed =
            find_tombstone(record, request->attempt, given->now_ms) != NULL;
        if (s->me.is_entombed ||
            (s->mine.is_live && !s->mine.is_broken && !is_wider)) {
            return;
        }
        s->me.is_connected = host->is_connected(host->self, given->connection);
    } else if (!s->mine.is_there && !s->me.is_offered &&
               !(s->me.is_queued && s->owners.limit > 1)) {
        return; /* nothing can become free */
    }
    view->first = find_candidate(view, 0, NULL, &s->first);
    if (s->first.is_there && simba__mutex_has_room(s, s->first.slots)) {
        view->second = find_candidate(view, view->first + 1, NULL, &s->second);
    }
    if (request->to != NULL) {
        view->named = find_candidate(view, 0, request->to, &s->named);
    }
    if (PLANTED(QUEUE_REVERSED) && s->first.is_there) {
        view->first = record->queue_count - 1;
    }
}

/* --- the verdict --------------------------------------------------------- */

static void copy_id(char *to, const char *id)
{
    size_t length = strlen(id);

    assert(length <= SIMBA_ID_MAX);
    memcpy(to, id, length + 1);
}

static void join(struct simba__mutex_record *record,
                 const struct simba__mutex_request *given,
                 uint64_t position)
{
    size_t i = find_in_queue(record, given->request->attempt);
    struct simba__waiter me = {
        .attempt = given->request->attempt,
        .position = position,
        .connection = given->connection,
        .lapses_ms =
            given->now_ms + given->request->waiter_ms + given->spare_ms,
        .slots = given->request->slots,
    };

    copy_id(me.id, given->request->id);
    if (i < record->queue_count) {
        record->queue[i] = me;
    } else {
        insert(record, &me);
    }
}

/* Room for one more beside those whose leases run; false: no memory. */
static bool reserve_tenure(const struct view *view)
{
    struct simba__mutex_record *record = view->record;

    return view->snapshot.owners.count == 0 ||
           simba__array_reserve(&record->others, &record->other_room,
                                record->other_count + 1,
                                sizeof *record->others);
}

/* A new tenure, beside those whose leases run. */
static struct simba__tenure *begin_tenure(const struct view *view)
{
    struct simba__mutex_record *record = view->record;
    const simba_request *request = view->given->request;
    const struct simba__verdict *verdict = &view->verdict;
    struct simba__tenure *tenure = &record->first;

    if (view->snapshot.owners.count > 0) {
        assert(record->other_count < record->other_room);
        tenure = &record->others[record->other_count++];
    }
    memset(tenure, 0, sizeof *tenure);
    tenure->attempt = request->attempt;
    copy_id(tenure->owner.id, request->id);
    tenure->owner.token = verdict->token;
    tenure->owner.slot = verdict->slot;
    tenure->owner.acquired_at_ms = view->given->now_ms;
    tenure->owner.former = record->tenure_token;
    record->last_token = verdict->token;
    record->former_token = record->tenure_token;
    record->tenure_token = verdict->token;
    return tenure;
}

/* Mark it, and wake its owner, which learns of it by a renewal. */
static void ask_to_hand_over(const struct view *view)
{
    struct simba__tenure *mine = view->mine;
    const char *to = view->given->request->to;
    struct simba__waiter owner = {.attempt = mine->attempt,
                                  .connection = mine->connection};

    mine->owner.is_asked = true;
    copy_id(mine->asked, to == NULL ? "@" : to);
    copy_id(owner.id, mine->owner.id);
    view->host->wake(view->host->self, &owner);
}

static void carry_out(struct view *view)
{
    struct simba__mutex_record *record = view->record;
    const struct simba__mutex_host *host = view->host;
    const struct simba__mutex_request *given = view->given;
    const struct simba__verdict *verdict = &view->verdict;
    const simba_request *request = given->request;
    bool is_granted = verdict->answer == SIMBA__GRANT;
    bool is_offer = verdict->offer_to != SIMBA__OFFER_NOBODY;
    bool is_named = verdict->offer_to == SIMBA__OFFER_NAMED;
    size_t next = is_offer && !is_named ? view->second : view->first;
    struct simba__waiter offered;

    if (is_offer) {
        size_t i = is_named ? view->named : view->first;

        assert(i < record->queue_count);
        offered = record->queue[i];
        host->wake(host->self, &offered);
    }
    if (verdict->wake) {
        assert(next < record->queue_count);
        host->wake(host->self, &record->queue[next]);
    }
    if (is_granted || verdict->evict) {
        remove_from_queue(record, find_in_queue(record, request->attempt));
    }
    if ((is_granted || verdict->evict || verdict->join) &&
        view->snapshot.me.is_offered) {
        record->is_offered = false;
    }
    if (is_granted) {
        view->mine = begin_tenure(view);
    }
    if (is_granted ||
        (verdict->answer == SIMBA__EXTEND &&
         !(PLANTED(REPEAT_NO_EXTEND) && request->kind == SIMBA_ACQUIRE))) {
        simba_owner *owner = &view->mine->owner;

        view->mine->connection = given->connection;
        owner->slots = verdict->slots;
        owner->ttl_at_ms = given->now_ms + request->ttl_ms;
        owner->transition_at_ms = owner->ttl_at_ms + request->transition_ms;
    }
    if (verdict->is_broken) {
        view->mine->owner.is_broken = true;
    }
    if (verdict->is_asked) {
        ask_to_hand_over(view);
    }
    if (verdict->evict && view->mine != NULL) {
        simba__mutex_end(record, view->mine);
    }
    if (is_offer) {
        remove_from_queue(record, find_in_queue(record, offered.attempt));
        record->is_offered = true;
        record->offered = offered;
        record->offered_until_ms = given->now_ms + SIMBA__OFFER_MS;
    }
    if (verdict->join) {
        join(record, given, verdict->position);
    }
}

/* Who was passed by a named successor is told its id: wake-ups do not say whom
 * they are meant for, and that one may be of the same handle. */
static bool is_passed(const struct view *view)
{
    const struct simba__mutex_record *record = view->record;

    return view->verdict.join && view->snapshot.offered.count > 0 &&
           record->offered.position > view->verdict.position;
}

/* The answer, but for who owns it then. */
static void tell(const struct view *view, simba_reply *answer)
{
    const struct simba__verdict *verdict = &view->verdict;
    const simba_request *request = view->given->request;
    const struct simba__waiter *queue = view->record->queue;
    bool is_to_first = verdict->offer_to == SIMBA__OFFER_FIRST ||
                       (verdict->is_asked && request->to == NULL);
    bool is_to_named = verdict->offer_to == SIMBA__OFFER_NAMED ||
                       (verdict->is_asked && request->to != NULL);

    answer->mine =
        verdict->answer != SIMBA__REFUSE || verdict->is_broken ||
        (request->kind == SIMBA_HAND_OVER && view->snapshot.mine.is_live);
    answer->token = verdict->token;
    answer->slot = verdict->slot;
    answer->is_queued = verdict->join;
    answer->is_head = verdict->is_head;
    answer->position = verdict->position;
    answer->wait_ms = verdict->wait_ms;
    if (request->kind == SIMBA_RENEW && verdict->answer == SIMBA__EXTEND &&
        !PLANTED(ASKED_FORGOTTEN)) {
        copy_id(answer->asked, view->mine->asked);
    }
    if (is_leaving(request) || request->kind == SIMBA_HAND_OVER) {
        if (is_to_first) {
            copy_id(answer->to, queue[view->first].id);
        } else if (is_to_named) {
            copy_id(answer->to, queue[view->named].id);
        }
    } else if (is_passed(view)) {
        copy_id(answer->to, view->record->offered.id);
    }
}

bool simba__mutex_serve(struct simba__mutex_record *record,
                        const struct simba__mutex_host *host,
                        const struct simba__mutex_request *given,
                        simba_reply *reply)
{
    const simba_request *request = given->request;
    struct view view = {.record = record, .host = host, .given = given};
    const struct simba__verdict *verdict = &view.verdict;
    simba_reply none = SIMBA_REPLY_INIT, whole, *answer = &whole;
    bool is_mine;

    assert(reply->size >= SIMBA_REPLY_SIZE_LEAST);
    forget_ended(record, given->now_ms);
    if (!requeue_missing(record, given->now_ms) ||
        (is_leaving(request) && request->tombstone_ms != 0 &&
         !entomb(record, given))) {
        return false;
    }
    if (reply->size == sizeof *reply) { /* no copy of it is needed */
        answer = reply;
    }
    *answer = none;
    if (request->kind <= SIMBA_LEAVE || request->kind == SIMBA_BREAK ||
        request->kind == SIMBA_HAND_OVER) {
        look(&view);
        view.verdict = simba__mutex_decide(&view.snapshot, request);
        if ((verdict->join && !reserve_queue(record)) ||
            (verdict->answer == SIMBA__GRANT && !reserve_tenure(&view))) {
            return false; /* and nothing has come of it */
        }
        tell(&view, answer);
        carry_out(&view);
    }
    is_mine = verdict->answer != SIMBA__REFUSE ||
              (view.snapshot.mine.is_live && !verdict->evict);
    read_for(record, is_mine ? view.mine : NULL, given->now_ms, answer);
    if (answer != reply) {
        simba_reply_copy(reply, answer);
    }
    return true;
}
