/* What replies mean: error replies in our codes and words, and what the scripts
 * reply in terms of simba_reply. */
#include "backends/redis/redis.h"

#include <stdlib.h>
#include <string.h>

/* --- error replies ------------------------------------------------------- */

struct meaning {
    const char *mark;
    int code;
    const char *words;
};

/* By their first word. Only what was refused before it began: these codes say
 * "no effect". */
static const struct meaning meanings[] = {
    {"NOSCRIPT", SIMBA_EUNAVAIL, "lost its script"},
    {"MOVED", SIMBA_EUNAVAIL, "the slot has moved"},
    {"ASK", SIMBA_EUNAVAIL, "the slot is moving"},
    {"TRYAGAIN", SIMBA_EUNAVAIL, "the slot is moving"},
    {"CLUSTERDOWN", SIMBA_EUNAVAIL, "the cluster is down"},
    {"CROSSSLOT", SIMBA_EMISCONFIG, "keys are in different slots"},
    {"LOADING", SIMBA_EUNAVAIL, "still loading its data"},
    {"READONLY", SIMBA_EUNAVAIL, "is a replica and takes no writes"},
    {"MASTERDOWN", SIMBA_EUNAVAIL, "a replica without its master"},
    {"UNBLOCKED", SIMBA_EUNAVAIL, "changed its role"},
    {"OOM", SIMBA_EUNAVAIL, "is out of memory (maxmemory)"},
    {"BUSY", SIMBA_EUNAVAIL, "is busy with a script"},
    {"MISCONF", SIMBA_EUNAVAIL, "cannot write to its disk"},
    {"NOREPLICAS", SIMBA_EUNAVAIL, "has too few good replicas"},
    {"NOPERM", SIMBA_EDENIED, "this user lacks a permission"},
    {"NOAUTH", SIMBA_EDENIED, "wants a password"},
    {"WRONGPASS", SIMBA_EDENIED, "wrong user or password"},
    {"DENIED", SIMBA_EDENIED, "refuses this client"},
    {"WRONGTYPE", SIMBA_EMISCONFIG, "a key of this mutex holds something else"},
};

/* Texts that have no word of their own in front. */
static const struct meaning phrases[] = {
    {"invalid password", SIMBA_EDENIED, "wrong password"},
    {"without any password", SIMBA_EDENIED, "takes no password"},
    {"user executing the script", SIMBA_EDENIED,
     "this user lacks a permission"},
    {"ACL failure in script", SIMBA_EDENIED, "this user lacks a permission"},
    {"DB index", SIMBA_EMISCONFIG, "has no such database"},
    {"invalid DB", SIMBA_EMISCONFIG, "has no such database"},
    {"cluster support disabled", SIMBA_EMISCONFIG, "is not a cluster"},
    {"max number of clients", SIMBA_EUNAVAIL, "has too many clients"},
    {"unknown command", SIMBA_EMISCONFIG, "lacks a command (too old?)"},
    {"Unknown Redis command", SIMBA_EMISCONFIG, "lacks a command (too old?)"},
    {"Unknown command", SIMBA_EMISCONFIG, "lacks a command (too old?)"},
    {"syntax error", SIMBA_EMISCONFIG, "too old: 6.2 is needed"},
};

static const struct {
    const char *mark;
    enum simba__redis_remedy remedy;
} remedies[] = {
    {"NOSCRIPT", SIMBA__REDIS_SEND_SCRIPT},
    {"MOVED", SIMBA__REDIS_MOVED},
    {"ASK", SIMBA__REDIS_ASK},
    {"TRYAGAIN", SIMBA__REDIS_AGAIN},
    {"CLUSTERDOWN", SIMBA__REDIS_AGAIN},
    {"LOADING", SIMBA__REDIS_AGAIN},
    {"BUSY", SIMBA__REDIS_AGAIN},
    {"READONLY", SIMBA__REDIS_RECONNECT},
    {"MASTERDOWN", SIMBA__REDIS_RECONNECT},
    {"UNBLOCKED", SIMBA__REDIS_RECONNECT},
};

/* Redis 6 puts before what a script ran into that it was a script, and where:
 * "ERR Error running script (call to f_..): @user_script:1: -OOM ...", and the
 * line twice when it is the refusal of a command. */
static const char *without_script(const char *text)
{
    static const char where[] = "@user_script:";
    const char *found = strncmp(text, "ERR Error running script", 24) == 0
                            ? strstr(text, where)
                            : NULL;

    while (found != NULL) {
        const char *end = strstr(found + sizeof where - 1, ": ");

        if (end == NULL) {
            break;
        }
        text = end + 2;
        found = strstr(text, where) == text ? text : NULL;
    }
    return text[0] == '-' ? text + 1 : text;
}

