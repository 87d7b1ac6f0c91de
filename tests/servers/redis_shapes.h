/* Redis in all its shapes: one server, behind a socket, with TLS and an ACL, a
 * Sentinel set of three and three, a cluster of three and three. */
#ifndef TESTS_SERVERS_REDIS_SHAPES_H
#define TESTS_SERVERS_REDIS_SHAPES_H

#include "servers/redis_server.h"

enum { REDIS_NODES_MOST = 7 }; /* one for a test to add */

struct redis_shape {
    struct redis nodes[REDIS_NODES_MOST]; /* servers first, then sentinels */
    int node_count;
    int master; /* sentinel: which of the nodes it is now */
    int tls_port;
    char url[1024];
};

/** "single", "unix", "tls", "sentinel", "cluster". Leases are granted at once,
 * though the server has just been started. */
void redis_shape_start(struct redis_shape *shape, const char *name);

void redis_shape_remove(struct redis_shape *shape);

/** A sentinel more, which watches this port; it agrees to a failover when so
 * many do. */
void redis_sentinel_start(struct redis *node, int master_port, int quorum);

/** The node that keeps a slot of a cluster now; NULL: none. */
struct redis *redis_shape_keeper(struct redis_shape *shape, unsigned slot);

/** The commands that README.md says a user needs. */
extern const char redis_acl[];

#endif
