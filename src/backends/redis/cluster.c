/* Which server of a cluster keeps which slot.
 *
 * The map of slots is asked for when the first server is there, and again
 * whenever something contradicts it, from any server that is there. */
#include "backends/redis/redis.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { REFRESH_MS = 100 };

struct simba__redis_cluster {
    struct simba__redis *store;
    struct simba__redis_server *slots[SIMBA__REDIS_SLOTS];
    simba_timer refresh; /* the map */
    simba_timer tidy;    /* servers that keep nothing any more */
    simba_timer silence; /* of the one that is asked */
    struct simba__redis_pending pending;
    struct simba__redis_server *asked; /* for the map; NULL: nobody */
    bool is_known;
};

struct simba__redis_server *simba__redis_cluster_find(
    const struct simba__redis_cluster *cluster,
    const char *mutex)
{
    return cluster->slots[simba__redis_slot_of(mutex)];
}

void simba__redis_cluster_refresh(struct simba__redis_cluster *c)
{
    if (!c->refresh.is_set) {
        simba_timer_set(c->store->base.loop, &c->refresh,
                        simba_loop_now_ms() + REFRESH_MS);
    }
}

/* The server at this address, added if it is new; NULL: no memory. */
static struct simba__redis_server *server_at(
    struct simba__redis *store,
    const struct simba__redis_address *address)
{
    for (struct simba__redis_server *s = store->servers; s != NULL;
         s = s->next) {
        if (s->address.port == address->port &&
            strcmp(s->address.host, address->host) == 0) {
            return s;
        }
    }
    return simba__redis_server_add(store, address);
}

static bool keeps_something(const struct simba__redis_cluster *c,
                            const struct simba__redis_server *server)
{
    for (int i = 0; i < SIMBA__REDIS_SLOTS; i++) {
        if (c->slots[i] == server) {
            return true;
        }
    }
    return false;
}

/* False: no address of a server. Port 0 would be a socket of this machine. */
static bool put_server(struct simba__redis_address *address,
                       const char *host,
                       long long port)
{
    return port > 0 && port <= UINT16_MAX &&
           simba__redis_put_address(address, host, (int)port);
}

/* --- the map ------------------------------------------------------------- */

/* from, to, [host, port, …], replicas …; an unknown host is who was asked. */
static bool take_range(struct simba__redis_cluster *c, const redisReply *range)
{
    const redisReply *master;
    struct simba__redis_address address;
    struct simba__redis_server *server;
    const char *host;

    assert(c->asked != NULL);
    if (range->type != REDIS_REPLY_ARRAY || range->elements < 3 ||
        range->element[2]->type != REDIS_REPLY_ARRAY ||
        range->element[2]->elements < 2) {
        return false;
    }
    master = range->element[2];
    host = master->element[0]->str;
    if (host == NULL || host[0] == '\0' || strcmp(host, "?") == 0) {
        host = c->asked->address.host;
    }
    if (!put_server(&address, host, master->element[1]->integer)) {
        return false;
    }
    server = server_at(c->store, &address);
    for (long long slot = range->element[0]->integer;
         server != NULL && slot >= 0 && slot < SIMBA__REDIS_SLOTS &&
         slot <= range->element[1]->integer;
         slot++) {
        c->slots[slot] = server;
    }
    return server != NULL;
}

static void on_map(struct simba__redis_connection *conn,
                   struct simba__redis_pending *pending,
                   const redisReply *reply)
{
    struct simba__redis_cluster *c =
        container_of(pending, struct simba__redis_cluster, pending);
    bool is_good = reply != NULL && reply->type == REDIS_REPLY_ARRAY;
    simba_error why;

    if (is_good) {
        memset(c->slots, 0, sizeof c->slots);
        for (size_t i = 0; i < reply->elements; i++) {
            is_good = take_range(c, reply->element[i]) && is_good;
        }
    }
    c->asked = NULL;
    simba_timer_clear(c->store->base.loop, &c->silence);
    /* Of a connection that broke, simba__redis_cluster_down() tells. */
    if (reply != NULL && reply->type == REDIS_REPLY_ERROR && !c->is_known) {
        simba__redis_explain(&why, conn->shown, reply->str);
        simba__redis_unreachable(c->store, &why);
    }
    if (!is_good || reply->elements == 0) {
        simba__redis_cluster_refresh(c);
        return;
    }
    c->is_known = true;
    simba__redis_subscriptions_move(c->store);
    /* Servers are not removed from within a callback of theirs. */
    simba_timer_set(c->store->base.loop, &c->tidy, simba_loop_now_ms());
    simba__redis_reached(c->store);
}

static void ask_map(struct simba__redis_cluster *c,
                    struct simba__redis_server *server)
{
    if (c->asked != NULL) {
        return;
    }
    c->pending.replied = on_map;
    c->pending.most_values = SIMBA__REDIS_VALUES_MOST;
    if (simba__redis_send_words(&server->command, &c->pending,
                                (const char *[]){"CLUSTER", "SLOTS", NULL})) {
        c->asked = server;
        simba_timer_set(c->store->base.loop, &c->silence,
                        simba_loop_now_ms() + SIMBA__REDIS_SILENCE_MS);
    } else {
        simba__redis_cluster_refresh(c);
    }
}

