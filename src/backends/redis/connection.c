/* One connection to a Redis server: resolved, connected, secured, made again
 * when it breaks; what is sent and read over it, and who gets the replies. */
#define _GNU_SOURCE
#include "backends/redis/redis.h"

#include "util/array.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    COME_UP_MS = 3000,
    PAUSE_FIRST_MS = 10,
    PAUSE_MOST_MS = 200,
    SILENCE_MS = 2000, /* no reply for so long: reconnect */
    LOST_MS = 5000,    /* a server that vanished is noticed within this time */
    CHUNK = 16384,
    WORDS_MOST = 16,
};

static void start(struct simba__redis_connection *conn);

/* --- corks --------------------------------------------------------------- */

/* A flush that was posted to the loop; outlives the store if it must. */
struct simba__redis_later {
    struct simba__redis *store; /* NULL: too late */
};

static void mark_unsent(struct simba__redis_connection *conn)
{
    if (!conn->is_unsent) {
        conn->is_unsent = true;
        conn->next_unsent = conn->store->unsent;
        conn->store->unsent = conn;
    }
}

static void unmark_unsent(struct simba__redis_connection *conn)
{
    struct simba__redis_connection **at = &conn->store->unsent;

    if (conn->is_unsent) {
        while (*at != conn) {
            at = &(*at)->next_unsent;
        }
        *at = conn->next_unsent;
        conn->next_unsent = NULL;
        conn->is_unsent = false;
    }
}

/* Lets the loop wait for what this connection waits for. A caller that drives
 * reads alone. */
static void update_events(struct simba__redis_connection *conn)
{
    bool has_output = conn->plain.length > 0 || conn->wire.length > 0;
    uint32_t events = (conn->is_driven ? 0 : (uint32_t)EPOLLIN) |
                      (has_output ? (uint32_t)EPOLLOUT : 0);

    if (conn->io.fd >= 0 && (!conn->io.is_set || conn->io.events != events)) {
        simba_io_set(conn->store->base.loop, &conn->io, events);
    }
}

/* What TLS wants to be sent. False: no memory. */
static bool drain_tls(struct simba__redis_connection *conn)
{
    char bytes[4096];
    size_t count;

    do {
        count = simba__tls_filter.drain(conn->tls, bytes, sizeof bytes);
    } while (count > 0 && simba__redis_buffer_add(&conn->wire, bytes, count));
    return count == 0;
}

static bool write_tls(struct simba__redis_connection *conn)
{
    size_t length = conn->plain.length;

    conn->plain.length = 0;
    return (length == 0 ||
            simba__tls_filter.write(conn->tls, conn->plain.bytes, length)) &&
           drain_tls(conn);
}

