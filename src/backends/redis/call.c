/* One operation on its way through the store; see call.h.
 *
 *     start -> route -> QUEUED (no server) -> SENT -> finish
 *                 ^                            |
 *                 |- LISTENING: refused, must subscribe before it joins
 *                 '- PAUSED: told to try again
 *
 * Here: how it begins, how it ends, and that it ends in time. */
#include "backends/redis/call.h"

#include "backends/redis/turn.h"

#include <assert.h>
#include <stdlib.h>

#define container(pointer, type, member)                                       \
    ((type *)((char *)(pointer)-offsetof(type, member)))

/* --- the books ----------------------------------------------------------- */

static void unqueue_from(struct simba__redis_queue *queue,
                         const struct simba__redis_call *call)
{
    struct simba__redis_call **at = &queue->first;

    while (*at != NULL && *at != call) {
        at = &(*at)->other;
    }
    if (*at != NULL) {
        *at = call->other;
        if (*at == NULL) {
            queue->last = at;
        }
    }
}

static void unlisten(const struct simba__redis_call *call)
{
    const char *ids[] = {call->request->id, NULL};

    for (int i = 0; i < 2; i++) {
        struct simba__redis_ear *ear =
            simba__redis_ear_find(call->store, call->request->mutex, ids[i]);
        struct simba__redis_call **at = ear == NULL ? NULL : &ear->waiting;

        while (at != NULL && *at != NULL) {
            if (*at == call) {
                *at = call->other;
            } else {
                at = &(*at)->other;
            }
        }
    }
}

static void forget(struct simba__redis_call *call)
{
    struct simba__redis *store = call->store;

    if (call->state == SIMBA__REDIS_QUEUED && call->node != NULL) {
        unqueue_from(&call->node->queue, call);
        unqueue_from(&call->node->waiter_queue, call);
    }
    simba_timer_clear(store->base.loop, &call->pause);
    if (call->next != NULL) {
        call->next->previous = call->previous;
    }
    if (call->previous != NULL) {
        call->previous->next = call->next;
    } else {
        store->calls = call->next;
    }
    assert(store->calls != call);
    free(call);
}

void simba__redis_call_finish(struct simba__redis_call *call,
                              int status,
                              const simba_error *error)
{
    simba_request *request = call->request;

    if (request != NULL && call->state == SIMBA__REDIS_LISTENING) {
        unlisten(call);
    }
    if (request != NULL && status == SIMBA_EUNKNOWN &&
        request->kind == SIMBA_READ) {
        status = SIMBA_EUNAVAIL; /* it had no effect, whatever became of it */
    }
    forget(call);
    if (request != NULL) {
        simba_request_done(request, status, error);
    }
}

void simba__redis_call_fail(struct simba__redis_call *call,
                            int code,
                            const char *words)
{
    simba_error error;

    simba_error_set(&error, code, 0, "redis %s: %s",
                    call->node == NULL ? call->store->env.settings.shown
                                       : call->node->command.conn.shown,
                    words);
    simba__redis_call_finish(call, code, &error);
}

/* --- deadlines ----------------------------------------------------------- */

/* The connection that has kept it waiting; NULL: none. */
static const struct simba__redis_conn *missing(
    const struct simba__redis_call *call)
{
    const struct simba__redis_node *node = call->node;
    const struct simba__redis_conn *conn;

    if (node == NULL || call->state == SIMBA__REDIS_PAUSED) {
        return NULL;
    }
    conn = &node->command.conn;
    if (conn->state == SIMBA__REDIS_READY) {
        conn = call->state == SIMBA__REDIS_LISTENING ? &node->subscriber.conn
                                                     : &node->waiter.conn;
    }
    return conn->state == SIMBA__REDIS_READY ? NULL : conn;
}

/* Its time is up before it was sent. */
static void expire_unsent(struct simba__redis_call *call)
{
    const struct simba__redis_conn *conn = missing(call);

    if (conn != NULL && conn->why.code != SIMBA_OK) {
        simba_error error = conn->why;

        simba__redis_call_finish(call, error.code, &error);
    } else {
        simba__redis_call_fail(call, SIMBA_EUNAVAIL, "not ready in time");
    }
}

/* Nobody waits for it any more. What was sent stays in the books until its
 * answer comes, for answers come in order. */
