/* Which mutexes are there: SCAN for names, then one look at each. */
#include "backends/redis/admin.h"

#include "backends/redis/call.h"
#include "backends/redis/trouble.h"

#include "core/name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void scan(struct simba__redis_errand *errand,
                 struct simba__redis_node *node,
                 const char *cursor);

struct found {
    struct simba__redis_link link;
    char mutex[];
};

static void fail(struct simba__redis_errand *errand,
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
        fail(errand, node, reply);
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
        fail(errand, node, reply);
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
