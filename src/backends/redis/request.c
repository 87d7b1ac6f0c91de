/* One operation on its way through the store; see call.h.
 *
 *     start -> route -> QUEUED (no server) -> SENT -> finish
 *                 ^                            |
 *                 |- LISTENING: refused, must subscribe before it joins
 *                 '- PAUSED: told to try again
 *
 * Here: how it begins, how it ends, and that it ends in time. */
#define _GNU_SOURCE
#include "backends/redis/redis.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
/* How an operation is sent: to whom, when, in which words. */

enum { TURNS_MOST = 16, PAUSE_MS = 20, ARGUMENTS_MOST = 6 };

/* --- sending ------------------------------------------------------------- */

/* What a script wants to know beside the keys. */
struct arguments {
    char text[ARGUMENTS_MOST][40];
    const char *word[ARGUMENTS_MOST];
    int count;
};

static void add_number(struct arguments *a, int64_t value)
{
    snprintf(a->text[a->count], sizeof a->text[0], "%" PRId64, value);
    a->word[a->count] = a->text[a->count];
    a->count++;
}

static void add_identity(struct arguments *a, const simba_request *request)
{
    a->word[a->count++] = request->id;
    simba__redis_attempt_text(&request->attempt, a->text[a->count]);
    a->word[a->count] = a->text[a->count];
    a->count++;
}

static void put_arguments(struct arguments *a,
                          const struct simba__redis_call *call)
{
    const simba_request *request = call->request;

    a->count = 0;
    switch (call->script) {
    case SIMBA__REDIS_ACQUIRE:
        add_identity(a, request);
        add_number(a, request->ttl_ms + request->transition_ms);
        add_number(a, request->transition_ms);
        add_number(a, call->is_joining ? request->waiter_ms : 0);
        add_number(a, (int64_t)(request->position != 0 ? request->position
                                                       : call->position));
        break;
    case SIMBA__REDIS_RENEW:
        add_identity(a, request);
        add_number(a, request->ttl_ms + request->transition_ms);
        break;
    case SIMBA__REDIS_RELEASE:
        add_identity(a, request);
        add_number(a, request->tombstone_ms);
        break;
    case SIMBA__REDIS_READ:
        add_number(a, request->want_queue ? 1 : 0);
        break;
    default:
        add_number(a, (int64_t)request->token);
        add_number(a, request->now ? 1 : 0);
        a->word[a->count++] = request->reason == NULL ? "" : request->reason;
        break;
    }
}

bool simba__redis_call_script(const struct simba__redis_call *call,
                              struct simba__redis_conn *conn,
                              struct simba__redis_ask *ask)
{
    const struct simba__redis_script *script =
        &simba__redis_scripts()[call->script];
    const char *word[3 + SIMBA__REDIS_KEYS + ARGUMENTS_MOST];
    size_t length[3 + SIMBA__REDIS_KEYS + ARGUMENTS_MOST];
    struct simba__redis_words words = {3, word, length};
    struct simba__redis_keys keys;
    struct arguments arguments;

    simba__redis_keys_init(&keys, call->request->mutex,
                           &call->request->attempt);
    if (call->script == SIMBA__REDIS_BREAK) {
        simba__redis_keys_take_book(&keys);
    }
    put_arguments(&arguments, call);
    word[0] = call->is_whole ? "EVAL" : "EVALSHA";
    word[1] = call->is_whole ? script->text : script->sha;
    word[2] = "9";
    length[0] = strlen(word[0]);
    length[1] = call->is_whole ? script->length : 40;
    length[2] = 1;
    for (int i = 0; i < SIMBA__REDIS_KEYS; i++) {
        word[words.count] = keys.text[i];
        length[words.count++] = keys.length[i];
    }
    for (int i = 0; i < arguments.count; i++) {
        word[words.count] = arguments.word[i];
        length[words.count++] = strlen(arguments.word[i]);
    }
    return simba__redis_conn_send(conn, &words, ask);
}

static void ignore_asking(struct simba__redis_ask *ask,
                          const redisReply *reply,
                          const simba_error *why)
{
    (void)reply;
    (void)why;
    free(ask);
}

/* A node that only imports a slot serves who says ASKING before. */
static bool say_asking(struct simba__redis_conn *conn)
{
    struct simba__redis_ask *ask = calloc(1, sizeof *ask);

    if (ask == NULL) {
        return false;
    }
    ask->answered = ignore_asking;
    if (!simba__redis_conn_say(conn, ask, (const char *[]){"ASKING", NULL})) {
        free(ask);
        return false;
    }
    return true;
}