static void expire(struct simba__redis_call *call)
{
    simba_request *request = call->request;
    struct simba__redis_node *node = call->node;
    simba_error error;

    if (call->state != SIMBA__REDIS_SENT) {
        expire_unsent(call);
        return;
    }
    call->request = NULL;
    simba_error_set(&error, SIMBA_EUNKNOWN, 0, "redis %s: no answer in time",
                    call->node->command.conn.shown);
    simba_request_done(
        request, request->kind == SIMBA_READ ? SIMBA_EUNAVAIL : SIMBA_EUNKNOWN,
        &error);
    simba__redis_conn_suspect(&node->command.conn);
    simba__redis_conn_suspect(&node->waiter.conn);
}

static void watch_deadline(struct simba__redis *store, int64_t at_ms)
{
    if (!store->deadline.is_set || at_ms < store->deadline.at_ms) {
        simba_timer_set(store->base.loop, &store->deadline, at_ms);
    }
}

/* Completing one may start others and end others: begin anew each time. */
static struct simba__redis_call *find_overdue(const struct simba__redis *store,
                                              int64_t now_ms,
                                              int64_t *next_ms)
{
    *next_ms = INT64_MAX;
    for (struct simba__redis_call *c = store->calls; c != NULL; c = c->next) {
        /* One that was forgotten is in the books no more.
         * NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        if (c->request != NULL && c->request->deadline_ms <= now_ms) {
            return c;
        }
        if (c->request != NULL && c->request->deadline_ms < *next_ms) {
            *next_ms = c->request->deadline_ms;
        }
    }
    return NULL;
}

void simba__redis_calls_overdue(simba_timer *timer)
{
    struct simba__redis *store =
        container(timer, struct simba__redis, deadline);
    int64_t now_ms = simba_loop_now_ms();
    struct simba__redis_call *call;
    int64_t next_ms;

    simba__redis_turn_begin(&store->env);
    while ((call = find_overdue(store, now_ms, &next_ms)) != NULL) {
        expire(call);
    }
    if (next_ms != INT64_MAX) {
        watch_deadline(store, next_ms);
    }
    simba__redis_turn_end(&store->env);
}

/* --- starting ------------------------------------------------------------ */

static enum simba__redis_script_name script_of(enum simba_request_kind kind)
{
    switch (kind) {
    case SIMBA_ACQUIRE:
        return SIMBA__REDIS_ACQUIRE;
    case SIMBA_RENEW:
        return SIMBA__REDIS_RENEW;
    case SIMBA_READ:
        return SIMBA__REDIS_READ;
    case SIMBA_BREAK:
        return SIMBA__REDIS_BREAK;
    default:
        return SIMBA__REDIS_RELEASE;
    }
}

static bool is_heard(struct simba__redis *store, const simba_request *request)
{
    const struct simba__redis_ear *ear =
        simba__redis_ear_find(store, request->mutex, request->id);

    return ear != NULL && ear->is_open;
}

void simba__redis_call_start(struct simba__redis *store, simba_request *request)
{
    struct simba__redis_call *call = calloc(1, sizeof *call);

    if (call == NULL) {
        simba_request_done(request, SIMBA_ENOMEM, NULL);
        return;
    }
    call->store = store;
    call->request = request;
    call->script = script_of(request->kind);
    call->state = SIMBA__REDIS_PAUSED;
    call->is_joining = request->kind == SIMBA_ACQUIRE && request->join &&
                       store->ears.channels.count > 0 &&
                       is_heard(store, request);
    call->next = store->calls;
    if (call->next != NULL) {
        call->next->previous = call;
    }
    store->calls = call;
    watch_deadline(store, request->deadline_ms);
    simba__redis_call_route(call);
}

void simba__redis_calls_forget(struct simba__redis_node *node)
{
    for (struct simba__redis_call *c = node->store->calls; c != NULL;
         c = c->next) {
        if (c->node == node) {
            c->node = NULL;
        }
    }
}

void simba__redis_calls_end(struct simba__redis *store)
{
    struct simba__redis_call *next;
    simba_error why;

    simba_error_set(&why, SIMBA_EUNAVAIL, 0, "redis: the store is closed");
    for (struct simba__redis_call *c = store->calls; c != NULL; c = next) {
        next = c->next;
        c->node = NULL;
        simba__redis_call_finish(c, SIMBA_EUNAVAIL, &why);
    }
}
