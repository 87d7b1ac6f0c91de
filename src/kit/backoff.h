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

/* A failure that goes on. */
struct simba__outage {
    int64_t since_ms; /* 0: there is none */
    int64_t told_ms;
};

/** It goes on at this time of the loop's clock. Returns -1, or if it is to be
 * told, at once and then each minute, for how many seconds it does. */
int64_t simba__outage_news(struct simba__outage *outage, int64_t now_ms);

#endif
