/* What this ensemble, set up as it is, can promise. */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include <string.h>

/* What a contender has unless it says otherwise. */
enum { LEASE_MS = 16000, BUDGET_MS = 2000 };

/* What anybody may do. */
enum { PERMS_CHANGE = 0x02 | 0x04 | 0x08 };

/* Timeouts that are too short and too long. */
enum { TIMEOUT_SHORT_MS = 1, TIMEOUT_LONG_MS = 86400000 };

/* What is asked together. */
enum { CONFIG, MAKE, REMOVE, ACL };

typedef simba__zk_admin admin_t;

#define FIND(gravity, name, ...)                                               \
    simba_request_add_finding(request, SIMBA_FINDING_##gravity, name,          \
                              __VA_ARGS__)

/* --- findings ------------------------------------------------------------ */

/* By the configuration that the servers tell: who only observes has no vote. */
static int count_servers(const char *config)
{
    int servers = 0;

    for (const char *at = strstr(config, "server."); at != NULL;
         at = strstr(at + 1, "server.")) {
        const char *end = strchr(at, '\n');
        const char *observer = strstr(at, ":observer");

        servers += observer == NULL || (end != NULL && observer > end);
    }
    return servers;
}

static void find_ensemble(const simba__zk_reply *config, simba_request *request)
{
    if (config->rc != SIMBA__ZK_OK) {
        FIND(NOTE, "ensemble", "the servers do not tell how many they are: %s",
             simba__zk_words(config->rc));
    } else {
        simba__servers_find_quorum(request, "ensemble",
                                   count_servers(config->data),
                                   SIMBA_FINDING_NOTE);
    }
}

static void find_sessions(const admin_t *admin, simba_request *request)
{
    long long least = admin->least_ms, most = admin->most_ms;

    if (simba__zk_budget_most_ms(most < LEASE_MS ? most : LEASE_MS) <
        BUDGET_MS) {
        FIND(SERIOUS, "session",
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
}

/* Whether a server knows containers shows only when one is made. */
static void find_containers(const char *base,
                            const simba__zk_reply *replies,
                            simba_request *request)
{
    int rc = replies[MAKE].rc;

    if (rc == SIMBA__ZK_OK && replies[REMOVE].rc == SIMBA__ZK_NO_AUTH) {
        FIND(SERIOUS, "containers",
             "nodes may be made but not deleted in %.100s: what is released "
             "stays owned until its process ends",
             base);
    } else if (rc == SIMBA__ZK_OK || rc == SIMBA__ZK_NODE_EXISTS) {
        FIND(OK, "containers", "the servers remove mutexes that nobody uses");
    } else if (rc == SIMBA__ZK_NO_AUTH) {
        FIND(SERIOUS, "containers",
             "no node may be made in %.100s: no new mutex can be acquired",
             base);
    } else if (rc == SIMBA__ZK_NO_NODE) {
        FIND(NOTE, "containers", "%.100s is made with the first mutex", base);
    } else {
        FIND(NOTE, "containers",
             "no container can be made, so mutexes that nobody uses stay: %s",
             simba__zk_words(rc));
    }
}

static void find_acl(const simba__zk_settings *settings,
                     const simba__zk_reply *acl,
                     simba_request *request)
{
    if (acl->rc == SIMBA__ZK_NO_AUTH) {
        FIND(SERIOUS, "acl",
             "the user and password of the URL may not use %.100s",
             settings->base);
    } else if (settings->acl == SIMBA__ZK_ACL_OPEN ||
               (acl->perms & PERMS_CHANGE) != 0) {
        FIND(WEAK, "acl",
             "whoever reaches the servers may free a mutex by deleting a node");
    } else {
        FIND(OK, "acl", "only who has our password may free a mutex");
    }
}

static void report(admin_t *admin)
{
    const simba__zk_settings *settings = &admin->self->settings;
    const simba__zk_reply *replies = admin->batches[0].replies;
    simba_request *request = admin->base.request;

    find_ensemble(&replies[CONFIG], request);
    find_sessions(admin, request);
    find_containers(settings->base, replies, request);
    find_acl(settings, &replies[ACL], request);
    FIND(OK, "clock",
         "leases count on monotonic clocks: steps of the wall clock do "
         "nothing");
    FIND(OK, "token", "tokens are transaction ids of the ensemble");
    simba__servers_find_tls(&settings->servers, request);
    FIND(NOTE, "queue",
         "a stopped process keeps its position until its session ends");
    simba__zk_admin_finish(admin, SIMBA__ZK_OK);
}

/* --- asking -------------------------------------------------------------- */

/* Not when the store is closed: that closes all. */
void simba__zk_doctor_end(admin_t *admin)
{
    if (admin->probe != NULL && !admin->self->is_closing) {
        simba__zk_session_end(admin->probe, NULL);
    }
    admin->probe = NULL;
}

static void take_probe(admin_t *admin);

/* What the servers make of a timeout, in a session of its own. */
static void probe(admin_t *admin, int64_t timeout_ms)
{
    simba__zk_batch *batch = simba__zk_admin_begin(admin, 1);

    simba__zk_doctor_end(admin);
    admin->probe = simba__zk_session_open(admin->self, timeout_ms, 0);
    if (admin->probe == NULL) {
        simba__zk_admin_finish(admin, SIMBA__ZK_NO_MEMORY);
        return;
    }
    simba__zk_ask(batch, SIMBA__ZK_SYNC, NULL, "/");
    simba__zk_admin_send(admin, batch, take_probe);
}

static void take_probe(admin_t *admin)
{
    int64_t timeout_ms = admin->probe->timeout_ms;

    if (admin->probe->asked_ms == TIMEOUT_SHORT_MS) {
        admin->least_ms = timeout_ms;
        probe(admin, TIMEOUT_LONG_MS);
    } else {
        admin->most_ms = timeout_ms;
        report(admin);
    }
}

static void take_asked(admin_t *admin)
{
    probe(admin, TIMEOUT_SHORT_MS);
}

void simba__zk_doctor(admin_t *admin)
{
    static const char container[] = "simba-doctor";
    simba__zk_batch *batch = simba__zk_admin_begin(admin, 0);

    simba__zk_doctor_end(admin);
    simba__zk_ask(batch, SIMBA__ZK_GET_DATA, NULL, "/zookeeper/config");
    simba__zk_ask(batch, SIMBA__ZK_CREATE_CONTAINER, NULL, container);
    simba__zk_ask(batch, SIMBA__ZK_DELETE, NULL, container);
    simba__zk_ask(batch, SIMBA__ZK_GET_ACL, NULL, NULL);
    simba__zk_admin_send(admin, batch, take_asked);
}
