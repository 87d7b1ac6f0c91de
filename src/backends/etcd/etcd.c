/* The etcd store: open, close, the table of functions; and its
 * session. */
#define _GNU_SOURCE
#include "backends/etcd/etcd.h"

#include "kit/deadline.h"
#include "util/container.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CALL_MS = 3000,  /* of calls that nobody asked for */
    FRESH_MS = 2000, /* for how long one look is good for all */
    TTL_LEAST_S = 5, /* of the session's lease */
};

/* --- the session --------------------------------------------------------- */

/* A lease of etcd, which clears away what a dead process leaves, and a key that
 * is written with every renewal. */

static void keep_alive_later(simba__etcd *self)
{
    simba_timer_set(self->base.base.loop, &self->keeping,
                    simba_loop_now_ms() + self->ttl_s * 1000 / 3);
}

static void keep_alive(simba_timer *timer)
{
    simba__etcd *self = container_of(timer, simba__etcd, keeping);

    if (self->lease != 0) {
        simba__pb_number(simba__rpc_begin(&self->keep_alive), 1, self->lease);
        (void)simba__rpc_send(&self->grpc, &self->keep_alive);
    }
    keep_alive_later(self);
}

/* A call of the session, about its time or its lease. */
static void session_call(simba__etcd *self,
                         const char *method,
                         int64_t number,
                         simba__rpc_done *done)
{
    simba__rpc *call = &self->session.rpc;

    simba__pb_number(simba__rpc_begin(call), 1, number);
    call->method = method;
    call->done = done;
    call->exchange.deadline_ms = self->closing != NULL
                                     ? self->closing->deadline_ms
                                     : simba_loop_now_ms() + CALL_MS;
    simba__rpc_submit(&self->grpc, call);
}

static void begin_later(simba__etcd *self)
{
    self->lease = self->create = 0;
    simba_timer_set(self->base.base.loop, &self->beginning,
                    simba__backoff_until(&self->backoff));
}

/* Those who wait are told. */
static void fail_session(simba__etcd *self,
                         int status,
                         const simba_error *error)
{
    begin_later(self);
    if (error != NULL) {
        self->base.failure = *error;
    }
    if (status == SIMBA_EDENIED || status == SIMBA_EMISCONFIG) {
        simba__log(&self->log, SIMBA_LOG_WARN, "%s",
                   self->base.failure.message);
    }
    self->has_failed = true;
    simba_session_failed(&self->base);
}

/* The heartbeat, which goes with its lease: it was made, or is still there. */
static void on_beat(simba__etcd_txn *txn, int status, const simba_error *error)
{
    simba__etcd *self = txn->self;
    bool is_done = status == SIMBA_OK && txn->is_done;

    if (self->create == 0 && is_done) {
        self->create = txn->revision;
        keep_alive_later(self);
        simba_session_ready(&self->base);
    } else if (self->create == 0) {
        fail_session(self, status, error);
    } else if (status == SIMBA_OK && !is_done) {
        simba__etcd_session_end(self, "its lease has ended");
    }
}

static void put_beat(simba__etcd *self)
{
    self->session.done = on_beat;
    simba__etcd_write_renewal(&self->session, NULL, 0);
    simba__etcd_submit(&self->session, NULL, CALL_MS);
}

/* LeaseKeepAliveResponse: 2 id, 3 ttl. A leader that lags may say that there is
 * no lease which was granted just now. */
static void on_kept(simba__rpc *rpc, int status, const simba_error *error)
{
    simba__etcd *self = container_of(rpc, simba__etcd, keep_alive);
    simba__pb_fields reply = simba__pb_read(rpc->reply);

    (void)status; /* the stream is opened again with the next that is sent */
    (void)error;
    if (reply.number[2] == 0 || reply.number[2] != self->lease) {
        /* of another session */
    } else if (reply.number[3] > 0) {
        simba__backoff_reset(&self->backoff);
    } else if (self->create != 0 && self->session.rpc.grpc == NULL) {
        put_beat(self); /* a quorum tells whether it is there */
    }
}

