/* One server and its connections; see instance.h. */
#define _GNU_SOURCE
#include "backends/redis/redis.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
void simba__redis_log(const struct simba__redis_env *env,
                      enum simba_log_level level,
                      const char *format,
                      ...)
{
    char message[320];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    env->log(env->log_user, level, "redis", message);
}

void simba__redis_opened(struct simba__redis *store, const simba_error *why)
{
    pthread_mutex_lock(&store->lock);
    if (!store->is_opened) {
        store->is_opened = true;
        if (why != NULL) {
            store->why = *why;
        }
        pthread_cond_signal(&store->opened);
    }
    pthread_mutex_unlock(&store->lock);
}

static struct simba__redis_node *node_of(const struct simba__redis_conn *conn)
{
    return conn->owner;
}

/* --- the command connection ---------------------------------------------- */

static void greet_command(struct simba__redis_conn *conn)
{
    simba__redis_greet(&node_of(conn)->command.greeting);
}

/* The other connections go where the commands go: a master that was replaced
 * while it hung may still have them. */
static void follow(const struct simba__redis_node *node,
                   struct simba__redis_conn *conn)
{
    const struct simba__redis_address *now = &node->command.conn.address;

    if (conn->is_wanted && conn->state > SIMBA__REDIS_LOOKING &&
        (conn->address.port != now->port ||
         strcmp(conn->address.host, now->host) != 0)) {
        simba__redis_conn_fail(conn, SIMBA_EUNAVAIL, 0,
                               "is not the master any more");
    }
}

static void command_ready(struct simba__redis_conn *conn)
{
    struct simba__redis_node *node = node_of(conn);
    struct simba__redis *store = node->store;
    const struct simba__redis_facts *facts = &node->command.greeting.facts;

    if (!facts->is_master && store->cluster == NULL) {
        simba__redis_conn_fail(
            conn, store->sentinel != NULL ? SIMBA_EUNAVAIL : SIMBA_EMISCONFIG,
            0, "is a replica and takes no writes");
        return;
    }
    if (facts->is_cluster && store->cluster == NULL) {
        simba__redis_conn_fail(conn, SIMBA_EMISCONFIG, 0,
                               "is a cluster: write redis+cluster://");
        return;
    }
    /* Until something overlaps, a lone caller may read for itself. */
    conn->solo_streak = INT32_MAX;
    if (store->sentinel != NULL) {
        simba__redis_sentinel_was_right(store->sentinel);
    }
    if (store->cluster != NULL) {
        simba__redis_cluster_ready(node);
    } else {
        simba__redis_opened(store, NULL);
    }
    follow(node, &node->subscriber.conn);
    follow(node, &node->waiter.conn);
    simba__redis_queue_send(&node->queue);
    simba__redis_queue_send(&node->waiter_queue);
    if (node->was_ready) {
        simba__redis_log(&store->env, SIMBA_LOG_INFO, "redis %s: back again",
                         conn->shown);
        simba_wake(store->base.loop, NULL); /* much may have happened */
    }
    node->was_ready = true;
}

static void command_down(struct simba__redis_conn *conn, const simba_error *why)
{
    struct simba__redis_node *node = node_of(conn);
    struct simba__redis *store = node->store;
    bool is_loading = node->command.greeting.facts.is_loading;

    simba__redis_log(&store->env, SIMBA_LOG_WARN, "%s", why->message);
    if (store->cluster != NULL) {
        simba__redis_cluster_down(node, why);
    } else if (!is_loading && /* that ends by itself */
               (store->sentinel == NULL ||
                simba__redis_sentinel_is_hopeless(store->sentinel))) {
        simba__redis_opened(store, why);
    }
}

static void aim(struct simba__redis_conn *conn)
{
    struct simba__redis *store = node_of(conn)->store;

    if (store->sentinel != NULL) {
        simba__redis_sentinel_aim(store->sentinel, conn);
    } else {
        simba__redis_conn_dial(conn, &node_of(conn)->address);
    }
}

static const struct simba__redis_conn_hooks command_hooks = {
    .aim = aim,
    .greet = greet_command,
    .ready = command_ready,
    .down = command_down,
};

/* --- the subscriber connection ------------------------------------------- */

static void greet_subscriber(struct simba__redis_conn *conn)
{
    simba__redis_greet(&node_of(conn)->subscriber.greeting);
}

static void subscriber_ready(struct simba__redis_conn *conn)
{
    simba__redis_ears_up(node_of(conn));
}

static void subscriber_down(struct simba__redis_conn *conn,
                            const simba_error *why)
{
    simba__redis_log(conn->env, SIMBA_LOG_WARN, "%s (subscriber)",
                     why->message);
    simba__redis_ears_down(node_of(conn));
}

