/* The least that a MySQL or MariaDB server can do for a mutex, with its client
 * library alone: what `simba bench` compares the store with. */
#define _GNU_SOURCE
#include "backends/mysql/mysql.h"

#include "backends/mysql/schema.h"
#include "backends/mysql/statements.h"
#include "util/hash.h"

#include <simba/sys/bench.h>

#include <mysqld_error.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ACQUIRE, RELEASE, STATEMENTS };

/* The least statements that take a mutex and free it. */
static const char *const texts[STATEMENTS] = {
    [ACQUIRE] =
        "UPDATE simba_mutex "
        "SET acquired_at = cast(unix_timestamp(now(3)) * 1000 AS unsigned), "
        "ttl_at = cast(unix_timestamp(now(3)) * 1000 AS unsigned) + 10000, "
        "transition_at = "
        "cast(unix_timestamp(now(3)) * 1000 AS unsigned) + 16000, "
        "owner_id = 'floor', version = (version + 1) % 2147483647 "
        "WHERE mutex = ?",
    [RELEASE] = "UPDATE simba_mutex "
                "SET acquired_at = 0, ttl_at = 0, transition_at = 0, "
                "owner_id = '', version = (version + 1) % 2147483647 "
                "WHERE mutex = ?",
};

struct simba_floor {
    struct simba__my_settings settings;
    MYSQL *mysql;   /* for statements */
    MYSQL *sleeper; /* waits there, when armed */
    MYSQL_STMT *statements[STATEMENTS];
    char name[32]; /* of its record and its lock */
    unsigned long length;
    unsigned long sleeper_id; /* of who is armed; 0: not known yet */
};

static int fail(MYSQL *mysql, simba_error *error)
{
    return simba_error_set(error, SIMBA_EUNAVAIL, (int)mysql_errno(mysql),
                           "mysql: %s", mysql_error(mysql));
}

