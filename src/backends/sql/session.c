/* Sessions: opening them, losing them, the bell, and callers who lend their
 * thread. */
#define _GNU_SOURCE
#include "backends/sql/engine.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

/* How long a server may take to let us in; how soon to try again. */
enum { CONNECT_MS = 5000, BACKOFF_FIRST_MS = 20, BACKOFF_MOST_MS = 1000 };

#define container(pointer, type, member)                                       \
    ((type *)((char *)(pointer)-offsetof(type, member)))

static void on_ready(simba_io *io, uint32_t events)
{
    struct simba__sql_session *session =
        container(io, struct simba__sql_session, io);

    session->self->dialect->proceed(session, events);
}

/* Nobody answers. */
static void on_patience(simba_timer *timer)
{
    struct simba__sql_session *session =
        container(timer, struct simba__sql_session, timer);
    simba_error error;

    simba_error_set(&error, SIMBA_EUNAVAIL, 0, "%s: no answer in time%s",
                    session->self->shown,
                    session->lookup == NULL ? "" : " from the name server");
    simba__sql_broken(session, SIMBA_EUNAVAIL, &error);
}

static struct simba__sql_session *make_session(struct simba__sql *self)
{
    struct simba__sql_session *session = calloc(1, self->dialect->session_size);

    if (session != NULL) {
        session->self = self;
        session->io.ready = on_ready;
        session->io.fd = session->fd = -1;
        session->timer.fire = on_patience;
    }
    return session;
}

static void connect_session(struct simba__sql_session *session)
{
    struct simba__sql *self = session->self;

    session->state = SIMBA__SQL_CONNECTING;
    simba_timer_set(self->base.loop, &session->timer,
                    simba_loop_now_ms() + CONNECT_MS);
    simba__sql_names_ask(session, self->dialect->hosts(self));
}

static void detach(struct simba__sql_session *session)
{
    simba_io_clear(session->self->base.loop, &session->io);
    if (session->io.fd >= 0) {
        close(session->io.fd);
        session->io.fd = -1;
    }
    session->fd = -1;
}

/* A descriptor of our own to wait on: a library closes its own when it finds
 * the connection broken, and what has been closed cannot be taken out of epoll
 * any more. If a child that is just being started has it, too, its events would
 * come for ever. */
void simba__sql_attach(struct simba__sql_session *session, int fd)
{
    detach(session);
    session->fd = fd;
    if (fd >= 0) {
        fcntl(fd, F_SETFD, FD_CLOEXEC); /* S12 */
        session->io.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    }
}

void simba__sql_session_close(struct simba__sql_session *session)
{
    struct simba__sql *self = session->self;

    if (session->state == SIMBA__SQL_CLOSED) {
        return;
    }
    simba_io_clear(self->base.loop, &session->io);
    simba_timer_clear(self->base.loop, &session->timer);
    simba__sql_names_cancel(session);
    session->state = SIMBA__SQL_CLOSED;
    self->dialect->disconnect(session);
    detach(session);
}

/* --- getting one --------------------------------------------------------- */

static struct simba__sql_session *find_session(const struct simba__sql *self,
                                               enum simba__sql_state state)
{
    for (int i = 0; i < SIMBA__SQL_SESSIONS; i++) {
        if (self->sessions[i] != NULL && self->sessions[i]->state == state) {
            return self->sessions[i];
        }
    }
    return NULL;
}

static struct simba__sql_session *find_closed(struct simba__sql *self)
{
    struct simba__sql_session *session = find_session(self, SIMBA__SQL_CLOSED);

    for (int i = 0; i < SIMBA__SQL_SESSIONS && session == NULL; i++) {
        if (self->sessions[i] == NULL) {
            session = self->sessions[i] = make_session(self);
            break;
        }
    }
    return session;
}

/* There is no other session that could serve those who wait: what stood in the
 * way of connecting is their answer. */