/* LeaseGrantResponse: 2 id, 3 ttl. */
static void on_granted(simba__rpc *rpc, int status, const simba_error *error)
{
    simba__etcd *self = container_of(rpc, simba__etcd, session.rpc);
    simba__pb_fields reply = simba__pb_read(rpc->reply);

    self->lease = reply.number[2];
    if (self->lease == 0) {
        fail_session(self, status, error);
        return;
    }
    self->ttl_s = reply.number[3] > 0 ? reply.number[3] : self->ttl_s;
    put_beat(self);
}

static void begin_session(simba__etcd *self)
{
    if (self->session.rpc.grpc == NULL && self->lease == 0 &&
        !self->is_closing && !self->beginning.is_set) {
        session_call(self, SIMBA__ETCD_METHOD("Lease/LeaseGrant"), self->ttl_s,
                     on_granted);
    }
}

static void on_beginning(simba_timer *timer)
{
    simba__etcd *self = container_of(timer, simba__etcd, beginning);

    if (self->base.entry_count > 0) {
        begin_session(self);
    }
}

void simba__etcd_session_end(simba__etcd *self, const char *why)
{
    simba_session_mutex *mutex = NULL;

    if (self->lease == 0) {
        return;
    }
    simba__log(&self->log, SIMBA_LOG_WARN, "the session is over: %s", why);
    begin_later(self);
    if (!self->is_closing) { /* it is to be revoked */
        simba__rpc_fini(&self->session.rpc);
    }
    simba__rpc_fini(&self->renewal.rpc);
    while ((mutex = simba_session_mutex_next(&self->base, mutex)) != NULL) {
        for (simba_entry *e = mutex->entries; e != NULL; e = e->next) {
            simba__etcd_entry_lose(e);
        }
    }
    simba_session_lost(&self->base);
}

static int want(simba_session_store *store,
                const simba_request *request,
                simba_error *error)
{
    simba__etcd *self = SIMBA__ETCD(store);
    int64_t ttl_s = (request->ttl_ms + request->transition_ms + 999) / 1000;

    (void)error;
    if (self->ttl_s == 0) {
        self->ttl_s = ttl_s > TTL_LEAST_S ? ttl_s : TTL_LEAST_S;
    }
    begin_session(self);
    return SIMBA_OK;
}

static bool is_ready(const simba_session_store *store)
{
    const simba__etcd *self = (const simba__etcd *)store;

    return self->create != 0 && !self->is_closing;
}

/* Certain for the lease that is written in its key, after the write that was
 * sent last: of the key, or of the heartbeat on the condition of the key. */
static int64_t lease_ms(const simba_entry *entry,
                        int64_t since_ms,
                        int64_t *wait_ms)
{
    const simba__etcd_entry *e = (const simba__etcd_entry *)entry;
    simba_certainty certainty = {.timeout_ms = e->step->mine.lease_ms,
                                 .since_ms = e->step->since_ms};

    *wait_ms = 1;
    return simba_certainty_lease(&certainty, since_ms);
}

/* --- renewing ------------------------------------------------------------ */

/* Has another taken what we own, by what was read when a renewal failed? Of
 * several o stands before ours. */
static bool is_lost(simba__etcd_entry *e, simba__pb_bytes *rest)
{
    simba__etcd_got got = {0};
    simba__etcd_owner crowd = {.is_crowd = true};

    if (e->base.slots != 0 && simba__etcd_next_got(rest, &got)) {
        crowd = simba__etcd_owner_read(&got.kv);
    }
    return !simba__etcd_next_got(rest, &got) || !e->is_owner ||
           !crowd.is_crowd || crowd.is_broken ||
           ((got.kv.value.length != strlen(e->step->mine.text) ||
             memcmp(got.kv.value.at, e->step->mine.text, got.kv.value.length) !=
                 0) &&
            !simba__etcd_is_asked(e, &got.kv));
}

/* Those whose key has changed are not ours any more; if there are any, the
 * others were not tried. */
