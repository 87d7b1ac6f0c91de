/* Telling an admin who waits, from the row that all embedded stores have. */
#ifndef SIMBA_MEMORY_ROW_TELL_H
#define SIMBA_MEMORY_ROW_TELL_H

#include "backends/memory/row.h"

#include <simba/backend.h>

#include <string.h>

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
