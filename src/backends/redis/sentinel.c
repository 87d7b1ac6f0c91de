/* Sentinels know which server is the master now. One is asked after the other
 * until one knows; the next time the one that answered is asked first, unless
 * what it named was no master: a sentinel may lag, or be cut off from the
 * others. */
#include "backends/redis/redis.h"

#include <assert.h>
#include <stdlib.h>

/* Takes one of those who wait; those who gave up meanwhile are passed over. */
static struct simba__redis_connection *take_seeker(
    struct simba__redis_sentinel *s)
{
    for (int i = 0; i < SIMBA__REDIS_SEEKERS; i++) {
        struct simba__redis_connection *conn = s->seekers[i];

        s->seekers[i] = NULL;
        if (conn != NULL && conn->link != NULL &&
            conn->state == SIMBA__REDIS_RESOLVING) {
            return conn;
        }
    }
    return NULL;
}

static void ask_sentinel(struct simba__redis_sentinel *s)
{
    assert(s->which < s->store->settings.address_count);
    s->connection.address = s->store->settings.addresses[s->which];
    simba__redis_connection_open(&s->connection);
}

/* This one does not know: ask the next, or give up for now. */
static void ask_next(struct simba__redis_sentinel *s, simba_error why)
{
    const struct simba__redis_settings *settings = &s->store->settings;
    struct simba__redis_connection *conn;

    simba__redis_connection_close(&s->connection);
    /* One that exists may come up. */
    if (s->tried > 0 && why.native == SIMBA__UNKNOWN_HOST) {
        why = s->why;
    }
    s->why = why;
    s->which = (s->which + 1) % settings->address_count;
    if (++s->tried < settings->address_count) {
        ask_sentinel(s);
        return;
    }
    s->tried = 0;
    s->is_unknown = true;
    while ((conn = take_seeker(s)) != NULL) {
        simba__redis_disconnect(conn, why.code, why.native,
                                "no sentinel knows the master \"%.40s\": %.90s",
                                settings->master, why.message);
    }
}

static void on_reply(struct simba__redis_connection *conn,
                     struct simba__redis_pending *pending,
                     const redisReply *reply)
{
    struct simba__redis_sentinel *s =
        container_of(pending, struct simba__redis_sentinel, pending);
    struct simba__redis_connection *seeker;
    struct simba__redis_address address;
    simba_error error;

    if (reply == NULL) {
        return; /* the connection broke: on_down sees to it */
    }
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
        reply->element[0]->str != NULL && reply->element[1]->str != NULL &&
        simba__redis_put_address(
            &address, reply->element[0]->str,
            simba__redis_number(reply->element[1]->str, 65535)) &&
        address.port > 0) {
        simba__redis_connection_close(conn);
        s->tried = 0;
        s->misled++;
        s->is_unknown = false;
        while ((seeker = take_seeker(s)) != NULL) {
            simba__redis_connect(seeker, &address);
        }
        return;
    }
    if (reply->type == REDIS_REPLY_ERROR) {
        simba__redis_explain(&error, conn->shown, reply->str);
    } else {
        simba_error_set(&error, SIMBA_EMISCONFIG, 0,
                        "redis %s: knows no such master", conn->shown);
    }
    ask_next(s, error);
}

static void on_ready(struct simba__redis_connection *conn)
{
    struct simba__redis_sentinel *s =
        container_of(conn, struct simba__redis_sentinel, connection);
    const char *words[] = {"SENTINEL", "GET-MASTER-ADDR-BY-NAME",
                           s->store->settings.master, NULL};

    s->pending.replied = on_reply;
    if (!simba__redis_send_words(conn, &s->pending, words)) {
        simba__redis_disconnect(conn, SIMBA_ENOMEM, 0, "out of memory");
    }
}

static void on_down(struct simba__redis_connection *conn)
{
    ask_next(container_of(conn, struct simba__redis_sentinel, connection),
             conn->why);
}

static const struct simba__redis_hooks hooks = {.ready = on_ready,
                                                .down = on_down};

struct simba__redis_sentinel *simba__redis_sentinel_make(
    struct simba__redis *store)
{
    struct simba__redis_sentinel *s = calloc(1, sizeof *s);

    if (s != NULL) {
        s->store = store;
        simba__redis_connection_init(&s->connection, store, &hooks, NULL);
        s->connection.user = store->settings.sentinel_user;
        s->connection.password = store->settings.sentinel_password;
    }
    return s;
}

void simba__redis_sentinel_aim(struct simba__redis_sentinel *s,
                               struct simba__redis_connection *conn)
{
    int free_at = 0;

    for (int i = 0; i < SIMBA__REDIS_SEEKERS; i++) {
        if (s->seekers[i] == conn) {
            return; /* waits already */
        }
        free_at = s->seekers[i] == NULL ? i : free_at;
    }
    assert(s->seekers[free_at] == NULL); /* there is one for each connection */
    s->seekers[free_at] = conn;
    if (s->connection.link == NULL) {
        if (s->misled > 0) {
            s->which = (s->which + 1) % s->store->settings.address_count;
        }
        ask_sentinel(s);
    }
}

bool simba__redis_sentinel_is_hopeless(const struct simba__redis_sentinel *s)
{
    return s->is_unknown || s->misled >= s->store->settings.address_count;
}
