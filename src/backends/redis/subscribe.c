/* Listening: what is said to the subscriber connection of a node, and what is
 * heard on it; see ears.h. */
#include "backends/redis/call.h"

#include "backends/redis/trouble.h"

#include <string.h>

/* Channels in one SUBSCRIBE. */
enum { BATCH = 500 };

struct batch {
    const char *words[BATCH + 1];
    size_t lengths[BATCH + 1];
    int count;
};

static void begin(struct batch *batch, const char *command)
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

static void add(struct simba__redis_node *node,
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
        add(node, batch, ear);
    }
}

static void say_one(struct simba__redis_node *node,
                    const char *command,
                    struct simba__redis_ear *ear)
{
    struct batch batch;

    begin(&batch, command);
    if (command[0] == 'S') {
        subscribe(node, &batch, ear);
    } else {
        add(node, &batch, ear);
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

    begin(&batch, "SUBSCRIBE");
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

static void opened(struct simba__redis_node *node, struct simba__redis_ear *ear)
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
        opened(node, ear);
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
