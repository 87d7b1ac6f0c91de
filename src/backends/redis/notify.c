/* Wake-ups: the personal channels of our waiters and, where it must be, the
 * broadcast channel of a mutex are subscribed here, and what is published there
 * becomes simba_wake(). */
#include "backends/redis/redis.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long a channel is kept that nobody needs. */
enum { LINGER_MS = 5000 };

/* "It is offered to another, for so many ms." */
#define OFFERED "offered@@"
enum { OFFERED_LENGTH = sizeof OFFERED - 1, OFFERED_MOST_MS = 1000 };

/* All of them, in no order: the first after NULL; NULL: no more. */
static struct simba__redis_channel *next_channel(
    const struct simba__redis *store,
    const struct simba__redis_channel *channel)
{
    return (struct simba__redis_channel *)simba__hash_next(
        &store->channels, channel == NULL ? NULL : &channel->link);
}

static struct simba__redis_subscription *next_subscription(
    const struct simba__redis *store,
    const struct simba__redis_subscription *subscription)
{
    return (struct simba__redis_subscription *)simba__hash_next(
        &store->subscriptions,
        subscription == NULL ? NULL : &subscription->link);
}

/* --- one channel --------------------------------------------------------- */

/* What all names begin with; channels are known by the rest. */
#define PREFIX "simba:{"
enum { PREFIX_LENGTH = sizeof PREFIX - 1 };

static void send_about(const struct simba__redis_channel *channel,
                       struct simba__redis_connection *conn,
                       const char *word)
{
    char name[SIMBA__REDIS_CHANNEL_MAX];

    (void)snprintf(name, sizeof name, PREFIX "%s", channel->link.key);
    simba__redis_send_words(conn, NULL, (const char *[]){word, name, NULL});
}

static void subscribe(struct simba__redis_channel *channel)
{
    struct simba__redis_server *server = channel->subscription->server;

    if (server == NULL) {
        return;
    }
    simba__redis_connection_open(&server->subscriber);
    if (server->subscriber.state == SIMBA__REDIS_READY && !channel->is_sent) {
        channel->is_sent = true;
        send_about(channel, &server->subscriber, "SUBSCRIBE");
    }
}

static void unsubscribe(struct simba__redis_channel *channel)
{
    struct simba__redis_server *server = channel->subscription->server;

    if (server != NULL && channel->is_sent &&
        server->subscriber.state == SIMBA__REDIS_READY) {
        send_about(channel, &server->subscriber, "UNSUBSCRIBE");
    }
    channel->is_sent = false;
    channel->is_open = false;
}

static size_t put_name(char *name, const char *mutex, const char *id)
{
    return (size_t)snprintf(name, SIMBA__REDIS_CHANNEL_MAX, "%s}%s%s", mutex,
                            id == NULL ? "" : ":", id == NULL ? "" : id);
}

struct simba__redis_channel *simba__redis_channel_find(
    struct simba__redis *store,
    const char *mutex,
    const char *id)
{
    char name[SIMBA__REDIS_CHANNEL_MAX];
    size_t length = put_name(name, mutex, id);

    return (struct simba__redis_channel *)simba__hash_find_bytes(
        &store->channels, name, length);
}

struct simba__redis_subscription *simba__redis_subscription_find(
    struct simba__redis *store,
    const char *mutex)
{
    return (struct simba__redis_subscription *)simba__hash_find(
        &store->subscriptions, mutex);
}

/* The same, made if it is not there; NULL: no memory. */
static struct simba__redis_subscription *subscription_of(
    struct simba__redis *store,
    const char *mutex)
{
    struct simba__redis_subscription *subscription =
        simba__redis_subscription_find(store, mutex);

    if (subscription == NULL) {
        subscription =
            simba__hash_new(&store->subscriptions, sizeof *subscription, mutex);
        if (subscription != NULL) {
            subscription->server = simba__redis_server_of(store, mutex);
        }
    }
    return subscription;
}

