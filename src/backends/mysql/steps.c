/* What a session does, step by step.
 *
 * Each function of the library that would block comes in two halves: one that
 * starts it and one that goes on; both say what they wait for, or 0. A phase is
 * one such call; when it is over, next_phase() starts another or answers. */
#define _GNU_SOURCE
#include "backends/mysql/mysql.h"

#include <mysqld_error.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

enum { ANSWERED = SIMBA__MY_ANSWERED };

static struct simba__my *store_of(const struct simba__my_session *session)
{
    return (struct simba__my *)session->base.self;
}

void simba__my_free_query(struct simba__my_session *session)
{
    free(session->text);
    session->text = NULL;
    mysql_free_result(session->result);
    session->result = NULL;
}

void simba__my_give_up(struct simba__my_session *session)
{
    simba_error error;
    int status = simba__my_explain(session, &error);

    simba__sql_broken(&session->base, status, &error);
}

/* --- phases -------------------------------------------------------------- */

int simba__my_start(struct simba__my_session *session,
                    enum simba__my_phase phase,
                    const char *text)
{
    session->phase = phase;
    return mysql_real_query_start(&session->rc, &session->mysql, text,
                                  strlen(text));
}

static int start_next(struct simba__my_session *session)
{
    session->phase = SIMBA__MY_NEXT;
    return mysql_next_result_start(&session->rc, &session->mysql);
}

static int start_store(struct simba__my_session *session)
{
    session->phase = SIMBA__MY_STORE;
    return mysql_store_result_start(&session->stored, &session->mysql);
}

int simba__my_go_on(struct simba__my_session *session, int status)
{
    MYSQL_STMT *statement = (int)session->statement < SIMBA__MY_FAST
                                ? session->fast[session->statement]
                                : NULL;

    switch (session->phase) {
    case SIMBA__MY_CONNECT:
        return mysql_real_connect_cont(&session->connected, &session->mysql,
                                       status);
    case SIMBA__MY_PREPARE:
        return mysql_stmt_prepare_cont(&session->rc, statement, status);
    case SIMBA__MY_EXECUTE:
        return mysql_stmt_execute_cont(&session->rc, statement, status);
    case SIMBA__MY_STORE:
        return mysql_store_result_cont(&session->stored, &session->mysql,
                                       status);
    case SIMBA__MY_NEXT:
        return mysql_next_result_cont(&session->rc, &session->mysql, status);
    case SIMBA__MY_GREET:
    case SIMBA__MY_QUERY:
    case SIMBA__MY_ROLLBACK:
        return mysql_real_query_cont(&session->rc, &session->mysql, status);
    case SIMBA__MY_IDLE:
        break;
    }
    return 0;
}

/* --- answers ------------------------------------------------------------- */

static const char *cell(const struct simba__sql_rows *rows, int row, int column)
{
    MYSQL_RES *result = rows->result;

    mysql_data_seek(result, (unsigned long long)row);
    return mysql_fetch_row(result)[column];
}

/* A fast statement has no rows, but these are the ones it would have. */
static const char *fast_cell(const struct simba__sql_rows *rows,
                             int row,
                             int column)
{
    const struct simba__my_session *session = rows->result;

    (void)row;
    return column <= SIMBA__SQL_DONE_ACQUIRED_AT ? session->params.texts[column]
                                                 : NULL;
}

static void answer_fast(struct simba__my_session *session)
{
    MYSQL_STMT *statement = session->fast[session->statement];
    const simba_request *request = session->base.turn->request;
    struct simba__sql_answer answer = {.verdict = SIMBA__SQL_FINE};
    unsigned long long us = mysql_stmt_insert_id(statement);
    /* A renewal is not told the token and when it was acquired; the one is
     * known, and the other but for rare exceptions a part of it. */
    unsigned long long token =
        request->kind == SIMBA_RENEW ? request->token : us;

    if (mysql_stmt_affected_rows(statement) > 0) {
        snprintf(session->params.texts[0], 24, "%llu", us);
        snprintf(session->params.texts[1], 24, "%llu", token);
        snprintf(session->params.texts[2], 24, "%llu", token / 1000);
        answer.rows = (struct simba__sql_rows){1, fast_cell, session};
    }
    session->phase = SIMBA__MY_IDLE;
    simba__sql_answered(&session->base, &answer);
}

