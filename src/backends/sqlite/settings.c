/* What the URL of an SQLite store says. */
#define _GNU_SOURCE
#include "backends/sqlite/sqlite.h"

#include "util/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OFFSET(member) offsetof(struct simba__sqlite_settings, member)

static const struct simba__parameter parameters[] = {
    {"fs", SIMBA__PARAMETER_FLAG, OFFSET(is_trusted), "check trust", 0,
     "whether to refuse file systems that machines share"},
    {"crash_handover", SIMBA__PARAMETER_FLAG, OFFSET(is_handover),
     SIMBA__OFF_ON, 0, "whether the death of a process frees what it owned"},
    {"synchronous", SIMBA__PARAMETER_FLAG, OFFSET(is_full), "normal full", 0,
     "normal: a power loss may take the last changes back"},
    {0}};

static const struct simba__url_form form = {.store = "sqlite",
                                            .example = "sqlite:path",
                                            .parameters = parameters};

/* A message is one line, so control characters of a path must not get into it;
 * of a long path the end tells more than the beginning. */
static void show_path(struct simba__sqlite_settings *settings)
{
    size_t room = sizeof settings->shown - 1;
    size_t length = strlen(settings->path);

    if (length > room) {
        snprintf(settings->shown, sizeof settings->shown, "...%s",
                 settings->path + length - room + 3);
    } else {
        memcpy(settings->shown, settings->path, length + 1);
    }
    for (char *c = settings->shown; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            *c = '?';
        }
    }
}

int simba__sqlite_settings_init(struct simba__sqlite_settings *settings,
                                const char *rest,
                                simba_error *error)
{
    const struct simba__url *url = &settings->url;
    const char *problem = NULL;
    int rc;

    *settings =
        (struct simba__sqlite_settings){.is_handover = true, .is_full = true};
    rc = simba__url_read(&settings->url, &form, rest, error);
    if (rc != SIMBA_OK) {
        return rc;
    }
    if (url->authority != NULL && ((url->authority[0] != '\0' &&
                                    strcmp(url->authority, "localhost") != 0) ||
                                   url->path[0] != '/')) {
        problem = "the URL names a host; write sqlite:path or "
                  "sqlite:///absolute/path";
    } else if (!simba__text_unescape(url->path)) {
        problem = "broken %-escape in the URL";
    } else if (url->path[0] == '\0') {
        problem = "the URL names no file";
    } else if (url->path[strlen(url->path) - 1] == '/') {
        problem = "the URL names a directory, no file";
    }
    if (problem != NULL) {
        return simba_error_set(error, SIMBA_EINVAL, 0, "sqlite: %s", problem);
    }
    settings->path = strdup(url->path);
    if (settings->path == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "sqlite: no memory");
    }
    show_path(settings);
    return SIMBA_OK;
}

void simba__sqlite_settings_fini(struct simba__sqlite_settings *settings)
{
    simba__url_fini(&settings->url);
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

char *simba__sqlite_help(void)
{
    return simba__parameters_help(&form);
}
