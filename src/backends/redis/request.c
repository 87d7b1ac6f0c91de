/* One request on its way through the store: routed to the server that keeps the
 * mutex, sent as a call of a script, completed by its reply or at its deadline.
 *
 * The first try neither subscribes nor joins the queue: most mutexes are free.
 * Who is refused subscribes first and then joins, with the position it would
 * have had when it first asked. */
#include "backends/redis/redis.h"

#include "core/lease.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TRIES_MOST = 16,
    PAUSE_MS = 20,
    FOR_CROWD = 2, /* a script that knows of one owner only has met several */
    WAIT_REFUSED = -1, /* had_replicas: WAIT itself */
    WAIT_LATE_MS = 150,
    /* A server that was killed may lack the last writes even of an append-only
     * file: it postpones them while the disk is busy. Within this time whoever
     * owns by one of them is back and has heard that it does not. */
    SETTLE_MS = 400,
};

static void pause_request(struct simba__redis_request *r, int64_t length_ms);
static void on_reply(struct simba__redis_connection *conn,
                     struct simba__redis_pending *pending,
                     const redisReply *reply);

/* --- backlogs, and the end ----------------------------------------------- */

static void put_into_backlog(struct simba__redis_backlog *backlog,
                             struct simba__redis_request *r)
{
    r->next_waiting = NULL;
    *backlog->last = r;
    backlog->last = &r->next_waiting;
}

static void take_from_backlog(struct simba__redis_backlog *backlog,
                              const struct simba__redis_request *r)
{
    struct simba__redis_request **at = &backlog->first;

    while (*at != NULL && *at != r) {
        at = &(*at)->next_waiting;
    }
    if (*at != NULL) {
        *at = r->next_waiting;
        if (*at == NULL) {
            backlog->last = at;
        }
    }
}

/* Completes the request, if somebody still waits for it, and frees ours. */
static void finish(struct simba__redis_request *r,
                   int status,
                   const simba_error *error)
{
    struct simba__redis *store = r->store;
    simba_request *request = r->request;

    if (r->state == SIMBA__REDIS_SUBSCRIBING) {
        simba__redis_channel_leave(r->channel, r);
    }
    if (r->state == SIMBA__REDIS_UNSENT && r->server == NULL) {
        take_from_backlog(&store->backlog, r);
    } else if (r->state == SIMBA__REDIS_UNSENT) {
        take_from_backlog(&r->server->backlog, r);
    }
    simba_timer_clear(store->base.loop, &r->pause);
    simba_timer_clear(store->base.loop, &r->deadline);
    assert(*r->link == r);
    *r->link = r->next;
    if (r->next != NULL) {
        r->next->link = r->link;
    }
    free(r);
    simba__deadline_complete(&request, status, error);
}

void simba__redis_request_fail(struct simba__redis_request *r,
                               int code,
                               const char *format,
                               ...)
{
    simba_error error;
    char words[256];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    simba_error_set(&error, code, 0, "redis %s: %s",
                    r->server == NULL ? r->store->settings.shown
                                      : r->server->command.shown,
                    words);
    finish(r, code, &error);
}

/* --- deadlines ----------------------------------------------------------- */

/* Its time is up before it was sent: says which connection has kept it waiting,
 * if one did. */
static void expire_unsent(struct simba__redis_request *r)
{
    const struct simba__redis_connection *conn = NULL;

    if (r->server != NULL && r->state != SIMBA__REDIS_PAUSED) {
        conn = &r->server->command;
        if (conn->state == SIMBA__REDIS_READY) {
            conn = r->state == SIMBA__REDIS_SUBSCRIBING
                       ? &r->server->subscriber
                       : &r->server->replication;
        }
    }
    if (conn != NULL && conn->state != SIMBA__REDIS_READY &&
        conn->why.code != SIMBA_OK) {
        simba_error error = conn->why;

        finish(r, error.code, &error);
    } else {
        simba__redis_request_fail(r, SIMBA_EUNAVAIL, "not ready in time");
    }
}