static bool begins_with(const char *text, const char *word)
{
    size_t length = strlen(word);

    return strncmp(text, word, length) == 0 &&
           (text[length] == ' ' || text[length] == '\0');
}

struct simba__redis_failure simba__redis_understand(const char *text)
{
    /* What we do not know may be a script that failed halfway. */
    struct simba__redis_failure failure = {SIMBA__REDIS_NONE, SIMBA_EUNKNOWN,
                                           "failed"};
    const struct meaning *meaning = NULL;

    text = without_script(text);
    for (size_t i = 0; i < sizeof remedies / sizeof remedies[0]; i++) {
        if (begins_with(text, remedies[i].mark)) {
            failure.remedy = remedies[i].remedy;
        }
    }
    for (size_t i = 0;
         meaning == NULL && i < sizeof meanings / sizeof meanings[0]; i++) {
        if (begins_with(text, meanings[i].mark)) {
            meaning = &meanings[i];
        }
    }
    for (size_t i = 0;
         meaning == NULL && i < sizeof phrases / sizeof phrases[0]; i++) {
        if (strstr(text, phrases[i].mark) != NULL) {
            meaning = &phrases[i];
        }
    }
    if (meaning != NULL) {
        failure.code = meaning->code;
        failure.words = meaning->words;
    }
    return failure;
}

int simba__redis_explain(simba_error *error,
                         const char *shown,
                         const char *text)
{
    struct simba__redis_failure failure = simba__redis_understand(text);

    return simba_error_set(error, failure.code, 0, "redis %s: %s (%.100s)",
                           shown, failure.words, without_script(text));
}

/* --- replies of scripts -------------------------------------------------- */

enum { REPLY_WORDS = 9, CROWD_WORDS = 5 };

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
 * the first blank being a "!" when it was broken; then, unless it is of an
 * older version, NUL and "<lease ms> <renewals>", and if it is to hand over
 * " <id>". False: this owner has none. */
static bool read_tenure(const redisReply *value,
                        struct simba__redis_script_reply *read,
                        int64_t *transition_ms)
{
    const char *tenure = value->type == REDIS_REPLY_STRING ? value->str : "";
    size_t length = strlen(tenure);
    simba_owner *owner = &read->owner;
    char *rest;
    uint64_t token, former = 0;
    int64_t acquired_ms, transition;

    if (length <= SIMBA__REDIS_ATTEMPT) {
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
    owner->former = former;
    owner->is_broken = tenure[SIMBA__REDIS_ATTEMPT] == '!';
    owner->acquired_at_ms = acquired_ms;
    read->ended = former;
    *transition_ms = transition;
    if (value->len > length + 1) {
        read->lease_ms = strtoll(tenure + length + 1, &rest, 10);
        read->renewals = strtoull(rest, &rest, 10);
        read->asked = rest[0] == ' ' ? rest + 1 : "";
        owner->is_asked = read->asked[0] != '\0';
    }
    return true;
}

bool simba__redis_script_reply_read(struct simba__redis_script_reply *read,
                                    const redisReply *reply,
                                    int64_t transition_ms)
{
    simba_owner *owner = &read->owner;
    int64_t left_ms;

    *read = (struct simba__redis_script_reply){
        .owner = simba_owner_none(), .asked = "", .to = ""};
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < REPLY_WORDS) {
        return false;
    }
    read->is_mine = number(reply, 0) != 0;
    read->now_us = number(reply, 1);
    left_ms = number(reply, 4);
    read->position = (uint64_t)number(reply, 6);
    read->is_head = number(reply, 7) != 0;
    read->wait_ms = number(reply, 8);
    read->has_missed = reply->elements > REPLY_WORDS &&
                       reply->element[9]->type == REDIS_REPLY_INTEGER &&
                       reply->element[9]->integer != 0;
    read->passed_by = reply->elements > REPLY_WORDS ? word(reply, 9) : "";
    if (read->wait_ms < 0) { /* no end in sight */
        read->wait_ms = INT32_MAX;
    }
    if (!simba_owner_set_id(owner, word(reply, 2)) || owner->id[0] == '\0') {
        *owner = simba_owner_none();
        read->ended = strtoull(word(reply, 5), NULL, 10);
        return word(reply, 2)[0] == '\0';
    }
    /* Of an owner that is not one of ours, we know no more than the key tells:
     * then its transition is taken to be like the asker's, as the JVM does. */
    owner->token = strtoull(word(reply, 5), NULL, 10);
    read->owned = 1;
    read->ended = SIMBA_ENDED_UNKNOWN;
    read->has_tenure = read_tenure(reply->element[3], read, &transition_ms);
    if (left_ms < 0) { /* a key without an end */
        owner->transition_at_ms = INT64_MAX;
        owner->ttl_at_ms = INT64_MAX;
    } else {
        owner->transition_at_ms = read->now_us / 1000 + left_ms;
        owner->ttl_at_ms = owner->transition_at_ms - transition_ms;
    }
    return true;
}

