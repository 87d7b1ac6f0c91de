#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* The session: asked for by the first operation, its timeout the lease of the
 * first contender; lost and made anew; guarded while there are latches.
 *
 *   none --> opening --> connecting <--> connected
 *     ^        (opener)       |               |
 *     '-------- expired, refused, of no use --'  */

enum {
    LEASE_ANY_MS = 16000, /* who only reads does not care */
    RETRY_MS = 500,       /* a host name that cannot be looked up */
    REFUSED_MS = 2000,    /* credentials that are not taken */
    WORRY_MS = 2000,      /* no answer for so long is worth a word */
    FIRST_MS = 2500       /* and for so long, from the start, an end */
};

/* So many connections of a session without an answer are no accident. */
enum { UNHEARD_MOST = 3 };

static struct simba__zk *of_timer(simba_timer *timer, size_t offset)
{
    return (struct simba__zk *)(void *)((char *)timer - offset);
}

/* --- wanting one --------------------------------------------------------- */

static void on_retry(simba_timer *timer)
{
    struct simba__zk *self =
        of_timer(timer, offsetof(struct simba__zk, retrying));

    if (self->handle == NULL) {
        self->wants_session = true;
        simba__zk_opener_start(self);
    }
}

static void on_worry(simba_timer *timer)
{
    struct simba__zk *self =
        of_timer(timer, offsetof(struct simba__zk, worrying));

    if (!self->is_connected) {
        simba__zk_log(self, SIMBA_LOG_WARN, "%s: %s", self->settings.hosts,
                      self->trouble.message);
    }
}

/* This one does not answer; the session was never made, so nothing is lost. */
static void on_hurry(simba_timer *timer)
{
    struct simba__zk *self =
        of_timer(timer, offsetof(struct simba__zk, hurrying));

    if (self->handle != NULL && self->guard.timeout_ms == 0) {
        self->tried++;
        self->first_host++;
        simba__zk_session_drop(self);
        self->wants_session = true;
        simba__zk_opener_start(self);
    }
}

static void hurry(struct simba__zk *self)
{
    self->hurrying.fire = on_hurry;
    simba_timer_set(self->base.loop, &self->hurrying,
                    simba_loop_now_ms() +
                        simba__zk_hosts_wait(self->settings.hosts, self->tried,
                                             self->asked_ms));
}

static void open_session(struct simba__zk *self, int64_t timeout_ms)
{
    self->asked_ms = timeout_ms;
    self->wants_session = true;
    self->retrying.fire = on_retry;
    self->worrying.fire = on_worry;
    simba_error_set(&self->trouble, SIMBA_EUNAVAIL, 0, "no server answers");
    simba_timer_set(self->base.loop, &self->worrying,
                    simba_loop_now_ms() + WORRY_MS);
    simba__zk_opener_start(self);
}

/* Hands the handle to the opener. Without memory for that it is left open, and
 * its session lasts until the process ends. */
static void bury(struct simba__zk *self, zhandle_t *handle)
{
    size_t size = sizeof(zhandle_t *) * (size_t)(self->old_count + 1);
    zhandle_t **grown = handle == NULL ? NULL : realloc(self->old, size);

    if (grown != NULL) {
        self->old = grown;
        self->old[self->old_count++] = handle;
        simba__zk_opener_start(self);
    }
}

void simba__zk_session_drop(struct simba__zk *self)
{
    zhandle_t *handle = self->handle;

    self->handle = NULL;
    self->is_connected = false;
    self->generation++;
    self->guards = 0;
    simba_timer_clear(self->base.loop, &self->guarding);
    simba_timer_clear(self->base.loop, &self->hurrying);
    simba__zk_unwatch_all(self);
    simba__zk_latches_each(self, simba__zk_latch_lost);
    bury(self, handle);
}

/* A session that nobody guards is not certain for long: who begins to contend
 * in it would have to wait for two guards. A new one is certain at once. */
