/* Operations: how they wait, and how they end. */
#include "backends/sql/engine.h"

#include <stdlib.h>
#include <string.h>

/* --- queues -------------------------------------------------------------- */

static void put(struct simba__sql_queue *queue, struct simba__sql_turn *turn)
{
    turn->next = NULL;
    *queue->last = turn;
    queue->last = &turn->next;
}

static struct simba__sql_turn *take(struct simba__sql_queue *queue,
                                    struct simba__sql_turn **at)
{
    struct simba__sql_turn *turn = *at;

    *at = turn->next;
    if (turn->next == NULL) {
        queue->last = at;
    }
    turn->next = NULL;
    return turn;
}

/* A renewal that queues behind a thousand acquires of its own process could
 * lose its lease, and a release keeps others waiting. A heartbeat is for all
 * who wait. */
static bool is_urgent(const struct simba__sql_turn *turn)
{
    return turn->request->kind == SIMBA_RENEW ||
           turn->request->kind == SIMBA_RELEASE ||
           turn->request == &turn->self->beat_op;
}

static void set_timer(struct simba__sql *self)
{
    struct simba__sql_queue *queues[] = {&self->urgent, &self->other,
                                         &self->parked};
    int64_t first = INT64_MAX;

    for (size_t i = 0; i < sizeof queues / sizeof queues[0]; i++) {
        for (const struct simba__sql_turn *turn = queues[i]->first;
             turn != NULL; turn = turn->next) {
            if (turn->request->deadline_ms < first) {
                first = turn->request->deadline_ms;
            }
        }
    }
    simba_timer_set(self->base.loop, &self->queue_timer, first);
}

static void enqueue(struct simba__sql *self,
                    struct simba__sql_queue *queue,
                    struct simba__sql_turn *turn)
{
    simba_timer *timer = &self->queue_timer;

    put(queue, turn);
    if (!timer->is_set || timer->at_ms > turn->request->deadline_ms) {
        simba_timer_set(self->base.loop, timer, turn->request->deadline_ms);
    }
}

/* --- ends ---------------------------------------------------------------- */

static void recycle(struct simba__sql *self, struct simba__sql_turn *turn)
{
    if (self->driven == turn) {
        self->driven = NULL;
    }
    turn->request = NULL;
    turn->next = self->spare;
    self->spare = turn;
}

static void let_go(struct simba__sql_turn *turn)
{
    struct simba__sql_session *session = turn->session;

    if (session != NULL) {
        turn->session = NULL;
        session->turn = NULL;
        if (session->state == SIMBA__SQL_BUSY) {
            session->state = SIMBA__SQL_IDLE;
            simba_timer_clear(session->self->base.loop, &session->timer);
        }
    }
}

/* The last step may bring the next operation, from within. */
void simba__sql_turn_end(struct simba__sql_turn *turn,
                         int status,
                         const simba_error *error)
{
    struct simba__sql *self = turn->self;
    simba_request *request = turn->request;

    let_go(turn);
    recycle(self, turn);
    if (request == &self->beat_op) {
        simba__sql_beat_done(self, status);
    } else {
        simba_request_done(request, status, error);
    }
    simba__sql_pump(self);
}

void simba__sql_fail_all(struct simba__sql_queue *queue,
                         int status,
                         const simba_error *error)
{
    struct simba__sql_queue failed = *queue;

    if (queue->first == NULL) {
        return;
    }
    queue->first = NULL;
    queue->last = &queue->first;
    while (failed.first != NULL) {
        struct simba__sql_turn *turn = failed.first;

        failed.first = turn->next;
        simba__sql_turn_end(turn, status, error);
    }
}

/* Moves those whose time is up from one queue to another. */
static void sift(struct simba__sql_queue *queue, struct simba__sql_queue *late)
{
    struct simba__sql_turn **at = &queue->first;
    int64_t now_ms = simba_loop_now_ms();

    while (*at != NULL) {
        if ((*at)->request->deadline_ms <= now_ms) {
            put(late, take(queue, at));
        } else {
            at = &(*at)->next;
        }
    }
}

