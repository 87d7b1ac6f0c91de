/* Sessions: looking up hosts, connecting, losing them, closing needless ones.
 *
 * The client libraries look up host names themselves, but inside the loop, and
 * a name server that does not answer would hold up every renewal. So a thread
 * of its own looks them up beforehand, and no library is told to connect before
 * there was an answer. What it asks again then, name servers remember. */
#define _GNU_SOURCE
#include "backends/sql/sql.h"

#include "kit/url.h"
#include "util/container.h"

#include <assert.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* How long a server may take to let us in. Twice as long when it took longer:
 * one that many come to at once, as after a restart, would else do nothing but
 * let in those who have gone again. */
enum { CONNECT_MS = 5000, CONNECT_MOST_MS = 40000 };

/* How long nothing must have come before a session is needless; it may be
 * closed as late again. */
enum { IDLE_MS = 5000 };

/* How many bytes an answer may have. What has the most rows, a heartbeat, has
 * 1500 of them. */
enum { ANSWER_MOST = 1 << 20, LIST_MOST = 16 << 20 };

/* Who failed asks again within this time, or does not want it any more. */
enum { INTEREST_MS = 8000 };

/* --- host names ---------------------------------------------------------- */

static void look_up_next(struct simba__sql_session *session);

static void on_found(void *self, struct addrinfo *list, int problem)
{
    struct simba__sql_session *session = self;

    session->lookup = NULL;
    if (list != NULL) {
        session->is_found = true;
        freeaddrinfo(list);
    } else if (simba__lookup_native(session->not_found) != 0 ||
               session->not_found == 0) {
        session->not_found = problem; /* one that may be known later counts */
    }
    look_up_next(session);
}

/* Of several hosts, one will do: the library tries them in turn. An address in
 * figures is answered from within, so this may be deeper than it looks. Sockets
 * have no names. */
static void look_up_next(struct simba__sql_session *session)
{
    struct simba__asker asker = {on_found, session};
    simba__lookup *lookup;
    const char *host;
    simba_error error;

    do {
        host = session->next_host == NULL ? NULL
                                          : strsep(&session->next_host, ",");
    } while (host != NULL && simba__url_is_local(host));
    if (host != NULL) {
        lookup = simba__lookup_start(session->self->base.loop, host, 0, asker);
        if (lookup != NULL) {
            session->lookup = lookup;
        }
        return;
    }
    free(session->hosts);
    session->hosts = NULL;
    if (session->is_found || session->not_found == 0) {
        session->self->dialect->connect(session);
        return;
    }
    simba_error_set(&error, SIMBA_EUNAVAIL,
                    simba__lookup_native(session->not_found),
                    "%s: host name: %s", session->self->shown,
                    gai_strerror(session->not_found));
    simba__sql_lost(session, SIMBA_EUNAVAIL, &error);
}

void simba__sql_session_cancel(struct simba__sql_session *session)
{
    simba__lookup_cancel(session->lookup);
    session->lookup = NULL;
    free(session->hosts);
    session->hosts = NULL;
}

/* --- descriptors --------------------------------------------------------- */

static void on_ready(simba_io *io, uint32_t events)
{
    struct simba__sql_session *session =
        container_of(io, struct simba__sql_session, io);

    session->self->dialect->proceed(session, events);
}

static void on_silence(simba_timer *timer)
{
    struct simba__sql_session *session =
        container_of(timer, struct simba__sql_session, timer);
    struct simba__sql *self = session->self;
    simba_error error;

    if (session->state == SIMBA__SQL_CONNECTING &&
        self->patience_ms + CONNECT_MS < CONNECT_MOST_MS) {
        self->patience_ms += self->patience_ms + CONNECT_MS;
    }
    simba_error_set(&error, SIMBA_EUNAVAIL, 0, "%s: %s%s", self->shown,
                    session->fd >= 0 && session->io.fd < 0
                        ? "no descriptor is left"
                        : "no answer in time",
                    session->lookup == NULL ? "" : " from the name server");
    simba__sql_lost(session, SIMBA_EUNAVAIL, &error);
}

/* A descriptor of our own to wait on: a library closes its own when it finds
 * the connection broken, and what has been closed cannot be taken out of epoll
 * any more. If a child that is just being started has it, too, its events would
 * come for ever. */
void simba__sql_attach(struct simba__sql_session *session, int fd)
{
    simba_io_clear(session->self->base.loop, &session->io);
    if (session->io.fd >= 0) {
        close(session->io.fd);
    }
    session->fd = fd;
    if (fd >= 0) {
        fcntl(fd, F_SETFD, FD_CLOEXEC); /* S12 */
    }
    session->io.fd = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
}