struct simba__redis_channel *simba__redis_channel_open(
    struct simba__redis *store,
    const char *mutex,
    const char *id)
{
    struct simba__redis_channel *channel =
        simba__redis_channel_find(store, mutex, id);
    struct simba__redis_subscription *subscription;
    char name[SIMBA__REDIS_CHANNEL_MAX];

    /* Who hears broadcasts and not this is a JVM contender. No id is "@". */
    if (id == NULL && simba__redis_channel_open(store, mutex, "@") == NULL) {
        return NULL;
    }
    if (channel != NULL) {
        subscribe(channel); /* it was refused once: perhaps not any more */
        return channel;
    }
    subscription = subscription_of(store, mutex);
    if (subscription == NULL) {
        return NULL;
    }
    put_name(name, mutex, id);
    channel = simba__hash_new(&store->channels, sizeof *channel, name);
    if (channel == NULL) {
        return NULL;
    }
    channel->is_broadcast = id == NULL;
    channel->is_mark = id != NULL && strcmp(id, "@") == 0;
    channel->subscription = subscription;
    channel->sibling = subscription->channels;
    subscription->channels = channel;
    subscribe(channel);
    return channel;
}

void simba__redis_channel_await(struct simba__redis_channel *channel,
                                struct simba__redis_request *r)
{
    struct simba__redis_request *last = channel->last;

    r->next_waiting = last == NULL ? r : last->next_waiting;
    if (last != NULL) {
        last->next_waiting = r;
    }
    channel->last = r;
}

void simba__redis_channel_leave(struct simba__redis_channel *channel,
                                const struct simba__redis_request *r)
{
    struct simba__redis_request *before = channel->last;

    while (before->next_waiting != r) {
        before = before->next_waiting;
    }
    before->next_waiting = r->next_waiting;
    if (channel->last == r) {
        channel->last = before == r ? NULL : before;
    }
}

/* --- one mutex ----------------------------------------------------------- */

struct simba__redis_lapse {
    simba_timer timer;
    simba_loop *loop;
    struct simba__redis_subscription *subscription;
    uint64_t position; /* who is woken then; 0: all of the mutex */
};

static void forget_lapse(struct simba__redis_subscription *subscription)
{
    if (subscription->lapse != NULL) {
        simba_timer_clear(subscription->lapse->loop,
                          &subscription->lapse->timer);
        free(subscription->lapse);
        subscription->lapse = NULL;
    }
}

static void sweep_later(struct simba__redis *store)
{
    if (!store->sweep.is_set) {
        simba_timer_set(store->base.loop, &store->sweep,
                        simba_loop_now_ms() + LINGER_MS);
    }
}

/* Closes its channels but those that a request waits for, and forgets it if
 * there are none. */
static void close_subscription(struct simba__redis *store,
                               struct simba__redis_subscription *subscription)
{
    struct simba__redis_channel **at = &subscription->channels;

    while (*at != NULL) {
        struct simba__redis_channel *channel = *at;

        if (channel->last != NULL) {
            at = &channel->sibling;
            continue;
        }
        *at = channel->sibling;
        simba__hash_remove(&store->channels, &channel->link);
        unsubscribe(channel);
        free(channel);
    }
    if (subscription->channels == NULL) {
        forget_lapse(subscription);
        simba__hash_remove(&store->subscriptions, &subscription->link);
        free(subscription);
    }
}

void simba__redis_sweep(simba_timer *timer)
{
    struct simba__redis *store =
        container_of(timer, struct simba__redis, sweep);
    int64_t now_ms = simba_loop_now_ms();
    struct simba__redis_subscription *next;

    for (struct simba__redis_subscription *s = next_subscription(store, NULL);
         s != NULL; s = next) {
        next = next_subscription(store, s);
        if (s->wanted == SIMBA_SUBSCRIBE_NONE) {
            sweep_later(store);
            if (s->keep_until_ms <= now_ms) {
                close_subscription(store, s);
            }
        }
    }
}

void simba__redis_subscription_keep(struct simba__redis *store,
                                    const char *mutex,
                                    int64_t keep_ms)
{
    struct simba__redis_subscription *subscription =
        subscription_of(store, mutex);
    int64_t until_ms = simba_loop_now_ms() + keep_ms;

    if (subscription != NULL) {
        if (subscription->keep_until_ms < until_ms) {
            subscription->keep_until_ms = until_ms;
        }
        sweep_later(store);
    }
}

