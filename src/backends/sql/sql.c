/* The store: opening and closing it. Its requests: how they wait for a session,
 * and how they end. */
#define _GNU_SOURCE
#include "backends/sql/waiters.h"

#include "util/container.h"
#include "util/file.h"

#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* So many requests are kept to be used again, with their rooms for records:
 * more than there are sessions, and not all of a crowd that came at once. */
enum { SPARE_MOST = 4 * SIMBA__SQL_SESSIONS };

/* Statements end after so long, if the server is there. */
enum { OVERDUE_MS = 2000 };

/* --- queues -------------------------------------------------------------- */

static void put(struct simba__sql_queue *queue,
                struct simba__sql_request *request)
{
    request->next = NULL;
    *queue->last = request;
    queue->last = &request->next;
}

static struct simba__sql_request *take(struct simba__sql_queue *queue,
                                       struct simba__sql_request **at)
{
    struct simba__sql_request *request = *at;

    assert(request != NULL);
    *at = request->next;
    if (request->next == NULL) {
        queue->last = at;
    }
    request->next = NULL;
    return request;
}

/* A renewal that queues behind a thousand acquires of its own process could
 * lose its lease, and a release keeps others waiting. A heartbeat is for all
 * who wait. */
static bool is_urgent(const struct simba__sql_request *request)
{
    return request->asked->kind == SIMBA_RENEW ||
           request->asked->kind == SIMBA_RELEASE ||
           request->asked == &request->self->heartbeat;
}

static void clear(struct simba__sql_queue *queue)
{
    queue->first = NULL;
    queue->last = &queue->first;
}

/* Takes a request out of a queue, if it is there. */
static bool take_from(struct simba__sql_queue *queue,
                      const struct simba__sql_request *it)
{
    struct simba__sql_request **at = &queue->first;

    while (*at != NULL && *at != it) {
        at = &(*at)->next;
    }
    return *at != NULL && take(queue, at) != NULL;
}

/* Puts all that are in one queue into another, where `at` points to. */
static void splice(struct simba__sql_queue *queue,
                   struct simba__sql_request **at,
                   struct simba__sql_queue *from)
{
    if (from->first != NULL) {
        *from->last = *at;
        if (*at == NULL) {
            queue->last = from->last;
        }
        *at = from->first;
        clear(from);
    }
}

/* Before those who are still in the queue: it came before them (S11). */
static void put_first(struct simba__sql_queue *queue,
                      struct simba__sql_request *request)
{
    struct simba__sql_queue one;

    clear(&one);
    put(&one, request);
    splice(queue, &queue->first, &one);
}

/* --- behind one that is under way ---------------------------------------- */

/* Thousands may wait for one mutex. Those that are in each other's way hang
 * behind the one that is under way, so that nobody who looks for the next has
 * to go past all of them each time. */

/* It waits for the other, and so do those who waited for it. */
static void hang_behind(struct simba__sql_request *other,
                        struct simba__sql_request *request)
{
    put(&other->behind, request);
    splice(&other->behind, other->behind.last, &request->behind);
}

/* They wait for themselves, where they stood. */
static void let_all(struct simba__sql_request *request)
{
    struct simba__sql_queue *queue = &request->self->other;

    splice(queue, &queue->first, &request->behind);
}

/* They wait for the first of them. */
static void let_next(struct simba__sql_request *request)
{
    struct simba__sql_request *next = request->behind.first;

    if (next != NULL) {
        (void)take(&request->behind, &request->behind.first);
        splice(&next->behind, &next->behind.first, &request->behind);
        put_first(&request->self->other, next);
    }
}

/* It was put off, and that is over. */
static void resume(struct simba__sql_request *request)
{
    struct simba__sql *self = request->self;

    request->is_put_off = false;
    simba_timer_set(self->base.loop, &request->deadline,
                    request->asked->deadline_ms);
    (void)take_from(&self->late, request);
    put_first(&self->other, request);
    simba__sql_pump(self);
}

/* A server may be slow and not gone. Where many come at once, who hangs up and
 * connects again makes it slower: what it was asked it does nevertheless. So
 * the session of an acquire is kept until it is answered, unless that takes
 * very long. A renewal has no time to lose on a connection that is gone. */
