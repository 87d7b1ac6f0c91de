/* Where nobody can ring, one statement asks for all who wait, ten times a
 * second: which mutexes of ours are worth asking for? */
#include "backends/sql/engine.h"

#include <string.h>

enum { POLL_MS = 100, POLL_PATIENCE_MS = 2000 };

static struct simba__sql *engine_of(simba_timer *timer)
{
    return (struct simba__sql *)((char *)timer -
                                 offsetof(struct simba__sql, poll_timer));
}

void simba__sql_poll_soon(struct simba__sql *self)
{
    if (self->bell == SIMBA__SQL_BELL_REFUSED && self->wishes.count > 0 &&
        !self->poll_timer.is_set && !self->is_polling && !self->is_detached) {
        simba_timer_set(self->base.loop, &self->poll_timer,
                        simba_loop_now_ms() + POLL_MS);
    }
}

void simba__sql_poll_now(simba_timer *timer)
{
    struct simba__sql *self = engine_of(timer);
    simba_op *op = &self->poll_op;

    if (self->wishes.count == 0) {
        return;
    }
    memset(op, 0, sizeof *op);
    op->kind = SIMBA_OP_READ;
    op->mutex = op->id = "";
    op->deadline_ms = simba_loop_now_ms() + POLL_PATIENCE_MS;
    self->is_polling = true;
    simba__sql_submit(&self->base, op);
}

void simba__sql_polled(struct simba__sql_turn *turn,
                       const struct simba__sql_rows *rows)
{
    struct simba__sql *self = turn->self;

    for (int i = 0; i < rows->count; i++) {
        simba_hint(self->base.loop, rows->cell(rows, i, 0));
    }
    simba__sql_turn_end(turn, SIMBA_OK, NULL);
}

/* Instead of simba_op_done(). */
void simba__sql_poll_done(struct simba__sql *self)
{
    self->is_polling = false;
    simba__sql_poll_soon(self);
}
