/* The first words over a connection; see greet.h. */
#define _GNU_SOURCE
#include "backends/redis/redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum { NEW_MS = 5000 };

/* --- facts --------------------------------------------------------------- */

/* How long the server is up at least. It tells whole seconds, and the clock by
 * which they were counted. */
static int64_t least_uptime_ms(const char *info)
{
    char seconds[24], micros[24];
    int64_t least;

    simba__redis_info_field(info, "uptime_in_seconds", seconds, sizeof seconds);
    simba__redis_info_field(info, "server_time_usec", micros, sizeof micros);
    least = (strtoll(seconds, NULL, 10) - 1) * 1000 +
            strtoll(micros, NULL, 10) / 1000 % 1000;
    return least > 0 ? least : 0;
}

static void learn_server(struct simba__redis_facts *facts, const char *info)
{
    simba__redis_info_field(info, "redis_version", facts->version,
                            sizeof facts->version);
    /* Valkey has another word for it. */
    facts->is_cluster = simba__redis_info_is(info, "redis_mode", "cluster") ||
                        simba__redis_info_is(info, "server_mode", "cluster");
    facts->learned_ms = simba_loop_now_ms();
    facts->up_since_ms = facts->learned_ms - least_uptime_ms(info);
    facts->is_new = least_uptime_ms(info) < NEW_MS;
}

/* An append-only file lacks at most the last two seconds. */
static void learn_persistence(struct simba__redis_facts *facts,
                              const char *info)
{
    facts->is_loading = simba__redis_info_is(info, "loading", "1") ||
                        simba__redis_info_is(info, "async_loading", "1");
    facts->keeps_data = simba__redis_info_is(info, "aof_enabled", "1");
}

/* --- the exchange -------------------------------------------------------- */

/* False: the connection was given up. */
static bool accept_reply(struct simba__redis_conn *conn,
                         const redisReply *reply,
                         const char *doing)
{
    struct simba__redis_trouble trouble;

    if (reply == NULL) {
        return false; /* it broke, and all is seen to */
    }
    if (reply->type != REDIS_REPLY_ERROR) {
        return true;
    }
    trouble = simba__redis_understand(reply->str);
    simba__redis_conn_fail(
        conn, trouble.code == SIMBA_EUNKNOWN ? SIMBA_EMISCONFIG : trouble.code,
        0, "%s: %s (%.80s)", doing, trouble.words, reply->str);
    return false;
}

static void finish_handshake(struct simba__redis_greeting *g,
                             struct simba__redis_ask *ask)
{
    if (g->final == ask) {
        simba__redis_conn_greeted(g->conn);
    }
}

static void on_auth(struct simba__redis_ask *ask,
                    const redisReply *reply,
                    const simba_error *why)
{
    struct simba__redis_greeting *g =
        container(ask, struct simba__redis_greeting, auth);

    (void)why;
    if (accept_reply(g->conn, reply, "AUTH")) {
        finish_handshake(g, ask);
    }
}

static void on_select(struct simba__redis_ask *ask,
                      const redisReply *reply,
                      const simba_error *why)
{
    struct simba__redis_greeting *g =
        container(ask, struct simba__redis_greeting, select);

    (void)why;
    if (accept_reply(g->conn, reply, "SELECT")) {
        finish_handshake(g, ask);
    }
}

/* False: the connection was given up. */
static bool accept_info(struct simba__redis_conn *conn, const redisReply *reply)
{
    if (!accept_reply(conn, reply, "INFO")) {
        return false;
    }
    if (reply->type != REDIS_REPLY_STRING) {
        simba__redis_conn_fail(conn, SIMBA_EMISCONFIG, 0,
                               "this is not a Redis server");
        return false;
    }
    return true;
}

static void on_server(struct simba__redis_ask *ask,
                      const redisReply *reply,
                      const simba_error *why)
{
    struct simba__redis_greeting *g =
        container(ask, struct simba__redis_greeting, server);

    (void)why;
    if (accept_info(g->conn, reply)) {
        learn_server(&g->facts, reply->str);
        if (g->facts.version[0] == '\0') {
            simba__redis_conn_fail(g->conn, SIMBA_EMISCONFIG, 0,
                                   "this is not a Redis server");
        }
    }
}

static void on_persistence(struct simba__redis_ask *ask,
                           const redisReply *reply,
                           const simba_error *why)
{
    struct simba__redis_greeting *g =
        container(ask, struct simba__redis_greeting, persistence);

    (void)why;
    if (accept_info(g->conn, reply)) {
        learn_persistence(&g->facts, reply->str);
        if (g->facts.is_loading) {
            simba__redis_conn_fail(g->conn, SIMBA_EUNAVAIL, 0,
                                   "still loading its data");
        }
    }
}

static void on_replication(struct simba__redis_ask *ask,
                           const redisReply *reply,
                           const simba_error *why)
{
    struct simba__redis_greeting *g =
        container(ask, struct simba__redis_greeting, replication);

    (void)why;
    if (accept_info(g->conn, reply)) {
        g->facts.is_master = !simba__redis_info_is(reply->str, "role", "slave");
        finish_handshake(g, ask);
    }
}

static bool ask_facts(struct simba__redis_greeting *g)
{
    g->server.answered = on_server;
    g->persistence.answered = on_persistence;
    g->replication.answered = on_replication;
    g->final = &g->replication;
    return simba__redis_conn_say(g->conn, &g->server,
                                 (const char *[]){"INFO", "server", NULL}) &&
           simba__redis_conn_say(
               g->conn, &g->persistence,
               (const char *[]){"INFO", "persistence", NULL}) &&
           simba__redis_conn_say(g->conn, &g->replication,
                                 (const char *[]){"INFO", "replication", NULL});
}

static bool choose_database(struct simba__redis_greeting *g)
{
    char database[16];

    snprintf(database, sizeof database, "%d", g->database);
    g->select.answered = on_select;
    g->final = &g->select;
    return simba__redis_conn_say(g->conn, &g->select,
                                 (const char *[]){"SELECT", database, NULL});
}

static bool authenticate(struct simba__redis_greeting *g)
{
    const char *with_user[] = {"AUTH", g->user, g->password, NULL};
    const char *without[] = {"AUTH", g->password, NULL};

    g->auth.answered = on_auth;
    g->final = &g->auth;
    return simba__redis_conn_say(g->conn, &g->auth,
                                 g->user == NULL ? without : with_user);
}

void simba__redis_greet(struct simba__redis_greeting *g)
{
    bool is_said = true;

    g->final = NULL;
    g->facts = (struct simba__redis_facts){.is_master = true};
    if (g->password != NULL) {
        is_said = authenticate(g);
    }
    if (is_said && g->database != 0) {
        is_said = choose_database(g);
    }
    if (is_said && g->is_curious) {
        is_said = ask_facts(g);
    }
    if (!is_said) {
        simba__redis_conn_fail(g->conn, SIMBA_ENOMEM, 0, "out of memory");
    } else if (g->final == NULL) {
        simba__redis_conn_greeted(g->conn);
    }
}
/* Reading what INFO tells; see info.h. */

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