static MYSQL *connect_to(const struct simba__my_settings *settings)
{
    MYSQL *mysql = mysql_init(NULL);

    mysql_options(mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    mysql_options(mysql, MYSQL_READ_DEFAULT_GROUP, "simba");
    mysql_real_connect(mysql, settings->host, settings->user,
                       settings->password != NULL ? settings->password
                                                  : secure_getenv("MYSQL_PWD"),
                       settings->database, settings->port, settings->socket,
                       CLIENT_MULTI_STATEMENTS);
    return mysql;
}

/* Runs statements and drops what they answer. */
static int run(MYSQL *mysql, const char *text, simba_error *error)
{
    int rc = mysql_query(mysql, text);

    while (rc == 0) {
        mysql_free_result(mysql_store_result(mysql));
        rc = mysql_next_result(mysql);
    }
    return rc > 0 ? fail(mysql, error) : SIMBA_OK;
}

/* --- opening ------------------------------------------------------------- */

static int prepare(struct simba_floor *floor, simba_error *error)
{
    for (int i = 0; i < STATEMENTS; i++) {
        MYSQL_BIND bind = {.buffer_type = MYSQL_TYPE_STRING,
                           .buffer = floor->name,
                           .buffer_length = floor->length,
                           .length = &floor->length};

        floor->statements[i] = mysql_stmt_init(floor->mysql);
        if (mysql_stmt_prepare(floor->statements[i], texts[i],
                               strlen(texts[i])) != 0 ||
            mysql_stmt_bind_param(floor->statements[i], &bind) != 0) {
            return fail(floor->mysql, error);
        }
    }
    return SIMBA_OK;
}

/* A record to play with. */
static int make_record(struct simba_floor *floor, simba_error *error)
{
    char text[256];
    int rc = run(floor->mysql, SIMBA__MY_SCHEMA, error);

    snprintf(text, sizeof text,
             "INSERT IGNORE INTO simba_mutex (mutex, acquired_at, ttl_at, "
             "transition_at, owner_id, version) VALUES "
             "('%s', 0, 0, 0, '', 0)",
             floor->name);
    return rc == SIMBA_OK ? run(floor->mysql, text, error) : rc;
}

/* All floors of a mutex use one record and one lock: not the mutex's own. */
static void name_floor(struct simba_floor *floor, const char *mutex)
{
    snprintf(floor->name, sizeof floor->name, "floor_%016" PRIx64,
             simba__fnv64(mutex, strlen(mutex)));
    floor->length = strlen(floor->name);
}

static void close_floor(simba_floor *floor)
{
    for (int i = 0; i < STATEMENTS; i++) {
        if (floor->statements[i] != NULL) {
            mysql_stmt_close(floor->statements[i]);
        }
    }
    if (floor->mysql != NULL) {
        mysql_close(floor->mysql);
    }
    if (floor->sleeper != NULL) {
        mysql_close(floor->sleeper);
    }
    simba__my_settings_fini(&floor->settings);
}

static int open_floor(simba_floor *floor,
                      const char *url,
                      const char *mutex,
                      simba_error *error)
{
    int rc =
        simba__my_settings_read(&floor->settings, strchr(url, ':') + 1, error);

    name_floor(floor, mutex);
    if (rc != SIMBA_OK) {
        return rc;
    }
    floor->mysql = connect_to(&floor->settings);
    if (mysql_errno(floor->mysql) != 0) {
        return fail(floor->mysql, error);
    }
    rc = run(floor->mysql, SIMBA__MY_SESSION_SETUP, error);
    if (rc == SIMBA_OK) {
        rc = make_record(floor, error);
    }
    return rc == SIMBA_OK ? prepare(floor, error) : rc;
}

/* --- steps --------------------------------------------------------------- */

static int execute(struct simba_floor *floor, int which, simba_error *error)
{
    return mysql_stmt_execute(floor->statements[which]) == 0
               ? SIMBA_OK
               : fail(floor->mysql, error);
}

static int pair(struct simba_floor *floor, simba_error *error)
{
    int rc = execute(floor, ACQUIRE, error);

    return rc == SIMBA_OK ? execute(floor, RELEASE, error) : rc;
}

static int arm(struct simba_floor *floor, simba_error *error)
{
    static const char sleep[] = "SELECT sleep(2)";
    char text[96];
    int rc = SIMBA_OK;

    if (floor->sleeper == NULL) {
        floor->sleeper = connect_to(&floor->settings);
        snprintf(text, sizeof text, "SELECT get_lock('%s', 0)", floor->name);
        rc = run(floor->sleeper, text, error);
    }
    if (rc == SIMBA_OK &&
        mysql_send_query(floor->sleeper, sleep, sizeof sleep - 1) != 0) {
        rc = fail(floor->sleeper, error);
    }
    return rc;
}

static int find_sleeper(struct simba_floor *floor, simba_error *error)
{
    char text[96];
    MYSQL_RES *result;
    MYSQL_ROW row;

    snprintf(text, sizeof text, "SELECT is_used_lock('%s')", floor->name);
    if (mysql_query(floor->mysql, text) != 0 ||
        (result = mysql_store_result(floor->mysql)) == NULL) {
        return fail(floor->mysql, error);
    }
    row = mysql_fetch_row(result);
    floor->sleeper_id =
        row == NULL || row[0] == NULL ? 0 : strtoul(row[0], NULL, 10);
    mysql_free_result(result);
    return SIMBA_OK;
}

static int notify(struct simba_floor *floor, simba_error *error)
{
    char text[64];
    int rc = floor->sleeper_id == 0 ? find_sleeper(floor, error) : SIMBA_OK;

    if (rc == SIMBA_OK) {
        rc = execute(floor, RELEASE, error);
    }
    if (rc != SIMBA_OK || floor->sleeper_id == 0) {
        return rc;
    }
    snprintf(text, sizeof text, "KILL QUERY %lu", floor->sleeper_id);
    return run(floor->mysql, text, error);
}

/* Woken by the end of its statement, however it ends. */
static int await(struct simba_floor *floor, simba_error *error)
{
    if (mysql_read_query_result(floor->sleeper) == 0) {
        mysql_free_result(mysql_store_result(floor->sleeper));
    } else if (mysql_errno(floor->sleeper) != ER_QUERY_INTERRUPTED) {
        return fail(floor->sleeper, error);
    }
    return execute(floor, ACQUIRE, error);
}

const simba_floor_ops simba_floor_module = {SIMBA_FLOOR_ABI,
                                            sizeof(simba_floor),
                                            open_floor,
                                            close_floor,
                                            {pair, arm, notify, await}};
