#include "resource.h"

#include <simba.h>

#include <mysql.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static MYSQL *dial(void)
{
    MYSQL *mysql = mysql_init(NULL);

    if (mysql_real_connect(mysql, "localhost", "root", NULL, "simba", 0,
                           getenv("SIMBA_SERVER_SOCKET"), 0) == NULL) {
        fputs(mysql_error(mysql), stderr);
        abort();
    }
    return mysql;
}

static void tell(MYSQL *mysql, const char *text)
{
    if (mysql_query(mysql, text) != 0) {
        fprintf(stderr, "%s: %s\n", text, mysql_error(mysql));
        abort();
    }
}

static char resource[] = "data";

static MYSQL_BIND number(uint64_t *token)
{
    return (MYSQL_BIND){
        .buffer_type = MYSQL_TYPE_LONGLONG, .buffer = token, .is_unsigned = 1};
}

static MYSQL_BIND name(void)
{
    return (MYSQL_BIND){.buffer_type = MYSQL_TYPE_STRING,
                        .buffer = resource,
                        .buffer_length = sizeof resource - 1};
}

/* One of the guard's statements, with two parameters; to be closed. */
static MYSQL_STMT *execute(MYSQL *mysql,
                           enum simba_guard_statement statement,
                           MYSQL_BIND *parameters)
{
    const char *text = simba_guard_sql(SIMBA_GUARD_MYSQL, statement);
    MYSQL_STMT *prepared = mysql_stmt_init(mysql);

    if (mysql_stmt_prepare(prepared, text, strlen(text)) != 0 ||
        mysql_stmt_bind_param(prepared, parameters) != 0 ||
        mysql_stmt_execute(prepared) != 0) {
        fprintf(stderr, "%s: %s\n", text, mysql_stmt_error(prepared));
        abort();
    }
    return prepared;
}

static bool passes(MYSQL *mysql, uint64_t token)
{
    MYSQL_BIND raise_values[] = {name(), number(&token)};
    MYSQL_BIND ask_values[] = {number(&token), name()};
    uint64_t answer = 0;
    MYSQL_BIND result = number(&answer);
    MYSQL_STMT *ask;

    mysql_stmt_close(execute(mysql, SIMBA_GUARD_RAISE, raise_values));
    ask = execute(mysql, SIMBA_GUARD_ASK, ask_values);
    if (mysql_stmt_bind_result(ask, &result) != 0 ||
        mysql_stmt_fetch(ask) != 0) {
        abort();
    }
    mysql_stmt_close(ask);
    return answer == 1;
}

static int write_once(uint64_t token, const char *text)
{
    MYSQL *mysql = dial();
    char update[128];
    bool is_fresh;

    snprintf(update, sizeof update, "REPLACE INTO data VALUES (1, '%s')", text);
    tell(mysql, simba_guard_sql(SIMBA_GUARD_MYSQL, SIMBA_GUARD_CREATE));
    tell(mysql, "CREATE TABLE IF NOT EXISTS data (id int PRIMARY KEY, t text)");
    tell(mysql, "START TRANSACTION");
    is_fresh = passes(mysql, token);
    if (is_fresh) {
        tell(mysql, update);
    }
    tell(mysql, is_fresh ? "COMMIT" : "ROLLBACK");
    mysql_close(mysql);
    return is_fresh ? SIMBA_OK : SIMBA_ELOST;
}

static void read_back(char *text, size_t room)
{
    MYSQL *mysql = dial();
    MYSQL_RES *result;
    MYSQL_ROW row;

    tell(mysql, "SELECT t FROM data");
    result = mysql_store_result(mysql);
    row = mysql_fetch_row(result);
    snprintf(text, room, "%s", row == NULL ? "" : row[0]);
    mysql_free_result(result);
    mysql_close(mysql);
}

const struct way ways[] = {
    {"test_guard_mysql__refuses_a_paused_owner", write_once, read_back},
    {NULL, NULL, NULL},
};
