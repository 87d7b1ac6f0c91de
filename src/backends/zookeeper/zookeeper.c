/* The ZooKeeper store: open, close, the table of functions; one session after
 * another, how long each is certain, and renewals; errors and owners.
 *
 * A check is a multi of `check`: a quorum write that fires no watch. One serves
 * all renewals that have come since the last, and while there are latches there
 * is a quorum write every T/4 even if nobody asks, so that who becomes the
 * lowest is owner at once. What makes a session certain is in README.md. */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include "core/lease.h"
#include "core/name.h"
#include "kit/lookup.h"
#include "util/container.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEASE_ANY_MS = 16000, /* who only reads does not care */
    LOST_FIRST_MS = 10,   /* from a session that was lost to the next */
    LOST_MOST_MS = 1000
};

/* --- words --------------------------------------------------------------- */

const char *simba__zk_where(const simba__zk *self)
{
    return self->session == NULL
               ? "(closed)"
               : simba_connection_where(self->session->connection);
}

int simba__zk_fail(const simba__zk *self, int rc, simba_error *error)
{
    int status = rc == SIMBA__ZK_NO_AUTH || rc == SIMBA__ZK_AUTH_FAILED ||
                         rc == SIMBA__ZK_NEEDS_SASL
                     ? SIMBA_EDENIED
                 : rc == SIMBA__ZK_BAD_ARGUMENTS ? SIMBA_EINVAL
                 : rc == SIMBA__ZK_THROTTLED     ? SIMBA_EUNAVAIL
                 : rc == SIMBA__ZK_NO_MEMORY     ? SIMBA_ENOMEM
                 : rc == SIMBA__ZK_SYSTEM        ? SIMBA_EUNKNOWN
                                                 : SIMBA_EMISCONFIG;

    return simba_error_set(error, status, rc, "zookeeper %s: %s",
                           simba__zk_where(self), simba__zk_words(rc));
}

int simba__zk_unanswered(const simba__zk *self,
                         const simba_error *why,
                         simba_error *error)
{
    bool is_silence = why->native == ETIMEDOUT || why->code == SIMBA_OK ||
                      self->session == NULL || self->session->downs == 0;

    if (!is_silence) {
        *error = *why;
        return why->code;
    }
    return simba_error_set(error, SIMBA_EUNAVAIL, why->native,
                           "zookeeper %s: no server answers",
                           simba__zk_where(self));
}

/* Curator's latches need no id, and an admin writes what he likes: a latch has
 * an owner all the same. */
simba_owner simba__zk_owner_of(const simba__zk_reply *reply, uint32_t slots)
{
    size_t size = (size_t)reply->length;
    bool is_fine = size > 0 && size <= SIMBA_ID_MAX &&
                   simba__name_check_id(reply->data, size) == SIMBA__NAME_FINE;
    simba_owner owner =
        simba_session_owner(is_fine     ? reply->data
                            : size == 0 ? "(unnamed)"
                                        : "(unreadable)",
                            (uint64_t)reply->stat.czxid, reply->stat.ctime_ms);

    owner.slots = slots;
    owner.slot = owner.slots != 0 ? SIMBA_NO_SLOT : 0;
    return owner;
}

/* --- how long the session is certain ------------------------------------- */

/* What fails for want of a node is agreed upon like what succeeds. */
bool simba__zk_is_by_quorum(int rc)
{
    return rc == SIMBA__ZK_OK || rc == SIMBA__ZK_NO_NODE;
}

void simba__zk_answered(simba__zk *self, int rc, int64_t sent_ms)
{
    if (simba__zk_is_by_quorum(rc)) {
        simba_certainty_answered(&self->base.certainty, sent_ms,
                                 simba_loop_now_ms());
    }
}

/* At least what quorum writes every T/4 leave. */
static int64_t lease_least_ms(int64_t lease_ms)
{
    return lease_ms * 3 / 8;
}

int64_t simba__zk_budget_most_ms(int64_t lease_ms)
{
    struct simba__lease granted = {.ttl_ms = lease_least_ms(lease_ms)};

    return simba__lease_hard_ms(&granted) - 1;
}

int64_t simba__zk_full_lease_ms(const simba_entry *entry)
{
    int64_t timeout_ms = entry->store->certainty.timeout_ms;

    return entry->lease_ms < timeout_ms ? entry->lease_ms : timeout_ms;
}