static void flush(struct simba__redis_connection *conn)
{
    bool is_secure = conn->tls != NULL;
    struct simba__redis_buffer *buffer = is_secure ? &conn->wire : &conn->plain;

    if (conn->state < SIMBA__REDIS_SECURING) {
        return;
    }
    if (is_secure && conn->state != SIMBA__REDIS_SECURING && !write_tls(conn)) {
        simba__redis_disconnect(conn, SIMBA_EUNAVAIL, 0, "TLS failed");
        return;
    }
    assert(buffer->sent <= buffer->length && conn->io.fd >= 0);
    while (buffer->sent < buffer->length) {
        ssize_t count =
            send(conn->io.fd, buffer->bytes + buffer->sent,
                 buffer->length - buffer->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (count >= 0) {
            buffer->sent += (size_t)count;
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            simba__redis_disconnect(conn, SIMBA_EUNAVAIL, errno, "%s",
                                    strerror(errno));
            return;
        }
    }
    if (buffer->sent == buffer->length) {
        buffer->sent = 0;
        buffer->length = 0;
    }
    update_events(conn);
}

void simba__redis_cork(struct simba__redis *store)
{
    store->cork_depth++;
}

void simba__redis_uncork(struct simba__redis *store)
{
    struct simba__redis_connection *conn;

    assert(store->cork_depth > 0);
    /* Flushing may fail, and what follows may send to other servers. */
    while (store->cork_depth == 1 && (conn = store->unsent) != NULL) {
        unmark_unsent(conn);
        flush(conn);
    }
    store->cork_depth--;
}

static void run_later(void *argument)
{
    struct simba__redis_later *later = argument;

    if (later->store != NULL) {
        later->store->later = NULL;
        simba__redis_cork(later->store);
        simba__redis_uncork(later->store);
    }
    free(later);
}

void simba__redis_uncork_later(struct simba__redis *store)
{
    const struct simba__redis_connection *conn = store->unsent;
    /* The command just sent is one of those that are pending. */
    bool is_busy = store->cork_depth == 1 && conn != NULL &&
                   conn->next_unsent == NULL && conn->pending_count > 1;

    if (is_busy && store->later == NULL &&
        (store->later = malloc(sizeof *store->later)) != NULL) {
        store->later->store = store;
        simba_loop_post(store->base.loop, run_later, store->later);
    }
    if (is_busy && store->later != NULL) {
        store->cork_depth--;
    } else {
        simba__redis_uncork(store);
    }
}

void simba__redis_cork_stop(struct simba__redis *store)
{
    assert(store->cork_depth == 0 && store->unsent == NULL);
    if (store->later != NULL) {
        store->later->store = NULL;
        store->later = NULL;
    }
}

/* --- coming down --------------------------------------------------------- */

static void drop_socket(struct simba__redis_connection *conn)
{
    simba_loop *loop = conn->store->base.loop;

    simba_timer_clear(loop, &conn->timer);
    simba__lookup_cancel(conn->lookup);
    conn->lookup = NULL;
    if (conn->found != NULL) {
        freeaddrinfo(conn->found);
        conn->found = conn->trying = NULL;
    }
    if (conn->io.fd >= 0) {
        simba_io_clear(loop, &conn->io);
        close(conn->io.fd);
        conn->io.fd = -1;
    }
    simba__tls_filter.close(conn->tls); /* or nothing */
    conn->tls = NULL;
    redisReaderFree(conn->reader);
    conn->reader = NULL;
    unmark_unsent(conn);
    conn->plain.sent = conn->plain.length = 0;
    conn->wire.sent = conn->wire.length = 0;
    conn->state = SIMBA__REDIS_DOWN;
    conn->is_driven = false;
    conn->is_answered = false;
    conn->generation++;
}

/* Those who wait may send again from within; that is not failed here. */
static void fail_pending(struct simba__redis_connection *conn)
{
    struct simba__redis_pending *pending = conn->first;

    assert(conn->state == SIMBA__REDIS_DOWN);
    conn->first = NULL;
    conn->last = &conn->first;
    conn->pending_count = 0;
    while (pending != NULL) {
        struct simba__redis_pending *next = pending->next;

        pending->replied(conn, pending, NULL);
        pending = next;
    }
}

void simba__redis_disconnect(struct simba__redis_connection *conn,
                             int code,
                             int native,
                             const char *format,
                             ...)
{
    char words[160];
    va_list arguments;

    assert(code != SIMBA_OK);
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    simba__redis_cork(conn->store);
    drop_socket(conn);
    simba_error_set(&conn->why, code, native, "redis %s: %s", conn->shown,
                    words);
    if (conn->is_wanted) {
        simba_timer_set(conn->store->base.loop, &conn->timer,
                        simba__backoff_until(&conn->backoff));
    }
    fail_pending(conn);
    if (conn->is_wanted) {
        conn->hooks->down(conn);
    }
    simba__redis_uncork(conn->store);
}

void simba__redis_connection_close(struct simba__redis_connection *conn)
{
    conn->is_wanted = false;
    conn->was_up = false;
    drop_socket(conn);
    simba_error_set(&conn->why, SIMBA_EUNAVAIL, 0, "redis %s: closed",
                    conn->shown);
    fail_pending(conn);
    free(conn->plain.bytes);
    free(conn->wire.bytes);
    conn->plain = conn->wire = (struct simba__redis_buffer){0};
}

/* --- coming up ----------------------------------------------------------- */

static void begin_handshake(struct simba__redis_connection *conn)
{
    conn->state = SIMBA__REDIS_HANDSHAKE;
    conn->reader = redisReaderCreate();
    if (conn->reader == NULL) {
        simba__redis_disconnect(conn, SIMBA_ENOMEM, 0, "out of memory");
        return;
    }
    simba__redis_limits_begin(conn);
    update_events(conn);
    simba__redis_handshake(conn);
}

static void continue_tls(struct simba__redis_connection *conn)
{
    simba_error why;
    int rc = simba__tls_filter.handshake(conn->tls, &why);

    if (rc >= 0 && !drain_tls(conn)) {
        rc = simba_error_set(&why, SIMBA_ENOMEM, 0, "out of memory");
    }
    if (rc < 0) {
        simba__redis_disconnect(conn, why.code, why.native, "%s", why.message);
    } else if (rc == 1) {
        begin_handshake(conn);
    } else {
        mark_unsent(conn);
        update_events(conn);
    }
}

/* A socket that is connected or about to be. Returns 0 or errno. */
static int open_socket(struct simba__redis_connection *conn,
                       int family,
                       const struct sockaddr *where,
                       socklen_t size)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, LOST_MS / 1000},
        {IPPROTO_TCP, TCP_KEEPINTVL, 2},
        {IPPROTO_TCP, TCP_KEEPCNT, 3},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, LOST_MS},
    };
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int problem = fd < 0 ? errno : 0;

    for (size_t i = 0;
         fd >= 0 && family != AF_UNIX && i < sizeof options / sizeof options[0];
         i++) {
        /* Where the system has no such option, it goes without. */
        (void)setsockopt(fd, options[i].level, options[i].name,
                         &options[i].value, sizeof options[i].value);
    }
    if (fd >= 0 && connect(fd, where, size) < 0 && errno != EINPROGRESS) {
        problem = errno;
        close(fd);
        fd = -1;
    }
    conn->io.fd = fd;
    return problem;
}

