/* The store behind names and shims: what a bare exchange connects to. */
#define _GNU_SOURCE
#include <simba/sys/bench.h>

#include "api/settings.h"
#include "api/store.h"
#include "shims/shim.h"

#include <stdlib.h>
#include <string.h>

int simba_bench_bare_url(const char *store,
                         char **out,
                         const char **backend,
                         simba_error *error)
{
    struct simba__settings settings;
    struct simba__found found;
    const char *url;
    int rc =
        simba__settings_find(&settings, store, SIMBA_CONFIG_WHEN_ASKED, error);

    *out = NULL;
    if (rc == SIMBA_OK) {
        url = settings.url;
        rc = simba__registry_find(url, &found, error);
    }
    while (rc == SIMBA_OK && simba__shim_is_one(found.ops)) {
        char *options;

        rc = simba__shim_split(found.rest, &options, &url, error);
        if (rc == SIMBA_OK) {
            free(options);
            rc = simba__registry_find(url, &found, error);
        }
    }
    if (rc == SIMBA_OK) {
        *backend = found.ops->scheme;
        *out = strdup(url);
        rc = *out != NULL
                 ? SIMBA_OK
                 : simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    simba__settings_free(&settings);
    return rc;
}
