/* The least that a PostgreSQL server can do for a mutex, with libpq alone: what
 * `simba bench` compares the store with. */
#define _GNU_SOURCE
#include "backends/postgres/postgres.h"

#include "backends/postgres/schema.h"
#include "backends/postgres/statements.h"
#include "util/hash.h"

#include <simba/sys/bench.h>

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOW "floor(extract(epoch FROM clock_timestamp()) * 1000)"

/* The least statements that take a mutex, $1, and free it. */
#define ACQUIRE                                                                \
    "UPDATE simba_mutex SET acquired_at = " NOW ", ttl_at = " NOW              \
    " + 10000, transition_at = " NOW " + 16000, owner_id = 'floor', "          \
    "version = (version + 1) % 2147483647 WHERE mutex = $1 RETURNING version"
#define RELEASE                                                                \
    "UPDATE simba_mutex SET acquired_at = 0, ttl_at = 0, transition_at = 0, "  \
    "owner_id = '', version = (version + 1) % 2147483647 WHERE mutex = $1"

struct simba_floor {
    PGconn *conn;
    char name[32]; /* of its record and its channel */
};

static int fail(const struct simba_floor *floor, simba_error *error)
{
    const char *words = PQerrorMessage(floor->conn);

    return simba_error_set(error, SIMBA_EUNAVAIL, 0, "postgres: %.*s",
                           (int)strcspn(words, "\n"), words);
}

static int take(const struct simba_floor *floor,
                PGresult *result,
                simba_error *error)
{
    ExecStatusType status = PQresultStatus(result);

    PQclear(result);
    return status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK
               ? SIMBA_OK
               : fail(floor, error);
}

static int run(const struct simba_floor *floor,
               const char *text,
               simba_error *error)
{
    return take(floor, PQexec(floor->conn, text), error);
}

static int run_prepared(const struct simba_floor *floor,
                        const char *name,
                        simba_error *error)
{
    const char *values[] = {floor->name, floor->name};
    int count = strcmp(name, "notify") == 0 ? 2 : 1;

    return take(floor,
                PQexecPrepared(floor->conn, name, count, values, NULL, NULL, 0),
                error);
}

/* --- opening ------------------------------------------------------------- */

static int prepare(struct simba_floor *floor, simba_error *error)
{
    static const char *const texts[][2] = {
        {"acquire", ACQUIRE},
        {"release", RELEASE},
        {"notify", RELEASE " RETURNING pg_notify($2, '')"},
    };
    int rc = SIMBA_OK;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && rc == SIMBA_OK;
         i++) {
        rc = take(floor,
                  PQprepare(floor->conn, texts[i][0], texts[i][1], 0, NULL),
                  error);
    }
    return rc;
}

/* A record to play with. */
static int make_record(struct simba_floor *floor, simba_error *error)
{
    const char *values[] = {floor->name};
    int rc = run(floor, SIMBA__PG_SCHEMA, error);

    return rc == SIMBA_OK
               ? take(floor,
                      PQexecParams(floor->conn, SIMBA__PG_INSERT_MUTEX, 1, NULL,
                                   values, NULL, NULL, 0),
                      error)
               : rc;
}

/* All floors of a mutex use one record and one channel: not the mutex's own. */
static void name_floor(struct simba_floor *floor, const char *mutex)
{
    snprintf(floor->name, sizeof floor->name, "floor_%016" PRIx64,
             simba__fnv64(mutex, strlen(mutex)));
}

static void ignore_notice(void *user, const char *message)
{
    (void)user;
    (void)message;
}

/* A pooler keeps neither prepared statements nor subscriptions. */
static bool is_pooled(const struct simba_floor *floor)
{
    PGresult *result = PQexec(floor->conn, "SELECT pg_backend_pid()");
    bool is_direct =
        PQntuples(result) == 1 &&
        strtol(PQgetvalue(result, 0, 0), NULL, 10) == PQbackendPID(floor->conn);

    PQclear(result);
    return !is_direct;
}

/* As the store does it. */
static int connect_floor(struct simba_floor *floor,
                         const char *url,
                         simba_error *error)
{
    struct simba__pg pg = {.options = NULL};
    struct simba__pg_parameters parameters;
    int rc = simba__pg_settings_read(&pg, url, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    simba__pg_settings_list(&pg, &parameters);
    floor->conn = PQconnectdbParams(parameters.keywords, parameters.values, 0);
    simba__pg_settings_fini(&pg);
    PQsetNoticeProcessor(floor->conn, ignore_notice, NULL);
    if (PQstatus(floor->conn) != CONNECTION_OK) {
        return fail(floor, error);
    }
    return is_pooled(floor)
               ? simba_error_set(error, SIMBA_EINVAL, 0,
                                 "postgres: no bare exchange through a pooler")
               : SIMBA_OK;
}

static int open_floor(simba_floor *floor,
                      const char *url,
                      const char *mutex,
                      simba_error *error)
{
    int rc = connect_floor(floor, url, error);

    name_floor(floor, mutex);
    if (rc == SIMBA_OK) {
        rc = make_record(floor, error);
    }
    return rc == SIMBA_OK ? prepare(floor, error) : rc;
}

static void close_floor(simba_floor *floor)
{
    PQfinish(floor->conn);
}

/* --- steps --------------------------------------------------------------- */

static int pair(simba_floor *floor, simba_error *error)
{
    int rc = run_prepared(floor, "acquire", error);

    return rc == SIMBA_OK ? run_prepared(floor, "release", error) : rc;
}

static int arm(simba_floor *floor, simba_error *error)
{
    char listen[64];

    snprintf(listen, sizeof listen, "LISTEN %s", floor->name);
    return run(floor, listen, error);
}

static int notify(simba_floor *floor, simba_error *error)
{
    return run_prepared(floor, "notify", error);
}

static int await(simba_floor *floor, simba_error *error)
{
    struct pollfd fd = {.fd = PQsocket(floor->conn), .events = POLLIN};
    PGnotify *message;

    while ((message = PQnotifies(floor->conn)) == NULL) {
        if (poll(&fd, 1, -1) < 0 || PQconsumeInput(floor->conn) == 0) {
            return fail(floor, error);
        }
    }
    PQfreemem(message);
    return run_prepared(floor, "acquire", error);
}

const simba_floor_ops simba_floor_module = {SIMBA_FLOOR_ABI,
                                            sizeof(simba_floor),
                                            open_floor,
                                            close_floor,
                                            {pair, arm, notify, await}};
