/* One mutex as a store keeps it; see mutex_record.h. */
#include "core/mutex_record.h"

#include "core/plant.h"
#include "util/array.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void simba__mutex_fini(struct simba__mutex_record *record)
{
    free(record->queue);
    free(record->tombstones);
    memset(record, 0, sizeof *record);
}

void simba__mutex_clear(struct simba__mutex_record *record)
{
    struct simba__mutex_record kept = *record;

    *record =
        (struct simba__mutex_record){.queue = kept.queue,
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

bool simba__mutex_is_held(const struct simba__mutex_record *record,
                          int64_t now_ms)
{
    return record->owner.id[0] != '\0' &&
           record->owner.transition_at_ms >= now_ms;
}

void simba__mutex_read(const struct simba__mutex_record *record,
                       int64_t now_ms,
                       simba_reply *reply)
{
    reply->store_ms = now_ms;
    if (simba__mutex_is_held(record, now_ms)) {
        reply->owner = record->owner;
        reply->ended = record->former_token;
    } else {
        reply->owner = simba_owner_none();
        reply->ended = record->tenure_token;
    }
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
                                   .is_offered = is_offered};
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
    size_t me, first, second; /* in the queue */
};

/* The next from `i` on who waits and lives; who leaves is not meant. Who has
 * lapsed is removed. One whose connection is gone is passed over, not removed:
 * it may be reconnecting, and its position is its own until its waiter lease
 * lapses. */
static size_t find_candidate(const struct view *view,
                             size_t i,
                             struct simba__candidate *found)
{
    struct simba__mutex_record *record = view->record;
    const struct simba__mutex_host *host = view->host;
    const struct simba__mutex_snapshot *s = &view->snapshot;
    const simba_request *request = view->given->request;

    while (i < record->queue_count) {
        const struct simba__waiter *waiter = &record->queue[i];
        bool is_me = simba__attempt_equal(waiter->attempt, request->attempt);
        /* Who asks may have a new connection, or the request is a late one of
         * an old connection. */
        bool is_here = is_me && s->me.is_connected;

        if (waiter->lapses_ms < s->now_ms) {
            remove_from_queue(record, i);
        } else if ((is_me && request->kind != SIMBA_ACQUIRE) ||
                   !(is_here || PLANTED(DEAD_OFFERED) ||
                     host->is_connected(host->self, waiter->connection))) {
            i++;
        } else {
            *found = (struct simba__candidate){
                .is_there = true, .is_me = is_me, .position = waiter->position};
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
static bool is_my_tenure(const struct simba__mutex_record *record,
                         const simba_request *request)
{
    bool is_by_id =
        (PLANTED(ACQUIRE_BY_ID) && request->kind == SIMBA_ACQUIRE) ||
        (PLANTED(RENEW_BY_ID) && request->kind == SIMBA_RENEW) ||
        (PLANTED(RELEASE_BY_ID) && is_leaving(request));

    if (record->owner.id[0] == '\0') {
        return false;
    }
    if (request->kind == SIMBA_BREAK) {
        return record->owner.token == request->token;
    }
    return simba__attempt_equal(record->attempt, request->attempt) ||
           (is_by_id && strcmp(record->owner.id, request->id) == 0);
}

static void look(struct view *view)
{
    struct simba__mutex_record *record = view->record;
    const struct simba__mutex_host *host = view->host;
    const struct simba__mutex_request *given = view->given;
    const simba_request *request = given->request;
    struct simba__mutex_snapshot *s = &view->snapshot;
    bool is_held = simba__mutex_is_held(record, given->now_ms);
    struct simba__crowd one = {.count = 1};

    s->now_ms = given->now_ms;
    s->last_token = record->last_token;
    s->last_position = record->last_position;
    s->mine.is_there = is_my_tenure(record, request);
    if (s->mine.is_there) {
        s->mine.is_live = is_held;
        s->mine.is_broken = record->owner.is_broken;
        s->mine.end_ms = record->owner.transition_at_ms;
        s->mine.token = record->owner.token;
    } else if (is_held) {
        one.first_end_ms = one.last_end_ms = record->owner.transition_at_ms;
        s->owners = one;
    }
    if (request->kind == SIMBA_RENEW) {
        return; /* the queue is of no interest, nor need it be loaded */
    }
    if (record->is_offered) {
        s->me.is_offered =
            simba__attempt_equal(record->offered.attempt, request->attempt);
        if (!s->me.is_offered) {
            one.first_end_ms = one.last_end_ms = record->offered_until_ms;
            s->offered = one;
        }
    }
    if (request->kind == SIMBA_ACQUIRE) {
        s->me.is_entombed =
            find_tombstone(record, request->attempt, given->now_ms) != NULL;
        if (s->me.is_entombed || (s->mine.is_live && !s->mine.is_broken)) {
            return;
        }
        s->me.is_connected = host->is_connected(host->self, given->connection);
    } else if (!s->mine.is_there && !s->me.is_offered) {
        return; /* nothing can become free */
    }
    view->first = find_candidate(view, 0, &s->first);
    if (PLANTED(QUEUE_REVERSED) && s->first.is_there) {
        view->first = record->queue_count - 1;
    }
    if (s->first.is_there && s->owners.count + s->offered.count == 0) {
        view->second = find_candidate(view, view->first + 1, &s->second);
    }
    view->me = find_in_queue(record, request->attempt);
    s->me.is_queued = view->me < record->queue_count;
    if (s->me.is_queued) {
        s->me.position = record->queue[view->me].position;
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
        .lapses_ms = given->now_ms + given->request->waiter_ms,
    };

    copy_id(me.id, given->request->id);
    if (i < record->queue_count) {
        record->queue[i] = me;
    } else {
        insert(record, &me);
    }
}

static void carry_out(const struct view *view)
{
    struct simba__mutex_record *record = view->record;
    const struct simba__mutex_host *host = view->host;
    const struct simba__mutex_request *given = view->given;
    const struct simba__verdict *verdict = &view->verdict;
    const simba_request *request = given->request;
    bool is_granted = verdict->answer == SIMBA__GRANT;
    struct simba__waiter first;

    if (verdict->offer_to == SIMBA__OFFER_FIRST) {
        assert(view->first < record->queue_count);
        first = record->queue[view->first];
        host->wake(host->self, &first);
    }
    if (verdict->wake) {
        assert(view->second < record->queue_count);
        host->wake(host->self, &record->queue[view->second]);
    }
    if (is_granted || verdict->evict) {
        remove_from_queue(record, find_in_queue(record, request->attempt));
    }
    if (is_granted || (verdict->evict && view->snapshot.me.is_offered)) {
        record->is_offered = false;
    }
    if (is_granted) {
        record->attempt = request->attempt;
        record->last_token = verdict->token;
        record->former_token = record->tenure_token;
        record->tenure_token = verdict->token;
        record->owner.is_broken = false;
        copy_id(record->owner.id, request->id);
        record->owner.token = verdict->token;
        record->owner.acquired_at_ms = given->now_ms;
    }
    if (is_granted ||
        (verdict->answer == SIMBA__EXTEND &&
         !(PLANTED(REPEAT_NO_EXTEND) && request->kind == SIMBA_ACQUIRE))) {
        record->owner.ttl_at_ms = given->now_ms + request->ttl_ms;
        record->owner.transition_at_ms =
            record->owner.ttl_at_ms + request->transition_ms;
    }
    record->owner.is_broken |= verdict->is_broken;
    if (verdict->evict && view->snapshot.mine.is_there) {
        memset(&record->owner, 0, sizeof record->owner);
        memset(&record->attempt, 0, sizeof record->attempt);
    }
    if (verdict->offer_to == SIMBA__OFFER_FIRST) {
        remove_from_queue(record, find_in_queue(record, first.attempt));
        record->is_offered = true;
        record->offered = first;
        record->offered_until_ms = given->now_ms + SIMBA__OFFER_MS;
    }
    if (verdict->join) {
        join(record, given, verdict->position);
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
    simba_reply answer = SIMBA_REPLY_INIT;

    assert(reply->size >= SIMBA_REPLY_SIZE_LEAST);
    if (!requeue_missing(record, given->now_ms) ||
        (is_leaving(request) && request->tombstone_ms != 0 &&
         !entomb(record, given))) {
        return false;
    }
    if (request->kind <= SIMBA_LEAVE || request->kind == SIMBA_BREAK) {
        look(&view);
        view.verdict = simba__mutex_decide(&view.snapshot, request);
        if (verdict->join && !reserve_queue(record)) {
            return false; /* and nothing has come of it */
        }
        carry_out(&view);
    }
    answer.mine = verdict->answer != SIMBA__REFUSE || verdict->is_broken;
    answer.token = verdict->token;
    answer.slot = verdict->slot;
    answer.is_queued = verdict->join;
    answer.is_head = verdict->is_head;
    answer.position = verdict->position;
    answer.wait_ms = verdict->wait_ms;
    simba__mutex_read(record, given->now_ms, &answer);
    simba_reply_copy(reply, &answer);
    return true;
}
