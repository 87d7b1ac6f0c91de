/* Putting a contention on its store's loop, and taking it off: the same for
 * services and lockers. */
#ifndef SIMBA_API_ENLIST_H
#define SIMBA_API_ENLIST_H

#include <simba/contender.h>

#include "api/store.h"
#include "runtime/contention.h"

/** The contender that the options of a locker or a scheduler speak of: their
 * members have the same names. */
#define SIMBA__CONTENDER_OF(options)                                           \
    {                                                                          \
        .size = (uint32_t)sizeof(simba_contender), .mutex = (options)->mutex,  \
        .id = (options)->id, .times = (options)->times                         \
    }

/**
 * Check what the user gave, and open the contention on the loop. Its hooks must
 * be in place. On failure nothing is left to be taken off.
 */
int simba__enlist(simba_store *store,
                  struct simba__contention *contention,
                  const simba_contender *contender,
                  simba_error *error);

/** What a line of the log about a contention begins with. */
struct simba__log_entry simba__about(const struct simba__contention *contention,
                                     enum simba_log_level level,
                                     const char *component);

/** Why a tenure ended, as a word: "stopped", "expired", "gone", "max_hold",
 * "stalled". */
const char *simba__cause_name(enum simba__cause cause);

/** The machine must rest. */
void simba__delist(simba_store *store, struct simba__contention *contention);

#endif
