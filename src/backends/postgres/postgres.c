/* The PostgreSQL store: its table of functions and its URL. */
#define _GNU_SOURCE
#include "backends/postgres/postgres.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Transactions wait for each other up to a second, and losers start anew. */
enum { LEAST_LEASE_MS = 3000 };

static bool can_push(const struct simba__sql_session *session)
{
    return !((const struct simba__pg *)session->self)->is_pooled;
}

static const struct simba__sql_dialect dialect = {
    .name = "postgres",
    .session_size = sizeof(struct simba__pg_session),
    .connect = simba__pg_connect,
    .send = simba__pg_send,
    .proceed = simba__pg_proceed,
    .disconnect = simba__pg_disconnect,
    .abandon = simba__pg_abandon,
    .hang_bell = simba__pg_hang_bell,
    .can_push = can_push,
};

static const char *option(const struct simba__pg *pg, const char *keyword)
{
    for (const PQconninfoOption *o = pg->options; o->keyword != NULL; o++) {
        if (strcmp(o->keyword, keyword) == 0) {
            return o->val;
        }
    }
    return NULL;
}

/* What messages call the server; no secret is among it (S13). */
static void show_server(struct simba__pg *pg)
{
    const char *host = option(pg, "host");
    const char *port = option(pg, "port");
    const char *database = option(pg, "dbname");

    host = host == NULL ? option(pg, "hostaddr") : host;
    snprintf(pg->sql.shown, sizeof pg->sql.shown, "postgres %s%s%s%s%s",
             host == NULL ? "local" : host, port == NULL ? "" : ":",
             port == NULL ? "" : port, database == NULL ? "" : "/",
             database == NULL ? "" : database);
}

/* The library's own message may hold the URL, and with it a password. */
static int read_url(struct simba__pg *pg, const char *url, simba_error *error)
{
    char *message = NULL;

    pg->options = PQconninfoParse(url, &message);
    PQfreemem(message);
    if (pg->options == NULL) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "postgres: not a URL that libpq understands, "
                               "as in postgres://user@host:5432/database");
    }
    show_server(pg);
    return SIMBA_OK;
}

static void close_postgres(simba_backend *backend)
{
    struct simba__pg *pg = (struct simba__pg *)backend;

    simba__sql_fini(&pg->sql);
    PQconninfoFree(pg->options);
    free(pg);
}

static int open_postgres(const simba_backend_config *config,
                         simba_backend **out,
                         simba_error *error);

const simba_backend_ops simba_module = {
    .abi = SIMBA_BACKEND_ABI,
    .scheme = "postgres",
    .least_lease_ms = LEAST_LEASE_MS,
    .open = open_postgres,
    .submit = simba__sql_submit,
    .close = close_postgres,
    .detach = simba__sql_detach,
    .forked = simba__sql_forked,
    .capabilities = SIMBA_CAN_PUSH | SIMBA_CAN_LIST | SIMBA_CAN_BREAK |
                    SIMBA_CAN_DOCTOR | SIMBA_CAN_INIT,
    .interest = simba__sql_interest,
    .drive = simba__sql_drive,
    .floor_open = simba__pg_floor_open,
    .floor_step = simba__pg_floor_step,
    .floor_close = simba__pg_floor_close,
    .schema = simba__pg_schema,
};

static int open_postgres(const simba_backend_config *config,
                         simba_backend **out,
                         simba_error *error)
{
    struct simba__pg *pg = calloc(1, sizeof *pg);
    int rc;

    *out = NULL;
    if (pg == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    rc = read_url(pg, config->url, error);
    if (rc != SIMBA_OK) {
        free(pg);
        return rc;
    }
    simba__sql_init(&pg->sql, &dialect, config);
    pg->sql.base.ops = &simba_module;
    *out = &pg->sql.base;
    return SIMBA_OK;
}
