/* What we listen for; see ears.h. */
#define _GNU_SOURCE
#include "backends/redis/redis.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* How long a channel is kept that nobody needs. */
enum { LINGER_MS = 5000 };

static int put_channel(char *channel, const char *mutex, const char *id)
{
    return snprintf(channel, SIMBA__REDIS_CHANNEL_MAX, "simba:{%s}%s%s", mutex,
                    id == NULL ? "" : ":", id == NULL ? "" : id);
}

static struct simba__redis_topic *topic_of(struct simba__redis *store,
                                           const char *mutex)
{
    size_t length = strlen(mutex);
    struct simba__redis_topic *topic =
        (struct simba__redis_topic *)simba__redis_hash_find(&store->ears.topics,
                                                            mutex, length);

    if (topic != NULL) {
        return topic;
    }
    topic = calloc(1, sizeof *topic + length + 1);
    if (topic == NULL) {
        return NULL;
    }
    memcpy(topic->mutex, mutex, length + 1);
    topic->link.name = topic->mutex;
    topic->node = simba__redis_node_of(store, mutex);
    if (!simba__redis_hash_add(&store->ears.topics, &topic->link)) {
        free(topic);
        return NULL;
    }
    return topic;
}

static struct simba__redis_ear *add_ear(struct simba__redis *store,
                                        struct simba__redis_topic *topic,
                                        const char *channel)
{
    size_t length = strlen(channel);
    struct simba__redis_ear *ear = calloc(1, sizeof *ear + length + 1);

    if (ear == NULL) {
        return NULL;
    }
    memcpy(ear->channel, channel, length + 1);
    ear->link.name = ear->channel;
    if (!simba__redis_hash_add(&store->ears.channels, &ear->link)) {
        free(ear);
        return NULL;
    }
    ear->topic = topic;
    ear->sibling = topic->ears;
    topic->ears = ear;
    return ear;
}

struct simba__redis_ear *simba__redis_ear_find(struct simba__redis *store,
                                               const char *mutex,
                                               const char *id)
{
    char channel[SIMBA__REDIS_CHANNEL_MAX];
    int length = put_channel(channel, mutex, id);

    return (struct simba__redis_ear *)simba__redis_hash_find(
        &store->ears.channels, channel, (size_t)length);
}

struct simba__redis_ear *simba__redis_ear_open(struct simba__redis *store,
                                               const char *mutex,
                                               const char *id)
{
    struct simba__redis_ear *ear = simba__redis_ear_find(store, mutex, id);
    struct simba__redis_topic *topic;
    char channel[SIMBA__REDIS_CHANNEL_MAX];

    if (ear != NULL) {
        if (!ear->is_sent) { /* it was refused once: perhaps not any more */
            simba__redis_ear_listen(ear);
        }
        return ear;
    }
    topic = topic_of(store, mutex);
    if (topic == NULL) {
        return NULL;
    }
    put_channel(channel, mutex, id);
    ear = add_ear(store, topic, channel);
    if (ear != NULL) {
        ear->is_broadcast = id == NULL;
        simba__redis_ear_listen(ear);
    }
    return ear;
}

static void close_ear(struct simba__redis *store, struct simba__redis_ear *ear)
{
    struct simba__redis_topic *topic = ear->topic;
    struct simba__redis_ear **at = &topic->ears;

    while (*at != ear) {
        at = &(*at)->sibling;
    }
    *at = ear->sibling;
    simba__redis_hash_remove(&store->ears.channels, &ear->link);
    simba__redis_ear_ignore(ear);
    free(ear);
}

static void drop_topic_if_idle(struct simba__redis *store,
                               struct simba__redis_topic *topic)
{
    if (topic->ears == NULL && topic->subscription == SIMBA_SUBSCRIBE_NONE) {
        simba__redis_hash_remove(&store->ears.topics, &topic->link);
        free(topic);
    }
}

static void close_topic(struct simba__redis *store,
                        struct simba__redis_topic *topic)
{
    struct simba__redis_ear *next;

    for (struct simba__redis_ear *ear = topic->ears; ear != NULL; ear = next) {
        next = ear->sibling;
        if (ear->waiting == NULL) {
            close_ear(store, ear);
        }
    }
    drop_topic_if_idle(store, topic);
}

