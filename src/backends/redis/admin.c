/* Requests that go to every server of a store: list, and the doctor's. A list
 * is a SCAN for names, then one look at each. Whether the store can be reached
 * is known without one more. */
#include "backends/redis/redis.h"

#include "core/name.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_AGAIN_MS = 10 };

/* --- requests to all servers --------------------------------------------- */

/* One command of such a request. */
struct question {
    struct simba__redis_pending pending;
    struct simba__redis_admin_request *admin;
    simba__redis_admin_fn *replied;
};

static void complete(struct simba__redis_admin_request *admin)
{
    simba_timer_clear(admin->store->base.loop, &admin->deadline);
    simba_timer_clear(admin->store->base.loop, &admin->begin);
    simba__deadline_complete(&admin->request, admin->why.code, &admin->why);
}

/* Completes it, if no reply is awaited any more. */
static void finish_if_done(struct simba__redis_admin_request *admin)
{
    struct simba__redis_admin_request **at = &admin->store->admin_requests;

    if (admin->open > 0) {
        return;
    }
    complete(admin);
    while (*at != admin) {
        at = &(*at)->next;
    }
    *at = admin->next;
    simba__hash_free(&admin->found);
    free(admin);
}

static void on_reply(struct simba__redis_connection *conn,
                     struct simba__redis_pending *pending,
                     const redisReply *reply)
{
    struct question *question = container_of(pending, struct question, pending);
    struct simba__redis_admin_request *admin = question->admin;

    if (reply == NULL) {
        admin->why = conn->why;
    } else if (admin->request != NULL) {
        question->replied(admin, conn->server, reply);
    }
    free(question);
    assert(admin->open > 0);
    admin->open--;
    finish_if_done(admin);
}

void simba__redis_admin_send(struct simba__redis_admin_request *admin,
                             struct simba__redis_server *server,
                             simba__redis_admin_fn *replied,
                             const char *const *words)
{
    struct simba__redis_connection *conn = &server->command;
    struct question *question;

    if (conn->state != SIMBA__REDIS_READY) {
        admin->why = conn->why;
        return;
    }
    question = calloc(1, sizeof *question);
    if (question != NULL) {
        question->pending.replied = on_reply;
        question->pending.most_values = strcmp(words[0], "SCAN") == 0
                                            ? SIMBA__REDIS_VALUES_OF_SCAN
                                            : SIMBA__REDIS_VALUES_MOST;
        question->admin = admin;
        question->replied = replied;
    }
    if (question == NULL ||
        !simba__redis_send_words(conn, &question->pending, words)) {
        free(question);
        simba_error_set(&admin->why, SIMBA_ENOMEM, 0, "redis: out of memory");
        return;
    }
    admin->open++;
}

/* --- list ---------------------------------------------------------------- */

static void fail(struct simba__redis_admin_request *admin,
                 const struct simba__redis_server *server,
                 const redisReply *reply)
{
    simba__redis_explain(&admin->why, server->command.shown,
                         reply->str == NULL ? "what is this?" : reply->str);
}

static void on_look(struct simba__redis_admin_request *admin,
                    struct simba__redis_server *server,
                    const redisReply *reply)
{
    struct simba__redis_script_reply read, oldest;
    const char *mutex;
    long long waiting;

    if (reply->type == REDIS_REPLY_ERROR &&
        strncmp(reply->str, "WRONGTYPE", 9) == 0) {
        return; /* somebody else's key */
    }
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 11 ||
        !simba__redis_script_reply_read(&read, reply, 0)) {
        fail(admin, server, reply);
        return;
    }
    oldest = read;
    simba__redis_read_owners(&oldest, reply, NULL);
    admin->request->reply.store_ms = read.now_us / 1000;
    waiting = reply->element[9]->integer;
    mutex = reply->element[10]->str;
    if (mutex != NULL && (oldest.owner.id[0] != '\0' || waiting > 0)) {
        simba_request_add_mutex(admin->request, mutex, &oldest.owner,
                                (int)waiting);
        simba__redis_read_owners(&read, reply, admin->request);
    }
}

static void on_notes(struct simba__redis_admin_request *admin,
                     struct simba__redis_server *server,
                     const redisReply *reply)
{
    if ((reply->type != REDIS_REPLY_ERROR ||
         strncmp(reply->str, "WRONGTYPE", 9) != 0) &&
        !simba__redis_read_notes(reply, admin->request)) {
        fail(admin, server, reply);
    }
}

/* The mutex of a key that is looked for, cut out of it; NULL for all others. A
 * mutex has a lease key or a queue key, or is offered to the only one that
 * waits for it. */
static const char *cut_name(enum simba_request_kind kind, char *key)
{
    static const char *const of_mutex[] = {"}", "}:contender", "}:next", NULL};
    static const char *const of_told[] = {"}:who", NULL};
    static const char *const of_breaks[] = {"}:broken", NULL};
    const char *const *endings = kind == SIMBA_TOLD     ? of_told
                                 : kind == SIMBA_BREAKS ? of_breaks
                                                        : of_mutex;
    size_t length = strlen(key);

    for (int i = 0; endings[i] != NULL && strncmp(key, "simba:{", 7) == 0;
         i++) {
        size_t ending = strlen(endings[i]);

        if (length > 7 + ending &&
            strcmp(key + length - ending, endings[i]) == 0) {
            key[length - ending] = '\0';
            return simba__name_check_mutex(key + 7, length - ending - 7) ==
                           SIMBA__NAME_FINE
                       ? key + 7
                       : NULL;
        }
    }
    return NULL;
}

/* GET lease, GET tenure, PTTL lease, GET token, ZCARD queue and TIME would be
 * six; the script is one, and sees one instant. It replies with the name that
 * we send along. The server knows the script if it was sent just before;
 * answers whether it was sent now. */
