/* What the URL of a PostgreSQL store says, and what we add to it. */
#define _GNU_SOURCE
#include "backends/postgres/postgres.h"

#include "kit/secret.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where distributions keep whom they trust; newer libraries know by themselves
 * (sslrootcert=system). */
#define TRUSTED         "/etc/ssl/certs/ca-certificates.crt"
#define KNOWS_SYSTEM_AT 160000

#define NO_MEMORY "postgres: out of memory"

/* NULL: nothing is said about it. */
static const char *option(const PQconninfoOption *options, const char *keyword)
{
    for (const PQconninfoOption *o = options; o->keyword != NULL; o++) {
        if (strcmp(o->keyword, keyword) == 0) {
            return o->val;
        }
    }
    return NULL;
}

static bool is(const PQconninfoOption *options,
               const char *keyword,
               const char *value)
{
    const char *given = option(options, keyword);

    return given != NULL && strcmp(given, value) == 0;
}

/* By the URL, or by a variable that the library knows. */
static bool said(const struct simba__pg *pg,
                 const char *keyword,
                 const char *variable)
{
    return option(pg->options, keyword) != NULL ||
           secure_getenv(variable) != NULL;
}

const char *simba__pg_hosts(const struct simba__sql *self)
{
    return ((const struct simba__pg *)self)->hosts;
}

/* --- what the library is told --------------------------------------------- */

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
    assert(pg->options != NULL);
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

/* What the library would go by: the URL, else a service file, else the
 * environment. It tells that of a connection only, so it is given one that it
 * refuses before it goes anywhere. */
static PQconninfoOption *ask_library(const struct simba__pg *pg)
{
    struct simba__pg_parameters all;
    PQconninfoOption *known;
    PGconn *conn;

    simba__pg_settings_list(pg, &all);
    add(&all, "channel_binding", "?");
    conn = PQconnectStartParams(all.keywords, all.values, 0);
    known = PQconninfo(conn);
    PQfinish(conn);
    return known;
}

/* Who says nothing about TLS gets it, verified, unless both names and addresses
 * are of this machine: the library goes to the address. A service file that
 * says "prefer", the library's default, says nothing, and one that cannot be
 * read may come to name any server. */
static void choose_tls(struct simba__pg *pg, const PQconninfoOption *known)
{
    const char *home = secure_getenv("HOME"), *mode = option(known, "sslmode");
    bool is_local = simba__url_is_local(option(known, "host")) &&
                    simba__url_is_local(option(known, "hostaddr"));
    char root[512];

    if (said(pg, "sslmode", "PGSSLMODE") ||
        (said(pg, "service", "PGSERVICE") &&
         is(known, "channel_binding", "?") &&
         !is(known, "sslmode", "prefer")) ||
        (is(known, "channel_binding", "?") && is_local)) {
        pg->sql.is_unverified =
            !is_local && (mode == NULL || strncmp(mode, "verify-", 7) != 0);
        return;
    }
    pg->sslmode = "verify-full";
    snprintf(root, sizeof root, "%s/.postgresql/root.crt",
             home == NULL ? "" : home);
    if (option(known, "sslrootcert") == NULL && access(root, R_OK) != 0) {
        pg->sslrootcert =
            PQlibVersion() >= KNOWS_SYSTEM_AT ? "system" : TRUSTED;
    }
}

/* Of several servers, that one is meant that takes changes, unless it is said
 * which: after a failover it need not be the first. Addresses need not be
 * looked up. */
static int choose_defaults(struct simba__pg *pg, simba_error *error)
{
    static const char *const files[] = {"sslrootcert", "sslcert", "sslcrl",
                                        "sslkey"};
    PQconninfoOption *known = ask_library(pg);
    const char *host, *address;
    int rc = SIMBA_OK;

    if (known == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, NO_MEMORY);
    }
    for (size_t i = 0; rc == SIMBA_OK && i < 4; i++) {
        rc = simba__library_file_check("postgres", option(known, files[i]),
                                       i == 3, error);
    }
    choose_tls(pg, known);
    host = option(known, "host");
    address = option(known, "hostaddr");
    pg->hosts = host == NULL || address != NULL ? NULL : strdup(host);
    if (host != NULL && address == NULL && pg->hosts == NULL) {
        rc = simba_error_set(error, SIMBA_ENOMEM, 0, NO_MEMORY);
    }
    host = host == NULL ? address : host;
    if (host != NULL && strchr(host, ',') != NULL &&
        is(known, "target_session_attrs", "any") &&
        secure_getenv("PGTARGETSESSIONATTRS") == NULL) {
        pg->target = "read-write";
    }
    PQconninfoFree(known);
    return rc;
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

/* The library ends user and password at the first @, the other stores at the
 * last: what is between them must not be shown as a host. */
static bool is_torn(const char *url)
{
    const char *user = strstr(url, "://");
    size_t length = user == NULL ? 0 : strcspn(user += 3, "/?");

    return user != NULL &&
           (simba__url_is_torn(user) ||
            memchr(user, '@', length) != memrchr(user, '@', length));
}

/* The library reads the URL but for password_file, which it does not know. Its
 * own message may hold the URL, and with it a password. */
int simba__pg_settings_read(struct simba__pg *pg,
                            const char *url,
                            simba_error *error)
{
    char *path = NULL, *message = NULL;
    const char *host, *port, *database;
    int rc;

    if (is_torn(url)) {
        return simba__url_refuse_torn(&form, error);
    }
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
        rc = simba_error_set(error, rc, 0, NO_MEMORY);
    }
    free(path);
    if (rc == SIMBA_OK) {
        rc = choose_defaults(pg, error);
    }
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
    return SIMBA_OK;
}

void simba__pg_settings_fini(struct simba__pg *pg)
{
    PQconninfoFree(pg->options);
    free(pg->hosts);
    pg->options = NULL;
    pg->hosts = NULL;
    simba__url_fini(&pg->url);
}

char *simba__pg_help(void)
{
    return simba__parameters_help(&form);
}