static void sweep_later(struct simba__redis *store)
{
    if (!store->sweep.is_set) {
        simba_timer_set(store->base.loop, &store->sweep,
                        simba_loop_now_ms() + LINGER_MS);
    }
}

void simba__redis_ears_sweep(simba_timer *timer)
{
    struct simba__redis *store =
        (struct simba__redis *)((char *)timer -
                                offsetof(struct simba__redis, sweep));
    const struct simba__redis_hash *topics = &store->ears.topics;
    int64_t now_ms = simba_loop_now_ms();
    struct simba__redis_link *next;

    simba__redis_turn_begin(&store->env);
    for (struct simba__redis_link *l = simba__redis_hash_next(topics, NULL);
         l != NULL; l = next) {
        struct simba__redis_topic *topic = (struct simba__redis_topic *)l;

        next = simba__redis_hash_next(topics, l);
        if (topic->subscription == SIMBA_SUBSCRIBE_NONE) {
            sweep_later(store);
            if (topic->keep_until_ms <= now_ms) {
                close_topic(store, topic);
            }
        }
    }
    simba__redis_turn_end(&store->env);
}

void simba__redis_ears_keep(struct simba__redis *store,
                            const char *mutex,
                            int64_t keep_ms)
{
    struct simba__redis_topic *topic = topic_of(store, mutex);
    int64_t until_ms = simba_loop_now_ms() + keep_ms;

    if (topic != NULL) {
        if (topic->keep_until_ms < until_ms) {
            topic->keep_until_ms = until_ms;
        }
        sweep_later(store);
    }
}

void simba__redis_ears_subscription(struct simba__redis *store,
                                    const char *mutex,
                                    enum simba_subscription subscription)
{
    struct simba__redis_topic *topic = topic_of(store, mutex);

    if (topic == NULL) {
        return; /* the backstop will do */
    }
    simba__redis_turn_begin(&store->env);
    topic->subscription = subscription;
    if (subscription == SIMBA_SUBSCRIBE_OBSERVE) {
        (void)simba__redis_ear_open(store, mutex, NULL);
    } else if (subscription == SIMBA_SUBSCRIBE_NONE) {
        topic->keep_until_ms = simba_loop_now_ms() + LINGER_MS;
        sweep_later(store);
    }
    simba__redis_turn_end_later(&store->env);
}

void simba__redis_ears_fini(struct simba__redis *store)
{
    struct simba__redis_link *link;

    while ((link = simba__redis_hash_next(&store->ears.channels, NULL)) !=
           NULL) {
        simba__redis_hash_remove(&store->ears.channels, link);
        free(link);
    }
    while ((link = simba__redis_hash_next(&store->ears.topics, NULL)) != NULL) {
        simba__redis_hash_remove(&store->ears.topics, link);
        free(link);
    }
    simba__redis_hash_fini(&store->ears.channels);
    simba__redis_hash_fini(&store->ears.topics);
}
/* Listening: what is said to the subscriber connection of a node, and what is
 * heard on it; see ears.h. */

/* Channels in one SUBSCRIBE. */
enum { BATCH = 500 };

struct batch {
    const char *words[BATCH + 1];
    size_t lengths[BATCH + 1];
    int count;
};

static void begin_batch(struct batch *batch, const char *command)
{
    batch->words[0] = command;
    batch->lengths[0] = strlen(command);
    batch->count = 1;
}

static void send_batch(struct simba__redis_node *node, struct batch *batch)
{
    struct simba__redis_conn *conn = &node->subscriber.conn;
    struct simba__redis_words words = {batch->count, batch->words,
                                       batch->lengths};

    if (batch->count > 1 && conn->state == SIMBA__REDIS_READY &&
        !simba__redis_conn_send(conn, &words, NULL)) {
        simba__redis_conn_fail(conn, SIMBA_ENOMEM, 0, "out of memory");
    }
    batch->count = 1;
}

static void add_channel(struct simba__redis_node *node,
                        struct batch *batch,
                        const struct simba__redis_ear *ear)
{
    if (batch->count > BATCH) {
        send_batch(node, batch);
    }
    batch->words[batch->count] = ear->channel;
    batch->lengths[batch->count++] = ear->link.length;
}

static void subscribe(struct simba__redis_node *node,
                      struct batch *batch,
                      struct simba__redis_ear *ear)
{
    if (!ear->is_sent) {
        ear->is_sent = true;
        node->unheard++;
        add_channel(node, batch, ear);
    }
}

