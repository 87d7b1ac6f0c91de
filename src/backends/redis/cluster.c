/* Cluster; see cluster.h.
 *
 * The map of slots is asked for when the first server is there, and again
 * whenever something contradicts it, from any server that is there. */
#define _GNU_SOURCE
#include "backends/redis/redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 16384, LOOK_AGAIN_MS = 100 };

struct simba__redis_cluster {
    struct simba__redis *store;
    struct simba__redis_node *slots[SLOTS];
    simba_timer look; /* at the map again */
    simba_timer tidy; /* servers that keep nothing any more */
    struct simba__redis_ask ask;
    struct simba__redis_node *asked; /* NULL: nobody */
    bool is_known;
};

static void on_map(struct simba__redis_ask *ask,
                   const redisReply *reply,
                   const simba_error *why);

struct simba__redis_node *simba__redis_cluster_node(struct simba__redis *store,
                                                    const char *mutex)
{
    return store->cluster->slots[simba__redis_slot_of(mutex)];
}

/* --- the map ------------------------------------------------------------- */

static struct simba__redis_node *node_at(
    struct simba__redis *store,
    const struct simba__redis_address *address)
{
    for (struct simba__redis_node *n = store->nodes; n != NULL; n = n->next) {
        if (n->address.port == address->port &&
            strcmp(n->address.host, address->host) == 0) {
            return n;
        }
    }
    return simba__redis_node_add(store, address);
}

static void look_later(struct simba__redis_cluster *c)
{
    if (!c->look.is_set) {
        simba_timer_set(c->store->base.loop, &c->look,
                        simba_loop_now_ms() + LOOK_AGAIN_MS);
    }
}

static void ask_map(struct simba__redis_cluster *c,
                    struct simba__redis_node *node)
{
    const char *words[] = {"CLUSTER", "SLOTS", NULL};

    if (c->asked == NULL) {
        c->ask.answered = on_map;
        if (simba__redis_conn_say(&node->command.conn, &c->ask, words)) {
            simba__redis_drive_share(&node->command.conn);
            c->asked = node;
        } else {
            look_later(c);
        }
    }
}

/* None of those we know is there: they may all have been replaced, and only the
 * URL still tells where the cluster is. */
static void try_seeds(struct simba__redis_cluster *c)
{
    const struct simba__redis_settings *s = &c->store->env.settings;

    for (int i = 0; i < s->address_count; i++) {
        (void)node_at(c->store, &s->addresses[i]);
    }
}

static void on_look(simba_timer *timer)
{
    struct simba__redis_cluster *c =
        container(timer, struct simba__redis_cluster, look);
    struct simba__redis_node *node = c->store->nodes;
    struct simba__redis_env *env = &c->store->env;

    simba__redis_turn_begin(env);
    while (node != NULL && node->command.conn.state != SIMBA__REDIS_READY) {
        node = node->next;
    }
    if (node != NULL) {
        ask_map(c, node);
    } else {
        try_seeds(c);
    }
    simba__redis_turn_end(env);
}

/* Listens for a mutex where it is kept now. */
static void move_ears(struct simba__redis_cluster *c)
{
    const struct simba__redis_hash *topics = &c->store->ears.topics;

    for (struct simba__redis_link *l = simba__redis_hash_next(topics, NULL);
         l != NULL; l = simba__redis_hash_next(topics, l)) {
        struct simba__redis_topic *topic = (struct simba__redis_topic *)l;
        struct simba__redis_node *node =
            simba__redis_cluster_node(c->store, topic->mutex);

        if (node != topic->node) {
            simba__redis_ears_move(c->store, topic, node);
        }
    }
}

static bool keeps_something(const struct simba__redis_cluster *c,
                            const struct simba__redis_node *node)
{
    for (int i = 0; i < SLOTS; i++) {
        if (c->slots[i] == node) {
            return true;
        }
    }
    return false;
}

/* Not from within one of their callbacks. */
static void on_tidy(simba_timer *timer)
{
    struct simba__redis_cluster *c =
        container(timer, struct simba__redis_cluster, tidy);
    struct simba__redis_node *next;

    simba__redis_turn_begin(&c->store->env);
    for (struct simba__redis_node *n = c->store->nodes; n != NULL; n = next) {
        next = n->next;
        if (n->queue.first != NULL) {
            simba__redis_queue_send(&n->queue); /* perhaps another's by now */
        }
        if (n->waiter_queue.first != NULL) {
            simba__redis_queue_send(&n->waiter_queue);
        }
    }
    for (struct simba__redis_node *n = c->store->nodes; n != NULL; n = next) {
        next = n->next;
        if (n != c->asked && n->command.conn.asks == 0 &&
            n->waiter.conn.asks == 0 && !keeps_something(c, n)) {
            simba__redis_node_remove(n);
        }
    }
    simba__redis_turn_end(&c->store->env);
}

static void tidy_soon(struct simba__redis_cluster *c)
{
    simba_timer_set(c->store->base.loop, &c->tidy, simba_loop_now_ms());
}

