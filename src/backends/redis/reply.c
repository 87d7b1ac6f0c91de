/* From what a script answers to what an operation answers. */
#define _GNU_SOURCE
#include "backends/redis/redis.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
enum { ANSWER_WORDS = 9 };

static const char *word(const redisReply *reply, size_t i)
{
    const redisReply *one = reply->element[i];

    return one->type == REDIS_REPLY_STRING ? one->str : "";
}

static int64_t number(const redisReply *reply, size_t i)
{
    const redisReply *one = reply->element[i];

    return one->type == REDIS_REPLY_INTEGER ? one->integer
                                            : strtoll(word(reply, i), NULL, 10);
}

/* "<attempt> <token><<token before> <acquired ms> <transition ms> <owner id>",
 * the first blank being a "!" when it was broken. False: this owner has none.
 */
static bool read_tenure(const char *tenure,
                        struct simba__redis_answer *answer,
                        int64_t *transition_ms)
{
    simba_owner *owner = &answer->owner;
    char *rest;
    uint64_t token, former = 0;
    int64_t acquired_ms, transition;

    if (strlen(tenure) <= SIMBA__REDIS_ATTEMPT) {
        return false;
    }
    token = strtoull(tenure + SIMBA__REDIS_ATTEMPT + 1, &rest, 10);
    if (*rest == '<' && *++rest != ' ') {
        former = strtoull(rest, &rest, 10);
    }
    acquired_ms = strtoll(rest, &rest, 10);
    transition = strtoll(rest, &rest, 10);
    if (rest[0] != ' ' || strcmp(rest + 1, owner->id) != 0) {
        return false;
    }
    owner->token = token;
    owner->is_broken = tenure[SIMBA__REDIS_ATTEMPT] == '!';
    owner->acquired_at_ms = acquired_ms;
    answer->ended = former;
    *transition_ms = transition;
    return true;
}

/* Of an owner that is not one of ours, we know no more than the key tells: then
 * the transition is taken to be like the asker's, as the JVM does. */
static bool read_owner(struct simba__redis_answer *answer,
                       const redisReply *reply,
                       int64_t transition_ms)
{
    simba_owner *owner = &answer->owner;
    int64_t left_ms = number(reply, 4);

    if (!simba_owner_set_id(owner, word(reply, 2)) || owner->id[0] == '\0') {
        *owner = simba_owner_none();
        answer->ended = strtoull(word(reply, 5), NULL, 10);
        return word(reply, 2)[0] == '\0';
    }
    owner->token = strtoull(word(reply, 5), NULL, 10);
    answer->ended = SIMBA_ENDED_UNKNOWN;
    answer->has_tenure = read_tenure(word(reply, 3), answer, &transition_ms);
    if (left_ms < 0) { /* a key without an end */
        owner->transition_at_ms = INT64_MAX;
        owner->ttl_at_ms = INT64_MAX;
    } else {
        owner->transition_at_ms = answer->now_us / 1000 + left_ms;
        owner->ttl_at_ms = owner->transition_at_ms - transition_ms;
    }
    return true;
}

bool simba__redis_answer_read(struct simba__redis_answer *answer,
                              const redisReply *reply,
                              int64_t transition_ms)
{
    *answer = (struct simba__redis_answer){.owner = simba_owner_none()};
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < ANSWER_WORDS) {
        return false;
    }
    answer->is_mine = number(reply, 0) != 0;
    answer->now_us = number(reply, 1);
    answer->position = (uint64_t)number(reply, 6);
    answer->is_head = number(reply, 7) != 0;
    answer->wait_ms = number(reply, 8);
    answer->has_missed =
        reply->elements == ANSWER_WORDS + 1 && number(reply, 9) != 0;
    if (answer->wait_ms < 0) { /* no end in sight */
        answer->wait_ms = INT32_MAX;
    }
    return read_owner(answer, reply, transition_ms);
}

