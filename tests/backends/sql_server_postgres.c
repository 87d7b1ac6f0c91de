/* What tests do with a PostgreSQL server, past the store. */
#define _GNU_SOURCE
#include "sql_server.h"

#include <libpq-fe.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static PGconn *holder;

static PGconn *dial(void)
{
    PGconn *conn = PQconnectdb(getenv("SIMBA_SERVER_URL"));

    if (PQstatus(conn) != CONNECTION_OK) {
        fail_msg("%s", PQerrorMessage(conn));
    }
    PQclear(PQexec(conn, "SET default_transaction_read_only = off"));
    return conn;
}

static int64_t execute(PGconn *conn, const char *text)
{
    PGresult *result = PQexec(conn, text);
    int64_t value = -1;

    if (PQresultStatus(result) != PGRES_TUPLES_OK &&
        PQresultStatus(result) != PGRES_COMMAND_OK) {
        fail_msg("%s: %s", PQerrorMessage(conn), text);
    }
    if (PQntuples(result) > 0) {
        value = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    }
    PQclear(result);
    return value;
}

static const char *server_format(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

static const char *server_format(const char *format, ...)
{
    static char text[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return text;
}

int64_t server_sql(const char *format, ...)
{
    PGconn *conn = dial();
    char text[1024];
    va_list arguments;
    int64_t value;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    value = execute(conn, text);
    PQfinish(conn);
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
    execute(holder, "BEGIN");
    execute(holder, text);
}

void server_let_go(void)
{
    PQfinish(holder);
    holder = NULL;
}

void server_commit(void)
{
    execute(holder, "COMMIT");
    server_let_go();
}

void server_kill_sessions(void)
{
    server_sql("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
               "WHERE pid <> pg_backend_pid() AND backend_type = 'client "
               "backend'");
}

const char *server_url(const char *user, const char *database)
{
    static char url[512];

    snprintf(url, sizeof url, "postgres://%s@/%s?host=%s", user, database,
             getenv("SIMBA_SERVER_DIR"));
    return url;
}

void server_make_account(const char *user, const char *password)
{
    server_sql("DROP ROLE IF EXISTS %s", user);
    server_sql("CREATE ROLE %s LOGIN PASSWORD '%s'", user, password);
}

void server_set_read_only(bool is_on)
{
    server_sql("ALTER SYSTEM SET default_transaction_read_only = %s",
               is_on ? "on" : "off");
    server_sql("SELECT pg_reload_conf()");
    while (server_sql("SELECT (reset_val = 'on')::int FROM pg_settings WHERE "
                      "name = 'default_transaction_read_only'") != is_on) {
    }
}

int64_t server_moment(void)
{
    return server_sql("SELECT floor(extract(epoch FROM clock_timestamp()) * "
                      "1000000)::bigint");
}

int64_t server_count_since(int64_t moment)
{
    return server_sql("SELECT count(*) FROM pg_stat_activity "
                      "WHERE backend_type = 'client backend' "
                      "AND application_name = 'simba' "
                      "AND extract(epoch FROM backend_start) * 1000000 <= %lld",
                      (long long)moment);
}

void server_set_impatient(bool is_on)
{
    server_sql("ALTER DATABASE postgres SET idle_session_timeout = %d",
               is_on ? 1000 : 0);
}

int64_t server_count_bells(void)
{
    return server_sql("SELECT count(*) FROM pg_locks WHERE locktype = "
                      "'advisory' AND mode = 'ExclusiveLock'");
}

int64_t server_count_sessions(void)
{
    return server_sql("SELECT count(*) FROM pg_stat_activity "
                      "WHERE backend_type = 'client backend' "
                      "AND application_name = 'simba'");
}

int64_t server_count_snapshots(void)
{
    return server_sql("SELECT count(*) FROM pg_stat_activity "
                      "WHERE (backend_xmin IS NOT NULL "
                      "OR state LIKE 'idle in%%') AND pid <> pg_backend_pid() "
                      "AND backend_type = 'client backend'");
}

void server_set_time_zone(bool is_on)
{
    server_sql(is_on ? "ALTER DATABASE postgres SET timezone = "
                       "'America/New_York'"
                     : "ALTER DATABASE postgres RESET timezone");
}

void server_log_statements(void)
{
    server_sql("ALTER SYSTEM SET log_statement = 'all'");
    server_sql("SELECT pg_reload_conf()");
}

/* Ours are prepared or have parameters; those of tests do not. A statement goes
 * over several lines. */
int64_t server_count_asks(void)
{
    char path[512], line[4096];
    bool is_open = false;
    int64_t count = 0;
    FILE *log;

    snprintf(path, sizeof path, "%s/log", getenv("SIMBA_SERVER_DIR"));
    log = fopen(path, "r");
    assert_non_null(log);
    while (fgets(line, sizeof line, log) != NULL) {
        is_open |= strstr(line, "LOG:  execute") != NULL;
        if (is_open && (strstr(line, "simba_line") != NULL ||
                        strstr(line, "tombs_until") != NULL)) {
            is_open = false;
            count++;
        }
    }
    fclose(log);
    return count;
}

/* On version 15 a role may make tables nowhere. */
void server_make_user_of_tables(const char *user, const char *password)
{
    server_sql("DROP ROLE IF EXISTS %s", user);
    server_sql("CREATE ROLE %s LOGIN PASSWORD '%s'", user, password);
    server_sql("REVOKE CREATE ON SCHEMA public FROM public");
}

void server_make_reader(const char *user, const char *password)
{
    if (server_sql("SELECT count(*) FROM pg_roles WHERE rolname = '%s'",
                   user) == 0) {
        server_make_user_of_tables(user, password);
    }
    server_sql("GRANT SELECT ON ALL TABLES IN SCHEMA public TO %s", user);
}

void server_run(const char *script)
{
    PGconn *conn = dial();

    execute(conn, script);
    PQfinish(conn);
}

/* The lock falls to who waits for it. */
void server_haunt(const char *process)
{
    PGresult *result;

    holder = dial();
    PQclear(PQexec(holder, "BEGIN"));
    assert_int_equal(
        PQsendQuery(holder, server_format("SELECT pg_advisory_lock(('x' || "
                                          "left('%s', 16))::bit(64)::bigint)",
                                          process)),
        1);
    while (server_sql("SELECT count(*) FROM pg_locks WHERE locktype = "
                      "'advisory' AND NOT granted") == 0) {
    }
    server_sql("SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE "
               "locktype = 'advisory' AND granted AND mode = 'ExclusiveLock' "
               "AND (classid::bigint << 32 | objid::bigint) = "
               "('x' || left('%s', 16))::bit(64)::bigint",
               process);
    do {
        result = PQgetResult(holder);
        PQclear(result);
    } while (result != NULL);
}

bool server_try(const char *text)
{
    PGconn *conn = PQconnectdb(getenv("SIMBA_SERVER_URL"));
    PGresult *result = PQexec(conn, text);
    bool is_good = PQresultStatus(result) == PGRES_TUPLES_OK ||
                   PQresultStatus(result) == PGRES_COMMAND_OK;

    PQclear(result);
    PQfinish(conn);
    return is_good;
}

void server_control(const char *what)
{
    char command[512];

    snprintf(command, sizeof command, "'%s' %s", getenv("SIMBA_SERVER_CONTROL"),
             what);
    assert_int_equal(system(command), 0);
}
