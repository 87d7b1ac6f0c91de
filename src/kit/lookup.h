/* Host names to addresses, without ever blocking the loop. For backends whose
 * servers have names. */
#ifndef SIMBA_LOOKUP_H
#define SIMBA_LOOKUP_H

#include <simba/sys/backend.h>

struct addrinfo; /* of netdb.h */

typedef struct simba__lookup simba__lookup;

/* Who wants to know; called inside the loop, exactly once unless cancelled.
 * The list, if there is one, is the receiver's; else `problem` is one of
 * gai_strerror(3). */
struct simba__asker {
    void (*found)(void *self, struct addrinfo *list, int problem);
    void *self;
};

/** What a failed lookup is in simba_error.native of a SIMBA_EUNAVAIL: this, if
 * there is no such host and waiting will not help; else 0. Any thread. */
#define SIMBA__UNKNOWN_HOST (-2) /* EAI_NONAME */
int simba__lookup_native(int problem);

/** Start to look up. Addresses in figures are answered at once, from within;
 * NULL is returned then. Inside the loop. */
simba__lookup *simba__lookup_start(simba_loop *loop,
                                   const char *host,
                                   int port,
                                   struct simba__asker asker);

/** Nobody wants to know any more. Inside the loop. */
void simba__lookup_cancel(simba__lookup *lookup);

#endif