/* While a caller's thread waits for the descriptor, the loop only wants to know
 * that it has been closed. If none was left for us, nobody would be woken: the
 * session ends. */
void simba__sql_want(struct simba__sql_session *session, uint32_t events)
{
    bool is_driven = session->request != NULL && session->request->is_driven;
    uint32_t effective = is_driven ? EPOLLRDHUP : events;

    session->wanted = events;
    if (session->io.fd < 0) {
        simba_timer_set(session->self->base.loop, &session->timer,
                        simba_loop_now_ms());
        return;
    }
    if (!session->io.is_set || session->io.events != effective) {
        simba_io_set(session->self->base.loop, &session->io, effective);
    }
}

bool simba__sql_is_too_much(const struct simba__sql_session *session,
                            uint64_t received)
{
    const struct simba__sql_request *request = session->request;
    bool is_long =
        request != NULL && (request->statement == SIMBA__SQL_LOAD_ALL ||
                            request->statement == SIMBA__SQL_LOAD_SLOTS ||
                            request->statement == SIMBA__SQL_TOLD ||
                            request->statement == SIMBA__SQL_BREAKS ||
                            request->statement == SIMBA__SQL_LIST ||
                            request->statement == SIMBA__SQL_LIST_SLOTS ||
                            request->statement == SIMBA__SQL_LIST_BARE);

    return received > (is_long ? LIST_MOST : ANSWER_MOST);
}

void simba__sql_flooded(struct simba__sql_session *session)
{
    simba_error error;

    simba_error_set(&error, SIMBA_EMISCONFIG, 0,
                    "%s: answers more than was asked for",
                    session->self->shown);
    simba__sql_lost(session, SIMBA_EMISCONFIG, &error);
}

/* --- opening ------------------------------------------------------------- */

struct simba__sql_session *simba__sql_session_make(struct simba__sql *self)
{
    struct simba__sql_session *session = calloc(1, self->dialect->session_size);

    if (session != NULL) {
        session->self = self;
        session->io.ready = on_ready;
        session->io.fd = session->fd = -1;
        session->timer.fire = on_silence;
    }
    return session;
}

bool simba__sql_is_overdue(const struct simba__sql_session *session)
{
    return session->state == SIMBA__SQL_BUSY && session->request == NULL &&
           !session->is_notify;
}

void simba__sql_session_connect(struct simba__sql_session *session)
{
    struct simba__sql *self = session->self;
    const char *hosts = self->dialect->hosts(self);

    assert(session->state == SIMBA__SQL_CLOSED);
    session->state = SIMBA__SQL_CONNECTING;
    simba_timer_set(self->base.loop, &session->timer,
                    simba_loop_now_ms() + CONNECT_MS + self->patience_ms);
    session->is_found = false;
    session->not_found = 0;
    session->hosts = simba__url_is_local(hosts) ? NULL : strdup(hosts);
    session->next_host = session->hosts;
    look_up_next(session);
}

struct simba__sql_session *simba__sql_session_find(
    const struct simba__sql *self,
    enum simba__sql_state state)
{
    for (int i = 0; i < self->session_count; i++) {
        if (self->sessions[i]->state == state) {
            return self->sessions[i];
        }
    }
    return NULL;
}

/* There is no other session that could serve those who wait: what stood in the
 * way of connecting is their answer. */
static void fail_waiting(struct simba__sql *self)
{
    simba_error error = self->failure;

    if (simba__sql_session_find(self, SIMBA__SQL_IDLE) == NULL &&
        simba__sql_session_find(self, SIMBA__SQL_BUSY) == NULL) {
        simba__sql_end_all(&self->urgent, error.code, &error);
        simba__sql_end_all(&self->other, error.code, &error);
    }
}

struct simba__sql_session *simba__sql_session_get(struct simba__sql *self)
{
    struct simba__sql_session *session =
        simba__sql_session_find(self, SIMBA__SQL_IDLE);

    if (session != NULL ||
        simba__sql_session_find(self, SIMBA__SQL_CONNECTING) != NULL) {
        return session;
    }
    if (simba_loop_now_ms() < self->retry_at_ms) {
        fail_waiting(self);
        return NULL;
    }
    session = simba__sql_session_find(self, SIMBA__SQL_CLOSED);
    if (session == NULL && self->session_count < SIMBA__SQL_SESSIONS &&
        (session = simba__sql_session_make(self)) != NULL) {
        self->sessions[self->session_count++] = session;
    }
    if (session != NULL) {
        simba__sql_session_connect(session);
    }
    return session != NULL && session->state == SIMBA__SQL_IDLE ? session
                                                                : NULL;
}

/* Those who failed ask again, but ever later. Who waits for a server shall have
 * it when it is up, so it is tried meanwhile. */