/* from, to, [host, port, …], replicas …; an unknown host is who was asked. */
static bool take_range(struct simba__redis_cluster *c, const redisReply *range)
{
    const redisReply *master;
    struct simba__redis_address address;
    struct simba__redis_node *node;
    const char *host;

    if (range->type != REDIS_REPLY_ARRAY || range->elements < 3 ||
        range->element[2]->type != REDIS_REPLY_ARRAY ||
        range->element[2]->elements < 2) {
        return false;
    }
    master = range->element[2];
    host = master->element[0]->str;
    if (host == NULL || host[0] == '\0' || strcmp(host, "?") == 0) {
        host = c->asked->address.host;
    }
    if (!simba__redis_put_address(&address, host,
                                  (int)master->element[1]->integer)) {
        return false;
    }
    node = node_at(c->store, &address);
    for (long long slot = range->element[0]->integer;
         node != NULL && slot >= 0 && slot < SLOTS &&
         slot <= range->element[1]->integer;
         slot++) {
        c->slots[slot] = node;
    }
    return node != NULL;
}

static void on_map(struct simba__redis_ask *ask,
                   const redisReply *reply,
                   const simba_error *why)
{
    struct simba__redis_cluster *c =
        container(ask, struct simba__redis_cluster, ask);
    simba_error error;
    bool is_good = reply != NULL && reply->type == REDIS_REPLY_ARRAY;

    if (reply != NULL && reply->type == REDIS_REPLY_ERROR) {
        simba__redis_explain(&error, c->asked->command.conn.shown, reply->str);
        why = &error;
    }
    if (is_good) {
        memset(c->slots, 0, sizeof c->slots);
        for (size_t i = 0; i < reply->elements; i++) {
            is_good = take_range(c, reply->element[i]) && is_good;
        }
    }
    c->asked = NULL;
    if (why != NULL && !c->is_known) {
        simba__redis_opened(c->store, why);
    }
    if (!is_good || reply->elements == 0) {
        look_later(c);
        return;
    }
    c->is_known = true;
    move_ears(c);
    tidy_soon(c);
    simba__redis_opened(c->store, NULL);
}

/* --- what happens -------------------------------------------------------- */

void simba__redis_cluster_ready(struct simba__redis_node *node)
{
    struct simba__redis_cluster *c = node->store->cluster;

    if (!node->command.greeting.facts.is_cluster) {
        simba__redis_conn_fail(&node->command.conn, SIMBA_EMISCONFIG, 0,
                               "is not a cluster: write redis://");
        return;
    }
    if (!c->is_known || !keeps_something(c, node)) {
        ask_map(c, node);
    }
}

static bool is_any_hopeful(const struct simba__redis *store)
{
    for (const struct simba__redis_node *n = store->nodes; n != NULL;
         n = n->next) {
        if (n->command.conn.state != SIMBA__REDIS_DOWN) {
            return true;
        }
    }
    return false;
}

void simba__redis_cluster_down(struct simba__redis_node *node,
                               const simba_error *why)
{
    struct simba__redis_cluster *c = node->store->cluster;

    look_later(c);
    if (!c->is_known && !is_any_hopeful(node->store)) {
        simba__redis_opened(node->store, why);
    }
}

void simba__redis_cluster_doubt(struct simba__redis *store)
{
    if (store->cluster != NULL) {
        look_later(store->cluster);
    }
}

/* "MOVED 3999 host:port", "ASK 3999 host:port" */
static bool read_redirection(const struct simba__redis_call *call,
                             const char *text,
                             unsigned *slot,
                             struct simba__redis_address *address)
{
    const char *position = strrchr(text, ' ');
    const char *colon = position == NULL ? NULL : strrchr(position, ':');
    char host[SIMBA__REDIS_HOST_MAX + 1];

    if (colon == NULL || (size_t)(colon - position) > sizeof host) {
        return false;
    }
    *slot = (unsigned)strtoul(strchr(text, ' '), NULL, 10);
    position++;
    memcpy(host, position, (size_t)(colon - position));
    host[colon - position] = '\0';
    return *slot < SLOTS &&
           simba__redis_put_address(
               address, host[0] == '\0' ? call->node->address.host : host,
               simba__redis_number(colon + 1, 65535));
}

void simba__redis_cluster_redirect(struct simba__redis_call *call,
                                   const char *text)
{
    struct simba__redis *store = call->store;
    struct simba__redis_address address;
    struct simba__redis_node *node = NULL;
    unsigned slot = 0;

    if (store->cluster != NULL &&
        read_redirection(call, text, &slot, &address)) {
        node = node_at(store, &address);
    }
    if (node == NULL) {
        simba__redis_call_fail(call, SIMBA_EMISCONFIG,
                               "sends us elsewhere: is it a cluster? write "
                               "redis+cluster://");
        return;
    }
    if (text[0] == 'M') {
        store->cluster->slots[slot] = node;
        move_ears(store->cluster);
        look_later(store->cluster);
    } else {
        call->is_asking = true;
        call->node = node;
    }
    simba__redis_call_route(call);
}

/* --- life ---------------------------------------------------------------- */

struct simba__redis_cluster *simba__redis_cluster_make(
    struct simba__redis *store)
{
    struct simba__redis_cluster *c = calloc(1, sizeof *c);

    if (c != NULL) {
        c->store = store;
        c->look.fire = on_look;
        c->tidy.fire = on_tidy;
    }
    return c;
}

void simba__redis_cluster_stop(struct simba__redis_cluster *cluster)
{
    simba_timer_clear(cluster->store->base.loop, &cluster->look);
    simba_timer_clear(cluster->store->base.loop, &cluster->tidy);
}