static bool look(struct simba__redis_admin_request *admin,
                 struct simba__redis_server *server,
                 const char *mutex,
                 bool is_known)
{
    static const simba_attempt nobody;
    enum simba_request_kind kind = admin->request->kind;
    bool is_list = kind == SIMBA_LIST;
    const struct simba__redis_script *script =
        simba__redis_script(is_list ? SIMBA__REDIS_READ : SIMBA__REDIS_NOTES);
    struct simba__redis_keys keys;
    const char *words[3 + SIMBA__REDIS_KEYS + 4] = {
        is_known ? "EVALSHA" : "EVAL", is_known ? script->sha : script->text,
        "10"};
    int count = 3;

    if (simba__hash_find(&admin->found, mutex) != NULL) {
        return false; /* SCAN may tell a key twice */
    }
    if (simba__hash_new(&admin->found, sizeof(struct simba__hash_link),
                        mutex) == NULL) {
        simba_error_set(&admin->why, SIMBA_ENOMEM, 0, "redis: out of memory");
        return false;
    }
    if (is_list) {
        simba__redis_keys_init(&keys, mutex, &nobody);
    } else {
        simba__redis_keys_of_notes(&keys, mutex, kind);
    }
    for (int i = 0; i < SIMBA__REDIS_KEYS; i++) {
        words[count++] = keys.text[i];
    }
    words[count++] = ""; /* it needs no letters */
    words[count++] = is_list ? "2" : mutex;
    words[count] = is_list ? mutex : simba__redis_notes_verb(kind);
    simba__redis_admin_send(admin, server, is_list ? on_look : on_notes, words);
    return true;
}

static void on_scan(struct simba__redis_admin_request *admin,
                    struct simba__redis_server *server,
                    const redisReply *reply);

static void scan(struct simba__redis_admin_request *admin,
                 struct simba__redis_server *server,
                 const char *cursor)
{
    enum simba_request_kind kind = admin->request->kind;
    const char *pattern = kind == SIMBA_TOLD     ? "simba:{*}:who"
                          : kind == SIMBA_BREAKS ? "simba:{*}:broken"
                                                 : "simba:{*";

    simba__redis_admin_send(admin, server, on_scan,
                            (const char *[]){"SCAN", cursor, "MATCH", pattern,
                                             "COUNT", "1000", NULL});
}

static void on_scan(struct simba__redis_admin_request *admin,
                    struct simba__redis_server *server,
                    const redisReply *reply)
{
    const redisReply *keys;
    bool is_known = false;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
        reply->element[0]->str == NULL ||
        reply->element[1]->type != REDIS_REPLY_ARRAY) {
        fail(admin, server, reply);
        return;
    }
    keys = reply->element[1];
    for (size_t i = 0; i < keys->elements; i++) {
        char *key = keys->element[i]->str;
        const char *mutex =
            key == NULL ? NULL : cut_name(admin->request->kind, key);

        if (mutex != NULL) {
            is_known |= look(admin, server, mutex, is_known);
        }
    }
    if (strcmp(reply->element[0]->str, "0") != 0) {
        scan(admin, server, reply->element[0]->str);
    }
}

/* --- begin and end ------------------------------------------------------- */

static void begin(struct simba__redis_admin_request *admin)
{
    struct simba__redis *store = admin->store;

    bool is_reach = admin->request->kind == SIMBA_REACH;

    /* A list without one of the servers would be none. */
    for (struct simba__redis_server *s = store->servers; s != NULL;
         s = s->next) {
        if (!store->was_reached ||
            (!is_reach && s->command.state != SIMBA__REDIS_READY)) {
            admin->why = s->command.why;
            simba_timer_set(store->base.loop, &admin->begin,
                            simba_loop_now_ms() + LOOK_AGAIN_MS);
            return;
        }
    }
    admin->why.code = SIMBA_OK;
    for (struct simba__redis_server *s = store->servers; s != NULL && !is_reach;
         s = s->next) {
        if (admin->request->kind == SIMBA_DOCTOR) {
            simba__redis_doctor(admin, s);
        } else {
            scan(admin, s, "0");
        }
    }
    finish_if_done(admin);
}

static void on_begin(simba_timer *timer)
{
    begin(container_of(timer, struct simba__redis_admin_request, begin));
}

static void on_deadline(simba_timer *timer)
{
    struct simba__redis_admin_request *admin =
        container_of(timer, struct simba__redis_admin_request, deadline);

    if (admin->why.code == SIMBA_OK) {
        simba__deadline_expire(&admin->request, "redis",
                               admin->store->settings.shown);
    }
    if (admin->open == 0) {
        finish_if_done(admin);
    } else {
        complete(admin);
    }
}

void simba__redis_admin_start(struct simba__redis *store,
                              simba_request *request)
{
    struct simba__redis_admin_request *admin = calloc(1, sizeof *admin);

    if (admin == NULL) {
        simba_request_done(request, SIMBA_ENOMEM, NULL);
        return;
    }
    admin->store = store;
    admin->request = request;
    admin->next = store->admin_requests;
    store->admin_requests = admin;
    admin->deadline.fire = on_deadline;
    admin->begin.fire = on_begin;
    simba_timer_set(store->base.loop, &admin->deadline, request->deadline_ms);
    begin(admin);
}

void simba__redis_admin_fail(struct simba__redis *store, const simba_error *why)
{
    struct simba__redis_admin_request *next;

    for (struct simba__redis_admin_request *s = store->admin_requests;
         s != NULL; s = next) {
        next = s->next;
        if (s->open == 0) {
            s->why = *why;
            finish_if_done(s);
        }
    }
}