void simba__sql_reconnect(simba_timer *timer)
{
    struct simba__sql *self =
        container_of(timer, struct simba__sql, retry_timer);

    if (simba_loop_now_ms() - self->asked_ms < INTEREST_MS) {
        (void)simba__sql_session_get(self);
    }
}

static int count_open(const struct simba__sql *self)
{
    int count = 0;

    for (int i = 0; i < self->session_count; i++) {
        count += self->sessions[i]->state != SIMBA__SQL_CLOSED;
    }
    return count;
}

static void plan_close_idle(struct simba__sql *self)
{
    if (!self->idle_timer.is_set && !self->is_detached &&
        count_open(self) > 1) {
        simba_timer_set(self->base.loop, &self->idle_timer,
                        simba_loop_now_ms() + IDLE_MS);
    }
}

void simba__sql_connected(struct simba__sql_session *session)
{
    struct simba__sql *self = session->self;

    assert(session->state == SIMBA__SQL_CONNECTING);
    simba__backoff_reset(&self->backoff);
    self->patience_ms = 0;
    self->retry_at_ms = 0;
    if (session->was_lost) {
        session->was_lost = false;
        simba_count_reconnect(self->base.loop);
    }
    simba_timer_clear(self->base.loop, &session->timer);
    session->was_used = true;
    session->is_needed = false;
    session->state = session->is_notify ? SIMBA__SQL_BUSY : SIMBA__SQL_IDLE;
    plan_close_idle(self);
    if (session->is_notify) {
        simba_timer_set(self->base.loop, &session->timer,
                        simba_loop_now_ms() + CONNECT_MS);
        self->dialect->start_notify(session);
        return;
    }
    simba_timer_clear(self->base.loop, &self->retry_timer);
    self->has_no_slots = false; /* the tables may have been upgraded */
    if (self->has_failed) {
        self->has_failed = false;
        simba__sql_wake(self, NULL);
    }
    simba__sql_pump(self);
}

/* --- closing ------------------------------------------------------------- */

void simba__sql_session_close(struct simba__sql_session *session)
{
    struct simba__sql *self = session->self;

    if (session->state == SIMBA__SQL_CLOSED) {
        return;
    }
    simba_io_clear(self->base.loop, &session->io);
    simba_timer_clear(self->base.loop, &session->timer);
    simba__sql_session_cancel(session);
    session->state = SIMBA__SQL_CLOSED;
    self->dialect->disconnect(session);
    simba__sql_attach(session, -1);
}

/* Servers count sessions, and every process has its own: those that were opened
 * for a rush and have nothing to do since are closed. One stays open, so that
 * the next request need not connect first. The first sessions are the ones that
 * are taken first. */
void simba__sql_close_idle(simba_timer *timer)
{
    struct simba__sql *self =
        container_of(timer, struct simba__sql, idle_timer);

    for (int i = self->session_count - 1; i >= 0; i--) {
        struct simba__sql_session *session = self->sessions[i];

        if (session->state == SIMBA__SQL_IDLE && !session->was_used &&
            !session->is_needed && count_open(self) > 1) {
            simba__sql_session_close(session);
        }
        session->was_used = session->state == SIMBA__SQL_BUSY;
    }
    plan_close_idle(self);
}

void simba__sql_lost(struct simba__sql_session *session,
                     int status,
                     const simba_error *error)
{
    struct simba__sql *self = session->self;
    bool was_connecting = session->state == SIMBA__SQL_CONNECTING;
    struct simba__sql_request *request = session->request;
    simba_error why = *error;

    assert(status != SIMBA_OK);
    simba__sql_session_close(session);
    session->was_lost |= !was_connecting;
    if (was_connecting) {
        self->failure = why;
        self->failure.code = status;
        self->retry_at_ms = simba__backoff_until(&self->backoff);
    }
    simba__log(&self->log, SIMBA_LOG_INFO, "%s", why.message);
    if (session->is_notify) {
        simba__sql_notify_lost(self, &why);
    } else if (request != NULL) {
        simba__sql_end(request, request->is_written ? SIMBA_EUNKNOWN : status,
                       &why);
    } else if (was_connecting) {
        self->has_failed = true;
        simba_timer_set(self->base.loop, &self->retry_timer, self->retry_at_ms);
        fail_waiting(self);
    } else {
        simba__sql_pump(self);
    }
}

void simba__sql_session_leave(struct simba__sql *self, const simba_error *error)
{
    for (int i = 0; i < self->session_count; i++) {
        if (self->sessions[i]->state == SIMBA__SQL_IDLE) {
            simba__sql_session_close(self->sessions[i]);
        }
    }
    if (self->notify == SIMBA__SQL_NOTIFY_READY) {
        simba__sql_lost(self->notify_session, error->code, error);
    }
}
