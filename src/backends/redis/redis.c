/* The Redis store: `redis://`, `rediss://`, `redis+unix://`,
 * `redis+sentinel://`, `redis+cluster://`. Here it is opened and closed; what
 * its files do is told in README.md. */
#define _GNU_SOURCE
#include "backends/redis/redis.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* A server that still loads its data is waited for so long. */
enum { OPEN_S = 10 };

/* --- opening ------------------------------------------------------------- */

static void on_grace_over(simba_timer *timer)
{
    struct simba__redis *store =
        (struct simba__redis *)((char *)timer -
                                offsetof(struct simba__redis, grace));

    simba__redis_turn_begin(&store->env);
    simba_wake(store->base.loop, NULL);
    simba__redis_turn_end(&store->env);
}

static bool make_shape(struct simba__redis *store)
{
    switch (store->env.settings.shape) {
    case SIMBA__REDIS_SENTINEL:
        store->sentinel = simba__redis_sentinel_make(store);
        return store->sentinel != NULL;
    case SIMBA__REDIS_CLUSTER:
        store->cluster = simba__redis_cluster_make(store);
        return store->cluster != NULL;
    default:
        return true;
    }
}

/* A cluster is found by any of its servers; sentinels tell the one there is. */
static bool start_nodes(struct simba__redis *store)
{
    const struct simba__redis_settings *s = &store->env.settings;
    int count = store->cluster != NULL ? s->address_count : 1;
    bool is_started = true;

    simba_loop_enter(store->base.loop);
    simba__redis_turn_begin(&store->env);
    for (int i = 0; i < count && is_started; i++) {
        is_started = simba__redis_node_add(store, &s->addresses[i]) != NULL;
    }
    simba__redis_turn_end(&store->env);
    simba_loop_leave(store->base.loop);
    return is_started;
}

static int await_opened(struct simba__redis *store, simba_error *error)
{
    struct timespec until;
    int rc = SIMBA_OK;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += OPEN_S;
    pthread_mutex_lock(&store->lock);
    while (!store->is_opened && rc == 0) {
        rc = pthread_cond_timedwait(&store->opened, &store->lock, &until);
    }
    if (!store->is_opened) {
        store->is_opened = true;
        simba_error_set(&store->why, SIMBA_EUNAVAIL, 0,
                        "redis %s: not ready in time",
                        store->env.settings.shown);
    }
    if (store->why.code != SIMBA_OK && error != NULL) {
        *error = store->why;
    }
    rc = store->why.code;
    pthread_mutex_unlock(&store->lock);
    return rc;
}

static void detach(simba_backend *self)
{
    struct simba__redis *store = (struct simba__redis *)self;

    simba__redis_turn_begin(&store->env);
    if (store->sentinel != NULL) {
        simba__redis_sentinel_stop(store->sentinel);
    }
    while (store->nodes != NULL) {
        simba__redis_node_remove(store->nodes);
    }
    if (store->cluster != NULL) {
        simba__redis_cluster_stop(store->cluster);
    }
    simba__redis_calls_end(store);
    simba__redis_admin_end(store);
    simba_timer_clear(store->base.loop, &store->deadline);
    simba_timer_clear(store->base.loop, &store->sweep);
    simba_timer_clear(store->base.loop, &store->again);
    simba_timer_clear(store->base.loop, &store->grace);
    simba__redis_turn_end(&store->env);
    simba__redis_turn_stop(&store->env);
}

static void close_store(simba_backend *self)
{
    struct simba__redis *store = (struct simba__redis *)self;

    simba__redis_ears_fini(store);
    simba__redis_tls_context_close(store->env.tls);
    simba__redis_settings_fini(&store->env.settings);
    free(store->sentinel);
    free(store->cluster);
    pthread_mutex_destroy(&store->lock);
    pthread_cond_destroy(&store->opened);
    free(store);
}

