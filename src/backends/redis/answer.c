/* What is done about the answer to an operation. */
#include "backends/redis/call.h"

#include "backends/redis/cluster.h"
#include "backends/redis/replicas.h"
#include "backends/redis/trouble.h"

#define container(pointer, type, member)                                       \
    ((type *)((char *)(pointer)-offsetof(type, member)))

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
