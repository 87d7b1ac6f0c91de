/* What a store needs, told without touching it. */
#define _GNU_SOURCE
#include <simba/admin.h>

#include "api/settings.h"
#include "api/store.h"

#include <string.h>

char *simba__schema_of(const char *url, bool upgrade, simba_error *error)
{
    struct simba__found found;
    simba_backend_config config = {.url = url, .log = simba__log_nothing};
    char *text;

    if (simba__registry_find(url, &found, error) != SIMBA_OK) {
        return NULL;
    }
    config.rest = found.rest;
    if (found.ops->schema != NULL) {
        text = found.ops->schema(&config, upgrade, error);
    } else if ((text = strdup("")) == NULL) {
        simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    /* cppcheck takes the text for a part of what it was made from. */
    // cppcheck-suppress returnDanglingLifetime
    return text;
}

int simba_admin_schema(const char *url,
                       bool upgrade,
                       char **text,
                       simba_error *error)
{
    struct simba__settings settings;
    simba_error why = {0};
    int rc =
        simba__settings_find(&settings, url, SIMBA_CONFIG_WHEN_ASKED, &why);

    *text = NULL;
    if (rc == SIMBA_OK) {
        *text = simba__schema_of(settings.url, upgrade, &why);
        rc = *text != NULL ? SIMBA_OK : why.code;
    }
    simba__settings_free(&settings);
    if (error != NULL) {
        *error = why;
    }
    return rc;
}
