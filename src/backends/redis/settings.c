/* What the URL of a Redis store says; see settings.h. */
#define _GNU_SOURCE
#include "backends/redis/settings.h"

#include "backends/redis/secret.h"
#include "backends/redis/text.h"
#include "util/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { DATABASE_MOST = 1000000, REPLICAS_MOST = 1000 };

static int invalid(simba_error *error, const char *what, const char *text)
{
    return simba_error_set(error, SIMBA_EINVAL, 0, "redis: %s \"%s\"", what,
                           text);
}

/* --- parameters ---------------------------------------------------------- */

static int read_number(const char *text, int most, int *number)
{
    *number = simba__redis_number(text, most);
    return *number < 0 ? SIMBA_EINVAL : SIMBA_OK;
}

static int read_switch(const char *text, bool *is_on)
{
    static const char *const words[] = {"on", "1", "yes", "off", "0", "no"};

    for (int i = 0; i < 6; i++) {
        if (strcasecmp(text, words[i]) == 0) {
            *is_on = i < 3;
            return SIMBA_OK;
        }
    }
    return SIMBA_EINVAL;
}

static int take_copy(char **to, const char *text)
{
    simba__redis_secret_free(*to);
    *to = strdup(text);
    return *to == NULL ? SIMBA_ENOMEM : SIMBA_OK;
}

/* Where a parameter goes: one of the four. */
struct parameter {
    const char *name;
    const char **text;
    char **copy;
    bool *flag;
    int *number;
    int most;
};

static int read_value(const struct parameter *parameter, char *value)
{
    if (parameter->text != NULL) {
        *parameter->text = value;
        return SIMBA_OK;
    }
    if (parameter->copy != NULL) {
        return take_copy(parameter->copy, value);
    }
    return parameter->flag != NULL
               ? read_switch(value, parameter->flag)
               : read_number(value, parameter->most, parameter->number);
}

static int set_parameter(struct simba__redis_settings *s,
                         const char *name,
                         char *value,
                         simba_error *error)
{
    const struct parameter known[] = {
        {.name = "ca", .text = &s->ca},
        {.name = "cert", .text = &s->cert},
        {.name = "key", .text = &s->key},
        {.name = "user", .copy = &s->user},
        {.name = "password", .copy = &s->password},
        {.name = "sentinel_user", .copy = &s->sentinel_user},
        {.name = "sentinel_password", .copy = &s->sentinel_password},
        {.name = "tls", .flag = &s->is_tls},
        {.name = "verify", .flag = &s->is_verified},
        {.name = "restart_grace", .flag = &s->has_grace},
        {.name = "db", .number = &s->database, .most = DATABASE_MOST},
        {.name = "replicas", .number = &s->replicas, .most = REPLICAS_MOST},
    };
    size_t i = 0;
    int rc;

    if (strcmp(name, "password_file") == 0) {
        return simba__redis_secret_read(value, &s->password, error);
    }
    while (i < sizeof known / sizeof known[0] &&
           strcmp(known[i].name, name) != 0) {
        i++;
    }
    if (i == sizeof known / sizeof known[0]) {
        return invalid(error, "the URL has an unknown parameter", name);
    }
    rc = read_value(&known[i], value);
    return rc == SIMBA_EINVAL
               ? simba_error_set(error, rc, 0,
                                 "redis: parameter %s cannot be \"%s\"", name,
                                 value)
               : rc;
}

static int read_query(struct simba__redis_settings *s,
                      char *query,
                      simba_error *error)
{
    char *rest = NULL;

    for (char *one = strtok_r(query, "&", &rest); one != NULL;
         one = strtok_r(NULL, "&", &rest)) {
        char *value = strchr(one, '=');
        int rc;

        if (value == NULL) {
            return invalid(error, "a parameter of the URL has no value:", one);
        }
        *value++ = '\0';
        if (!simba__text_unescape(one) || !simba__text_unescape(value)) {
            return invalid(error, "broken %-escape in the URL, parameter", one);
        }
        rc = set_parameter(s, one, value, error);
        if (rc != SIMBA_OK) {
            return rc;
        }
    }
    return SIMBA_OK;
}

/* --- who and where ------------------------------------------------------- */

