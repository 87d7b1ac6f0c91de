/* What admins ask; see admin.h. */
#define _GNU_SOURCE
#include "backends/redis/redis.h"

#include "core/name.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
/* Which mutexes are there: SCAN for names, then one look at each. */

static void scan(struct simba__redis_errand *errand,
                 struct simba__redis_node *node,
                 const char *cursor);

struct found {
    struct simba__redis_link link;
    char mutex[];
};

static void fail_admin(struct simba__redis_errand *errand,
                       const struct simba__redis_node *node,
                       const redisReply *reply)
{
    simba__redis_explain(&errand->why, node->command.conn.shown,
                         reply->str == NULL ? "what is this?" : reply->str);
}

/* --- one look ------------------------------------------------------------ */

/* GET lease, GET tenure, PTTL lease, GET token, ZCARD line and TIME would be
 * six; the script is one, and sees one instant. It answers without the name,
 * which comes back as a key. */
static void on_look(struct simba__redis_errand *errand,
                    struct simba__redis_node *node,
                    const redisReply *reply)
{
    struct simba__redis_answer answer;
    const char *mutex;
    long long waiting;

    if (reply->type == REDIS_REPLY_ERROR &&
        strncmp(reply->str, "WRONGTYPE", 9) == 0) {
        return; /* somebody else's key */
    }
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 11 ||
        !simba__redis_answer_read(&answer, reply, 0)) {
        fail_admin(errand, node, reply);
        return;
    }
    errand->request->reply.store_ms = answer.now_us / 1000;
    waiting = reply->element[9]->integer;
    mutex = reply->element[10]->str;
    if (mutex != NULL && (answer.owner.id[0] != '\0' || waiting > 0)) {
        simba_request_add_mutex(errand->request, mutex, &answer.owner,
                                (int)waiting);
    }
}

static void look(struct simba__redis_errand *errand,
                 struct simba__redis_node *node,
                 const char *mutex)
{
    const struct simba__redis_script *script =
        &simba__redis_scripts()[SIMBA__REDIS_READ];
    static const simba_attempt nobody;
    struct simba__redis_keys keys;
    const char *words[3 + SIMBA__REDIS_KEYS + 3];
    int count = 0;

    simba__redis_keys_init(&keys, mutex, &nobody);
    words[count++] = "EVAL";
    words[count++] = script->text;
    words[count++] = "9";
    for (int i = 0; i < SIMBA__REDIS_KEYS; i++) {
        words[count++] = keys.text[i];
    }
    words[count++] = "2";
    words[count++] = mutex;
    words[count] = NULL;
    simba__redis_errand_ask(errand, node, on_look, words);
}

/* --- names --------------------------------------------------------------- */

/* The mutex of a lease key or a line key; false for all others. */
static bool read_name(char *key, const char **mutex)
{
    static const char *const endings[] = {"}", "}:contender"};
    size_t length = strlen(key);

    if (strncmp(key, "simba:{", 7) != 0) {
        return false;
    }
    for (int i = 0; i < 2; i++) {
        size_t ending = strlen(endings[i]);

        if (length > 7 + ending &&
            strcmp(key + length - ending, endings[i]) == 0) {
            key[length - ending] = '\0';
            *mutex = key + 7;
            return simba__name_check_mutex(*mutex, strlen(*mutex)) ==
                   SIMBA__NAME_FINE;
        }
    }
    return false;
}

static void add_name(struct simba__redis_errand *errand,
                     struct simba__redis_node *node,
                     const char *mutex)
{
    size_t length = strlen(mutex);
    struct found *found;

    if (simba__redis_hash_find(&errand->found, mutex, length) != NULL) {
        return; /* SCAN may tell a key twice */
    }
    found = calloc(1, sizeof *found + length + 1);
    if (found != NULL) {
        memcpy(found->mutex, mutex, length + 1);
        found->link.name = found->mutex;
        if (simba__redis_hash_add(&errand->found, &found->link)) {
            look(errand, node, mutex);
            return;
        }
        free(found);
    }
    simba_error_set(&errand->why, SIMBA_ENOMEM, 0, "redis: out of memory");
}

static void on_scan(struct simba__redis_errand *errand,
                    struct simba__redis_node *node,
                    const redisReply *reply)
{
    const redisReply *keys;
    const char *cursor;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
        reply->element[0]->str == NULL ||
        reply->element[1]->type != REDIS_REPLY_ARRAY) {
        fail_admin(errand, node, reply);
        return;
    }
    keys = reply->element[1];
    for (size_t i = 0; i < keys->elements; i++) {
        const char *mutex;

        if (keys->element[i]->str != NULL &&
            read_name(keys->element[i]->str, &mutex)) {
            add_name(errand, node, mutex);
        }
    }
    cursor = reply->element[0]->str;
    if (strcmp(cursor, "0") != 0) {
        scan(errand, node, cursor);
    }
}

static void scan(struct simba__redis_errand *errand,
                 struct simba__redis_node *node,
                 const char *cursor)
{
    simba__redis_errand_ask(errand, node, on_scan,
                            (const char *[]){"SCAN", cursor, "MATCH",
                                             "simba:{*", "COUNT", "1000",
                                             NULL});
}

void simba__redis_list(struct simba__redis_errand *errand,
                       struct simba__redis_node *node)
{
    scan(errand, node, "0");
}

void simba__redis_list_fini(struct simba__redis_errand *errand)
{
    struct simba__redis_link *link;

    while ((link = simba__redis_hash_next(&errand->found, NULL)) != NULL) {
        simba__redis_hash_remove(&errand->found, link);
        free(link);
    }
    simba__redis_hash_fini(&errand->found);
}