void simba__redis_subscribe(simba_backend *self,
                            const char *mutex,
                            enum simba_subscription wanted)
{
    struct simba__redis *store = (struct simba__redis *)self;
    struct simba__redis_subscription *subscription =
        subscription_of(store, mutex);

    if (subscription == NULL) {
        return; /* the backstop will do */
    }
    subscription->wanted = wanted;
    if (wanted == SIMBA_SUBSCRIBE_OBSERVE) {
        (void)simba__redis_channel_open(store, mutex, NULL);
    } else if (wanted == SIMBA_SUBSCRIBE_NONE) {
        simba__redis_subscription_keep(store, mutex, LINGER_MS);
    }
}

void simba__redis_subscriptions_move(struct simba__redis *store)
{
    struct simba__redis_subscription *s = NULL;

    while ((s = next_subscription(store, s)) != NULL) {
        struct simba__redis_server *server =
            simba__redis_server_of(store, s->link.key);

        if (server == s->server) {
            continue;
        }
        for (struct simba__redis_channel *c = s->channels; c != NULL;
             c = c->sibling) {
            unsubscribe(c);
        }
        s->server = server;
        for (struct simba__redis_channel *c = s->channels; c != NULL;
             c = c->sibling) {
            subscribe(c);
        }
    }
}

/* --- lapsed offers ------------------------------------------------------- */

/* Who is the second when the mutex is offered to the first is told, and woken
 * when that offer is over: where all who are offered it come, it asks nobody in
 * vain, and the next offer is what it waits for.
 *
 * Who asks and finds that one to whom the mutex was offered did not come has
 * offered it to the next. If that one is stopped as well, nobody is notified
 * when its time is over: a queue of stopped waiters would be passed at the pace
 * of backstops. So whoever found one missing is woken then, until the mutex has
 * an owner. */

static void on_offer_lapsed(simba_timer *timer)
{
    const struct simba__redis_lapse *lapse =
        container_of(timer, struct simba__redis_lapse, timer);

    if (lapse->position != 0) {
        simba_wake_waiter(lapse->loop, lapse->subscription->link.key,
                          lapse->position);
    } else {
        simba_wake(lapse->loop, lapse->subscription->link.key);
    }
}

void simba__redis_retry_later(struct simba__redis *store,
                              const char *mutex,
                              uint64_t position,
                              int64_t wait_ms)
{
    struct simba__redis_subscription *subscription =
        simba__redis_subscription_find(store, mutex);

    if (subscription == NULL) {
        return;
    }
    if (subscription->lapse == NULL) {
        subscription->lapse = calloc(1, sizeof *subscription->lapse);
    }
    if (subscription->lapse != NULL) { /* else the backstop will do */
        subscription->lapse->loop = store->base.loop;
        subscription->lapse->subscription = subscription;
        subscription->lapse->position = position;
        subscription->lapse->timer.fire = on_offer_lapsed;
        simba_timer_set(store->base.loop, &subscription->lapse->timer,
                        simba_loop_now_ms() + wait_ms);
    }
}

/* --- the subscriber connection ------------------------------------------- */

void simba__redis_subscriber_ready(struct simba__redis_connection *conn)
{
    struct simba__redis_channel *channel = NULL;

    while ((channel = next_channel(conn->store, channel)) != NULL) {
        if (channel->subscription->server == conn->server) {
            subscribe(channel);
        }
    }
}

/* The server knows none of its channels any more. */
static void forget_channels(const struct simba__redis_server *server)
{
    struct simba__redis_channel *channel = NULL;

    while ((channel = next_channel(server->store, channel)) != NULL) {
        if (channel->subscription->server == server) {
            channel->is_sent = false;
            channel->is_open = false;
        }
    }
}

void simba__redis_subscriber_down(struct simba__redis_connection *conn)
{
    simba__log(&conn->store->log, SIMBA_LOG_WARN, "%s (subscriber)",
               conn->why.message);
    forget_channels(conn->server);
}