/* What was sent stays among the requests until its reply comes, for replies
 * come in order. */
static void expire_sent(struct simba__redis_request *r)
{
    struct simba__redis_server *server = r->server;

    assert(server != NULL);
    simba__deadline_expire(&r->request, "redis", server->command.shown);
    simba__redis_check_silence(&server->command);
    simba__redis_check_silence(&server->replication);
}

static void on_deadline(simba_timer *timer)
{
    struct simba__redis_request *r =
        container_of(timer, struct simba__redis_request, deadline);

    assert(r->request != NULL);
    if (r->state == SIMBA__REDIS_SENT) {
        expire_sent(r);
    } else {
        expire_unsent(r);
    }
}

/* --- routing ------------------------------------------------------------- */

/* Does it count only when replicas have it? */
static bool needs_replicas(const struct simba__redis_request *r)
{
    return r->store->settings.replicas > 0 &&
           (r->request->kind == SIMBA_ACQUIRE ||
            r->request->kind == SIMBA_RENEW);
}

/* --- a server that was restarted ----------------------------------------- */

/* Without an append-only file a restart forgets every owner, those too who
 * cannot ask at once. So each of them is certain only for restart_grace after
 * it asked last, whatever its lease, and nobody acquires before the server is
 * up for as long: an owner that was forgotten has asked before that. */
int64_t simba__redis_certain_ms(const struct simba__redis_server *server)
{
    int64_t grace_ms = server->store->settings.grace_ms;

    return grace_ms == 0 || server->command.facts.keeps_data ? INT64_MAX
                                                             : grace_ms;
}

/* An owner that is certain for so short a time could not leave within its
 * budget: every grant would be given back. Says so, and completes it. */
static bool is_too_short(struct simba__redis_request *r)
{
    const simba_request *request = r->request;
    struct simba__lease lease = {.ttl_ms = request->ttl_ms,
                                 .transition_ms = request->transition_ms};
    int64_t certain_ms, most_ms;

    if (request->kind != SIMBA_ACQUIRE ||
        r->server->command.state != SIMBA__REDIS_READY) {
        return false;
    }
    certain_ms = simba__redis_certain_ms(r->server);
    lease = simba__lease_shorten(&lease, certain_ms);
    most_ms = simba__lease_budget_most_ms(&lease);
    if (request->budget_ms <= most_ms) {
        return false;
    }
    simba__redis_request_fail(
        r, SIMBA_EMISCONFIG,
        "owners are certain for %" PRId64
        " ms only, whatever their lease, for without \"appendonly yes\" it "
        "forgets them (restart_grace); give a release budget of at most "
        "%" PRId64 " ms, not of %" PRId64,
        certain_ms, most_ms, request->budget_ms);
    return true;
}

/* Until when no acquire may be sent, or 0. */
static int64_t grace_until_ms(const struct simba__redis_request *r)
{
    const struct simba__redis_facts *facts = &r->server->command.facts;
    int64_t grace_ms = r->store->settings.grace_ms;

    if (grace_ms == 0 || r->request->kind != SIMBA_ACQUIRE ||
        r->server->command.state != SIMBA__REDIS_READY ||
        (facts->keeps_data && !facts->is_new)) {
        return 0;
    }
    return facts->keeps_data ? facts->learned_ms + SETTLE_MS
                             : facts->up_since_ms + grace_ms;
}

/* A moment is waited for here. Who must wait longer hears why, and is woken. */
static void hold_back(struct simba__redis_request *r, int64_t until_ms)
{
    struct simba__redis *store = r->store;
    const struct simba__redis_facts *facts = &r->server->command.facts;
    int64_t now_ms = simba_loop_now_ms();

    if (until_ms - now_ms <= SETTLE_MS && until_ms < r->request->deadline_ms) {
        pause_request(r, until_ms - now_ms);
        return;
    }
    if (!store->grace.is_set || until_ms < store->grace.at_ms) {
        simba_timer_set(store->base.loop, &store->grace, until_ms);
    }
    simba__redis_request_fail(
        r, SIMBA_EBUSY,
        "was started %" PRId64 " s ago and may have forgotten owners: "
        "nobody acquires for another %" PRId64 " s; cures: %s",
        (now_ms - facts->up_since_ms) / 1000, (until_ms - now_ms + 999) / 1000,
        facts->keeps_data
            ? "appendfsync always"
            : "appendonly yes there, or a shorter restart_grace on all hosts");
}

