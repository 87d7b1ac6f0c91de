/* Wake-ups on MySQL and MariaDB: a connection that waits in the server until
 * another process kills its statement. It has a named lock, which says who it
 * is and that it lives.
 *
 * It waits for a second lock, which a session that serves us has (the heartbeat
 * sees to it), and not in sleep(): all who sleep share one mutex of the server,
 * and who kills one of them while another goes to sleep is stuck for two
 * seconds, the one he wakes with him (MariaDB 10.11, THD::awake). Only while
 * nobody has that lock, it sleeps.
 *
 * Nothing is lost while it does not wait: the statements that wait look first
 * whether a mutex was offered to one of ours. */
#define _GNU_SOURCE
#include "backends/mysql/mysql.h"

#include "backends/sql/waiters.h"

#include <mysqld_error.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Longer than it waits and then sleeps: a server that says nothing for so long
 * is cut off. */
enum { SILENCE_MS = 32000 };

/* How long the same is tried again and again. */
enum { AGAIN_MS = 2000 };

static void ask(struct simba__my_session *session,
                enum simba__my_notify_step step)
{
    session->step = step;
    simba_timer_set(session->base.self->base.loop, &session->base.timer,
                    simba_loop_now_ms() + SILENCE_MS);
    simba__my_query(session, simba__my_render_notify(session, step));
}

/* After somebody was woken. That may have ended the connection, and begun
 * another one: whose request is sent at once may learn that the server takes no
 * changes any more. `number` is that of before. */
static void ask_still(struct simba__my_session *session,
                      unsigned number,
                      enum simba__my_notify_step step)
{
    if (session->base.state == SIMBA__SQL_BUSY && session->number == number) {
        ask(session, step);
    }
}

void simba__my_start_notify(struct simba__sql_session *base)
{
    struct simba__my_session *session = (struct simba__my_session *)base;

    simba__sql_heartbeat_now(base->self);
    session->again_until_ms = 0;
    ask(session, SIMBA__MY_STEP_LOCK);
}

static void ready(struct simba__my_session *session)
{
    unsigned number = session->number;

    simba__sql_notify_settled(session->base.self, SIMBA__SQL_NOTIFY_READY);
    ask_still(session, number, SIMBA__MY_STEP_WAIT);
}

/* A connection whose lock others cannot see cannot be notified. */
static void locked(struct simba__my_session *session)
{
    struct simba__sql *self = session->base.self;
    MYSQL_ROW row =
        session->result == NULL ? NULL : mysql_fetch_row(session->result);

    if (row == NULL || row[0] == NULL || strcmp(row[0], "1") != 0) {
        simba__sql_session_close(&session->base);
        simba__sql_notify_settled(self, SIMBA__SQL_NOTIFY_REFUSED);
    } else if (self->notify_name[0] == '\0') {
        ready(session);
    } else {
        ask(session, SIMBA__MY_STEP_RENAME);
    }
}

/* Whom an offer is to, by its name: attempt and time. */
static simba_attempt read_offered(const char *offer)
{
    char attempt[SIMBA__SQL_HEX + 1];

    snprintf(attempt, sizeof attempt, "%s", offer);
    return simba__sql_read_attempt(attempt);
}

/* Wakes who is offered a mutex, and notes the offers, so that the next wait
 * does not end for them. */
