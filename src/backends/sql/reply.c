/* What an operation answers: by the row it was decided with, or by what the
 * one statement has done. */
#include "backends/sql/engine.h"

#include <string.h>

static void add_line(const struct simba__sql_turn *turn)
{
    const struct simba__mutex_record *row = &turn->record.row;
    simba_waiter waiter;

    for (size_t i = 0; i < row->queue_count + (row->is_offered ? 1 : 0); i++) {
        bool is_offered = row->is_offered && i == 0;
        const struct simba__waiter *one =
            is_offered ? &row->offered
                       : &row->queue[i - (row->is_offered ? 1 : 0)];

        if (one->lapses_ms < turn->record.now_us / 1000) {
            continue;
        }
        memset(&waiter, 0, sizeof waiter);
        memcpy(waiter.id, one->id, sizeof waiter.id);
        waiter.position = one->position;
        waiter.joined_at_ms = (int64_t)(one->position / 1000);
        waiter.is_offered = is_offered;
        simba_request_add_waiter(turn->request, &waiter);
    }
}

void simba__sql_reply_fill(struct simba__sql_turn *turn)
{
    simba__mutex_read(&turn->record.row, turn->record.now_us / 1000,
                      &turn->request->reply);
    if (turn->request->want_queue && turn->request->kind == SIMBA_READ) {
        add_line(turn);
    }
    if (turn->request->reply.is_queued) {
        simba__sql_waiter_note(turn);
    }
}

void simba__sql_reply_fast(struct simba__sql_turn *turn,
                           const struct simba__sql_rows *rows)
{
    const simba_request *request = turn->request;
    simba_reply *reply = &turn->request->reply;
    int64_t now_ms = simba__sql_number(rows, 0, SIMBA__SQL_DONE_US) / 1000;

    reply->store_ms = now_ms;
    if (request->kind == SIMBA_RELEASE) {
        return;
    }
    reply->mine = true;
    reply->token = (uint64_t)simba__sql_number(rows, 0, SIMBA__SQL_DONE_TOKEN);
    memcpy(reply->owner.id, request->id, strlen(request->id) + 1);
    reply->owner.token = reply->token;
    reply->owner.acquired_at_ms =
        simba__sql_number(rows, 0, SIMBA__SQL_DONE_ACQUIRED_AT);
    reply->owner.ttl_at_ms = now_ms + request->ttl_ms;
    reply->owner.transition_at_ms =
        reply->owner.ttl_at_ms + request->transition_ms;
}
