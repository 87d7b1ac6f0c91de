/* From what users give to what the machine takes, with errors that say which
 * value is wrong and why. */
#ifndef SIMBA_API_CONFIG_H
#define SIMBA_API_CONFIG_H

#include <simba/contender.h>
#include <simba/error.h>

#include "core/contend.h"

/* What a contender gets that sets no times, where nothing is configured. */
enum { SIMBA__DEFAULT_TTL_MS = 10000, SIMBA__DEFAULT_TRANSITION_MS = 6000 };

/**
 * Check names and times together and fill in the defaults.
 *
 * @param least_lease_ms  what the store can keep
 * @param[out] config     for the machine
 */
int simba__config_make(const simba_contender *contender,
                       int64_t least_lease_ms,
                       struct simba__contend_config *config,
                       simba_error *error);

/** Check the name of a mutex (S14). */
int simba__config_mutex(const char *mutex, simba_error *error);

/** Copy the id given, or make one. */
int simba__config_id(const char *given, char *id, simba_error *error);

#endif