static bool is_stale(const struct simba__zk *self)
{
    int64_t left = simba__zk_guard_lease(&self->guard, simba_loop_now_ms());

    return self->is_connected && self->latch_count == 0 &&
           left < self->guard.timeout_ms / 2;
}

static int64_t lease_of(const struct simba__zk *self,
                        const simba_request *request)
{
    if (request->kind == SIMBA_ACQUIRE) {
        return request->ttl_ms + request->transition_ms;
    }
    return self->asked_ms != 0 ? self->asked_ms : LEASE_ANY_MS;
}

int simba__zk_session_want(struct simba__zk *self,
                           const simba_request *request,
                           simba_error *error)
{
    int64_t lease = lease_of(self, request);
    bool is_other = self->asked_ms != 0 && lease != self->asked_ms;

    if (is_other && self->latch_count > 0) {
        return simba_error_set(
            error, SIMBA_EINVAL, 0,
            "zookeeper: the lease is the session's, and those who contend "
            "through this handle have one of %lld ms; open another store",
            (long long)self->asked_ms);
    }
    if (self->handle != NULL &&
        (is_other || (request->kind == SIMBA_ACQUIRE && is_stale(self)))) {
        simba__zk_session_drop(self);
    }
    /* The opener may be busy with old handles: that is no promise of one. */
    if (self->handle == NULL && (is_other || self->asked_ms == 0 ||
                                 (!self->wants_session && !self->is_making &&
                                  !self->retrying.is_set))) {
        open_session(self, lease);
    }
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

/* --- losing it ----------------------------------------------------------- */

static bool is_needed(const struct simba__zk *self)
{
    if (self->latch_count > 0 || self->parked != NULL) {
        return true;
    }
    for (int i = 0; i < SIMBA__ZK_BUCKETS; i++) {
        if (self->rooms[i] != NULL) {
            return true; /* observed */
        }
    }
    return false;
}

static void begin_anew(struct simba__zk *self, const char *why)
{
    simba__zk_log(self, SIMBA_LOG_WARN, "%s: %s", self->settings.hosts, why);
    simba__zk_session_drop(self);
    self->is_cut_off = true;
    if (is_needed(self)) {
        open_session(self, self->asked_ms);
    }
    simba_wake(self->base.loop, NULL);
}

static void refused(struct simba__zk *self)
{
    simba__zk_log(self, SIMBA_LOG_WARN,
                  "%s: the session was refused: wrong credentials",
                  self->settings.hosts);
    simba__zk_session_drop(self);
    simba_error_set(&self->trouble, SIMBA_EDENIED, 0,
                    "the credentials were refused");
    simba_timer_set(self->base.loop, &self->retrying,
                    simba_loop_now_ms() + REFUSED_MS);
    simba_wake(self->base.loop, NULL);
}

/* On each connection the client library asks for all watches of the session in
 * one packet. Is that more than the servers take, they close it, and so on for
 * ever: the session lives, and is of no use. Given up when nothing is certain
 * by it any more, it ends, and its latches with it. */
static bool is_of_no_use(const struct simba__zk *self)
{
    return self->unheard > UNHEARD_MOST && is_needed(self) &&
           self->guard.timeout_ms != 0 &&
           simba__zk_guard_lease(&self->guard, simba_loop_now_ms()) <= 1;
}

/* --- having one ---------------------------------------------------------- */

/* The first connection; or a server with other bounds, and then what was
 * certain is so no more. */
static void guard_anew(struct simba__zk *self, int64_t timeout_ms)
{
    bool is_first = self->guard.timeout_ms == 0;

    simba__zk_guard_init(&self->guard, timeout_ms,
                         is_first ? self->born_ms : self->born_ms - timeout_ms);
    simba__zk_log(self,
                  timeout_ms < self->asked_ms || !is_first ? SIMBA_LOG_WARN
                                                           : SIMBA_LOG_INFO,
                  "%s: the session lasts %lld ms, asked for were %lld",
                  self->settings.hosts, (long long)timeout_ms,
                  (long long)self->asked_ms);
}

static void connected(struct simba__zk *self)
{
    int64_t timeout_ms = zoo_recv_timeout(self->handle);

    if (self->is_connected) {
        return;
    }
    self->unheard++;
    if (is_of_no_use(self)) {
        begin_anew(self, "the session is given up: every connection is closed, "
                         "perhaps for too many latches in one handle");
        return;
    }
    self->is_connected = self->was_connected = true;
    self->tried = 0;
    simba_timer_clear(self->base.loop, &self->worrying);
    simba_timer_clear(self->base.loop, &self->hurrying);
    if (self->is_cut_off) {
        self->is_cut_off = false;
        simba_count_reconnect(self->base.loop);
        simba__zk_log(self, SIMBA_LOG_INFO, "%s: connected again",
                      self->settings.hosts);
    }
    if (self->guard.timeout_ms != timeout_ms) {
        guard_anew(self, timeout_ms);
    }
    simba__zk_observe_all(self);
    simba__zk_latches_each(self, simba__zk_latch_go);
    simba__zk_guard_flush(self);
    simba__zk_guard_schedule(self);
    simba__zk_errands_go(self);
}

static void suspended(struct simba__zk *self)
{
    if (self->is_connected) {
        self->is_connected = false;
        self->is_cut_off = true;
        simba__zk_doubt_watches(self);
        simba_error_set(&self->trouble, SIMBA_EUNAVAIL, 0,
                        "the connection was lost");
        simba_timer_set(self->base.loop, &self->worrying,
                        simba_loop_now_ms() + WORRY_MS);
    }
}

/* The server may know before the client library does, which hears of it only
 * when it connects again. (A session that moved is another matter: it lives,
 * and to drop it would free what its owners have not been told of.) */
bool simba__zk_session_lives(struct simba__zk *self, int rc)
{
    if (!simba__zk_is_lost(rc)) {
        self->unheard = 0;
    }
    if (rc != ZSESSIONEXPIRED) {
        return true;
    }
    if (self->handle != NULL && !self->is_closing) {
        begin_anew(self, "the session has ended");
    }
    return false;
}

static void follow(struct simba__zk *self, int state)
{
    if (state == ZOO_CONNECTED_STATE) {
        connected(self);
    } else if (state == ZOO_EXPIRED_SESSION_STATE) {
        begin_anew(self, "the session has ended");
    } else if (state == ZOO_AUTH_FAILED_STATE) {
        refused(self);
    } else {
        suspended(self);
    }
}

void simba__zk_session_made(struct simba__zk *self,
                            zhandle_t *handle,
                            int64_t born_ms,
                            int cause)
{
    self->is_making = false;
    if (handle == NULL) {
        simba_error_set(&self->trouble, SIMBA_EUNAVAIL, cause,
                        "no host of the URL can be looked up");
        simba_timer_set(self->base.loop, &self->retrying,
                        simba_loop_now_ms() + RETRY_MS);
        return;
    }
    if (self->wants_session || self->is_closing) { /* wanted otherwise now */
        bury(self, handle);
        return;
    }
    self->handle = handle;
    self->born_ms = born_ms;
    self->guard = (struct simba__zk_guard){0};
    self->unheard = 0;
    hurry(self);
    follow(self, zoo_state(handle)); /* its event may have come too early */
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
        follow(self, state);
    }
    simba_loop_leave(self->base.loop);
}

