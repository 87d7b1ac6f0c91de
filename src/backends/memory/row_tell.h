/* Between operations and the row that all stores with rows have: what is asked
 * of it, what it answers, who waits. */
#ifndef SIMBA_MEMORY_ROW_TELL_H
#define SIMBA_MEMORY_ROW_TELL_H

#include "backends/memory/row.h"

#include <simba/sys/backend.h>

#include <string.h>

/** What an operation asks of a row; a look or a break asks nothing. */
static inline struct simba__request simba__row_asked(const simba_op *op)
{
    static const enum simba__request_kind kinds[] = {
        [SIMBA_OP_ACQUIRE] = SIMBA__ACQUIRE,
        [SIMBA_OP_RENEW] = SIMBA__RENEW,
        [SIMBA_OP_RELEASE] = SIMBA__RELEASE,
        [SIMBA_OP_LEAVE] = SIMBA__LEAVE};
    bool is_known = (size_t)op->kind < sizeof kinds / sizeof kinds[0];

    return (struct simba__request){
        .kind = is_known ? kinds[op->kind] : SIMBA__NOTHING,
        .attempt = {op->attempt.high, op->attempt.low},
        .token = op->token,
        .place = op->place,
        .waiter_ms = op->waiter_ms,
        .tombstone_ms = op->tombstone_ms,
        .join = op->join};
}

/** Put into the operation what the row has answered, and how it stands now. */
static inline void simba__row_answer(const struct simba__row *row,
                                     const struct simba__reply *reply,
                                     int64_t now_ms,
                                     simba_op *op)
{
    op->reply.mine = reply->mine;
    op->reply.token = reply->token;
    op->reply.in_line = reply->in_line;
    op->reply.is_head = reply->is_head;
    op->reply.place = reply->place;
    op->reply.wait_ms = reply->wait_ms;
    op->reply.store_ms = now_ms;
    op->reply.ended = simba__row_ended(row, now_ms);
    if (simba__row_is_held(row, now_ms)) {
        op->reply.owner = row->owner;
    }
}

/* A place is the store's clock in microseconds, or a little more when several
 * came at once (row.c). */
static inline void simba__row_tell_one(simba_op *op,
                                       const struct simba__row_waiter *waiter,
                                       bool is_called)
{
    simba_waiter told = {.place = waiter->place,
                         .joined_at = (int64_t)(waiter->place / 1000),
                         .is_called = is_called};

    memcpy(told.id, waiter->id, sizeof told.id);
    simba_op_add_waiter(op, &told);
}

static inline bool simba__row_is_waiting(const struct simba__row_host *host,
                                         const struct simba__row_waiter *waiter,
                                         int64_t now_ms)
{
    return waiter->lapses_ms >= now_ms &&
           host->is_connected(host->self, waiter->connection);
}

/** Tell those who wait and live, in the order of the line, to `op`; NULL: only
 * count them. */
static inline int simba__row_tell_line(const struct simba__row *row,
                                       const struct simba__row_host *host,
                                       int64_t now_ms,
                                       simba_op *op)
{
    int count = 0;

    if (row->is_called && row->called_until_ms >= now_ms &&
        simba__row_is_waiting(host, &row->called, now_ms)) {
        count++;
        if (op != NULL) {
            simba__row_tell_one(op, &row->called, true);
        }
    }
    for (size_t i = 0; i < row->line_count; i++) {
        if (simba__row_is_waiting(host, &row->line[i], now_ms)) {
            count++;
            if (op != NULL) {
                simba__row_tell_one(op, &row->line[i], false);
            }
        }
    }
    return count;
}

#endif
