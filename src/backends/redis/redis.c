/* The Redis store: `redis://`, `rediss://`, `redis+unix://`,
 * `redis+sentinel://`, `redis+cluster://`. Here it is opened and closed; what
 * its files do is told in README.md. */
#define _GNU_SOURCE
#include "backends/redis/redis.h"

#include <stdlib.h>
#include <unistd.h>

struct simba__redis_server *simba__redis_server_of(struct simba__redis *store,
                                                   const char *mutex)
{
    return store->cluster != NULL
               ? simba__redis_cluster_find(store->cluster, mutex)
               : store->servers;
}

/* --- closing ------------------------------------------------------------- */

static void detach(simba_backend *self)
{
    struct simba__redis *store = (struct simba__redis *)self;
    simba_loop *loop = self->loop;
    simba_error why;

    if (store->sentinel != NULL) {
        simba__redis_connection_close(&store->sentinel->connection);
    }
    while (store->servers != NULL) {
        simba__redis_server_remove(store->servers);
    }
    if (store->cluster != NULL) {
        simba__redis_cluster_stop(store->cluster);
    }
    simba_error_set(&why, SIMBA_EUNAVAIL, 0, "redis: the store is closed");
    simba__redis_requests_end(store, &why);
    simba__redis_admin_fail(store, &why);
    simba_timer_clear(loop, &store->sweep);
    simba_timer_clear(loop, &store->grace);
}

static void close_store(simba_backend *self)
{
    struct simba__redis *store = (struct simba__redis *)self;

    simba__hash_free(&store->channels);
    simba__hash_free(&store->subscriptions);
    simba__tls_context_close(store->tls);
    simba__redis_settings_fini(&store->settings);
    free(store->sentinel);
    free(store->cluster);
    free(store);
}

static void forked(simba_backend *self)
{
    const struct simba__redis *store = (struct simba__redis *)self;

    for (struct simba__redis_server *s = store->servers; s != NULL;
         s = s->next) {
        simba_connection_forked(s->command.link);
        simba_connection_forked(s->subscriber.link);
        simba_connection_forked(s->replication.link);
    }
    if (store->sentinel != NULL) {
        simba_connection_forked(store->sentinel->connection.link);
    }
}

/* --- opening ------------------------------------------------------------- */

static void on_grace_over(simba_timer *timer)
{
    struct simba__redis *store =
        container_of(timer, struct simba__redis, grace);

    simba_wake(store->base.loop, NULL);
}

void simba__redis_reached(struct simba__redis *store)
{
    bool has_failed = store->has_failed;

    store->was_reached = true;
    store->unheard.code = SIMBA_OK;
    store->has_failed = false;
    simba__redis_backlog_send(&store->backlog);
    if (has_failed) { /* those who wait for the server */
        simba_wake(store->base.loop, NULL);
    }
}

/* Who has never been answered most likely has the wrong address, or comes
 * before the server, and wants to know. Later, a connection that is lost is
 * back before a request has to give up. */
void simba__redis_unreachable(struct simba__redis *store,
                              const simba_error *given)
{
    simba_error why = *given; /* a connection that is tried again changes it */

    if (store->was_reached) {
        return;
    }
    store->has_failed = true;
    if (store->requests == NULL && store->admin_requests == NULL) {
        store->unheard = why;
    }
    simba__redis_backlog_fail(&store->backlog, &why);
    for (struct simba__redis_server *s = store->servers; s != NULL;
         s = s->next) {
        simba__redis_backlog_fail(&s->backlog, &why);
    }
    simba__redis_admin_fail(store, &why);
}

/* A cluster is found by any of its servers; sentinels tell the one there is. */
static bool start_servers(struct simba__redis *store)
{
    const struct simba__redis_settings *s = &store->settings;
    int count = s->shape == SIMBA__REDIS_CLUSTER ? s->address_count : 1;
    bool is_started = true;

    if (s->shape == SIMBA__REDIS_SENTINEL) {
        store->sentinel = simba__redis_sentinel_make(store);
        is_started = store->sentinel != NULL;
    } else if (s->shape == SIMBA__REDIS_CLUSTER) {
        store->cluster = simba__redis_cluster_make(store);
        is_started = store->cluster != NULL;
    }
    simba_loop_enter(store->base.loop);
    simba_loop_look(store->base.loop, simba__redis_look, &store->base);
    for (int i = 0; i < count && is_started; i++) {
        is_started = simba__redis_server_add(store, &s->addresses[i]) != NULL;
    }
    simba_loop_leave(store->base.loop);
    return is_started;
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
    store->log = (struct simba__log){config->log, config->log_user, "redis"};
    store->backlog.last = &store->backlog.first;
    store->sweep.fire = simba__redis_sweep;
    store->grace.fire = on_grace_over;
    rc = simba__redis_settings_init(&store->settings, config->url, error);
    if (rc == SIMBA_OK) {
        rc = simba__tls_context_open(&store->settings.tls, "redis", &store->tls,
                                     error);
    }
    if (rc == SIMBA_OK && !start_servers(store)) {
        rc = simba_error_set(error, SIMBA_ENOMEM, 0, "redis: out of memory");
        simba_loop_enter(config->loop);
        detach(&store->base);
        simba_loop_leave(config->loop);
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
    simba_error unheard = store->unheard;

    if (unheard.code != SIMBA_OK) { /* for the first who asks */
        store->unheard.code = SIMBA_OK;
        simba_request_done(request, unheard.code, &unheard);
        return;
    }
    if (request->mutex[0] == '\0') { /* of all servers */
        simba__redis_admin_start(store, request);
    } else {
        simba__redis_request_start(store, request);
    }
}

/* A caller reads the two sockets of one server: in a cluster, of the one that
 * its last request went to. What overlaps elsewhere is read by the loop. */
bool simba__redis_drive_here(struct simba__redis_server *server)
{
    struct simba__redis *store = server->store;
    const struct simba__redis_server *before = store->driven;

    if (before != NULL && before != server) {
        simba_connection_drive(before->command.link, before->subscriber.link,
                               0);
    }
    store->driven = server;
    return store->polled == NULL || store->polled == server;
}

static bool drive(simba_backend *self, int64_t until_ms)
{
    struct simba__redis *store = (struct simba__redis *)self;
    const struct simba__redis_server *server;
    bool goes_on;

    simba_loop_enter(self->loop);
    server = store->driven;
    store->polled = server;
    goes_on = server != NULL &&
              simba_connection_drive(server->command.link,
                                     server->subscriber.link, until_ms);
    store->polled = NULL;
    simba_loop_leave(self->loop);
    return goes_on;
}

static int64_t certain_ms(simba_backend *self)
{
    return ((struct simba__redis *)self)->settings.grace_ms;
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
                    SIMBA_CAN_DOCTOR | SIMBA_CAN_OBSERVE | SIMBA_TELLS_ENDED |
                    SIMBA_HAS_SERVER | SIMBA_CAN_SLOTS | SIMBA_NUMBERS_SLOTS |
                    SIMBA_CAN_HAND_OVER | SIMBA_CAN_TELL | SIMBA_TELLS_BREAKS,
    .subscription = simba__redis_subscribe,
    .drive = drive,
    .help = simba__redis_help,
    .certain_ms = certain_ms,
};
