/* What the URL of a MySQL or MariaDB store says:
 *
 *     mysql://user:password@host:port/database?socket=/path&tls=on
 *
 * Messages about it hold no part of it that could be a secret (S13). */
#define _GNU_SOURCE
#include "backends/mysql/mysql.h"

#include "util/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char nothing[] = "";

static int refuse(simba_error *error, const char *why)
{
    return simba_error_set(error, SIMBA_EINVAL, 0,
                           "mysql: %s; a URL looks like "
                           "mysql://user@host:3306/database",
                           why);
}

/* Cuts a text at a character; what follows, or NULL. */
static char *cut(char *text, char at)
{
    char *found = strchr(text, at);

    if (found != NULL) {
        *found++ = '\0';
    }
    return found;
}

/* --- parameters ---------------------------------------------------------- */

static bool set_text(struct simba__my_settings *settings,
                     const char *name,
                     const char *value)
{
    const struct {
        const char *name;
        const char **text;
    } texts[] = {
        {"socket", &settings->socket},
        {"option_file", &settings->option_file},
        {"tls_ca", &settings->tls_ca},
        {"tls_cert", &settings->tls_cert},
        {"tls_key", &settings->tls_key},
    };

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (strcmp(texts[i].name, name) == 0) {
            *texts[i].text = value;
            settings->has_tls |= strncmp(name, "tls", 3) == 0;
            return true;
        }
    }
    return false;
}

static int read_parameter(struct simba__my_settings *settings,
                          char *parameter,
                          simba_error *error)
{
    char *value = cut(parameter, '=');

    if (value == NULL || !simba__text_unescape(value)) {
        return refuse(error, "a parameter has no value");
    }
    if (set_text(settings, parameter, value)) {
        return SIMBA_OK;
    }
    if (strcmp(parameter, "tls") == 0 &&
        (strcmp(value, "on") == 0 || strcmp(value, "off") == 0 ||
         strcmp(value, "unverified") == 0)) {
        settings->has_tls = strcmp(value, "off") != 0;
        settings->is_unverified = strcmp(value, "unverified") == 0;
        return SIMBA_OK;
    }
    return simba_error_set(error, SIMBA_EINVAL, 0,
                           "mysql: unknown parameter \"%s\" in the URL, or "
                           "not with this value",
                           parameter);
}

static int read_parameters(struct simba__my_settings *settings,
                           char *parameters,
                           simba_error *error)
{
    int rc = SIMBA_OK;

    while (parameters != NULL && parameters[0] != '\0' && rc == SIMBA_OK) {
        char *next = cut(parameters, '&');

        rc = read_parameter(settings, parameters, error);
        parameters = next;
    }
    return rc;
}

/* --- who and where ------------------------------------------------------- */

static bool read_user(struct simba__my_settings *settings, char *user)
{
    char *password = cut(user, ':');

    settings->user = user;
    settings->password = password == NULL ? nothing : password;
    return simba__text_unescape(user) &&
           (password == NULL || simba__text_unescape(password));
}

/* A host, or an IPv6 address in brackets, and a port. */
static bool read_host(struct simba__my_settings *settings, char *host)
{
    char *port;
    char *end = NULL;

    if (host[0] == '[') {
        host++;
        port = cut(host, ']');
        if (port == NULL || (port[0] != '\0' && port[0] != ':')) {
            return false;
        }
        port = port[0] == ':' ? port + 1 : NULL;
    } else {
        port = cut(host, ':');
    }
    settings->host = host;
    if (port != NULL && port[0] != '\0') {
        unsigned long number = strtoul(port, &end, 10);

        if (*end != '\0' || number == 0 || number > 65535) {
            return false;
        }
        settings->port = (unsigned)number;
    }
    return simba__text_unescape(host);
}

static int read_all(struct simba__my_settings *settings,
                    char *text,
                    simba_error *error)
{
    char *parameters = cut(text, '?');
    char *database = cut(text, '/');
    char *at = strrchr(text, '@');
    char *host = text;

    if (at != NULL) {
        *at = '\0';
        host = at + 1;
        if (!read_user(settings, text)) {
            return refuse(error, "the user or the password is badly escaped");
        }
    }
    if (!read_host(settings, host)) {
        return refuse(error, "the host or the port is bad");
    }
    if (database == NULL || database[0] == '\0' ||
        !simba__text_unescape(database)) {
        return refuse(error, "the URL names no database");
    }
    settings->database = database;
    settings->has_tls = !simba__sql_is_local(settings->host);
    return read_parameters(settings, parameters, error);
}

int simba__my_settings_read(struct simba__my_settings *settings,
                            const char *rest,
                            simba_error *error)
{
    int rc;

    *settings = (struct simba__my_settings){
        NULL,    nothing, nothing, nothing, nothing, nothing, nothing,
        nothing, nothing, nothing, 0,       false,   false};
    if (strncmp(rest, "//", 2) != 0) {
        return refuse(error, "not a URL");
    }
    settings->memory = strdup(rest + 2);
    if (settings->memory == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    rc = read_all(settings, settings->memory, error);
    if (rc != SIMBA_OK) {
        simba__my_settings_fini(settings);
    }
    return rc;
}

void simba__my_settings_fini(struct simba__my_settings *settings)
{
    free(settings->memory);
    settings->memory = NULL;
}