static int read_user(struct simba__redis_settings *s,
                     char *user,
                     simba_error *error)
{
    char *password = strchr(user, ':');

    if (password != NULL) {
        *password++ = '\0';
    }
    if (!simba__text_unescape(user) ||
        (password != NULL && !simba__text_unescape(password))) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "redis: broken %%-escape in the user part of "
                               "the URL");
    }
    if (user[0] != '\0' && take_copy(&s->user, user) != SIMBA_OK) {
        return SIMBA_ENOMEM;
    }
    return password == NULL ? SIMBA_OK : take_copy(&s->password, password);
}

/* host, host:port, [v6], [v6]:port */
static int read_address(struct simba__redis_address *address,
                        char *text,
                        int port,
                        simba_error *error)
{
    char *host = text;
    char *colon;

    if (text[0] == '[') {
        host = text + 1;
        colon = strchr(text, ']');
        if (colon == NULL) {
            return invalid(error, "no such address:", text);
        }
        *colon++ = '\0';
        if (*colon != ':' && *colon != '\0') {
            return invalid(error,
                           "what follows an address in [] is no port:", colon);
        }
        colon = *colon == ':' ? colon : NULL;
    } else {
        colon = strrchr(text, ':');
    }
    if (colon != NULL) {
        *colon++ = '\0';
        if (read_number(colon, 65535, &port) != SIMBA_OK || port == 0) {
            return invalid(error, "no such port:", colon);
        }
    }
    if (*host == '\0') {
        host = "127.0.0.1";
    }
    if (!simba__redis_put_address(address, host, port)) {
        return invalid(error, "the host name is too long:", host);
    }
    return SIMBA_OK;
}

static int read_addresses(struct simba__redis_settings *s,
                          char *hosts,
                          simba_error *error)
{
    int port = s->shape == SIMBA__REDIS_SENTINEL ? 26379 : 6379;
    char *rest = hosts;
    size_t most = 1;
    char *one;

    for (const char *c = hosts; *c != '\0'; c++) {
        most += *c == ',';
    }
    if (most > 1 && s->shape == SIMBA__REDIS_SINGLE) {
        return invalid(error, "one server only, not", hosts);
    }
    s->addresses = calloc(most, sizeof *s->addresses);
    if (s->addresses == NULL) {
        return SIMBA_ENOMEM;
    }
    while ((one = strsep(&rest, ",")) != NULL) {
        int rc =
            read_address(&s->addresses[s->address_count], one, port, error);

        if (rc != SIMBA_OK) {
            return rc;
        }
        s->address_count++;
    }
    return SIMBA_OK;
}

static int read_path(struct simba__redis_settings *s,
                     char *path,
                     simba_error *error)
{
    char *database = path;

    if (s->shape == SIMBA__REDIS_SENTINEL) {
        s->master = path;
        database = strchrnul(path, '/');
        if (*database == '/') {
            *database++ = '\0';
        }
        if (!simba__text_unescape(path) || *path == '\0') {
            return simba_error_set(error, SIMBA_EINVAL, 0,
                                   "redis: the URL names no master: write "
                                   "redis+sentinel://host1,host2/master");
        }
    }
    if (*database != '\0' &&
        read_number(database, DATABASE_MOST, &s->database) != SIMBA_OK) {
        return invalid(error, "no such database:", database);
    }
    return SIMBA_OK;
}

static int read_socket(struct simba__redis_settings *s,
                       char *path,
                       simba_error *error)
{
    s->addresses = calloc(1, sizeof *s->addresses);
    if (s->addresses == NULL) {
        return SIMBA_ENOMEM;
    }
    s->address_count = 1;
    if (*path != '/' || !simba__text_unescape(path) ||
        !simba__redis_put_address(s->addresses, path, 0)) {
        return invalid(error, "no path of a socket:", path);
    }
    return SIMBA_OK;
}

static int read_place(struct simba__redis_settings *s,
                      char *rest,
                      bool is_socket,
                      simba_error *error)
{
    char *query = strchr(rest, '?');
    char *user_end, *path;
    int rc = SIMBA_OK;

    if (query != NULL) {
        *query++ = '\0';
    }
    user_end = strrchr(rest, '@');
    if (user_end != NULL) {
        *user_end = '\0';
        rc = read_user(s, rest, error);
        rest = user_end + 1;
    }
    if (rc == SIMBA_OK && is_socket) {
        rc = read_socket(s, rest, error);
    } else if (rc == SIMBA_OK) {
        path = strchrnul(rest, '/');
        if (*path == '/') {
            *path++ = '\0';
        }
        rc = read_addresses(s, rest, error);
        rc = rc != SIMBA_OK ? rc : read_path(s, path, error);
    }
    return rc != SIMBA_OK || query == NULL ? rc : read_query(s, query, error);
}