void simba__redis_answer_fill(const struct simba__redis_answer *answer,
                              simba_request *request)
{
    request->reply.store_ms = answer->now_us / 1000;
    request->reply.owner = answer->owner;
    request->reply.ended = answer->ended;
    request->reply.mine = answer->is_mine;
    if (answer->is_mine) {
        request->reply.token = answer->owner.token;
    } else {
        request->reply.is_queued = answer->position != 0;
        request->reply.position = answer->position;
        request->reply.is_head = answer->is_head;
        request->reply.wait_ms = answer->wait_ms;
    }
}

static void add_waiter(simba_request *request,
                       const char *id,
                       uint64_t position)
{
    simba_waiter waiter = {.position = position,
                           .joined_at_ms = (int64_t)(position / 1000),
                           .is_offered = position == 0};

    if (strlen(id) <= SIMBA_ID_MAX) {
        memcpy(waiter.id, id, strlen(id) + 1);
        simba_request_add_waiter(request, &waiter);
    }
}

void simba__redis_answer_line(const redisReply *reply, simba_request *request)
{
    size_t at = ANSWER_WORDS;

    if (reply->elements <= at) {
        return;
    }
    if (word(reply, at)[0] != '\0') { /* has left the line, and was called */
        add_waiter(request, word(reply, at), 0);
    }
    for (at++; at + 1 < reply->elements; at += 2) {
        add_waiter(request, word(reply, at), (uint64_t)number(reply, at + 1));
    }
}
/* What Redis says when it refuses; see trouble.h. */

struct entry {
    const char *mark;
    struct simba__redis_trouble trouble;
};

/* Only what was refused before it began: these codes say "no effect". */
static const struct entry entries[] = {
    {"NOSCRIPT", {SIMBA__REDIS_SEND_SCRIPT, SIMBA_EUNAVAIL, "lost its script"}},
    {"MOVED", {SIMBA__REDIS_MOVED, SIMBA_EUNAVAIL, "the slot has moved"}},
    {"ASK", {SIMBA__REDIS_ASK, SIMBA_EUNAVAIL, "the slot is moving"}},
    {"TRYAGAIN", {SIMBA__REDIS_AGAIN, SIMBA_EUNAVAIL, "the slot is moving"}},
    {"CLUSTERDOWN",
     {SIMBA__REDIS_AGAIN, SIMBA_EUNAVAIL, "the cluster is down"}},
    {"CROSSSLOT",
     {SIMBA__REDIS_NONE, SIMBA_EMISCONFIG, "keys are in different slots"}},
    {"LOADING", {SIMBA__REDIS_AGAIN, SIMBA_EUNAVAIL, "still loading its data"}},
    {"READONLY",
     {SIMBA__REDIS_REMAKE, SIMBA_EUNAVAIL, "is a replica and takes no writes"}},
    {"MASTERDOWN",
     {SIMBA__REDIS_REMAKE, SIMBA_EUNAVAIL, "a replica without its master"}},
    {"UNBLOCKED", {SIMBA__REDIS_REMAKE, SIMBA_EUNAVAIL, "changed its role"}},
    {"OOM",
     {SIMBA__REDIS_NONE, SIMBA_EUNAVAIL, "is out of memory (maxmemory)"}},
    {"BUSY", {SIMBA__REDIS_AGAIN, SIMBA_EUNAVAIL, "is busy with a script"}},
    {"MISCONF",
     {SIMBA__REDIS_NONE, SIMBA_EUNAVAIL, "cannot write to its disk"}},
    {"NOREPLICAS",
     {SIMBA__REDIS_NONE, SIMBA_EUNAVAIL, "has too few good replicas"}},
    {"NOPERM",
     {SIMBA__REDIS_NONE, SIMBA_EDENIED, "this user lacks a permission"}},
    {"NOAUTH", {SIMBA__REDIS_NONE, SIMBA_EDENIED, "wants a password"}},
    {"WRONGPASS", {SIMBA__REDIS_NONE, SIMBA_EDENIED, "wrong user or password"}},
    {"DENIED", {SIMBA__REDIS_NONE, SIMBA_EDENIED, "refuses this client"}},
    {"WRONGTYPE",
     {SIMBA__REDIS_NONE, SIMBA_EMISCONFIG,
      "a key of this mutex holds something else"}},
};

