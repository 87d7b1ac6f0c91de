#define _GNU_SOURCE
#include "backends/zookeeper/hosts.h"

#include <stdio.h>
#include <string.h>

/* Three of them fit into what is waited for an ensemble that never answered. */
enum { MOMENT_MS = 800, DOUBLED_MOST = 8 };

unsigned simba__zk_hosts_count(const char *hosts)
{
    unsigned count = 1;

    for (; *hosts != '\0'; hosts++) {
        count += *hosts == ',';
    }
    return count;
}

char *simba__zk_hosts_from(const char *hosts, unsigned first)
{
    const char *at = hosts;
    char *rotated = NULL;

    first %= simba__zk_hosts_count(hosts);
    for (unsigned i = 0; i < first; i++) {
        at = strchr(at, ',') + 1;
    }
    if (at == hosts) {
        return strdup(hosts);
    }
    return asprintf(&rotated, "%s,%.*s", at, (int)(at - hosts - 1), hosts) < 0
               ? NULL
               : rotated;
}

int64_t simba__zk_hosts_wait(const char *hosts,
                             unsigned tried,
                             int64_t timeout_ms)
{
    unsigned count = simba__zk_hosts_count(hosts), doubled = tried / count;
    int64_t wait_ms = MOMENT_MS, most_ms = timeout_ms / 3;

    if (count == 1) {
        return most_ms;
    }
    wait_ms <<= doubled < DOUBLED_MOST ? doubled : DOUBLED_MOST;
    return wait_ms < most_ms ? wait_ms : most_ms;
}
