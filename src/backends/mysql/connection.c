/* One connection to a MySQL or MariaDB server.
 *
 * Each function of the library that would block comes in two halves: one that
 * starts it and one that goes on; both say what they wait for, or 0. A phase is
 * one such call; when it is over, next_phase() starts another or answers. */
#define _GNU_SOURCE
#include "backends/mysql/mysql.h"

#include "backends/mysql/statements.h"

#include <mysqld_error.h>

#include <assert.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* What a phase says when there is nothing more to wait for. */
enum { ANSWERED = -1 };

static void run(struct simba__my_session *session, int waits);

static void free_query(struct simba__my_session *session)
{
    free(session->text);
    session->text = NULL;
    mysql_free_result(session->result);
    session->result = NULL;
}

static int start_query(struct simba__my_session *session,
                       enum simba__my_phase phase,
                       const char *text)
{
    session->phase = phase;
    return mysql_real_query_start(&session->rc, &session->mysql, text,
                                  strlen(text));
}

/* --- limits -------------------------------------------------------------- */

/* The library reads on as long as something comes, and would not come back to
 * us from a server that sends without an end. This function of its own, which
 * no header declares, is how its trace plugin hears of all that is read. */
int ma_pvio_register_callback(my_bool is_registered,
                              void (*heard)(int is_written,
                                            MYSQL *mysql,
                                            const unsigned char *bytes,
                                            size_t count))
    __attribute__((weak));

static char whose[] = "simba";

/* Whether the server knows TLS stands in its first packet: behind a head, the
 * version of the protocol, a text and 13 more bytes. Where it knows none, the
 * library goes on without, unless it is to verify, and may send the password in
 * clear. It is kept from that before it has seen the packet. And if the packet
 * is an error, it may look into the version of the server, which nobody has
 * told it: through NULL, unless there is one, which it frees with the
 * connection. */
static void check_greeting(struct simba__my_session *session,
                           const unsigned char *bytes,
                           size_t count)
{
    enum { TEXT = 5, SKIPPED = 13, PROTOCOL = 10, ERROR = 255 };
    const struct simba__my *my = (const struct simba__my *)session->base.self;
    unsigned char *greeting = session->greeting;
    size_t left = sizeof session->greeting - session->greeted, at;

    if (session->phase != SIMBA__MY_CONNECT || left == 0) {
        return;
    }
    count = count < left ? count : left;
    memcpy(greeting + session->greeted, bytes, count);
    session->greeted += count;
    if (session->greeted >= TEXT && greeting[TEXT - 1] == ERROR &&
        session->mysql.server_version == NULL) {
        session->mysql.server_version = strdup("");
    }
    if (session->greeted <= TEXT || greeting[TEXT - 1] != PROTOCOL ||
        my->settings.tls.use == SIMBA__TLS_OFF) {
        return; /* an error, or nothing that the library takes */
    }
    at = TEXT +
         strnlen((const char *)greeting + TEXT, session->greeted - TEXT) + 1 +
         SKIPPED;
    if (at + 1 < session->greeted ||
        session->greeted == sizeof session->greeting) {
        session->is_bare = at + 1 >= session->greeted ||
                           (greeting[at + 1] & CLIENT_SSL >> 8) == 0;
        session->greeted = sizeof session->greeting; /* all that matters */
    }
}

static void on_heard(int is_written,
                     MYSQL *mysql,
                     const unsigned char *bytes,
                     size_t count)
{
    struct simba__my_session *session = NULL; /* other connections have none */

    mysql_get_optionv(mysql, MARIADB_OPT_USERDATA, whose, &session);
    if (session != NULL && !is_written && count <= SSIZE_MAX) {
        session->base.received += count;
        check_greeting(session, bytes, count);
        if (session->is_bare ||
            simba__sql_is_too_much(&session->base, session->base.received)) {
            shutdown((int)mysql_get_socket(mysql), SHUT_RDWR);
        }
    }
}

/* What a server that nobody verified may ask for; not mysql_clear_password nor
 * dialog, which give it the password. An option file may allow more. */
static const char hashing_plugins[] =
    "mysql_native_password,client_ed25519,parsec,caching_sha2_password,"
    "sha256_password,auth_gssapi_client";

static void hear_library(void)
{
    if (ma_pvio_register_callback != NULL) {
        ma_pvio_register_callback(1, on_heard);
    }
}

/* --- connecting ---------------------------------------------------------- */

