/* What admins ask; see admin.h. */
#include "backends/redis/admin.h"

#include "backends/redis/drive.h"
#include "backends/redis/turn.h"

#include <assert.h>
#include <stdlib.h>

#define container(pointer, type, member)                                       \
    ((type *)((char *)(pointer)-offsetof(type, member)))

enum { LOOK_AGAIN_MS = 10 };

/* One command of an errand. */
struct question {
    struct simba__redis_ask ask;
    struct simba__redis_errand *errand;
    struct simba__redis_node *node;
    void (*answered)(struct simba__redis_errand *,
                     struct simba__redis_node *,
                     const redisReply *reply);
};

static void complete(struct simba__redis_errand *errand)
{
    simba_request *request = errand->request;

    errand->request = NULL;
    simba_timer_clear(errand->store->base.loop, &errand->deadline);
    simba_timer_clear(errand->store->base.loop, &errand->begin);
    if (request != NULL) {
        simba_request_done(request, errand->why.code,
                           errand->why.code == SIMBA_OK ? NULL : &errand->why);
    }
}

static void finish_if_done(struct simba__redis_errand *errand)
{
    struct simba__redis *store = errand->store;
    struct simba__redis_errand **at = &store->errands;

    if (errand->open > 0) {
        return;
    }
    complete(errand);
    while (*at != errand) {
        at = &(*at)->next;
    }
    *at = errand->next;
    assert(store->errands != errand);
    simba__redis_list_fini(errand);
    free(errand);
}

static void on_answer(struct simba__redis_ask *ask,
                      const redisReply *reply,
                      const simba_error *why)
{
    struct question *question = container(ask, struct question, ask);
    struct simba__redis_errand *errand = question->errand;

    if (reply == NULL) {
        errand->why = *why;
    } else if (errand->request != NULL) {
        question->answered(errand, question->node, reply);
    }
    free(question);
    errand->open--;
    finish_if_done(errand);
}

void simba__redis_errand_ask(struct simba__redis_errand *errand,
                             struct simba__redis_node *node,
                             void (*answered)(struct simba__redis_errand *,
                                              struct simba__redis_node *,
                                              const redisReply *reply),
                             const char *const *words)
{
    struct simba__redis_conn *conn = &node->command.conn;
    struct question *question;

    if (conn->state != SIMBA__REDIS_READY) {
        errand->why = conn->why;
        return;
    }
    question = calloc(1, sizeof *question);
    if (question != NULL) {
        question->ask.answered = on_answer;
        question->errand = errand;
        question->node = node;
        question->answered = answered;
    }
    if (question == NULL ||
        !simba__redis_conn_say(conn, &question->ask, words)) {
        free(question);
        simba_error_set(&errand->why, SIMBA_ENOMEM, 0, "redis: out of memory");
        return;
    }
    simba__redis_drive_share(conn);
    errand->open++;
}

static void on_deadline(simba_timer *timer)
{
    struct simba__redis_errand *errand =
        container(timer, struct simba__redis_errand, deadline);

    if (errand->why.code == SIMBA_OK) {
        simba_error_set(&errand->why, SIMBA_EUNAVAIL, 0,
                        "redis %s: no answer in time",
                        errand->store->env.settings.shown);
    }
    if (errand->open == 0) {
        finish_if_done(errand);
    } else {
        complete(errand);
    }
}

/* A list without one of the servers would be none. */
static bool is_all_there(struct simba__redis_errand *errand)
{
    for (struct simba__redis_node *n = errand->store->nodes; n != NULL;
         n = n->next) {
        if (n->command.conn.state != SIMBA__REDIS_READY) {
            errand->why = n->command.conn.why;
            return false;
        }
    }
    errand->why.code = SIMBA_OK;
    return true;
}

static void begin(struct simba__redis_errand *errand)
{
    struct simba__redis *store = errand->store;

    if (!is_all_there(errand)) {
        simba_timer_set(store->base.loop, &errand->begin,
                        simba_loop_now_ms() + LOOK_AGAIN_MS);
        return;
    }
    for (struct simba__redis_node *n = store->nodes; n != NULL; n = n->next) {
        if (errand->request->kind == SIMBA_LIST) {
            simba__redis_list(errand, n);
        } else {
            simba__redis_doctor(errand, n);
        }
    }
    finish_if_done(errand);
}

static void on_begin(simba_timer *timer)
{
    struct simba__redis_errand *errand =
        container(timer, struct simba__redis_errand, begin);
    struct simba__redis_env *env = &errand->store->env;

    simba__redis_turn_begin(env);
    begin(errand);
    simba__redis_turn_end(env);
}

void simba__redis_admin_start(struct simba__redis *store,
                              simba_request *request)
{
    struct simba__redis_errand *errand = calloc(1, sizeof *errand);

    if (errand == NULL) {
        simba_request_done(request, SIMBA_ENOMEM, NULL);
        return;
    }
    errand->store = store;
    errand->request = request;
    errand->next = store->errands;
    store->errands = errand;
    errand->deadline.fire = on_deadline;
    errand->begin.fire = on_begin;
    simba_timer_set(store->base.loop, &errand->deadline, request->deadline_ms);
    begin(errand);
}

void simba__redis_admin_end(struct simba__redis *store)
{
    struct simba__redis_errand *next;

    /* The connections are closed: whoever awaited an answer has got none. */
    for (struct simba__redis_errand *e = store->errands; e != NULL; e = next) {
        next = e->next;
        e->open = 0;
        finish_if_done(e);
    }
}