static void say_one(struct simba__redis_node *node,
                    const char *command,
                    struct simba__redis_ear *ear)
{
    struct batch batch;

    begin_batch(&batch, command);
    if (command[0] == 'S') {
        subscribe(node, &batch, ear);
    } else {
        add_channel(node, &batch, ear);
    }
    send_batch(node, &batch);
}

void simba__redis_ear_listen(struct simba__redis_ear *ear)
{
    struct simba__redis_node *node = ear->topic->node;

    if (node == NULL) {
        return;
    }
    simba__redis_peer_need(&node->subscriber);
    if (node->subscriber.conn.state == SIMBA__REDIS_READY) {
        say_one(node, "SUBSCRIBE", ear);
    }
}

void simba__redis_ear_ignore(struct simba__redis_ear *ear)
{
    struct simba__redis_node *node = ear->topic->node;

    if (node != NULL && ear->is_sent) {
        node->unheard -= ear->is_open ? 0 : 1;
        say_one(node, "UNSUBSCRIBE", ear);
    }
    ear->is_sent = false;
    ear->is_open = false;
}

/* --- the subscriber connection ------------------------------------------- */

/* Calls back for every ear of this node. */
static void each_ear(struct simba__redis_node *node,
                     void (*run)(struct simba__redis_node *node,
                                 struct simba__redis_ear *ear,
                                 void *argument),
                     void *argument)
{
    const struct simba__redis_hash *channels = &node->store->ears.channels;
    struct simba__redis_link *next;

    for (struct simba__redis_link *l = simba__redis_hash_next(channels, NULL);
         l != NULL; l = next) {
        struct simba__redis_ear *ear = (struct simba__redis_ear *)l;

        next = simba__redis_hash_next(channels, l);
        if (ear->topic->node == node) {
            run(node, ear, argument);
        }
    }
}

static void subscribe_one(struct simba__redis_node *node,
                          struct simba__redis_ear *ear,
                          void *argument)
{
    subscribe(node, argument, ear);
}

void simba__redis_ears_up(struct simba__redis_node *node)
{
    struct batch batch;

    begin_batch(&batch, "SUBSCRIBE");
    each_ear(node, subscribe_one, &batch);
    send_batch(node, &batch);
}

static void deafen(struct simba__redis_node *node,
                   struct simba__redis_ear *ear,
                   void *argument)
{
    (void)node;
    (void)argument;
    ear->is_sent = false;
    ear->is_open = false;
}

void simba__redis_ears_down(struct simba__redis_node *node)
{
    node->unheard = 0;
    each_ear(node, deafen, NULL);
}

static void release_waiting(struct simba__redis_ear *ear,
                            const simba_error *why)
{
    struct simba__redis_call *call = ear->waiting;

    ear->waiting = NULL;
    while (call != NULL) {
        struct simba__redis_call *next = call->other;

        call->other = NULL;
        simba__redis_call_heard(call, why);
        call = next;
    }
}

static void give_up(struct simba__redis_node *node,
                    struct simba__redis_ear *ear,
                    void *argument)
{
    (void)node;
    if (ear->is_sent && !ear->is_open) {
        ear->is_sent = false;
        release_waiting(ear, argument);
    }
}

/* The server will not have us listen; it does not say to which channel. */
static void refused(struct simba__redis_node *node, const char *text)
{
    simba_error why;

    simba__redis_explain(&why, node->subscriber.conn.shown, text);
    simba__redis_log(&node->store->env, SIMBA_LOG_ERROR, "%s", why.message);
    node->unheard = 0;
    each_ear(node, give_up, &why);
}

static void channel_opened(struct simba__redis_node *node,
                           struct simba__redis_ear *ear)
{
    if (ear->is_sent && !ear->is_open) {
        ear->is_open = true;
        node->unheard--;
        if (ear->waiting != NULL) {
            release_waiting(ear, NULL);
        } else { /* what was said before we listened was lost on us */
            simba_wake(node->store->base.loop, ear->topic->mutex);
        }
    }
}

