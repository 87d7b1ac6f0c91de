/* Putting a contention on its store's loop, and taking it off: the same for
 * services and lockers. */
#ifndef SIMBA_API_ENLIST_H
#define SIMBA_API_ENLIST_H

#include <simba/contender.h>

#include "api/store.h"
#include "runtime/contention.h"

/**
 * Check what the user gave, and open the contention on the loop. Its hooks must
 * be in place. On failure nothing is left to be taken off.
 */
int simba__enlist(simba_store *store,
                  struct simba__contention *contention,
                  const simba_contender *contender,
                  simba_error *error);

/** The machine must rest. */
void simba__delist(simba_store *store, struct simba__contention *contention);

#endif
