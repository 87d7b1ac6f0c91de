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

/** The connection to the sentinel that is asked, for a forked child. */
struct simba__redis_conn *simba__redis_sentinel_conn(
    struct simba__redis_sentinel *sentinel);

/** Ask no more. Inside the loop. */
void simba__redis_sentinel_stop(struct simba__redis_sentinel *sentinel);

#endif