void simba__zk_session_detach(struct simba__zk *self)
{
    self->is_closing = true;
    simba_timer_clear(self->base.loop, &self->guarding);
    simba_timer_clear(self->base.loop, &self->retrying);
    simba_timer_clear(self->base.loop, &self->worrying);
    simba_timer_clear(self->base.loop, &self->hurrying);
}

/* The opener: a thread for what may block in the client library. It makes
 * handles, which looks up host names, and closes those that are of no use any
 * more, which waits for their threads. It lives while there is such work. */

/* What the client library says goes nowhere: it knows no levels of ours, and
 * what matters is told by the session. It is told to say nothing as well: it
 * puts its words together in one buffer for all threads. */
static void drop_message(const char *message)
{
    (void)message;
}

/* Threads inherit the mask and the name of the one that starts them. */
zhandle_t *simba__zk_handle_make(const char *hosts,
                                 int64_t timeout_ms,
                                 watcher_fn watcher,
                                 void *context)
{
    /* It multiplies this by two in an int. */
    int timeout = timeout_ms < INT32_MAX / 2 ? (int)timeout_ms : INT32_MAX / 2;
    sigset_t all, before;
    zhandle_t *handle;

    zoo_set_debug_level((ZooLogLevel)0);
    zoo_deterministic_conn_order(1);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    handle = zookeeper_init2(hosts, watcher, timeout, NULL, context,
                             ZOO_NO_LOG_CLIENTENV, drop_message);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (handle != NULL) {
        /* Else it looks up every host at every turn of its thread; names are
         * still looked up when a connection is lost. */
        zoo_set_servers_resolution_delay(handle, -1);
    }
    return handle;
}