/* Waiting for the opening must not hang on somebody setting the clock. */
static void init_opened(struct simba__redis *store)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&store->lock, NULL);
    pthread_cond_init(&store->opened, &attributes);
    pthread_condattr_destroy(&attributes);
}

static int open_connected(struct simba__redis *store, simba_error *error)
{
    int rc;

    if (!make_shape(store) || !start_nodes(store)) {
        rc = simba_error_set(error, SIMBA_ENOMEM, 0, "redis: out of memory");
    } else {
        rc = await_opened(store, error);
    }
    if (rc != SIMBA_OK) {
        simba_loop_enter(store->base.loop);
        detach(&store->base);
        simba_loop_leave(store->base.loop);
    }
    return rc;
}

static int open_store(const simba_backend_config *config,
                      simba_backend **out,
                      simba_error *error)
{
    struct simba__redis *store = calloc(1, sizeof *store);
    int rc;

    *out = NULL;
    if (store == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "redis: out of memory");
    }
    store->base.ops = &simba_module;
    store->base.loop = config->loop;
    store->env.loop = config->loop;
    store->env.log = config->log;
    store->env.log_user = config->log_user;
    store->deadline.fire = simba__redis_calls_overdue;
    store->sweep.fire = simba__redis_ears_sweep;
    store->again.fire = simba__redis_again;
    store->grace.fire = on_grace_over;
    init_opened(store);
    rc = simba__redis_settings_init(&store->env.settings, config->url, error);
    if (rc == SIMBA_OK) {
        rc = simba__redis_tls_context_open(&store->env.settings,
                                           &store->env.tls, error);
    }
    if (rc == SIMBA_OK) {
        rc = open_connected(store, error);
    }
    if (rc != SIMBA_OK) {
        close_store(&store->base);
        return rc;
    }
    *out = &store->base;
    return SIMBA_OK;
}

/* --- the table ----------------------------------------------------------- */

static void submit(simba_backend *self, simba_request *request)
{
    struct simba__redis *store = (struct simba__redis *)self;
    bool is_driven = request->is_driven;

    simba__redis_turn_begin(&store->env);
    if (request->kind == SIMBA_LIST || request->kind == SIMBA_DOCTOR) {
        simba__redis_admin_start(store, request);
    } else {
        simba__redis_call_start(store, request);
    }
    if (is_driven) {
        simba__redis_turn_end(&store->env);
    } else {
        simba__redis_turn_end_later(&store->env);
    }
}

static void subscription(simba_backend *self,
                         const char *mutex,
                         enum simba_subscription subscription)
{
    simba__redis_ears_subscription((struct simba__redis *)self, mutex,
                                   subscription);
}

static void close_in_child(struct simba__redis_conn *conn)
{
    if (conn->io.fd >= 0) {
        close(conn->io.fd);
        conn->io.fd = -1;
    }
}

static void forked(simba_backend *self)
{
    const struct simba__redis *store = (struct simba__redis *)self;

    for (struct simba__redis_node *n = store->nodes; n != NULL; n = n->next) {
        close_in_child(&n->command.conn);
        close_in_child(&n->subscriber.conn);
        close_in_child(&n->waiter.conn);
    }
    if (store->sentinel != NULL) {
        close_in_child(simba__redis_sentinel_conn(store->sentinel));
    }
}

const simba_backend_ops simba_module = {
    .abi = SIMBA_BACKEND_ABI,
    .scheme = "redis",
    .least_lease_ms = 100,
    .open = open_store,
    .submit = submit,
    .close = close_store,
    .detach = detach,
    .forked = forked,
    .capabilities = SIMBA_CAN_PUSH | SIMBA_CAN_LIST | SIMBA_CAN_BREAK |
                    SIMBA_CAN_DOCTOR | SIMBA_CAN_OBSERVE | SIMBA_TELLS_ENDED,
    .subscription = subscription,
    .drive = simba__redis_drive,
};
