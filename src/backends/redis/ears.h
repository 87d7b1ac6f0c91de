/* What we listen for: the personal channels of our waiters, and where it must
 * be the broadcast channel of a mutex.
 *
 * Inside the loop, all of it. */
#ifndef SIMBA_REDIS_EARS_H
#define SIMBA_REDIS_EARS_H

#include "backends/redis/hash.h"

#include <simba/sys/backend.h>

#include <hiredis/hiredis.h>

struct simba__redis;
struct simba__redis_node;
struct simba__redis_call;

/* One channel. */
struct simba__redis_ear {
    struct simba__redis_link link; /* by channel */
    struct simba__redis_topic *topic;
    struct simba__redis_ear *sibling;  /* of the same topic */
    struct simba__redis_call *waiting; /* until it is open */
    bool is_sent; /* the server was asked to subscribe it */
    bool is_open; /* and has done so */
    bool is_broadcast;
    char channel[];
};

/* One mutex. */
struct simba__redis_topic {
    struct simba__redis_link link; /* by mutex */
    struct simba__redis_ear *ears;
    struct simba__redis_node *node; /* where they are subscribed */
    enum simba_subscription subscription;
    int64_t keep_until_ms; /* without interest; subscribing anew is dear */
    int64_t again_ms;      /* wake-up it then, 0: no need (again.c) */
    char mutex[];
};

struct simba__redis_ears {
    struct simba__redis_hash channels, topics;
};

/** Open the personal channel of a waiter, or with id NULL the broadcast
 * channel. NULL: no memory, or the server is not known. */
struct simba__redis_ear *simba__redis_ear_open(struct simba__redis *store,
                                               const char *mutex,
                                               const char *id);

/** The same if it is there already; NULL: it is not. */
struct simba__redis_ear *simba__redis_ear_find(struct simba__redis *store,
                                               const char *mutex,
                                               const char *id);

/** A waiter joined the line: listen for so long at least. */
void simba__redis_ears_keep(struct simba__redis *store,
                            const char *mutex,
                            int64_t keep_ms);

/** Close what nobody needs any more. */
void simba__redis_ears_sweep(simba_timer *timer);

void simba__redis_ears_subscription(struct simba__redis *store,
                                    const char *mutex,
                                    enum simba_subscription subscription);

void simba__redis_ears_fini(struct simba__redis *store);

/* subscribe.c */

/** Have the server subscribe the channel, or not any more. */
void simba__redis_ear_listen(struct simba__redis_ear *ear);
void simba__redis_ear_ignore(struct simba__redis_ear *ear);

/** The subscriber connection of a node is up, down, or says something. */
void simba__redis_ears_up(struct simba__redis_node *node);
void simba__redis_ears_down(struct simba__redis_node *node);
void simba__redis_ears_hear(struct simba__redis_node *node,
                            const redisReply *message);

/** The mutex is kept by another server from now on, or by none. */
void simba__redis_ears_move(struct simba__redis *store,
                            struct simba__redis_topic *topic,
                            struct simba__redis_node *node);

/** The node goes. */
void simba__redis_ears_forget(struct simba__redis_node *node);

/* again.c */

/** Wake-up the waiters of a mutex after this time. */
void simba__redis_again_later(struct simba__redis *store,
                              const char *mutex,
                              int64_t wait_ms);

/** Some of these times have come. */
void simba__redis_again(simba_timer *timer);

#endif