static void on_auth(int rc, const void *data)
{
    (void)rc; /* a refusal becomes a state of the session */
    (void)data;
}

static zhandle_t *make(struct simba__zk *self,
                       unsigned first_host,
                       int64_t timeout_ms,
                       int *cause)
{
    const char *auth = self->settings.auth;
    char *hosts = simba__zk_hosts_from(self->settings.hosts, first_host);
    zhandle_t *handle = hosts == NULL
                            ? NULL
                            : simba__zk_handle_make(hosts, timeout_ms,
                                                    simba__zk_on_session, self);

    *cause = handle == NULL ? errno : 0;
    free(hosts);
    if (handle != NULL && auth != NULL) {
        zoo_add_auth(handle, "digest", auth, (int)strlen(auth), on_auth, NULL);
    }
    return handle;
}

static void close_all(zhandle_t **handles, int count)
{
    for (int i = 0; i < count; i++) {
        zookeeper_close(handles[i]);
    }
    free(handles);
}

/* One round: inside the loop before and after, outside while it works. */
static void work(struct simba__zk *self)
{
    bool wants = self->wants_session;
    int64_t timeout_ms = self->asked_ms, born_ms;
    zhandle_t **old = self->old, *handle = NULL;
    int old_count = self->old_count, cause = 0;
    unsigned first_host = self->first_host;

    self->wants_session = false;
    self->is_making = wants;
    self->old = NULL;
    self->old_count = 0;
    simba_loop_leave(self->base.loop);
    born_ms = simba_loop_now_ms();
    if (wants) {
        handle = make(self, first_host, timeout_ms, &cause);
        simba_loop_enter(self->base.loop);
        simba__zk_session_made(self, handle, born_ms, cause);
        simba_loop_leave(self->base.loop);
    }
    close_all(old, old_count);
    simba_loop_enter(self->base.loop);
}

static void *run(void *argument)
{
    struct simba__zk *self = argument;

    pthread_setname_np(pthread_self(), "simba-zk");
    simba_loop_enter(self->base.loop);
    while ((self->wants_session && !self->is_closing) || self->old_count > 0) {
        work(self);
    }
    self->is_opening = false;
    simba_loop_leave(self->base.loop);
    return NULL;
}

void simba__zk_opener_start(struct simba__zk *self)
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
    self->has_opener = pthread_create(&self->opener, NULL, run, self) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    self->is_opening = self->has_opener;
    if (!self->has_opener) {
        simba_timer_set(self->base.loop, &self->retrying,
                        simba_loop_now_ms() + 100);
    }
}

void simba__zk_opener_join(struct simba__zk *self)
{
    if (self->has_opener) {
        pthread_join(self->opener, NULL);
        self->has_opener = false;
    }
}
