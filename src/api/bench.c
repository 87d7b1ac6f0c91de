/* The bare exchanges of a backend, by URL. */
#define _GNU_SOURCE
#include <simba/sys/bench.h>

#include "api/settings.h"
#include "api/store.h"
#include "shims/shim.h"

#include <stdlib.h>

struct simba_bench {
    const simba_backend_ops *ops;
    simba_floor *floor;
};

/* The store behind all shims: the bare exchange knows nothing of them. */
static int find_bare(const char **url,
                     struct simba__found *found,
                     simba_error *error)
{
    int rc = simba__registry_find(*url, found, error);

    while (rc == SIMBA_OK && simba__shim_is_one(found->ops)) {
        char *options;

        rc = simba__shim_split(found->rest, &options, url, error);
        if (rc == SIMBA_OK) {
            free(options);
            rc = simba__registry_find(*url, found, error);
        }
    }
    return rc;
}

static int open_floor(simba_bench *bench,
                      const char *url,
                      const char *mutex,
                      simba_error *error)
{
    simba_backend_config config = {.log = simba__log_nothing};
    struct simba__found found;
    int rc = find_bare(&url, &found, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    bench->ops = found.ops;
    config.url = url;
    config.rest = found.rest;
    if (found.ops->floor_open == NULL) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "a %s store has no bare exchange to compare "
                               "with",
                               found.ops->scheme);
    }
    return found.ops->floor_open(&config, mutex, &bench->floor, error);
}

int simba_bench_open(const char *url,
                     const char *mutex,
                     simba_bench **out,
                     simba_error *error)
{
    simba_bench *bench = calloc(1, sizeof *bench);
    struct simba__settings settings;
    int rc;

    *out = NULL;
    if (bench == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    rc = simba__settings_find(&settings, url, SIMBA_CONFIG_WHEN_ASKED, error);
    if (rc == SIMBA_OK) {
        rc = open_floor(bench, settings.url, mutex, error);
    }
    simba__settings_free(&settings);
    if (rc != SIMBA_OK) {
        free(bench);
        return rc;
    }
    *out = bench;
    return SIMBA_OK;
}

int simba_bench_step(simba_bench *bench,
                     enum simba_floor_step step,
                     simba_error *error)
{
    return bench->ops->floor_step(bench->floor, step, error);
}

void simba_bench_close(simba_bench *bench)
{
    if (bench != NULL) {
        bench->ops->floor_close(bench->floor);
        free(bench);
    }
}
