/* One mutex as a store keeps it; see row.h. */
#include "core/mutex_record.h"

#include "core/plant.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

bool simba__attempt_equal(simba_attempt a, simba_attempt b)
{
    return a.high == b.high && a.low == b.low;
}

void simba__mutex_init(struct simba__mutex_record *row)
{
    memset(row, 0, sizeof *row);
}

void simba__mutex_fini(struct simba__mutex_record *row)
{
    free(row->queue);
    free(row->tombstones);
    memset(row, 0, sizeof *row);
}

bool simba__mutex_is_held(const struct simba__mutex_record *row, int64_t now_ms)
{
    return row->owner.id[0] != '\0' && row->owner.transition_at_ms >= now_ms;
}

uint64_t simba__mutex_ended(const struct simba__mutex_record *row,
                            int64_t now_ms)
{
    return simba__mutex_is_held(row, now_ms) ? row->former_token
                                             : row->tenure_token;
}

static void copy_id(char *to, const char *id)
{
    size_t length = strlen(id);

    assert(length <= SIMBA_ID_MAX);
    memcpy(to, id, length + 1);
}

/* Makes room for two more, so that what follows cannot fail: one may join the
 * line, and one may be sent to its end. */
static bool reserve(void **items, size_t count, size_t *room, size_t size)
{
    size_t wanted = *room == 0 ? 4 : *room * 2;
    void *grown;

    if (count + 2 <= *room) {
        return true;
    }
    grown = realloc(*items, wanted * size);
    if (grown == NULL) {
        return false;
    }
    *items = grown;
    *room = wanted;
    return true;
}

static bool reserve_all(struct simba__mutex_record *row)
{
    return reserve((void **)&row->queue, row->queue_count, &row->queue_room,
                   sizeof *row->queue) &&
           reserve((void **)&row->tombstones, row->tombstone_count,
                   &row->tombstone_room, sizeof *row->tombstones);
}

/* --- tombstones ---------------------------------------------------------- */

static struct simba__tombstone *find_tomb(struct simba__mutex_record *row,
                                          simba_attempt attempt,
                                          int64_t now_ms)
{
    size_t i = 0;

    while (i < row->tombstone_count) {
        if (row->tombstones[i].until_ms < now_ms) {
            row->tombstones[i] = row->tombstones[--row->tombstone_count];
        } else if (simba__attempt_equal(row->tombstones[i].attempt, attempt)) {
            return &row->tombstones[i];
        } else {
            i++;
        }
    }
    return NULL;
}

static bool is_entombed(struct simba__mutex_record *row,
                        simba_attempt attempt,
                        int64_t now_ms)
{
    return find_tomb(row, attempt, now_ms) != NULL;
}

/* A repeated release renews the tombstone: its lease runs from the newest. */
static void entomb(struct simba__mutex_record *row,
                   const struct simba__mutex_call *call)
{
    const simba_request *request = call->request;
    struct simba__tombstone *tomb;

    if (request->tombstone_ms == 0) {
        return;
    }
    tomb = find_tomb(row, request->attempt, call->now_ms);
    if (tomb == NULL) {
        assert(row->tombstone_count < row->tombstone_room);
        tomb = &row->tombstones[row->tombstone_count++];
        tomb->attempt = request->attempt;
    }
    tomb->until_ms = call->now_ms + request->tombstone_ms;
}

/* --- the line ------------------------------------------------------------ */

static size_t find_in_line(const struct simba__mutex_record *row,
                           simba_attempt attempt)
{
    size_t i = 0;

    while (i < row->queue_count &&
           !simba__attempt_equal(row->queue[i].attempt, attempt)) {
        i++;
    }
    return i;
}

static void remove_from_line(struct simba__mutex_record *row, size_t i)
{
    if (i < row->queue_count) {
        row->queue_count--;
        memmove(&row->queue[i], &row->queue[i + 1],
                (row->queue_count - i) * sizeof *row->queue);
    }
}

static bool is_live(const struct simba__mutex_host *host,
                    const struct simba__waiter *waiter,
                    int64_t now_ms)
{
    return waiter->lapses_ms >= now_ms &&
           (PLANTED(DEAD_CALLED) ||
            host->is_connected(host->self, waiter->connection));
}

