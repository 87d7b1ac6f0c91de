/* Mutexes that are watched, and what is told when one changes hands. */
#ifndef SIMBA_CLI_SIGHT_H
#define SIMBA_CLI_SIGHT_H

#include "live.h"

#include <simba/error.h>
#include <simba/store.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct simba__sight {
    simba_store *store;
    struct simba__live *live;
    bool is_json;
    int64_t interval_ms; /* how often to look where nothing is pushed */
    int64_t most;        /* lines to tell; 0: no end */

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t ended; /* is_over has changed */
    int64_t told;
    bool is_over; /* enough was told, or cannot be written */

    void *watched; /* a tree of them by name; one thread only */
};

/** After what stands before the lock was set. */
void simba__sight_init(struct simba__sight *sight);

/** Watch this one, too; one that is watched already stays. */
int simba__sight_add(struct simba__sight *sight,
                     const char *mutex,
                     simba_error *error);

/** Wait until it is over, for so long at most; is it? */
bool simba__sight_wait(struct simba__sight *sight, int64_t most_ms);

/** Watch none any more. */
void simba__sight_fini(struct simba__sight *sight);

#endif