static void polled(struct simba__my_session *session)
{
    unsigned number = session->number;
    MYSQL_RES *result = session->result;
    MYSQL_ROW row;
    char *more;

    session->result = NULL;
    free(session->seen);
    session->seen = NULL;
    while (result != NULL && (row = mysql_fetch_row(result)) != NULL) {
        if (mysql_num_fields(result) > 1 && row[1] != NULL &&
            row[1][0] != '\0' &&
            asprintf(&more, "%s%s%s",
                     session->seen == NULL ? "" : session->seen,
                     session->seen == NULL ? "" : ",", row[1]) >= 0) {
            free(session->seen);
            session->seen = more;
        }
    }
    for (uint64_t i = 0; result != NULL && i < mysql_num_rows(result); i++) {
        mysql_data_seek(result, i);
        row = mysql_fetch_row(result);
        /* Again, if it was told before: it may have been offered since. */
        if (mysql_num_fields(result) > 1 && row[1] != NULL &&
            row[1][0] != '\0') {
            simba__sql_wake_offered(session->base.self, row[0],
                                    read_offered(row[1]));
        } else {
            simba__sql_wake(session->base.self, row[0]);
        }
    }
    mysql_free_result(result);
    ask_still(session, number, SIMBA__MY_STEP_WAIT);
}

/* Is nothing under way for another mutex? Who has joined its queue may be woken
 * before we have read that it did. */
static bool is_only_one(const struct simba__sql *self, const char *mutex)
{
    for (int i = 0; i < self->session_count; i++) {
        const struct simba__sql_request *request = self->sessions[i]->request;

        if (request != NULL && strcmp(request->asked->mutex, mutex) != 0) {
            return false;
        }
    }
    return true;
}

/* A wake-up. Of which mutex, the server must tell, unless there is only one it
 * can be: then only the offers are asked for, which the next wait leaves out.
 */
static void woken(struct simba__my_session *session)
{
    struct simba__sql *self = session->base.self;
    unsigned number = session->number;
    bool is_known = false;
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1]; /* who hears it may unsubscribe */

    if (self->subscriptions.count == 1) {
        snprintf(mutex, sizeof mutex, "%s",
                 simba__sql_subscription_next(self, NULL)->link.key);
        is_known = is_only_one(self, mutex);
        simba__sql_wake(self, mutex);
    }
    ask_still(session, number,
              is_known ? SIMBA__MY_STEP_OFFERS : SIMBA__MY_STEP_POLL);
}

void simba__my_notify_answered(struct simba__my_session *session)
{
    bool is_ready = session->step == SIMBA__MY_STEP_POLL ||
                    session->step == SIMBA__MY_STEP_OFFERS ||
                    session->step == SIMBA__MY_STEP_WAIT;
    int64_t now_ms = simba_loop_now_ms();
    struct simba__sql_result result;

    if (is_ready && session->failure == ER_QUERY_INTERRUPTED) {
        woken(session);
        return;
    }
    if (session->failure != 0) {
        /* S11: without this connection, our waiters may be passed. MariaDB
         * calls it a deadlock now and then when it waits for its lock: then it
         * waits again. Where that does not help, another one does, which has
         * other locks. */
        simba__my_classify(session, &result);
        if (session->again_until_ms == 0) {
            session->again_until_ms = now_ms + AGAIN_MS;
        }
        if (result.verdict == SIMBA__SQL_AGAIN &&
            now_ms < session->again_until_ms) {
            ask(session, session->step);
        } else {
            simba__sql_lost(&session->base, result.status, &result.error);
        }
        return;
    }
    session->again_until_ms = 0;
    switch (session->step) {
    case SIMBA__MY_STEP_LOCK:
        locked(session);
        break;
    case SIMBA__MY_STEP_RENAME:
        ready(session);
        break;
    case SIMBA__MY_STEP_POLL:
    case SIMBA__MY_STEP_OFFERS:
        polled(session);
        break;
    case SIMBA__MY_STEP_WAIT:
        woken(session);
        break;
    }
}

/* A server whose client has gone while it sleeps notices it only after seconds,
 * and until then the process would count as alive. */
void simba__my_stop_notify(struct simba__sql_session *notify,
                           struct simba__sql_session *idle)
{
    char text[64];

    if (idle != NULL) {
        snprintf(text, sizeof text, "KILL CONNECTION %lu",
                 mysql_thread_id(&((struct simba__my_session *)notify)->mysql));
        mysql_query(&((struct simba__my_session *)idle)->mysql, text);
    }
}