void simba__redis_request_route(struct simba__redis_request *r)
{
    struct simba__redis *store = r->store;
    bool needs_wait = needs_replicas(r);
    struct simba__redis_connection *conn;
    int64_t grace_ms;

    assert(r->request != NULL);
    if (r->tries++ >= TRIES_MOST) {
        r->state = SIMBA__REDIS_PAUSED;
        simba__redis_request_fail(r, SIMBA_EUNAVAIL,
                                  "is sent from one server to the next");
        return;
    }
    if (!r->is_asking) {
        r->server = simba__redis_server_of(store, r->request->mutex);
    }
    if (r->server == NULL && !store->was_reached) { /* in their order (S11) */
        r->state = SIMBA__REDIS_UNSENT;
        put_into_backlog(&store->backlog, r);
        return;
    }
    if (r->server == NULL) {
        pause_request(r, PAUSE_MS);
        return;
    }
    if (is_too_short(r)) {
        return;
    }
    if (r->request->kind == SIMBA_ACQUIRE) {
        simba__redis_note_grace(r->server);
    }
    grace_ms = grace_until_ms(r);
    if (grace_ms != 0 && grace_ms > simba_loop_now_ms()) {
        hold_back(r, grace_ms);
        return;
    }
    conn = needs_wait ? &r->server->replication : &r->server->command;
    simba__redis_connection_open(conn);
    if (conn->state != SIMBA__REDIS_READY ||
        r->server->command.state != SIMBA__REDIS_READY) {
        r->state = SIMBA__REDIS_UNSENT;
        put_into_backlog(&r->server->backlog, r);
        return;
    }
    r->state = SIMBA__REDIS_SENT;
    r->pending.replied = on_reply;
    r->pending.is_driven = r->request->is_driven && !needs_wait &&
                           simba__redis_drive_here(r->server);
    r->pending.most_values =
        r->script == SIMBA__REDIS_READ || r->script == SIMBA__REDIS_NOTES
            ? SIMBA__REDIS_VALUES_MOST
            : 0;
    /* A server that only imports a slot serves who says ASKING before. */
    if ((r->is_asking &&
         !simba__redis_send_unheard(conn, (const char *[]){"ASKING", NULL})) ||
        !simba__redis_send_script(r, conn)) {
        r->state = SIMBA__REDIS_PAUSED;
        simba__redis_request_fail(r, SIMBA_ENOMEM, "out of memory");
    }
}

static void on_pause_over(simba_timer *timer)
{
    struct simba__redis_request *r =
        container_of(timer, struct simba__redis_request, pause);

    r->tries = 0; /* its deadline ends it */
    simba__redis_request_route(r);
}

/* Routes it once more, a little later. */
static void pause_request(struct simba__redis_request *r, int64_t length_ms)
{
    r->state = SIMBA__REDIS_PAUSED;
    r->pause.fire = on_pause_over;
    simba_timer_set(r->store->base.loop, &r->pause,
                    simba_loop_now_ms() + length_ms);
}

void simba__redis_backlog_send(struct simba__redis_backlog *backlog)
{
    struct simba__redis_request *r = backlog->first;

    backlog->first = NULL;
    backlog->last = &backlog->first;
    while (r != NULL) {
        struct simba__redis_request *next = r->next_waiting;

        r->next_waiting = NULL;
        r->state = SIMBA__REDIS_PAUSED;
        r->tries = 0;
        simba__redis_request_route(r);
        r = next;
    }
}