static void on_renewed(simba__etcd_txn *txn,
                       int status,
                       const simba_error *error)
{
    simba__etcd *self = txn->self;
    bool is_done = status == SIMBA_OK && txn->is_done;
    simba__pb_bytes rest = txn->rpc.reply;
    simba__etcd_got got = {0};

    if (status == SIMBA_OK && !is_done &&
        (!simba__etcd_next_got(&rest, &got) || got.kv.create != self->create)) {
        simba__etcd_session_end(self, "its lease has ended");
        return;
    }
    for (int i = 0; i < self->base.renewing_count; i++) {
        simba__etcd_entry *e = (simba__etcd_entry *)self->base.renewing[i];
        int outcome = status;
        bool is_taken = false;

        if (is_done) {
            is_taken = !e->is_owner; /* meanwhile */
        } else if (status == SIMBA_OK) {
            is_taken = is_lost(e, &rest);
            outcome = is_taken ? SIMBA_OK : SIMBA_EBUSY;
        }
        if (is_done && e->is_owner) {
            e->step->since_ms = txn->rpc.exchange.sent_ms;
        }
        if (e->base.renewal != NULL && e->is_owner) {
            memcpy(e->base.renewal->reply.asked, e->step->mine.asked,
                   sizeof e->step->mine.asked);
        }
        simba_entry_renewed(&e->base, outcome, error, !is_taken);
    }
    simba_session_renewed(&self->base);
}

static void renew(simba_session_store *store,
                  simba_entry *const *entries,
                  int count)
{
    simba__etcd *self = SIMBA__ETCD(store);
    const simba_request *first = entries[0]->renewal;

    for (int i = 1; i < count; i++) {
        if (entries[i]->renewal->deadline_ms < first->deadline_ms) {
            first = entries[i]->renewal;
        }
    }
    self->renewal.done = on_renewed;
    simba__etcd_write_renewal(&self->renewal, entries, count);
    simba__etcd_submit(&self->renewal, first, 0);
}

/* --- the connection ------------------------------------------------------ */

static void on_ready(void *grpc, simba_connection *connection)
{
    simba__etcd *self = container_of(grpc, simba__etcd, grpc);

    (void)connection;
    self->base.was_ready = true;
    simba__etcd_watches_begin(self);
    if (self->create != 0) {
        keep_alive(&self->keeping);
        simba_session_ready(&self->base);
    } else if (self->base.entry_count > 0) {
        begin_session(self);
    }
    if (self->has_failed) { /* those who wait for the server */
        self->has_failed = false;
        simba_wake(self->base.base.loop, NULL);
    }
}

static void on_down(void *grpc,
                    simba_connection *connection,
                    const simba_error *why)
{
    simba__etcd *self = container_of(grpc, simba__etcd, grpc);

    (void)connection;
    (void)why;
    simba__etcd_watches_lost(self);
    if (!self->has_failed) { /* those who wait see whether another is there */
        self->has_failed = true;
        simba_wake(self->base.base.loop, NULL);
    }
}

static int connect(simba__etcd *self, simba_error *error)
{
    struct simba__servers *servers = &self->settings.servers;
    int rc = simba__tls_context_open(&servers->tls, "etcd",
                                     &servers->tls_context, error);
    simba_connection_config config =
        simba__servers_connection(servers, &self->base);

    if (rc == SIMBA_OK) {
        config.ready = on_ready;
        config.down = on_down;
        config.log = self->log.write;
        config.log_user = self->log.user;
        self->grpc.user = servers->url.user;
        self->grpc.password = servers->url.password;
        simba_loop_enter(config.loop);
        rc = simba__grpc_open(&self->grpc, &config, error);
        self->base.connection = self->grpc.connection;
        simba_loop_leave(config.loop);
    }
    return rc;
}

/* --- the table ----------------------------------------------------------- */

static void on_revoked(simba__rpc *rpc, int status, const simba_error *error)
{
    simba__etcd *self = container_of(rpc, simba__etcd, session.rpc);

    (void)status;
    (void)error;
    simba__deadline_complete(&self->closing, SIMBA_OK, NULL);
}

/* Whoever waits behind us should not have to wait for the lease to run out.
 * What is under way goes on in this session, and finds it over. */
static void close_session(simba_session_store *store, simba_request *request)
{
    simba__etcd *self = SIMBA__ETCD(store);

    self->is_closing = true;
    simba__deadline_complete(&self->closing, SIMBA_OK, NULL);
    self->closing = request;
    if (self->create == 0 ||
        !simba_connection_is_ready(self->grpc.connection)) {
        simba__deadline_complete(&self->closing, SIMBA_OK, NULL);
        return;
    }
    simba__rpc_fini(&self->session.rpc);
    session_call(self, SIMBA__ETCD_METHOD("Lease/LeaseRevoke"), self->lease,
                 on_revoked);
}