/* The first live waiter from `i` on. One whose connection is gone is skipped,
 * not removed: it may be reconnecting, and its place is its own until its
 * waiter lease lapses. */
static size_t next_live(struct simba__mutex_record *row,
                        const struct simba__mutex_host *host,
                        size_t i,
                        int64_t now_ms)
{
    while (i < row->queue_count && !is_live(host, &row->queue[i], now_ms)) {
        if (row->queue[i].lapses_ms < now_ms) {
            remove_from_line(row, i);
        } else {
            i++;
        }
    }
    return i;
}

/* The free mutex goes to the first live waiter: it is called and has 300 ms to
 * come. The second is told as well; it will be refused for as long as the
 * reservation runs, and so knows when to ask again. */
static void call_next(struct simba__mutex_record *row,
                      const struct simba__mutex_host *host,
                      int64_t now_ms)
{
    size_t first = next_live(row, host, 0, now_ms);
    size_t second;

    row->is_offered = false;
    if (first == row->queue_count || PLANTED(NO_CALL)) {
        return;
    }
    if (PLANTED(LINE_REVERSED)) {
        first = row->queue_count - 1;
    }
    row->offered = row->queue[first];
    row->is_offered = true;
    row->offered_until_ms = now_ms + SIMBA__OFFER_MS;
    remove_from_line(row, first);
    host->wake(host->self, &row->offered);
    second = next_live(row, host, first, now_ms);
    if (second < row->queue_count) {
        host->wake(host->self, &row->queue[second]);
    }
}

/* The end of the line, also when the line was lost with the data: like the
 * token (S4), places follow the clock. */
static uint64_t last_place(const struct simba__mutex_record *row,
                           int64_t now_ms)
{
    uint64_t micros = (uint64_t)now_ms * 1000;

    return row->last_position >= micros ? row->last_position + 1 : micros;
}

static bool has_reservation(const struct simba__mutex_record *row,
                            int64_t now_ms)
{
    return row->is_offered && row->offered_until_ms >= now_ms;
}

static void join_line(struct simba__mutex_record *row,
                      uint64_t position,
                      struct simba__waiter *joined)
{
    size_t i = row->queue_count;

    assert(row->queue_count < row->queue_room);
    while (i > 0 && row->queue[i - 1].position > position) {
        i--;
    }
    memmove(&row->queue[i + 1], &row->queue[i],
            (row->queue_count - i) * sizeof *row->queue);
    row->queue_count++;
    joined->position = position;
    row->queue[i] = *joined;
    if (position > row->last_position) {
        row->last_position = position;
    }
}

/* S10: who was called and did not come has lost its place: back to the end. */
static void requeue_missing(struct simba__mutex_record *row, int64_t now_ms)
{
    if (!row->is_offered || has_reservation(row, now_ms)) {
        return;
    }
    row->is_offered = false;
    if (row->offered.lapses_ms >= now_ms) {
        join_line(row, last_place(row, now_ms), &row->offered);
    }
}

static void refuse(struct simba__mutex_record *row,
                   const struct simba__mutex_host *host,
                   const struct simba__mutex_call *call,
                   simba_reply *reply)
{
    const simba_request *request = call->request;
    size_t i = find_in_line(row, request->attempt);
    struct simba__waiter me = {
        .attempt = request->attempt,
        .connection = call->connection,
        .lapses_ms = call->now_ms + request->waiter_ms,
    };

    if (!request->join) {
        return;
    }
    copy_id(me.id, call->request->id);
    if (i == row->queue_count) {
        /* A newcomer goes to the end; who had a place gets it back. */
        join_line(row,
                  request->position != 0 ? request->position
                                         : last_place(row, call->now_ms),
                  &me);
        i = find_in_line(row, request->attempt);
    } else {
        me.position = row->queue[i].position;
        row->queue[i] = me;
    }
    reply->is_queued = true;
    reply->position = row->queue[i].position;
    i = next_live(row, host, 0, call->now_ms);
    reply->is_head =
        i < row->queue_count &&
        simba__attempt_equal(row->queue[i].attempt, request->attempt);
}

