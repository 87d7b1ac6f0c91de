/* What an operation answers: by the row it was decided with, or by what the
 * one statement has done. */
#include "backends/memory/row_tell.h"
#include "backends/sql/engine.h"

#include <string.h>

static void add_line(const struct simba__sql_turn *turn)
{
    const struct simba__row *row = &turn->record.row;
    simba_waiter waiter;

    for (size_t i = 0; i < row->line_count + (row->is_called ? 1 : 0); i++) {
        bool is_called = row->is_called && i == 0;
        const struct simba__row_waiter *one =
            is_called ? &row->called : &row->line[i - (row->is_called ? 1 : 0)];

        if (one->lapses_ms < turn->record.now_us / 1000) {
            continue;
        }
        memset(&waiter, 0, sizeof waiter);
        memcpy(waiter.id, one->id, sizeof waiter.id);
        waiter.place = one->place;
        waiter.joined_at = (int64_t)(one->place / 1000);
        waiter.is_called = is_called;
        simba_op_add_waiter(turn->op, &waiter);
    }
}

void simba__sql_reply_fill(struct simba__sql_turn *turn)
{
    simba__row_answer(&turn->record.row, &turn->reply,
                      turn->record.now_us / 1000, turn->op);
    if (turn->op->want_line && turn->op->kind == SIMBA_OP_READ) {
        add_line(turn);
    }
    if (turn->op->reply.in_line) {
        simba__sql_waiter_note(turn);
    }
}

void simba__sql_reply_fast(struct simba__sql_turn *turn,
                           const struct simba__sql_rows *rows)
{
    const simba_op *op = turn->op;
    simba_op_reply *reply = &turn->op->reply;
    int64_t now_ms = simba__sql_number(rows, 0, SIMBA__SQL_DONE_US) / 1000;

    reply->store_ms = now_ms;
    if (op->kind == SIMBA_OP_RELEASE) {
        return;
    }
    reply->mine = true;
    reply->token = (uint64_t)simba__sql_number(rows, 0, SIMBA__SQL_DONE_TOKEN);
    memcpy(reply->owner.id, op->id, strlen(op->id) + 1);
    reply->owner.token = reply->token;
    reply->owner.acquired_at_ms =
        simba__sql_number(rows, 0, SIMBA__SQL_DONE_ACQUIRED_AT);
    reply->owner.ttl_at_ms = now_ms + op->ttl_ms;
    reply->owner.transition_at_ms = reply->owner.ttl_at_ms + op->transition_ms;
}
