/* An open Redis store: its servers, its ears, the operations under way. */
#ifndef SIMBA_REDIS_INSTANCE_H
#define SIMBA_REDIS_INSTANCE_H

#include "backends/redis/conn.h"
#include "backends/redis/ears.h"
#include "backends/redis/greet.h"

#include <pthread.h>

struct simba__redis;
struct simba__redis_call;

/* A connection with what it says first. */
struct simba__redis_peer {
    struct simba__redis_conn conn;
    struct simba__redis_greeting greeting;
};

/* Those who wait for a server to be there, in their order. */
struct simba__redis_queue {
    struct simba__redis_call *first, **last;
};

/* One server: a master that keeps mutexes. */
struct simba__redis_node {
    struct simba__redis *store;
    struct simba__redis_node *next;
    struct simba__redis_address address;
    struct simba__redis_peer command;
    struct simba__redis_peer subscriber; /* opened when somebody waits */
    struct simba__redis_peer waiter;     /* for replicas; opened likewise */
    struct simba__redis_queue queue, waiter_queue;
    bool was_ready;
    size_t unheard; /* ears that wait for the server's word */
};

struct simba__redis {
    simba_backend base;
    struct simba__redis_env env;
    struct simba__redis_node *nodes;
    struct simba__redis_ears ears;
    struct simba__redis_sentinel *sentinel; /* NULL: no such */
    struct simba__redis_cluster *cluster;   /* NULL: no such */

    struct simba__redis_node *driven;    /* where a caller reads for itself */
    struct simba__redis_node *polled;    /* and does so right now */
    struct simba__redis_errand *errands; /* of admins */
    struct simba__redis_call *calls;     /* all of them */
    simba_timer deadline;                /* of the first of them */
    simba_timer sweep;                   /* channels that nobody needs */
    simba_timer again;                   /* a reservation is over */
    simba_timer grace;                   /* ask again: a restart is long past */

    /* The opening thread waits here. */
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool is_opened; /* or failed, with why */
    simba_error why;
};

/* node.c */

/** Add a server; NULL: no memory. Its connection is begun at once. */
struct simba__redis_node *simba__redis_node_add(
    struct simba__redis *store,
    const struct simba__redis_address *address);

/** End its connections and forget it; calls that wait for it fail. */
void simba__redis_node_remove(struct simba__redis_node *node);

/** See to it that the connection exists. */
void simba__redis_peer_need(struct simba__redis_peer *peer);

/** The server that keeps this mutex; NULL: not known now. */
struct simba__redis_node *simba__redis_node_of(struct simba__redis *store,
                                               const char *mutex);

/** The opening has come to its end; NULL: well. Inside the loop. */
void simba__redis_opened(struct simba__redis *store, const simba_error *why);

/** Until when no acquire with this lease may be sent, or 0. */
int64_t simba__redis_node_grace(const struct simba__redis_node *node,
                                int64_t lease_ms);

void simba__redis_log(const struct simba__redis_env *env,
                      enum simba_log_level level,
                      const char *format,
                      ...) __attribute__((format(printf, 3, 4)));

#endif
