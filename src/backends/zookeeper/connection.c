/* The connection, and one session after another: the first request asks for a
 * session, whose timeout is the lease of the first contender.
 *
 *   none --> opening --> connecting <--> connected
 *     ^        (opener)       |               |
 *     '-------- expired, refused, of no use --'
 *
 * What may block in the client library is done by the opener, a thread that
 * lives while there is such work: it makes handles, which looks up host names,
 * and closes those that are of no use any more, which waits for their
 * threads. */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include "util/array.h"
#include "util/container.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEASE_ANY_MS = 16000, /* who only reads does not care */
    REFUSED_MS = 2000,    /* after credentials that are not taken */
    ASK_MS = 150,         /* without an answer for so long, it is asked why */
    WARN_MS = 2000,       /* and for so long, it is logged */
    FIRST_MS = 2500,      /* and for so long, from the start, given up */
    UNANSWERED_MOST = 3   /* connections without a reply: no accident */
};

static void *run_opener(void *argument);

static void set_timer(struct simba__zk *self, simba_timer *timer, int64_t in_ms)
{
    simba_timer_set(self->base.loop, timer, simba_loop_now_ms() + in_ms);
}

/* --- opening ------------------------------------------------------------- */

static void start_opener(struct simba__zk *self)
{
    sigset_t all, before;

    if (self->is_opening) {
        return;
    }
    if (self->has_opener) {
        pthread_join(self->opener, NULL); /* it has left the loop already */
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    self->has_opener =
        pthread_create(&self->opener, NULL, run_opener, self) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    self->is_opening = self->has_opener;
    if (!self->has_opener) {
        simba_timer_set(self->base.loop, &self->retry,
                        simba__backoff_until(&self->backoff));
    }
}

static void on_retry(simba_timer *timer)
{
    struct simba__zk *self = container_of(timer, struct simba__zk, retry);

    if (self->handle == NULL) {
        self->wants_session = true;
        start_opener(self);
    }
}

static void on_warning(simba_timer *timer)
{
    struct simba__zk *self = container_of(timer, struct simba__zk, warning);

    if (!self->is_connected) {
        /* Requests fail before there was a connection, and that is told. */
        simba__log(&self->log,
                   self->was_connected ? SIMBA_LOG_WARN : SIMBA_LOG_INFO,
                   "%s: %s", self->settings.hosts, self->failure.message);
        if (self->was_connected) { /* who waits shall hear of it */
            simba_wake(self->base.loop, NULL);
        }
    }
}

static void on_asking(simba_timer *timer)
{
    struct simba__zk *self = container_of(timer, struct simba__zk, asking);

    if (self->handle != NULL && !self->was_connected) {
        self->wants_reason = true;
        start_opener(self);
    }
}

/* If there is no first connection soon. */
static void ask_why(struct simba__zk *self)
{
    if (self->handle != NULL && !self->was_connected && !self->asking.is_set) {
        set_timer(self, &self->asking, ASK_MS);
    }
}

static void fail_waiting(struct simba__zk *self)
{
    simba__zk_latches_each(self, NULL, simba__zk_latch_fail_unsent);
    simba__zk_admin_fail(self);
}

static void open_session(struct simba__zk *self, int64_t timeout_ms)
{
    self->asked_ms = timeout_ms;
    self->wants_session = true;
    self->retry.fire = on_retry;
    self->warning.fire = on_warning;
    self->asking.fire = on_asking;
    simba_error_set(&self->failure, SIMBA_EUNAVAIL, 0, "no server answers");
    set_timer(self, &self->warning, WARN_MS);
    start_opener(self);
}

/* Hands a handle to the opener to be closed. Without memory for that it is left
 * open, and its session lasts until the process ends. */
static void close_later(struct simba__zk *self, zhandle_t *handle)
{
    if (handle != NULL &&
        simba__array_reserve(&self->old, &self->old_room, self->old_count + 1,
                             sizeof(zhandle_t *))) {
        self->old[self->old_count++] = handle;
        start_opener(self);
    }
}

static void drop_session(struct simba__zk *self)
{
    zhandle_t *handle = self->handle;

    assert(handle != NULL);
    self->handle = NULL;
    self->is_connected = false;
    self->generation++;
    self->checks = 0;
    simba_timer_clear(self->base.loop, &self->checking);
    simba_timer_clear(self->base.loop, &self->failover);
    simba__zk_watches_lost(self, true);
    simba__zk_latches_each(self, NULL, simba__zk_latch_lost);
    close_later(self, handle);
}

int simba__zk_session_want(struct simba__zk *self,
                           const simba_request *request,
                           simba_error *error)
{
    bool is_acquire = request->kind == SIMBA_ACQUIRE;
    int64_t lease = is_acquire ? request->ttl_ms + request->transition_ms
                    : self->asked_ms != 0 ? self->asked_ms
                                          : LEASE_ANY_MS;
    bool is_other = self->asked_ms != 0 && lease != self->asked_ms;
    /* A session that nobody writes through is not certain for long: who begins
     * to contend in it would have to wait for two quorum writes. A new one is
     * certain at once. */
    bool is_stale =
        is_acquire && self->is_connected && self->latch_count == 0 &&
        simba__zk_certainty_lease(&self->certainty, simba_loop_now_ms()) <
            self->certainty.timeout_ms / 2;

    if (is_other && self->latch_count > 0) {
        return simba_error_set(
            error, SIMBA_EINVAL, 0,
            "zookeeper: the lease is the session's, and those who contend "
            "through this handle have one of %lld ms; open another store",
            (long long)self->asked_ms);
    }
    if (self->handle != NULL && (is_other || is_stale)) {
        drop_session(self);
    }
    /* The opener may be busy with old handles: that is no promise of one. */
    if (self->handle == NULL &&
        (is_other || self->asked_ms == 0 ||
         (!self->wants_session && !self->is_making && !self->retry.is_set))) {
        open_session(self, lease);
    }
    ask_why(self);
    return SIMBA_OK;
}

int64_t simba__zk_waits_until(const struct simba__zk *self,
                              const simba_request *request,
                              int64_t since_ms)
{
    int64_t first_ms = since_ms + FIRST_MS;

    return self->was_connected || request->deadline_ms < first_ms
               ? request->deadline_ms
               : first_ms;
}

/* --- what the session tells ---------------------------------------------- */

static bool is_needed(const struct simba__zk *self)
{
    return self->latch_count > 0 || self->parked != NULL ||
           self->mutexes.count > 0; /* observed */
}

static void begin_anew(struct simba__zk *self, const char *why)
{
    simba__log(&self->log, SIMBA_LOG_WARN, "%s: %s", self->settings.hosts, why);
    drop_session(self);
    self->is_cut_off = true;
    if (is_needed(self)) {
        open_session(self, self->asked_ms);
    }
    simba_wake(self->base.loop, NULL);
}

static void connected(struct simba__zk *self)
{
    struct simba__zk_certainty *certainty = &self->certainty;
    int64_t timeout_ms = zoo_recv_timeout(self->handle);

    if (self->is_connected) {
        return;
    }
    /* On each connection the client library asks for all watches of the session
     * in one packet. If that is more than the servers take, they close the
     * connection, and so on for ever: the session lives, and is of no use.
     * Given up when nothing is certain by it any more, it ends, and its latches
     * with it. */
    self->unanswered++;
    if (self->unanswered > UNANSWERED_MOST && is_needed(self) &&
        certainty->timeout_ms != 0 &&
        simba__zk_certainty_lease(certainty, simba_loop_now_ms()) <= 1) {
        begin_anew(self, "the session is given up: every connection is closed, "
                         "perhaps for too many latches in one handle");
        return;
    }
    self->is_connected = self->was_connected = true;
    self->tried = 0;
    simba_timer_clear(self->base.loop, &self->warning);
    simba_timer_clear(self->base.loop, &self->failover);
    if (self->is_cut_off) {
        self->is_cut_off = false;
        simba_count_reconnect(self->base.loop);
        simba__log(&self->log, SIMBA_LOG_INFO, "%s: connected again",
                   self->settings.hosts);
    }
    /* The first connection; or a server with other bounds, and then what was
     * certain is so no more. */
    if (certainty->timeout_ms != timeout_ms) {
        bool is_first = certainty->timeout_ms == 0;

        simba__zk_certainty_init(certainty, timeout_ms,
                                 is_first ? self->made_ms
                                          : self->made_ms - timeout_ms);
        simba__log(&self->log,
                   timeout_ms < self->asked_ms || !is_first ? SIMBA_LOG_WARN
                                                            : SIMBA_LOG_INFO,
                   "%s: the session lasts %lld ms, asked for were %lld",
                   self->settings.hosts, (long long)timeout_ms,
                   (long long)self->asked_ms);
    }
    simba__zk_observe_all(self);
    simba__zk_latches_each(self, NULL, simba__zk_latch_go);
    simba__zk_check(self);
    simba__zk_admin_go(self);
    if (self->has_failed) {
        self->has_failed = false;
        simba_wake(self->base.loop, NULL);
    }
}

static void follow_state(struct simba__zk *self, int state)
{
    if (state == ZOO_CONNECTED_STATE) {
        connected(self);
    } else if (state == ZOO_EXPIRED_SESSION_STATE) {
        begin_anew(self, "the session has ended");
    } else if (state == ZOO_AUTH_FAILED_STATE) {
        simba__log(&self->log, SIMBA_LOG_WARN,
                   "%s: the session was refused: wrong credentials",
                   self->settings.hosts);
        drop_session(self);
        simba_error_set(&self->failure, SIMBA_EDENIED, 0,
                        "the credentials were refused");
        set_timer(self, &self->retry, REFUSED_MS);
        simba_wake(self->base.loop, NULL);
    } else if (self->is_connected) {
        self->is_connected = false;
        self->is_cut_off = true;
        simba__zk_watches_lost(self, false);
        simba_error_set(&self->failure, SIMBA_EUNAVAIL, 0,
                        "the connection was lost");
        set_timer(self, &self->warning, WARN_MS);
    }
}

/* The server may know before the client library does, which hears of it only
 * when it connects again. (A session that moved is another matter: it lives,
 * and to drop it would free what its owners have not been told of.) */
bool simba__zk_session_lives(struct simba__zk *self, int rc)
{
    if (!simba__zk_is_lost(rc)) {
        self->unanswered = 0;
    }
    if (rc != ZSESSIONEXPIRED) {
        return true;
    }
    if (self->handle != NULL && !self->is_closing) {
        begin_anew(self, "the session has ended");
    }
    return false;
}

/* NOLINTNEXTLINE(readability-function-size): the client library's signature */
void simba__zk_on_session(zhandle_t *handle,
                          int type,
                          int state,
                          const char *path,
                          void *context)
{
    struct simba__zk *self = context;

    (void)path;
    if (type != ZOO_SESSION_EVENT) {
        return;
    }
    simba_loop_enter(self->base.loop);
    if (handle == self->handle && !self->is_closing) {
        follow_state(self, state);
    }
    simba_loop_leave(self->base.loop);
}

/* --- the opener ---------------------------------------------------------- */

/* This server does not answer: the next one first. The session was never made,
 * so nothing is lost. */
static void on_failover(simba_timer *timer)
{
    struct simba__zk *self = container_of(timer, struct simba__zk, failover);

    if (self->handle != NULL && self->certainty.timeout_ms == 0) {
        self->tried++;
        self->first_host++;
        drop_session(self);
        self->wants_session = true;
        start_opener(self);
    }
}

/* NULL: no handle could be made, and `problem` of gai_strerror(3) says why. */
static void take_handle(struct simba__zk *self,
                        zhandle_t *handle,
                        int64_t made_ms,
                        int problem)
{
    self->is_making = false;
    if (handle == NULL) {
        simba_error_set(&self->failure, SIMBA_EUNAVAIL,
                        simba__lookup_native(problem), "host name: %s",
                        gai_strerror(problem));
        simba_timer_set(self->base.loop, &self->retry,
                        simba__backoff_until(&self->backoff));
        fail_waiting(self);
        return;
    }
    simba__backoff_reset(&self->backoff);
    if (self->wants_session || self->is_closing) { /* wanted otherwise now */
        close_later(self, handle);
        return;
    }
    assert(self->handle == NULL);
    self->handle = handle;
    self->made_ms = made_ms;
    self->certainty = (struct simba__zk_certainty){0};
    self->unanswered = 0;
    self->failover.fire = on_failover;
    ask_why(self);
    set_timer(
        self, &self->failover,
        simba__zk_host_wait_ms(&self->settings, self->tried, self->asked_ms));
    follow_state(self,
                 zoo_state(handle)); /* its event may have come too early */
}

/* Those who wait for the first connection need not wait for nothing. */
static void take_refusal(struct simba__zk *self)
{
    if (self->handle != NULL && !self->was_connected) {
        simba_error_set(&self->failure, SIMBA_EUNAVAIL, ECONNREFUSED, "%s",
                        strerror(ECONNREFUSED));
        fail_waiting(self);
    }
}

/* Inside the loop, but for what may block. */
static void *run_opener(void *argument)
{
    struct simba__zk *self = argument;

    pthread_setname_np(pthread_self(), "simba-zk");
    simba_loop_enter(self->base.loop);
    while (((self->wants_session || self->wants_reason) && !self->is_closing) ||
           self->old_count > 0) {
        int64_t timeout_ms = self->asked_ms, made_ms = simba_loop_now_ms();
        unsigned first_host = self->first_host;
        zhandle_t **old = self->old;
        size_t old_count = self->old_count;
        bool is_making = self->wants_session;
        bool is_asking = self->wants_reason && !is_making;

        self->is_making = is_making;
        self->wants_session = self->wants_reason = false;
        self->old = NULL;
        self->old_count = self->old_room = 0;
        simba_loop_leave(self->base.loop);
        if (is_making) {
            zhandle_t *handle = simba__zk_handle_open(
                &self->settings, first_host, timeout_ms, self);
            int problem = handle == NULL ? simba__zk_lookup_problem() : 0;

            simba_loop_enter(self->base.loop);
            take_handle(self, handle, made_ms, problem);
            simba_loop_leave(self->base.loop);
        }
        if (is_asking && simba__zk_is_refused(&self->settings)) {
            simba_loop_enter(self->base.loop);
            take_refusal(self);
            simba_loop_leave(self->base.loop);
        }
        for (size_t i = 0; i < old_count; i++) {
            zookeeper_close(old[i]);
        }
        free(old);
        simba_loop_enter(self->base.loop);
    }
    self->is_opening = false;
    simba_loop_leave(self->base.loop);
    return NULL;
}

/* --- the end ------------------------------------------------------------- */

void simba__zk_detach(simba_backend *base)
{
    struct simba__zk *self = (struct simba__zk *)base;

    self->is_closing = true;
    simba_timer_clear(self->base.loop, &self->checking);
    simba_timer_clear(self->base.loop, &self->retry);
    simba_timer_clear(self->base.loop, &self->warning);
    simba_timer_clear(self->base.loop, &self->asking);
    simba_timer_clear(self->base.loop, &self->failover);
}

void simba__zk_disconnect(struct simba__zk *self)
{
    if (self->has_opener) {
        pthread_join(self->opener, NULL);
    }
    if (self->handle != NULL) {
        zookeeper_close(self->handle);
    }
}
