/* The nursery, as the guardian sees it. */
#ifndef SIMBA_CLI_NURSERY_H
#define SIMBA_CLI_NURSERY_H

#include "job.h"

enum simba__nursery_order {
    SIMBA__NURSERY_MAKE = '+', /* a CMD that waits; one that waits already
                                  ends */
    SIMBA__NURSERY_START = '!' /* let it run */
};

/** Start it, before the session is left; -1 with errno. `front` is the way to
 * the front, which it does not need; `link` leads to it. */
pid_t simba__nursery_start(struct simba__job *job, int front, int *link);

/** Order something. What comes of it is seen by the answer to MAKE, or by the
 * end of the nursery. */
void simba__nursery_order(int link, enum simba__nursery_order order);

/** The answer to MAKE: 0, and share->cmd is the new process, a child of ours;
 * else an errno; -1: none yet. */
int simba__nursery_answer(int link);

/** End it, and wait for that. */
void simba__nursery_end(pid_t nursery);

#endif
