/* Waiting for replicas; see replicas.h.
 *
 * WAIT holds its connection up, so these have one of their own. An acquire that
 * too few replicas have is taken back before it is answered; a renewal remains
 * unknown and is tried again by who wants it.
 *
 * What is taken back leaves no tombstone: the acquire was answered, so it is
 * not under way any more, and the same attempt asks again when replicas are
 * back. */
#include "backends/redis/replicas.h"

#include <stdio.h>

enum { LEAST_WAIT_MS = 1 };

#define container(pointer, type, member)                                       \
    ((type *)((char *)(pointer)-offsetof(type, member)))

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