/* Starts to connect to the next address, or to the socket's path. */
static void try_next_address(struct simba__redis_connection *conn)
{
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    size_t length = strlen(conn->address.host);
    int problem = ECONNREFUSED;

    assert(conn->io.fd < 0);
    if (conn->address.port != 0) {
        while (problem != 0 && conn->trying != NULL) {
            const struct addrinfo *to = conn->trying;

            conn->trying = to->ai_next;
            problem =
                open_socket(conn, to->ai_family, to->ai_addr, to->ai_addrlen);
        }
    } else if (length >= sizeof path.sun_path) {
        problem = ENAMETOOLONG;
    } else {
        memcpy(path.sun_path, conn->address.host, length + 1);
        problem = open_socket(conn, AF_UNIX, (const struct sockaddr *)&path,
                              sizeof path);
    }
    if (problem == 0 &&
        !simba_io_set(conn->store->base.loop, &conn->io, EPOLLOUT)) {
        problem = errno;
    }
    if (problem != 0) {
        simba__redis_disconnect(
            conn, problem == EACCES ? SIMBA_EDENIED : SIMBA_EUNAVAIL, problem,
            "%s", strerror(problem));
    }
}

/* The system has connected us, or has failed to. */
static void check_connected(struct simba__redis_connection *conn)
{
    int problem = 0;
    socklen_t size = sizeof problem;

    if (getsockopt(conn->io.fd, SOL_SOCKET, SO_ERROR, &problem, &size) < 0) {
        problem = errno;
    }
    if (problem != 0 && conn->trying != NULL) {
        simba_io_clear(conn->store->base.loop, &conn->io);
        close(conn->io.fd);
        conn->io.fd = -1;
        try_next_address(conn);
    } else if (problem != 0) {
        simba__redis_disconnect(conn, SIMBA_EUNAVAIL, problem, "%s",
                                strerror(problem));
    } else if (conn->store->tls == NULL) {
        begin_handshake(conn);
    } else {
        conn->state = SIMBA__REDIS_SECURING;
        conn->tls =
            simba__tls_filter.open(conn->store->tls, conn->address.host);
        if (conn->tls == NULL) {
            simba__redis_disconnect(conn, SIMBA_ENOMEM, 0, "out of memory");
        } else {
            continue_tls(conn);
        }
    }
}

