/* Whether the times that the command line gives go together, told in the words
 * of its options. The library checks them too, but calls them otherwise. */
#ifndef SIMBA_CLI_TIMES_H
#define SIMBA_CLI_TIMES_H

#include "job.h"

#include <simba/error.h>
#include <simba/store.h>

#include <stdbool.h>

/** False after telling which options contradict each other. */
bool simba__times_agree(const struct simba__job *job);

/**
 * Does --kill-after fit into the lease?
 *
 * @param store  tells the times that the command line does not
 * @param error  what to write instead
 * @return SIMBA_OK or SIMBA_EINVAL
 */
int simba__times_fit(const struct simba__job *job,
                     const simba_store *store,
                     simba_error *error);

#endif