/* "acquired" is news for those who watch; a waiter only wants its turn. */
static void told(struct simba__redis *store,
                 const struct simba__redis_ear *ear,
                 const char *text)
{
    if (!ear->is_broadcast || strncmp(text, "released@@", 10) == 0 ||
        ear->topic->subscription == SIMBA_SUBSCRIBE_OBSERVE) {
        simba_wake(store->base.loop, ear->topic->mutex);
    }
}

void simba__redis_ears_hear(struct simba__redis_node *node,
                            const redisReply *message)
{
    const char *kind;
    struct simba__redis_ear *ear;

    if (message->type == REDIS_REPLY_ERROR) {
        refused(node, message->str);
        return;
    }
    if (message->type != REDIS_REPLY_ARRAY || message->elements < 3 ||
        message->element[0]->str == NULL || message->element[1]->str == NULL) {
        return;
    }
    kind = message->element[0]->str;
    ear = (struct simba__redis_ear *)simba__redis_hash_find(
        &node->store->ears.channels, message->element[1]->str,
        (size_t)message->element[1]->len);
    if (ear == NULL || ear->topic->node != node) {
        return;
    }
    if (strcmp(kind, "subscribe") == 0) {
        channel_opened(node, ear);
    } else if (strcmp(kind, "message") == 0 &&
               message->element[2]->str != NULL) {
        told(node->store, ear, message->element[2]->str);
    }
}

void simba__redis_ears_move(struct simba__redis *store,
                            struct simba__redis_topic *topic,
                            struct simba__redis_node *node)
{
    (void)store;
    for (struct simba__redis_ear *e = topic->ears; e != NULL; e = e->sibling) {
        simba__redis_ear_ignore(e);
    }
    topic->node = node;
    for (struct simba__redis_ear *e = topic->ears; e != NULL; e = e->sibling) {
        simba__redis_ear_listen(e);
    }
}

void simba__redis_ears_forget(struct simba__redis_node *node)
{
    const struct simba__redis_hash *topics = &node->store->ears.topics;

    simba__redis_ears_down(node);
    for (struct simba__redis_link *l = simba__redis_hash_next(topics, NULL);
         l != NULL; l = simba__redis_hash_next(topics, l)) {
        struct simba__redis_topic *topic = (struct simba__redis_topic *)l;

        if (topic->node == node) {
            topic->node = NULL;
        }
    }
}
/* Asking again when a reservation is over.
 *
 * Who asks and finds that one who had been called did not come has called the
 * next. If that one is stopped as well, nobody is told when its time is over: a
 * line of stopped waiters would be passed at the pace of backstops. So whoever
 * found one missing is woken then, until the mutex has an owner. Where all who
 * are called come, this costs nothing. */

static struct simba__redis_topic *first_topic(struct simba__redis *store)
{
    return (struct simba__redis_topic *)simba__redis_hash_next(
        &store->ears.topics, NULL);
}

static struct simba__redis_topic *next_topic(struct simba__redis *store,
                                             struct simba__redis_topic *topic)
{
    return (struct simba__redis_topic *)simba__redis_hash_next(
        &store->ears.topics, &topic->link);
}

static void watch(struct simba__redis *store, int64_t at_ms)
{
    if (!store->again.is_set || at_ms < store->again.at_ms) {
        simba_timer_set(store->base.loop, &store->again, at_ms);
    }
}

void simba__redis_again_later(struct simba__redis *store,
                              const char *mutex,
                              int64_t wait_ms)
{
    struct simba__redis_topic *topic =
        (struct simba__redis_topic *)simba__redis_hash_find(
            &store->ears.topics, mutex, strlen(mutex));

    if (topic != NULL) {
        topic->again_ms = simba_loop_now_ms() + wait_ms;
        watch(store, topic->again_ms);
    }
}

void simba__redis_again(simba_timer *timer)
{
    struct simba__redis *store =
        (struct simba__redis *)((char *)timer -
                                offsetof(struct simba__redis, again));
    int64_t now_ms = simba_loop_now_ms();

    simba__redis_turn_begin(&store->env);
    for (struct simba__redis_topic *t = first_topic(store); t != NULL;
         t = next_topic(store, t)) {
        if (t->again_ms != 0 && t->again_ms <= now_ms) {
            t->again_ms = 0;
            simba_wake(store->base.loop, t->mutex);
        } else if (t->again_ms != 0) {
            watch(store, t->again_ms);
        }
    }
    simba__redis_turn_end(&store->env);
}