static void end_late(simba_timer *timer)
{
    struct simba__sql *self =
        (struct simba__sql *)((char *)timer -
                              offsetof(struct simba__sql, queue_timer));
    struct simba__sql_queue late = {NULL, NULL};
    simba_error error;

    late.last = &late.first;
    sift(&self->urgent, &late);
    sift(&self->other, &late);
    sift(&self->parked, &late);
    set_timer(self);
    simba_error_set(&error, SIMBA_EUNAVAIL, 0, "%s: too slow: not even tried",
                    self->shown);
    simba__sql_fail_all(&late, SIMBA_EUNAVAIL, &error);
}

/* --- parking ------------------------------------------------------------- */

void simba__sql_turn_park(struct simba__sql_turn *turn)
{
    struct simba__sql *self = turn->self;

    let_go(turn);
    turn->is_slow = true;
    turn->is_driven = false; /* its caller has no descriptor to wait for */
    if (self->driven == turn) {
        self->driven = NULL;
    }
    enqueue(self, &self->parked, turn);
    simba__sql_bell_start(self);
    simba__sql_pump(self);
}

/* They were there before those who are still in the queue (S11). */
void simba__sql_unpark(struct simba__sql *self)
{
    if (self->parked.first != NULL) {
        *self->parked.last = self->other.first;
        if (self->other.first == NULL) {
            self->other.last = self->parked.last;
        }
        self->other.first = self->parked.first;
        self->parked.first = NULL;
        self->parked.last = &self->parked.first;
    }
    simba__sql_pump(self);
}

/* --- on to a session ----------------------------------------------------- */

static int count_acquirers(const struct simba__sql *self)
{
    int count = 0;

    for (int i = 0; i < SIMBA__SQL_SESSIONS; i++) {
        const struct simba__sql_session *session = self->sessions[i];

        if (session != NULL && session->turn != NULL &&
            !is_urgent(session->turn)) {
            count++;
        }
    }
    return count;
}

/* Two of one process on one mutex would only be in each other's way. But a
 * renewal waits for none that is not urgent itself. */
static bool is_served(const struct simba__sql *self,
                      const simba_request *request)
{
    for (int i = 0; i < SIMBA__SQL_SESSIONS; i++) {
        const struct simba__sql_session *session = self->sessions[i];

        if (session != NULL && session->turn != NULL &&
            request->mutex[0] != '\0' &&
            strcmp(session->turn->request->mutex, request->mutex) == 0 &&
            (request->kind != SIMBA_RENEW || is_urgent(session->turn))) {
            return true;
        }
    }
    return false;
}

/* Who comes later must not pass one who waits for the bell (S11). */
static bool is_parked(const struct simba__sql *self, const char *mutex)
{
    const struct simba__sql_turn *turn = self->parked.first;

    while (turn != NULL && strcmp(turn->request->mutex, mutex) != 0) {
        turn = turn->next;
    }
    return turn != NULL;
}

static struct simba__sql_turn **find_ready(const struct simba__sql *self,
                                           struct simba__sql_queue *queue)
{
    struct simba__sql_turn **at = &queue->first;

    while (*at != NULL && (is_served(self, (*at)->request) ||
                           (queue == &self->other &&
                            is_parked(self, (*at)->request->mutex)))) {
        at = &(*at)->next;
    }
    return *at == NULL ? NULL : at;
}

/* The next to be served, and its queue. */
static struct simba__sql_turn **find_next(struct simba__sql *self,
                                          struct simba__sql_queue **queue)
{
    struct simba__sql_turn **at = find_ready(self, &self->urgent);

    *queue = &self->urgent;
    if (at == NULL && count_acquirers(self) < SIMBA__SQL_ACQUIRERS) {
        *queue = &self->other;
        at = find_ready(self, &self->other);
    }
    return at;
}

