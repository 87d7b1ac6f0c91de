/* What a benchmark compares with: the bare client library, its blocking calls,
 * and none of ours between. */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include <simba/sys/bench.h>

#define THREADED /* the blocking calls as well */
#include <zookeeper/zookeeper.h>

#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PATIENCE_MS = 10000, FLOOR_TIMEOUT_MS = 16000 };

struct simba_floor {
    simba__zk_settings settings;
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

static int fail(int rc, simba_error *error)
{
    return simba_error_set(error, SIMBA_EUNAVAIL, rc, "zookeeper: %s",
                           zerror(rc));
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

static bool join(char **joined, const char *path, const char *node)
{
    return asprintf(joined, "%s/%s", path, node) >= 0;
}

static bool name_nodes(simba_floor *floor, const char *mutex)
{
    char escaped[SIMBA__ZK_ESCAPED_SIZE];

    simba__zk_escape(mutex, escaped);
    return join(&floor->mutex, floor->settings.base, escaped) &&
           join(&floor->latch, floor->mutex, "floor-latch-") &&
           join(&floor->watched, floor->mutex, "bell");
}

static void close_floor(simba_floor *floor)
{
    if (floor->handle != NULL) {
        zookeeper_close(floor->handle);
    }
    sem_destroy(&floor->woken);
    simba__zk_settings_fini(&floor->settings);
    free(floor->mutex);
    free(floor->latch);
    free(floor->watched);
}

static void drop_message(const char *message)
{
    (void)message;
}

static bool connect_floor(simba_floor *floor)
{
    const struct timespec nap = {0, 2000000};
    int64_t until_ms = simba_loop_now_ms() + PATIENCE_MS;
    const struct simba__url *url = &floor->settings.servers.url;
    const char *auth = floor->settings.auth;
    struct simba__text hosts = {0};
    char *text;

    zoo_set_debug_level((ZooLogLevel)0);
    for (size_t i = 0; i < url->host_count; i++) {
        simba__text_printf(&hosts, "%s%s:%d", i == 0 ? "" : ",",
                           url->hosts[i].name, url->hosts[i].port);
    }
    text = simba__text_take(&hosts);
    floor->handle = zookeeper_init2(text, NULL, FLOOR_TIMEOUT_MS, NULL, NULL,
                                    ZOO_NO_LOG_CLIENTENV, drop_message);
    free(text);
    while (floor->handle != NULL &&
           zoo_state(floor->handle) != ZOO_CONNECTED_STATE &&
           simba_loop_now_ms() < until_ms) {
        nanosleep(&nap, NULL);
    }
    if (floor->handle != NULL && auth != NULL) {
        zoo_add_auth(floor->handle, "digest", auth, (int)strlen(auth), NULL,
                     NULL);
    }
    return floor->handle != NULL &&
           zoo_state(floor->handle) == ZOO_CONNECTED_STATE;
}

static int open_floor(simba_floor *floor,
                      const char *url,
                      const char *mutex,
                      simba_error *error)
{
    int rc =
        simba__zk_settings_init(&floor->settings, strchr(url, ':') + 1, error);

    sem_init(&floor->woken, 0, 0);
    if (rc != SIMBA_OK) {
        return rc;
    }
    if (!name_nodes(floor, mutex)) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "zookeeper: no memory");
    }
    if (!connect_floor(floor)) {
        return fail(ZCONNECTIONLOSS, error);
    }
    make_parents(floor);
    return SIMBA_OK;
}

static int answer(int rc, simba_error *error)
{
    return rc == ZOK ? SIMBA_OK : fail(rc, error);
}

static int pair(simba_floor *floor, simba_error *error)
{
    zhandle_t *handle = floor->handle;
    char node[2048];
    int rc = zoo_create(handle, floor->latch, "floor", 5, &ZOO_OPEN_ACL_UNSAFE,
                        ZOO_EPHEMERAL_SEQUENTIAL, node, sizeof node);

    return answer(rc == ZOK ? zoo_delete(handle, node, -1) : rc, error);
}

static int arm(simba_floor *floor, simba_error *error)
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
    return answer(rc, error);
}

static int notify(simba_floor *floor, simba_error *error)
{
    return answer(zoo_delete(floor->handle, floor->watched, -1), error);
}

static int await(simba_floor *floor, simba_error *error)
{
    struct String_vector children = {0, NULL};
    struct timespec until;
    int rc;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_MS / 1000;
    while (sem_timedwait(&floor->woken, &until) != 0) {
        if (errno != EINTR) {
            return fail(ZOPERATIONTIMEOUT, error);
        }
    }
    rc = zoo_get_children(floor->handle, floor->mutex, 0, &children);
    if (rc == ZOK) {
        deallocate_String_vector(&children);
    }
    return answer(rc, error);
}

const simba_floor_ops simba_floor_module = {SIMBA_FLOOR_ABI,
                                            sizeof(simba_floor),
                                            open_floor,
                                            close_floor,
                                            {pair, arm, notify, await}};