static void fail_waiting(struct simba__sql *self)
{
    simba_error error = self->failure;

    if (find_session(self, SIMBA__SQL_IDLE) == NULL &&
        find_session(self, SIMBA__SQL_BUSY) == NULL) {
        simba__sql_fail_all(&self->urgent, error.code, &error);
        simba__sql_fail_all(&self->other, error.code, &error);
    }
}

struct simba__sql_session *simba__sql_session_get(struct simba__sql *self)
{
    struct simba__sql_session *session = find_session(self, SIMBA__SQL_IDLE);

    if (session != NULL || find_session(self, SIMBA__SQL_CONNECTING) != NULL) {
        return session;
    }
    if (simba_loop_now_ms() < self->retry_at_ms) {
        fail_waiting(self);
        return NULL;
    }
    session = find_closed(self);
    if (session != NULL) {
        connect_session(session);
    }
    return session != NULL && session->state == SIMBA__SQL_IDLE ? session
                                                                : NULL;
}

void simba__sql_connected(struct simba__sql_session *session)
{
    struct simba__sql *self = session->self;

    self->backoff_ms = 0;
    self->retry_at_ms = 0;
    if (session->was_lost) {
        session->was_lost = false;
        simba_count_reconnect(self->base.loop);
    }
    simba_timer_clear(self->base.loop, &session->timer);
    session->was_used = true;
    session->is_needed = false;
    session->state = session->is_bell ? SIMBA__SQL_BUSY : SIMBA__SQL_IDLE;
    simba__sql_idle_plan(self);
    if (session->is_bell) {
        simba_timer_set(self->base.loop, &session->timer,
                        simba_loop_now_ms() + CONNECT_MS);
        self->dialect->hang_bell(session);
    } else {
        simba__sql_pump(self);
    }
}

/* --- losing one ---------------------------------------------------------- */

static int64_t next_backoff(int64_t ms)
{
    return ms == 0                    ? BACKOFF_FIRST_MS
           : ms < BACKOFF_MOST_MS / 2 ? ms * 2
                                      : BACKOFF_MOST_MS;
}

static void note_failure(struct simba__sql *self,
                         int status,
                         const simba_error *error)
{
    self->failure = *error;
    self->failure.code = status;
    self->backoff_ms = next_backoff(self->backoff_ms);
    self->retry_at_ms = simba_loop_now_ms() + self->backoff_ms;
}

/* S11: without a bell we count as dead, so it is hung again soon, even though
 * nobody has asked. */
static void lose_bell(struct simba__sql *self, const simba_error *error)
{
    simba_error why = *error;

    self->bell = SIMBA__SQL_BELL_NONE;
    self->bell_backoff_ms = next_backoff(self->bell_backoff_ms);
    if (self->was_hung) {
        simba_timer_set(self->base.loop, &self->bell_timer,
                        simba_loop_now_ms() + self->bell_backoff_ms);
    }
    simba__sql_fail_all(&self->parked, why.code, &why);
}

void simba__sql_broken(struct simba__sql_session *session,
                       int status,
                       const simba_error *error)
{
    struct simba__sql *self = session->self;
    enum simba__sql_state state = session->state;
    struct simba__sql_turn *turn = session->turn;
    simba_error why = *error;

    simba__sql_session_close(session);
    session->was_lost |= state != SIMBA__SQL_CONNECTING;
    if (state == SIMBA__SQL_CONNECTING) {
        note_failure(self, status, &why);
    }
    self->log(self->log_user, SIMBA_LOG_INFO, self->dialect->name, why.message);
    if (session->is_bell) {
        lose_bell(self, &why);
    } else if (turn != NULL) {
        status = turn->is_written ? SIMBA_EUNKNOWN : status;
        simba__sql_turn_end(turn, status, &why);
    } else if (state == SIMBA__SQL_CONNECTING) {
        fail_waiting(self);
    }
}

