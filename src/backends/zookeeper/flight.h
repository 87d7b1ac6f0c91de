/* One request of a latch, from sending (flight.c) to landing (landing.c). */
#ifndef SIMBA_ZOOKEEPER_FLIGHT_H
#define SIMBA_ZOOKEEPER_FLIGHT_H

#include "backends/zookeeper/instance.h"

/* One request under way. */
struct simba__zk_call {
    struct simba__zk_latch *latch;
    uint64_t generation;
    zoo_op_result_t result; /* of a multi */
};

/** A request about to be sent, with a hold on the latch; NULL: no memory. */
struct simba__zk_call *simba__zk_call_depart(struct simba__zk_latch *latch);

/** It could not be sent. NULL is a no-op. */
void simba__zk_call_stay(struct simba__zk_call *call);

/** Enter the loop with an answer. NULL: it is of an earlier session, or says
 * that this one is over, and the loop is left again. */
struct simba__zk_latch *simba__zk_call_arrive(const void *data, int rc);

/** Let go of the latch, and leave the loop. */
void simba__zk_call_leave(struct simba__zk_latch *latch);

/* Completions of a flight. */
void simba__zk_on_parent(int rc, const char *path, const void *data);
void simba__zk_on_created(int rc,
                          const char *path,
                          const struct Stat *stat,
                          const void *data);
void simba__zk_on_guarded(int rc, const void *data);
void simba__zk_on_identified(int rc, const struct Stat *stat, const void *data);
void simba__zk_on_removed(int rc, const void *data);
void simba__zk_on_children(int rc,
                           const struct String_vector *children,
                           const void *data);
void simba__zk_on_before(int rc,
                         const char *value,
                         int length,
                         const struct Stat *stat,
                         const void *data);
void simba__zk_on_owner(int rc,
                        const char *value,
                        int length,
                        const struct Stat *stat,
                        const void *data);

#endif
