/* What the words of MySQL and MariaDB mean to us. */
#define _GNU_SOURCE
#include "backends/mysql/mysql.h"

#include <errmsg.h>
#include <mysqld_error.h>

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mysql_meaning {
    unsigned number;
    enum simba__sql_verdict verdict;
    int status;
    const char *words;  /* instead of the server's, or NULL */
    const char *advice; /* what to do about it, or NULL */
};

#define MORE_ROOM                                                              \
    "it takes no more connections: raise the limit there, or run fewer "       \
    "processes"

#define READ_ONLY "the server is read-only: a replica, or set so"

static const struct mysql_meaning meanings[] = {
    {ER_LOCK_DEADLOCK, SIMBA__SQL_AGAIN, SIMBA_EUNAVAIL, NULL, NULL},
    {ER_CHECKREAD, SIMBA__SQL_AGAIN, SIMBA_EUNAVAIL, NULL, NULL},
    /* Of what is prepared: the tables have changed while it was prepared anew;
     * or it is not known any more. */
    {ER_NEED_REPREPARE, SIMBA__SQL_AGAIN, SIMBA_EUNAVAIL, NULL, NULL},
    {ER_UNKNOWN_STMT_HANDLER, SIMBA__SQL_AGAIN, SIMBA_EUNAVAIL, NULL, NULL},
    {ER_NO_SUCH_TABLE, SIMBA__SQL_NO_TABLE, SIMBA_ENOTINIT, NULL, NULL},
    {ER_BAD_FIELD_ERROR, SIMBA__SQL_NO_COLUMN, SIMBA_EMISCONFIG, NULL, NULL},
    /* MySQL cannot add a column only if there is none. */
    {ER_DUP_FIELDNAME, SIMBA__SQL_FINE, SIMBA_OK, NULL, NULL},
    {ER_ACCESS_DENIED_ERROR, SIMBA__SQL_REFUSED, SIMBA_EDENIED, NULL, NULL},
    {ER_ACCESS_DENIED_NO_PASSWORD_ERROR, SIMBA__SQL_REFUSED, SIMBA_EDENIED,
     NULL, NULL},
    {ER_DBACCESS_DENIED_ERROR, SIMBA__SQL_REFUSED, SIMBA_EDENIED, NULL,
     SIMBA__SQL_GRANT},
    {ER_TABLEACCESS_DENIED_ERROR, SIMBA__SQL_REFUSED, SIMBA_EDENIED, NULL,
     SIMBA__SQL_GRANT},
    {ER_COLUMNACCESS_DENIED_ERROR, SIMBA__SQL_REFUSED, SIMBA_EDENIED, NULL,
     SIMBA__SQL_GRANT},
    {ER_SPECIFIC_ACCESS_DENIED_ERROR, SIMBA__SQL_REFUSED, SIMBA_EDENIED, NULL,
     SIMBA__SQL_GRANT},
    {ER_HOST_NOT_PRIVILEGED, SIMBA__SQL_REFUSED, SIMBA_EDENIED, NULL, NULL},
    {ER_HOST_IS_BLOCKED, SIMBA__SQL_REFUSED, SIMBA_EDENIED, NULL, NULL},
    {ER_BAD_DB_ERROR, SIMBA__SQL_REFUSED, SIMBA_EMISCONFIG, NULL,
     "create it, or name another in the URL"},
    {ER_NO_DB_ERROR, SIMBA__SQL_REFUSED, SIMBA_EMISCONFIG,
     "the URL names no database", NULL},
    {ER_CON_COUNT_ERROR, SIMBA__SQL_REFUSED, SIMBA_EUNAVAIL, NULL, MORE_ROOM},
    {ER_TOO_MANY_USER_CONNECTIONS, SIMBA__SQL_REFUSED, SIMBA_EUNAVAIL, NULL,
     MORE_ROOM},
    {ER_USER_LIMIT_REACHED, SIMBA__SQL_REFUSED, SIMBA_EUNAVAIL, NULL,
     MORE_ROOM},
    {ER_OPTION_PREVENTS_STATEMENT, SIMBA__SQL_READ_ONLY, SIMBA_EMISCONFIG,
     READ_ONLY, "name the primary"},
    {ER_READ_ONLY_MODE, SIMBA__SQL_READ_ONLY, SIMBA_EMISCONFIG, READ_ONLY,
     "name the primary"},
    {ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION, SIMBA__SQL_READ_ONLY,
     SIMBA_EMISCONFIG, READ_ONLY, "name the primary"},
    {ER_DATA_TOO_LONG, SIMBA__SQL_REFUSED, SIMBA_EMISCONFIG,
     "a column of simba_mutex is too short for this name or id",
     "`simba init --upgrade` widens it"},
    {ER_TRUNCATED_WRONG_VALUE_FOR_FIELD, SIMBA__SQL_REFUSED, SIMBA_EMISCONFIG,
     "the character set of simba_mutex cannot hold this name or id",
     "`simba init --upgrade` changes it"},
    {ER_CANT_AGGREGATE_2COLLATIONS, SIMBA__SQL_REFUSED, SIMBA_EMISCONFIG, NULL,
     "`simba init --upgrade` mends it"},
    {ER_BINLOG_STMT_MODE_AND_ROW_ENGINE, SIMBA__SQL_REFUSED, SIMBA_EMISCONFIG,
     "binlog_format=STATEMENT does not go with READ COMMITTED", "use ROW"},
    {ER_LOCK_WAIT_TIMEOUT, SIMBA__SQL_REFUSED, SIMBA_EUNAVAIL,
     "somebody else keeps the table or the row locked", NULL},
    {ER_STATEMENT_TIMEOUT, SIMBA__SQL_REFUSED, SIMBA_EUNAVAIL,
     "the statement took too long", NULL},
    {CR_SSL_CONNECTION_ERROR, SIMBA__SQL_REFUSED, SIMBA_EMISCONFIG, NULL,
     "tls_ca=FILE says whom to trust, tls=off does without TLS"},
    {CR_AUTH_PLUGIN_CANNOT_LOAD, SIMBA__SQL_REFUSED, SIMBA_EMISCONFIG, NULL,
     "use an account with another plugin"},
    {CR_PLUGIN_NOT_ALLOWED, SIMBA__SQL_REFUSED, SIMBA_EMISCONFIG,
     "the server asks for the password itself", "tls=on sends it by TLS"},
};

