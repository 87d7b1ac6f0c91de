/* The bare exchange: hiredis's own blocking calls and our scripts, nothing
 * between, with the server that keeps the mutex. There is none with TLS, which
 * hiredis of its age does not speak. */
#include "backends/redis/redis.h"

#include <simba/sys/bench.h>

#include <hiredis/hiredis.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEASE_WORDS = 3 + SIMBA__REDIS_KEYS_OF_ONE + 7 };

struct simba_floor {
    redisContext *command;
    redisContext *subscriber; /* once armed */
    struct simba__redis_settings settings;
    struct simba__redis_keys keys;
    char channel[SIMBA__REDIS_CHANNEL_MAX];
    char attempt[SIMBA__REDIS_ATTEMPT + 1];
    bool is_held;
};

static int fail(const redisContext *context,
                const redisReply *reply,
                simba_error *error)
{
    return simba_error_set(error, SIMBA_EUNAVAIL, 0, "redis: floor: %s",
                           reply != NULL && reply->str != NULL ? reply->str
                           : context == NULL                   ? "no memory"
                                             : context->errstr);
}

/* Sends a command and waits for its answer. */
static int exchange(redisContext *context,
                    int count,
                    const char **words,
                    simba_error *error)
{
    redisReply *reply = redisCommandArgv(context, count, words, NULL);
    int rc = SIMBA_OK;

    if (reply == NULL || reply->type == REDIS_REPLY_ERROR) {
        rc = fail(context, reply, error);
    }
    freeReplyObject(reply);
    return rc;
}

static int connect_to(const struct simba__redis_settings *s,
                      redisContext **out,
                      simba_error *error)
{
    const struct simba__redis_address *at = s->addresses;
    char database[16];
    int rc = SIMBA_OK;

    *out = at->port == 0 ? redisConnectUnix(at->host)
                         : redisConnect(at->host, at->port);
    if (*out == NULL || (*out)->err != 0) {
        return fail(*out, NULL, error);
    }
    if (s->password != NULL) {
        const char *auth[] = {"AUTH", s->user == NULL ? "default" : s->user,
                              s->password};

        rc = exchange(*out, 3, auth, error);
    }
    if (rc == SIMBA_OK && s->database != 0) {
        snprintf(database, sizeof database, "%d", s->database);
        rc = exchange(*out, 2, (const char *[]){"SELECT", database}, error);
    }
    return rc;
}

/* --- which server keeps a mutex ------------------------------------------ */

/* The answer to one question to one server; NULL: none. */
static redisReply *ask(const struct simba__redis_address *at,
                       const char *user,
                       const char *password,
                       const char *const *words)
{
    struct timeval patience = {3, 0};
    redisContext *context =
        redisConnectWithTimeout(at->host, at->port, patience);
    redisReply *reply = NULL;
    int count = 0;

    while (words[count] != NULL) {
        count++;
    }
    if (context != NULL && context->err == 0) {
        redisSetTimeout(context, patience);
        if (password != NULL) {
            freeReplyObject(redisCommand(context, "AUTH %s %s",
                                         user == NULL ? "default" : user,
                                         password));
        }
        reply = redisCommandArgv(context, count, (const char **)words, NULL);
    }
    if (context != NULL) {
        redisFree(context);
    }
    return reply;
}

static bool read_master(const redisReply *reply,
                        struct simba__redis_address *found)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
           reply->element[0]->str != NULL && reply->element[1]->str != NULL &&
           simba__redis_put_address(
               found, reply->element[0]->str,
               simba__redis_number(reply->element[1]->str, 65535));
}

/* from, to, [host, port, …], replicas …, as in cluster.c. */
static bool read_keeper(const redisReply *reply,
                        unsigned slot,
                        struct simba__redis_address *found)
{
    for (size_t i = 0; i < reply->elements; i++) {
        redisReply **range = reply->element[i]->element;

        if (reply->element[i]->elements >= 3 && range[0]->integer <= slot &&
            slot <= range[1]->integer && range[2]->elements >= 2 &&
            range[2]->element[0]->str != NULL) {
            return simba__redis_put_address(found, range[2]->element[0]->str,
                                            (int)range[2]->element[1]->integer);
        }
    }
    return false;
}

static bool ask_one(const struct simba__redis_settings *s,
                    const struct simba__redis_address *at,
                    const char *mutex,
                    struct simba__redis_address *found)
{
    const char *master[] = {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", s->master,
                            NULL};
    const char *slots[] = {"CLUSTER", "SLOTS", NULL};
    bool is_cluster = s->shape == SIMBA__REDIS_CLUSTER;
    redisReply *reply =
        is_cluster ? ask(at, s->user, s->password, slots)
                   : ask(at, s->sentinel_user, s->sentinel_password, master);
    bool is_found = false;

    if (reply != NULL) {
        is_found = is_cluster
                       ? read_keeper(reply, simba__redis_slot_of(mutex), found)
                       : read_master(reply, found);
    }
    freeReplyObject(reply);
    return is_found;
}

static int find_server(struct simba__redis_settings *settings,
                       const char *mutex,
                       simba_error *error)
{
    struct simba__redis_address found;

    if (settings->shape == SIMBA__REDIS_SINGLE) {
        return SIMBA_OK;
    }
    for (int i = 0; i < settings->address_count; i++) {
        if (ask_one(settings, &settings->addresses[i], mutex, &found)) {
            settings->addresses[0] = found;
            return SIMBA_OK;
        }
    }
    return simba_error_set(error, SIMBA_EUNAVAIL, 0,
                           "redis %s: floor: nobody knows which server keeps "
                           "the mutex",
                           settings->shown);
}

