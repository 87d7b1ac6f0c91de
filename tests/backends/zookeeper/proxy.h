/* A TCP proxy on the loopback that can hold and cut what passes through it. */
#ifndef TESTS_BACKENDS_ZOOKEEPER_PROXY_H
#define TESTS_BACKENDS_ZOOKEEPER_PROXY_H

#include <stdbool.h>

struct proxy;

/** A proxy to a port, on a port of its own; runs on a thread of its own. */
struct proxy *proxy_open(int target_port);
int proxy_port(const struct proxy *proxy);
void proxy_close(struct proxy *proxy);

/** Hold what goes to the target, what comes from it, or let both go on. */
void proxy_hold(struct proxy *proxy, bool forth, bool back);

/** Let requests of a kind pass (ZooKeeper's number) and hold what is answered
 * from the first of them on. */
void proxy_trap(struct proxy *proxy, int kind);
bool proxy_has_sprung(const struct proxy *proxy);

/** End every connection, and what was held in it. */
void proxy_cut(struct proxy *proxy);

#endif
