/* The requests that a store has taken and not completed yet. It keeps each in a
 * slot, a pointer that is NULL once the request is completed, and beside it a
 * timer, set for the deadline: the loop keeps timers in order, so that no store
 * has to look through its requests. */
#ifndef SIMBA_KIT_DEADLINE_H
#define SIMBA_KIT_DEADLINE_H

#include <simba/sys/backend.h>

/** Complete what is in the slot, if anything is, and empty it. What only reads
 * has no outcome to be in doubt about: SIMBA_EUNAVAIL, not SIMBA_EUNKNOWN.
 * The error counts only if the status is not SIMBA_OK. Inside the loop. */
void simba__deadline_complete(simba_request **slot,
                              int status,
                              const simba_error *error);

/**
 * If the deadline of what is in the slot has passed, complete it: nobody knows
 * what has become of it. Inside the loop.
 *
 * @param store   for the message: its kind
 * @param server  likewise: which one has not answered
 */
void simba__deadline_expire(simba_request **slot,
                            const char *store,
                            const char *server);

#endif