void simba__my_connect(struct simba__sql_session *base)
{
    struct simba__my_session *session = (struct simba__my_session *)base;
    const struct simba__my_settings *settings =
        &((const struct simba__my *)base->self)->settings;
    const struct simba__tls_settings *tls = &settings->tls;
    const char *password = settings->password != NULL
                               ? settings->password
                               : secure_getenv("MYSQL_PWD");
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    MYSQL *mysql = &session->mysql;
    my_bool on = 1;

    pthread_once(&once, hear_library);
    base->received = 0;
    mysql_init(mysql);
    session->is_open = true;
    session->number++;
    session->phase = SIMBA__MY_CONNECT;
    session->greeted = 0;
    session->is_bare = false;
    memset(session->prepared, 0, sizeof session->prepared);
    session->named = 0;
    mysql_options(mysql, MYSQL_OPT_NONBLOCK, NULL);
    mysql_optionsv(mysql, MARIADB_OPT_USERDATA, whose, session);
    mysql_options(mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    mysql_options4(mysql, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "simba");
    if (settings->option_file != NULL) {
        mysql_options(mysql, MYSQL_READ_DEFAULT_FILE, settings->option_file);
    }
    mysql_options(mysql, MYSQL_READ_DEFAULT_GROUP, "simba");
    if (tls->use != SIMBA__TLS_OFF) {
        mysql_ssl_set(mysql, tls->key, tls->cert, tls->ca, NULL, NULL);
        mysql_options(mysql, MYSQL_OPT_SSL_ENFORCE, &on);
        if (tls->is_verified) {
            mysql_options(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &on);
        }
    }
    if (!tls->is_verified) {
        mysql_optionsv(mysql, MARIADB_OPT_RESTRICTED_AUTH, hashing_plugins);
    }
    run(session,
        mysql_real_connect_start(&session->connected, mysql, settings->host,
                                 settings->user, password, settings->database,
                                 settings->port, settings->socket,
                                 CLIENT_MULTI_STATEMENTS | CLIENT_FOUND_ROWS));
}

/* A server lets those kill each other's statements who came in by the same
 * name. */
static int after_connect(struct simba__my_session *session)
{
    struct simba__my *my = (struct simba__my *)session->base.self;
    const char *user = session->mysql.user == NULL ? "" : session->mysql.user;
    simba_error error;

    if (session->connected == NULL && !session->is_bare) {
        simba__my_give_up(session);
        return ANSWERED;
    }
    if (session->is_bare || (my->settings.tls.use != SIMBA__TLS_OFF &&
                             mysql_get_ssl_cipher(&session->mysql) == NULL)) {
        simba_error_set(&error, SIMBA_EMISCONFIG, 0,
                        "%s: the server does not speak TLS; tls=off does "
                        "without TLS",
                        my->sql.shown);
        simba__sql_lost(&session->base, error.code, &error);
        return ANSWERED;
    }
    my->sql.account = simba__fnv32(user, strlen(user));
    my->sql.account += my->sql.account == 0; /* which means none */
    if (my->sql.notify == SIMBA__SQL_NOTIFY_NONE && !my->sql.was_notified) {
        simba__sql_name_process(&my->sql); /* it tells the account */
    }
    my->is_mysql =
        strstr(mysql_get_server_info(&session->mysql), "MariaDB") == NULL;
    my->sql.cannot_offer |= my->is_mysql;
    return start_query(session, SIMBA__MY_SETUP, SIMBA__MY_SESSION_SETUP);
}

/* --- sending ------------------------------------------------------------- */

static int execute(struct simba__my_session *session)
{
    MYSQL_STMT *prepared = session->prepared[session->statement];
    struct simba__sql_params *params = &session->params;
    MYSQL_BIND binds[SIMBA__SQL_PARAMS]; /* the library makes a copy */

    memset(binds, 0, sizeof binds);
    for (int i = 0; i < session->order_count[session->statement]; i++) {
        int n = session->order[session->statement][i];

        if (params->is_number[n]) {
            binds[i].buffer_type = MYSQL_TYPE_LONGLONG;
            binds[i].buffer = &params->numbers[n];
        } else {
            binds[i].buffer_type = MYSQL_TYPE_STRING;
            binds[i].buffer = (void *)(uintptr_t)params->values[n];
            binds[i].buffer_length = strlen(params->values[n]);
        }
    }
    mysql_stmt_bind_param(prepared, binds);
    session->phase = SIMBA__MY_EXECUTE;
    return mysql_stmt_execute_start(&session->rc, prepared);
}

void simba__my_query(struct simba__my_session *session, char *text)
{
    simba_error error;

    free_query(session);
    session->base.received = 0;
    session->failure = 0;
    session->answered = 0;
    session->text = text;
    if (text == NULL) {
        simba_error_set(&error, SIMBA_ENOMEM, 0, "out of memory");
        simba__sql_lost(&session->base, SIMBA_ENOMEM, &error);
        return;
    }
    run(session, start_query(session, SIMBA__MY_QUERY, text));
}

void simba__my_send(struct simba__sql_session *base,
                    enum simba__sql_statement statement)
{
    struct simba__my_session *session = (struct simba__my_session *)base;
    MYSQL_STMT **prepared;

    assert(base->state == SIMBA__SQL_BUSY && base->request != NULL);
    session->statement = statement;
    session->failure = 0;
    if (statement >= SIMBA__SQL_FAST_PATH) {
        simba__my_query(session, simba__my_render(session, statement));
        return;
    }
    base->received = 0;
    prepared = &session->prepared[statement];
    simba__sql_bind(&session->params, base->request, statement);
    if (*prepared != NULL) {
        run(session, execute(session));
        return;
    }
    session->text = simba__my_render_prepared(session, statement);
    *prepared = mysql_stmt_init(&session->mysql);
    if (session->text == NULL || *prepared == NULL) {
        simba__my_query(session, NULL);
        return;
    }
    session->phase = SIMBA__MY_PREPARE;
    run(session,
        mysql_stmt_prepare_start(&session->rc, *prepared, session->text,
                                 strlen(session->text)));
}

/* --- answers ------------------------------------------------------------- */

static const char *cell(const struct simba__sql_rows *rows, int row, int column)
{
    MYSQL_RES *result = rows->result;

    mysql_data_seek(result, (unsigned long long)row);
    return column < (int)mysql_num_fields(result)
               ? mysql_fetch_row(result)[column]
               : NULL; /* the server lies */
}

/* A prepared statement has no rows, but these are the ones it would have. */
static const char *prepared_cell(const struct simba__sql_rows *rows,
                                 int row,
                                 int column)
{
    const struct simba__my_session *session = rows->result;

    (void)row;
    return column <= SIMBA__SQL_DONE_ACQUIRED_AT ? session->params.texts[column]
                                                 : NULL;
}

static void answer_prepared(struct simba__my_session *session)
{
    MYSQL_STMT *prepared = session->prepared[session->statement];
    const struct simba__sql_request *request = session->base.request;
    struct simba__sql_result answer = {.verdict = SIMBA__SQL_FINE};
    unsigned long long us = mysql_stmt_insert_id(prepared);
    /* A renewal is not told the token and when it was acquired; the one is
     * known, and the other but for rare exceptions a part of it. */
    unsigned long long token =
        request != NULL && request->asked->kind == SIMBA_RENEW
            ? request->asked->token
            : us;

    if (mysql_stmt_affected_rows(prepared) > 0) {
        snprintf(session->params.texts[0], 24, "%llu", us);
        snprintf(session->params.texts[1], 24, "%llu", token);
        snprintf(session->params.texts[2], 24, "%llu", token / 1000);
        answer.rows = (struct simba__sql_rows){1, prepared_cell, session};
    }
    session->phase = SIMBA__MY_IDLE;
    simba__sql_answered(&session->base, &answer);
}

static void finish(struct simba__my_session *session)
{
    struct simba__sql_result answer = {.verdict = SIMBA__SQL_FINE};
    MYSQL_RES *result = session->result;

    session->phase = SIMBA__MY_IDLE;
    if (session->base.is_notify) {
        simba__my_notify_answered(session);
        return;
    }
    session->result = NULL;
    free_query(session);
    if (session->failure != 0) {
        simba__my_classify(session, &answer);
    } else if (simba__sql_is_apply(session->statement)) {
        answer.rows.count = session->found > 0;
    } else if (result != NULL) {
        answer.rows =
            (struct simba__sql_rows){(int)mysql_num_rows(result), cell, result};
    }
    simba__sql_answered(&session->base, &answer);
    mysql_free_result(result);
}

static void note_failure(struct simba__my_session *session,
                         unsigned number,
                         const char *words)
{
    session->failure = number;
    snprintf(session->words, sizeof session->words, "%s", words);
}

/* --- what comes after what ----------------------------------------------- */

/* It is one statement to us. What fails for these reasons has not come to its
 * commit, but may have left a transaction open; of anything else nobody knows.
 * Servers before MariaDB 10.6 cannot prepare it: then it did nothing. */
static int after_failed_offer(struct simba__my_session *session,
                              unsigned number)
{
    note_failure(session, number, mysql_error(&session->mysql));
    if (session->is_naming && !simba__my_is_lost(number)) {
        session->base.self->cannot_offer |= number == ER_UNSUPPORTED_PS;
        session->failure = number == ER_UNSUPPORTED_PS ? 0 : number;
        finish(session);
        return ANSWERED;
    }
    if (number == ER_LOCK_DEADLOCK || number == ER_LOCK_WAIT_TIMEOUT) {
        return start_query(session, SIMBA__MY_ROLLBACK, "ROLLBACK");
    }
    simba__my_give_up(session);
    return ANSWERED;
}

/* The rest of a batch is not sent after an error. Of a change that has been
 * committed, failing to notify is no failure; one that has not may have left a
 * transaction open. */
static int after_failure(struct simba__my_session *session)
{
    unsigned number = mysql_errno(&session->mysql);
    bool is_change =
        !session->base.is_notify && simba__sql_is_apply(session->statement);

    if (number ==
        ER_UNKNOWN_STMT_HANDLER) { /* somebody has reset the session */
        session->named = 0;
        note_failure(session, number, mysql_error(&session->mysql));
        finish(session);
        return ANSWERED;
    }
    if (!session->base.is_notify && session->statement == SIMBA__SQL_OFFER) {
        return after_failed_offer(session, number);
    }
    /* Who knows what a COMMIT that failed has done? Unless it was a conflict
     * between the nodes of a cluster. */
    if (simba__my_is_lost(number) ||
        (is_change && session->answered == session->batch - 1 &&
         number != ER_LOCK_DEADLOCK)) {
        simba__my_give_up(session);
        return ANSWERED;
    }
    if (!is_change || session->answered < session->batch) {
        note_failure(session, number, mysql_error(&session->mysql));
    }
    if (is_change && session->answered < session->batch) {
        return start_query(session, SIMBA__MY_ROLLBACK, "ROLLBACK");
    }
    finish(session);
    return ANSWERED;
}

static int after_result(struct simba__my_session *session)
{
    if (mysql_more_results(&session->mysql)) {
        session->phase = SIMBA__MY_NEXT;
        return mysql_next_result_start(&session->rc, &session->mysql);
    }
    finish(session);
    return ANSWERED;
}

/* The second statement of a change is the one that compares. */
static int after_query(struct simba__my_session *session)
{
    if (session->rc != 0) {
        return after_failure(session);
    }
    if (++session->answered == 2) {
        session->found = (int64_t)mysql_affected_rows(&session->mysql);
    }
    if (session->is_naming && !session->base.is_notify) {
        session->is_naming = false;
        session->named |= UINT32_C(1) << session->statement;
    }
    if (mysql_field_count(&session->mysql) > 0) {
        session->phase = SIMBA__MY_STORE;
        return mysql_store_result_start(&session->stored, &session->mysql);
    }
    return after_result(session);
}

static int after_store(struct simba__my_session *session)
{
    MYSQL_ROW row;

    if (session->stored == NULL) {
        return after_failure(session);
    }
    /* Of a heartbeat, what `heartbeat_lock` says: does the notify session
     * wait for us? */
    if (!session->base.is_notify &&
        session->statement == SIMBA__SQL_HEARTBEAT && session->answered == 1 &&
        (row = mysql_fetch_row(session->stored)) != NULL && row[0] != NULL) {
        session->base.is_needed |= strcmp(row[0], "1") == 0;
    }
    mysql_free_result(session->result);
    session->result = session->stored;
    return after_result(session);
}

/* A prepared statement was prepared or executed. */
static int after_prepared(struct simba__my_session *session)
{
    MYSQL_STMT **prepared = &session->prepared[session->statement];
    bool is_new = session->phase == SIMBA__MY_PREPARE;

    free(session->text);
    session->text = NULL;
    if (session->rc == 0 && is_new) {
        /* The library would take as many from us as the server says. */
        if (mysql_stmt_param_count(*prepared) !=
            (unsigned long)session->order_count[session->statement]) {
            simba__sql_flooded(&session->base);
            return ANSWERED;
        }
        return execute(session);
    }
    if (session->rc == 0) {
        answer_prepared(session);
        return ANSWERED;
    }
    note_failure(session, mysql_stmt_errno(*prepared),
                 mysql_stmt_error(*prepared));
    if (is_new) {
        mysql_stmt_close(*prepared); /* sends nothing: the server knows none */
        *prepared = NULL;
    }
    if (simba__my_is_lost(session->failure)) {
        simba__my_give_up(session);
    } else {
        finish(session);
    }
    return ANSWERED;
}

static int next_phase(struct simba__my_session *session)
{
    switch (session->phase) {
    case SIMBA__MY_CONNECT:
        return after_connect(session);
    case SIMBA__MY_PREPARE:
    case SIMBA__MY_EXECUTE:
        return after_prepared(session);
    case SIMBA__MY_QUERY:
    case SIMBA__MY_NEXT:
        return after_query(session);
    case SIMBA__MY_STORE:
        return after_store(session);
    case SIMBA__MY_SETUP:
    case SIMBA__MY_ROLLBACK:
        if (session->rc != 0) {
            simba__my_give_up(session);
        } else if (session->phase == SIMBA__MY_ROLLBACK) {
            finish(session);
        } else {
            session->phase = SIMBA__MY_IDLE;
            simba__sql_connected(&session->base);
        }
        break;
    case SIMBA__MY_IDLE:
        break;
    }
    return ANSWERED;
}

/* Goes on as far as it goes without waiting. */
static void run(struct simba__my_session *session, int waits)
{
    int fd;

    while (waits == 0) {
        waits = next_phase(session);
    }
    if (waits == ANSWERED) {
        return;
    }
    fd = (int)mysql_get_socket(&session->mysql);
    /* One address after the other is tried by the same number. */
    if (fd != session->base.fd || session->phase == SIMBA__MY_CONNECT) {
        simba__sql_attach(&session->base, fd);
    }
    simba__sql_want(&session->base,
                    ((waits & MYSQL_WAIT_WRITE) != 0 ? EPOLLOUT : 0) |
                        ((waits & MYSQL_WAIT_READ) != 0 ? EPOLLIN : 0));
}

/* The second half of the call that was started. */
static int go_on(struct simba__my_session *session, int status)
{
    MYSQL_STMT *prepared = session->statement < SIMBA__SQL_FAST_PATH
                               ? session->prepared[session->statement]
                               : NULL;

    switch (session->phase) {
    case SIMBA__MY_CONNECT:
        return mysql_real_connect_cont(&session->connected, &session->mysql,
                                       status);
    case SIMBA__MY_PREPARE:
        return mysql_stmt_prepare_cont(&session->rc, prepared, status);
    case SIMBA__MY_EXECUTE:
        return mysql_stmt_execute_cont(&session->rc, prepared, status);
    case SIMBA__MY_STORE:
        return mysql_store_result_cont(&session->stored, &session->mysql,
                                       status);
    case SIMBA__MY_NEXT:
        return mysql_next_result_cont(&session->rc, &session->mysql, status);
    default:
        return mysql_real_query_cont(&session->rc, &session->mysql, status);
    }
}

void simba__my_proceed(struct simba__sql_session *base, uint32_t events)
{
    struct simba__my_session *session = (struct simba__my_session *)base;
    int status = 0;

    if (session->phase == SIMBA__MY_IDLE) {
        simba__my_give_up(session); /* nobody has asked it anything */
        return;
    }
    if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
        status |= MYSQL_WAIT_READ;
    }
    if ((events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) {
        status |= MYSQL_WAIT_WRITE;
    }
    run(session, go_on(session, status));
}

/* --- closing ------------------------------------------------------------- */

/* Good-byes are for servers that wait for us to speak; else they would block.
 */
void simba__my_disconnect(struct simba__sql_session *base)
{
    struct simba__my_session *session = (struct simba__my_session *)base;
    int fd;

    if (!session->is_open) {
        return;
    }
    session->is_open = false;
    fd = (int)mysql_get_socket(&session->mysql);
    if (session->phase != SIMBA__MY_IDLE && fd >= 0) {
        shutdown(fd, SHUT_RDWR);
    }
    free_query(session);
    mysql_close(&session->mysql);
    for (int i = 0; i < SIMBA__SQL_FAST_PATH; i++) {
        if (session->prepared[i] != NULL) {
            mysql_stmt_close(session->prepared[i]);
            session->prepared[i] = NULL;
        }
    }
    free(session->seen);
    session->seen = NULL;
}

void simba__my_abandon(struct simba__sql_session *base)
{
    struct simba__my_session *session = (struct simba__my_session *)base;
    int fd = session->is_open ? (int)mysql_get_socket(&session->mysql) : -1;

    if (fd >= 0) {
        close(fd);
    }
}