static const struct mysql_meaning *find_meaning(unsigned number)
{
    static const struct mysql_meaning unknown = {0, SIMBA__SQL_REFUSED,
                                                 SIMBA_EUNAVAIL, NULL, NULL};

    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
        if (meanings[i].number == number) {
            return &meanings[i];
        }
    }
    return &unknown;
}

/* The library ends what it says about hosts and sockets with a number in
 * brackets, which means something to programs only. */
static const char *cause_of(unsigned number, const char *words, size_t *length)
{
    const char *bracket = strrchr(words, '(');
    long cause = bracket == NULL ? 0 : strtol(bracket + 1, NULL, 10);

    *length = strcspn(words, "\n");
    if (bracket == NULL || bracket < words + 1 ||
        (number != CR_CONNECTION_ERROR && number != CR_CONN_HOST_ERROR &&
         number != CR_SOCKET_CREATE_ERROR && number != CR_UNKNOWN_HOST)) {
        return NULL;
    }
    *length = (size_t)(bracket - words - 1);
    if (cause == 0) { /* it has forgotten */
        return NULL;
    }
    return cause < 0 ? gai_strerror((int)cause) : strerror((int)cause);
}

/* The network may fail during the handshake of TLS as at any other time. */
static bool is_cut_short(unsigned number, const char *words)
{
    return number == CR_SSL_CONNECTION_ERROR &&
           (strstr(words, "unexpected eof") != NULL ||
            strstr(words, strerror(ECONNRESET)) != NULL ||
            strstr(words, strerror(EPIPE)) != NULL);
}

