/* What we listen for; see ears.h. */
#include "backends/redis/call.h"

#include "backends/redis/turn.h"

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