static bool serve_next(struct simba__sql *self)
{
    struct simba__sql_queue *queue;
    struct simba__sql_turn **at = find_next(self, &queue);
    struct simba__sql_session *session =
        at == NULL ? NULL : simba__sql_session_get(self);

    /* To get a session may have served or failed them all. */
    at = session == NULL ? NULL : find_next(self, &queue);
    if (at == NULL || session->state != SIMBA__SQL_IDLE) {
        return false;
    }
    session->turn = take(queue, at);
    session->turn->session = session;
    session->state = SIMBA__SQL_BUSY;
    session->was_used = true;
    simba_timer_set(self->base.loop, &session->timer,
                    session->turn->request->deadline_ms);
    simba__sql_turn_start(session->turn);
    return true;
}

void simba__sql_pump(struct simba__sql *self)
{
    while (!self->is_detached && serve_next(self)) {
    }
}

/* --- the backend's functions --------------------------------------------- */

/* Can it be answered by what we know of those who wait? */
static bool is_known(struct simba__sql *self, simba_request *request)
{
    if (request->kind == SIMBA_ACQUIRE) {
        return simba__sql_waiter_answer(self, request);
    }
    if (request->kind == SIMBA_RELEASE || request->kind == SIMBA_LEAVE) {
        simba__sql_waiter_forget(self, request);
    }
    return false;
}

void simba__sql_submit(simba_backend *backend, simba_request *request)
{
    struct simba__sql *self = (struct simba__sql *)backend;
    struct simba__sql_turn *turn = self->spare;

    if (is_known(self, request)) {
        simba_request_done(request, SIMBA_OK, NULL);
        return;
    }
    if (turn != NULL) {
        self->spare = turn->next;
    } else if ((turn = calloc(1, sizeof *turn)) == NULL) {
        simba_request_done(request, SIMBA_ENOMEM, NULL);
        return;
    }
    turn->self = self;
    turn->request = request;
    turn->is_slow = turn->is_written = false;
    turn->was_created = turn->was_ensured = turn->is_woken = false;
    turn->was_booked = turn->was_learnt = false;
    turn->is_driven = request->is_driven && self->driven == NULL;
    if (turn->is_driven) {
        self->driven = turn; /* its caller comes, if only to say that it goes */
    }
    enqueue(self, is_urgent(turn) ? &self->urgent : &self->other, turn);
    simba__sql_pump(self);
}

void simba__sql_queues_init(struct simba__sql *self)
{
    self->urgent.last = &self->urgent.first;
    self->other.last = &self->other.first;
    self->parked.last = &self->parked.first;
    self->queue_timer.fire = end_late;
}

void simba__sql_turn_free(struct simba__sql_turn *turn)
{
    simba__sql_record_fini(&turn->record);
    free(turn->change.gone);
    free(turn);
}

static void free_all(struct simba__sql_turn *turn)
{
    while (turn != NULL) {
        struct simba__sql_turn *next = turn->next;

        simba__sql_turn_free(turn);
        turn = next;
    }
}

void simba__sql_turn_drop(struct simba__sql_turn *turn)
{
    struct simba__sql *self = turn->self;

    if (turn->request != NULL && turn->request != &self->beat_op) {
        simba_loop_enter(self->base.loop);
        simba_request_done(turn->request, SIMBA_ECANCELED, NULL);
        simba_loop_leave(self->base.loop);
    }
    simba__sql_turn_free(turn);
}

static void drop_all(struct simba__sql_turn *turn)
{
    while (turn != NULL) {
        struct simba__sql_turn *next = turn->next;

        simba__sql_turn_drop(turn);
        turn = next;
    }
}

void simba__sql_queues_fini(struct simba__sql *self)
{
    free_all(self->spare);
    drop_all(self->urgent.first);
    drop_all(self->other.first);
    drop_all(self->parked.first);
}