static void send_call(struct simba__redis_call *call,
                      struct simba__redis_conn *conn)
{
    call->state = SIMBA__REDIS_SENT;
    call->ask.answered = simba__redis_call_answered;
    call->ask.is_driven = call->request->is_driven;
    if ((call->is_asking && !say_asking(conn)) ||
        !simba__redis_call_script(call, conn, &call->ask)) {
        call->state = SIMBA__REDIS_PAUSED;
        simba__redis_call_fail(call, SIMBA_ENOMEM, "out of memory");
        return;
    }
    if (conn == &call->node->command.conn) {
        simba__redis_drive_choose(call->node, call->ask.is_driven);
    }
}

static void enqueue(struct simba__redis_queue *queue,
                    struct simba__redis_call *call)
{
    call->state = SIMBA__REDIS_QUEUED;
    call->other = NULL;
    *queue->last = call;
    queue->last = &call->other;
}

bool simba__redis_call_waits(const struct simba__redis_call *call)
{
    return call->store->env.settings.replicas > 0 &&
           (call->script == SIMBA__REDIS_ACQUIRE ||
            call->script == SIMBA__REDIS_RENEW);
}

void simba__redis_call_transmit(struct simba__redis_call *call)
{
    struct simba__redis_node *node = call->node;
    bool is_waiter = simba__redis_call_waits(call);
    struct simba__redis_peer *peer = is_waiter ? &node->waiter : &node->command;

    simba__redis_peer_need(peer);
    if (peer->conn.state == SIMBA__REDIS_READY &&
        node->command.conn.state == SIMBA__REDIS_READY) {
        send_call(call, &peer->conn);
    } else {
        enqueue(is_waiter ? &node->waiter_queue : &node->queue, call);
    }
}

/* After a restart that may have lost data, leases may still run that the server
 * does not know of. */
static bool is_too_early(struct simba__redis_call *call)
{
    int64_t lease_ms = call->request->ttl_ms + call->request->transition_ms;
    int64_t at_ms = simba__redis_node_grace(call->node, lease_ms);
    struct simba__redis *store = call->store;

    if (call->script != SIMBA__REDIS_ACQUIRE || at_ms <= simba_loop_now_ms() ||
        call->node->command.conn.state != SIMBA__REDIS_READY) {
        return false;
    }
    if (!store->grace.is_set || at_ms < store->grace.at_ms) {
        simba_timer_set(store->base.loop, &store->grace, at_ms);
    }
    simba__redis_call_fail(
        call, SIMBA_EUNAVAIL,
        "was just restarted and may have lost its data; waiting");
    return true;
}

void simba__redis_call_route(struct simba__redis_call *call)
{
    struct simba__redis *store = call->store;

    if (call->turns++ >= TURNS_MOST) {
        call->state = SIMBA__REDIS_PAUSED;
        simba__redis_call_fail(call, SIMBA_EUNAVAIL,
                               "is sent from one server to the next");
        return;
    }
    if (!call->is_asking) {
        call->node = simba__redis_node_of(store, call->request->mutex);
    }
    if (call->node == NULL) {
        simba__redis_call_pause(call);
    } else if (!is_too_early(call)) {
        simba__redis_call_transmit(call);
    }
}

void simba__redis_queue_send(struct simba__redis_queue *queue)
{
    struct simba__redis_call *call = queue->first;

    queue->first = NULL;
    queue->last = &queue->first;
    while (call != NULL) {
        struct simba__redis_call *next = call->other;

        call->other = NULL;
        call->state = SIMBA__REDIS_PAUSED;
        call->turns = 0;
        simba__redis_call_route(call);
        call = next;
    }
}

void simba__redis_queue_fail(struct simba__redis_queue *queue,
                             const simba_error *why)
{
    while (queue->first != NULL) {
        simba__redis_call_finish(queue->first, why->code, why);
    }
}

/* --- once more ----------------------------------------------------------- */

static void on_pause_over(simba_timer *timer)
{
    struct simba__redis_call *call =
        container(timer, struct simba__redis_call, pause);
    struct simba__redis_env *env = &call->store->env;

    simba__redis_turn_begin(env);
    call->turns = 0; /* its deadline ends it */
    simba__redis_call_route(call);
    simba__redis_turn_end(env);
}

