/* Host names to addresses, without ever blocking the loop. */
#ifndef SIMBA_REDIS_LOOKUP_H
#define SIMBA_REDIS_LOOKUP_H

#include "backends/redis/settings.h"

struct addrinfo; /* of netdb.h */

typedef struct simba__redis_lookup simba__redis_lookup;

/* Who wants to know; called inside the loop, exactly once unless cancelled.
 * The list, if there is one, is the receiver's; else `why` tells. */
struct simba__redis_asker {
    void (*found)(void *self, struct addrinfo *list, const char *why);
    void *self;
};

/** Start to look up. Addresses in figures are answered at once, from within;
 * NULL is returned then. Inside the loop. */
simba__redis_lookup *simba__redis_lookup_start(
    simba_loop *loop,
    const struct simba__redis_address *address,
    struct simba__redis_asker asker);

/** Nobody wants to know any more. Inside the loop. */
void simba__redis_lookup_cancel(simba__redis_lookup *lookup);

#endif
