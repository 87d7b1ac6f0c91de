/* The floor of a store: its module, found beside this program or where
 * $SIMBA_MODULE_PATH says, and one connection of it. */
#define _GNU_SOURCE
#include "bench/bench.h"

#include <assert.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct simba__floor {
    const simba_floor_ops *ops;
    simba_floor *connection;
    bool is_remote;
};

/* It stays loaded: NULL when the directory has none. */
static const simba_floor_ops *load(const char *directory,
                                   size_t length,
                                   const char *backend,
                                   simba_error *error)
{
    char path[PATH_MAX];
    int count = snprintf(path, sizeof path, "%.*s/simba-floor-%s.so",
                         (int)length, directory, backend);
    const simba_floor_ops *ops = NULL;
    void *module;

    if (length == 0 || count >= (int)sizeof path || access(path, F_OK) != 0) {
        return NULL;
    }
    module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (module != NULL) {
        ops = dlsym(module, SIMBA_FLOOR_SYMBOL);
    }
    if (ops == NULL || ops->abi != SIMBA_FLOOR_ABI) {
        (void)simba_error_set(error, SIMBA_EMISCONFIG, 0,
                              "the floor of this store cannot be loaded: %s",
                              ops == NULL ? dlerror() : "of another version");
        return NULL;
    }
    return ops;
}

/* NULL with error->code SIMBA_OK: there is none. */
static const simba_floor_ops *find(const char *backend, simba_error *error)
{
    const char *path = secure_getenv("SIMBA_MODULE_PATH");
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    const simba_floor_ops *ops = NULL;

    error->code = SIMBA_OK;
    if (length > 0) {
        self[length] = '\0';
        ops = load(self, (size_t)(strrchr(self, '/') - self), backend, error);
    }
    while (ops == NULL && error->code == SIMBA_OK && path != NULL &&
           *path != '\0') {
        size_t part = strcspn(path, ":");

        ops = load(path, part, backend, error);
        path += part + (path[part] == ':');
    }
    return ops;
}

int simba__floor_open(const char *store,
                      const char *mutex,
                      struct simba__floor **out,
                      simba_error *error)
{
    struct simba__floor *floor = calloc(1, sizeof *floor);
    const char *backend = "";
    char *url = NULL;
    int rc;

    *out = NULL;
    if (floor == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    rc = simba_bench_bare_url(store, &url, &backend, error);
    if (rc == SIMBA_OK) {
        floor->ops = find(backend, error);
        floor->is_remote = strcmp(backend, "sqlite") != 0;
        rc = error->code;
    }
    if (rc == SIMBA_OK && floor->ops != NULL) {
        floor->connection = calloc(1, floor->ops->size);
        rc = floor->connection != NULL
                 ? floor->ops->open(floor->connection, url, mutex, error)
                 : simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    if (url != NULL) {
        explicit_bzero(url, strlen(url));
        free(url);
    }
    if (rc == SIMBA_OK && floor->ops != NULL) {
        *out = floor;
        return SIMBA_OK;
    }
    simba__floor_close(floor);
    return rc == SIMBA_EINVAL ? SIMBA_OK : rc; /* there is none */
}

bool simba__floor_is_remote(const struct simba__floor *floor)
{
    return floor->is_remote;
}

int simba__floor_step(struct simba__floor *floor,
                      enum simba_floor_step step,
                      simba_error *error)
{
    assert(floor->connection != NULL && floor->ops->steps[step] != NULL);
    return floor->ops->steps[step](floor->connection, error);
}

void simba__floor_close(struct simba__floor *floor)
{
    if (floor != NULL && floor->connection != NULL) {
        floor->ops->close(floor->connection);
        free(floor->connection);
    }
    free(floor);
}
