/* The PostgreSQL store: its table of functions. */
#define _GNU_SOURCE
#include "backends/postgres/postgres.h"

#include "backends/postgres/schema.h"

/* Transactions wait for each other up to a second, and losers start anew. */
enum { LEAST_LEASE_MS = 3000 };

static bool can_notify(const struct simba__sql_session *session)
{
    return !((const struct simba__pg *)session->self)->is_pooled;
}

static int configure(struct simba__sql *self,
                     const simba_backend_config *config,
                     simba_error *error)
{
    return simba__pg_settings_read((struct simba__pg *)self, config->url,
                                   error);
}

static void forget(struct simba__sql *self)
{
    simba__pg_settings_fini((struct simba__pg *)self);
}

static int open_postgres(const simba_backend_config *config,
                         simba_backend **out,
                         simba_error *error)
{
    static const struct simba__sql_dialect dialect = {
        .name = "postgres",
        .ops = &simba_module,
        .store_size = sizeof(struct simba__pg),
        .session_size = sizeof(struct simba__pg_session),
        .configure = configure,
        .forget = forget,
        .hosts = simba__pg_hosts,
        .connect = simba__pg_connect,
        .send = simba__pg_send,
        .proceed = simba__pg_proceed,
        .disconnect = simba__pg_disconnect,
        .abandon = simba__pg_abandon,
        .start_notify = simba__pg_start_notify,
        .can_notify = can_notify,
    };

    return simba__sql_open(&dialect, config, out, error);
}

static char *schema(const simba_backend_config *config,
                    bool upgrade,
                    simba_error *error)
{
    return upgrade
               ? simba__sql_schema_text(SIMBA__PG_UPGRADE, NULL, error)
               : simba__sql_schema_text(SIMBA__PG_SCHEMA, config->rest, error);
}

const simba_backend_ops simba_module = {
    .scheme = "postgres",
    .least_lease_ms = LEAST_LEASE_MS,
    .open = open_postgres,
    .schema = schema,
    .help = simba__pg_help,
    SIMBA__SQL_FUNCTIONS,
};
