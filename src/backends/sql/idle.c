/* Sessions that were opened for a rush and have nothing to do since: servers
 * count them, and every process has its own. One stays open, so that the next
 * operation need not connect first. */
#include "backends/sql/engine.h"

/* How long nothing must have come; the next look may be as late again. */
enum { IDLE_MS = 5000 };

static int count_open(const struct simba__sql *self)
{
    int count = 0;

    for (int i = 0; i < SIMBA__SQL_SESSIONS; i++) {
        count += self->sessions[i] != NULL &&
                 self->sessions[i]->state != SIMBA__SQL_CLOSED;
    }
    return count;
}

void simba__sql_idle_plan(struct simba__sql *self)
{
    if (!self->idle_timer.is_set && !self->is_detached &&
        count_open(self) > 1) {
        simba_timer_set(self->base.loop, &self->idle_timer,
                        simba_loop_now_ms() + IDLE_MS);
    }
}

static bool is_needless(const struct simba__sql_session *session)
{
    return session->state == SIMBA__SQL_IDLE && !session->was_used &&
           !session->is_needed;
}

/* The first sessions are the ones that are taken first. */
void simba__sql_idle_fired(simba_timer *timer)
{
    struct simba__sql *self =
        (struct simba__sql *)((char *)timer -
                              offsetof(struct simba__sql, idle_timer));

    for (int i = SIMBA__SQL_SESSIONS - 1; i >= 0; i--) {
        struct simba__sql_session *session = self->sessions[i];

        if (session == NULL) {
            continue;
        }
        if (is_needless(session) && count_open(self) > 1) {
            simba__sql_session_close(session);
        }
        session->was_used = session->state == SIMBA__SQL_BUSY;
    }
    simba__sql_idle_plan(self);
}
