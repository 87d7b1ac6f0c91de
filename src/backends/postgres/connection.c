/* One connection to a PostgreSQL server, driven by its descriptor.
 *
 * In pipeline mode, although there is never more than one statement under way:
 * it lets a statement be prepared and run in one round trip. */
#define _GNU_SOURCE
#include "backends/postgres/postgres.h"

#include "backends/postgres/schema.h"
#include "backends/postgres/statements.h"

#include <assert.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* Longest text of a statement. */
enum { TEXT_MOST = 8192 };

static const char *const texts[] = {
#define X(name, text) SIMBA__PG_##text,
    SIMBA__SQL_EACH_STATEMENT(X)
#undef X
};

static struct simba__pg *store_of(const struct simba__pg_session *session)
{
    return (struct simba__pg *)session->base.self;
}

/* --- limits -------------------------------------------------------------- */

/* The library takes in whatever comes; the system knows how much that was. Of a
 * socket file it does not: who can serve there is trusted. Without TLS a single
 * message, of 1 GiB at most, may be read whole before we are asked again. */
static uint64_t received(const struct simba__pg_session *session)
{
    struct tcp_info info;
    socklen_t size = sizeof info;

    memset(&info, 0, sizeof info);
    (void)getsockopt(session->base.io.fd, IPPROTO_TCP, TCP_INFO, &info, &size);
    return info.tcpi_bytes_received;
}

void simba__pg_note_received(struct simba__pg_session *session)
{
    session->base.received = received(session);
}

/* --- sending ------------------------------------------------------------- */

/* A statement differs a little from its text when the whole queue is asked for,
 * and on tables of another make. */
static const char *text_of(const struct simba__pg *pg,
                           enum simba__sql_statement statement,
                           char room[TEXT_MOST])
{
    static const struct simba__sql_edit whole[] = {{"LIMIT 5", ""},
                                                   {NULL, NULL}};
    static const struct simba__sql_edit without[] = {SIMBA__SQL_WITHOUT_SLOTS,
                                                     {NULL, NULL}};
    static const struct simba__sql_edit another[] = {
        {"m.quiet, m.attempt, m.former", "-1, '', 0"},
        {", quiet = $41::bigint, attempt = $11, former = $39::bigint", ""},
        {"CASE $41::bigint WHEN -1 THEN $9::bigint ELSE -2 END", "$9::bigint"},
        {NULL, NULL}};
    static const struct simba__sql_edit old[] = {
        {", fencing_token = $10::bigint", ""},
        {"m.fencing_token", "m.version"},
        SIMBA__SQL_ASK_FOR_TOKENS,
        {NULL, NULL}};

    assert(strlen(texts[statement]) < TEXT_MOST);
    snprintf(room, TEXT_MOST, "%s", texts[statement]);
    if (statement == SIMBA__SQL_LOAD_ALL) {
        simba__sql_edit(room, TEXT_MOST, whole);
    }
    simba__sql_edit_slots(room, statement);
    if (pg->sql.has_no_slots) {
        simba__sql_edit(room, TEXT_MOST, without);
    }
    if (pg->sql.has_no_quiet) {
        simba__sql_edit(room, TEXT_MOST, another);
    }
    if (pg->sql.has_no_token) {
        simba__sql_edit(room, TEXT_MOST, old);
    }
    return room;
}

bool simba__pg_add(struct simba__pg_session *session,
                   const char *text,
                   int count,
                   const char *const *values)
{
    return PQsendQueryParams(session->conn, text, count, NULL, values, NULL,
                             NULL, 0) == 1;
}

/* False: the session is closed. */
static bool flush(struct simba__pg_session *session)
{
    int left = PQflush(session->conn);

    if (left < 0) {
        simba__pg_give_up(session);
        return false;
    }
    simba__sql_want(&session->base,
                    left > 0 ? EPOLLIN | EPOLLOUT : (uint32_t)EPOLLIN);
    return true;
}