void simba__redis_backlog_fail(struct simba__redis_backlog *backlog,
                               const simba_error *why)
{
    while (backlog->first != NULL) {
        struct simba__redis_request *r = backlog->first;

        take_from_backlog(backlog, r);
        finish(r, why->code, why);
    }
}

/* --- replicas ------------------------------------------------------------ */

/* An acquire that too few replicas have is taken back before it is answered; a
 * renewal remains unknown and is tried again by who wants it. So does an
 * acquire that found the mutex its own: it may have been told so already.
 *
 * What is taken back leaves no tombstone: the acquire was replied to, so it is
 * not under way any more, and the same attempt asks again when replicas are
 * back. If that comes first, the grant was renewed and is not taken back. */
static void fail_for_replicas(struct simba__redis_request *r, int code)
{
    if (r->had_replicas == WAIT_REFUSED) {
        simba__redis_request_fail(r,
                                  code == SIMBA_EUNAVAIL ? SIMBA_EDENIED : code,
                                  "refuses WAIT: does its user lack +wait?");
        return;
    }
    simba__redis_request_fail(r, code, "only %d of %d replicas have it",
                              r->had_replicas, r->store->settings.replicas);
}

static void on_taken_back(struct simba__redis_connection *conn,
                          struct simba__redis_pending *pending,
                          const redisReply *reply)
{
    bool is_back = reply != NULL && reply->type == REDIS_REPLY_ARRAY &&
                   reply->elements > 0 && reply->element[0]->integer == 1;

    (void)conn;
    fail_for_replicas(
        container_of(pending, struct simba__redis_request, pending),
        is_back ? SIMBA_EUNAVAIL : SIMBA_EUNKNOWN);
}

static void on_waited(struct simba__redis_connection *conn,
                      struct simba__redis_pending *pending,
                      const redisReply *reply)
{
    struct simba__redis_request *r =
        container_of(pending, struct simba__redis_request, pending);

    if (reply == NULL) {
        finish(r, SIMBA_EUNKNOWN, &conn->why);
        return;
    }
    r->had_replicas =
        reply->type == REDIS_REPLY_INTEGER ? (int)reply->integer : WAIT_REFUSED;
    if (r->request == NULL || r->had_replicas >= r->store->settings.replicas) {
        finish(r, SIMBA_OK, NULL);
    } else if (r->granted == 0) {
        fail_for_replicas(r, SIMBA_EUNKNOWN);
    } else {
        simba_reply_copy(&r->request->reply, &(simba_reply)SIMBA_REPLY_INIT);
        if (r->script == SIMBA__REDIS_ACQUIRE) {
            r->script = SIMBA__REDIS_RELEASE;
        }
        r->sends_text = true; /* no second round for want of a script */
        r->pending.replied = on_taken_back;
        if (!simba__redis_send_script(r, conn)) {
            fail_for_replicas(r, SIMBA_EUNKNOWN);
        }
    }
}

/* The master has granted or renewed it, and the reply is filled already. */
static void await_replicas(struct simba__redis_request *r,
                           struct simba__redis_connection *conn)
{
    /* A quarter of the time is kept for taking it back, up to half of it if
     * that is short: Redis looks ten times a second whether a WAIT is over. */
    int64_t given_ms = r->request->deadline_ms - simba_loop_now_ms();
    int64_t kept_ms = given_ms / 2 < WAIT_LATE_MS   ? given_ms / 2
                      : given_ms / 4 < WAIT_LATE_MS ? WAIT_LATE_MS
                                                    : given_ms / 4;
    int64_t left_ms = given_ms - kept_ms;
    char count[16], most[24];

    assert(conn == &r->server->replication);
    snprintf(count, sizeof count, "%d", r->store->settings.replicas);
    snprintf(most, sizeof most, "%" PRId64, left_ms > 1 ? left_ms : 1);
    r->pending.replied = on_waited;
    if (!simba__redis_send_words(conn, &r->pending,
                                 (const char *[]){"WAIT", count, most, NULL})) {
        finish(r, SIMBA_EUNKNOWN, NULL);
    }
}