static void on_found(void *self, struct addrinfo *list, int problem)
{
    struct simba__redis_connection *conn = self;

    simba__redis_cork(conn->store);
    conn->lookup = NULL;
    conn->found = conn->trying = list;
    if (list == NULL) {
        simba__redis_disconnect(conn, SIMBA_EUNAVAIL,
                                simba__lookup_native(problem), "%s",
                                gai_strerror(problem));
    } else {
        conn->state = SIMBA__REDIS_CONNECTING;
        try_next_address(conn);
    }
    simba__redis_uncork(conn->store);
}

void simba__redis_connect(struct simba__redis_connection *conn,
                          const struct simba__redis_address *address)
{
    struct simba__asker asker = {on_found, conn};
    simba_loop *loop = conn->store->base.loop;
    simba__lookup *lookup;

    if (address != &conn->address) {
        conn->address = *address;
    }
    simba__redis_show_address(&conn->address, conn->shown, sizeof conn->shown);
    simba_timer_set(loop, &conn->timer, simba_loop_now_ms() + COME_UP_MS);
    if (conn->address.port == 0) {
        conn->state = SIMBA__REDIS_CONNECTING;
        try_next_address(conn);
        return;
    }
    conn->state = SIMBA__REDIS_RESOLVING;
    lookup = simba__lookup_start(loop, conn->address.host, conn->address.port,
                                 asker);
    if (lookup != NULL) { /* else it was found from within */
        conn->lookup = lookup;
    }
}

static void start(struct simba__redis_connection *conn)
{
    if (conn->hooks->aim != NULL) {
        conn->state = SIMBA__REDIS_RESOLVING;
        simba_timer_set(conn->store->base.loop, &conn->timer,
                        simba_loop_now_ms() + COME_UP_MS);
        conn->hooks->aim(conn);
    } else {
        simba__redis_connect(conn, &conn->address);
    }
}

/* A server may accept a connection only to say that it has too many; what it
 * answers is up. */
static void note_up(struct simba__redis_connection *conn)
{
    simba__backoff_reset(&conn->backoff);
    if (conn->was_up) {
        simba_count_reconnect(conn->store->base.loop);
    }
    conn->was_up = true;
}

void simba__redis_connection_ready(struct simba__redis_connection *conn)
{
    unsigned generation = conn->generation;

    assert(conn->state == SIMBA__REDIS_HANDSHAKE);
    simba_timer_clear(conn->store->base.loop, &conn->timer);
    conn->state = SIMBA__REDIS_READY;
    conn->hooks->ready(conn);
    if (conn->is_answered && conn->generation == generation) {
        note_up(conn);
    }
}

/* --- sending ------------------------------------------------------------- */

bool simba__redis_buffer_add(struct simba__redis_buffer *buffer,
                             const char *bytes,
                             size_t count)
{
    if (!simba__array_reserve(&buffer->bytes, &buffer->room,
                              buffer->length + count, 1)) {
        return false;
    }
    memcpy(buffer->bytes + buffer->length, bytes, count);
    buffer->length += count;
    return true;
}