void simba__redis_call_pause(struct simba__redis_call *call)
{
    call->state = SIMBA__REDIS_PAUSED;
    call->pause.fire = on_pause_over;
    simba_timer_set(call->store->base.loop, &call->pause,
                    simba_loop_now_ms() + PAUSE_MS);
}
/* What is done about the answer to an operation. */

/* --- refusals ------------------------------------------------------------ */

static void refused_by_server(struct simba__redis_call *call, const char *text)
{
    struct simba__redis_trouble trouble = simba__redis_understand(text);
    struct simba__redis_node *node = call->node;
    simba_error error;

    simba__redis_explain(&error, node->command.conn.shown, text);
    call->is_asking = false;
    switch (trouble.remedy) {
    case SIMBA__REDIS_SEND_SCRIPT:
        call->is_whole = true;
        simba__redis_call_route(call);
        return;
    case SIMBA__REDIS_MOVED:
    case SIMBA__REDIS_ASK:
        simba__redis_cluster_redirect(call, text);
        return;
    case SIMBA__REDIS_AGAIN:
        simba__redis_cluster_doubt(call->store);
        simba__redis_call_pause(call);
        return;
    case SIMBA__REDIS_REMAKE:
        simba__redis_call_finish(call, trouble.code, &error);
        simba__redis_conn_fail(&node->command.conn, trouble.code, 0, "%s",
                               trouble.words);
        return;
    default:
        simba__redis_call_finish(call, trouble.code, &error);
    }
}

/* --- answers ------------------------------------------------------------- */

/* Wait for this channel first. False: it is open already, or cannot be. */
static bool await_ear(struct simba__redis_call *call, const char *id)
{
    struct simba__redis_ear *ear =
        simba__redis_ear_open(call->store, call->request->mutex, id);

    if (ear == NULL || ear->is_open) {
        return false;
    }
    call->state = SIMBA__REDIS_LISTENING;
    call->other = ear->waiting;
    ear->waiting = call;
    return true;
}

void simba__redis_call_heard(struct simba__redis_call *call,
                             const simba_error *why)
{
    call->state = SIMBA__REDIS_PAUSED;
    if (why != NULL) {
        simba__redis_call_finish(call, why->code, why);
        return;
    }
    call->is_joining = true;
    simba__redis_call_route(call);
}

/* Who waits must be heard and must hear: first subscribe, then join the line.
 * The release of an owner that is not one of ours is only broadcast. */
static bool must_listen(struct simba__redis_call *call,
                        const struct simba__redis_answer *answer)
{
    bool is_foreign = answer->owner.id[0] != '\0' && !answer->has_tenure;

    return call->request->join && (await_ear(call, call->request->id) ||
                                   (is_foreign && await_ear(call, NULL)));
}

static void answered_acquire(struct simba__redis_call *call,
                             const struct simba__redis_answer *answer)
{
    if (answer->is_mine || !call->request->join) {
        simba__redis_call_finish(call, SIMBA_OK, NULL);
    } else if (!must_listen(call, answer)) {
        if (call->is_joining) {
            simba__redis_ears_keep(call->store, call->request->mutex,
                                   call->request->waiter_ms);
            if (answer->has_missed) {
                simba__redis_again_later(call->store, call->request->mutex,
                                         answer->wait_ms + 1);
            }
            simba__redis_call_finish(call, SIMBA_OK, NULL);
        } else { /* somebody else of ours has opened it meanwhile */
            simba__redis_call_heard(call, NULL);
        }
    }
}

static void understood(struct simba__redis_call *call, const redisReply *reply)
{
    struct simba__redis_answer answer;
    simba_request *request = call->request;

    if (call->script == SIMBA__REDIS_RELEASE) {
        simba__redis_call_finish(call, SIMBA_OK, NULL);
        return;
    }
    if (!simba__redis_answer_read(&answer, reply, request->transition_ms)) {
        simba__redis_call_fail(call, SIMBA_EMISCONFIG,
                               "the lease key is not of our making");
        return;
    }
    if (!call->is_joining) {
        call->position = answer.position;
        answer.position = 0;
    }
    simba__redis_answer_fill(&answer, request);
    if (call->script == SIMBA__REDIS_READ) {
        simba__redis_answer_line(reply, request);
    }
    if (answer.is_mine && simba__redis_call_waits(call)) {
        simba__redis_replicas_await(call);
    } else if (call->script == SIMBA__REDIS_ACQUIRE) {
        answered_acquire(call, &answer);
    } else {
        simba__redis_call_finish(call, SIMBA_OK, NULL);
    }
}

