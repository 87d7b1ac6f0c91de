/* What the URL of an SQLite store says. */
#define _GNU_SOURCE
#include "backends/sqlite/settings.h"

#include "util/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- messages ------------------------------------------------------------ */

/* A message is one line, so control characters of a path must not get into it;
 * of a long path the end tells more than the beginning. */
static void show_path(struct simba__sqlite_settings *settings)
{
    size_t length = strlen(settings->path);
    bool is_cut = length > SIMBA__SQLITE_SHOWN;
    const char *from = is_cut
                           ? settings->path + length - SIMBA__SQLITE_SHOWN + 3
                           : settings->path;

    snprintf(settings->shown, sizeof settings->shown, "%s%s",
             is_cut ? "..." : "", from);
    for (char *c = settings->shown; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            *c = '?';
        }
    }
}

int simba__sqlite_fail(const struct simba__sqlite_settings *settings,
                       const struct simba__sqlite_failure *failure,
                       const char *format,
                       ...)
{
    char words[192];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    return simba_error_set(failure->error, failure->code, failure->native,
                           "sqlite %s: %s", settings->shown, words);
}

/* --- parameters ---------------------------------------------------------- */

struct choice {
    const char *name;
    const char *value;
    void (*choose)(struct simba__sqlite_settings *settings);
};

static void choose_trust(struct simba__sqlite_settings *settings)
{
    settings->is_trusted = true;
}

static void choose_no_handover(struct simba__sqlite_settings *settings)
{
    settings->is_handover = false;
}

static void choose_handover(struct simba__sqlite_settings *settings)
{
    settings->is_handover = true;
}

static void choose_full(struct simba__sqlite_settings *settings)
{
    settings->is_full = true;
}

static void choose_normal(struct simba__sqlite_settings *settings)
{
    settings->is_full = false;
}

static const struct choice choices[] = {
    {"fs", "trust", choose_trust},
    {"crash_handover", "off", choose_no_handover},
    {"crash_handover", "on", choose_handover},
    {"synchronous", "full", choose_full},
    {"synchronous", "normal", choose_normal},
};

static int refuse(simba_error *error, const char *name, const char *value)
{
    bool is_known = false;

    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        is_known |= strcmp(choices[i].name, name) == 0;
    }
    if (!is_known) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "sqlite: unknown parameter \"%s\" in the URL",
                               name);
    }
    return simba_error_set(error, SIMBA_EINVAL, 0,
                           "sqlite: parameter %s cannot be \"%s\"", name,
                           value);
}

static int read_parameter(struct simba__sqlite_settings *settings,
                          char *parameter,
                          simba_error *error)
{
    char *value = strchr(parameter, '=');
    char none[] = "";

    if (value != NULL) {
        *value++ = '\0';
    } else {
        value = none;
    }
    if (!simba__text_unescape(parameter) || !simba__text_unescape(value)) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "sqlite: broken %%-escape in the URL");
    }
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        if (strcmp(choices[i].name, parameter) == 0 &&
            strcmp(choices[i].value, value) == 0) {
            choices[i].choose(settings);
            return SIMBA_OK;
        }
    }
    return refuse(error, parameter, value);
}

static int read_query(struct simba__sqlite_settings *settings,
                      char *query,
                      simba_error *error)
{
    char *rest = NULL;

    for (char *one = strtok_r(query, "&", &rest); one != NULL;
         one = strtok_r(NULL, "&", &rest)) {
        int rc = read_parameter(settings, one, error);

        if (rc != SIMBA_OK) {
            return rc;
        }
    }
    return SIMBA_OK;
}

/* --- the whole ----------------------------------------------------------- */

/* "//host/path" has an authority, which may only be this machine. */
static const char *skip_authority(const char *rest)
{
    static const char here[] = "localhost";

    if (strncmp(rest, "//", 2) != 0) {
        return rest;
    }
    rest += 2;
    if (strncmp(rest, here, sizeof here - 1) == 0) {
        rest += sizeof here - 1;
    }
    return *rest == '/' ? rest : NULL;
}

static int read_path(struct simba__sqlite_settings *settings,
                     simba_error *error)
{
    if (!simba__text_unescape(settings->path)) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "sqlite: broken %%-escape in the URL");
    }
    if (settings->path[0] == '\0') {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "sqlite: the URL names no file");
    }
    if (settings->path[strlen(settings->path) - 1] == '/') {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "sqlite: the URL names a directory, no file");
    }
    show_path(settings);
    return SIMBA_OK;
}

int simba__sqlite_settings_init(struct simba__sqlite_settings *settings,
                                const char *rest,
                                simba_error *error)
{
    const char *from = skip_authority(rest);
    char *query;
    int rc;

    *settings =
        (struct simba__sqlite_settings){.is_handover = true, .is_full = true};
    if (from == NULL) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "sqlite: the URL names a host; write "
                               "sqlite:path or sqlite:///absolute/path");
    }
    settings->path = strdup(from);
    if (settings->path == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "sqlite: no memory");
    }
    query = strchr(settings->path, '?');
    if (query != NULL) {
        *query++ = '\0';
        rc = read_query(settings, query, error);
        if (rc != SIMBA_OK) {
            return rc;
        }
    }
    return read_path(settings, error);
}

void simba__sqlite_settings_fini(struct simba__sqlite_settings *settings)
{
    free(settings->path);
    settings->path = NULL;
}

void simba__sqlite_settings_take_path(struct simba__sqlite_settings *settings,
                                      char *path)
{
    free(settings->path);
    settings->path = path;
    show_path(settings);
}
