/* The MySQL and MariaDB store: its table of functions. */
#define _GNU_SOURCE
#include "backends/mysql/mysql.h"

#include "backends/mysql/schema.h"

#include <stdio.h>

/* Lock waits are counted in whole seconds. */
enum { LEAST_LEASE_MS = 3000 };

/* What only an option file names, only the library knows. */
static const char *hosts_of(const struct simba__sql *self)
{
    return ((const struct simba__my *)self)->settings.host;
}

/* Nobody knows before the notify session is settled. */
static bool can_notify(const struct simba__sql_session *session)
{
    return session->self->notify != SIMBA__SQL_NOTIFY_REFUSED;
}

static int configure(struct simba__sql *self,
                     const simba_backend_config *config,
                     simba_error *error)
{
    struct simba__my_settings *settings = &((struct simba__my *)self)->settings;
    char port[16] = "";
    int rc;

    if (mysql_library_init(0, NULL, NULL) != 0) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    rc = simba__my_settings_read(settings, config->rest, error);
    if (rc != SIMBA_OK) {
        return rc;
    }
    /* What messages call the server; no secret is among it (S13). */
    self->is_jvm_possible = true;
    self->is_jvm_expected = settings->is_jvm_expected;
    self->is_unverified = settings->tls.use == SIMBA__TLS_UNVERIFIED &&
                          !simba__url_is_local(settings->host);
    if (settings->port != 0) {
        snprintf(port, sizeof port, ":%u", settings->port);
    }
    snprintf(self->shown, sizeof self->shown, "mysql %s%s/%s",
             settings->host == NULL ? "localhost" : settings->host, port,
             settings->database);
    return SIMBA_OK;
}

static void forget(struct simba__sql *self)
{
    simba__my_settings_fini(&((struct simba__my *)self)->settings);
}

static int open_mysql(const simba_backend_config *config,
                      simba_backend **out,
                      simba_error *error)
{
    static const struct simba__sql_dialect dialect = {
        .name = "mysql",
        .ops = &simba_module,
        .store_size = sizeof(struct simba__my),
        .session_size = sizeof(struct simba__my_session),
        .configure = configure,
        .forget = forget,
        .hosts = hosts_of,
        .connect = simba__my_connect,
        .send = simba__my_send,
        .proceed = simba__my_proceed,
        .disconnect = simba__my_disconnect,
        .abandon = simba__my_abandon,
        .start_notify = simba__my_start_notify,
        .can_notify = can_notify,
        .stop_notify = simba__my_stop_notify,
    };

    return simba__sql_open(&dialect, config, out, error);
}

/* In the words of MariaDB. */
static char *schema(const simba_backend_config *config,
                    bool upgrade,
                    simba_error *error)
{
    return upgrade
               ? simba__sql_schema_text(SIMBA__MY_UPGRADE, NULL, error)
               : simba__sql_schema_text(SIMBA__MY_SCHEMA, config->rest, error);
}

const simba_backend_ops simba_module = {
    .scheme = "mysql",
    .least_lease_ms = LEAST_LEASE_MS,
    .open = open_mysql,
    .schema = schema,
    .help = simba__my_help,
    SIMBA__SQL_FUNCTIONS,
};