static const simba_session_ops session_ops = {
    .size = sizeof session_ops,
    .store_size = sizeof(simba__etcd),
    .table = &simba_module,
    .entry_size = sizeof(simba__etcd_entry),
    .mutex_size = sizeof(simba__etcd_mutex),
    .name = "etcd",
    .want = want,
    .is_ready = is_ready,
    .put = simba__etcd_entry_put,
    .look = simba__etcd_entry_look,
    .remove = simba__etcd_entry_remove,
    .renew = renew,
    .renew_most = 60, /* of 128 conditions a transaction may have, two each */
    .is_tenure_lasting = true,
    .lease_ms = lease_ms,
    .forget = simba__etcd_entry_forget,
    .observe = simba__etcd_observe,
    .admin = simba__etcd_admin,
    .close_session = close_session,
};

static void close_store(simba_backend *base)
{
    free(SIMBA__ETCD(base)->watches);
    simba__hash_fini(&SIMBA__ETCD(base)->beats);
    simba__servers_fini(&SIMBA__ETCD(base)->settings.servers);
    simba_session_close(base);
}

static int open_store(const simba_backend_config *config,
                      simba_backend **backend,
                      simba_error *error)
{
    int rc = simba_session_open(config, &session_ops, backend, error);
    simba__etcd *self = SIMBA__ETCD(*backend);

    if (rc != SIMBA_OK) {
        return rc;
    }
    self->base.fresh_ms = FRESH_MS;
    self->log = (struct simba__log){config->log, config->log_user, "etcd"};
    self->backoff = (struct simba__backoff){.first_ms = 50, .most_ms = 500};
    self->session.self = self->renewal.self = self;
    self->keeping.fire = keep_alive;
    self->beginning.fire = on_beginning;
    simba_clock_id(self->clock_id);
    self->keep_alive.method = SIMBA__ETCD_METHOD("Lease/LeaseKeepAlive");
    self->keep_alive.is_stream = true;
    self->keep_alive.done = on_kept;
    rc = simba__etcd_settings_init(&self->settings, config->rest, error);
    rc = rc == SIMBA_OK ? connect(self, error) : rc;
    if (rc != SIMBA_OK) {
        close_store(*backend);
        *backend = NULL;
    }
    return rc;
}

static void detach(simba_backend *base)
{
    simba__etcd *self = SIMBA__ETCD(base);

    self->is_closing = true;
    /* A server that is silent is not waited for. */
    simba__deadline_complete(&self->closing, SIMBA_OK, NULL);
    simba_timer_clear(base->loop, &self->keeping);
    simba_timer_clear(base->loop, &self->beginning);
    simba_timer_clear(base->loop, &self->confirming);
    simba__rpc_fini(&self->renewal.rpc);
    simba_session_fini(&self->base);
    simba__rpc_fini(&self->session.rpc);
    simba__rpc_fini(&self->keep_alive);
    simba__rpc_fini(&self->watch_stream);
    simba__grpc_close(&self->grpc);
}

const simba_backend_ops simba_module = {
    .abi = SIMBA_BACKEND_ABI,
    .scheme = "etcd",
    .least_lease_ms = 3000,
    .open = open_store,
    .submit = simba_session_submit,
    .close = close_store,
    .detach = detach,
    .forked = simba_session_forked,
    .capabilities = SIMBA_CAN_PUSH | SIMBA_CAN_LIST | SIMBA_CAN_BREAK |
                    SIMBA_CAN_DOCTOR | SIMBA_HAS_STEADY_CLOCK |
                    SIMBA_HAS_SESSION_LEASE | SIMBA_CAN_OBSERVE |
                    SIMBA_HAS_SERVER | SIMBA_CAN_SLOTS | SIMBA_CAN_HAND_OVER |
                    SIMBA_TELLS_BREAKS,
    .subscription = simba_session_subscription,
    .drive = simba_session_drive,
    .help = simba__etcd_help,
};
