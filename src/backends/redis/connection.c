/* One connection to a Redis server, on the kit's (simba/sys/connection.h): what
 * is sent and read over it, and who gets the replies. */
#include "backends/redis/redis.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINE_MOST = 65536, /* Redis waits so long for the end of a line */
    WORDS_MOST = 16,
};

/* --- coming down --------------------------------------------------------- */

/* Whoever awaited a reply finds it so. */
static void note_down(struct simba__redis_connection *conn,
                      const simba_error *why)
{
    conn->why = *why;
    if (conn->state != SIMBA__REDIS_DOWN) {
        conn->state = SIMBA__REDIS_DOWN;
        redisReaderFree(conn->reader);
        conn->reader = NULL;
    }
}

static void on_down(void *self, simba_connection *link, const simba_error *why)
{
    struct simba__redis_connection *conn = self;

    (void)link;
    note_down(conn, why);
    conn->hooks->down(conn);
}

void simba__redis_connection_close(struct simba__redis_connection *conn)
{
    simba_connection *link = conn->link;
    simba_error why;

    if (link != NULL) {
        simba_error_set(&why, SIMBA_EUNAVAIL, 0, "redis %s: closed",
                        conn->shown);
        note_down(conn, &why);
        conn->link = NULL;
        simba_connection_close(link);
    }
}

/* --- coming up ----------------------------------------------------------- */

/* Behind sentinels: where the commands go, if it is another's. A sentinel may
 * lag, and only of those is it known that they have found a master. */
static const struct simba__redis_address *found_master(
    const struct simba__redis_connection *conn)
{
    const struct simba__redis_connection *command = &conn->server->command;

    return conn != command && command->state == SIMBA__REDIS_READY
               ? &command->address
               : NULL;
}

static void on_aim(void *self, simba_connection *link)
{
    struct simba__redis_connection *conn = self;

    (void)link;
    conn->state = SIMBA__REDIS_RESOLVING;
    if (conn->server != NULL && conn->store->sentinel != NULL &&
        found_master(conn) == NULL) {
        simba__redis_sentinel_aim(conn->store->sentinel, conn);
    } else {
        simba__redis_connect(conn, &conn->address);
    }
}

void simba__redis_connect(struct simba__redis_connection *conn,
                          const struct simba__redis_address *address)
{
    const struct simba__redis_address *found =
        conn->server == NULL ? NULL : found_master(conn);
    simba_connection_host host;

    address = found == NULL ? address : found;
    host = (simba_connection_host){address->host, address->port};
    if (address != &conn->address) {
        conn->address = *address;
    }
    simba__url_show(address->host, address->port, conn->shown,
                    sizeof conn->shown);
    conn->state = SIMBA__REDIS_CONNECTING;
    simba_connection_aim(conn->link, &host);
}

static void on_connected(void *self, simba_connection *link)
{
    struct simba__redis_connection *conn = self;

    (void)link;
    conn->state = SIMBA__REDIS_HANDSHAKE;
    conn->reader = redisReaderCreate();
    if (conn->reader == NULL) {
        simba__redis_disconnect(conn, SIMBA_ENOMEM, 0, "out of memory");
        return;
    }
    simba__redis_limits_begin(conn);
    simba__redis_handshake(conn);
}

static void on_ready(void *self, simba_connection *link)
{
    struct simba__redis_connection *conn = self;

    (void)link;
    conn->state = SIMBA__REDIS_READY;
    conn->hooks->ready(conn);
}

/* --- sending ------------------------------------------------------------- */

static bool send_text(simba_exchange *exchange, simba_connection *link)
{
    struct simba__redis_pending *pending =
        container_of(exchange, struct simba__redis_pending, exchange);
    struct simba__redis_connection *conn = pending->conn;

    conn->is_sent = simba_connection_write(link, conn->text, conn->text_length);
    return conn->is_sent;
}

static void on_failed(simba_exchange *exchange,
                      int status,
                      const simba_error *error)
{
    struct simba__redis_pending *pending =
        container_of(exchange, struct simba__redis_pending, exchange);
    struct simba__redis_connection *conn = pending->conn;

    (void)status;
    (void)error;
    if (conn->link != NULL) {
        note_down(conn, simba_connection_why(conn->link));
    }
    pending->replied(conn, pending, NULL);
}

