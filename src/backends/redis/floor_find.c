/* Which server keeps a mutex, asked by hiredis's own blocking calls. */
#include "backends/redis/floor.h"

#include "backends/redis/redis.h"

#include <string.h>

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

int simba__redis_floor_find(struct simba__redis_settings *settings,
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