static int64_t lease_ms(const simba_entry *entry,
                        int64_t since_ms,
                        int64_t *wait_ms)
{
    const simba_certainty *certainty = &entry->store->certainty;
    int64_t lease = simba_certainty_lease(certainty, since_ms);

    if (entry->acquire == NULL) {
        return lease;
    }
    entry->acquire->reply.session_ms = (uint32_t)certainty->timeout_ms;
    *wait_ms = simba_certainty_next(certainty) - simba_loop_now_ms();
    return lease < lease_least_ms(simba__zk_full_lease_ms(entry)) ? 0 : lease;
}

/* --- checks and renewals ------------------------------------------------- */

void simba__zk_written(simba__zk *self)
{
    simba_timer_set(
        self->base.base.loop, &self->checking,
        self->base.ops->is_ready(&self->base) && self->base.entry_count > 0
            ? simba_loop_now_ms() + self->base.certainty.timeout_ms / 4
            : INT64_MAX);
}

static void on_check_due(simba_timer *timer)
{
    simba__zk *self = container_of(timer, simba__zk, checking);

    simba__zk_written(self); /* also if the last one is still under way */
    if (self->check.exchange.connection == NULL) {
        simba__zk_begin(&self->check, self);
        simba__zk_multi_begin(&self->check);
        simba__zk_ask(&self->check, SIMBA__ZK_CHECK, NULL, NULL);
        simba__zk_multi_end(&self->check);
        simba__zk_send(&self->check, self->session, NULL, NULL);
    }
}

static void take_renewal(simba__zk *self, simba_entry *entry, int rc)
{
    simba_error error;
    int status = simba__zk_is_by_quorum(rc) ? SIMBA_OK
                 : rc == SIMBA__ZK_UNTRIED  ? SIMBA_EBUSY
                                            : simba__zk_fail(self, rc, &error);

    if (rc == SIMBA__ZK_OK && entry->mutex != NULL) {
        /* A change of its data uses up the watch. */
        simba__zk_watch_own((simba__zk_latch *)entry);
    }
    simba_entry_renewed(entry, status, &error, rc == SIMBA__ZK_OK);
}

static void on_renewed(simba__zk_batch *batch)
{
    simba__zk *self = batch->self;
    const simba__zk_reply *reply = &batch->replies[0];

    for (int i = 0; i < self->base.renewing_count; i++) {
        simba_entry *entry = self->base.renewing[i];

        if (batch->status != SIMBA_OK) {
            simba_entry_renewed(entry, batch->status, batch->error, false);
        } else { /* or it was refused as a whole */
            take_renewal(self, entry,
                         i < reply->count ? reply->codes[i] : reply->rc);
        }
    }
    simba_session_renewed(&self->base);
}

static void renew(simba_session_store *store,
                  simba_entry *const *entries,
                  int count)
{
    simba__zk *self = SIMBA__ZK(store);

    simba__zk_begin(&self->renewals, self);
    simba__zk_multi_begin(&self->renewals);
    for (int i = 0; i < count; i++) {
        char node[SIMBA__ZK_NODE_SIZE];

        simba__zk_node((const simba__zk_latch *)entries[i], node);
        simba__zk_ask(&self->renewals, SIMBA__ZK_CHECK,
                      simba_session_mutex_name(entries[i]->mutex), node);
    }
    simba__zk_multi_end(&self->renewals);
    simba__zk_send(&self->renewals, self->session, entries[0]->renewal,
                   on_renewed);
}

/* --- one session after another ------------------------------------------- */

void simba__zk_ready(simba__zk *self)
{
    const simba__zk_session *session = self->session;
    simba_certainty *certainty = &self->base.certainty;
    int64_t timeout_ms = session->timeout_ms;

    /* Owners were told more than the session keeps from now on. */
    if (!session->is_new && timeout_ms < certainty->timeout_ms) {
        simba__zk_lost(self, "sessions last shorter on this server");
        return;
    }
    if (session->is_new || certainty->timeout_ms != timeout_ms) {
        /* Another server has other bounds: what was certain is so no more. */
        *certainty = (simba_certainty){
            .timeout_ms = timeout_ms,
            .apart_ms = (timeout_ms + 3) / 4, /* what a late ping may take */
            .since_ms = session->is_new ? session->made_ms
                                        : session->made_ms - timeout_ms};
        simba__log(&self->log,
                   timeout_ms < self->asked_ms || !session->is_new
                       ? SIMBA_LOG_WARN
                       : SIMBA_LOG_INFO,
                   "%s: the session lasts %lld ms, asked for were %lld",
                   simba__zk_where(self), (long long)timeout_ms,
                   (long long)self->asked_ms);
    }
    self->base.fresh_ms = timeout_ms / 4;
    if (self->is_told) {
        self->is_told = false;
        simba__log(&self->log, SIMBA_LOG_INFO, "%s: connected again",
                   simba__zk_where(self));
    }
    if (self->is_cut_off) {
        self->is_cut_off = false;
        simba_count_reconnect(self->base.base.loop);
    }
    simba__zk_watches_set(self, session->is_new);
    simba_session_ready(&self->base);
    simba__zk_written(self);
    if (self->has_failed) {
        self->has_failed = false;
        simba_wake(self->base.base.loop, NULL);
    }
}

