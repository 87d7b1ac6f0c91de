/* A session, and the connections that it has one after the other.
 *
 * The first thing said on a connection asks for a session, or for ours again by
 * its id and password; then come the credentials, if there are any, and then
 * requests. A server answers in the order in which it was asked. It ends a
 * session that it has not heard of for T: so something is said every T/3, and
 * every 5 s at least, and a server that does not answer that is given up. */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include "util/array.h"
#include "util/container.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    COME_UP_MS = 2500, /* as long as is waited for who never answered */
    SILENCE_LEAST_MS = 1000,
    SILENCE_MOST_MS = 5000,
    PING_LEAST_MS = 10,
    PING_MOST_MS = 5000,
    END_MS = 1000,       /* for saying that a session is over */
    UNANSWERED_MOST = 3, /* connections without a reply: no accident */
    GREETING_LEAST = 36, /* bytes */
    HEADER = 16,
    PACKET_MOST = 32 << 20
};

static int64_t clamp(int64_t value, int64_t least, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

/* A server that is silent for longer is given up, for a session of T. */
static int64_t silence_ms(int64_t timeout_ms)
{
    return clamp(timeout_ms / 3, SILENCE_LEAST_MS, SILENCE_MOST_MS);
}

/* --- batches ------------------------------------------------------------- */

static void forget_replies(simba__zk_batch *batch)
{
    for (int i = 0; i < batch->count; i++) {
        simba__zk_reply_fini(&batch->replies[i]);
    }
    batch->count = 0;
}

void simba__zk_begin(simba__zk_batch *batch, simba__zk *self)
{
    assert(batch->exchange.connection == NULL);
    forget_replies(batch);
    batch->self = self;
    batch->packets.length = 0;
    batch->packets.is_failed = false;
}

/* Begins a packet, or the next part of a multi. */
static void begin_packet(simba__zk_batch *batch, int op)
{
    struct simba__text *to = &batch->packets;

    if (batch->is_multi) {
        simba__zk_put_int(to, op);
        simba__text_add(to, "\0\377\377\377\377", 5);
        return;
    }
    batch->begin = to->length;
    simba__zk_put_long(to, 0); /* its length and its number */
    simba__zk_put_int(to, op);
    if (simba__array_reserve(&batch->replies, &batch->room,
                             (size_t)batch->count + 1,
                             sizeof *batch->replies)) {
        batch->replies[batch->count++] = (simba__zk_reply){.op = op};
    } else {
        to->is_failed = true;
    }
}

static void end_packet(simba__zk_batch *batch)
{
    if (!batch->is_multi) {
        simba__zk_put_length(&batch->packets, batch->begin);
    }
}

static void put_string(struct simba__text *to, const char *string)
{
    simba__zk_put_bytes(to, string, strlen(string));
}

static void put_path(simba__zk_batch *batch,
                     const char *mutex,
                     const char *node)
{
    struct simba__text *to = &batch->packets;
    char escaped[SIMBA__ZK_ESCAPED_SIZE] = "";
    size_t begin = to->length;

    simba__zk_put_int(to, 0);
    if (node == NULL || node[0] != '/') {
        simba__text_put(to, batch->self->settings.base);
    }
    if (mutex != NULL) {
        simba__zk_escape(mutex, escaped);
        simba__text_printf(to, "/%s", escaped);
    }
    if (node != NULL) {
        simba__text_printf(to, "%s%s", node[0] == '/' ? "" : "/", node);
    }
    simba__zk_put_length(to, begin);
}

static void put_acl(struct simba__text *to, int acl)
{
    enum { READ = 0x01, ALL = 0x1f };

    simba__zk_put_int(to, acl == SIMBA__ZK_ACL_SHARED ? 2 : 1);
    if (acl != SIMBA__ZK_ACL_OPEN) {
        simba__zk_put_int(to, ALL);
        put_string(to, "auth");
        put_string(to, "");
    }
    if (acl != SIMBA__ZK_ACL_CREATOR) {
        simba__zk_put_int(to, acl == SIMBA__ZK_ACL_OPEN ? ALL : READ);
        put_string(to, "world");
        put_string(to, "anyone");
    }
}

void simba__zk_ask(simba__zk_batch *batch,
                   int op,
                   const char *mutex,
                   const char *node)
{
    enum { ANY_VERSION = -1, EPHEMERAL_SEQUENTIAL = 3, CONTAINER = 4 };
    struct simba__text *to = &batch->packets;
    int kind = op < 0 ? op : op & ~SIMBA__ZK_WATCH;
    int acl = batch->self->settings.acl;

    begin_packet(batch, kind);
    if (kind != SIMBA__ZK_PING && kind != SIMBA__ZK_CLOSE) {
        put_path(batch, mutex, node);
    }
    if (kind == SIMBA__ZK_CREATE2) {
        put_string(to, batch->data);
        put_acl(to, acl);
        simba__zk_put_int(to, EPHEMERAL_SEQUENTIAL);
    } else if (kind == SIMBA__ZK_CREATE || kind == SIMBA__ZK_CREATE_CONTAINER) {
        put_string(to, "");
        put_acl(to, acl);
        simba__zk_put_int(to, kind == SIMBA__ZK_CREATE ? 0 : CONTAINER);
    } else if (kind == SIMBA__ZK_SET_ACL) {
        put_acl(to, acl);
        simba__zk_put_int(to, ANY_VERSION);
    } else if (kind == SIMBA__ZK_DELETE || kind == SIMBA__ZK_CHECK) {
        simba__zk_put_int(to, ANY_VERSION);
    } else if (kind == SIMBA__ZK_EXISTS || kind == SIMBA__ZK_GET_DATA ||
               kind == SIMBA__ZK_GET_CHILDREN) {
        simba__text_add(to, (op & SIMBA__ZK_WATCH) != 0 ? "\1" : "\0", 1);
    }
    end_packet(batch);
}

void simba__zk_multi_begin(simba__zk_batch *batch)
{
    begin_packet(batch, SIMBA__ZK_MULTI);
    batch->is_multi = true;
}

void simba__zk_multi_end(simba__zk_batch *batch)
{
    simba__text_add(&batch->packets, "\377\377\377\377\1\377\377\377\377", 9);
    batch->is_multi = false;
    end_packet(batch);
}

/* Above /simba they are plain nodes, the others vanish when empty. */
static void ask_parent(simba__zk_batch *batch,
                       const char *mutex,
                       const char *path,
                       bool is_plain)
{
    simba__zk_ask(batch,
                  is_plain ? SIMBA__ZK_CREATE : SIMBA__ZK_CREATE_CONTAINER,
                  mutex, path);
    simba__zk_ask(batch, SIMBA__ZK_EXISTS, mutex, path);
}

void simba__zk_ask_parents(simba__zk_batch *batch,
                           const char *mutex,
                           bool is_plain)
{
    char *path = strdup(batch->self->settings.base);
    char *at = path == NULL ? NULL : strchr(path + 1, '/');

    batch->packets.is_failed |= path == NULL;
    for (; at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        ask_parent(batch, NULL, path, true);
        *at = '/';
    }
    free(path);
    ask_parent(batch, NULL, NULL, is_plain);
    if (mutex != NULL) {
        ask_parent(batch, mutex, NULL, is_plain);
    }
}

static bool is_quorum_write(const simba__zk_reply *reply)
{
    return reply->op == SIMBA__ZK_CREATE2 || reply->op == SIMBA__ZK_MULTI;
}

static bool send_batch(simba_exchange *exchange, simba_connection *connection)
{
    simba__zk_batch *batch = (simba__zk_batch *)exchange;
    simba__zk_session *session = batch->session;

    if (batch->packets.is_failed) {
        return false; /* no memory */
    }
    if (session->xid > INT32_MAX - batch->count) {
        session->xid = 0;
    }
    batch->replied = 0;
    exchange->tag = (uint64_t)session->xid + 1;
    simba__zk_number(&batch->packets, session->xid + 1);
    session->xid += batch->count;
    session->sent_ms = simba_loop_now_ms();
    return simba_connection_write(connection, batch->packets.bytes,
                                  batch->packets.length);
}

static void finish(simba_exchange *e, int status, const simba_error *error)
{
    simba__zk_batch *batch = (simba__zk_batch *)e;

    batch->status = status;
    batch->error = error;
    if (batch->done != NULL) {
        batch->done(batch);
    }
}

void simba__zk_send(simba__zk_batch *batch,
                    simba__zk_session *session,
                    const simba_request *request,
                    void (*done)(simba__zk_batch *batch))
{
    simba_error error;

    batch->exchange.send = send_batch;
    batch->exchange.failed = finish;
    batch->exchange.is_driven = request != NULL && request->is_driven;
    batch->session = session;
    batch->sent_ms = simba_loop_now_ms();
    batch->done = done;
    for (int i = 0; i < batch->count; i++) {
        if (is_quorum_write(&batch->replies[i])) {
            simba__zk_written(batch->self);
        }
    }
    if (session == NULL) {
        simba_error_set(&error, SIMBA_EUNAVAIL, 0, "zookeeper: no session");
        finish(&batch->exchange, SIMBA_EUNAVAIL, &error);
    } else if (batch->packets.length == 0) {
        finish(&batch->exchange, SIMBA_OK, NULL);
    } else {
        simba_connection_submit(session->connection, &batch->exchange);
    }
}

void simba__zk_batch_fini(simba__zk_batch *batch)
{
    simba_exchange_cancel(&batch->exchange);
    forget_replies(batch);
    free(batch->replies);
    simba__text_fini(&batch->packets);
    batch->replies = NULL;
    batch->room = 0;
}

static void on_ping_due(simba_timer *timer)
{
    simba__zk_session *session =
        container_of(timer, simba__zk_session, pinging);
    simba__zk_batch *ping = &session->ping;
    int64_t every_ms =
        clamp(session->timeout_ms / 3, PING_LEAST_MS, PING_MOST_MS);
    int64_t now_ms = simba_loop_now_ms();

    if (now_ms - session->sent_ms >= every_ms) {
        session->sent_ms = now_ms;
        if (ping->exchange.connection == NULL) {
            simba__zk_begin(ping, session->self);
            simba__zk_ask(ping, SIMBA__ZK_PING, NULL, NULL);
            simba__zk_send(ping, session, NULL, NULL);
        }
    }
    simba_timer_set(session->self->base.base.loop, &session->pinging,
                    session->sent_ms + every_ms);
}

/* --- the greeting -------------------------------------------------------- */

/* Its hooks are called; those of others are not. */
static bool is_main(const simba__zk_session *session)
{
    return session == session->self->session;
}

static void lose(simba__zk_session *session, const char *why)
{
    if (is_main(session)) {
        simba__zk_lost(session->self, why);
    } else {
        session->id = 0; /* another will do */
        simba_connection_break(session->connection, SIMBA_EUNAVAIL, 0, "%s",
                               why);
    }
}

/* A session that is asked for on connection after connection and of which
 * nothing is heard lives, and is of no use: what we say may arrive. Given up
 * when nothing is certain by it any more, it ends, and its latches with it. */
static bool is_useless(const simba__zk_session *session)
{
    return session->id != 0 && session->unanswered > UNANSWERED_MOST &&
           simba_certainty_lease(&session->self->base.certainty,
                                 simba_loop_now_ms()) <= 1;
}

static void connected(void *user, simba_connection *connection)
{
    simba__zk_session *session = user;
    struct simba__text out = {0};

    session->unanswered++;
    if (is_useless(session)) {
        lose(session, "the session is given up: nothing is heard of it on any "
                      "connection");
        return;
    }
    if (session->id == 0) {
        session->made_ms = simba_loop_now_ms();
    }
    session->xid = 0;
    simba__zk_put_long(&out, 0); /* its length, the version of the protocol */
    simba__zk_put_long(&out, session->zxid);
    simba__zk_put_int(&out, session->asked_ms < INT32_MAX
                                ? (int32_t)session->asked_ms
                                : INT32_MAX);
    simba__zk_put_long(&out, session->id);
    simba__zk_put_bytes(&out, session->password, sizeof session->password);
    simba__text_add(&out, "", 1); /* not to a server that only reads */
    simba__zk_put_length(&out, 0);
    if (out.is_failed) {
        simba_connection_break(connection, SIMBA_ENOMEM, 0, "out of memory");
    } else {
        (void)simba_connection_write(connection, out.bytes, out.length);
    }
    simba__text_fini(&out);
}

static void on_credentials(simba__zk_batch *batch)
{
    simba_connection *connection = batch->session->connection;

    if (batch->status == SIMBA_OK && batch->replies[0].rc != SIMBA__ZK_OK) {
        simba_connection_break(connection, SIMBA_EDENIED, batch->replies[0].rc,
                               "the credentials were refused");
    } else if (batch->status == SIMBA_OK) {
        simba_connection_ready(connection);
    }
}

static void send_credentials(simba__zk_session *session)
{
    simba__zk_batch *batch = &session->greeting;

    simba__zk_begin(batch, session->self);
    begin_packet(batch, SIMBA__ZK_AUTH);
    simba__zk_put_int(&batch->packets, 0);
    put_string(&batch->packets, "digest");
    put_string(&batch->packets, session->self->settings.auth);
    end_packet(batch);
    batch->exchange.is_greeting = true;
    simba__zk_send(batch, session, NULL, on_credentials);
}

static void take_greeting(simba__zk_session *session, simba__zk_input *in)
{
    simba_connection *connection = session->connection;
    const char *password;
    int64_t timeout_ms, id;
    int length;

    (void)simba__zk_get_int(in); /* version of the protocol */
    timeout_ms = simba__zk_get_int(in);
    id = simba__zk_get_long(in);
    password = simba__zk_get_bytes(in, &length);
    if (timeout_ms <= 0 && session->id != 0) {
        lose(session, "the session has ended");
    } else if (length != SIMBA__ZK_PASSWORD || timeout_ms <= 0 || id == 0 ||
               (session->id != 0 && id != session->id)) {
        simba_connection_break(connection, SIMBA_EUNAVAIL, 0,
                               "does not greet as a ZooKeeper server does");
    } else {
        session->is_new = session->id == 0;
        session->id = id;
        memcpy(session->password, password, sizeof session->password);
        session->timeout_ms = timeout_ms;
        session->is_greeted = true;
        simba_connection_silence(connection, silence_ms(timeout_ms));
        if (session->self->settings.auth != NULL) {
            send_credentials(session);
        } else {
            simba_connection_ready(connection);
        }
    }
}

/* --- replies ------------------------------------------------------------- */

static void break_for_nonsense(simba_connection *connection)
{
    simba_connection_break(
        connection, SIMBA_EMISCONFIG, 0,
        "answers what was not asked: is it a ZooKeeper server?");
}

static void take_event(simba__zk_session *session, simba__zk_input *in)
{
    int type = simba__zk_get_int(in), length;
    const char *path;
    char *copy;

    (void)simba__zk_get_int(in); /* the state of the server */
    path = simba__zk_get_bytes(in, &length);
    copy = path == NULL ? NULL : strndup(path, (size_t)length);
    if (in->is_broken) {
        break_for_nonsense(session->connection);
    } else if (copy != NULL && is_main(session)) {
        simba__zk_event(session->self, type, copy);
    }
    free(copy);
}

/* The connection went. (So has a session that moved to another server: it lives
 * there, and to drop it would free what its owners have not been told of.) */
static bool is_lost(int rc)
{
    return rc == SIMBA__ZK_SESSION_MOVED || rc == SIMBA__ZK_CONNECTION_LOSS ||
           rc == SIMBA__ZK_TIMED_OUT;
}

static void take_reply(simba__zk_session *session,
                       simba__zk_batch *batch,
                       int rc,
                       simba__zk_input *in)
{
    simba__zk_reply *reply = &batch->replies[batch->replied];

    reply->rc = rc;
    if (rc == SIMBA__ZK_OK) {
        simba__zk_reply_read(reply, in);
    }
    if (in->is_broken) {
        break_for_nonsense(session->connection);
    } else if (reply->rc == SIMBA__ZK_SESSION_EXPIRED) { /* or of a part */
        lose(session, "the session has ended");
    } else if (is_lost(reply->rc)) {
        simba_connection_break(session->connection, SIMBA_EUNAVAIL, reply->rc,
                               "the session is elsewhere");
    } else if (reply->rc == SIMBA__ZK_NO_MEMORY) { /* nobody knows its words */
        simba_connection_break(session->connection, SIMBA_ENOMEM, 0,
                               "out of memory");
    } else {
        session->unanswered = 0;
        session->self->was_answered = true;
        if (is_main(session) && is_quorum_write(reply)) {
            simba__zk_answered(session->self, reply->rc, batch->sent_ms);
        }
        batch->exchange.tag++;
        if (++batch->replied == batch->count) {
            simba_exchange_end(&batch->exchange);
            finish(&batch->exchange, SIMBA_OK, NULL);
        }
    }
}

static void take_packet(simba__zk_session *session, simba__zk_input *in)
{
    simba_connection *connection = session->connection;
    int32_t xid = simba__zk_get_int(in);
    int64_t zxid = simba__zk_get_long(in);
    int rc = simba__zk_get_int(in);
    simba_exchange *exchange;

    session->zxid = zxid > 0 ? zxid : session->zxid;
    if (xid == SIMBA__ZK_XID_EVENT) {
        take_event(session, in);
    } else if (xid == SIMBA__ZK_XID_PING) {
        session->unanswered = 0;
        simba_exchange_end(&session->ping.exchange);
    } else if (xid <= 0) {
        break_for_nonsense(connection);
    } else if ((exchange = simba_connection_find(connection, (uint64_t)xid)) !=
               NULL) { /* else nobody awaits it any more */
        take_reply(session, (simba__zk_batch *)exchange, rc, in);
    }
}

static size_t received(void *user,
                       simba_connection *connection,
                       const char *bytes,
                       size_t size)
{
    simba__zk_session *session = user;
    simba__zk_input in = {bytes, size, false};
    int64_t length = simba__zk_get_int(&in);

    if (size < 4) {
        return 0;
    }
    if (length > PACKET_MOST ||
        length < (session->is_greeted ? HEADER : GREETING_LEAST)) {
        simba_connection_break(
            connection, session->is_greeted ? SIMBA_EMISCONFIG : SIMBA_EUNAVAIL,
            0, "a packet of %lld bytes: is it a ZooKeeper server?",
            (long long)length);
        return 0;
    }
    if ((size_t)length > in.left) {
        return 0;
    }
    in.left = (size_t)length;
    if (session->is_greeted) {
        take_packet(session, &in);
    } else {
        take_greeting(session, &in);
    }
    return 4 + (size_t)length;
}

/* --- its life ------------------------------------------------------------ */

static void on_ready(void *user, simba_connection *connection)
{
    simba__zk_session *session = user;

    (void)connection;
    session->is_ready = true;
    session->downs = 0;
    session->sent_ms = simba_loop_now_ms();
    on_ping_due(&session->pinging);
    if (is_main(session)) {
        simba__zk_ready(session->self);
    }
}

static void on_down(void *user,
                    simba_connection *connection,
                    const simba_error *why)
{
    simba__zk_session *session = user;

    (void)connection;
    session->is_ready = session->is_greeted = false;
    session->downs++;
    simba_timer_clear(session->self->base.base.loop, &session->pinging);
    if (is_main(session)) {
        simba__zk_down(session->self, why);
    }
}

simba__zk_session *simba__zk_session_open(simba__zk *self,
                                          int64_t asked_ms,
                                          int64_t delay_ms)
{
    simba__zk_session *session = calloc(1, sizeof *session);
    simba_connection_config config =
        simba__servers_connection(&self->settings.servers, &self->base);
    simba_error error;

    config.self = session;
    config.connected = connected;
    config.received = received;
    config.ready = on_ready;
    config.down = on_down;
    /* Not so long that a session would be old before it is of use. */
    config.come_up_ms = clamp(asked_ms / 3, SILENCE_LEAST_MS, COME_UP_MS);
    config.silence_ms = silence_ms(asked_ms); /* until another is agreed on */
    config.input_most = PACKET_MOST + 4;
    config.delay_ms = delay_ms;
    if (session == NULL || simba_connection_open(&config, &session->connection,
                                                 &error) != SIMBA_OK) {
        free(session);
        return NULL;
    }
    session->self = self;
    session->asked_ms = asked_ms;
    session->pinging.fire = on_ping_due;
    session->next = self->sessions;
    self->sessions = session;
    return session;
}

void simba__zk_session_close(simba__zk_session *session)
{
    simba__zk_session **at = &session->self->sessions;
    simba_request *closing = session->closing;

    while (*at != session) {
        at = &(*at)->next;
    }
    *at = session->next;
    simba_timer_clear(session->self->base.base.loop, &session->pinging);
    simba_exchange_cancel(&session->end.exchange);
    simba_connection_close(session->connection);
    simba__zk_batch_fini(&session->greeting);
    simba__zk_batch_fini(&session->ping);
    simba__zk_batch_fini(&session->end);
    free(session);
    if (closing != NULL) {
        simba_request_done(closing, SIMBA_OK, NULL);
    }
}

static void on_end(simba__zk_batch *batch)
{
    simba__zk_session_close(batch->session);
}

void simba__zk_session_end(simba__zk_session *session, simba_request *request)
{
    session->closing = request;
    if (!session->is_ready) {
        simba__zk_session_close(session);
        return;
    }
    simba__zk_begin(&session->end, session->self);
    simba__zk_ask(&session->end, SIMBA__ZK_CLOSE, NULL, NULL);
    session->end.exchange.deadline_ms = simba_loop_now_ms() + END_MS;
    simba__zk_send(&session->end, session, NULL, on_end);
}
