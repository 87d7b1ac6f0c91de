#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* Of the session: longer than any of the calls. */
enum { SESSION_MS = 16000 };

static int carry_out(struct simba__zk_visit *visit, simba_error *error)
{
    const struct simba__zk_settings *settings = &visit->self->settings;
    int status;

    if (!simba__zk_plain_open(&visit->plain, settings, SESSION_MS,
                              visit->connect_until_ms)) {
        return simba_error_set(error, SIMBA_EUNAVAIL, 0,
                               "zookeeper %.120s: no server answers",
                               settings->hosts);
    }
    status = visit->request->kind == SIMBA_INIT
                 ? simba__zk_init(visit, error)
                 : simba__zk_examine(visit, error);
    simba__zk_plain_close(&visit->plain);
    return status;
}

static void *run(void *argument)
{
    struct simba__zk_visit *visit = argument;
    struct simba__zk *self = visit->self;
    simba_error error;
    int status;

    pthread_setname_np(pthread_self(), "simba-zk-admin");
    status = carry_out(visit, &error);
    simba_loop_enter(self->base.loop);
    self->is_visited = false;
    simba_request_done(visit->request, status,
                       status == SIMBA_OK ? NULL : &error);
    simba_loop_leave(self->base.loop);
    free(visit);
    return NULL;
}

void simba__zk_visit_join(struct simba__zk *self)
{
    if (self->has_visitor) {
        pthread_join(self->visitor, NULL);
        self->has_visitor = false;
    }
}

static bool begin(struct simba__zk *self, struct simba__zk_visit *visit)
{
    sigset_t all, before;

    simba__zk_visit_join(self); /* it has left the loop already */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    self->has_visitor = pthread_create(&self->visitor, NULL, run, visit) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    self->is_visited = self->has_visitor;
    return self->has_visitor;
}

void simba__zk_visit(struct simba__zk *self, simba_request *request)
{
    struct simba__zk_visit *visit =
        self->is_visited ? NULL : calloc(1, sizeof *visit);
    simba_error error;

    if (visit != NULL) {
        visit->self = self;
        visit->request = request;
        visit->connect_until_ms =
            simba__zk_waits_until(self, request, simba_loop_now_ms());
        if (begin(self, visit)) {
            return;
        }
    }
    free(visit);
    simba_error_set(&error, SIMBA_EUNAVAIL, 0,
                    "zookeeper: another admin's question is under way; ask "
                    "again");
    simba_request_done(request, SIMBA_EUNAVAIL, &error);
}

/* What this ensemble, set up as it is, can promise. */

/* --- findings ------------------------------------------------------------ */

static int count_servers(const char *config)
{
    int count = 0;

    for (const char *at = strstr(config, "server."); at != NULL;
         at = strstr(at + 1, "server.")) {
        const char *end = strchr(at, '\n');
        const char *observer = strstr(at, ":observer");

        count += observer == NULL || (end != NULL && observer > end);
    }
    return count;
}

static void find_ensemble(struct simba__zk_visit *visit)
{
    char config[16384];
    int length = sizeof config - 1;
    int rc =
        zoo_get(visit->plain.handle, ZOO_CONFIG_NODE, 0, config, &length, NULL);
    int servers;

    if (rc != ZOK) {
        simba_request_add_finding(
            visit->request, SIMBA_FINDING_NOTE, "ensemble",
            "the servers do not tell how many they are: %s", zerror(rc));
        return;
    }
    config[length > 0 ? length : 0] = '\0';
    servers = count_servers(config);
    if (servers <= 1) {
        simba_request_add_finding(visit->request, SIMBA_FINDING_WEAK,
                                  "ensemble",
                                  "a single server: while it is down nobody "
                                  "acquires, and what its disk loses is lost");
    } else {
        simba_request_add_finding(
            visit->request,
            servers % 2 == 0 ? SIMBA_FINDING_NOTE : SIMBA_FINDING_OK,
            "ensemble", "%d servers vote: mutexes survive the loss of %d",
            servers, (servers - 1) / 2);
    }
}

/* What the servers make of a timeout that is too short or too long. */
static int64_t negotiate(struct simba__zk_visit *visit, int64_t timeout_ms)
{
    struct simba__zk_plain probe;
    int64_t negotiated = 0;

    if (simba__zk_plain_open(&probe, &visit->self->settings, timeout_ms,
                             visit->request->deadline_ms)) {
        negotiated = zoo_recv_timeout(probe.handle);
        simba__zk_plain_close(&probe);
    }
    return negotiated;
}