/* Who never had an answer need not wait for nothing, nor who is not let in; and
 * is told by what fails. Who had one hears of it when no other server is there
 * either. */
void simba__zk_down(simba__zk *self, const simba_error *why)
{
    size_t downs = self->session->downs;
    size_t hosts = self->settings.servers.url.host_count;

    simba__zk_watches_lost(self);
    simba__zk_written(self);
    if (self->base.was_ready && downs > hosts && !self->is_told) {
        self->is_told = true;
        simba__log(&self->log, SIMBA_LOG_WARN, "%s", why->message);
        simba_wake(self->base.base.loop, NULL);
    }
    if (why->code == SIMBA_EDENIED ||
        (!self->base.was_ready && downs >= hosts)) {
        self->has_failed = true;
        simba_session_failed(&self->base);
    }
}

/* Makes the next, and returns the one before it. */
static simba__zk_session *open_session(simba__zk *self, int64_t asked_ms)
{
    simba__zk_session *old = self->session;

    self->asked_ms = asked_ms;
    simba__zk_watches_lost(self);
    self->session =
        simba__zk_session_open(self, asked_ms, self->losses.last_ms);
    self->base.connection =
        self->session == NULL ? NULL : self->session->connection;
    return old;
}

/* What was sent over it fails, what reads begins again in the next. */
void simba__zk_lost(simba__zk *self, const char *why)
{
    int64_t age_ms = simba_loop_now_ms() - self->session->made_ms;

    if (age_ms >= self->session->timeout_ms) {
        simba__backoff_reset(&self->losses);
    }
    simba__log(&self->log, SIMBA_LOG_WARN, "%s: %s", simba__zk_where(self),
               why);
    self->is_cut_off = true;
    (void)simba__backoff_until(&self->losses);
    simba__zk_session_close(open_session(self, self->asked_ms));
    simba__zk_written(self);
    simba_session_lost(&self->base);
}

void simba__zk_want_any(simba__zk *self)
{
    if (self->session == NULL && !self->is_closing) {
        (void)open_session(self,
                           self->asked_ms != 0 ? self->asked_ms : LEASE_ANY_MS);
    }
}

static int want(simba_session_store *store,
                const simba_request *request,
                simba_error *error)
{
    simba__zk *self = SIMBA__ZK(store);
    int64_t lease = request->ttl_ms + request->transition_ms;
    bool is_other = self->asked_ms != 0 && lease != self->asked_ms;
    bool is_used = self->base.entry_count > 0;
    /* A session that nobody writes through is not certain for long: who begins
     * to contend in it would have to wait for two quorum writes. A new one is
     * certain at once. */
    bool is_stale =
        self->session != NULL && self->session->is_ready && !is_used &&
        simba_certainty_lease(&self->base.certainty, simba_loop_now_ms()) <
            self->base.certainty.timeout_ms / 2;
    const simba_error *why;

    if (is_other && is_used) {
        return simba_error_set(
            error, SIMBA_EINVAL, 0,
            "zookeeper: the lease is the session's, and those who contend "
            "through this handle have one of %lld ms; open another store",
            (long long)self->asked_ms);
    }
    if (self->session != NULL && (is_other || is_stale)) {
        simba__zk_session_end(open_session(self, lease), NULL);
    } else if (self->session == NULL) {
        (void)open_session(self, lease);
    }
    if (self->session == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "zookeeper: no memory");
    }
    why = simba_connection_why(self->session->connection);
    if (!self->session->is_ready &&
        (why->code == SIMBA_EDENIED || why->native == SIMBA__UNKNOWN_HOST)) {
        self->has_failed = true;
        *error = *why;
        return why->code;
    }
    return SIMBA_OK;
}

static bool is_ready(const simba_session_store *store)
{
    const simba__zk *self = (const simba__zk *)store;

    return self->session != NULL && self->session->is_ready &&
           simba_connection_is_ready(self->session->connection) &&
           !self->is_closing;
}

