/* Real ZooKeeper servers, one or an ensemble, in a directory of their own on
 * free ports of the loopback. Between the members of an ensemble there are
 * proxies, so that a test can cut them off from each other. */
#ifndef TESTS_BACKENDS_ZOOKEEPER_SERVERS_H
#define TESTS_BACKENDS_ZOOKEEPER_SERVERS_H

#include "proxy.h"

#include <stdbool.h>
#include <sys/types.h>

enum { SERVERS_MOST = 3 };

struct server {
    pid_t pid; /* 0: not running */
    int client_port, quorum_port, election_port;
    struct proxy *to[SERVERS_MOST]; /* its way to the quorum ports of others */
};

struct servers {
    int count;
    struct server one[SERVERS_MOST];
    char directory[64];
    char hosts[128]; /* host:port of all, with commas */
};

/** False: ZooKeeper is not installed here. */
bool servers_installed(void);

/** How often servers started from now on look for unused nodes; every 500 ms
 * if nothing is said, which for users would be a minute. */
void servers_reap_every(int ms);

/** One more option for the JVM of servers started from now on. */
void servers_with(const char *option);

/** Start them and wait until they serve; ends the program when they do not. */
void servers_start(struct servers *servers, int count);

/** Start one again, or end one as kill -9 does. */
void server_start(struct servers *servers, int index);
void server_kill(struct servers *servers, int index);

/** Wait until it serves clients. */
void server_await(const struct servers *servers, int index);

/** How many packets it has received, by its own account; -1: it is silent. */
long server_received(const struct servers *servers, int index);

/** The one that leads, or -1. */
int servers_leader(const struct servers *servers);

/** Have the servers' own shell carry out these lines; false: it could not. */
bool servers_shell(const struct servers *servers, const char *lines);

/** Hold everything between a member and the others; or let it go on. */
void server_freeze(struct servers *servers, int index, bool is_frozen);

/** End all, and remove what they left. */
void servers_stop(struct servers *servers);

#endif
