/* The ZooKeeper store: open, close, the table of functions; and what all its
 * files need: errors, ACLs, owners. */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include "core/name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- words --------------------------------------------------------------- */

bool simba__zk_is_lost(int rc)
{
    return rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT ||
           rc == ZSESSIONEXPIRED || rc == ZSESSIONMOVED ||
           rc == ZINVALIDSTATE || rc == ZCLOSING;
}

int simba__zk_fail(const struct simba__zk *self, int rc, simba_error *error)
{
    int status = simba__zk_is_lost(rc) ? SIMBA_EUNKNOWN : SIMBA_EMISCONFIG;

    switch (rc) {
    case ZNOAUTH:
    case ZAUTHFAILED:
    case ZSESSIONCLOSEDREQUIRESASLAUTH:
        status = SIMBA_EDENIED;
        break;
    case ZBADARGUMENTS:
        status = SIMBA_EINVAL;
        break;
    case ZTHROTTLEDOP:
        status = SIMBA_EUNAVAIL;
        break;
    case ZSYSTEMERROR:
        status = SIMBA_ENOMEM;
        break;
    case ZMARSHALLINGERROR:
    case ZRUNTIMEINCONSISTENCY:
    case ZDATAINCONSISTENCY:
        return simba_error_set(error, SIMBA_EMISCONFIG, rc,
                               "zookeeper %.120s: answers what was not asked "
                               "(%s): is it a ZooKeeper server?",
                               self->settings.hosts, zerror(rc));
    default: /* NONODE again and again, bad ACLs, a read-only server */
        break;
    }
    return simba_error_set(error, status, rc, "zookeeper %.120s: %s",
                           self->settings.hosts, zerror(rc));
}

int simba__zk_unanswered(struct simba__zk *self, simba_error *error)
{
    if (self->is_connected) {
        return simba_error_set(error, SIMBA_EUNAVAIL, 0,
                               "zookeeper %.120s: no answer in time",
                               self->settings.hosts);
    }
    self->has_failed = true;
    return simba_error_set(error, self->failure.code, self->failure.native,
                           "zookeeper %.120s: %s", self->settings.hosts,
                           self->failure.message);
}

void simba__zk_give_up(simba_request **slot, int status, const char *why)
{
    simba_error error;

    simba_error_set(&error, status, 0, "zookeeper: %s", why);
    simba__deadline_complete(slot, status, &error);
}

char *simba__zk_join(const char *path, const char *node)
{
    char *joined = NULL;

    return asprintf(&joined, "%s/%s", path, node) < 0 ? NULL : joined;
}

/* --- who may do what, and who owns --------------------------------------- */

const struct ACL_vector *simba__zk_acl(const struct simba__zk *self)
{
    static char auth[] = "auth", nobody[] = "", world[] = "world",
                anyone[] = "anyone";
    static struct ACL shared_list[] = {{0x1f, {auth, nobody}},
                                       {0x01, {world, anyone}}};
    static const struct ACL_vector shared = {2, shared_list};

    switch (self->settings.acl) {
    case SIMBA__ZK_ACL_CREATOR:
        return &ZOO_CREATOR_ALL_ACL;
    case SIMBA__ZK_ACL_SHARED:
        return &shared;
    case SIMBA__ZK_ACL_OPEN:
        break;
    }
    return &ZOO_OPEN_ACL_UNSAFE;
}

static simba_owner owner_since(int64_t ctime_ms, int64_t czxid, const char *id)
{
    simba_owner owner = {.acquired_at_ms = ctime_ms,
                         .ttl_at_ms = INT64_MAX,
                         .transition_at_ms = INT64_MAX,
                         .token = (uint64_t)czxid};

    return simba_owner_set_id(&owner, id) ? owner : simba_owner_none();
}

simba_owner simba__zk_owner_self(const struct simba__zk_latch *latch)
{
    return owner_since(latch->ctime_ms, latch->czxid, latch->id);
}

/* Curator's latches need no id, and an admin writes what he likes: a latch has
 * an owner all the same. */
simba_owner simba__zk_owner_of(const char *data,
                               int length,
                               const struct Stat *stat)
{
    char id[SIMBA_ID_MAX + 1] = "(unnamed)";
    size_t size = length > 0 ? (size_t)length : 0;

    if (size > SIMBA_ID_MAX ||
        (size > 0 && simba__name_check_id(data, size) != SIMBA__NAME_FINE)) {
        return owner_since(stat->ctime, stat->czxid, "(unreadable)");
    }
    if (size > 0) {
        memcpy(id, data, size);
        id[size] = '\0';
    }
    return owner_since(stat->ctime, stat->czxid, id);
}

