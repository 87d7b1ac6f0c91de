/* Cluster: which server keeps which slot, and what to do when that changes.
 * Inside the loop. For stores that are no cluster all of it does nothing. */
#ifndef SIMBA_REDIS_CLUSTER_H
#define SIMBA_REDIS_CLUSTER_H

#include "backends/redis/instance.h"

struct simba__redis_cluster;

/** NULL: no memory. The servers of the URL are asked at once. */
struct simba__redis_cluster *simba__redis_cluster_make(
    struct simba__redis *store);

/** The server that keeps a mutex; NULL: not known now. */
struct simba__redis_node *simba__redis_cluster_node(struct simba__redis *store,
                                                    const char *mutex);

/** A server is there, or is gone. */
void simba__redis_cluster_ready(struct simba__redis_node *node);
void simba__redis_cluster_down(struct simba__redis_node *node,
                               const simba_error *why);

/** MOVED or ASK: send the call where the server says. */
void simba__redis_cluster_redirect(struct simba__redis_call *call,
                                   const char *text);

/** Something is odd: look again which server keeps what. */
void simba__redis_cluster_doubt(struct simba__redis *store);

void simba__redis_cluster_stop(struct simba__redis_cluster *cluster);

/** The slot of a mutex. */
unsigned simba__redis_slot_of(const char *mutex);

#endif