void simba__pg_dispatch(struct simba__pg_session *session, bool is_taken)
{
    PQclear(session->result);
    session->result = NULL;
    if (!is_taken || PQpipelineSync(session->conn) == 0) {
        simba__pg_give_up(session);
        return;
    }
    session->is_waiting = true;
    simba__pg_note_received(session);
    flush(session);
}

/* A session of a pooler is ours for one transaction only, which a batch is; it
 * keeps no statements for us, nor settings. */
static bool send_batch(struct simba__pg_session *session,
                       enum simba__sql_statement statement,
                       const struct simba__sql_params *params)
{
    const struct simba__pg *pg = store_of(session);
    uint32_t bit = UINT32_C(1) << statement;
    char text[TEXT_MOST];
    char name[32];

    if (pg->is_pooled &&
        !simba__pg_add(session, SIMBA__PG_TRANSACTION_LIMITS, 0, NULL)) {
        return false;
    }
    if (pg->is_pooled || statement == SIMBA__SQL_SCHEMA ||
        statement == SIMBA__SQL_UPGRADE) {
        return simba__pg_add(session, text_of(pg, statement, text),
                             params->count, params->values);
    }
    if (session->is_old != pg->sql.has_no_token ||
        session->is_plain != pg->sql.has_no_slots ||
        session->is_another != pg->sql.has_no_quiet) { /* other texts now */
        session->is_old = pg->sql.has_no_token;
        session->is_plain = pg->sql.has_no_slots;
        session->is_another = pg->sql.has_no_quiet;
        session->prepared = 0;
        session
            ->generation++; /* those that the server knows keep their names */
    }
    snprintf(name, sizeof name, "simba_%d_%u", (int)statement,
             session->generation);
    if ((session->prepared & bit) == 0) {
        session->prepared |= bit;
        if (PQsendPrepare(session->conn, name, text_of(pg, statement, text), 0,
                          NULL) != 1) {
            return false;
        }
    }
    return PQsendQueryPrepared(session->conn, name, params->count,
                               params->values, NULL, NULL, 0) == 1;
}

void simba__pg_send(struct simba__sql_session *base,
                    enum simba__sql_statement statement)
{
    struct simba__pg_session *session = (struct simba__pg_session *)base;
    struct simba__sql_params params;
    bool is_taken = simba__sql_bind(&params, base->request, statement) &&
                    send_batch(session, statement, &params);

    assert(base->state == SIMBA__SQL_BUSY);
    free(params.gone);
    simba__pg_dispatch(session, is_taken);
}

/* --- connecting ---------------------------------------------------------- */

/* The descriptor may be another after each step. */
static void watch_connecting(struct simba__pg_session *session, uint32_t events)
{
    simba__sql_attach(&session->base, PQsocket(session->conn));
    simba__sql_want(&session->base, events);
}

static void ignore_notice(void *user, const char *message)
{
    (void)user;
    (void)message;
}

void simba__pg_connect(struct simba__sql_session *base)
{
    struct simba__pg_session *session = (struct simba__pg_session *)base;
    struct simba__pg_parameters parameters;

    simba__pg_settings_list(store_of(session), &parameters);
    session->prepared = session->generation = 0;
    session->is_waiting = session->is_setup = false;
    base->received = 0;
    session->conn =
        PQconnectStartParams(parameters.keywords, parameters.values, 0);
    if (session->conn == NULL || PQstatus(session->conn) == CONNECTION_BAD) {
        simba__pg_give_up(session);
        return;
    }
    PQsetNoticeProcessor(session->conn, ignore_notice, NULL);
    PQsetErrorVerbosity(session->conn, PQERRORS_VERBOSE);
    watch_connecting(session, EPOLLOUT);
}

