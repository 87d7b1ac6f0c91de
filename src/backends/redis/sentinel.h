/* Sentinels: they know which server is the master now. */
#ifndef SIMBA_REDIS_SENTINEL_H
#define SIMBA_REDIS_SENTINEL_H

#include "backends/redis/instance.h"

struct simba__redis_sentinel;

/** NULL: no memory. */
struct simba__redis_sentinel *simba__redis_sentinel_make(
    struct simba__redis *store);

/** Find the master and let this connection dial it. Inside the loop. */
void simba__redis_sentinel_aim(struct simba__redis_sentinel *sentinel,
                               struct simba__redis_conn *conn);

/** The master that was found is one. Inside the loop. */
void simba__redis_sentinel_was_right(struct simba__redis_sentinel *sentinel);

/** All of them were asked, and none has led to a master. Inside the loop. */
bool simba__redis_sentinel_is_hopeless(
    const struct simba__redis_sentinel *sentinel);

/** The connection to the sentinel that is asked, for a forked child. */
struct simba__redis_conn *simba__redis_sentinel_conn(
    struct simba__redis_sentinel *sentinel);

/** Ask no more. Inside the loop. */
void simba__redis_sentinel_stop(struct simba__redis_sentinel *sentinel);

#endif