/* --- the table ----------------------------------------------------------- */

static int open_store(const simba_backend_config *config,
                      simba_backend **backend,
                      simba_error *error)
{
    struct simba__zk *self = calloc(1, sizeof *self);
    int rc;

    *backend = NULL;
    if (self == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "zookeeper: no memory");
    }
    rc = simba__zk_settings_init(&self->settings, config->rest, error);
    if (rc != SIMBA_OK) {
        simba__zk_settings_fini(&self->settings);
        free(self);
        return rc;
    }
    self->base.ops = &simba_module;
    self->base.loop = config->loop;
    self->log = (struct simba__log){config->log, config->log_user, "zookeeper"};
    self->backoff = (struct simba__backoff){.first_ms = 50, .most_ms = 500};
    self->first_host = (unsigned)simba_loop_now_ms() ^ (unsigned)getpid();
    *backend = &self->base;
    return SIMBA_OK;
}

static void submit(simba_backend *base, simba_request *request)
{
    struct simba__zk *self = (struct simba__zk *)base;

    switch (request->kind) {
    case SIMBA_NO_REQUEST:
        break;
    case SIMBA_CLOSE: /* close() does it, for the client library may block */
        simba_request_done(request, SIMBA_OK, NULL);
        break;
    case SIMBA_ACQUIRE:
        simba__zk_acquire(self, request);
        break;
    case SIMBA_RENEW:
        simba__zk_renew(self, request);
        break;
    case SIMBA_RELEASE:
    case SIMBA_LEAVE:
        simba__zk_release(self, request);
        break;
    default:
        simba__zk_admin(self, request);
        break;
    }
}

/* Requests that nobody waits for any more may still be open. */
static void forget_latch(struct simba__zk_latch *latch)
{
    static const char why[] = "the store is closed";

    latch->replies_due = 0;
    simba__zk_give_up(&latch->acquire, SIMBA_EUNKNOWN, why);
    simba__zk_give_up(&latch->renewal, SIMBA_EUNKNOWN, why);
    simba__zk_give_up(&latch->release, SIMBA_EUNKNOWN, why);
    simba__zk_latch_forget(latch);
}

/* Closing the session removes every latch of this store, whatever is known of
 * it here. The client library calls back for what replies were due, and that
 * enters the loop: it can still be entered. */
static void close_store(simba_backend *base)
{
    struct simba__zk *self = (struct simba__zk *)base;
    struct simba__zk_tombstone *tombstone;
    struct simba__zk_latch *latch;
    struct simba__zk_mutex *mutex;

    simba__zk_disconnect(self);
    simba__zk_admin_close(self);
    simba_loop_enter(self->base.loop);
    simba__zk_latches_each(self, NULL, forget_latch);
    while ((latch = self->renewals) != NULL) {
        self->renewals = latch->next_renewal;
        simba__zk_latch_unref(latch);
    }
    while ((mutex = simba__zk_mutex_next(self, NULL)) != NULL) {
        mutex->is_observed = false;
        simba__zk_mutex_tidy(self, mutex);
    }
    simba_loop_leave(self->base.loop);
    while ((tombstone = self->tombstones) != NULL) {
        self->tombstones = tombstone->next;
        free(tombstone);
    }
    simba__hash_fini(&self->mutexes);
    simba__zk_settings_fini(&self->settings);
    free(self);
}

static void forked(simba_backend *base)
{
    (void)base; /* its threads are not here, and its locks may be held */
    simba__zk_descriptors_close();
}

const simba_backend_ops simba_module = {
    .abi = SIMBA_BACKEND_ABI,
    .scheme = "zookeeper",
    .least_lease_ms = 4000, /* two ticks of a server as it comes */
    .open = open_store,
    .submit = submit,
    .close = close_store,
    .detach = simba__zk_detach,
    .forked = forked,
    .capabilities = SIMBA_CAN_PUSH | SIMBA_CAN_LIST | SIMBA_CAN_BREAK |
                    SIMBA_CAN_DOCTOR | SIMBA_CAN_INIT | SIMBA_HAS_STEADY_CLOCK |
                    SIMBA_HAS_SESSION_LEASE | SIMBA_HAS_SERVER,
    .subscription = simba__zk_subscription,
    .schema = simba__zk_schema,
    .help = simba__zk_help,
};