/* --- replies ------------------------------------------------------------- */

static void on_error_reply(struct simba__redis_request *r, const char *text)
{
    struct simba__redis_failure failure = simba__redis_understand(text);
    struct simba__redis_connection *command = &r->server->command;
    simba_error error;

    r->is_asking = false;
    switch (failure.remedy) {
    case SIMBA__REDIS_SEND_SCRIPT:
        r->sends_text = true;
        simba__redis_request_route(r);
        return;
    case SIMBA__REDIS_MOVED:
    case SIMBA__REDIS_ASK:
        simba__redis_cluster_redirect(r, text);
        return;
    case SIMBA__REDIS_AGAIN:
        if (r->store->cluster != NULL) {
            simba__redis_cluster_refresh(r->store->cluster);
        }
        pause_request(r, PAUSE_MS);
        return;
    default:
        simba__redis_explain(&error, command->shown, text);
        finish(r, failure.code, &error);
        if (failure.remedy == SIMBA__REDIS_RECONNECT) {
            simba__redis_disconnect(command, failure.code, 0, "%s",
                                    failure.words);
        }
    }
}

void simba__redis_request_subscribed(struct simba__redis_request *r,
                                     const simba_error *why)
{
    r->state = SIMBA__REDIS_PAUSED;
    if (why != NULL) {
        finish(r, why->code, why);
        return;
    }
    r->is_joining = true;
    simba__redis_request_route(r);
}

/* Waits for this channel first. False: it is open already, or cannot be. */
static bool await_channel(struct simba__redis_request *r, const char *id)
{
    struct simba__redis_channel *channel =
        simba__redis_channel_open(r->store, r->request->mutex, id);

    if (channel == NULL || channel->is_open) {
        return false;
    }
    r->state = SIMBA__REDIS_SUBSCRIBING;
    r->channel = channel;
    simba__redis_channel_await(channel, r);
    return true;
}

static void on_refused(struct simba__redis_request *r,
                       const struct simba__redis_script_reply *read)
{
    const char *mutex = r->request->mutex;
    bool is_foreign = read->owner.id[0] != '\0' && !read->has_tenure;

    /* Who waits must be reached: it subscribes first, then joins the queue. The
     * release of an owner that is not one of ours is only broadcast. */
    if (await_channel(r, r->request->id) ||
        (is_foreign && await_channel(r, NULL))) {
        return;
    }
    if (!r->is_joining) { /* another of this process has opened it meanwhile */
        simba__redis_request_subscribed(r, NULL);
        return;
    }
    simba__redis_subscription_keep(r->store, mutex, r->request->waiter_ms);
    if (read->has_missed) {
        simba__redis_retry_later(r->store, mutex, 0, read->wait_ms + 1);
    }
    finish(r, SIMBA_OK, NULL);
}

static void put_id(char to[SIMBA_ID_MAX + 1], const char *id)
{
    snprintf(to, SIMBA_ID_MAX + 1, "%s", id);
}

/* What was read of the mutex is the reply now. */
static void fill_reply(struct simba__redis_request *r,
                       const struct simba__redis_script_reply *read)
{
    simba_request *request = r->request;
    simba_reply answer = SIMBA_REPLY_INIT;

    answer.store_ms = read->now_us / 1000;
    answer.owner = read->owner;
    answer.ended = read->ended;
    answer.mine = read->is_mine;
    answer.owned = read->owned;
    answer.slots = read->slots;
    if (read->is_mine) {
        answer.token = read->owner.token;
        answer.slot = read->owner.slot;
        if (simba__redis_certain_ms(r->server) <
            request->ttl_ms + request->transition_ms) {
            answer.lease_ms = simba__redis_certain_ms(r->server);
        }
    } else {
        answer.is_queued = read->position != 0;
        answer.position = read->position;
        answer.is_head = read->is_head;
        answer.wait_ms = read->wait_ms;
    }
    if (request->kind == SIMBA_RENEW) {
        put_id(answer.asked, read->is_mine ? read->asked : "");
    }
    put_id(answer.to, request->kind == SIMBA_HAND_OVER ? read->to
                      : request->kind == SIMBA_ACQUIRE ? read->passed_by
                                                       : "");
    simba_reply_copy(&request->reply, &answer);
}

