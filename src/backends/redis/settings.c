/* What the URL of a Redis store says, and addresses of servers. */
#define _GNU_SOURCE
#include "backends/redis/redis.h"

#include "util/text.h"

#include <simba/duration.h>

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { DATABASE_MOST = 1000000, REPLICAS_MOST = 1000, GRACE_LEAST_MS = 100 };

#define OFFSET(member) offsetof(struct simba__redis_settings, member)

static const struct simba__parameter parameters[] = {
    {"db", SIMBA__PARAMETER_INT, OFFSET(database), NULL, DATABASE_MOST,
     "the database, as behind the host"},
    {"jvm", SIMBA__PARAMETER_FLAG, OFFSET(is_jvm_expected), "auto fair", 0,
     "fair: leave room for JVM contenders, also while none is seen"},
    {"replicas", SIMBA__PARAMETER_INT, OFFSET(replicas), NULL, REPLICAS_MOST,
     "replicas that must have an acquire before it is granted"},
    {"restart_grace", SIMBA__PARAMETER_TEXT, OFFSET(restart_grace), NULL, 0,
     "how long nobody acquires after a restart that may have forgotten owners, "
     "such as 16s; 0: not at all"},
    {"sentinel_user", SIMBA__PARAMETER_TEXT, OFFSET(sentinel_user), NULL, 0,
     "the user for the sentinels"},
    {"sentinel_password", SIMBA__PARAMETER_TEXT, OFFSET(sentinel_password),
     NULL, 0, "the password for the sentinels"},
    {0}};

static const struct simba__url_form form = {
    .store = "redis",
    .example = "redis://host:6379/0",
    .parameters = parameters,
    .is_networked = true,
    .tls_offset = offsetof(struct simba__redis_settings, tls)};

/* --- numbers and addresses ----------------------------------------------- */

int simba__redis_number(const char *text, int most)
{
    uint64_t number;

    return simba__text_number(text, (uint64_t)most, &number) ? (int)number : -1;
}

bool simba__redis_put_address(struct simba__redis_address *address,
                              const char *host,
                              int port)
{
    size_t length = strlen(host);

    if (length == 0 || length > SIMBA__REDIS_HOST_MAX) {
        return false;
    }
    memcpy(address->host, host, length + 1);
    address->port = port;
    return true;
}

/* --- the URL ------------------------------------------------------------- */

static const struct scheme {
    const char *name;
    enum simba__redis_shape shape;
    bool is_tls;
    int port; /* 0: a socket */
} schemes[] = {
    {"redis", SIMBA__REDIS_SINGLE, false, 6379},
    {"rediss", SIMBA__REDIS_SINGLE, true, 6379},
    {"redis+unix", SIMBA__REDIS_SINGLE, false, 0},
    {"redis+sentinel", SIMBA__REDIS_SENTINEL, false, 26379},
    {"redis+cluster", SIMBA__REDIS_CLUSTER, false, 6379},
};

/* Says what is wrong, or NULL. The addresses have been allocated. */
static const char *read_addresses(struct simba__redis_settings *s,
                                  const struct scheme *scheme)
{
    const struct simba__url *url = &s->url;

    s->address_count = url->host_count == 0 ? 1 : (int)url->host_count;
    if (s->address_count > 1 && s->shape == SIMBA__REDIS_SINGLE) {
        return "one server only";
    }
    if (scheme->port == 0) {
        return url->host_count > 0 || url->path[0] != '/' ||
                       !simba__text_unescape(url->path) ||
                       !simba__redis_put_address(s->addresses, url->path, 0)
                   ? "no path of a socket"
                   : NULL;
    }
    for (int i = 0; i < s->address_count; i++) {
        simba_connection_host none = {"127.0.0.1", 0};
        const simba_connection_host *host =
            url->host_count == 0 ? &none : &url->hosts[i];

        if (!simba__redis_put_address(&s->addresses[i], host->name,
                                      host->port == 0 ? scheme->port
                                                      : host->port)) {
            return "the host name is too long";
        }
    }
    return NULL;
}

/* /database, or with sentinels /master/database; says what is wrong, or
 * NULL. */
