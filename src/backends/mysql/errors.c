/* What the words of MySQL and MariaDB mean to us. */
#define _GNU_SOURCE
#include "backends/mysql/mysql.h"

#include <errmsg.h>
#include <mysqld_error.h>

#include <stdio.h>
#include <string.h>

struct meaning {
    unsigned number;
    enum simba__sql_verdict verdict;
    int status;
    const char *words; /* instead of the server's, or NULL */
};

static const struct meaning meanings[] = {
    {ER_LOCK_DEADLOCK, SIMBA__SQL_AGAIN, SIMBA_EUNAVAIL, NULL},
    {ER_CHECKREAD, SIMBA__SQL_AGAIN, SIMBA_EUNAVAIL, NULL},
    {ER_NO_SUCH_TABLE, SIMBA__SQL_NO_TABLE, SIMBA_ENOTINIT, NULL},
    {ER_BAD_FIELD_ERROR, SIMBA__SQL_NO_COLUMN, SIMBA_EMISCONFIG, NULL},
    /* MySQL cannot add a column only if there is none. */
    {ER_DUP_FIELDNAME, SIMBA__SQL_FINE, SIMBA_OK, NULL},
    {ER_ACCESS_DENIED_ERROR, SIMBA__SQL_REFUSED, SIMBA_EDENIED, NULL},
    {ER_ACCESS_DENIED_NO_PASSWORD_ERROR, SIMBA__SQL_REFUSED, SIMBA_EDENIED,
     NULL},
    {ER_DBACCESS_DENIED_ERROR, SIMBA__SQL_REFUSED, SIMBA_EDENIED, NULL},
    {ER_TABLEACCESS_DENIED_ERROR, SIMBA__SQL_REFUSED, SIMBA_EDENIED, NULL},
    {ER_COLUMNACCESS_DENIED_ERROR, SIMBA__SQL_REFUSED, SIMBA_EDENIED, NULL},
    {ER_SPECIFIC_ACCESS_DENIED_ERROR, SIMBA__SQL_REFUSED, SIMBA_EDENIED, NULL},
    {ER_HOST_NOT_PRIVILEGED, SIMBA__SQL_REFUSED, SIMBA_EDENIED, NULL},
    {ER_BAD_DB_ERROR, SIMBA__SQL_REFUSED, SIMBA_EMISCONFIG, NULL},
    {ER_NO_DB_ERROR, SIMBA__SQL_REFUSED, SIMBA_EMISCONFIG,
     "the URL names no database"},
    {ER_OPTION_PREVENTS_STATEMENT, SIMBA__SQL_REFUSED, SIMBA_EMISCONFIG,
     "the server is read-only: a replica, or set so"},
    {ER_DATA_TOO_LONG, SIMBA__SQL_REFUSED, SIMBA_EMISCONFIG,
     "a column of simba_mutex is too short for this name or id"},
    {ER_TRUNCATED_WRONG_VALUE_FOR_FIELD, SIMBA__SQL_REFUSED, SIMBA_EMISCONFIG,
     "the character set of simba_mutex cannot hold this name or id"},
    {ER_CANT_AGGREGATE_2COLLATIONS, SIMBA__SQL_REFUSED, SIMBA_EMISCONFIG, NULL},
    {ER_BINLOG_STMT_MODE_AND_ROW_ENGINE, SIMBA__SQL_REFUSED, SIMBA_EMISCONFIG,
     "binlog_format=STATEMENT does not go with READ COMMITTED: use ROW"},
    {ER_LOCK_WAIT_TIMEOUT, SIMBA__SQL_REFUSED, SIMBA_EUNAVAIL,
     "somebody else keeps the table or the row locked"},
    {ER_STATEMENT_TIMEOUT, SIMBA__SQL_REFUSED, SIMBA_EUNAVAIL,
     "the statement took too long"},
    {CR_SSL_CONNECTION_ERROR, SIMBA__SQL_REFUSED, SIMBA_EMISCONFIG, NULL},
};

static const struct meaning *find_meaning(unsigned number)
{
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
        if (meanings[i].number == number) {
            return &meanings[i];
        }
    }
    return NULL;
}

/* The server's words for a missing password or a column name are as good as
 * ours; they are cut at the end of their first line. */
static int say(const struct simba__my_session *session,
               unsigned number,
               const char *words,
               simba_error *error)
{
    const struct meaning *meaning = find_meaning(number);
    bool is_about_tls = number == CR_SSL_CONNECTION_ERROR;

    if (meaning != NULL && meaning->words != NULL) {
        words = meaning->words;
    }
    return simba_error_set(
        error, meaning == NULL ? SIMBA_EUNAVAIL : meaning->status, (int)number,
        "%s: %.*s%s", session->base.self->shown, (int)strcspn(words, "\n"),
        words,
        is_about_tls ? "; TLS is verified unless the URL says tls=off" : "");
}

/* S8: a statement that is killed, or whose time is up, just after its commit is
 * answered with an error all the same. */
static bool is_ambiguous(const struct simba__my_session *session)
{
    return session->base.turn != NULL && session->base.turn->is_written &&
           (session->failure == ER_QUERY_INTERRUPTED ||
            session->failure == ER_STATEMENT_TIMEOUT);
}

void simba__my_judge(const struct simba__my_session *session,
                     struct simba__sql_answer *answer)
{
    const struct meaning *meaning = find_meaning(session->failure);

    answer->verdict = meaning == NULL ? SIMBA__SQL_REFUSED : meaning->verdict;
    answer->status =
        say(session, session->failure, session->words, &answer->error);
    if (is_ambiguous(session)) {
        answer->status = SIMBA_EUNKNOWN;
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

int simba__my_explain(const struct simba__my_session *session,
                      simba_error *error)
{
    const char *words = mysql_error((MYSQL *)(uintptr_t)&session->mysql);

    return say(session, mysql_errno((MYSQL *)(uintptr_t)&session->mysql),
               words[0] == '\0' ? "the server hung up" : words, error);
}