static void subscriber_heard(struct simba__redis_conn *conn,
                             const redisReply *message)
{
    simba__redis_ears_hear(node_of(conn), message);
}

static const struct simba__redis_conn_hooks subscriber_hooks = {
    .aim = aim,
    .greet = greet_subscriber,
    .ready = subscriber_ready,
    .down = subscriber_down,
    .heard = subscriber_heard,
};

/* --- the connection that waits for replicas ------------------------------ */

static void greet_waiter(struct simba__redis_conn *conn)
{
    simba__redis_greet(&node_of(conn)->waiter.greeting);
}

static void waiter_ready(struct simba__redis_conn *conn)
{
    simba__redis_queue_send(&node_of(conn)->waiter_queue);
}

static void waiter_down(struct simba__redis_conn *conn, const simba_error *why)
{
    simba__redis_log(conn->env, SIMBA_LOG_WARN, "%s (replicas)", why->message);
}

static const struct simba__redis_conn_hooks waiter_hooks = {
    .aim = aim,
    .greet = greet_waiter,
    .ready = waiter_ready,
    .down = waiter_down,
};

/* --- nodes --------------------------------------------------------------- */

static void init_peer(struct simba__redis_node *node,
                      struct simba__redis_peer *peer,
                      const struct simba__redis_conn_hooks *hooks)
{
    const struct simba__redis_settings *s = &node->store->env.settings;

    simba__redis_conn_init(&peer->conn, &node->store->env, hooks, node);
    peer->conn.address = node->address;
    peer->greeting.conn = &peer->conn;
    peer->greeting.user = s->user;
    peer->greeting.password = s->password;
    peer->greeting.database =
        hooks == &subscriber_hooks ? 0 : s->database; /* channels have none */
    peer->greeting.is_curious = hooks == &command_hooks;
}

static void init_queue(struct simba__redis_queue *queue)
{
    queue->first = NULL;
    queue->last = &queue->first;
}

struct simba__redis_node *simba__redis_node_add(
    struct simba__redis *store,
    const struct simba__redis_address *address)
{
    struct simba__redis_node *node = calloc(1, sizeof *node);

    if (node == NULL) {
        return NULL;
    }
    node->store = store;
    node->address = *address;
    init_queue(&node->queue);
    init_queue(&node->waiter_queue);
    init_peer(node, &node->command, &command_hooks);
    init_peer(node, &node->subscriber, &subscriber_hooks);
    init_peer(node, &node->waiter, &waiter_hooks);
    node->next = store->nodes;
    store->nodes = node;
    simba__redis_conn_open(&node->command.conn, NULL);
    return node;
}

void simba__redis_peer_need(struct simba__redis_peer *peer)
{
    if (!peer->conn.is_wanted) {
        simba__redis_conn_open(&peer->conn, NULL);
    }
}

void simba__redis_node_remove(struct simba__redis_node *node)
{
    struct simba__redis_node **at = &node->store->nodes;
    simba_error why;

    simba_error_set(&why, SIMBA_EUNAVAIL, 0, "redis %s: keeps it no more",
                    node->command.conn.shown);
    while (*at != node) {
        at = &(*at)->next;
    }
    *at = node->next;
    simba__redis_conn_close(&node->command.conn);
    simba__redis_conn_close(&node->subscriber.conn);
    simba__redis_conn_close(&node->waiter.conn);
    simba__redis_queue_fail(&node->queue, &why);
    simba__redis_queue_fail(&node->waiter_queue, &why);
    simba__redis_calls_forget(node);
    simba__redis_ears_forget(node);
    simba__redis_drive_forget(node);
    free(node);
}

struct simba__redis_node *simba__redis_node_of(struct simba__redis *store,
                                               const char *mutex)
{
    return store->cluster != NULL ? simba__redis_cluster_node(store, mutex)
                                  : store->nodes;
}

/* A server that was killed may lack the last writes even of an append-only
 * file: it postpones them while the disk is busy. Whoever owns by one of them
 * is back by now and has heard that it does not, before anybody is granted. A
 * server without such a file may lack all owners, those too who are not back.
 */
enum { SETTLE_MS = 400 };

int64_t simba__redis_node_grace(const struct simba__redis_node *node,
                                int64_t lease_ms)
{
    const struct simba__redis_facts *facts = &node->command.greeting.facts;

    if (!node->store->env.settings.has_grace ||
        (facts->keeps_data && !facts->is_new)) {
        return 0;
    }
    return facts->keeps_data ? facts->learned_ms + SETTLE_MS
                             : facts->up_since_ms + lease_ms;
}