static const char *read_path(struct simba__redis_settings *s)
{
    char *database = s->url.path + (s->url.path[0] == '/');
    int number = 0;

    if (s->shape == SIMBA__REDIS_SENTINEL) {
        char *master = database;

        database = strchrnul(master, '/');
        if (*database == '/') {
            *database++ = '\0';
        }
        if (!simba__text_unescape(master) || *master == '\0') {
            return "the URL names no master: write "
                   "redis+sentinel://host1,host2/master";
        }
        s->master = master;
    }
    if (*database != '\0') {
        number = simba__redis_number(database, DATABASE_MOST);
    }
    if (s->database < 0) { /* no parameter says it */
        s->database = number;
    }
    return number < 0 ? "no such database" : NULL;
}

/* It was but a switch once. Less than the shortest ttl is none. */
static const char *read_grace(struct simba__redis_settings *s)
{
    static const char *const words[] = {"off", "no",   "false", "on",
                                        "yes", "true", "1"};
    const char *given = s->restart_grace;

    if (given == NULL) {
        return NULL;
    }
    for (int i = 0; i < 7; i++) {
        if (strcasecmp(given, words[i]) == 0) {
            s->grace_ms = i < 3 ? 0 : SIMBA__REDIS_GRACE_MS;
            return NULL;
        }
    }
    return simba_duration_parse(given, &s->grace_ms, NULL) == SIMBA_OK &&
                   (s->grace_ms == 0 || s->grace_ms >= GRACE_LEAST_MS)
               ? NULL
               : "parameter restart_grace must be 0 or a time from 100ms on, "
                 "such as 16s";
}

static const char *check(const struct simba__redis_settings *s)
{
    if (s->user != NULL && s->password == NULL) {
        return "a user but no password is given";
    }
    if (s->shape == SIMBA__REDIS_CLUSTER && s->database != 0) {
        return "a cluster has database 0 only";
    }
    return s->tls.is_on && s->addresses->port == 0
               ? "a socket of this machine has no TLS"
               : NULL;
}

int simba__redis_settings_init(struct simba__redis_settings *s,
                               const char *url,
                               simba_error *error)
{
    const struct scheme *scheme = NULL;
    size_t length = strcspn(url, ":");
    const char *problem;
    int rc;

    *s = (struct simba__redis_settings){.tls = SIMBA__TLS_DEFAULTS,
                                        .grace_ms = SIMBA__REDIS_GRACE_MS,
                                        .database = -1};
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        if (strlen(schemes[i].name) == length &&
            strncasecmp(schemes[i].name, url, length) == 0) {
            scheme = &schemes[i];
        }
    }
    if (scheme == NULL) {
        return simba__url_refuse(&form, "unknown scheme", error);
    }
    s->shape = scheme->shape;
    rc = simba__url_read(&s->url, &form, url + length + 1, error);
    if (rc != SIMBA_OK) {
        return rc;
    }
    s->user = s->url.user;
    s->password = s->url.password;
    s->addresses = calloc(s->url.host_count + 1, sizeof *s->addresses);
    if (s->addresses == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "redis: out of memory");
    }
    problem = read_addresses(s, scheme);
    if (problem == NULL) {
        simba__url_show(s->addresses->host, s->addresses->port, s->shown,
                        sizeof s->shown);
    }
    if (problem == NULL && scheme->port != 0) {
        problem = read_path(s);
    }
    s->database = s->database < 0 ? 0 : s->database;
    problem = problem == NULL ? read_grace(s) : problem;
    rc = problem == NULL
             ? simba__tls_settle(&s->tls, &form, scheme->is_tls, error)
             : SIMBA_OK;
    if (problem == NULL && rc == SIMBA_OK) {
        problem = check(s);
    }
    return problem == NULL ? rc : simba__url_refuse(&form, problem, error);
}

void simba__redis_settings_fini(struct simba__redis_settings *s)
{
    free(s->addresses);
    simba__url_fini(&s->url);
    *s = (struct simba__redis_settings){0};
}

char *simba__redis_help(void)
{
    return simba__parameters_help(&form);
}
