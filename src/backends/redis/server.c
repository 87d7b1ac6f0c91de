/* One server and its three connections: for commands, for subscriptions, and,
 * as WAIT holds a connection up, for waiting for replicas. */
#include "backends/redis/redis.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The other connections go where the commands go: a master that was replaced
 * while it hung may still have them. */
static void follow(struct simba__redis_connection *conn)
{
    const struct simba__redis_address *now = &conn->server->command.address;

    if (conn->link != NULL && conn->state > SIMBA__REDIS_RESOLVING &&
        (conn->address.port != now->port ||
         strcmp(conn->address.host, now->host) != 0)) {
        simba__redis_disconnect(conn, SIMBA_EUNAVAIL, 0,
                                "is not the master any more");
    }
}

/* In a cluster one server keeps the key, and the others refuse. */
void simba__redis_note_grace(struct simba__redis_server *server)
{
    struct simba__redis_connection *conn = &server->command;
    char text[24];

    if (!server->has_noted_grace && conn->state == SIMBA__REDIS_READY &&
        !conn->facts.keeps_data) {
        snprintf(text, sizeof text, "%" PRId64,
                 server->store->settings.grace_ms);
        server->has_noted_grace = simba__redis_send_unheard(
            conn,
            (const char *[]){"ZADD", SIMBA__REDIS_GRACES, text, text, NULL});
    }
}

static void command_ready(struct simba__redis_connection *conn)
{
    struct simba__redis_server *server = conn->server;
    struct simba__redis *store = conn->store;

    if (!conn->facts.is_master && store->cluster == NULL) {
        simba__redis_disconnect(
            conn, store->sentinel != NULL ? SIMBA_EUNAVAIL : SIMBA_EMISCONFIG,
            0, "is a replica and takes no writes");
        return;
    }
    if (conn->facts.is_cluster && store->cluster == NULL) {
        simba__redis_disconnect(conn, SIMBA_EMISCONFIG, 0,
                                "is a cluster: write redis+cluster://");
        return;
    }
    server->has_noted_grace = server->knows_look = false; /* it may forget */
    if (store->sentinel != NULL) {
        store->sentinel->misled = 0; /* what it named is one */
    }
    if (store->cluster != NULL) {
        simba__redis_cluster_ready(server);
    } else {
        simba__redis_reached(store);
    }
    server->told = SIMBA_OK;
    follow(&server->subscriber);
    follow(&server->replication);
    simba__redis_backlog_send(&server->backlog);
    if (server->was_ready) {
        simba__log(&store->log, SIMBA_LOG_INFO, "redis %s: back again",
                   conn->shown);
        simba_wake(store->base.loop, NULL); /* much may have happened */
    }
    server->was_ready = true;
}

static void command_down(struct simba__redis_connection *conn)
{
    struct simba__redis *store = conn->store;
    struct simba__redis_server *server = conn->server;

    /* It is tried again several times a second. Requests wait for one that was
     * there; else they fail, and that is told. */
    simba__log(&store->log,
               server->told == conn->why.code ? SIMBA_LOG_DEBUG
               : store->was_reached           ? SIMBA_LOG_WARN
                                              : SIMBA_LOG_INFO,
               "%s", conn->why.message);
    if (server->told == SIMBA_OK && server->was_ready) {
        simba_wake(store->base.loop, NULL); /* who waits shall hear of it */
    }
    server->told = conn->why.code;
    if (store->cluster != NULL) {
        simba__redis_cluster_down(server);
    } else if (!conn->facts.is_loading && /* that ends by itself */
               (store->sentinel == NULL ||
                simba__redis_sentinel_is_hopeless(store->sentinel))) {
        simba__redis_unreachable(store, &conn->why);
    }
}

/* What may be sent here is judged by what the command connection knows of the
 * server. That one is idle for long, and if the server's machine stopped
 * without a word, knows of the one before. */
static void replication_ready(struct simba__redis_connection *conn)
{
    struct simba__redis_connection *command = &conn->server->command;

    if (command->state == SIMBA__REDIS_READY &&
        strcmp(command->facts.run, conn->facts.run) != 0) {
        simba__redis_disconnect(command, SIMBA_EUNAVAIL, 0, "was restarted");
    }
    simba__redis_backlog_send(&conn->server->backlog);
}

static void replication_down(struct simba__redis_connection *conn)
{
    simba__log(&conn->store->log, SIMBA_LOG_WARN, "%s (replicas)",
               conn->why.message);
}

static const struct simba__redis_hooks command_hooks = {
    .ready = command_ready,
    .down = command_down,
};

static const struct simba__redis_hooks subscriber_hooks = {
    .ready = simba__redis_subscriber_ready,
    .down = simba__redis_subscriber_down,
    .message = simba__redis_subscriber_message,
};

static const struct simba__redis_hooks replication_hooks = {
    .ready = replication_ready,
    .down = replication_down,
};

static void init_connection(struct simba__redis_server *server,
                            struct simba__redis_connection *conn,
                            const struct simba__redis_hooks *hooks)
{
    const struct simba__redis_settings *s = &server->store->settings;

    simba__redis_connection_init(conn, server->store, hooks, server);
    conn->address = server->address;
    conn->user = s->user;
    conn->password = s->password;
    conn->database =
        hooks == &subscriber_hooks ? 0 : s->database; /* channels have none */
    conn->wants_facts = hooks != &subscriber_hooks;
}

struct simba__redis_server *simba__redis_server_add(
    struct simba__redis *store,
    const struct simba__redis_address *address)
{
    struct simba__redis_server *server = calloc(1, sizeof *server);

    if (server == NULL) {
        return NULL;
    }
    server->store = store;
    server->address = *address;
    server->backlog.last = &server->backlog.first;
    init_connection(server, &server->command, &command_hooks);
    init_connection(server, &server->subscriber, &subscriber_hooks);
    init_connection(server, &server->replication, &replication_hooks);
    simba__redis_connection_open(&server->command);
    if (server->command.link == NULL) {
        free(server);
        return NULL;
    }
    server->next = store->servers;
    store->servers = server;
    return server;
}

void simba__redis_server_remove(struct simba__redis_server *server)
{
    struct simba__redis_server **at = &server->store->servers;
    simba_error why;

    simba_error_set(&why, SIMBA_EUNAVAIL, 0, "redis %s: keeps it no more",
                    server->command.shown);
    while (*at != server) {
        at = &(*at)->next;
    }
    *at = server->next;
    simba__redis_connection_close(&server->command);
    simba__redis_connection_close(&server->subscriber);
    simba__redis_connection_close(&server->replication);
    simba__redis_backlog_fail(&server->backlog, &why);
    simba__redis_requests_forget(server);
    simba__redis_subscriptions_forget(server);
    if (server->store->driven == server) {
        server->store->driven = NULL;
    }
    free(server);
}