/* --- the whole ----------------------------------------------------------- */

static int read_environment(struct simba__redis_settings *s)
{
    const char *user = getenv("SIMBA_REDIS_USER");
    const char *password = getenv("SIMBA_REDIS_PASSWORD");
    int rc = SIMBA_OK;

    if (user != NULL && user[0] != '\0') {
        rc = take_copy(&s->user, user);
    }
    if (rc == SIMBA_OK && password != NULL && password[0] != '\0') {
        rc = take_copy(&s->password, password);
    }
    return rc;
}

static int check(const struct simba__redis_settings *s, simba_error *error)
{
    if (s->user != NULL && s->password == NULL) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "redis: a user but no password is given");
    }
    if (s->shape == SIMBA__REDIS_CLUSTER && s->database != 0) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "redis: a cluster has database 0 only");
    }
    if ((s->cert == NULL) != (s->key == NULL)) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "redis: cert and key belong together");
    }
    if (s->is_tls && s->addresses->port == 0) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "redis: a socket of this machine has no TLS");
    }
    if (!s->is_tls && (s->ca != NULL || s->cert != NULL)) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "redis: certificates are for TLS: write "
                               "rediss:// or tls=on");
    }
    return SIMBA_OK;
}

static bool read_scheme(struct simba__redis_settings *s,
                        const char *scheme,
                        bool *is_socket)
{
    *is_socket = strcasecmp(scheme, "redis+unix") == 0;
    s->is_tls = strcasecmp(scheme, "rediss") == 0;
    if (strcasecmp(scheme, "redis+sentinel") == 0) {
        s->shape = SIMBA__REDIS_SENTINEL;
    } else if (strcasecmp(scheme, "redis+cluster") == 0) {
        s->shape = SIMBA__REDIS_CLUSTER;
    } else {
        return *is_socket || s->is_tls || strcasecmp(scheme, "redis") == 0;
    }
    return true;
}

/* "redis://user:pass?word@host" reads as a host "user" and a parameter; no
 * error may show it (S13). */
static bool is_cut_in_user(const char *url)
{
    const char *query = strchr(url, '?');
    const char *at = strchr(url, '@');

    return query != NULL && at > query;
}

int simba__redis_settings_init(struct simba__redis_settings *s,
                               const char *url,
                               simba_error *error)
{
    bool is_socket = false;
    char *rest;
    int rc = SIMBA_ENOMEM;

    *s = (struct simba__redis_settings){.is_verified = true, .has_grace = true};
    s->text = strdup(url);
    s->text_length = strlen(url);
    if (s->text != NULL) {
        bool is_cut = is_cut_in_user(url);

        rest = strchr(s->text, ':');
        if (rest == NULL || strncmp(rest, "://", 3) != 0) {
            return simba_error_set(error, SIMBA_EINVAL, 0,
                                   "redis: the URL should begin as in "
                                   "redis://host:6379/0");
        }
        *rest = '\0';
        if (!read_scheme(s, s->text, &is_socket)) {
            return invalid(error, "unknown scheme", s->text);
        }
        rc = read_environment(s);
        rc = rc != SIMBA_OK ? rc : read_place(s, rest + 3, is_socket, error);
        if (rc == SIMBA_EINVAL && is_cut) {
            return simba_error_set(error, rc, 0,
                                   "redis: the URL is not understood; in users "
                                   "and passwords write ? as %%3F");
        }
    }
    if (rc == SIMBA_ENOMEM) {
        return simba_error_set(error, rc, 0, "redis: out of memory");
    }
    if (rc == SIMBA_OK) {
        simba__redis_show_address(s->addresses, s->shown, sizeof s->shown);
        rc = check(s, error);
    }
    return rc;
}

void simba__redis_settings_fini(struct simba__redis_settings *s)
{
    free(s->addresses);
    free(s->user);
    free(s->sentinel_user);
    simba__redis_secret_free(s->password);
    simba__redis_secret_free(s->sentinel_password);
    if (s->text != NULL) { /* the parser has cut it into pieces */
        explicit_bzero(s->text, s->text_length);
        free(s->text);
    }
    *s = (struct simba__redis_settings){0};
}
