/* What the URL of a PostgreSQL store says, and what we add to it. */
#define _GNU_SOURCE
#include "backends/postgres/postgres.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where distributions keep whom they trust; newer libraries know by themselves
 * (sslrootcert=system). */
#define TRUSTED         "/etc/ssl/certs/ca-certificates.crt"
#define KNOWS_SYSTEM_AT 160000

/* What the URL says about it, else the environment or a service file. */
static const char *option(const PQconninfoOption *options, const char *keyword)
{
    for (const PQconninfoOption *o = options; o->keyword != NULL; o++) {
        if (strcmp(o->keyword, keyword) == 0) {
            return o->val;
        }
    }
    return NULL;
}

/* What the URL says about it, else a variable that the library knows. */
static const char *said(const struct simba__pg *pg,
                        const char *keyword,
                        const char *variable)
{
    const char *value = option(pg->options, keyword);

    return value == NULL ? getenv(variable) : value;
}

/* What only a service names, only the library knows. */
const char *simba__pg_hosts(const struct simba__sql *self)
{
    const struct simba__pg *pg = (const struct simba__pg *)self;

    return said(pg, "hostaddr", "PGHOSTADDR") != NULL
               ? NULL
               : said(pg, "host", "PGHOST");
}

/* Who says nothing about TLS gets it, verified, to any other machine. Of
 * several servers, that one is meant that takes changes, unless it is said
 * which: after a failover it need not be the first. What a service file says,
 * only the library knows. */
static void choose_defaults(struct simba__pg *pg)
{
    const char *home = getenv("HOME");
    const char *hosts = option(pg->options, "host");
    char root[512];

    hosts = hosts == NULL ? option(pg->options, "hostaddr") : hosts;
    hosts = hosts == NULL ? getenv("PGHOST") : hosts;
    hosts = hosts == NULL ? getenv("PGHOSTADDR") : hosts;
    if (said(pg, "service", "PGSERVICE") != NULL) {
        return;
    }
    if (said(pg, "sslmode", "PGSSLMODE") == NULL &&
        !simba__sql_is_local(hosts)) {
        pg->sslmode = "verify-full";
        snprintf(root, sizeof root, "%s/.postgresql/root.crt",
                 home == NULL ? "" : home);
        if (said(pg, "sslrootcert", "PGSSLROOTCERT") == NULL &&
            access(root, R_OK) != 0) {
            pg->sslrootcert =
                PQlibVersion() >= KNOWS_SYSTEM_AT ? "system" : TRUSTED;
        }
    }
    if (hosts != NULL && strchr(hosts, ',') != NULL &&
        getenv("PGTARGETSESSIONATTRS") == NULL) {
        pg->target = "read-write";
    }
}

/* --- the whole ----------------------------------------------------------- */

static const struct simba__parameter parameters[] = {
    {"sslmode and more", SIMBA__PARAMETER_TEXT, 0, NULL, 0,
     "everything that libpq knows, by its name"},
    {0}};

static const struct simba__url_form form = {
    .store = "postgres",
    .example = "postgres://user@host:5432/database",
    .parameters = parameters,
    .is_networked = true};

/* The library reads the URL but for password_file, which it does not know. Its
 * own message may hold the URL, and with it a password. */
int simba__pg_settings_read(struct simba__pg *pg,
                            const char *url,
                            simba_error *error)
{
    char *path = NULL, *message = NULL;
    const char *host, *port, *database;
    int rc;

    pg->url = (struct simba__url){.text = strdup(url), .size = strlen(url)};
    rc = pg->url.text == NULL
             ? SIMBA_ENOMEM
             : simba__url_take(pg->url.text, "password_file", &path);
    if (rc == SIMBA_OK) {
        pg->options = PQconninfoParse(pg->url.text, &message);
        PQfreemem(message);
        rc = pg->options == NULL ? SIMBA_EINVAL : SIMBA_OK;
    }
    if (rc == SIMBA_OK) {
        pg->url.user = option(pg->options, "user");
        pg->url.password = option(pg->options, "password");
        pg->url.password_file = path;
        rc = simba__url_credentials(&pg->url, &form, error);
    } else if (rc == SIMBA_EINVAL) {
        rc =
            simba__url_refuse(&form, "not a URL that libpq understands", error);
    } else {
        rc = simba_error_set(error, rc, 0, "postgres: out of memory");
    }
    free(path);
    if (rc != SIMBA_OK) {
        simba__pg_settings_fini(pg);
        return rc;
    }
    host = option(pg->options, "host");
    host = host == NULL ? option(pg->options, "hostaddr") : host;
    port = option(pg->options, "port");
    database = option(pg->options, "dbname");
    /* What messages call the server; no secret is among it (S13). */
    snprintf(pg->sql.shown, sizeof pg->sql.shown, "postgres %s%s%s%s%s",
             host == NULL ? "local" : host, port == NULL ? "" : ":",
             port == NULL ? "" : port, database == NULL ? "" : "/",
             database == NULL ? "" : database);
    choose_defaults(pg);
    return SIMBA_OK;
}

void simba__pg_settings_fini(struct simba__pg *pg)
{
    PQconninfoFree(pg->options);
    pg->options = NULL;
    simba__url_fini(&pg->url);
}

static void add(struct simba__pg_parameters *all,
                const char *keyword,
                const char *value)
{
    if (value != NULL && all->count < SIMBA__PG_PARAMETERS) {
        all->keywords[all->count] = keyword;
        all->values[all->count++] = value;
    }
}

/* A server that is cut off is noticed within a lease. What the URL says comes
 * later, and counts. */
void simba__pg_settings_list(const struct simba__pg *pg,
                             struct simba__pg_parameters *all)
{
    memset(all, 0, sizeof *all);
    add(all, "keepalives_idle", "5");
    add(all, "keepalives_interval", "2");
    add(all, "keepalives_count", "3");
    add(all, "tcp_user_timeout", "10000");
    add(all, "sslmode", pg->sslmode);
    add(all, "sslrootcert", pg->sslrootcert);
    add(all, "target_session_attrs", pg->target);
    for (const PQconninfoOption *o = pg->options; o->keyword != NULL; o++) {
        add(all, o->keyword, o->val);
    }
    add(all, "user", pg->url.own_user);
    add(all, "password", pg->url.own_password);
    add(all, "fallback_application_name", "simba");
    add(all, "client_encoding", "UTF8");
}

char *simba__pg_help(void)
{
    return simba__parameters_help(&form);
}
