/* The servers of an ensemble, and how long to wait for each. Pure.
 *
 * The client library waits two thirds of the session's timeout for a server
 * that does not answer, as one without power, before it tries the next. So it
 * is told the order, and begun anew with the next one first, long before. */
#ifndef SIMBA_ZOOKEEPER_HOSTS_H
#define SIMBA_ZOOKEEPER_HOSTS_H

#include <stdint.h>

/** How many there are in "host:port,host:port". */
unsigned simba__zk_hosts_count(const char *hosts);

/** The same, beginning with the one that is number `first`, counted from 0 and
 * round and round; to be freed. NULL: no memory. */
char *simba__zk_hosts_from(const char *hosts, unsigned first);

/** How long to wait for a first connection when so many tries were in vain:
 * first for each a moment, so that whoever answers is soon found; then longer,
 * for all may be slow; and never so long that a session would be old before it
 * is of use. A lone one has no other before it. */
int64_t simba__zk_hosts_wait(const char *hosts,
                             unsigned tried,
                             int64_t timeout_ms);

#endif