static void leave_overdue(struct simba__sql_request *request)
{
    struct simba__sql *self = request->self;
    struct simba__sql_session *session = request->session;

    (void)simba__sql_lose_race(request);
    if (self->driven == request) {
        self->driven = NULL;
    }
    request->session = NULL;
    session->request = NULL;
    simba_timer_set(self->base.loop, &session->timer,
                    simba_loop_now_ms() + OVERDUE_MS);
    simba__sql_want(session, session->wanted);
}

/* Takes out one that hangs behind another. */
static void take_behind(const struct simba__sql *self,
                        const struct simba__sql_request *request)
{
    struct simba__sql_request *at = self->other.first;
    bool is_found = false;

    for (int i = 0; i < self->session_count && !is_found; i++) {
        is_found = self->sessions[i]->request != NULL &&
                   take_from(&self->sessions[i]->request->behind, request);
    }
    for (; at != NULL && !is_found; at = at->next) {
        is_found = take_from(&at->behind, request);
    }
}

/* Too late: on a session it has been sent, in a queue it has not. */
static void on_deadline(simba_timer *timer)
{
    struct simba__sql_request *request =
        container_of(timer, struct simba__sql_request, deadline);
    struct simba__sql *self = request->self;
    struct simba__sql_queue *queues[] = {&self->urgent, &self->other,
                                         &self->parked, &self->late};
    simba_error error;

    if (self->is_detached) {
        return;
    }
    if (request->is_put_off) {
        resume(request);
        return;
    }
    simba_error_set(
        &error, SIMBA_EUNAVAIL, 0, "%s: %s", self->shown,
        request->session != NULL ||
                simba__sql_session_find(self, SIMBA__SQL_CONNECTING) != NULL
            ? "no answer in time"
            : "too slow: not even tried");
    if (request->session != NULL && request->asked->kind != SIMBA_ACQUIRE) {
        simba__sql_lost(request->session, SIMBA_EUNAVAIL, &error);
        return;
    }
    if (request->session != NULL) {
        leave_overdue(request);
        simba__sql_end(request,
                       request->is_written ? SIMBA_EUNKNOWN : SIMBA_EUNAVAIL,
                       &error);
        return;
    }
    for (size_t i = 0; i < sizeof queues / sizeof queues[0]; i++) {
        if (take_from(queues[i], request)) {
            simba__sql_end(request, SIMBA_EUNAVAIL, &error);
            return;
        }
    }
    take_behind(self, request);
    simba__sql_end(request, SIMBA_EUNAVAIL, &error);
}

/* --- ends ---------------------------------------------------------------- */

static void leave_session(struct simba__sql_request *request)
{
    struct simba__sql_session *session = request->session;

    if (request->self->driven == request) {
        request->self->driven = NULL;
    }
    if (session != NULL) {
        assert(session->request == request);
        request->session = NULL;
        session->request = NULL;
        if (session->state == SIMBA__SQL_BUSY) {
            session->state = SIMBA__SQL_IDLE;
        }
    }
}

static void free_request(struct simba__sql_request *request)
{
    simba__sql_record_fini(&request->record);
    free(request->change.gone);
    free(request);
}

/* The last step may bring the next request, from within. */
void simba__sql_end(struct simba__sql_request *request,
                    int status,
                    const simba_error *error)
{
    struct simba__sql *self = request->self;
    simba_request *asked = request->asked;

    assert(asked != NULL);
    leave_session(request);
    let_next(request);
    simba_timer_clear(self->base.loop, &request->deadline);
    request->asked = NULL;
    if (self->spare_count < SPARE_MOST) {
        request->next = self->spare;
        self->spare = request;
        self->spare_count++;
    } else {
        free_request(request);
    }
    if (asked == &self->heartbeat) {
        simba__sql_heartbeat_done(self, status);
    } else {
        simba__deadline_complete(&asked, status, error);
    }
    simba__sql_pump(self);
}

void simba__sql_end_all(struct simba__sql_queue *queue,
                        int status,
                        const simba_error *error)
{
    struct simba__sql_request *request = queue->first, *next;

    clear(queue);
    for (; request != NULL; request = next) {
        struct simba__sql_queue *behind = &request->behind;

        *behind->last = request->next;
        next = behind->first;
        clear(behind);
        simba__sql_end(request, status, error);
    }
}

