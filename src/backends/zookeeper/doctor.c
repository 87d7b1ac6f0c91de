/* What this ensemble, set up as it is, can promise. By blocking calls. */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include <stdlib.h>
#include <string.h>

/* What a contender has unless it says otherwise. */
enum { LEASE_MS = 16000, BUDGET_MS = 2000 };

enum { PERMS_WRITE = 0x02, PERMS_CREATE = 0x04, PERMS_DELETE = 0x08 };

/* By the configuration that the servers tell: who only observes has no vote. */
static int find_ensemble(zhandle_t *handle, simba_request *request)
{
    char config[16384];
    int length = sizeof config - 1, servers = 0;
    int rc = zoo_get(handle, ZOO_CONFIG_NODE, 0, config, &length, NULL);

    if (rc != ZOK) {
        simba_request_add_finding(
            request, SIMBA_FINDING_NOTE, "ensemble",
            "the servers do not tell how many they are: %s", zerror(rc));
        return rc;
    }
    config[length > 0 ? length : 0] = '\0';
    for (const char *at = strstr(config, "server."); at != NULL;
         at = strstr(at + 1, "server.")) {
        const char *end = strchr(at, '\n');
        const char *observer = strstr(at, ":observer");

        servers += observer == NULL || (end != NULL && observer > end);
    }
    if (servers <= 1) {
        simba_request_add_finding(
            request, SIMBA_FINDING_NOTE, "ensemble",
            "a single server: while it is down nobody acquires");
    } else {
        simba_request_add_finding(
            request, servers % 2 == 0 ? SIMBA_FINDING_NOTE : SIMBA_FINDING_OK,
            "ensemble", "%d servers vote: mutexes survive the loss of %d",
            servers, (servers - 1) / 2);
    }
    return rc;
}

/* What the servers make of a timeout that is too short or too long. */
static int64_t negotiate(const struct simba__zk *self,
                         const simba_request *request,
                         int64_t timeout_ms)
{
    zhandle_t *probe =
        simba__zk_connect(&self->settings, timeout_ms, request->deadline_ms);
    int64_t negotiated = probe == NULL ? 0 : zoo_recv_timeout(probe);

    if (probe != NULL) {
        zookeeper_close(probe);
    }
    return negotiated;
}

/* Whether a server knows containers shows only when one is made. */
static int find_containers(const struct simba__zk *self,
                           zhandle_t *handle,
                           simba_request *request)
{
    const char *base = self->settings.base;
    char *probe = simba__zk_join(base, "simba-doctor");
    int rc = probe == NULL
                 ? ZSYSTEMERROR
                 : zoo_create(handle, probe, "", 0, simba__zk_acl(self),
                              ZOO_CONTAINER, NULL, 0);
    bool is_stuck = rc == ZOK && zoo_delete(handle, probe, -1) == ZNOAUTH;

    free(probe);
    if (is_stuck) {
        simba_request_add_finding(
            request, SIMBA_FINDING_SERIOUS, "containers",
            "nodes may be made but not deleted in %.100s: what is released "
            "stays owned until its process ends",
            base);
    } else if (rc == ZOK || rc == ZNODEEXISTS) {
        simba_request_add_finding(
            request, SIMBA_FINDING_OK, "containers",
            "the servers remove mutexes that nobody uses");
    } else if (rc == ZNOAUTH) {
        simba_request_add_finding(
            request, SIMBA_FINDING_SERIOUS, "containers",
            "no node may be made in %.100s: no new mutex can be acquired",
            base);
    } else if (rc == ZNONODE) {
        simba_request_add_finding(request, SIMBA_FINDING_NOTE, "containers",
                                  "%.100s is made with the first mutex", base);
    } else {
        simba_request_add_finding(
            request, SIMBA_FINDING_NOTE, "containers",
            "no container can be made, so mutexes that nobody uses stay: %s",
            zerror(rc));
    }
    return rc;
}

static int find_acl(const struct simba__zk *self,
                    zhandle_t *handle,
                    simba_request *request)
{
    int perms,
        rc = simba__zk_perms_of_anyone(handle, self->settings.base, &perms);

    if (rc == ZNOAUTH) {
        simba_request_add_finding(
            request, SIMBA_FINDING_SERIOUS, "acl",
            "the user and password of the URL may not use %.100s",
            self->settings.base);
    } else if (self->settings.acl == SIMBA__ZK_ACL_OPEN ||
               (perms & (PERMS_WRITE | PERMS_CREATE | PERMS_DELETE)) != 0) {
        simba_request_add_finding(request, SIMBA_FINDING_WEAK, "acl",
                                  "whoever reaches the servers may free a "
                                  "mutex by deleting a node");
    } else {
        simba_request_add_finding(request, SIMBA_FINDING_OK, "acl",
                                  "only who has our password may free a mutex");
    }
    return rc;
}

/* A server that falls silent has no findings. */
int simba__zk_examine(const struct simba__zk *self,
                      zhandle_t *handle,
                      simba_request *request,
                      simba_error *error)
{
    const struct simba__url *url = &self->settings.url;
    bool is_local;
    int rc;

    /* With less the client library gives up before it is connected, with much
     * more than a day its arithmetic overflows. */
    long long least = negotiate(self, request, 300);
    long long most = negotiate(self, request, 86400000);

    if (least == 0 || most == 0) {
        return simba__zk_fail(self, ZOPERATIONTIMEOUT, error);
    }
    rc = find_ensemble(handle, request);
    if (simba__zk_budget_most_ms(most < LEASE_MS ? most : LEASE_MS) <
        BUDGET_MS) {
        simba_request_add_finding(
            request, SIMBA_FINDING_SERIOUS, "session",
            "sessions last from %lld to %lld ms: nothing can be acquired with "
            "a lease of %d ms and a release budget of %d ms; set "
            "maxSessionTimeout (20 times tickTime unless set) to %d or more",
            least, most, LEASE_MS, BUDGET_MS, LEASE_MS);
    } else {
        simba_request_add_finding(
            request, most < LEASE_MS ? SIMBA_FINDING_WEAK : SIMBA_FINDING_OK,
            "session",
            "sessions last from %lld to %lld ms: a shorter lease frees a dead "
            "owner's mutex only after %lld ms, a longer one is cut to %lld ms",
            least, most, least, most);
    }
    rc = simba__zk_is_lost(rc) ? rc : find_containers(self, handle, request);
    rc = simba__zk_is_lost(rc) ? rc : find_acl(self, handle, request);
    if (simba__zk_is_lost(rc)) {
        return simba__zk_fail(self, rc, error);
    }
    simba_request_add_finding(request, SIMBA_FINDING_OK, "clock",
                              "leases count on monotonic clocks: steps of the "
                              "wall clock do nothing");
    simba_request_add_finding(request, SIMBA_FINDING_OK, "token",
                              "tokens are transaction ids of the ensemble");
    is_local = true;
    for (size_t i = 0; i < url->host_count; i++) {
        is_local &= simba__url_is_local(url->hosts[i].name);
    }
    simba_request_add_finding(
        request, is_local ? SIMBA_FINDING_OK : SIMBA_FINDING_WEAK, "tls", "%s",
        is_local ? "not needed: this machine"
                 : "not encrypted: this client library has no TLS");
    simba_request_add_finding(request, SIMBA_FINDING_NOTE, "queue",
                              "a stopped process keeps its position until its "
                              "session ends");
    return SIMBA_OK;
}
