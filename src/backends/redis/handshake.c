/* The first commands over a connection: who we are, which database we want, and
 * what the server says of itself. They are sent together. */
#include "backends/redis/redis.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The steps, in their order. */
enum { AUTH, SELECT, SERVER, PERSISTENCE, REPLICATION };

enum { NEW_MS = 5000 };

void simba__redis_info_field(const char *info,
                             const char *name,
                             char *value,
                             size_t room)
{
    size_t length = strlen(name);
    const char *line = info;

    value[0] = '\0';
    while (line != NULL) {
        if (strncmp(line, name, length) == 0 && line[length] == ':') {
            size_t count = strcspn(line + length + 1, "\r\n");

            count = count < room ? count : room - 1;
            memcpy(value, line + length + 1, count);
            value[count] = '\0';
            return;
        }
        line = strchr(line, '\n');
        line = line == NULL ? NULL : line + 1;
    }
}

bool simba__redis_info_is(const char *info,
                          const char *name,
                          const char *wanted)
{
    char value[32];

    simba__redis_info_field(info, name, value, sizeof value);
    return strcmp(value, wanted) == 0;
}

/* False: this is no INFO of Redis. */
static bool learn_server(struct simba__redis_facts *facts, const char *info)
{
    enum { UP_MOST_S = INT32_MAX };
    char version[24], seconds[24], micros[24];
    int64_t up_s, up_ms;

    simba__redis_info_field(info, "redis_version", version, sizeof version);
    simba__redis_info_field(info, "uptime_in_seconds", seconds, sizeof seconds);
    simba__redis_info_field(info, "server_time_usec", micros, sizeof micros);
    simba__redis_info_field(info, "run_id", facts->run, sizeof facts->run);
    /* How long it is up at least. It tells whole seconds, and the clock by
     * which they were counted. */
    up_s = strtoll(seconds, NULL, 10);
    up_s = up_s < UP_MOST_S ? up_s : UP_MOST_S;
    up_ms = up_s < 1
                ? 0
                : (up_s - 1) * 1000 + strtoll(micros, NULL, 10) / 1000 % 1000;
    up_ms = up_ms > 0 ? up_ms : 0;
    /* Valkey has another word for it. */
    facts->is_cluster = simba__redis_info_is(info, "redis_mode", "cluster") ||
                        simba__redis_info_is(info, "server_mode", "cluster");
    facts->learned_ms = simba_loop_now_ms();
    facts->up_since_ms = facts->learned_ms - up_ms;
    facts->is_new = up_ms < NEW_MS;
    return version[0] != '\0';
}

static void on_reply(struct simba__redis_connection *conn,
                     struct simba__redis_pending *pending,
                     const redisReply *reply)
{
    static const char *const names[SIMBA__REDIS_HANDSHAKE_STEPS] = {
        "AUTH", "SELECT", "INFO", "INFO", "INFO"};
    long step = pending - conn->handshake;
    bool is_redis = true;

    if (reply == NULL) {
        return; /* it broke, and reconnects */
    }
    assert(step >= 0 && step < SIMBA__REDIS_HANDSHAKE_STEPS);
    if (reply->type == REDIS_REPLY_ERROR) {
        struct simba__redis_failure failure =
            simba__redis_understand(reply->str);

        simba__redis_disconnect(
            conn,
            failure.code == SIMBA_EUNKNOWN ? SIMBA_EMISCONFIG : failure.code, 0,
            "%s: %s (%.80s)", names[step], failure.words, reply->str);
        return;
    }
    if (step >= SERVER && reply->type != REDIS_REPLY_STRING) {
        is_redis = false;
    } else if (step == SERVER) {
        is_redis = learn_server(&conn->facts, reply->str);
    } else if (step == PERSISTENCE) {
        /* An append-only file lacks at most the last two seconds. */
        conn->facts.keeps_data =
            simba__redis_info_is(reply->str, "aof_enabled", "1");
        conn->facts.is_loading =
            simba__redis_info_is(reply->str, "loading", "1") ||
            simba__redis_info_is(reply->str, "async_loading", "1");
    } else if (step == REPLICATION) {
        conn->facts.is_master =
            !simba__redis_info_is(reply->str, "role", "slave");
    }
    if (!is_redis) {
        simba__redis_disconnect(conn, SIMBA_EMISCONFIG, 0,
                                "this is not a Redis server");
    } else if (conn->facts.is_loading) {
        simba__redis_disconnect(conn, SIMBA_EUNAVAIL, 0,
                                "still loading its data");
    } else if (pending == conn->last_step) {
        simba_connection_ready(conn->link);
    }
}

static bool send_step(struct simba__redis_connection *conn,
                      int step,
                      const char *const *words)
{
    conn->last_step = &conn->handshake[step];
    conn->last_step->replied = on_reply;
    return simba__redis_send_words(conn, conn->last_step, words);
}

void simba__redis_handshake(struct simba__redis_connection *conn)
{
    const char *with_user[] = {"AUTH", conn->user, conn->password, NULL};
    const char *without[] = {"AUTH", conn->password, NULL};
    char database[16];
    bool is_sent = true;

    assert(conn->state == SIMBA__REDIS_HANDSHAKE);
    conn->last_step = NULL;
    conn->facts = (struct simba__redis_facts){.is_master = true};
    if (conn->password != NULL) {
        is_sent =
            send_step(conn, AUTH, conn->user == NULL ? without : with_user);
    }
    if (is_sent && conn->database != 0) {
        snprintf(database, sizeof database, "%d", conn->database);
        is_sent =
            send_step(conn, SELECT, (const char *[]){"SELECT", database, NULL});
    }
    if (is_sent && conn->wants_facts) {
        is_sent =
            send_step(conn, SERVER, (const char *[]){"INFO", "server", NULL}) &&
            send_step(conn, PERSISTENCE,
                      (const char *[]){"INFO", "persistence", NULL}) &&
            send_step(conn, REPLICATION,
                      (const char *[]){"INFO", "replication", NULL});
    }
    if (!is_sent) {
        simba__redis_disconnect(conn, SIMBA_ENOMEM, 0, "out of memory");
    } else if (conn->last_step == NULL) {
        simba_connection_ready(conn->link);
    }
}