static void on_refresh(simba_timer *timer)
{
    struct simba__redis_cluster *c =
        container_of(timer, struct simba__redis_cluster, refresh);
    struct simba__redis *store = c->store;
    const struct simba__redis_settings *s = &store->settings;
    struct simba__redis_server *server = store->servers;

    while (server != NULL && server->command.state != SIMBA__REDIS_READY) {
        server = server->next;
    }
    if (server != NULL) {
        ask_map(c, server);
    } else {
        /* They may all have been replaced: only the URL still tells where the
         * cluster is. */
        for (int i = 0; i < s->address_count; i++) {
            (void)server_at(store, &s->addresses[i]);
        }
    }
}

/* Another will know, too; at once, for this one may be back soon and hang
 * again. */
static void on_silence(simba_timer *timer)
{
    struct simba__redis_cluster *c =
        container_of(timer, struct simba__redis_cluster, silence);

    simba__redis_check_silence(&c->asked->command);
    if (c->asked == NULL) {
        on_refresh(&c->refresh);
    } else { /* it has told others something meanwhile */
        simba_timer_set(c->store->base.loop, timer,
                        simba_loop_now_ms() + REFRESH_MS);
    }
}

static void on_tidy(simba_timer *timer)
{
    struct simba__redis_cluster *c =
        container_of(timer, struct simba__redis_cluster, tidy);
    struct simba__redis *store = c->store;
    struct simba__redis_server *next;

    for (struct simba__redis_server *s = store->servers; s != NULL; s = next) {
        next = s->next;
        /* What waits for it is perhaps another's by now. */
        simba__redis_backlog_send(&s->backlog);
    }
    for (struct simba__redis_server *s = store->servers; s != NULL; s = next) {
        next = s->next;
        if (s != c->asked && !simba__redis_is_due(&s->command) &&
            !simba__redis_is_due(&s->replication) && !keeps_something(c, s)) {
            simba__redis_server_remove(s);
        }
    }
}

/* --- what happens -------------------------------------------------------- */

void simba__redis_cluster_ready(struct simba__redis_server *server)
{
    struct simba__redis_cluster *c = server->store->cluster;

    if (!server->command.facts.is_cluster) {
        simba__redis_disconnect(&server->command, SIMBA_EMISCONFIG, 0,
                                "is not a cluster: write redis://");
    } else if (!c->is_known || !keeps_something(c, server)) {
        ask_map(c, server);
    }
}

void simba__redis_cluster_down(struct simba__redis_server *server)
{
    struct simba__redis *store = server->store;
    const simba_error *why = &server->command.why;
    bool is_any_hopeful = false;

    simba__redis_cluster_refresh(store->cluster);
    for (const struct simba__redis_server *s = store->servers; s != NULL;
         s = s->next) {
        is_any_hopeful =
            is_any_hopeful || s->command.state != SIMBA__REDIS_DOWN;
        /* One that exists may come up. */
        why = why->native == SIMBA__UNKNOWN_HOST ? &s->command.why : why;
    }
    if (!store->cluster->is_known && !is_any_hopeful) {
        simba__redis_unreachable(store, why);
    }
}

/* "MOVED 3999 host:port", "ASK 3999 host:port"; without a host, who said it. */
void simba__redis_cluster_redirect(struct simba__redis_request *r,
                                   const char *text)
{
    struct simba__redis *store = r->store;
    struct simba__redis_address address;
    struct simba__redis_server *server = NULL;
    const char *from = strrchr(text, ' ');
    const char *colon = from == NULL ? NULL : strrchr(from, ':');
    unsigned long slot =
        from == NULL ? 0 : strtoul(strchr(text, ' '), NULL, 10);
    char host[SIMBA__REDIS_HOST_MAX + 1];

    if (store->cluster != NULL && colon != NULL &&
        (size_t)(colon - from) <= sizeof host && slot < SIMBA__REDIS_SLOTS) {
        from++;
        memcpy(host, from, (size_t)(colon - from));
        host[colon - from] = '\0';
        if (put_server(&address,
                       host[0] == '\0' ? r->server->address.host : host,
                       simba__redis_number(colon + 1, UINT16_MAX))) {
            server = server_at(store, &address);
        }
    }
    if (server == NULL) {
        simba__redis_request_fail(r, SIMBA_EMISCONFIG,
                                  "sends us elsewhere: is it a cluster? write "
                                  "redis+cluster://");
        return;
    }
    if (text[0] == 'M') {
        store->cluster->slots[slot] = server;
        simba__redis_subscriptions_move(store);
        simba__redis_cluster_refresh(store->cluster);
    } else {
        r->is_asking = true;
        r->server = server;
    }
    simba__redis_request_route(r);
}

/* --- open and close ------------------------------------------------------ */

struct simba__redis_cluster *simba__redis_cluster_make(
    struct simba__redis *store)
{
    struct simba__redis_cluster *c = calloc(1, sizeof *c);

    if (c != NULL) {
        c->store = store;
        c->refresh.fire = on_refresh;
        c->tidy.fire = on_tidy;
        c->silence.fire = on_silence;
    }
    return c;
}

void simba__redis_cluster_stop(struct simba__redis_cluster *cluster)
{
    simba_timer_clear(cluster->store->base.loop, &cluster->refresh);
    simba_timer_clear(cluster->store->base.loop, &cluster->tidy);
    simba_timer_clear(cluster->store->base.loop, &cluster->silence);
}
