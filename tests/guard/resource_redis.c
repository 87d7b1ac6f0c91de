#include "resource.h"

#include <simba.h>

#include <hiredis/hiredis.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static redisContext *dial(void)
{
    char host[64];
    int port;
    redisContext *redis;

    if (sscanf(server_url(), "redis://%63[^:]:%d", host, &port) != 2) {
        abort();
    }
    redis = redisConnect(host, port);
    if (redis == NULL || redis->err != 0) {
        abort();
    }
    return redis;
}

static int write_once(uint64_t token, const char *text)
{
    redisContext *redis = dial();
    redisReply *reply =
        redisCommand(redis, "EVAL %s 2 {data}:mark {data} %" PRIu64 " SET %s",
                     simba_guard_redis_script(), token, text);
    int rc = SIMBA_EINTERNAL;

    if (reply != NULL && reply->type == REDIS_REPLY_STATUS) {
        rc = SIMBA_OK;
    } else if (reply != NULL && strncmp(reply->str, "STALETOKEN ", 11) == 0) {
        rc = SIMBA_ELOST;
    }
    freeReplyObject(reply);
    redisFree(redis);
    return rc;
}

static void read_back(char *text, size_t room)
{
    redisContext *redis = dial();
    redisReply *reply = redisCommand(redis, "GET {data}");

    if (reply != NULL && reply->type == REDIS_REPLY_STRING) {
        snprintf(text, room, "%s", reply->str);
    }
    freeReplyObject(reply);
    redisFree(redis);
}

const struct way ways[] = {
    {"test_guard_redis__refuses_a_paused_owner", write_once, read_back},
    {NULL, NULL, NULL},
};