static void answer_query(struct simba__my_session *session)
{
    struct simba__sql_answer answer = {.verdict = SIMBA__SQL_FINE};
    MYSQL_RES *result = session->result;

    session->phase = SIMBA__MY_IDLE;
    session->result = NULL;
    simba__my_free_query(session);
    if (session->failure != 0) {
        simba__my_judge(session, &answer);
    } else if (session->statement == SIMBA__SQL_APPLY) {
        answer.rows.count = session->found > 0;
    } else if (result != NULL) {
        answer.rows =
            (struct simba__sql_rows){(int)mysql_num_rows(result), cell, result};
    }
    simba__sql_answered(&session->base, &answer);
    mysql_free_result(result);
}

static void answer(struct simba__my_session *session)
{
    if (session->base.is_bell) {
        session->phase = SIMBA__MY_IDLE;
        simba__my_bell_answered(session);
    } else {
        answer_query(session);
    }
}

static void note_failure(struct simba__my_session *session,
                         unsigned number,
                         const char *words)
{
    session->failure = number;
    snprintf(session->words, sizeof session->words, "%s", words);
}

/* --- what comes after what ----------------------------------------------- */

/* The rest of a batch is not sent after an error. Of a change that has been
 * committed, failing to ring is no failure; one that has not may have left a
 * transaction open. */
static int after_failure(struct simba__my_session *session)
{
    unsigned number = mysql_errno(&session->mysql);

    bool is_change =
        !session->base.is_bell && session->statement == SIMBA__SQL_APPLY;

    /* Who knows what a COMMIT that failed has done? Unless it was a conflict
     * between the nodes of a cluster. */
    if (simba__my_is_lost(number) ||
        (is_change && session->answered == session->batch - 1 &&
         number != ER_LOCK_DEADLOCK)) {
        simba__my_give_up(session);
        return ANSWERED;
    }
    if (is_change) {
        if (session->answered >= session->batch) {
            answer(session);
            return ANSWERED;
        }
        note_failure(session, number, mysql_error(&session->mysql));
        return simba__my_start(session, SIMBA__MY_ROLLBACK, "ROLLBACK");
    }
    note_failure(session, number, mysql_error(&session->mysql));
    answer(session);
    return ANSWERED;
}

static int after_result(struct simba__my_session *session)
{
    if (mysql_more_results(&session->mysql)) {
        return start_next(session);
    }
    answer(session);
    return ANSWERED;
}

/* The second statement of a change is the one that compares. */
static int take_result(struct simba__my_session *session)
{
    if (++session->answered == 2) {
        session->found = (int64_t)mysql_affected_rows(&session->mysql);
    }
    if (mysql_field_count(&session->mysql) > 0) {
        return start_store(session);
    }
    return after_result(session);
}

static int after_query(struct simba__my_session *session)
{
    if (session->rc != 0) {
        return after_failure(session);
    }
    return take_result(session);
}

/* Of a heartbeat, what beat_stop.sql says: does the bell wait for us? */
static void note_stop(struct simba__my_session *session)
{
    MYSQL_ROW row;

    if (!session->base.is_bell && session->statement == SIMBA__SQL_HEARTBEAT &&
        session->answered == 1 &&
        (row = mysql_fetch_row(session->stored)) != NULL && row[0] != NULL) {
        session->base.is_needed |= strcmp(row[0], "1") == 0;
    }
}

static int after_store(struct simba__my_session *session)
{
    if (session->stored == NULL) {
        return after_failure(session);
    }
    note_stop(session);
    mysql_free_result(session->result);
    session->result = session->stored;
    return after_result(session);
}