void simba__redis_call_answered(struct simba__redis_ask *ask,
                                const redisReply *reply,
                                const simba_error *why)
{
    struct simba__redis_call *call =
        container(ask, struct simba__redis_call, ask);

    if (call->request == NULL) {
        simba__redis_call_finish(call, SIMBA_OK, NULL); /* too late */
    } else if (reply == NULL) {
        simba__redis_call_finish(call, SIMBA_EUNKNOWN, why);
    } else if (reply->type == REDIS_REPLY_ERROR) {
        refused_by_server(call, reply->str);
    } else {
        understood(call, reply);
    }
}
/* Waiting for replicas; see replicas.h.
 *
 * WAIT holds its connection up, so these have one of their own. An acquire that
 * too few replicas have is taken back before it is answered; a renewal remains
 * unknown and is tried again by who wants it.
 *
 * What is taken back leaves no tombstone: the acquire was answered, so it is
 * not under way any more, and the same attempt asks again when replicas are
 * back. */

enum { LEAST_WAIT_MS = 1 };

/* That WAIT itself is refused. */
enum { REFUSED = -1 };

static void too_few(struct simba__redis_call *call, int code)
{
    simba_error error;

    if (call->had_replicas == REFUSED) {
        simba__redis_call_fail(call,
                               code == SIMBA_EUNAVAIL ? SIMBA_EDENIED : code,
                               "refuses WAIT: does its user lack +wait?");
        return;
    }
    simba_error_set(&error, code, 0, "redis %s: only %d of %d replicas have it",
                    call->node->command.conn.shown, call->had_replicas,
                    call->store->env.settings.replicas);
    simba__redis_call_finish(call, code, &error);
}

static void on_undone(struct simba__redis_ask *ask,
                      const redisReply *reply,
                      const simba_error *why)
{
    struct simba__redis_call *call =
        container(ask, struct simba__redis_call, ask);
    bool is_undone = reply != NULL && reply->type == REDIS_REPLY_ARRAY;

    (void)why;
    too_few(call, is_undone ? SIMBA_EUNAVAIL : SIMBA_EUNKNOWN);
}

static void undo(struct simba__redis_call *call)
{
    call->request->reply = (simba_reply){.owner = simba_owner_none()};
    call->script = SIMBA__REDIS_RELEASE;
    call->is_whole = true; /* no second round for want of a script */
    call->ask.answered = on_undone;
    if (!simba__redis_call_script(call, &call->node->waiter.conn, &call->ask)) {
        too_few(call, SIMBA_EUNKNOWN);
    }
}

static void on_waited(struct simba__redis_ask *ask,
                      const redisReply *reply,
                      const simba_error *why)
{
    struct simba__redis_call *call =
        container(ask, struct simba__redis_call, ask);

    if (reply == NULL) {
        simba__redis_call_finish(call, SIMBA_EUNKNOWN, why);
        return;
    }
    call->had_replicas =
        reply->type == REDIS_REPLY_INTEGER ? (int)reply->integer : REFUSED;
    if (call->request == NULL ||
        call->had_replicas >= call->store->env.settings.replicas) {
        simba__redis_call_finish(call, SIMBA_OK, NULL);
    } else if (call->script == SIMBA__REDIS_ACQUIRE) {
        undo(call);
    } else {
        too_few(call, SIMBA_EUNKNOWN);
    }
}

void simba__redis_replicas_await(struct simba__redis_call *call)
{
    /* A quarter of the time is kept for undoing it. */
    int64_t left_ms =
        (call->request->deadline_ms - simba_loop_now_ms()) * 3 / 4;
    char count[16], most[24];

    snprintf(count, sizeof count, "%d", call->store->env.settings.replicas);
    snprintf(most, sizeof most, "%lld",
             (long long)(left_ms > LEAST_WAIT_MS ? left_ms : LEAST_WAIT_MS));
    call->ask.answered = on_waited;
    if (!simba__redis_conn_say(&call->node->waiter.conn, &call->ask,
                               (const char *[]){"WAIT", count, most, NULL})) {
        simba__redis_call_finish(call, SIMBA_EUNKNOWN, NULL);
    }
}
