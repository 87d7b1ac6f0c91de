/* How long to wait before a server is tried again: a little at first, twice as
 * long after each failure, up to a bound. */
#ifndef SIMBA_KIT_BACKOFF_H
#define SIMBA_KIT_BACKOFF_H

#include <stdint.h>

struct simba__backoff {
    int64_t first_ms, most_ms;
    int64_t last_ms; /* 0: nothing has failed yet */
};

/** It has failed: when to try again, on the loop's clock. */
int64_t simba__backoff_until(struct simba__backoff *backoff);

/** It has worked: the next failure is the first one. */
void simba__backoff_reset(struct simba__backoff *backoff);

#endif