static void poll_connection(struct simba__pg_session *session)
{
    char pid[16];
    const char *values[] = {pid};

    switch (PQconnectPoll(session->conn)) {
    case PGRES_POLLING_READING:
        watch_connecting(session, EPOLLIN);
        break;
    case PGRES_POLLING_WRITING:
        watch_connecting(session, EPOLLOUT);
        break;
    case PGRES_POLLING_OK:
        PQsetErrorVerbosity(session->conn, PQERRORS_DEFAULT);
        watch_connecting(session, EPOLLIN);
        PQsetnonblocking(session->conn, 1);
        snprintf(pid, sizeof pid, "%d", PQbackendPID(session->conn));
        session->is_setup = true;
        simba__pg_dispatch(
            session,
            PQenterPipelineMode(session->conn) == 1 &&
                simba__pg_add(session, SIMBA__PG_SESSION_SETUP, 1, values));
        break;
    default:
        simba__pg_give_up(session);
        break;
    }
}

/* --- what comes ---------------------------------------------------------- */

static bool is_good(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);

    return status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
}

/* Takes in what has come; true when the batch is complete. The last result of a
 * batch is the answer, unless an earlier one failed. */
static bool take_results(struct simba__pg_session *session)
{
    while (!PQisBusy(session->conn)) {
        PGresult *result = PQgetResult(session->conn);

        if (result == NULL) {
            continue; /* between two statements of a batch */
        }
        if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
            PQclear(result);
            return true;
        }
        if (session->result == NULL || is_good(session->result)) {
            PQclear(session->result);
            session->result = result;
        } else {
            PQclear(result);
        }
        if (PQstatus(session->conn) == CONNECTION_BAD) {
            return false;
        }
    }
    return false;
}

static const char *cell(const struct simba__sql_rows *rows, int row, int column)
{
    const PGresult *result = rows->result;

    return PQgetisnull(result, row, column) ? NULL
                                            : PQgetvalue(result, row, column);
}

/* All of a batch has come. What is called last may send the next. */
static void finish(struct simba__pg_session *session)
{
    struct simba__sql_result answer = {.verdict = SIMBA__SQL_FINE};
    PGresult *result = session->result;
    bool is_setup = session->is_setup;

    session->is_waiting = session->is_setup = false;
    if (session->base.is_notify && !is_setup) {
        simba__pg_notify_answered(session, is_good(result));
        return;
    }
    if (is_good(result)) {
        answer.rows = (struct simba__sql_rows){PQntuples(result), cell, result};
    } else {
        simba__pg_classify(session, &answer);
    }
    if (!is_setup) {
        session->result = NULL;
        simba__sql_answered(&session->base, &answer);
        PQclear(result);
    } else if (is_good(result)) {
        store_of(session)->is_pooled = answer.rows.count == 0;
        simba__sql_connected(&session->base);
    } else {
        simba__sql_lost(&session->base, answer.status, &answer.error);
    }
}

void simba__pg_proceed(struct simba__sql_session *base, uint32_t events)
{
    struct simba__pg_session *session = (struct simba__pg_session *)base;
    uint64_t so_far = received(session);

    (void)events;
    if (so_far > base->received &&
        simba__sql_is_too_much(base, so_far - base->received)) {
        simba__sql_flooded(base);
        return;
    }
    if (base->state == SIMBA__SQL_CONNECTING && !session->is_setup) {
        poll_connection(session);
        return;
    }
    if (PQconsumeInput(session->conn) == 0 ||
        PQstatus(session->conn) == CONNECTION_BAD) {
        simba__pg_give_up(session);
        return;
    }
    if ((base->wanted & EPOLLOUT) != 0 && !flush(session)) {
        return;
    }
    if (base->is_notify) {
        simba__pg_notifications(session);
    }
    if (session->is_waiting && take_results(session)) {
        finish(session);
    } else if (session->is_waiting &&
               PQstatus(session->conn) == CONNECTION_BAD) {
        simba__pg_give_up(session);
    }
}

/* --- closing ------------------------------------------------------------- */

void simba__pg_disconnect(struct simba__sql_session *base)
{
    struct simba__pg_session *session = (struct simba__pg_session *)base;

    PQclear(session->result);
    session->result = NULL;
    PQfinish(session->conn);
    session->conn = NULL;
}

void simba__pg_abandon(struct simba__sql_session *base)
{
    int fd = PQsocket(((struct simba__pg_session *)base)->conn);

    if (fd >= 0) {
        close(fd);
    }
}
