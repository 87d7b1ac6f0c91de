/* One connection to a MySQL or MariaDB server: what the engine asks of it. The
 * steps in which it is done are in steps.c. */
#define _GNU_SOURCE
#include "backends/mysql/mysql.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static struct simba__my_session *mine(struct simba__sql_session *session)
{
    return (struct simba__my_session *)session;
}

static const struct simba__my_settings *settings_of(
    const struct simba__my_session *session)
{
    return &((const struct simba__my *)session->base.self)->settings;
}

static const char *or_null(const char *text)
{
    return text[0] == '\0' ? NULL : text;
}

/* --- connecting ---------------------------------------------------------- */

static void set_tls(struct simba__my_session *session)
{
    const struct simba__my_settings *settings = settings_of(session);
    my_bool on = 1;

    mysql_ssl_set(&session->mysql, or_null(settings->tls_key),
                  or_null(settings->tls_cert), or_null(settings->tls_ca), NULL,
                  NULL);
    mysql_options(&session->mysql, MYSQL_OPT_SSL_ENFORCE, &on);
    if (!settings->is_unverified) {
        mysql_options(&session->mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &on);
    }
}

static void set_options(struct simba__my_session *session)
{
    const struct simba__my_settings *settings = settings_of(session);
    MYSQL *mysql = &session->mysql;

    mysql_options(mysql, MYSQL_OPT_NONBLOCK, NULL);
    mysql_options(mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    mysql_options4(mysql, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "simba");
    if (settings->option_file[0] != '\0') {
        mysql_options(mysql, MYSQL_READ_DEFAULT_FILE, settings->option_file);
    }
    mysql_options(mysql, MYSQL_READ_DEFAULT_GROUP, "simba");
    if (settings->has_tls) {
        set_tls(session);
    }
}

/* What only an option file names, only the library knows. */
const char *simba__my_hosts(const struct simba__sql *self)
{
    return or_null(((const struct simba__my *)self)->settings.host);
}

void simba__my_dial(struct simba__sql_session *base)
{
    struct simba__my_session *session = mine(base);
    const struct simba__my_settings *settings = settings_of(session);
    const char *password = settings->password[0] != '\0' ? settings->password
                                                         : getenv("MYSQL_PWD");

    mysql_init(&session->mysql);
    session->is_open = true;
    session->phase = SIMBA__MY_CONNECT;
    memset(session->fast, 0, sizeof(session->fast));
    set_options(session);
    simba__my_run(session, mysql_real_connect_start(
                               &session->connected, &session->mysql,
                               or_null(settings->host), or_null(settings->user),
                               password, or_null(settings->database),
                               settings->port, or_null(settings->socket),
                               CLIENT_MULTI_STATEMENTS | CLIENT_FOUND_ROWS));
}

static void bind_params(struct simba__my_session *session)
{
    struct simba__sql_params *params = &session->params;
    enum simba__sql_statement statement = session->statement;

    memset(session->binds, 0, sizeof session->binds);
    for (int i = 0; i < session->positions[statement]; i++) {
        int n = session->order[statement][i];
        MYSQL_BIND *bind = &session->binds[i];

        if (params->is_number[n]) {
            bind->buffer_type = MYSQL_TYPE_LONGLONG;
            bind->buffer = &params->numbers[n];
        } else {
            bind->buffer_type = MYSQL_TYPE_STRING;
            bind->buffer = (void *)(uintptr_t)params->values[n];
            session->lengths[i] = strlen(params->values[n]);
            bind->length = &session->lengths[i];
            bind->buffer_length = session->lengths[i];
        }
    }
}

int simba__my_execute(struct simba__my_session *session)
{
    MYSQL_STMT *statement = session->fast[session->statement];

    bind_params(session);
    mysql_stmt_bind_param(statement, session->binds);
    session->phase = SIMBA__MY_EXECUTE;
    return mysql_stmt_execute_start(&session->rc, statement);
}

static int send_fast(struct simba__my_session *session)
{
    enum simba__sql_statement statement = session->statement;

    simba__sql_bind(&session->params, session->base.turn, statement);
    if (session->fast[statement] != NULL) {
        return simba__my_execute(session);
    }
    session->text = simba__my_prepared(session, statement);
    session->fast[statement] = mysql_stmt_init(&session->mysql);
    if (session->text == NULL || session->fast[statement] == NULL) {
        return SIMBA__MY_ANSWERED;
    }
    session->phase = SIMBA__MY_PREPARE;
    return mysql_stmt_prepare_start(&session->rc, session->fast[statement],
                                    session->text, strlen(session->text));
}

void simba__my_query(struct simba__my_session *session, char *text)
{
    simba__my_free_query(session);
    session->failure = 0;
    session->answered = 0;
    session->text = text;
    simba__my_run(session, simba__my_start(session, SIMBA__MY_QUERY, text));
}

void simba__my_send(struct simba__sql_session *base,
                    enum simba__sql_statement statement)
{
    struct simba__my_session *session = mine(base);
    char *text;

    session->statement = statement;
    session->failure = 0;
    if ((int)statement < SIMBA__MY_FAST) {
        simba__my_run(session, send_fast(session));
        return;
    }
    text = simba__my_render(session, statement);
    if (text == NULL) {
        simba_error error;

        simba_error_set(&error, SIMBA_ENOMEM, 0, "out of memory");
        simba__sql_broken(base, SIMBA_ENOMEM, &error);
        return;
    }
    simba__my_query(session, text);
}

void simba__my_proceed(struct simba__sql_session *base, uint32_t events)
{
    struct simba__my_session *session = mine(base);
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
    simba__my_run(session, simba__my_go_on(session, status));
}

/* Good-byes are for servers that wait for us to speak; else they would block.
 */
void simba__my_disconnect(struct simba__sql_session *base)
{
    struct simba__my_session *session = mine(base);
    int fd;

    if (!session->is_open) {
        return;
    }
    session->is_open = false;
    fd = (int)mysql_get_socket(&session->mysql);
    if (session->phase != SIMBA__MY_IDLE && fd >= 0) {
        shutdown(fd, SHUT_RDWR);
    }
    simba__my_free_query(session);
    mysql_close(&session->mysql);
    for (int i = 0; i < SIMBA__MY_FAST; i++) {
        if (session->fast[i] != NULL) {
            mysql_stmt_close(session->fast[i]);
            session->fast[i] = NULL;
        }
    }
    free(session->seen);
    session->seen = NULL;
}

void simba__my_abandon(struct simba__sql_session *base)
{
    struct simba__my_session *session = mine(base);
    int fd = session->is_open ? (int)mysql_get_socket(&session->mysql) : -1;

    if (fd >= 0) {
        close(fd);
    }
}