static int unready(const simba_session_store *store, simba_error *error)
{
    static const simba_error nothing;
    const simba__zk *self = (const simba__zk *)store;
    const simba_error *why = &nothing;

    if (is_ready(store)) {
        return simba_error_set(error, SIMBA_EUNAVAIL, 0,
                               "zookeeper %s: no answer in time",
                               simba__zk_where(self));
    }
    SIMBA__ZK(store)->has_failed = true;
    if (self->session != NULL) {
        why = simba_connection_why(self->session->connection);
    }
    return simba__zk_unanswered(self, why, error);
}

/* --- the table ----------------------------------------------------------- */

static void close_session(simba_session_store *store, simba_request *request)
{
    simba__zk *self = SIMBA__ZK(store);
    simba__zk_session *session = self->session;

    self->is_closing = true;
    self->session = NULL;
    self->base.connection = NULL;
    if (session == NULL) {
        simba_request_done(request, SIMBA_OK, NULL);
    } else {
        simba__zk_session_end(session, request);
    }
}

static const simba_session_ops session_ops = {
    .size = sizeof session_ops,
    .store_size = sizeof(simba__zk),
    .table = &simba_module,
    .entry_size = sizeof(simba__zk_latch),
    .mutex_size = sizeof(simba__zk_mutex),
    .name = "zookeeper",
    .want = want,
    .is_ready = is_ready,
    .unready = unready,
    .put = simba__zk_step,
    .look = simba__zk_step,
    .remove = simba__zk_step,
    .renew = renew,
    .renew_most = 256, /* a multi must fit into a packet of 1 MiB */
    .is_ordered = true,
    .lease_ms = lease_ms,
    .forget = simba__zk_forget,
    .observe = simba__zk_observe,
    .admin = simba__zk_serve,
    .close_session = close_session,
};

static void close_store(simba_backend *base)
{
    simba__zk_settings_fini(&SIMBA__ZK(base)->settings);
    simba_session_close(base);
}

static int open_store(const simba_backend_config *config,
                      simba_backend **backend,
                      simba_error *error)
{
    int rc = simba_session_open(config, &session_ops, backend, error);
    simba__zk *self = SIMBA__ZK(*backend);
    struct simba__servers *servers = &self->settings.servers;

    if (rc != SIMBA_OK) {
        return rc;
    }
    self->losses = (struct simba__backoff){.first_ms = LOST_FIRST_MS,
                                           .most_ms = LOST_MOST_MS};
    self->log = (struct simba__log){config->log, config->log_user, "zookeeper"};
    self->checking.fire = on_check_due;
    rc = simba__zk_settings_init(&self->settings, config->rest, error);
    if (rc == SIMBA_OK) {
        rc = simba__tls_context_open(&servers->tls, "zookeeper",
                                     &servers->tls_context, error);
    }
    if (rc != SIMBA_OK) {
        close_store(*backend);
        *backend = NULL;
    }
    return rc;
}

static void detach(simba_backend *base)
{
    simba__zk *self = SIMBA__ZK(base);

    self->is_closing = true;
    self->session = NULL;
    self->base.connection = NULL;
    simba_timer_clear(base->loop, &self->checking);
    simba__zk_batch_fini(&self->renewals);
    simba__zk_batch_fini(&self->check);
    simba__zk_watching_fini(self);
    simba_session_fini(&self->base);
    while (self->sessions != NULL) {
        simba__zk_session_close(self->sessions);
    }
}

static void forked(simba_backend *base)
{
    for (simba__zk_session *s = SIMBA__ZK(base)->sessions; s != NULL;
         s = s->next) {
        simba_connection_forked(s->connection);
    }
}

const simba_backend_ops simba_module = {
    .abi = SIMBA_BACKEND_ABI,
    .scheme = "zookeeper",
    .least_lease_ms = 4000, /* two ticks of a server as it comes */
    .open = open_store,
    .submit = simba_session_submit,
    .close = close_store,
    .detach = detach,
    .forked = forked,
    .capabilities = SIMBA_CAN_PUSH | SIMBA_CAN_LIST | SIMBA_CAN_BREAK |
                    SIMBA_CAN_DOCTOR | SIMBA_CAN_INIT | SIMBA_HAS_STEADY_CLOCK |
                    SIMBA_HAS_SESSION_LEASE | SIMBA_HAS_SERVER |
                    SIMBA_CAN_SLOTS,
    .subscription = simba_session_subscription,
    .drive = simba_session_drive,
    .schema = simba__zk_schema,
    .help = simba__zk_help,
};