void simba__sql_park(struct simba__sql_request *request)
{
    struct simba__sql *self = request->self;

    leave_session(request);
    let_all(request);
    request->is_slow = true;
    request->is_driven = false; /* its caller has no descriptor to wait for */
    put(&self->parked, request);
    simba__sql_notify_start(self);
    simba__sql_pump(self);
}

void simba__sql_put_off(struct simba__sql_request *request, int64_t until_ms)
{
    struct simba__sql *self = request->self;

    leave_session(request);
    let_all(request);
    request->is_slow = true;
    request->is_driven = false;
    request->is_put_off = true;
    simba_timer_set(self->base.loop, &request->deadline, until_ms);
    put(&self->late, request);
    simba__sql_pump(self);
}

/* They were there before those who are still in the queue (S11). */
void simba__sql_unpark(struct simba__sql *self)
{
    splice(&self->other, &self->other.first, &self->parked);
    simba__sql_pump(self);
}

/* --- on to a session ----------------------------------------------------- */

/* What is noted of a mutex is in tables of its own. */
static bool is_note(const struct simba__sql_request *request)
{
    return request->asked->kind >= SIMBA_TELL &&
           request->asked->kind <= SIMBA_BREAKS;
}

static bool is_for(const struct simba__sql_queue *queue, const char *mutex)
{
    const struct simba__sql_request *at = queue->first;

    while (at != NULL && strcmp(at->asked->mutex, mutex) != 0) {
        at = at->next;
    }
    return at != NULL;
}

/* Two of one process on one mutex would only be in each other's way; so which
 * one is under way, that it must wait for? But a renewal waits for none that is
 * not urgent itself. NULL: none. */
static struct simba__sql_request *find_busy(
    const struct simba__sql *self,
    const struct simba__sql_request *request)
{
    const char *mutex = request->asked->mutex;
    bool is_renewal = request->asked->kind == SIMBA_RENEW;

    for (int i = 0;
         i < self->session_count && mutex[0] != '\0' && !is_note(request);
         i++) {
        struct simba__sql_request *other = self->sessions[i]->request;

        if (other != NULL && !is_note(other) &&
            strcmp(other->asked->mutex, mutex) == 0 &&
            (!is_renewal || is_urgent(other))) {
            return other;
        }
    }
    return NULL;
}

/* Who comes later must not pass one who waits for the notify session, or was
 * put off, unless it has a position already (S11). */
static bool must_wait(const struct simba__sql *self,
                      const struct simba__sql_request *request)
{
    const char *mutex = request->asked->mutex;

    return !is_note(request) &&
           (is_for(&self->parked, mutex) ||
            (request->asked->position == 0 && is_for(&self->late, mutex)));
}

/* The next to be served, and its queue; NULL: none. */
static struct simba__sql_request **find_next(struct simba__sql *self,
                                             struct simba__sql_queue **queue)
{
    struct simba__sql_request **at, *busy;
    bool is_overdue = false;
    int acquirers = 0;

    *queue = &self->urgent;
    for (at = &self->urgent.first; *at != NULL; at = &(*at)->next) {
        if (find_busy(self, *at) == NULL) {
            return at;
        }
    }
    for (int i = 0; i < self->session_count; i++) {
        const struct simba__sql_session *session = self->sessions[i];

        acquirers += session->request != NULL && !is_urgent(session->request);
        is_overdue |= simba__sql_is_overdue(session);
    }
    *queue = &self->other;
    if (is_overdue && simba__sql_session_find(self, SIMBA__SQL_IDLE) == NULL) {
        return NULL; /* it will be idle soon, or lost */
    }
    at = &self->other.first;
    while (*at != NULL && acquirers < SIMBA__SQL_ACQUIRERS) {
        busy = find_busy(self, *at);
        if (busy != NULL) {
            hang_behind(busy, take(&self->other, at));
        } else if (must_wait(self, *at)) { /* who is behind it need not */
            splice(&self->other, &(*at)->next, &(*at)->behind);
            at = &(*at)->next;
        } else {
            return at;
        }
    }
    return NULL;
}