/* "error 1049: Unknown database 'x'; create it". Of the server's words the
 * first line. */
static int say(const struct simba__my_session *session,
               unsigned number,
               const char *words,
               simba_error *error)
{
    const struct simba__my *my = (const struct simba__my *)session->base.self;
    const struct mysql_meaning *meaning =
        find_meaning(is_cut_short(number, words) ? CR_SERVER_LOST : number);
    const char *advice = meaning->advice;
    const char *cause;
    size_t length;
    char label[24] = "";

    /* A server does not say that it would have let us in with a password, or
     * with TLS. */
    if (number == ER_ACCESS_DENIED_ERROR &&
        strstr(words, "(using password: NO)") != NULL) {
        advice = "a password goes in the URL, MYSQL_PWD or an option file";
    } else if (number == ER_ACCESS_DENIED_ERROR &&
               my->settings.tls.use == SIMBA__TLS_OFF) {
        advice = "if it asks for TLS, say tls=on";
    }
    words = meaning->words == NULL ? words : meaning->words;
    cause = cause_of(number, words, &length);
    if (number != 0) {
        snprintf(label, sizeof label, "error %u: ", number);
    }
    return simba_error_set(
        error, meaning->status, (int)number, "%s: %s%.*s%s%s%s%s",
        session->base.self->shown, label, (int)length, words,
        cause == NULL ? "" : ": ", cause == NULL ? "" : cause,
        advice == NULL ? "" : "; ", advice == NULL ? "" : advice);
}

void simba__my_classify(const struct simba__my_session *session,
                        struct simba__sql_result *result)
{
    const struct simba__sql_request *request = session->base.request;
    unsigned failure = session->failure;

    result->verdict = find_meaning(failure)->verdict;
    result->status = say(session, failure, session->words, &result->error);
    if (request != NULL && request->was_created &&
        failure == ER_LOCK_WAIT_TIMEOUT) {
        /* Many who make the tables at once wait for each other, and for longer
         * than is good for any other lock. */
        result->verdict = SIMBA__SQL_AGAIN;
    }
    if (request != NULL && failure == ER_LOCK_WAIT_TIMEOUT &&
        simba__sql_is_apply(request->statement)) {
        if (simba__sql_is_one_of_many(request)) {
            result->verdict = SIMBA__SQL_AGAIN; /* it has not waited for it */
        } else {
            (void)simba__sql_lose_race(request);
        }
    }
    if (request != NULL && request->is_written &&
        (failure == ER_QUERY_INTERRUPTED || failure == ER_STATEMENT_TIMEOUT)) {
        /* S8: a statement that is killed, or whose time is up, just after its
         * commit is answered with an error all the same. */
        result->status = SIMBA_EUNKNOWN;
    }
}

bool simba__my_is_lost(unsigned number)
{
    return number == CR_SERVER_GONE_ERROR || number == CR_SERVER_LOST ||
           number == CR_COMMANDS_OUT_OF_SYNC || number == CR_OUT_OF_MEMORY ||
           number == CR_MALFORMED_PACKET || number == ER_SERVER_SHUTDOWN ||
           number == ER_CONNECTION_KILLED || number == ER_NET_READ_ERROR ||
           number == ER_NET_ERROR_ON_WRITE;
}

void simba__my_give_up(struct simba__my_session *session)
{
    const char *words = mysql_error(&session->mysql);
    simba_error error;

    if (simba__sql_is_too_much(&session->base, session->base.received)) {
        simba__sql_flooded(&session->base);
        return;
    }
    say(session, mysql_errno(&session->mysql),
        words[0] == '\0' ? "the server hung up" : words, &error);
    simba__sql_lost(&session->base, error.code, &error);
}