/* --- our scripts --------------------------------------------------------- */

static int run_script(simba_floor *floor,
                      enum simba__redis_script_name name,
                      bool is_whole,
                      simba_error *error)
{
    const struct simba__redis_script *script = simba__redis_script(name);
    const char *words[LEASE_WORDS];
    int count = 3;

    words[0] = is_whole ? "EVAL" : "EVALSHA";
    words[1] = is_whole ? script->text : script->sha;
    words[2] = "9";
    for (int i = 0; i < SIMBA__REDIS_KEYS_OF_ONE; i++) {
        words[count++] = floor->keys.text[i];
    }
    words[count++] = ""; /* no letters */
    words[count++] = "floor";
    words[count++] = floor->attempt;
    if (name == SIMBA__REDIS_ACQUIRE) {
        words[count++] = "16000";
        words[count++] = "6000";
        words[count++] = "0";
    }
    words[count++] = "0"; /* no position; no tombstone */
    floor->is_held = name == SIMBA__REDIS_ACQUIRE;
    return exchange(floor->command, count, words, error);
}

static int exchange_both(simba_floor *floor, bool is_whole, simba_error *error)
{
    int rc = run_script(floor, SIMBA__REDIS_ACQUIRE, is_whole, error);

    return rc != SIMBA_OK
               ? rc
               : run_script(floor, SIMBA__REDIS_RELEASE, is_whole, error);
}

static int pair(simba_floor *floor, simba_error *error)
{
    return exchange_both(floor, false, error);
}

/* --- waking -------------------------------------------------------------- */

/* What the last round left is cleared here, where it is not measured. */
static int arm(simba_floor *floor, simba_error *error)
{
    const char *words[] = {"SUBSCRIBE", floor->channel};
    int rc = SIMBA_OK;

    if (floor->is_held) {
        rc = run_script(floor, SIMBA__REDIS_RELEASE, false, error);
    }
    if (rc == SIMBA_OK && floor->subscriber == NULL) {
        rc = connect_to(&floor->settings, &floor->subscriber, error);
        rc = rc != SIMBA_OK ? rc : exchange(floor->subscriber, 2, words, error);
    }
    return rc;
}

static int notify(simba_floor *floor, simba_error *error)
{
    const char *words[] = {"PUBLISH", floor->channel, "floor"};

    return exchange(floor->command, 3, words, error);
}

static int await(simba_floor *floor, simba_error *error)
{
    void *message = NULL;

    if (redisGetReply(floor->subscriber, &message) != REDIS_OK) {
        return fail(floor->subscriber, NULL, error);
    }
    freeReplyObject(message);
    return run_script(floor, SIMBA__REDIS_ACQUIRE, false, error);
}

/* --- life ---------------------------------------------------------------- */

/* A mutex beside the one that is measured, which the floor would hold else when
 * we are measured; a cluster keeps it on the same server. */
static int name_keys(simba_floor *floor, const char *mutex, simba_error *error)
{
    static const simba_attempt attempt = {0, 1};
    char beside[SIMBA_MUTEX_MAX_BYTES + 1];
    int length = snprintf(beside, sizeof beside, "%s}floor", mutex);

    if (length < 0 || (size_t)length >= sizeof beside) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "redis: floor: the mutex has too long a name");
    }
    simba__redis_keys_init(&floor->keys, beside, &attempt);
    simba__redis_attempt_text(&attempt, floor->attempt);
    snprintf(floor->channel, sizeof floor->channel, "simba:{%s}:floor", beside);
    return SIMBA_OK;
}

/* The counter as well: no tenure of a user hangs on it. */
static void forget_keys(const simba_floor *floor)
{
    const char *words[1 + SIMBA__REDIS_KEYS_OF_ONE] = {"DEL"};

    for (int i = 0; i < SIMBA__REDIS_KEYS_OF_ONE; i++) {
        words[1 + i] = floor->keys.text[i];
    }
    if (floor->command->err == 0 && floor->keys.length[0] > 0) {
        (void)exchange(floor->command, 1 + SIMBA__REDIS_KEYS_OF_ONE, words,
                       NULL);
    }
}

static void close_floor(simba_floor *floor)
{
    if (floor->command != NULL) {
        forget_keys(floor);
        redisFree(floor->command);
    }
    if (floor->subscriber != NULL) {
        redisFree(floor->subscriber);
    }
    simba__redis_settings_fini(&floor->settings);
}

static int open_floor(simba_floor *floor,
                      const char *url,
                      const char *mutex,
                      simba_error *error)
{
    int rc = simba__redis_settings_init(&floor->settings, url, error);

    if (rc == SIMBA_OK && floor->settings.tls.is_on) {
        rc = simba_error_set(error, SIMBA_EINVAL, 0,
                             "redis: there is no floor with TLS: hiredis "
                             "speaks none");
    }
    if (rc == SIMBA_OK) {
        rc = find_server(&floor->settings, mutex, error);
    }
    if (rc == SIMBA_OK) {
        rc = name_keys(floor, mutex, error);
    }
    if (rc == SIMBA_OK) {
        rc = connect_to(&floor->settings, &floor->command, error);
    }
    if (rc == SIMBA_OK) {
        rc = exchange_both(floor, true,
                           error); /* teaches the server both scripts */
    }
    return rc;
}

const simba_floor_ops simba_floor_module = {SIMBA_FLOOR_ABI,
                                            sizeof(simba_floor),
                                            open_floor,
                                            close_floor,
                                            {pair, arm, notify, await}};