void simba__sql_pump(struct simba__sql *self)
{
    while (!self->is_detached) {
        struct simba__sql_queue *queue;
        struct simba__sql_session *session = find_next(self, &queue) == NULL
                                                 ? NULL
                                                 : simba__sql_session_get(self);
        /* To get a session may have served or failed them all. */
        struct simba__sql_request **at =
            session == NULL ? NULL : find_next(self, &queue);

        if (at == NULL || session->state != SIMBA__SQL_IDLE) {
            return;
        }
        assert(session->request == NULL);
        session->request = take(queue, at);
        session->request->session = session;
        session->state = SIMBA__SQL_BUSY;
        session->was_used = true;
        simba__sql_start(session->request);
    }
}

void simba__sql_submit(simba_backend *backend, simba_request *asked)
{
    struct simba__sql *self = (struct simba__sql *)backend;
    struct simba__sql_request *request = self->spare;

    if (asked->kind == SIMBA_ACQUIRE &&
        (simba__sql_waiter_answer(self, asked) ||
         simba__sql_is_early(self, asked))) {
        simba_request_done(asked, SIMBA_OK, NULL);
        return;
    }
    if (asked->kind == SIMBA_RELEASE || asked->kind == SIMBA_LEAVE) {
        simba__sql_waiter_forget(self, asked);
    }
    if (request != NULL) {
        self->spare = request->next;
        self->spare_count--;
    } else if ((request = calloc(1, sizeof *request)) == NULL) {
        simba_request_done(asked, SIMBA_ENOMEM, NULL);
        return;
    }
    self->asked_ms = simba_loop_now_ms();
    request->self = self;
    request->asked = asked;
    clear(&request->behind);
    request->is_slow = request->is_written = request->is_woken = false;
    request->was_created = request->was_ensured = false;
    request->was_booked = request->was_learnt = request->is_put_off = false;
    request->begun_ms = simba_loop_now_ms();
    request->is_driven = asked->is_driven && self->driven == NULL;
    if (request->is_driven) {
        self->driven = request; /* its caller comes, if only to say it goes */
    }
    request->deadline.fire = on_deadline;
    simba_timer_set(self->base.loop, &request->deadline, asked->deadline_ms);
    put(is_urgent(request) ? &self->urgent : &self->other, request);
    simba__sql_pump(self);
}

/* --- driving ------------------------------------------------------------- */

/* The loop waits for the descriptor again. */
static void undrive(struct simba__sql *self)
{
    struct simba__sql_request *request = self->driven;

    if (request != NULL) {
        self->driven = NULL;
        request->is_driven = false;
        if (request->session != NULL) {
            simba__sql_want(request->session, request->session->wanted);
        }
    }
}

