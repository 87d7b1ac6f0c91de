/* What this ensemble, set up as it is, can promise. On a thread of its own,
 * with sessions of its own: it asks with blocking calls. */
#define _GNU_SOURCE
#define THREADED
#include "backends/zookeeper/errand.h"
#include "backends/zookeeper/plain.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct visit {
    struct simba__zk *self;
    simba_op *op;
    struct simba__zk_plain plain;
};

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

static void find_ensemble(struct visit *visit)
{
    char config[16384];
    int length = sizeof config - 1;
    int rc =
        zoo_get(visit->plain.handle, ZOO_CONFIG_NODE, 0, config, &length, NULL);
    int servers;

    if (rc != ZOK) {
        simba_op_add_finding(visit->op, SIMBA_FINDING_NOTE, "ensemble",
                             "the servers do not tell how many they are: %s",
                             zerror(rc));
        return;
    }
    config[length > 0 ? length : 0] = '\0';
    servers = count_servers(config);
    if (servers <= 1) {
        simba_op_add_finding(visit->op, SIMBA_FINDING_WEAK, "ensemble",
                             "a single server: while it is down nobody "
                             "acquires, and what its disk loses is lost");
    } else {
        simba_op_add_finding(
            visit->op, servers % 2 == 0 ? SIMBA_FINDING_NOTE : SIMBA_FINDING_OK,
            "ensemble", "%d servers vote: mutexes survive the loss of %d",
            servers, (servers - 1) / 2);
    }
}

/* What the servers make of a timeout that is too short or too long. */
static int64_t negotiate(struct visit *visit, int64_t timeout_ms)
{
    struct simba__zk_plain probe;
    int64_t negotiated = 0;

    if (simba__zk_plain_open(&probe, &visit->self->settings, timeout_ms,
                             visit->op->deadline_ms)) {
        negotiated = zoo_recv_timeout(probe.handle);
        simba__zk_plain_close(&probe);
    }
    return negotiated;
}

static void find_bounds(struct visit *visit)
{
    /* With less the client library gives up before it is connected, with much
     * more than a day its arithmetic overflows. */
    int64_t least = negotiate(visit, 300), most = negotiate(visit, 86400000);

    simba_op_add_finding(
        visit->op, most < 16000 ? SIMBA_FINDING_WEAK : SIMBA_FINDING_OK,
        "session",
        "sessions last from %lld to %lld ms: a shorter lease "
        "frees a dead owner's mutex only after %lld ms, a "
        "longer one is cut to %lld ms",
        (long long)least, (long long)most, (long long)least, (long long)most);
}

/* Whether a server knows containers shows only when one is made. */
static void find_containers(struct visit *visit)
{
    const char *base = visit->self->settings.base;
    char *probe = simba__zk_join(base, "simba-doctor");
    int rc = probe == NULL ? ZSYSTEMERROR
                           : zoo_create(visit->plain.handle, probe, "", 0,
                                        simba__zk_acl(visit->self),
                                        ZOO_CONTAINER, NULL, 0);

    if (rc == ZOK) {
        zoo_delete(visit->plain.handle, probe, -1);
    }
    free(probe);
    if (rc == ZOK || rc == ZNODEEXISTS) {
        simba_op_add_finding(visit->op, SIMBA_FINDING_OK, "containers",
                             "the servers remove mutexes that nobody uses");
    } else if (rc == ZNONODE) {
        simba_op_add_finding(visit->op, SIMBA_FINDING_NOTE, "containers",
                             "%.100s is made with the first mutex", base);
    } else {
        simba_op_add_finding(visit->op, SIMBA_FINDING_NOTE, "containers",
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

static void find_acl(struct visit *visit)
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
    if (is_anyone) {
        simba_op_add_finding(visit->op, SIMBA_FINDING_WEAK, "acl",
                             "whoever reaches the servers may free a mutex by "
                             "deleting a node");
    } else {
        simba_op_add_finding(visit->op, SIMBA_FINDING_OK, "acl",
                             "only who has our password may free a mutex");
    }
}

static void find_rest(struct visit *visit)
{
    simba_op *op = visit->op;

    simba_op_add_finding(op, SIMBA_FINDING_OK, "clock",
                         "leases count on monotonic clocks: steps of the wall "
                         "clock do nothing");
    simba_op_add_finding(op, SIMBA_FINDING_OK, "token",
                         "tokens are transaction ids of the ensemble");
    simba_op_add_finding(op, SIMBA_FINDING_WEAK, "tls",
                         "this client library has no TLS: passwords and ids "
                         "travel in the clear");
    simba_op_add_finding(op, SIMBA_FINDING_NOTE, "line",
                         "a stopped process keeps its place until its session "
                         "ends");
}

/* --- the visit ----------------------------------------------------------- */

static int look(struct visit *visit, simba_error *error)
{
    int64_t timeout_ms = 16000;

    if (!simba__zk_plain_open(&visit->plain, &visit->self->settings, timeout_ms,
                              visit->op->deadline_ms)) {
        return simba_error_set(error, SIMBA_EUNAVAIL, 0,
                               "zookeeper %.120s: no server answers",
                               visit->self->settings.hosts);
    }
    find_ensemble(visit);
    find_bounds(visit);
    find_containers(visit);
    find_acl(visit);
    find_rest(visit);
    simba__zk_plain_close(&visit->plain);
    return SIMBA_OK;
}

static void *run(void *argument)
{
    struct visit *visit = argument;
    struct simba__zk *self = visit->self;
    simba_error error;
    int status;

    pthread_setname_np(pthread_self(), "simba-zk-doctor");
    status = look(visit, &error);
    simba_loop_enter(self->base.loop);
    self->is_visited = false;
    simba_op_done(visit->op, status, status == SIMBA_OK ? NULL : &error);
    simba_loop_leave(self->base.loop);
    free(visit);
    return NULL;
}

void simba__zk_doctor_join(struct simba__zk *self)
{
    if (self->has_doctor) {
        pthread_join(self->doctor, NULL);
        self->has_doctor = false;
    }
}

void simba__zk_doctor(struct simba__zk *self, simba_op *op)
{
    struct visit *visit = self->is_visited ? NULL : calloc(1, sizeof *visit);
    sigset_t all, before;
    simba_error error;

    if (visit != NULL) {
        visit->self = self;
        visit->op = op;
        simba__zk_doctor_join(self); /* it has left the loop already */
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        self->has_doctor = pthread_create(&self->doctor, NULL, run, visit) == 0;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        self->is_visited = self->has_doctor;
    }
    if (visit == NULL || !self->has_doctor) {
        free(visit);
        simba_error_set(&error, SIMBA_EUNAVAIL, 0,
                        "zookeeper: the doctor is busy");
        simba_op_done(op, SIMBA_EUNAVAIL, &error);
    }
}