/* When it came: positions of ours are a second ahead of the clock, those that a
 * JVM contender chose are whole seconds. */
static int64_t joined_at_ms(uint64_t position)
{
    return (int64_t)(position / 1000) + (position % 1000000 == 0 ? 0 : 1000);
}

/* The same, and what the script crowd adds to it. */
bool simba__redis_crowd_reply_read(struct simba__redis_script_reply *read,
                                   const redisReply *reply,
                                   int64_t transition_ms)
{
    const redisReply *more;

    if (!simba__redis_script_reply_read(read, reply, transition_ms) ||
        reply->elements != REPLY_WORDS + 2) {
        return false;
    }
    more = reply->element[REPLY_WORDS + 1];
    if (more->type != REDIS_REPLY_ARRAY || more->elements < CROWD_WORDS) {
        return false;
    }
    read->owner.slot = (uint32_t)number(more, 0);
    read->owner.slots = (uint32_t)number(more, 1);
    read->owned = (uint32_t)number(more, 2);
    read->slots = (uint32_t)number(more, 3);
    read->to = word(more, 4);
    return true;
}

void simba__redis_read_owners(struct simba__redis_script_reply *read,
                              const redisReply *reply,
                              simba_request *request)
{
    const redisReply *owners = reply->element[reply->elements - 1];
    struct simba__redis_script_reply one;

    for (size_t i = 0;
         owners->type == REDIS_REPLY_ARRAY && i < owners->elements &&
         simba__redis_crowd_reply_read(&one, owners->element[i], 0);
         i++) {
        if (i == 0) {
            one.ended = read->ended;
            *read = one;
        }
        if (request != NULL) {
            simba_request_add_owner(request, &one.owner);
        }
    }
}

static void add_waiter(simba_request *request,
                       const char *id,
                       uint64_t position,
                       uint32_t slots)
{
    simba_waiter waiter = {.position = position,
                           .joined_at_ms = joined_at_ms(position),
                           .is_offered = position == 0,
                           .slots = slots};

    if (strlen(id) <= SIMBA_ID_MAX) {
        memcpy(waiter.id, id, strlen(id) + 1);
        simba_request_add_waiter(request, &waiter);
    }
}

void simba__redis_read_queue(const redisReply *reply, simba_request *request)
{
    size_t at = REPLY_WORDS;

    if (reply->elements <= at + 1) {
        return;
    }
    if (word(reply, at)[0] != '\0') { /* it is offered to one out of queue */
        add_waiter(request, word(reply, at), 0,
                   (uint32_t)number(reply, at + 1));
    }
    for (at += 2; at + 2 < reply->elements; at += 3) {
        add_waiter(request, word(reply, at), (uint64_t)number(reply, at + 1),
                   (uint32_t)number(reply, at + 2));
    }
}

/* The name of the mutex, and of each owner that tells something its token and
 * the text; of each break when in us, token, id, whether at once, and why. */
bool simba__redis_read_notes(const redisReply *reply, simba_request *request)
{
    const redisReply *notes;
    size_t words = request->kind == SIMBA_BREAKS ? 5 : 2;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
        reply->element[0]->type != REDIS_REPLY_STRING ||
        reply->element[1]->type != REDIS_REPLY_ARRAY ||
        reply->element[1]->elements % words != 0) {
        return false;
    }
    notes = reply->element[1];
    for (size_t i = 0; i < notes->elements; i += words) {
        simba_broken broken = {.unix_ms = number(notes, i) / 1000};

        if (request->kind != SIMBA_BREAKS) {
            simba_request_add_told(request, reply->element[0]->str,
                                   (uint64_t)number(notes, i),
                                   word(notes, i + 1));
            continue;
        }
        broken.token = (uint64_t)number(notes, i + 1);
        broken.now = number(notes, i + 3) != 0;
        snprintf(broken.mutex, sizeof broken.mutex, "%s",
                 reply->element[0]->str);
        snprintf(broken.id, sizeof broken.id, "%s", word(notes, i + 2));
        snprintf(broken.reason, sizeof broken.reason, "%s", word(notes, i + 4));
        simba_request_add_broken(request, &broken);
    }
    return true;
}