/* An owner may be asked to hand over. It hears of it at once if it waited or
 * this process listens anyway; else its next renewal says so, for a lock that
 * is held is no reason for a second connection. */
static void keep_channel(const struct simba__redis_request *r)
{
    struct simba__redis *store = r->store;
    const simba_request *request = r->request;
    const struct simba__redis_channel *channel =
        simba__redis_channel_find(store, request->mutex, request->id);

    if (channel == NULL && request->kind == SIMBA_RENEW &&
        r->server->subscriber.state == SIMBA__REDIS_READY) {
        channel = simba__redis_channel_open(store, request->mutex, request->id);
    }
    if (channel != NULL) {
        simba__redis_subscription_keep(
            store, request->mutex, request->ttl_ms + request->transition_ms);
    }
}

/* It has come into the queue: what is said to it is for nobody else of this
 * process, unless several may own the mutex. */
static void note_position(const struct simba__redis_request *r,
                          uint64_t position)
{
    const simba_request *request = r->request;
    struct simba__redis_channel *channel =
        position == 0 || request->position != 0
            ? NULL
            : simba__redis_channel_find(r->store, request->mutex, request->id);

    if (channel != NULL) {
        channel->position = request->slots > 1 ? 0 : position;
    }
}

static bool read_reply(const struct simba__redis_request *r,
                       struct simba__redis_script_reply *read,
                       const redisReply *reply)
{
    int64_t transition_ms = r->request->transition_ms;

    if (r->script == SIMBA__REDIS_CROWD) {
        return simba__redis_crowd_reply_read(read, reply, transition_ms);
    }
    if (!simba__redis_script_reply_read(read, reply, transition_ms)) {
        return false;
    }
    if (r->script == SIMBA__REDIS_READ) {
        simba__redis_read_queue(reply, r->request);
        simba__redis_read_owners(read, reply, r->request);
    }
    return true;
}

static void on_released(struct simba__redis_request *r, const redisReply *reply)
{
    simba_reply answer = SIMBA_REPLY_INIT;

    if (reply->elements > 1 && reply->element[1]->type == REDIS_REPLY_STRING) {
        put_id(answer.to, reply->element[1]->str);
    }
    simba_reply_copy(&r->request->reply, &answer);
    finish(r, SIMBA_OK, NULL);
}

static void on_reply(struct simba__redis_connection *conn,
                     struct simba__redis_pending *pending,
                     const redisReply *reply)
{
    struct simba__redis_request *r =
        container_of(pending, struct simba__redis_request, pending);
    simba_request *request = r->request;
    struct simba__redis_script_reply read;

    if (request == NULL) {
        finish(r, SIMBA_OK, NULL); /* too late */
        return;
    }
    if (reply == NULL) {
        finish(r, SIMBA_EUNKNOWN, &conn->why);
        return;
    }
    if (reply->type == REDIS_REPLY_ERROR) {
        on_error_reply(r, reply->str);
        return;
    }
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 1 &&
        reply->element[0]->integer == FOR_CROWD) {
        r->script = SIMBA__REDIS_CROWD;
        r->sends_text = false;
        simba__redis_request_route(r);
        return;
    }
    if (request->kind == SIMBA_RELEASE || request->kind == SIMBA_LEAVE) {
        on_released(r, reply);
        return;
    }
    if (r->script == SIMBA__REDIS_NOTES) {
        if (simba__redis_read_notes(reply, request)) {
            finish(r, SIMBA_OK, NULL);
        } else {
            simba__redis_request_fail(r, SIMBA_EMISCONFIG,
                                      "what is noted is not of our making");
        }
        return;
    }
    if (!read_reply(r, &read, reply)) {
        simba__redis_request_fail(r, SIMBA_EMISCONFIG,
                                  "the lease key is not of our making");
        return;
    }
    if (request->kind == SIMBA_HAND_OVER && !read.is_mine &&
        read.owner.id[0] != '\0' && !read.has_tenure) {
        simba__redis_request_fail(r, SIMBA_EINVAL,
                                  "%s is of another implementation and cannot "
                                  "be asked",
                                  read.owner.id);
        return;
    }
    if (!r->is_joining) {
        r->position = read.position;
        read.position = 0;
    }
    fill_reply(r, &read);
    if (r->is_joining) {
        simba__redis_sight(r, &read);
        note_position(r, read.is_mine ? 0 : read.position);
    }
    if (read.is_mine && r->store->channels.count > 0 &&
        (request->kind == SIMBA_ACQUIRE || request->kind == SIMBA_RENEW)) {
        keep_channel(r);
    }
    if (read.is_mine && needs_replicas(r)) {
        r->granted = request->kind == SIMBA_ACQUIRE && read.renewals == 0
                         ? read.owner.token
                         : 0;
        await_replicas(r, conn);
    } else if (request->kind == SIMBA_ACQUIRE && !read.is_mine &&
               request->join) {
        on_refused(r, &read);
    } else {
        finish(r, SIMBA_OK, NULL);
    }
}

