/* The PostgreSQL store: its table of functions. */
#define _GNU_SOURCE
#include "backends/postgres/postgres.h"

#include <stdlib.h>

/* Transactions wait for each other up to a second, and losers start anew. */
enum { LEAST_LEASE_MS = 3000 };

static bool can_notify(const struct simba__sql_session *session)
{
    return !((const struct simba__pg *)session->self)->is_pooled;
}

static void close_postgres(simba_backend *backend)
{
    struct simba__pg *pg = (struct simba__pg *)backend;

    simba__sql_fini(&pg->sql);
    simba__pg_settings_fini(pg);
    free(pg);
}

static int open_postgres(const simba_backend_config *config,
                         simba_backend **out,
                         simba_error *error)
{
    static const struct simba__sql_dialect dialect = {
        .name = "postgres",
        .session_size = sizeof(struct simba__pg_session),
        .hosts = simba__pg_hosts,
        .connect = simba__pg_connect,
        .send = simba__pg_send,
        .proceed = simba__pg_proceed,
        .disconnect = simba__pg_disconnect,
        .abandon = simba__pg_abandon,
        .start_notify = simba__pg_start_notify,
        .can_notify = can_notify,
    };
    struct simba__pg *pg = calloc(1, sizeof *pg);
    int rc;

    *out = NULL;
    if (pg == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    rc = simba__pg_settings_read(pg, config->url, error);
    if (rc != SIMBA_OK) {
        free(pg);
        return rc;
    }
    simba__sql_init(&pg->sql, &dialect, config);
    pg->sql.base.ops = &simba_module;
    *out = &pg->sql.base;
    return SIMBA_OK;
}

const simba_backend_ops simba_module = {
    .abi = SIMBA_BACKEND_ABI,
    .scheme = "postgres",
    .least_lease_ms = LEAST_LEASE_MS,
    .help = simba__pg_help,
    .open = open_postgres,
    .submit = simba__sql_submit,
    .close = close_postgres,
    .detach = simba__sql_detach,
    .forked = simba__sql_forked,
    .capabilities = SIMBA_CAN_PUSH | SIMBA_CAN_LIST | SIMBA_CAN_BREAK |
                    SIMBA_CAN_DOCTOR | SIMBA_CAN_INIT | SIMBA_TELLS_ENDED,
    .subscription = simba__sql_subscribe,
    .drive = simba__sql_drive,
    .schema = simba__pg_schema,
};
