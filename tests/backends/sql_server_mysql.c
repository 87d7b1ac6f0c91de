/* What tests do with a MariaDB server, past the store. */
#define _GNU_SOURCE
#include "sql_server.h"

#include <mysql.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static MYSQL *holder;

static MYSQL *dial(void)
{
    MYSQL *mysql = mysql_init(NULL);

    if (mysql_real_connect(mysql, "localhost", "root", NULL, "simba", 0,
                           getenv("SIMBA_SERVER_SOCKET"), 0) == NULL) {
        fail_msg("%s", mysql_error(mysql));
    }
    return mysql;
}

static int64_t execute(MYSQL *mysql, const char *text)
{
    int64_t value = -1;
    MYSQL_RES *result;
    MYSQL_ROW row;

    if (mysql_query(mysql, text) != 0) {
        fail_msg("%s: %s", mysql_error(mysql), text);
    }
    result = mysql_store_result(mysql);
    if (result != NULL && (row = mysql_fetch_row(result)) != NULL &&
        row[0] != NULL) {
        value = strtoll(row[0], NULL, 10);
    }
    mysql_free_result(result);
    return value;
}

int64_t server_sql(const char *format, ...)
{
    MYSQL *mysql = dial();
    char text[1024];
    va_list arguments;
    int64_t value;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    value = execute(mysql, text);
    mysql_close(mysql);
    return value;
}

