/* Wake-ups on PostgreSQL: LISTEN on a channel of our own, and on one for all,
 * where owners are asked to hand over: which process owns what is not kept. The
 * same session keeps an advisory lock, which says that we live; whoever can get
 * it knows that we do not. */
#define _GNU_SOURCE
#include "backends/postgres/postgres.h"

#include "backends/postgres/statements.h"

#include <stdio.h>

void simba__pg_start_notify(struct simba__sql_session *base)
{
    struct simba__pg_session *session = (struct simba__pg_session *)base;
    struct simba__sql *self = base->self;
    const char *values[] = {self->process, self->notify_name};
    char listen[SIMBA__SQL_HEX + 32];

    if (((struct simba__pg *)self)->is_pooled) {
        simba__sql_session_close(base);
        simba__sql_notify_settled(self, SIMBA__SQL_NOTIFY_REFUSED);
        return;
    }
    snprintf(listen, sizeof listen, "LISTEN simba_%s", self->process);
    simba__pg_dispatch(
        session,
        simba__pg_add(session, SIMBA__PG_NOTIFY_LOCK, 1, values) &&
            (self->notify_name[0] == '\0' ||
             simba__pg_add(session, SIMBA__PG_NOTIFY_RENAME, 2, values)) &&
            simba__pg_add(session, listen, 0, NULL) &&
            simba__pg_add(session, "LISTEN simba_asked", 0, NULL));
}

void simba__pg_notify_answered(struct simba__pg_session *session, bool is_good)
{
    struct simba__sql_result result;

    if (is_good) {
        simba_timer_clear(session->base.self->base.loop, &session->base.timer);
        simba__sql_notify_settled(session->base.self, SIMBA__SQL_NOTIFY_READY);
        return;
    }
    simba__pg_classify(session, &result);
    if (result.verdict == SIMBA__SQL_AGAIN) { /* a deadlock, likely */
        simba__pg_start_notify(&session->base);
    } else {
        simba__sql_lost(&session->base, result.status, &result.error);
    }
}

void simba__pg_notifications(struct simba__pg_session *session)
{
    PGnotify *notification;

    while ((notification = PQnotifies(session->conn)) != NULL) {
        simba__sql_wake(session->base.self, notification->extra);
        PQfreemem(notification);
        simba__pg_note_received(session);
    }
}