void simba__sql_session_leave(struct simba__sql *self, const simba_error *error)
{
    for (int i = 0; i < SIMBA__SQL_SESSIONS; i++) {
        if (self->sessions[i] != NULL &&
            self->sessions[i]->state == SIMBA__SQL_IDLE) {
            simba__sql_session_close(self->sessions[i]);
        }
    }
    if (self->bell == SIMBA__SQL_BELL_HUNG) {
        simba__sql_broken(self->bell_session, error->code, error);
    }
}

void simba__sql_answered(struct simba__sql_session *session,
                         const struct simba__sql_answer *answer)
{
    if (session->turn != NULL) {
        simba__sql_turn_answered(session->turn, answer);
    }
}

/* --- the bell ------------------------------------------------------------ */

static void name_process(struct simba__sql *self)
{
    unsigned char bytes[SIMBA__SQL_HEX / 2];
    char account[SIMBA__SQL_ACCOUNT + 1];
    char *name = self->process;

    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        abort();
    }
    for (size_t i = 0; i < sizeof bytes; i++) {
        snprintf(name + 2 * i, 3, "%02x", bytes[i]);
    }
    if (self->account != 0) {
        snprintf(account, sizeof account, "%08" PRIx32, self->account);
        memcpy(name, account, SIMBA__SQL_ACCOUNT);
    }
}

/* Under a new name each time: the server may not have noticed yet that the last
 * bell is gone, and keep its lock. The dialect gives that name to all who wait
 * here in one go: one by one, each would be passed until it has asked (S11). */
void simba__sql_bell_start(struct simba__sql *self)
{
    if (self->bell != SIMBA__SQL_BELL_NONE) {
        return;
    }
    name_process(self);
    if (self->bell_session == NULL) {
        self->bell_session = make_session(self);
    }
    if (self->bell_session == NULL) {
        simba__sql_fail_all(&self->parked, SIMBA_ENOMEM, NULL);
        return;
    }
    self->bell = SIMBA__SQL_BELL_HANGING;
    self->bell_session->is_bell = true;
    connect_session(self->bell_session);
}

void simba__sql_bell_retry(simba_timer *timer)
{
    simba__sql_bell_start(container(timer, struct simba__sql, bell_timer));
}

/* What was rung while nobody listened is lost, so all are to ask. */
void simba__sql_bell_hung(struct simba__sql *self, enum simba__sql_bell bell)
{
    bool is_again = self->was_hung;

    self->bell = bell;
    if (bell == SIMBA__SQL_BELL_HUNG) {
        self->was_hung = true;
        self->bell_backoff_ms = 0;
        memcpy(self->hung_as, self->process, sizeof self->hung_as);
    }
    simba__sql_unpark(self);
    simba__sql_beat_plan(self);
    if (is_again) {
        simba__sql_wake(self, NULL);
    }
}

/* --- driving ------------------------------------------------------------- */

/* While a caller's thread waits for the descriptor, the loop only wants to know
 * that it has been closed. */
void simba__sql_want(struct simba__sql_session *session, uint32_t events)
{
    bool is_driven = session->turn != NULL && session->turn->is_driven;
    uint32_t effective = is_driven ? EPOLLRDHUP : events;

    session->wanted = events;
    if (!session->io.is_set || session->io.events != effective) {
        simba_io_set(session->self->base.loop, &session->io, effective);
    }
}

static void undrive(struct simba__sql *self)
{
    struct simba__sql_turn *turn = self->driven;

    if (turn != NULL) {
        self->driven = NULL;
        turn->is_driven = false;
        if (turn->session != NULL) {
            simba__sql_want(turn->session, turn->session->wanted);
        }
    }
}

static void wait_ready(struct pollfd *fds, int64_t until_ms)
{
    int64_t left = until_ms - simba_loop_now_ms();

    if (left > 0) {
        poll(fds, 2, left > 60000 ? 60000 : (int)left);
    }
}