/* Texts that have no word of their own in front. */
static const struct entry phrases[] = {
    {"invalid password", {SIMBA__REDIS_NONE, SIMBA_EDENIED, "wrong password"}},
    {"without any password",
     {SIMBA__REDIS_NONE, SIMBA_EDENIED, "takes no password"}},
    {"user executing the script",
     {SIMBA__REDIS_NONE, SIMBA_EDENIED, "this user lacks a permission"}},
    {"ACL failure in script",
     {SIMBA__REDIS_NONE, SIMBA_EDENIED, "this user lacks a permission"}},
    {"DB index", {SIMBA__REDIS_NONE, SIMBA_EMISCONFIG, "has no such database"}},
    {"invalid DB",
     {SIMBA__REDIS_NONE, SIMBA_EMISCONFIG, "has no such database"}},
    {"cluster support disabled",
     {SIMBA__REDIS_NONE, SIMBA_EMISCONFIG, "is not a cluster"}},
    {"max number of clients",
     {SIMBA__REDIS_NONE, SIMBA_EUNAVAIL, "has too many clients"}},
    {"unknown command",
     {SIMBA__REDIS_NONE, SIMBA_EMISCONFIG, "lacks a command (too old?)"}},
    {"Unknown Redis command",
     {SIMBA__REDIS_NONE, SIMBA_EMISCONFIG, "lacks a command (too old?)"}},
    {"Unknown command",
     {SIMBA__REDIS_NONE, SIMBA_EMISCONFIG, "lacks a command (too old?)"}},
    {"syntax error",
     {SIMBA__REDIS_NONE, SIMBA_EMISCONFIG, "too old: 6.2 is needed"}},
};

/* Redis 6 puts before what a script ran into that it was a script, and where:
 * "ERR Error running script (call to f_..): @user_script:1: -OOM ...", and the
 * place twice when it is the refusal of a command. */
static const char *without_place(const char *text)
{
    static const char position[] = "@user_script:";
    const char *found = strncmp(text, "ERR Error running script", 24) == 0
                            ? strstr(text, position)
                            : NULL;

    while (found != NULL) {
        const char *end = strstr(found + sizeof position - 1, ": ");

        if (end == NULL) {
            break;
        }
        text = end + 2;
        found = strstr(text, position) == text ? text : NULL;
    }
    return text[0] == '-' ? text + 1 : text;
}

static bool is_marked(const char *text, const char *mark)
{
    size_t length = strlen(mark);

    return strncmp(text, mark, length) == 0 &&
           (text[length] == ' ' || text[length] == '\0');
}

struct simba__redis_trouble simba__redis_understand(const char *text)
{
    text = without_place(text);
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        if (is_marked(text, entries[i].mark)) {
            return entries[i].trouble;
        }
    }
    for (size_t i = 0; i < sizeof phrases / sizeof phrases[0]; i++) {
        if (strstr(text, phrases[i].mark) != NULL) {
            return phrases[i].trouble;
        }
    }
    /* A script may have failed halfway. */
    return (struct simba__redis_trouble){SIMBA__REDIS_NONE, SIMBA_EUNKNOWN,
                                         "failed"};
}

int simba__redis_explain(simba_error *error,
                         const char *shown,
                         const char *text)
{
    struct simba__redis_trouble trouble = simba__redis_understand(text);

    return simba_error_set(error, trouble.code, 0, "redis %s: %s (%.100s)",
                           shown, trouble.words, without_place(text));
}