/* --- tenures ------------------------------------------------------------- */

static bool is_tenure(const struct simba__mutex_record *row,
                      const struct simba__mutex_call *call)
{
    return simba__attempt_equal(row->attempt, call->request->attempt);
}

static bool is_same_id(const struct simba__mutex_record *row,
                       const struct simba__mutex_call *call)
{
    return strcmp(row->owner.id, call->request->id) == 0;
}

static void extend(struct simba__mutex_record *row,
                   const struct simba__mutex_call *call)
{
    row->owner.ttl_at_ms = call->now_ms + call->request->ttl_ms;
    row->owner.transition_at_ms =
        row->owner.ttl_at_ms + call->request->transition_ms;
}

/* S4: the clock carries the token over lost data, the counter over a clock
 * that stands still or steps back. */
static uint64_t next_token(const struct simba__mutex_record *row,
                           const struct simba__mutex_call *call)
{
    uint64_t micros = PLANTED(TOKEN_COUNTS) ? 0 : (uint64_t)call->now_ms * 1000;
    uint64_t above = call->request->token_above;
    uint64_t after = (row->last_token > above ? row->last_token : above) +
                     (PLANTED(TOKEN_STUCK) ? 0 : 1);

    return after > micros || PLANTED(TOKEN_STUCK) ? after : micros;
}

static void grant(struct simba__mutex_record *row,
                  const struct simba__mutex_call *call)
{
    remove_from_line(row, find_in_line(row, call->request->attempt));
    row->is_offered = false;
    row->owner.is_broken = false;
    row->last_token = next_token(row, call);
    row->attempt = call->request->attempt;
    copy_id(row->owner.id, call->request->id);
    row->owner.token = row->last_token;
    row->former_token = row->tenure_token;
    row->tenure_token = row->last_token;
    row->owner.acquired_at_ms = call->now_ms;
    extend(row, call);
}

static void clear_owner(struct simba__mutex_record *row)
{
    memset(&row->owner, 0, sizeof row->owner);
    memset(&row->attempt, 0, sizeof row->attempt);
}

/* Who may take a free mutex: the called one, or anybody when nobody stands in
 * line before him. */
static bool may_take(struct simba__mutex_record *row,
                     const struct simba__mutex_host *host,
                     const struct simba__mutex_call *call)
{
    simba_attempt me = call->request->attempt;
    size_t first;

    if (PLANTED(NEXT_FORGOTTEN)) {
        row->is_offered = false;
    }
    if (!row->is_offered) {
        first = next_live(row, host, 0, call->now_ms);
        if (first == row->queue_count || PLANTED(BARGING) ||
            simba__attempt_equal(row->queue[first].attempt, me)) {
            return true;
        }
        call_next(row, host, call->now_ms);
    }
    return row->is_offered && simba__attempt_equal(row->offered.attempt, me);
}

static void answer_mine(const struct simba__mutex_record *row,
                        simba_reply *reply)
{
    reply->mine = true;
    reply->token = row->owner.token;
}

static void serve_acquire(struct simba__mutex_record *row,
                          const struct simba__mutex_host *host,
                          const struct simba__mutex_call *call,
                          simba_reply *reply)
{
    bool is_held = simba__mutex_is_held(row, call->now_ms);
    bool is_known = is_tenure(row, call) ||
                    (PLANTED(ACQUIRE_BY_ID) && is_same_id(row, call));

    if (is_entombed(row, call->request->attempt, call->now_ms)) {
        return; /* S8: undone before it came */
    }
    if (is_held && is_known && !row->owner.is_broken) {
        if (!PLANTED(REPEAT_NO_EXTEND)) {
            extend(row, call); /* asked again: the lease runs from now */
        }
        answer_mine(row, reply);
    } else if (is_held) {
        reply->wait_ms = row->owner.transition_at_ms - call->now_ms;
        refuse(row, host, call, reply);
    } else if (may_take(row, host, call)) {
        grant(row, call);
        answer_mine(row, reply);
    } else {
        reply->wait_ms = row->offered_until_ms - call->now_ms;
        refuse(row, host, call, reply);
    }
}