bool simba__sql_drive(simba_backend *backend, int64_t until_ms)
{
    struct simba__sql *self = (struct simba__sql *)backend;
    struct simba__sql_session *session;
    struct pollfd fds[2];
    bool goes_on;

    simba_loop_enter(self->base.loop);
    session = self->driven == NULL ? NULL : self->driven->session;
    if (session == NULL || until_ms == 0) {
        undrive(self);
        simba_loop_leave(self->base.loop);
        return false;
    }
    fds[0] = (struct pollfd){.fd = session->io.fd, .events = POLLIN};
    if ((session->wanted & EPOLLOUT) != 0) {
        fds[0].events |= POLLOUT;
    }
    fds[1] = (struct pollfd){.fd = simba_loop_nudge_fd(self->base.loop),
                             .events = POLLIN};
    simba_loop_leave(self->base.loop);
    wait_ready(fds, until_ms);
    simba_loop_enter(self->base.loop);
    goes_on = self->driven != NULL && self->driven->session == session;
    if (goes_on && fds[0].revents != 0) {
        self->dialect->proceed(session, (uint32_t)fds[0].revents);
    } else if (!goes_on) {
        undrive(self); /* we shall not be asked again */
    }
    simba_loop_leave(self->base.loop);
    return goes_on;
}

/* --- life ---------------------------------------------------------------- */

void simba__sql_init(struct simba__sql *self,
                     const struct simba__sql_dialect *dialect,
                     const simba_backend_config *config)
{
    self->base.loop = config->loop;
    self->dialect = dialect;
    self->log = config->log;
    self->log_user = config->log_user;
    self->bell_timer.fire = simba__sql_bell_retry;
    self->beat_timer.fire = simba__sql_beat_fired;
    self->idle_timer.fire = simba__sql_idle_fired;
    name_process(self);
    simba__sql_queues_init(self);
}

static void silence(struct simba__sql_session *session)
{
    if (session != NULL) {
        simba_io_clear(session->self->base.loop, &session->io);
        simba_timer_clear(session->self->base.loop, &session->timer);
        simba__sql_names_cancel(session);
    }
}

void simba__sql_detach(simba_backend *backend)
{
    struct simba__sql *self = (struct simba__sql *)backend;

    self->is_detached = true;
    for (int i = 0; i < SIMBA__SQL_SESSIONS; i++) {
        silence(self->sessions[i]);
    }
    silence(self->bell_session);
    simba_timer_clear(self->base.loop, &self->queue_timer);
    simba_timer_clear(self->base.loop, &self->bell_timer);
    simba_timer_clear(self->base.loop, &self->beat_timer);
    simba_timer_clear(self->base.loop, &self->idle_timer);
}

static void abandon(struct simba__sql_session *session)
{
    if (session != NULL && session->state != SIMBA__SQL_CLOSED) {
        session->self->dialect->abandon(session);
        if (session->io.fd >= 0) {
            close(session->io.fd);
        }
    }
}

void simba__sql_forked(simba_backend *backend)
{
    struct simba__sql *self = (struct simba__sql *)backend;

    for (int i = 0; i < SIMBA__SQL_SESSIONS; i++) {
        abandon(self->sessions[i]);
    }
    abandon(self->bell_session);
}

static void dispose(struct simba__sql_session *session)
{
    if (session != NULL) {
        if (session->state != SIMBA__SQL_CLOSED) {
            session->self->dialect->disconnect(session);
        }
        if (session->io.fd >= 0) {
            close(session->io.fd);
        }
        if (session->turn != NULL) {
            simba__sql_turn_drop(session->turn);
        }
        free(session);
    }
}

void simba__sql_fini(struct simba__sql *self)
{
    if (self->dialect->take_down_bell != NULL &&
        self->bell == SIMBA__SQL_BELL_HUNG) {
        self->dialect->take_down_bell(self->bell_session,
                                      find_session(self, SIMBA__SQL_IDLE));
    }
    dispose(self->bell_session);
    for (int i = 0; i < SIMBA__SQL_SESSIONS; i++) {
        dispose(self->sessions[i]);
    }
    simba__sql_queues_fini(self);
    simba__sql_wishes_fini(self);
}