void server_hold(const char *format, ...)
{
    char text[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    holder = dial();
    execute(holder, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
    execute(holder, "START TRANSACTION");
    execute(holder, text);
}

void server_let_go(void)
{
    if (holder != NULL) {
        mysql_close(holder);
        holder = NULL;
    }
}

void server_commit(void)
{
    execute(holder, "COMMIT");
    server_let_go();
}

void server_kill_sessions(void)
{
    server_sql("KILL USER simba@localhost");
}

const char *server_url(const char *user, const char *database)
{
    static char url[512];

    snprintf(url, sizeof url, "mysql://%s@localhost/%s?socket=%s", user,
             database, getenv("SIMBA_SERVER_SOCKET"));
    return url;
}

void server_make_account(const char *user, const char *password)
{
    server_sql("CREATE OR REPLACE USER %s@localhost IDENTIFIED BY '%s'", user,
               password);
    server_sql("GRANT CREATE ON simba.nothing TO %s@localhost", user);
}

void server_set_read_only(bool is_on)
{
    server_sql("SET GLOBAL read_only = %d", is_on);
}

int64_t server_moment(void)
{
    return server_sql("SELECT max(id) FROM information_schema.processlist");
}

int64_t server_count_since(int64_t moment)
{
    return server_sql("SELECT count(*) FROM information_schema.processlist "
                      "WHERE user = 'simba' AND id <= %lld",
                      (long long)moment);
}

void server_set_impatient(bool is_on)
{
    server_sql("SET GLOBAL wait_timeout = %d", is_on ? 1 : 28800);
}

int64_t server_count_bells(void)
{
    return server_sql("SELECT count(*) FROM information_schema.processlist "
                      "WHERE info LIKE '%%simba_stop_%%' AND info NOT LIKE "
                      "'%%processlist%%'");
}

int64_t server_count_sessions(void)
{
    return server_sql("SELECT count(*) FROM information_schema.processlist "
                      "WHERE user = 'simba'");
}

/* Of those that wait for a lock: others come and go. */
int64_t server_count_snapshots(void)
{
    return server_sql("SELECT count(*) FROM information_schema.innodb_trx, "
                      "information_schema.processlist "
                      "WHERE trx_mysql_thread_id = id "
                      "AND state IN ('User lock', 'User sleep')");
}

/* Names of zones are known to servers that were told them only. */
void server_set_time_zone(bool is_on)
{
    char command[512];

    snprintf(command, sizeof command,
             "mariadb-tzinfo-to-sql /usr/share/zoneinfo/America/New_York "
             "America/New_York 2>/dev/null "
             "| mariadb --no-defaults -S '%s' -u root mysql",
             getenv("SIMBA_SERVER_SOCKET"));
    if (is_on && server_sql("SELECT count(*) FROM mysql.time_zone_name") == 0) {
        assert_int_equal(system(command), 0);
    }
    server_sql("SET GLOBAL time_zone = '%s'",
               is_on ? "America/New_York" : "SYSTEM");
}

void server_log_statements(void)
{
    server_sql("SET GLOBAL log_output = 'TABLE'");
    server_sql("SET GLOBAL general_log = 1");
}

int64_t server_count_asks(void)
{
    return server_sql("SELECT count(*) FROM mysql.general_log "
                      "WHERE user_host LIKE 'simba%%' "
                      "AND command_type IN ('Query', 'Execute') "
                      "AND (argument LIKE '%%simba_line%%' "
                      "OR argument LIKE '%%tombs_until%%')");
}

void server_make_user_of_tables(const char *user, const char *password)
{
    server_sql("CREATE OR REPLACE USER %s@localhost IDENTIFIED BY '%s'", user,
               password);
    server_sql("GRANT SELECT, INSERT, UPDATE, DELETE ON simba.* "
               "TO %s@localhost",
               user);
}

void server_make_reader(const char *user, const char *password)
{
    server_sql("CREATE USER IF NOT EXISTS %s@localhost IDENTIFIED BY '%s'",
               user, password);
    server_sql("GRANT SELECT ON simba.* TO %s@localhost", user);
}

void server_run(const char *script)
{
    MYSQL *mysql = dial();
    int rc;

    assert_int_equal(
        mysql_set_server_option(mysql, MYSQL_OPTION_MULTI_STATEMENTS_ON), 0);
    if (mysql_query(mysql, script) != 0) {
        fail_msg("%s", mysql_error(mysql));
    }
    while ((rc = mysql_next_result(mysql)) == 0) {
    }
    if (rc > 0) {
        fail_msg("%s", mysql_error(mysql));
    }
    mysql_close(mysql);
}

/* The lock falls to who waits for it. */
void server_haunt(const char *process)
{
    int64_t bell = server_sql("SELECT is_used_lock('simba_%s')", process);
    char text[128];

    holder = dial();
    snprintf(text, sizeof text, "SELECT get_lock('simba_%s', 20)", process);
    assert_int_equal(mysql_send_query(holder, text, strlen(text)), 0);
    while (server_sql("SELECT count(*) FROM information_schema.processlist "
                      "WHERE state = 'User lock' AND id = %lu",
                      mysql_thread_id(holder)) == 0) {
    }
    server_sql("KILL CONNECTION %lld", (long long)bell);
    assert_int_equal(mysql_read_query_result(holder), 0);
    mysql_free_result(mysql_store_result(holder));
}

static void await_state(int64_t session, const char *state)
{
    while (server_sql("SELECT count(*) FROM information_schema.processlist "
                      "WHERE state = '%s' AND id = %lld",
                      state, (long long)session) == 0) {
    }
}

/* Send it, and wait until the server is waiting with it. */
static void hold_up(const char *lock, const char *seconds)
{
    char text[128];

    snprintf(text, sizeof text, "SELECT get_lock('%s', %s)", lock, seconds);
    assert_int_equal(mysql_send_query(holder, text, strlen(text)), 0);
    await_state((int64_t)mysql_thread_id(holder), "User lock");
}

/* The bell sleeps when nobody has the lock it waits for; once it is woken, it
 * waits for it again, and it is ours. */
void server_cross(const char *process)
{
    int64_t bell = server_sql("SELECT is_used_lock('simba_%s')", process);
    char own[64], stop[64];

    snprintf(own, sizeof own, "simba_%s", process);
    snprintf(stop, sizeof stop, "simba_stop_%s", process);
    holder = dial();
    hold_up(stop, "60");
    server_sql(
        "KILL CONNECTION %lld",
        (long long)server_sql("SELECT is_used_lock('simba_stop_%s')", process));
    assert_int_equal(mysql_read_query_result(holder), 0);
    mysql_free_result(mysql_store_result(holder));
    await_state(bell, "User sleep");
    hold_up(own, "0.5");
    server_sql("KILL QUERY %lld", (long long)bell);
    assert_int_equal(mysql_read_query_result(holder), 0);
    mysql_free_result(mysql_store_result(holder));
}

bool server_try(const char *text)
{
    MYSQL *mysql = dial();
    bool is_good = mysql_query(mysql, text) == 0;

    mysql_close(mysql);
    return is_good;
}

void server_control(const char *what)
{
    char command[512];

    snprintf(command, sizeof command, "'%s' %s", getenv("SIMBA_SERVER_CONTROL"),
             what);
    assert_int_equal(system(command), 0);
}
