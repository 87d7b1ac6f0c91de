/* Sentinels; see sentinel.h. One is asked after the other until one knows; the
 * next time the one that answered is asked first, unless what it named was no
 * master: a sentinel may lag, or be cut off from the others. */
#define _GNU_SOURCE
#include "backends/redis/redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The connections of a node: command, subscriber, waiter. */
enum { ASKERS_MOST = 3 };

struct simba__redis_sentinel {
    struct simba__redis *store;
    struct simba__redis_peer peer;
    struct simba__redis_ask ask;
    struct simba__redis_conn *askers[ASKERS_MOST];
    int which;    /* sentinel is asked */
    int tried;    /* without success, in this round */
    int misled;   /* answers in a row that led to no master, the last included
                     until it proves good */
    bool is_mute; /* no sentinel knew, the last time */
};

static struct simba__redis_sentinel *sentinel_of(
    const struct simba__redis_conn *conn)
{
    return conn->owner;
}

/* Takes one of those who wait; those who gave up meanwhile are passed over. */
static struct simba__redis_conn *take_asker(struct simba__redis_sentinel *s)
{
    for (int i = 0; i < ASKERS_MOST; i++) {
        struct simba__redis_conn *conn = s->askers[i];

        s->askers[i] = NULL;
        if (conn != NULL && conn->is_wanted &&
            conn->state == SIMBA__REDIS_LOOKING) {
            return conn;
        }
    }
    return NULL;
}

static void ask_one(struct simba__redis_sentinel *s)
{
    const struct simba__redis_settings *settings = &s->store->env.settings;

    simba__redis_conn_open(&s->peer.conn, &settings->addresses[s->which]);
}

/* This one does not know: ask the next, or give up for now. */
static void next_one(struct simba__redis_sentinel *s, const simba_error *why)
{
    const struct simba__redis_settings *settings = &s->store->env.settings;
    struct simba__redis_conn *conn;

    simba__redis_conn_close(&s->peer.conn);
    s->which = (s->which + 1) % settings->address_count;
    if (++s->tried < settings->address_count) {
        ask_one(s);
        return;
    }
    s->tried = 0;
    s->is_mute = true;
    while ((conn = take_asker(s)) != NULL) {
        simba__redis_conn_fail(conn, why->code, why->native,
                               "no sentinel knows the master \"%.40s\": %.90s",
                               settings->master, why->message);
    }
}

static void found(struct simba__redis_sentinel *s,
                  const struct simba__redis_address *address)
{
    struct simba__redis_conn *conn;

    simba__redis_conn_close(&s->peer.conn);
    s->tried = 0;
    s->misled++;
    s->is_mute = false;
    while ((conn = take_asker(s)) != NULL) {
        simba__redis_conn_dial(conn, address);
    }
}

static void on_answer(struct simba__redis_ask *ask,
                      const redisReply *reply,
                      const simba_error *why)
{
    struct simba__redis_sentinel *s =
        container(ask, struct simba__redis_sentinel, ask);
    struct simba__redis_address address;
    simba_error error;

    (void)why;
    if (reply == NULL) {
        return; /* the connection broke: on_down sees to it */
    }
    if (reply->type == REDIS_REPLY_ERROR) {
        simba__redis_explain(&error, s->peer.conn.shown, reply->str);
    } else if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
               reply->element[0]->str != NULL &&
               reply->element[1]->str != NULL &&
               simba__redis_put_address(
                   &address, reply->element[0]->str,
                   simba__redis_number(reply->element[1]->str, 65535)) &&
               address.port > 0) {
        found(s, &address);
        return;
    } else {
        simba_error_set(&error, SIMBA_EMISCONFIG, 0,
                        "redis %s: knows no such master", s->peer.conn.shown);
    }
    next_one(s, &error);
}

static void on_greet(struct simba__redis_conn *conn)
{
    simba__redis_greet(&sentinel_of(conn)->peer.greeting);
}

static void on_ready(struct simba__redis_conn *conn)
{
    struct simba__redis_sentinel *s = sentinel_of(conn);
    const char *words[] = {"SENTINEL", "GET-MASTER-ADDR-BY-NAME",
                           s->store->env.settings.master, NULL};

    s->ask.answered = on_answer;
    if (!simba__redis_conn_say(conn, &s->ask, words)) {
        simba__redis_conn_fail(conn, SIMBA_ENOMEM, 0, "out of memory");
    }
}

static void on_down(struct simba__redis_conn *conn, const simba_error *why)
{
    next_one(sentinel_of(conn), why);
}

static const struct simba__redis_conn_hooks hooks = {.greet = on_greet,
                                                     .ready = on_ready,
                                                     .down = on_down};

struct simba__redis_sentinel *simba__redis_sentinel_make(
    struct simba__redis *store)
{
    struct simba__redis_sentinel *s = calloc(1, sizeof *s);

    if (s != NULL) {
        s->store = store;
        simba__redis_conn_init(&s->peer.conn, &store->env, &hooks, s);
        s->peer.greeting.conn = &s->peer.conn;
        s->peer.greeting.user = store->env.settings.sentinel_user;
        s->peer.greeting.password = store->env.settings.sentinel_password;
    }
    return s;
}

void simba__redis_sentinel_aim(struct simba__redis_sentinel *s,
                               struct simba__redis_conn *conn)
{
    int position = 0;

    for (int i = 0; i < ASKERS_MOST; i++) {
        if (s->askers[i] == conn) {
            return; /* asks already */
        }
        position = s->askers[i] == NULL ? i : position;
    }
    s->askers[position] = conn;
    if (!s->peer.conn.is_wanted) {
        if (s->misled > 0) {
            s->which = (s->which + 1) % s->store->env.settings.address_count;
        }
        ask_one(s);
    }
}

void simba__redis_sentinel_was_right(struct simba__redis_sentinel *s)
{
    s->misled = 0;
}

bool simba__redis_sentinel_is_hopeless(const struct simba__redis_sentinel *s)
{
    return s->is_mute || s->misled >= s->store->env.settings.address_count;
}

struct simba__redis_conn *simba__redis_sentinel_conn(
    struct simba__redis_sentinel *s)
{
    return &s->peer.conn;
}

void simba__redis_sentinel_stop(struct simba__redis_sentinel *s)
{
    simba__redis_conn_close(&s->peer.conn);
}