/* S5: extends this very tenure; never creates, never steals. */
static void serve_renew(struct simba__mutex_record *row,
                        const struct simba__mutex_call *call,
                        simba_reply *reply)
{
    bool is_mine =
        PLANTED(RENEW_BY_ID) ? is_same_id(row, call) : is_tenure(row, call);
    bool is_alive =
        simba__mutex_is_held(row, call->now_ms) || PLANTED(RENEW_CREATES);
    bool is_barred = row->owner.is_broken && !PLANTED(BREAK_RENEWS);

    if (is_mine && is_alive && !is_barred && row->owner.id[0] != '\0') {
        extend(row, call);
        answer_mine(row, reply);
    }
}

/* Ends this very attempt: its tenure, its position in the queue, its being
 * called. */
static void serve_release(struct simba__mutex_record *row,
                          const struct simba__mutex_host *host,
                          const struct simba__mutex_call *call)
{
    simba_attempt me = call->request->attempt;
    bool is_mine =
        PLANTED(RELEASE_BY_ID) ? is_same_id(row, call) : is_tenure(row, call);

    entomb(row, call);
    remove_from_line(row, find_in_line(row, me));
    if (row->owner.id[0] != '\0' && is_mine) {
        clear_owner(row);
        if (!has_reservation(row, call->now_ms)) {
            call_next(row, host, call->now_ms);
        } /* else the lease had lapsed, and somebody was called since */
    } else if (row->is_offered &&
               simba__attempt_equal(row->offered.attempt, me)) {
        call_next(row, host, call->now_ms);
    }
}

/* Ends a tenure by force, as an admin asks: no further renewal. */
static void serve_break(struct simba__mutex_record *row,
                        const struct simba__mutex_host *host,
                        const struct simba__mutex_call *call,
                        simba_reply *reply)
{
    if (!simba__mutex_is_held(row, call->now_ms) ||
        row->owner.token != call->request->token) {
        return;
    }
    reply->mine = true;
    row->owner.is_broken = true;
    if (call->request->now) {
        clear_owner(row);
        call_next(row, host, call->now_ms);
    }
}

bool simba__mutex_serve(struct simba__mutex_record *row,
                        const struct simba__mutex_host *host,
                        const struct simba__mutex_call *call,
                        simba_reply *reply)
{
    *reply = (simba_reply){.size = sizeof *reply};
    if (!reserve_all(row)) {
        return false;
    }
    requeue_missing(row, call->now_ms);
    switch (call->request->kind) {
    case SIMBA_ACQUIRE:
        serve_acquire(row, host, call, reply);
        break;
    case SIMBA_RENEW:
        serve_renew(row, call, reply);
        break;
    case SIMBA_RELEASE:
    case SIMBA_LEAVE:
        serve_release(row, host, call);
        break;
    case SIMBA_BREAK:
        serve_break(row, host, call, reply);
        break;
    default:
        break;
    }
    simba__mutex_read(row, call->now_ms, reply);
    return true;
}

void simba__mutex_read(const struct simba__mutex_record *row,
                       int64_t now_ms,
                       simba_reply *reply)
{
    bool is_held = simba__mutex_is_held(row, now_ms);

    reply->store_ms = now_ms;
    reply->ended = simba__mutex_ended(row, now_ms);
    reply->owner = is_held ? row->owner : simba_owner_none();
}

bool simba__mutex_next_waiter(const struct simba__mutex_record *row,
                              const struct simba__mutex_host *host,
                              int64_t now_ms,
                              size_t *i,
                              simba_waiter *told)
{
    while (*i < row->queue_count + 1) { /* the offered one is the first */
        bool is_offered = (*i)++ == 0;
        const struct simba__waiter *waiter =
            is_offered ? &row->offered : &row->queue[*i - 2];

        if ((is_offered && !has_reservation(row, now_ms)) ||
            waiter->lapses_ms < now_ms ||
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
            copy_id(told->id, waiter->id);
        }
        return true;
    }
    return false;
}