static void on_unheard(struct simba__redis_connection *conn,
                       struct simba__redis_pending *pending,
                       const redisReply *reply)
{
    (void)conn;
    (void)reply;
    free(pending);
}

size_t simba__redis_put_number(char *text, uint64_t number)
{
    char digits[SIMBA__REDIS_DIGITS];
    size_t at = sizeof digits;

    digits[--at] = '\0';
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    memcpy(text, digits + at, sizeof digits - at);
    return sizeof digits - at - 1;
}

char *simba__redis_put_count(char *at, char kind, size_t count)
{
    *at++ = kind;
    at += simba__redis_put_number(at, count);
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

char *simba__redis_put_word(char *at, const char *word, size_t length)
{
    at = simba__redis_put_count(at, '$', length);
    memcpy(at, word, length);
    at += length;
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

/* A command as RESP has it; NULL: no memory. hiredis would print each length by
 * printf(), which is a tenth of what an acquire costs us. */
static char *format(const struct simba__redis_command *command, size_t *length)
{
    size_t most = SIMBA__REDIS_WORD_EXTRA;
    char *text, *at;

    for (int i = 0; i < command->count; i++) {
        most += command->length[i] + SIMBA__REDIS_WORD_EXTRA;
    }
    text = malloc(most);
    if (text == NULL) {
        return NULL;
    }
    at = simba__redis_put_count(text, '*', (size_t)command->count);
    for (int i = 0; i < command->count; i++) {
        at = simba__redis_put_word(at, command->word[i], command->length[i]);
    }
    *length = (size_t)(at - text);
    return text;
}

bool simba__redis_send_text(struct simba__redis_connection *conn,
                            const char *text,
                            size_t length,
                            struct simba__redis_pending *pending)
{
    assert(conn->state >= SIMBA__REDIS_HANDSHAKE);
    conn->is_sent = false;
    if (pending == NULL) {
        conn->is_sent = simba_connection_write(conn->link, text, length);
    } else {
        pending->conn = conn;
        /* It is given up with the connection, and not sent by the next. */
        pending->exchange =
            (simba_exchange){.send = send_text,
                             .failed = on_failed,
                             .is_driven = pending->is_driven,
                             .is_unheard = pending->replied == on_unheard,
                             .is_greeting = true};
        conn->text = text;
        conn->text_length = length;
        if (!simba__redis_is_due(conn)) {
            conn->silent_since_ms = simba_loop_now_ms();
        }
        simba_connection_submit(conn->link, &pending->exchange);
        if (!conn->is_sent) {
            simba_exchange_cancel(&pending->exchange);
        }
    }
    return conn->is_sent;
}

bool simba__redis_send(struct simba__redis_connection *conn,
                       const struct simba__redis_command *command,
                       struct simba__redis_pending *pending)
{
    size_t length;
    char *text = format(command, &length);
    bool is_sent =
        text != NULL && simba__redis_send_text(conn, text, length, pending);

    free(text);
    if (!is_sent && pending == NULL) {
        simba__redis_disconnect(conn, SIMBA_ENOMEM, 0, "out of memory");
    }
    return is_sent;
}

bool simba__redis_send_words(struct simba__redis_connection *conn,
                             struct simba__redis_pending *pending,
                             const char *const *words)
{
    const char *word[WORDS_MOST];
    size_t length[WORDS_MOST];
    struct simba__redis_command command = {0, word, length};

    while (words[command.count] != NULL) {
        assert(command.count < WORDS_MOST);
        word[command.count] = words[command.count];
        length[command.count] = strlen(words[command.count]);
        command.count++;
    }
    return simba__redis_send(conn, &command, pending);
}

bool simba__redis_send_unheard(struct simba__redis_connection *conn,
                               const char *const *words)
{
    struct simba__redis_pending *pending = calloc(1, sizeof *pending);

    if (pending == NULL) {
        return false;
    }
    pending->replied = on_unheard;
    if (!simba__redis_send_words(conn, pending, words)) {
        free(pending);
        return false;
    }
    return true;
}

/* --- reading ------------------------------------------------------------- */

static void hand_reply(struct simba__redis_connection *conn,
                       const redisReply *reply)
{
    simba_exchange *exchange;

    if (conn->state == SIMBA__REDIS_READY && conn->hooks->message != NULL) {
        conn->hooks->message(conn, reply);
    } else if (simba_connection_take(conn->link, &exchange)) {
        struct simba__redis_pending *pending =
            container_of(exchange, struct simba__redis_pending, exchange);

        pending->replied(conn, pending, reply);
    } else {
        simba__redis_disconnect(
            conn, SIMBA_EMISCONFIG, 0,
            "answers what was not asked (%.60s): is it a Redis server?",
            reply->str == NULL ? "" : reply->str);
    }
}

static size_t on_received(void *self,
                          simba_connection *link,
                          const char *bytes,
                          size_t count)
{
    struct simba__redis_connection *conn = self;

    (void)link;
    conn->silent_since_ms = simba_loop_now_ms();
    conn->bytes += count;
    if (redisReaderFeed(conn->reader, bytes, count) != REDIS_OK) {
        simba__redis_disconnect(conn, SIMBA_ENOMEM, 0, "out of memory");
    }
    while (conn->reader != NULL) { /* it has not broken meanwhile */
        void *reply = NULL;
        int rc = redisReaderGetReply(conn->reader, &reply);

        if (reply == NULL && simba__redis_is_too_much(conn)) {
            simba__redis_disconnect(conn, SIMBA_EMISCONFIG, 0,
                                    "answers more than was asked for: is it a "
                                    "Redis server?");
        } else if (rc != REDIS_OK) {
            simba__redis_disconnect(conn, SIMBA_EMISCONFIG, 0,
                                    "this is not a Redis server (%s)",
                                    conn->reader->errstr);
        } else if (reply == NULL) {
            break;
        } else {
            conn->values = 0;
            conn->bytes = conn->reader->len - conn->reader->pos;
            hand_reply(conn, reply);
            freeReplyObject(reply);
        }
    }
    return count;
}

bool simba__redis_is_due(const struct simba__redis_connection *conn)
{
    return conn->link != NULL && simba_connection_first(conn->link) != NULL;
}

void simba__redis_check_silence(struct simba__redis_connection *conn)
{
    int64_t silent_ms = simba_loop_now_ms() - conn->silent_since_ms;

    if (conn->state == SIMBA__REDIS_READY &&
        silent_ms >= SIMBA__REDIS_SILENCE_MS && simba__redis_is_due(conn)) {
        simba__redis_disconnect(conn, SIMBA_EUNAVAIL, 0, "silent for %d ms",
                                (int)silent_ms);
    }
}

/* --- opening ------------------------------------------------------------- */

void simba__redis_connection_init(struct simba__redis_connection *conn,
                                  struct simba__redis *store,
                                  const struct simba__redis_hooks *hooks,
                                  struct simba__redis_server *server)
{
    *conn = (struct simba__redis_connection){
        .hooks = hooks, .store = store, .server = server};
    simba_error_set(&conn->why, SIMBA_EUNAVAIL, 0, "redis: not connected yet");
}

void simba__redis_connection_open(struct simba__redis_connection *conn)
{
    simba_connection_host host = {conn->address.host, conn->address.port};
    simba_connection_config config = {
        .size = sizeof config,
        .store = "redis",
        .loop = conn->store->base.loop,
        .hosts = &host,
        .host_count = 1,
        .self = conn,
        .aim = on_aim,
        .connected = on_connected,
        .received = on_received,
        .ready = on_ready,
        .down = on_down,
        .filter = conn->store->tls == NULL ? NULL : &simba__tls_filter,
        .filter_context = conn->store->tls,
        /* Of a server its requests see to that; a sentinel has none. */
        .silence_ms = conn->server == NULL ? 0 : INT64_MAX,
        .output_most = SIZE_MAX, /* all channels are subscribed at once */
        .bare_size = LINE_MOST + 1,
        .hang_up_hint = conn->store->tls == NULL ? ": does it want TLS?" : NULL,
    };

    if (conn->link == NULL) {
        simba__url_show(host.name, host.port, conn->shown, sizeof conn->shown);
        if (simba_connection_open(&config, &conn->link, &conn->why) ==
            SIMBA_OK) {
            conn->state = SIMBA__REDIS_RESOLVING;
        }
    }
}
