/* How an operation is sent: to whom, when, in which words. */
#include "backends/redis/call.h"

#include "backends/redis/drive.h"
#include "backends/redis/turn.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TURNS_MOST = 16, PAUSE_MS = 20, ARGUMENTS_MOST = 6 };

#define container(pointer, type, member)                                       \
    ((type *)((char *)(pointer)-offsetof(type, member)))

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