static void find_bounds(struct simba__zk_visit *visit)
{
    /* With less the client library gives up before it is connected, with much
     * more than a day its arithmetic overflows. */
    int64_t least = negotiate(visit, 300), most = negotiate(visit, 86400000);

    simba_request_add_finding(
        visit->request, most < 16000 ? SIMBA_FINDING_WEAK : SIMBA_FINDING_OK,
        "session",
        "sessions last from %lld to %lld ms: a shorter lease "
        "frees a dead owner's mutex only after %lld ms, a "
        "longer one is cut to %lld ms",
        (long long)least, (long long)most, (long long)least, (long long)most);
}

/* Whether a server knows containers shows only when one is made. */
static void find_containers(struct simba__zk_visit *visit)
{
    const char *base = visit->self->settings.base;
    char *probe = simba__zk_join(base, "simba-doctor");
    int rc = probe == NULL ? ZSYSTEMERROR
                           : zoo_create(visit->plain.handle, probe, "", 0,
                                        simba__zk_acl(visit->self),
                                        ZOO_CONTAINER, NULL, 0);

    bool is_stuck =
        rc == ZOK && zoo_delete(visit->plain.handle, probe, -1) == ZNOAUTH;

    free(probe);
    if (is_stuck) {
        simba_request_add_finding(
            visit->request, SIMBA_FINDING_SERIOUS, "containers",
            "nodes may be made but not deleted in %.100s: "
            "what is released stays owned until its process "
            "ends",
            base);
    } else if (rc == ZOK || rc == ZNODEEXISTS) {
        simba_request_add_finding(
            visit->request, SIMBA_FINDING_OK, "containers",
            "the servers remove mutexes that nobody uses");
    } else if (rc == ZNONODE) {
        simba_request_add_finding(visit->request, SIMBA_FINDING_NOTE,
                                  "containers",
                                  "%.100s is made with the first mutex", base);
    } else {
        simba_request_add_finding(
            visit->request, SIMBA_FINDING_NOTE, "containers",
            "no container can be made, so mutexes that nobody "
            "uses stay: %s",
            zerror(rc));
    }
}

static bool is_open(const struct ACL_vector *acl)
{
    for (int i = 0; i < acl->count; i++) {
        if (strcmp(acl->data[i].id.scheme, "world") == 0 &&
            (acl->data[i].perms & (0x02 | 0x04 | 0x08)) != 0) {
            return true;
        }
    }
    return false;
}

static void find_acl(struct simba__zk_visit *visit)
{
    struct ACL_vector acl = {0, NULL};
    struct Stat stat;
    int rc = zoo_get_acl(visit->plain.handle, visit->self->settings.base, &acl,
                         &stat);
    bool is_anyone = visit->self->settings.acl == SIMBA__ZK_ACL_OPEN ||
                     (rc == ZOK && is_open(&acl));

    if (rc == ZOK) {
        deallocate_ACL_vector(&acl);
    }
    if (rc == ZNOAUTH) {
        simba_request_add_finding(
            visit->request, SIMBA_FINDING_SERIOUS, "acl",
            "the user and password of the URL may not use "
            "%.100s",
            visit->self->settings.base);
    } else if (is_anyone) {
        simba_request_add_finding(
            visit->request, SIMBA_FINDING_WEAK, "acl",
            "whoever reaches the servers may free a mutex by "
            "deleting a node");
    } else {
        simba_request_add_finding(visit->request, SIMBA_FINDING_OK, "acl",
                                  "only who has our password may free a mutex");
    }
}

static void find_rest(struct simba__zk_visit *visit)
{
    simba_request *request = visit->request;

    simba_request_add_finding(
        request, SIMBA_FINDING_OK, "clock",
        "leases count on monotonic clocks: steps of the wall "
        "clock do nothing");
    simba_request_add_finding(request, SIMBA_FINDING_OK, "token",
                              "tokens are transaction ids of the ensemble");
    simba_request_add_finding(
        request, SIMBA_FINDING_WEAK, "tls",
        "this client library has no TLS: passwords and ids "
        "travel in the clear");
    simba_request_add_finding(
        request, SIMBA_FINDING_NOTE, "line",
        "a stopped process keeps its place until its session "
        "ends");
}

int simba__zk_examine(struct simba__zk_visit *visit, simba_error *error)
{
    (void)error; /* what cannot be asked is a finding, too */
    find_ensemble(visit);
    find_bounds(visit);
    find_containers(visit);
    find_acl(visit);
    find_rest(visit);
    return SIMBA_OK;
}