/* --- the beginning ------------------------------------------------------- */

void simba__redis_request_start(struct simba__redis *store,
                                simba_request *request)
{
    static const enum simba__redis_script_name scripts[] = {
        [SIMBA_ACQUIRE] = SIMBA__REDIS_ACQUIRE,
        [SIMBA_RENEW] = SIMBA__REDIS_RENEW,
        [SIMBA_RELEASE] = SIMBA__REDIS_RELEASE,
        [SIMBA_LEAVE] = SIMBA__REDIS_RELEASE,
        [SIMBA_READ] = SIMBA__REDIS_READ,
        [SIMBA_BREAK] = SIMBA__REDIS_BREAK,
        [SIMBA_HAND_OVER] = SIMBA__REDIS_CROWD,
        [SIMBA_TELL] = SIMBA__REDIS_NOTES,
        [SIMBA_TOLD] = SIMBA__REDIS_NOTES,
        [SIMBA_BREAKS] = SIMBA__REDIS_NOTES,
    };
    struct simba__redis_request *r = calloc(1, sizeof *r);

    assert((size_t)request->kind < sizeof scripts / sizeof scripts[0]);
    if (r == NULL) {
        simba_request_done(request, SIMBA_ENOMEM, NULL);
        return;
    }
    r->store = store;
    r->request = request;
    r->script = request->kind <= SIMBA_LEAVE && request->slots > 1
                    ? SIMBA__REDIS_CROWD
                    : scripts[request->kind];
    r->state = SIMBA__REDIS_PAUSED;
    if (request->kind == SIMBA_ACQUIRE && request->join &&
        store->channels.count > 0) {
        const struct simba__redis_channel *channel =
            simba__redis_channel_find(store, request->mutex, request->id);

        r->is_joining = channel != NULL && channel->is_open;
    }
    r->next = store->requests;
    if (r->next != NULL) {
        r->next->link = &r->next;
    }
    r->link = &store->requests;
    store->requests = r;
    r->deadline.fire = on_deadline;
    simba_timer_set(store->base.loop, &r->deadline, request->deadline_ms);
    simba__redis_request_route(r);
}

void simba__redis_requests_forget(const struct simba__redis_server *server)
{
    for (struct simba__redis_request *r = server->store->requests; r != NULL;
         r = r->next) {
        if (r->server == server) {
            r->server = NULL;
        }
    }
}

void simba__redis_requests_end(struct simba__redis *store,
                               const simba_error *why)
{
    struct simba__redis_request *next;

    for (struct simba__redis_request *r = store->requests; r != NULL;
         r = next) {
        next = r->next;
        r->server = NULL;
        finish(r, why->code, why);
    }
}
