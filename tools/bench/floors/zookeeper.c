/* What a benchmark compares with: the bare client library, its blocking calls,
 * and none of ours between. */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include <simba/sys/bench.h>

#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PATIENCE_MS = 10000, FLOOR_TIMEOUT_MS = 16000 };

struct simba_floor {
    struct simba__zk_settings settings;
    zhandle_t *handle;
    char *mutex;   /* the node of a mutex of its own */
    char *latch;   /* prefix of what a pair creates */
    char *watched; /* the node whose end wakes who is armed */
    sem_t woken;
};

/* NOLINTNEXTLINE(readability-function-size): the client library's signature */
static void on_event(zhandle_t *handle,
                     int type,
                     int state,
                     const char *path,
                     void *context)
{
    simba_floor *floor = context;

    (void)handle;
    (void)state;
    (void)path;
    if (type != ZOO_SESSION_EVENT) {
        sem_post(&floor->woken);
    }
}

static int fail(const simba_floor *floor, int rc, simba_error *error)
{
    return simba_error_set(error, SIMBA_EUNAVAIL, rc, "zookeeper %.120s: %s",
                           floor->settings.hosts, zerror(rc));
}

static void make_parents(const simba_floor *floor)
{
    zhandle_t *handle = floor->handle;
    char *path = strdup(floor->mutex);

    for (char *at = path; at != NULL;) {
        at = strchr(at + 1, '/');
        if (at != NULL) {
            *at = '\0';
        }
        zoo_create(handle, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT,
                   NULL, 0);
        if (at != NULL) {
            *at = '/';
        }
    }
    free(path);
}

static bool name_nodes(simba_floor *floor, const char *mutex)
{
    char escaped[SIMBA__ZK_ESCAPED_SIZE];

    simba__zk_escape(mutex, escaped);
    floor->mutex = simba__zk_join(floor->settings.base, escaped);
    if (floor->mutex == NULL) {
        return false;
    }
    floor->latch = simba__zk_join(floor->mutex, "floor-latch-");
    floor->watched = simba__zk_join(floor->mutex, "bell");
    return floor->latch != NULL && floor->watched != NULL;
}

static void close_floor(simba_floor *floor)
{
    if (floor == NULL) {
        return;
    }
    if (floor->handle != NULL) {
        zookeeper_close(floor->handle);
    }
    sem_destroy(&floor->woken);
    simba__zk_settings_fini(&floor->settings);
    free(floor->mutex);
    free(floor->latch);
    free(floor->watched);
    free(floor);
}

static int open_floor(const char *url,
                      const char *mutex,
                      simba_floor **out,
                      simba_error *error)
{
    simba_floor *floor = calloc(1, sizeof *floor);
    int rc = SIMBA_ENOMEM;

    *out = NULL;
    if (floor != NULL) {
        sem_init(&floor->woken, 0, 0);
        rc = simba__zk_settings_init(&floor->settings, strchr(url, ':') + 1,
                                     error);
    }
    if (rc == SIMBA_OK && !name_nodes(floor, mutex)) {
        rc = SIMBA_ENOMEM;
    }
    if (rc == SIMBA_OK) {
        floor->handle = simba__zk_connect(&floor->settings, FLOOR_TIMEOUT_MS,
                                          simba_loop_now_ms() + PATIENCE_MS);
        if (floor->handle == NULL) {
            rc = fail(floor, ZCONNECTIONLOSS, error);
        }
    }
    if (rc != SIMBA_OK) {
        close_floor(floor);
        return rc == SIMBA_ENOMEM
                   ? simba_error_set(error, rc, 0, "zookeeper: no memory")
                   : rc;
    }
    make_parents(floor);
    *out = floor;
    return SIMBA_OK;
}

static int pair(const simba_floor *floor)
{
    zhandle_t *handle = floor->handle;
    char node[2048];
    int rc = zoo_create(handle, floor->latch, "floor", 5, &ZOO_OPEN_ACL_UNSAFE,
                        ZOO_EPHEMERAL_SEQUENTIAL, node, sizeof node);

    return rc == ZOK ? zoo_delete(handle, node, -1) : rc;
}

static int arm(simba_floor *floor)
{
    zhandle_t *handle = floor->handle;
    struct Stat stat;
    int rc = zoo_create(handle, floor->watched, "floor", 5,
                        &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL, 0);

    while (sem_trywait(&floor->woken) == 0) {
    }
    if (rc == ZOK || rc == ZNODEEXISTS) {
        rc = zoo_wexists(handle, floor->watched, on_event, floor, &stat);
    }
    return rc;
}

static int await(simba_floor *floor)
{
    struct String_vector children = {0, NULL};
    struct timespec until;
    int rc;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_MS / 1000;
    while (sem_timedwait(&floor->woken, &until) != 0) {
        if (errno != EINTR) {
            return ZOPERATIONTIMEOUT;
        }
    }
    rc = zoo_get_children(floor->handle, floor->mutex, 0, &children);
    if (rc == ZOK) {
        deallocate_String_vector(&children);
    }
    return rc;
}

static int run_step(simba_floor *floor,
                    enum simba_floor_step step,
                    simba_error *error)
{
    int rc = ZBADARGUMENTS;

    switch (step) {
    case SIMBA_FLOOR_PAIR:
        rc = pair(floor);
        break;
    case SIMBA_FLOOR_ARM:
        rc = arm(floor);
        break;
    case SIMBA_FLOOR_NOTIFY:
        rc = zoo_delete(floor->handle, floor->watched, -1);
        break;
    case SIMBA_FLOOR_AWAIT:
        rc = await(floor);
        break;
    }
    return rc == ZOK ? SIMBA_OK : fail(floor, rc, error);
}

SIMBA_API extern const simba_floor_ops simba_floor_module;
const simba_floor_ops simba_floor_module = {
    .abi = SIMBA_FLOOR_ABI,
    .open = open_floor,
    .step = run_step,
    .close = close_floor,
};
