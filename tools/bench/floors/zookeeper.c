/* What a benchmark compares with: the bare client library, its blocking calls,
 * and none of ours between. */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include <simba/sys/bench.h>

#include <stdlib.h>
#include <string.h>

enum { PATIENCE_MS = 10000, FLOOR_TIMEOUT_MS = 16000 };

struct simba_floor {
    struct simba__zk_settings settings;
    struct simba__zk_client plain;
    char *room;  /* a mutex of its own */
    char *latch; /* prefix of what a pair creates */
    char *bell;  /* the node whose end wakes who is armed */
    int events;  /* watches that had fired when it was armed */
};

static int fail(const simba_floor *floor, int rc, simba_error *error)
{
    return simba_error_set(error, SIMBA_EUNAVAIL, rc, "zookeeper %.120s: %s",
                           floor->settings.hosts, zerror(rc));
}

static void make_parents(const simba_floor *floor)
{
    zhandle_t *handle = floor->plain.handle;
    char *path = strdup(floor->room);

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
    floor->room = simba__zk_join(floor->settings.base, escaped);
    if (floor->room == NULL) {
        return false;
    }
    floor->latch = simba__zk_join(floor->room, "floor-latch-");
    floor->bell = simba__zk_join(floor->room, "bell");
    return floor->latch != NULL && floor->bell != NULL;
}

static void close_floor(simba_floor *floor)
{
    if (floor == NULL) {
        return;
    }
    if (floor->plain.handle != NULL) {
        simba__zk_client_close(&floor->plain);
    }
    simba__zk_settings_fini(&floor->settings);
    free(floor->room);
    free(floor->latch);
    free(floor->bell);
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
        rc = simba__zk_settings_init(&floor->settings, strchr(url, ':') + 1,
                                     error);
    }
    if (rc == SIMBA_OK && !name_nodes(floor, mutex)) {
        rc = SIMBA_ENOMEM;
    }
    if (rc == SIMBA_OK &&
        !simba__zk_client_open(&floor->plain, &floor->settings, FLOOR_TIMEOUT_MS,
                              simba_loop_now_ms() + PATIENCE_MS)) {
        rc = fail(floor, ZCONNECTIONLOSS, error);
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
    zhandle_t *handle = floor->plain.handle;
    char node[2048];
    int rc = zoo_create(handle, floor->latch, "floor", 5, &ZOO_OPEN_ACL_UNSAFE,
                        ZOO_EPHEMERAL_SEQUENTIAL, node, sizeof node);

    return rc == ZOK ? zoo_delete(handle, node, -1) : rc;
}

static int arm(simba_floor *floor)
{
    zhandle_t *handle = floor->plain.handle;
    struct Stat stat;
    int rc = zoo_create(handle, floor->bell, "floor", 5, &ZOO_OPEN_ACL_UNSAFE,
                        ZOO_EPHEMERAL, NULL, 0);

    pthread_mutex_lock(&floor->plain.lock);
    floor->events = floor->plain.events;
    pthread_mutex_unlock(&floor->plain.lock);
    if (rc == ZOK || rc == ZNODEEXISTS) {
        rc = zoo_wexists(handle, floor->bell, simba__zk_client_watch,
                         &floor->plain, &stat);
    }
    return rc;
}

static int await(simba_floor *floor)
{
    struct String_vector children = {0, NULL};
    int rc;

    if (!simba__zk_client_await(&floor->plain, floor->events + 1,
                               simba_loop_now_ms() + PATIENCE_MS)) {
        return ZOPERATIONTIMEOUT;
    }
    rc = zoo_get_children(floor->plain.handle, floor->room, 0, &children);
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
        rc = zoo_delete(floor->plain.handle, floor->bell, -1);
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