bool simba__sql_drive(simba_backend *backend, int64_t until_ms)
{
    struct simba__sql *self = (struct simba__sql *)backend;
    struct simba__sql_session *session;
    struct pollfd fds[2];
    int64_t left_ms;
    bool goes_on, wakes_others;

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
    wakes_others = simba__sql_wakes_others(self->driven);
    simba_loop_leave(self->base.loop);
    left_ms = until_ms - simba_loop_now_ms();
    left_ms = left_ms > 60000 ? 60000 : left_ms;
    if (left_ms > 0 && wakes_others) {
        (void)poll(fds, 2, (int)left_ms);
    } else if (left_ms > 0) {
        simba_loop_poll(self->base.loop, fds, 2, (int)left_ms);
    }
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

/* --- open, close --------------------------------------------------------- */

/* What the client libraries believe, whoever asks. */
static bool is_believed(const char *variable)
{
    static const char *const names[] = {"PG",    "MYSQL", "MARIADB", "LIBMYSQL",
                                        "HOME=", "USER=", "LOGNAME="};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strncmp(variable, names[i], strlen(names[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* In a set-user-id program these are its caller's. The libraries take no empty
 * value for an answer, and without HOME they ask the system who we are. */
static void distrust_caller(void)
{
    if (simba__is_set_user_id()) {
        simba__environment_drop(is_believed);
        (void)setenv("HOME", "/nonexistent", 1);
    }
}

int simba__sql_open(const struct simba__sql_dialect *dialect,
                    const simba_backend_config *config,
                    simba_backend **out,
                    simba_error *error)
{
    struct simba__sql *self = calloc(1, dialect->store_size);
    int rc;

    *out = NULL;
    if (self == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    distrust_caller();
    rc = dialect->configure(self, config, error);
    if (rc != SIMBA_OK) {
        free(self);
        return rc;
    }
    self->base = (simba_backend){.ops = dialect->ops, .loop = config->loop};
    self->dialect = dialect;
    self->log =
        (struct simba__log){config->log, config->log_user, dialect->name};
    clear(&self->urgent);
    clear(&self->other);
    clear(&self->parked);
    clear(&self->late);
    self->backoff = self->notify_backoff = self->heartbeat_backoff =
        (struct simba__backoff){.first_ms = 20, .most_ms = 500};
    self->idle_timer.fire = simba__sql_close_idle;
    self->retry_timer.fire = simba__sql_reconnect;
    self->notify_timer.fire = simba__sql_notify_retry;
    self->heartbeat_timer.fire = simba__sql_heartbeat_fired;
    memset(self->is_shared, self->is_jvm_expected, sizeof self->is_shared);
    simba__sql_name_process(self);
    simba__rng_seed(&self->rng,
                    simba__fnv64(self->process, sizeof self->process));
    *out = &self->base;
    return SIMBA_OK;
}

/* All sessions, the notify session first; NULL: no more. */
static struct simba__sql_session *session_at(const struct simba__sql *self,
                                             int index)
{
    index -= self->notify_session != NULL;
    return index < 0                     ? self->notify_session
           : index < self->session_count ? self->sessions[index]
                                         : NULL;
}

void simba__sql_detach(simba_backend *backend)
{
    struct simba__sql *self = (struct simba__sql *)backend;
    struct simba__sql_session *session;

    self->is_detached = true;
    for (int i = 0; (session = session_at(self, i)) != NULL; i++) {
        simba_io_clear(self->base.loop, &session->io);
        simba_timer_clear(self->base.loop, &session->timer);
        simba__sql_session_cancel(session);
    }
    simba_timer_clear(self->base.loop, &self->notify_timer);
    simba_timer_clear(self->base.loop, &self->heartbeat_timer);
    simba_timer_clear(self->base.loop, &self->idle_timer);
    simba_timer_clear(self->base.loop, &self->retry_timer);
}

void simba__sql_forked(simba_backend *backend)
{
    struct simba__sql *self = (struct simba__sql *)backend;
    struct simba__sql_session *session;

    for (int i = 0; (session = session_at(self, i)) != NULL; i++) {
        if (session->state != SIMBA__SQL_CLOSED) {
            self->dialect->abandon(session);
            if (session->io.fd >= 0) {
                close(session->io.fd);
            }
        }
    }
}

/* Frees a list of requests; nobody waits any more for those under way. */
static void drop(struct simba__sql *self, struct simba__sql_request *request)
{
    while (request != NULL) {
        struct simba__sql_request *next;

        *request->behind.last = request->next;
        next = request->behind.first;
        simba_loop_enter(self->base.loop);
        simba_timer_clear(self->base.loop, &request->deadline);
        if (request->asked != &self->heartbeat) {
            simba__deadline_complete(&request->asked, SIMBA_ECANCELED, NULL);
        }
        simba_loop_leave(self->base.loop);
        free_request(request);
        request = next;
    }
}

void simba__sql_close(simba_backend *backend)
{
    struct simba__sql *self = (struct simba__sql *)backend;
    struct simba__sql_session *session;

    if (self->dialect->stop_notify != NULL &&
        self->notify == SIMBA__SQL_NOTIFY_READY) {
        self->dialect->stop_notify(
            self->notify_session,
            simba__sql_session_find(self, SIMBA__SQL_IDLE));
    }
    for (int i = 0; (session = session_at(self, i)) != NULL; i++) {
        if (session->state != SIMBA__SQL_CLOSED) {
            self->dialect->disconnect(session);
        }
        if (session->io.fd >= 0) {
            close(session->io.fd);
        }
        drop(self, session->request);
    }
    while (self->session_count > 0) {
        free(self->sessions[--self->session_count]);
    }
    free(self->notify_session);
    drop(self, self->spare);
    drop(self, self->urgent.first);
    drop(self, self->other.first);
    drop(self, self->parked.first);
    drop(self, self->late.first);
    simba__sql_subscriptions_fini(self);
    self->dialect->forget(self);
    free(self);
}