/* A server lets those kill each other's statements who came in by the same
 * name. */
static uint32_t code_of(const char *user)
{
    uint32_t hash = UINT32_C(2166136261); /* FNV-1a */

    for (; user != NULL && *user != '\0'; user++) {
        hash = (hash ^ (unsigned char)*user) * UINT32_C(16777619);
    }
    return hash == 0 ? 1 : hash;
}

static int after_connect(struct simba__my_session *session)
{
    if (session->connected == NULL) {
        simba__my_give_up(session);
        return ANSWERED;
    }
    store_of(session)->sql.account = code_of(session->mysql.user);
    store_of(session)->is_mysql =
        strstr(mysql_get_server_info(&session->mysql), "MariaDB") == NULL;
    return simba__my_start(session, SIMBA__MY_GREET, simba__my_greeting());
}

static int after_greeting(struct simba__my_session *session)
{
    if (session->rc != 0) {
        simba__my_give_up(session);
    } else {
        session->phase = SIMBA__MY_IDLE;
        simba__sql_connected(&session->base);
    }
    return ANSWERED;
}

static int after_prepare(struct simba__my_session *session)
{
    MYSQL_STMT *statement = session->fast[session->statement];

    free(session->text);
    session->text = NULL;
    if (session->rc == 0) {
        return simba__my_execute(session);
    }
    note_failure(session, mysql_stmt_errno(statement),
                 mysql_stmt_error(statement));
    mysql_stmt_close(statement); /* sends nothing: the server knows none */
    session->fast[session->statement] = NULL;
    if (simba__my_is_lost(session->failure)) {
        simba__my_give_up(session);
    } else {
        answer_query(session);
    }
    return ANSWERED;
}

static int after_execute(struct simba__my_session *session)
{
    MYSQL_STMT *statement = session->fast[session->statement];

    if (session->rc == 0) {
        answer_fast(session);
        return ANSWERED;
    }
    note_failure(session, mysql_stmt_errno(statement),
                 mysql_stmt_error(statement));
    if (simba__my_is_lost(session->failure)) {
        simba__my_give_up(session);
    } else {
        answer_query(session);
    }
    return ANSWERED;
}

static int after_rollback(struct simba__my_session *session)
{
    if (session->rc != 0) {
        simba__my_give_up(session);
    } else {
        answer(session);
    }
    return ANSWERED;
}

static int next_phase(struct simba__my_session *session)
{
    switch (session->phase) {
    case SIMBA__MY_CONNECT:
        return after_connect(session);
    case SIMBA__MY_GREET:
        return after_greeting(session);
    case SIMBA__MY_PREPARE:
        return after_prepare(session);
    case SIMBA__MY_EXECUTE:
        return after_execute(session);
    case SIMBA__MY_QUERY:
        return after_query(session);
    case SIMBA__MY_STORE:
        return after_store(session);
    case SIMBA__MY_NEXT:
        return session->rc == 0 ? take_result(session) : after_failure(session);
    case SIMBA__MY_ROLLBACK:
        return after_rollback(session);
    case SIMBA__MY_IDLE:
        break;
    }
    return ANSWERED;
}

static void watch(struct simba__my_session *session, int waits)
{
    struct simba__sql_session *base = &session->base;
    int fd = (int)mysql_get_socket(&session->mysql);
    uint32_t events = (waits & MYSQL_WAIT_WRITE) != 0 ? EPOLLOUT : 0;

    /* One address after the other is tried by the same number. */
    if (fd != base->fd || session->phase == SIMBA__MY_CONNECT) {
        simba__sql_attach(base, fd);
    }
    if ((waits & MYSQL_WAIT_READ) != 0) {
        events |= EPOLLIN;
    }
    simba__sql_want(base, events);
}

void simba__my_run(struct simba__my_session *session, int waits)
{
    while (waits == 0) {
        waits = next_phase(session);
    }
    if (waits != ANSWERED) {
        watch(session, waits);
    }
}
