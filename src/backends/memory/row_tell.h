/* Between operations and the row that all stores with rows have: what is asked
 * of it, what it answers, who waits. */
#ifndef SIMBA_MEMORY_ROW_TELL_H
#define SIMBA_MEMORY_ROW_TELL_H

#include "core/mutex_record.h"

#include <simba/sys/backend.h>

#include <string.h>

/** What an operation asks of a row; a look or a break asks nothing. */
static inline struct simba__request simba__row_asked(
    const simba_request *request)
{
    static const enum simba__request_kind kinds[] = {
        [SIMBA_ACQUIRE] = SIMBA__ACQUIRE,
        [SIMBA_RENEW] = SIMBA__RENEW,
        [SIMBA_RELEASE] = SIMBA__RELEASE,
        [SIMBA_LEAVE] = SIMBA__LEAVE};
    bool is_known = (size_t)request->kind < sizeof kinds / sizeof kinds[0];

    return (struct simba__request){
        .kind = is_known ? kinds[request->kind] : SIMBA__NOTHING,
        .attempt = {request->attempt.high, request->attempt.low},
        .token = request->token,
        .position = request->position,
        .waiter_ms = request->waiter_ms,
        .tombstone_ms = request->tombstone_ms,
        .join = request->join};
}

/** Put into the operation what the row has answered, and how it stands now. */
static inline void simba__row_answer(const struct simba__mutex_record *row,
                                     const struct simba__reply *reply,
                                     int64_t now_ms,
                                     simba_request *request)
{
    request->reply.mine = reply->mine;
    request->reply.token = reply->token;
    request->reply.is_queued = reply->is_queued;
    request->reply.is_head = reply->is_head;
    request->reply.position = reply->position;
    request->reply.wait_ms = reply->wait_ms;
    request->reply.store_ms = now_ms;
    request->reply.ended = simba__mutex_ended(row, now_ms);
    if (simba__mutex_is_held(row, now_ms)) {
        request->reply.owner = row->owner;
    }
}

/* A place is the store's clock in microseconds, or a little more when several
 * came at once (row.c). */
static inline void simba__row_tell_one(simba_request *request,
                                       const struct simba__waiter *waiter,
                                       bool is_offered)
{
    simba_waiter told = {.position = waiter->position,
                         .joined_at_ms = (int64_t)(waiter->position / 1000),
                         .is_offered = is_offered};

    memcpy(told.id, waiter->id, sizeof told.id);
    simba_request_add_waiter(request, &told);
}

static inline bool simba__row_is_waiting(const struct simba__mutex_host *host,
                                         const struct simba__waiter *waiter,
                                         int64_t now_ms)
{
    return waiter->lapses_ms >= now_ms &&
           host->is_connected(host->self, waiter->connection);
}

/** Tell those who wait and live, in the order of the line, to `request`; NULL:
 * only count them. */
static inline int simba__row_tell_line(const struct simba__mutex_record *row,
                                       const struct simba__mutex_host *host,
                                       int64_t now_ms,
                                       simba_request *request)
{
    int count = 0;

    if (row->is_offered && row->offered_until_ms >= now_ms &&
        simba__row_is_waiting(host, &row->offered, now_ms)) {
        count++;
        if (request != NULL) {
            simba__row_tell_one(request, &row->offered, true);
        }
    }
    for (size_t i = 0; i < row->queue_count; i++) {
        if (simba__row_is_waiting(host, &row->queue[i], now_ms)) {
            count++;
            if (request != NULL) {
                simba__row_tell_one(request, &row->queue[i], false);
            }
        }
    }
    return count;
}

#endif