bool simba__redis_send(struct simba__redis_connection *conn,
                       const struct simba__redis_command *command,
                       struct simba__redis_pending *pending)
{
    char *text = NULL;
    int length = redisFormatCommandArgv(&text, command->count, command->word,
                                        command->length);
    bool is_added = length >= 0 &&
                    simba__redis_buffer_add(&conn->plain, text, (size_t)length);

    assert(conn->state >= SIMBA__REDIS_HANDSHAKE);
    free(text);
    if (!is_added) {
        return false;
    }
    if (pending != NULL) {
        pending->next = NULL;
        *conn->last = pending;
        conn->last = &pending->next;
        if (conn->pending_count++ == 0) {
            conn->silent_since_ms = simba_loop_now_ms();
        }
    }
    mark_unsent(conn);
    return true;
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

static void on_unheard(struct simba__redis_connection *conn,
                       struct simba__redis_pending *pending,
                       const redisReply *reply)
{
    (void)conn;
    (void)reply;
    free(pending);
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
    struct simba__redis_pending *pending = conn->first;

    if (!conn->is_answered && reply->type != REDIS_REPLY_ERROR) {
        conn->is_answered = true;
        if (conn->state == SIMBA__REDIS_READY) {
            note_up(conn);
        }
    }
    if (conn->state == SIMBA__REDIS_READY && conn->hooks->message != NULL) {
        conn->hooks->message(conn, reply);
        return;
    }
    if (pending == NULL) {
        simba__redis_disconnect(
            conn, SIMBA_EMISCONFIG, 0,
            "answers what was not asked (%.60s): is it a Redis server?",
            reply->str == NULL ? "" : reply->str);
        return;
    }
    assert(conn->pending_count > 0);
    conn->first = pending->next;
    if (conn->first == NULL) {
        conn->last = &conn->first;
    }
    conn->pending_count--;
    if (!pending->is_driven || conn->pending_count > 0) {
        conn->lone_replies = 0;
    } else if (conn->lone_replies < SIMBA__REDIS_LONE_ENOUGH) {
        conn->lone_replies++;
    }
    pending->replied(conn, pending, reply);
}

/* False: the connection broke meanwhile. */
static bool receive_plain(struct simba__redis_connection *conn,
                          const char *bytes,
                          size_t count)
{
    unsigned generation = conn->generation;

    conn->bytes += count;
    if (redisReaderFeed(conn->reader, bytes, count) != REDIS_OK) {
        simba__redis_disconnect(conn, SIMBA_ENOMEM, 0, "out of memory");
    }
    while (conn->generation == generation) {
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
            return true;
        } else {
            conn->values = 0;
            conn->bytes = conn->reader->len - conn->reader->pos;
            hand_reply(conn, reply);
            freeReplyObject(reply);
        }
    }
    return false;
}

/* False: the connection broke meanwhile. */
static bool receive(struct simba__redis_connection *conn,
                    const char *bytes,
                    size_t count)
{
    unsigned generation = conn->generation;
    char plain[CHUNK];
    simba_error why;
    int length;

    if (conn->tls == NULL) {
        return receive_plain(conn, bytes, count);
    }
    if (!simba__tls_filter.feed(conn->tls, bytes, count)) {
        simba__redis_disconnect(conn, SIMBA_ENOMEM, 0, "out of memory");
        return false;
    }
    if (conn->state == SIMBA__REDIS_SECURING) {
        continue_tls(conn);
    }
    if (conn->generation != generation ||
        conn->state == SIMBA__REDIS_SECURING) {
        return conn->generation == generation;
    }
    while ((length = simba__tls_filter.read(conn->tls, plain, CHUNK, &why)) >
           0) {
        if (!receive_plain(conn, plain, (size_t)length)) {
            return false;
        }
    }
    if (length < 0) {
        simba__redis_disconnect(conn, why.code, why.native, "%s", why.message);
    }
    return length == 0;
}

