/* One connection to a PostgreSQL server, driven by its descriptor.
 *
 * In pipeline mode, although there is never more than one statement under way:
 * it lets a statement be prepared and run in one round trip. */
#define _GNU_SOURCE
#include "backends/postgres/postgres.h"

#include "backends/postgres/schema.h"
#include "backends/postgres/statements.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static struct simba__pg_session *mine(struct simba__sql_session *session)
{
    return (struct simba__pg_session *)session;
}

static struct simba__pg *store_of(const struct simba__pg_session *session)
{
    return (struct simba__pg *)session->base.self;
}

static void give_up(struct simba__pg_session *session)
{
    simba_error error;
    int status = simba__pg_explain(session, &error);

    simba__sql_broken(&session->base, status, &error);
}

/* --- results ------------------------------------------------------------- */

static const char *cell(const struct simba__sql_rows *rows, int row, int column)
{
    const PGresult *result = rows->result;

    return PQgetisnull(result, row, column) ? NULL
                                            : PQgetvalue(result, row, column);
}

static bool is_good(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);

    return status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
}

/* The last result of a batch is the answer, unless an earlier one failed. */
static void keep_result(struct simba__pg_session *session, PGresult *result)
{
    if (session->result != NULL && !is_good(session->result)) {
        PQclear(result);
        return;
    }
    PQclear(session->result);
    session->result = result;
}

static void greeted(struct simba__pg_session *session)
{
    struct simba__pg *pg = store_of(session);

    session->is_greeting = false;
    if (!is_good(session->result)) {
        struct simba__sql_answer answer;

        simba__pg_judge(session, &answer);
        simba__sql_broken(&session->base, answer.status, &answer.error);
        return;
    }
    pg->is_pooled = PQntuples(session->result) == 0;
    simba__sql_connected(&session->base);
}

static void listening(struct simba__pg_session *session)
{
    struct simba__sql_answer answer;

    if (is_good(session->result)) {
        simba_timer_clear(session->base.self->base.loop, &session->base.timer);
        simba__sql_bell_hung(session->base.self, SIMBA__SQL_BELL_HUNG);
        return;
    }
    simba__pg_judge(session, &answer);
    if (answer.verdict == SIMBA__SQL_AGAIN) { /* a deadlock, most likely */
        simba__pg_hang_bell(&session->base);
    } else {
        simba__sql_broken(&session->base, answer.status, &answer.error);
    }
}

/* All of a batch has come. What is called last may send the next. */
static void finish(struct simba__pg_session *session)
{
    struct simba__sql_answer answer = {.verdict = SIMBA__SQL_FINE};
    PGresult *result = session->result;

    session->is_waiting = false;
    if (session->is_greeting) {
        greeted(session);
        return;
    }
    if (session->base.is_bell) {
        listening(session);
        return;
    }
    if (is_good(result)) {
        answer.rows.count = PQntuples(result);
        answer.rows.cell = cell;
        answer.rows.result = result;
    } else {
        simba__pg_judge(session, &answer);
    }
    session->result = NULL;
    simba__sql_answered(&session->base, &answer);
    PQclear(result);
}

/* True when the batch is complete. */
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
        keep_result(session, result);
        if (PQstatus(session->conn) == CONNECTION_BAD) {
            return false;
        }
    }
    return false;
}

/* --- sending ------------------------------------------------------------- */

/* True when everything is with the system. */
static void flush(struct simba__pg_session *session)
{
    int left = PQflush(session->conn);

    if (left < 0) {
        give_up(session);
        return;
    }
    simba__sql_want(&session->base,
                    left > 0 ? EPOLLIN | EPOLLOUT : (uint32_t)EPOLLIN);
}

/* Ends a batch; false when the library could not even take it. */
static void dispatch(struct simba__pg_session *session, bool is_taken)
{
    PQclear(session->result);
    session->result = NULL;
    if (!is_taken || PQpipelineSync(session->conn) == 0) {
        give_up(session);
        return;
    }
    session->is_waiting = true;
    flush(session);
}

static bool prepare(struct simba__pg_session *session,
                    enum simba__sql_statement statement,
                    const char *name)
{
    uint32_t bit = UINT32_C(1) << statement;
    char text[SIMBA__PG_TEXT];

    if ((session->prepared & bit) != 0) {
        return true;
    }
    session->prepared |= bit;
    return PQsendPrepare(session->conn, name,
                         simba__pg_text(store_of(session), statement, text), 0,
                         NULL) == 1;
}

/* Those that the server knows keep their names. */
void simba__pg_forget_prepared(struct simba__pg_session *session)
{
    session->prepared = 0;
    session->generation++;
}

/* A session of a pooler is ours for one transaction only, and a batch is one.
 */
static bool limit_time(struct simba__pg_session *session)
{
    return !store_of(session)->is_pooled ||
           PQsendQueryParams(session->conn, SIMBA__PG_TRANSACTION_LIMITS, 0,
                             NULL, NULL, NULL, NULL, 0) == 1;
}

/* The last two are for other servers and for tables of our make. */
static int count_params(const struct simba__pg *pg,
                        enum simba__sql_statement statement,
                        const struct simba__sql_params *params)
{
    int spare = pg->sql.has_no_quiet ? 2 : 1;

    return params->count - (statement == SIMBA__SQL_APPLY ? spare : 0);
}

