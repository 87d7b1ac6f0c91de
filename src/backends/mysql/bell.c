/* The doorbell: a connection that waits in the server until another process
 * kills its statement. It has a named lock, which says who it is and that it
 * lives.
 *
 * It waits for a second lock, which a session that serves us has (the heartbeat
 * sees to it), and not in sleep(): all who sleep share one mutex of the server,
 * and who kills one of them while another goes to sleep is stuck for two
 * seconds, the one he wakes with him (MariaDB 10.11, THD::awake). Only while
 * nobody has that lock, it sleeps.
 *
 * Nothing is lost while it does not wait: the statements that wait look first
 * whether somebody of ours has been called. */
#define _GNU_SOURCE
#include "backends/mysql/mysql.h"

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
                enum simba__my_bell_step step)
{
    char *text = simba__my_render_bell(session, step);

    session->bell_step = step;
    simba_timer_set(session->base.self->base.loop, &session->base.timer,
                    simba_loop_now_ms() + SILENCE_MS);
    if (text == NULL) {
        simba__my_give_up(session);
        return;
    }
    simba__my_query(session, text);
}

void simba__my_hang_bell(struct simba__sql_session *base)
{
    simba__sql_beat_now(base->self);
    ((struct simba__my_session *)base)->again_until_ms = 0;
    ask((struct simba__my_session *)base, SIMBA__MY_BELL_HANG);
}

static void hung(struct simba__my_session *session)
{
    simba__sql_bell_hung(session->base.self, SIMBA__SQL_BELL_HUNG);
    ask(session, SIMBA__MY_BELL_SLEEP); /* may end it at once */
}

/* A bell that cannot be rung is none. */
static void locked(struct simba__my_session *session)
{
    struct simba__sql *self = session->base.self;
    MYSQL_ROW row =
        session->result == NULL ? NULL : mysql_fetch_row(session->result);
    bool is_good = row != NULL && row[0] != NULL && strcmp(row[0], "1") == 0;

    if (!is_good) {
        simba__sql_session_close(&session->base);
        simba__sql_bell_hung(self, SIMBA__SQL_BELL_REFUSED);
        return;
    }
    if (self->hung_as[0] == '\0') {
        hung(session);
    } else {
        ask(session, SIMBA__MY_BELL_MOVE);
    }
}

/* Notes the calls that are told now, so that the bell does not ring again for
 * them. */
static void note_seen(struct simba__my_session *session, const char *call)
{
    char *more = NULL;

    if (call == NULL || call[0] == '\0') {
        return;
    }
    if (session->seen == NULL) {
        session->seen = strdup(call);
    } else if (asprintf(&more, "%s,%s", session->seen, call) >= 0) {
        free(session->seen);
        session->seen = more;
    }
}

static void looked(struct simba__my_session *session)
{
    MYSQL_RES *result = session->result;
    MYSQL_ROW row;

    session->result = NULL;
    free(session->seen);
    session->seen = NULL;
    while (result != NULL && (row = mysql_fetch_row(result)) != NULL) {
        note_seen(session, row[1]);
        /* Again, if it was told before: it may have been called since. */
        simba__sql_wake(session->base.self, row[0]);
    }
    mysql_free_result(result);
    ask(session, SIMBA__MY_BELL_SLEEP);
}

/* Which mutex? The server must tell, unless there is only one it can be. */
static void hear(struct simba__my_session *session)
{
    const char *only = simba__sql_only_wish(session->base.self);
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1]; /* who hears it may wish no more */

    if (only != NULL && strlen(only) < sizeof mutex) {
        memcpy(mutex, only, strlen(only) + 1);
        simba__sql_wake(session->base.self, mutex);
    }
    ask(session, SIMBA__MY_BELL_LOOK);
}

/* S11: while there is no bell, we may be passed. MariaDB calls it a deadlock
 * now and then when a bell waits for its lock: then it waits again. Where that
 * does not help, another bell does, which has other locks. */
static void failed(struct simba__my_session *session)
{
    struct simba__sql_answer answer;
    int64_t now_ms = simba_loop_now_ms();

    simba__my_judge(session, &answer);
    if (session->again_until_ms == 0) {
        session->again_until_ms = now_ms + AGAIN_MS;
    }
    if (answer.verdict == SIMBA__SQL_AGAIN &&
        now_ms < session->again_until_ms) {
        ask(session, session->bell_step);
    } else {
        simba__sql_broken(&session->base, answer.status, &answer.error);
    }
}

void simba__my_bell_answered(struct simba__my_session *session)
{
    bool is_hung = session->bell_step == SIMBA__MY_BELL_LOOK ||
                   session->bell_step == SIMBA__MY_BELL_SLEEP;

    if (is_hung && session->failure == ER_QUERY_INTERRUPTED) {
        hear(session); /* that was the bell */
        return;
    }
    if (session->failure != 0) {
        failed(session);
        return;
    }
    session->again_until_ms = 0;
    switch (session->bell_step) {
    case SIMBA__MY_BELL_HANG:
        locked(session);
        break;
    case SIMBA__MY_BELL_MOVE:
        hung(session);
        break;
    case SIMBA__MY_BELL_LOOK:
        looked(session);
        break;
    case SIMBA__MY_BELL_SLEEP:
        hear(session);
        break;
    }
}

/* A server whose client has gone while it sleeps notices it only after seconds,
 * and until then the process would count as alive. */
void simba__my_take_down_bell(struct simba__sql_session *bell,
                              struct simba__sql_session *idle)
{
    struct simba__my_session *session = (struct simba__my_session *)bell;
    char text[64];

    if (idle != NULL) {
        snprintf(text, sizeof text, "KILL CONNECTION %lu",
                 mysql_thread_id(&session->mysql));
        mysql_query(&((struct simba__my_session *)idle)->mysql, text);
    }
}