void simba__redis_read(struct simba__redis_connection *conn)
{
    char bytes[CHUNK];
    ssize_t count;

    assert(conn->io.fd >= 0 && conn->store->cork_depth > 0);
    do {
        count = recv(conn->io.fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (count > 0) {
            conn->silent_since_ms = simba_loop_now_ms();
            if (!receive(conn, bytes, (size_t)count)) {
                return;
            }
        }
    } while (count == CHUNK || (count < 0 && errno == EINTR));
    if (count == 0 || (count < 0 && errno != EAGAIN)) {
        /* Who hangs up on our first words may have expected others. */
        bool is_odd =
            conn->state == SIMBA__REDIS_HANDSHAKE && conn->tls == NULL;

        simba__redis_disconnect(
            conn, SIMBA_EUNAVAIL, count == 0 ? 0 : errno, "%s%s",
            count == 0 ? "the server closed the connection" : strerror(errno),
            is_odd ? ": does it want TLS?" : "");
    }
}

void simba__redis_check_silence(struct simba__redis_connection *conn)
{
    int64_t silent_ms = simba_loop_now_ms() - conn->silent_since_ms;

    if (conn->pending_count > 0 && conn->state == SIMBA__REDIS_READY &&
        silent_ms >= SILENCE_MS) {
        simba__redis_disconnect(conn, SIMBA_EUNAVAIL, 0, "silent for %d ms",
                                (int)silent_ms);
    }
}

void simba__redis_set_driven(struct simba__redis_connection *conn,
                             bool is_driven)
{
    is_driven = is_driven && conn->state == SIMBA__REDIS_READY;
    if (conn->is_driven != is_driven) {
        conn->is_driven = is_driven;
        update_events(conn);
    }
}

/* --- events -------------------------------------------------------------- */

static void on_ready(simba_io *io, uint32_t events)
{
    struct simba__redis_connection *conn =
        container_of(io, struct simba__redis_connection, io);
    unsigned generation = conn->generation;

    simba__redis_cork(conn->store);
    if (conn->state == SIMBA__REDIS_CONNECTING) {
        check_connected(conn);
    } else {
        if ((events & (uint32_t)EPOLLOUT) != 0) {
            flush(conn);
        }
        if ((events & ~(uint32_t)EPOLLOUT) != 0 &&
            conn->generation == generation) {
            simba__redis_read(conn);
        }
    }
    simba__redis_uncork(conn->store);
}

static void on_timer(simba_timer *timer)
{
    struct simba__redis_connection *conn =
        container_of(timer, struct simba__redis_connection, timer);

    simba__redis_cork(conn->store);
    if (conn->state == SIMBA__REDIS_DOWN) {
        start(conn);
    } else {
        simba__redis_disconnect(
            conn, SIMBA_EUNAVAIL, ETIMEDOUT, "no answer within %d ms%s",
            COME_UP_MS,
            conn->state == SIMBA__REDIS_SECURING ? ": does it speak TLS?" : "");
    }
    simba__redis_uncork(conn->store);
}

void simba__redis_connection_init(struct simba__redis_connection *conn,
                                  struct simba__redis *store,
                                  const struct simba__redis_hooks *hooks,
                                  struct simba__redis_server *server)
{
    *conn = (struct simba__redis_connection){
        .hooks = hooks,
        .store = store,
        .server = server,
        .io = {.ready = on_ready, .fd = -1},
        .timer = {.fire = on_timer},
        .backoff = {.first_ms = PAUSE_FIRST_MS, .most_ms = PAUSE_MOST_MS},
    };
    conn->last = &conn->first;
    simba_error_set(&conn->why, SIMBA_EUNAVAIL, 0, "redis: not connected yet");
}

void simba__redis_connection_open(struct simba__redis_connection *conn)
{
    if (!conn->is_wanted) {
        conn->is_wanted = true;
        simba__redis_show_address(&conn->address, conn->shown,
                                  sizeof conn->shown);
        start(conn);
    }
}