static void resume_requests(struct simba__redis_channel *channel,
                            const simba_error *why)
{
    struct simba__redis_request *r;

    while (channel->last != NULL) {
        r = channel->last->next_waiting;
        assert(r->state == SIMBA__REDIS_SUBSCRIBING);
        simba__redis_channel_leave(channel, r);
        r->next_waiting = NULL;
        simba__redis_request_subscribed(r, why);
    }
}

/* The server refuses a subscription; it does not say to which channel. */
static void on_refused(struct simba__redis_connection *conn, const char *text)
{
    struct simba__redis_channel *next;
    simba_error why;

    simba__redis_explain(&why, conn->shown, text);
    simba__log(&conn->store->log, SIMBA_LOG_ERROR, "%s", why.message);
    for (struct simba__redis_channel *c = next_channel(conn->store, NULL);
         c != NULL; c = next) {
        next = next_channel(conn->store, c);
        if (c->subscription->server == conn->server && c->is_sent &&
            !c->is_open) {
            c->is_sent = false;
            resume_requests(c, &why);
        }
    }
}

/* What was said to one of our waiters: its turn has come, or is next. */
static void on_personal(struct simba__redis *store,
                        const struct simba__redis_channel *channel,
                        const char *text)
{
    const char *mutex = channel->subscription->link.key;
    struct simba__redis_lapse *lapse = channel->subscription->lapse;
    int64_t offered_ms =
        strncmp(text, OFFERED, OFFERED_LENGTH) == 0
            ? simba__redis_number(text + OFFERED_LENGTH, OFFERED_MOST_MS)
            : 0;

    /* Without a position there may be room for it besides. */
    if (offered_ms > 0 && channel->position != 0) {
        /* 1 ms because a key lives through its last one, 1 ms because our clock
         * was read earlier. */
        simba__redis_retry_later(store, mutex, channel->position,
                                 offered_ms + 2);
        return;
    }
    if (lapse != NULL && lapse->position == channel->position) {
        simba_timer_clear(store->base.loop, &lapse->timer);
    }
    simba_wake_waiter(store->base.loop, mutex, channel->position);
}

/* ["subscribe", channel, count], ["message", channel, text] and others. */
void simba__redis_subscriber_message(struct simba__redis_connection *conn,
                                     const redisReply *message)
{
    simba_loop *loop = conn->store->base.loop;
    struct simba__redis_channel *channel;
    redisReply **part = message->element;

    if (message->type == REDIS_REPLY_ERROR) {
        on_refused(conn, message->str);
        return;
    }
    if (message->type != REDIS_REPLY_ARRAY || message->elements < 3 ||
        part[0]->str == NULL || part[1]->str == NULL ||
        strncmp(part[1]->str, PREFIX, PREFIX_LENGTH) != 0) {
        return;
    }
    channel = (struct simba__redis_channel *)simba__hash_find_bytes(
        &conn->store->channels, part[1]->str + PREFIX_LENGTH,
        part[1]->len - PREFIX_LENGTH);
    if (channel == NULL || channel->subscription->server != conn->server) {
        return;
    }
    if (strcmp(part[0]->str, "subscribe") == 0) {
        if (channel->is_sent && !channel->is_open) {
            channel->is_open = true;
            if (channel->last != NULL) {
                resume_requests(channel, NULL);
            } else if (!channel->is_mark) { /* what came before we missed */
                simba_wake(loop, channel->subscription->link.key);
            }
        }
    } else if (strcmp(part[0]->str, "message") == 0 && part[2]->str != NULL) {
        const char *mutex = channel->subscription->link.key;

        /* "acquired" is news for observers; a waiter awaits its offer. */
        if (!channel->is_broadcast) {
            on_personal(conn->store, channel, part[2]->str);
        } else if (strncmp(part[2]->str, "released@@", 10) == 0 ||
                   channel->subscription->wanted == SIMBA_SUBSCRIBE_OBSERVE) {
            simba_wake(loop, mutex);
        }
    }
}

/* --- the end ------------------------------------------------------------- */

void simba__redis_subscriptions_forget(struct simba__redis_server *server)
{
    struct simba__redis_subscription *s = NULL;

    forget_channels(server);
    while ((s = next_subscription(server->store, s)) != NULL) {
        if (s->server == server || s->server == NULL) {
            s->server = NULL;
            forget_lapse(s);
        }
    }
}