/* A pooler keeps no statements for us. */
static bool send_batch(struct simba__pg_session *session,
                       enum simba__sql_statement statement,
                       const struct simba__sql_params *params)
{
    const struct simba__pg *pg = store_of(session);
    int count = count_params(pg, statement, params);
    char text[SIMBA__PG_TEXT];
    char name[32];

    if (pg->is_pooled || statement == SIMBA__SQL_SCHEMA ||
        statement == SIMBA__SQL_UPGRADE) {
        return limit_time(session) &&
               PQsendQueryParams(session->conn,
                                 simba__pg_text(pg, statement, text), count,
                                 NULL, params->values, NULL, NULL, 0) == 1;
    }
    if (session->is_old != pg->sql.has_no_token ||
        session->is_another != pg->sql.has_no_quiet) { /* other texts now */
        session->is_old = pg->sql.has_no_token;
        session->is_another = pg->sql.has_no_quiet;
        simba__pg_forget_prepared(session);
    }
    snprintf(name, sizeof name, "simba_%d_%u", (int)statement,
             session->generation);
    return prepare(session, statement, name) &&
           PQsendQueryPrepared(session->conn, name, count, params->values, NULL,
                               NULL, 0) == 1;
}

void simba__pg_send(struct simba__sql_session *base,
                    enum simba__sql_statement statement)
{
    struct simba__pg_session *session = mine(base);
    struct simba__sql_params params;
    bool is_taken = simba__sql_bind(&params, base->turn, statement) &&
                    send_batch(session, statement, &params);

    free(params.gone);
    dispatch(session, is_taken);
}

static void greet(struct simba__pg_session *session)
{
    char pid[16];
    const char *values[] = {pid};

    snprintf(pid, sizeof pid, "%d", PQbackendPID(session->conn));
    session->is_greeting = true;
    dispatch(session,
             PQenterPipelineMode(session->conn) == 1 &&
                 PQsendQueryParams(session->conn, SIMBA__PG_SESSION_SETUP, 1,
                                   NULL, values, NULL, NULL, 0) == 1);
}

/* Our lock says that we live; whoever can get it knows that we do not. */
void simba__pg_hang_bell(struct simba__sql_session *base)
{
    struct simba__pg_session *session = mine(base);
    char listen[SIMBA__SQL_HEX + 32];
    const char *values[] = {base->self->process, base->self->hung_as};
    bool is_taken;

    if (store_of(session)->is_pooled) {
        simba__sql_session_close(base);
        simba__sql_bell_hung(base->self, SIMBA__SQL_BELL_REFUSED);
        return;
    }
    snprintf(listen, sizeof listen, "LISTEN simba_%s", base->self->process);
    is_taken = PQsendQueryParams(session->conn, SIMBA__PG_NOTIFY_LOCK, 1, NULL,
                                 values, NULL, NULL, 0) == 1 &&
               (base->self->hung_as[0] == '\0' ||
                PQsendQueryParams(session->conn, SIMBA__PG_NOTIFY_RENAME, 2,
                                  NULL, values, NULL, NULL, 0) == 1) &&
               PQsendQueryParams(session->conn, listen, 0, NULL, NULL, NULL,
                                 NULL, 0) == 1;
    dispatch(session, is_taken);
}

/* --- connecting ---------------------------------------------------------- */

static PGconn *start(const struct simba__pg *pg)
{
    struct simba__pg_parameters parameters;

    simba__pg_settings_list(pg, &parameters);
    return PQconnectStartParams(parameters.keywords, parameters.values, 0);
}

/* The descriptor may be another after each step. */
static void watch_connecting(struct simba__pg_session *session, uint32_t events)
{
    struct simba__sql_session *base = &session->base;

    simba__sql_attach(base, PQsocket(session->conn));
    simba__sql_want(base, events);
}

static void poll_connection(struct simba__pg_session *session)
{
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
        greet(session);
        break;
    default:
        give_up(session);
        break;
    }
}

static void ignore_notice(void *user, const char *message)
{
    (void)user;
    (void)message;
}

void simba__pg_dial(struct simba__sql_session *base)
{
    struct simba__pg_session *session = mine(base);

    session->prepared = session->generation = 0;
    session->is_waiting = session->is_greeting = false;
    session->conn = start(store_of(session));
    if (session->conn == NULL || PQstatus(session->conn) == CONNECTION_BAD) {
        give_up(session);
        return;
    }
    PQsetNoticeProcessor(session->conn, ignore_notice, NULL);
    PQsetErrorVerbosity(session->conn, PQERRORS_VERBOSE);
    watch_connecting(session, EPOLLOUT);
}

/* --- what comes ---------------------------------------------------------- */

static void hear_rings(struct simba__pg_session *session)
{
    PGnotify *ring;

    while ((ring = PQnotifies(session->conn)) != NULL) {
        simba__sql_wake(session->base.self, ring->extra);
        PQfreemem(ring);
    }
}

void simba__pg_proceed(struct simba__sql_session *base, uint32_t events)
{
    struct simba__pg_session *session = mine(base);

    (void)events;
    if (base->state == SIMBA__SQL_CONNECTING && !session->is_greeting) {
        poll_connection(session);
        return;
    }
    if (PQconsumeInput(session->conn) == 0 ||
        PQstatus(session->conn) == CONNECTION_BAD) {
        give_up(session);
        return;
    }
    if ((base->wanted & EPOLLOUT) != 0) {
        flush(session);
    }
    if (base->is_bell) {
        hear_rings(session);
    }
    if (session->is_waiting && take_results(session)) {
        finish(session);
    } else if (session->is_waiting &&
               PQstatus(session->conn) == CONNECTION_BAD) {
        give_up(session);
    }
}

void simba__pg_disconnect(struct simba__sql_session *base)
{
    struct simba__pg_session *session = mine(base);

    PQclear(session->result);
    session->result = NULL;
    PQfinish(session->conn);
    session->conn = NULL;
}

void simba__pg_abandon(struct simba__sql_session *base)
{
    int fd = PQsocket(mine(base)->conn);

    if (fd >= 0) {
        close(fd);
    }
}
