/* One connection to a Redis server; see conn.h. */
#define _GNU_SOURCE
#include "backends/redis/redis.h"

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
enum { COME_UP_MS = 3000, PAUSE_FIRST_MS = 10, PAUSE_MOST_MS = 200 };

static void start(struct simba__redis_conn *conn);

/* --- coming down --------------------------------------------------------- */

static void drop_socket(struct simba__redis_conn *conn)
{
    simba_timer_clear(conn->env->loop, &conn->timer);
    simba__lookup_cancel(conn->lookup);
    conn->lookup = NULL;
    if (conn->found != NULL) {
        freeaddrinfo(conn->found);
        conn->found = conn->trying = NULL;
    }
    if (conn->io.fd >= 0) {
        simba_io_clear(conn->env->loop, &conn->io);
        close(conn->io.fd);
        conn->io.fd = -1;
    }
    simba__redis_tls_close(conn->tls);
    conn->tls = NULL;
    redisReaderFree(conn->reader);
    conn->reader = NULL;
    simba__redis_turn_remove(conn);
    simba__redis_buffer_clear(&conn->plain);
    simba__redis_buffer_clear(&conn->wire);
    conn->state = SIMBA__REDIS_DOWN;
    conn->is_solo = false;
    conn->is_answered = false;
    conn->breaks++;
}

/* Those who wait may ask again from within, but then of another life. */
static void answer_nobody(struct simba__redis_conn *conn,
                          const simba_error *why)
{
    struct simba__redis_ask *ask = conn->first;

    conn->first = NULL;
    conn->last = &conn->first;
    conn->asks = 0;
    while (ask != NULL) {
        struct simba__redis_ask *next = ask->next;

        ask->answered(ask, NULL, why);
        ask = next;
    }
}

static void on_timer(simba_timer *timer)
{
    struct simba__redis_conn *conn =
        container(timer, struct simba__redis_conn, timer);

    simba__redis_turn_begin(conn->env);
    if (conn->state == SIMBA__REDIS_DOWN) {
        start(conn);
    } else {
        simba__redis_conn_fail(
            conn, SIMBA_EUNAVAIL, ETIMEDOUT, "no answer within %d ms%s",
            COME_UP_MS,
            conn->state == SIMBA__REDIS_SECURING ? ": does it speak TLS?" : "");
    }
    simba__redis_turn_end(conn->env);
}

static void try_later(struct simba__redis_conn *conn)
{
    int64_t pause = conn->pause_ms;

    conn->pause_ms = pause * 2 < PAUSE_MOST_MS ? pause * 2 : PAUSE_MOST_MS;
    simba_timer_set(conn->env->loop, &conn->timer, simba_loop_now_ms() + pause);
}

void simba__redis_conn_fail(struct simba__redis_conn *conn,
                            int code,
                            int native,
                            const char *format,
                            ...)
{
    simba_error why;
    char words[160];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    simba_error_set(&why, code, native, "redis %s: %s", conn->shown, words);
    simba__redis_turn_begin(conn->env);
    drop_socket(conn);
    conn->why = why;
    if (conn->is_wanted) {
        try_later(conn);
    }
    answer_nobody(conn, &why);
    if (conn->is_wanted) {
        conn->hooks->down(conn, &why);
    }
    simba__redis_turn_end(conn->env);
}

void simba__redis_conn_close(struct simba__redis_conn *conn)
{
    simba_error why;

    if (conn->env == NULL) {
        return; /* never made */
    }
    simba_error_set(&why, SIMBA_EUNAVAIL, 0, "redis %s: closed", conn->shown);
    conn->is_wanted = false;
    conn->was_up = false;
    drop_socket(conn);
    answer_nobody(conn, &why);
    simba__redis_buffer_fini(&conn->plain);
    simba__redis_buffer_fini(&conn->wire);
}

/* --- coming up ----------------------------------------------------------- */

static void greet(struct simba__redis_conn *conn)
{
    conn->state = SIMBA__REDIS_GREETING;
    conn->reader = redisReaderCreate();
    if (conn->reader == NULL) {
        simba__redis_conn_fail(conn, SIMBA_ENOMEM, 0, "out of memory");
        return;
    }
    simba__redis_conn_watch(conn);
    conn->hooks->greet(conn);
}

/* A server may take a connection only to say that it has too many; what it
 * answers is up. */
static void came_up(struct simba__redis_conn *conn)
{
    conn->pause_ms = PAUSE_FIRST_MS;
    if (conn->was_up) {
        simba_count_reconnect(conn->env->loop);
    }
    conn->was_up = true;
}

void simba__redis_conn_greeted(struct simba__redis_conn *conn)
{
    unsigned breaks = conn->breaks;

    assert(conn->state == SIMBA__REDIS_GREETING);
    simba_timer_clear(conn->env->loop, &conn->timer);
    conn->state = SIMBA__REDIS_READY;
    conn->hooks->ready(conn);
    if (conn->is_answered && conn->breaks == breaks) {
        came_up(conn);
    }
}

void simba__redis_conn_answered(struct simba__redis_conn *conn)
{
    conn->is_answered = true;
    if (conn->state == SIMBA__REDIS_READY) {
        came_up(conn);
    }
}

void simba__redis_conn_shake(struct simba__redis_conn *conn)
{
    simba_error why;
    int rc = simba__redis_tls_shake(conn->tls, &conn->wire, &why);

    if (rc < 0) {
        simba__redis_conn_fail(conn, why.code, why.native, "%s", why.message);
    } else if (rc == 1) {
        greet(conn);
    } else {
        simba__redis_turn_add(conn);
        simba__redis_conn_watch(conn);
    }
}

static void connected(struct simba__redis_conn *conn)
{
    if (conn->env->tls == NULL) {
        greet(conn);
        return;
    }
    conn->state = SIMBA__REDIS_SECURING;
    conn->tls = simba__redis_tls_open(conn->env->tls, conn->address.host);
    if (conn->tls == NULL) {
        simba__redis_conn_fail(conn, SIMBA_ENOMEM, 0, "out of memory");
    } else {
        simba__redis_conn_shake(conn);
    }
}

static void dial(struct simba__redis_conn *conn)
{
    int problem = simba__redis_dial_next(conn);

    if (problem == 0 && !simba_io_set(conn->env->loop, &conn->io, EPOLLOUT)) {
        problem = errno;
    }
    if (problem != 0) {
        simba__redis_conn_fail(
            conn, problem == EACCES ? SIMBA_EDENIED : SIMBA_EUNAVAIL, problem,
            "%s", strerror(problem));
    }
}

static void check_connected(struct simba__redis_conn *conn)
{
    int problem = 0;
    socklen_t size = sizeof problem;

    if (getsockopt(conn->io.fd, SOL_SOCKET, SO_ERROR, &problem, &size) < 0) {
        problem = errno;
    }
    if (problem == 0) {
        connected(conn);
    } else if (conn->trying != NULL) { /* another address of the same name */
        simba_io_clear(conn->env->loop, &conn->io);
        close(conn->io.fd);
        conn->io.fd = -1;
        dial(conn);
    } else {
        simba__redis_conn_fail(conn, SIMBA_EUNAVAIL, problem, "%s",
                               strerror(problem));
    }
}

static void on_found(void *self, struct addrinfo *list, const char *why)
{
    struct simba__redis_conn *conn = self;

    simba__redis_turn_begin(conn->env);
    conn->lookup = NULL;
    conn->found = conn->trying = list;
    if (list == NULL) {
        simba__redis_conn_fail(conn, SIMBA_EUNAVAIL, 0, "%s", why);
    } else {
        conn->state = SIMBA__REDIS_CONNECTING;
        dial(conn);
    }
    simba__redis_turn_end(conn->env);
}

void simba__redis_conn_dial(struct simba__redis_conn *conn,
                            const struct simba__redis_address *address)
{
    struct simba__asker asker = {on_found, conn};

    if (address != &conn->address) {
        conn->address = *address;
    }
    simba__redis_show_address(&conn->address, conn->shown, sizeof conn->shown);
    simba_timer_set(conn->env->loop, &conn->timer,
                    simba_loop_now_ms() + COME_UP_MS);
    if (conn->address.port == 0) {
        conn->state = SIMBA__REDIS_CONNECTING;
        dial(conn);
    } else {
        unsigned breaks = conn->breaks;
        simba__lookup *lookup;

        conn->state = SIMBA__REDIS_LOOKING;
        lookup = simba__lookup_start(conn->env->loop, conn->address.host,
                                     conn->address.port, asker);
        if (lookup != NULL) {
            assert(conn->breaks == breaks);
            conn->lookup = lookup;
        }
        (void)breaks;
    }
}

static void start(struct simba__redis_conn *conn)
{
    if (conn->hooks->aim != NULL) {
        conn->state = SIMBA__REDIS_LOOKING;
        simba_timer_set(conn->env->loop, &conn->timer,
                        simba_loop_now_ms() + COME_UP_MS);
        conn->hooks->aim(conn);
    } else {
        simba__redis_conn_dial(conn, &conn->address);
    }
}

/* --- life ---------------------------------------------------------------- */

static void on_ready(simba_io *io, uint32_t events)
{
    struct simba__redis_conn *conn =
        container(io, struct simba__redis_conn, io);

    simba__redis_turn_begin(conn->env);
    if (conn->state == SIMBA__REDIS_CONNECTING) {
        check_connected(conn);
    } else {
        unsigned breaks = conn->breaks;

        if ((events & (uint32_t)EPOLLOUT) != 0) {
            simba__redis_conn_flush(conn);
        }
        if ((events & ~(uint32_t)EPOLLOUT) != 0 && conn->breaks == breaks) {
            simba__redis_conn_read(conn);
        }
    }
    simba__redis_turn_end(conn->env);
}

void simba__redis_conn_init(struct simba__redis_conn *conn,
                            struct simba__redis_env *env,
                            const struct simba__redis_conn_hooks *hooks,
                            void *owner)
{
    *conn = (struct simba__redis_conn){.hooks = hooks,
                                       .env = env,
                                       .owner = owner,
                                       .io = {.ready = on_ready, .fd = -1},
                                       .timer = {.fire = on_timer},
                                       .pause_ms = PAUSE_FIRST_MS};
    conn->last = &conn->first;
    simba_error_set(&conn->why, SIMBA_EUNAVAIL, 0, "redis: not connected yet");
}

void simba__redis_conn_open(struct simba__redis_conn *conn,
                            const struct simba__redis_address *address)
{
    assert(!conn->is_wanted);
    conn->is_wanted = true;
    if (address != NULL) {
        conn->address = *address;
    }
    simba__redis_show_address(&conn->address, conn->shown, sizeof conn->shown);
    start(conn);
}

/* What is to be heard is heard by the loop, unless a caller listens alone. */
void simba__redis_conn_watch(struct simba__redis_conn *conn)
{
    bool is_waiting = simba__redis_buffer_left(&conn->plain) > 0 ||
                      simba__redis_buffer_left(&conn->wire) > 0;
    uint32_t events = (conn->is_solo ? 0 : (uint32_t)EPOLLIN) |
                      (is_waiting ? (uint32_t)EPOLLOUT : 0);

    if (conn->io.fd >= 0 && (!conn->io.is_set || conn->io.events != events)) {
        simba_io_set(conn->env->loop, &conn->io, events);
    }
}
/* Sockets: made, tuned, connected, one address after the other. */

/* A peer that vanished without a word is noticed within this time. */
enum { SILENCE_MS = 5000, KEEP_IDLE_S = 5, KEEP_EVERY_S = 2, KEEP_COUNT = 3 };

static void set_option(int fd, int level, int name, int value)
{
    /* Where the system has no such option, it goes without. */
    (void)setsockopt(fd, level, name, &value, sizeof value);
}

static void tune(int fd)
{
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEP_EVERY_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEP_COUNT);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, SILENCE_MS);
}

/* A socket that is connected or about to be; -1 and errno. */
static int connect_to(int family, const struct sockaddr *where, socklen_t size)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int problem;

    if (fd < 0) {
        return -1;
    }
    if (family != AF_UNIX) {
        tune(fd);
    }
    if (connect(fd, where, size) == 0 || errno == EINPROGRESS) {
        return fd;
    }
    problem = errno;
    close(fd);
    errno = problem;
    return -1;
}

static int dial_path(struct simba__redis_conn *conn)
{
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    size_t length = strlen(conn->address.host);

    if (length >= sizeof where.sun_path) {
        return ENAMETOOLONG;
    }
    memcpy(where.sun_path, conn->address.host, length + 1);
    conn->io.fd =
        connect_to(AF_UNIX, (const struct sockaddr *)&where, sizeof where);
    return conn->io.fd < 0 ? errno : 0;
}

int simba__redis_dial_next(struct simba__redis_conn *conn)
{
    int problem = ECONNREFUSED;

    if (conn->address.port == 0) {
        return dial_path(conn);
    }
    while (conn->trying != NULL) {
        const struct addrinfo *to = conn->trying;

        conn->trying = to->ai_next;
        conn->io.fd = connect_to(to->ai_family, to->ai_addr, to->ai_addrlen);
        if (conn->io.fd >= 0) {
            return 0;
        }
        problem = errno;
    }
    return problem;
}
/* What is said and heard over a connection. */

enum { CHUNK = 16384, WORDS_MOST = 16, MUTE_MS = 2000 };

/* --- saying -------------------------------------------------------------- */

bool simba__redis_conn_send(struct simba__redis_conn *conn,
                            const struct simba__redis_words *words,
                            struct simba__redis_ask *ask)
{
    char *command = NULL;
    int length = redisFormatCommandArgv(&command, words->count, words->text,
                                        words->length);
    bool is_added;

    assert(conn->state >= SIMBA__REDIS_GREETING);
    if (length < 0) {
        return false;
    }
    is_added = simba__redis_buffer_add(&conn->plain, command, (size_t)length);
    free(command);
    if (!is_added) {
        return false;
    }
    if (ask != NULL) {
        ask->next = NULL;
        *conn->last = ask;
        conn->last = &ask->next;
        if (conn->asks++ == 0) {
            conn->silent_since_ms = simba_loop_now_ms();
        }
    }
    simba__redis_turn_add(conn);
    return true;
}

bool simba__redis_conn_say(struct simba__redis_conn *conn,
                           struct simba__redis_ask *ask,
                           const char *const *words)
{
    const char *text[WORDS_MOST];
    size_t length[WORDS_MOST];
    struct simba__redis_words all = {0, text, length};

    while (words[all.count] != NULL) {
        assert(all.count < WORDS_MOST);
        text[all.count] = words[all.count];
        length[all.count] = strlen(words[all.count]);
        all.count++;
    }
    return simba__redis_conn_send(conn, &all, ask);
}

/* False: the connection broke. */
static bool write_out(struct simba__redis_conn *conn,
                      struct simba__redis_buffer *buffer)
{
    while (simba__redis_buffer_left(buffer) > 0) {
        ssize_t count =
            send(conn->io.fd, buffer->data + buffer->from,
                 simba__redis_buffer_left(buffer), MSG_NOSIGNAL | MSG_DONTWAIT);

        if (count >= 0) {
            simba__redis_buffer_take(buffer, (size_t)count);
        } else if (errno == EAGAIN) {
            return true;
        } else if (errno != EINTR) {
            simba__redis_conn_fail(conn, SIMBA_EUNAVAIL, errno, "%s",
                                   strerror(errno));
            return false;
        }
    }
    return true;
}

void simba__redis_conn_flush(struct simba__redis_conn *conn)
{
    bool is_secure = conn->tls != NULL;

    if (conn->state < SIMBA__REDIS_SECURING) {
        return;
    }
    if (is_secure && conn->state != SIMBA__REDIS_SECURING &&
        !simba__redis_tls_write(conn->tls, &conn->plain, &conn->wire)) {
        simba__redis_conn_fail(conn, SIMBA_EUNAVAIL, 0, "TLS failed");
        return;
    }
    if (write_out(conn, is_secure ? &conn->wire : &conn->plain)) {
        simba__redis_conn_watch(conn);
    }
}

/* --- hearing ------------------------------------------------------------- */

static void note_solo(struct simba__redis_conn *conn, bool is_driven)
{
    if (!is_driven || conn->asks > 0) {
        conn->solo_streak = 0;
    } else if (conn->solo_streak < SIMBA__REDIS_SOLO_AFTER) {
        conn->solo_streak++;
    }
}

static void hear(struct simba__redis_conn *conn, const redisReply *reply)
{
    struct simba__redis_ask *ask = conn->first;

    if (!conn->is_answered && reply->type != REDIS_REPLY_ERROR) {
        simba__redis_conn_answered(conn);
    }
    if (conn->state == SIMBA__REDIS_READY && conn->hooks->heard != NULL) {
        conn->hooks->heard(conn, reply);
        return;
    }
    if (ask == NULL) {
        simba__redis_conn_fail(
            conn, SIMBA_EMISCONFIG, 0,
            "answers what was not asked (%.60s): is it a Redis server?",
            reply->str == NULL ? "" : reply->str);
        return;
    }
    conn->first = ask->next;
    if (conn->first == NULL) {
        conn->last = &conn->first;
    }
    conn->asks--;
    note_solo(conn, ask->is_driven);
    ask->answered(ask, reply, NULL);
}

/* False: the connection broke meanwhile. */
static bool hear_all(struct simba__redis_conn *conn)
{
    unsigned breaks = conn->breaks;

    for (;;) {
        void *reply = NULL;

        if (redisReaderGetReply(conn->reader, &reply) != REDIS_OK) {
            simba__redis_conn_fail(conn, SIMBA_EMISCONFIG, 0,
                                   "this is not a Redis server (%s)",
                                   conn->reader->errstr);
            return false;
        }
        if (reply == NULL) {
            return true;
        }
        hear(conn, reply);
        freeReplyObject(reply);
        if (conn->breaks != breaks) {
            return false;
        }
    }
}

static bool take_plain(struct simba__redis_conn *conn,
                       const char *bytes,
                       size_t count)
{
    if (redisReaderFeed(conn->reader, bytes, count) != REDIS_OK) {
        simba__redis_conn_fail(conn, SIMBA_ENOMEM, 0, "out of memory");
        return false;
    }
    return hear_all(conn);
}

static bool take_secure(struct simba__redis_conn *conn)
{
    char bytes[CHUNK];
    simba_error why;
    int count;

    while ((count = simba__redis_tls_read(conn->tls, bytes, CHUNK, &why)) > 0) {
        if (!take_plain(conn, bytes, (size_t)count)) {
            return false;
        }
    }
    if (count < 0) {
        simba__redis_conn_fail(conn, why.code, why.native, "%s", why.message);
        return false;
    }
    return true;
}

/* False: the connection broke meanwhile. */
static bool take(struct simba__redis_conn *conn,
                 const char *bytes,
                 size_t count)
{
    unsigned breaks = conn->breaks;

    if (conn->tls == NULL) {
        return take_plain(conn, bytes, count);
    }
    if (!simba__redis_tls_feed(conn->tls, bytes, count)) {
        simba__redis_conn_fail(conn, SIMBA_ENOMEM, 0, "out of memory");
        return false;
    }
    if (conn->state == SIMBA__REDIS_SECURING) {
        simba__redis_conn_shake(conn);
    }
    return conn->breaks == breaks &&
           (conn->state == SIMBA__REDIS_SECURING || take_secure(conn));
}

/* Who hangs up on our first words may have expected others. */
static void hung_up(struct simba__redis_conn *conn,
                    int native,
                    const char *words)
{
    bool is_odd = conn->state == SIMBA__REDIS_GREETING && conn->tls == NULL;

    simba__redis_conn_fail(conn, SIMBA_EUNAVAIL, native, "%s%s", words,
                           is_odd ? ": does it want TLS?" : "");
}

void simba__redis_conn_read(struct simba__redis_conn *conn)
{
    char bytes[CHUNK];
    ssize_t count;

    do {
        count = recv(conn->io.fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (count > 0) {
            conn->silent_since_ms = simba_loop_now_ms();
            if (!take(conn, bytes, (size_t)count)) {
                return;
            }
        }
    } while (count == CHUNK || (count < 0 && errno == EINTR));
    if (count == 0) {
        hung_up(conn, 0, "the server closed the connection");
    } else if (count < 0 && errno != EAGAIN) {
        hung_up(conn, errno, strerror(errno));
    }
}

void simba__redis_conn_suspect(struct simba__redis_conn *conn)
{
    int64_t silent_ms = simba_loop_now_ms() - conn->silent_since_ms;

    if (conn->asks > 0 && conn->state == SIMBA__REDIS_READY &&
        silent_ms >= MUTE_MS) {
        simba__redis_conn_fail(conn, SIMBA_EUNAVAIL, 0, "silent for %d ms",
                               (int)silent_ms);
    }
}
/* A turn; see turn.h. */

/* A flush that was posted to the loop; outlives the store if it must. */
struct simba__redis_post {
    struct simba__redis_env *env; /* NULL: too late */
};

static void flush_all(struct simba__redis_env *env)
{
    struct simba__redis_conn *conn;

    while ((conn = env->unsent) != NULL) {
        simba__redis_turn_remove(conn);
        simba__redis_conn_flush(conn);
    }
}

void simba__redis_turn_begin(struct simba__redis_env *env)
{
    env->turn_depth++;
}

void simba__redis_turn_end(struct simba__redis_env *env)
{
    assert(env->turn_depth > 0);
    if (env->turn_depth == 1) {
        flush_all(env); /* failures in here may write to others */
    }
    env->turn_depth--;
}

static void run_post(void *argument)
{
    struct simba__redis_post *post = argument;

    if (post->env != NULL) {
        post->env->post = NULL;
        simba__redis_turn_begin(post->env);
        simba__redis_turn_end(post->env);
    }
    free(post);
}

static bool is_busy(const struct simba__redis_env *env)
{
    const struct simba__redis_conn *conn = env->unsent;

    /* The command just written is one of them. */
    return conn != NULL && conn->next_unsent == NULL && conn->asks > 1;
}

void simba__redis_turn_end_later(struct simba__redis_env *env)
{
    if (env->turn_depth == 1 && is_busy(env)) {
        if (env->post == NULL &&
            (env->post = malloc(sizeof *env->post)) != NULL) {
            env->post->env = env;
            simba_loop_post(env->loop, run_post, env->post);
        }
        if (env->post != NULL) {
            env->turn_depth--;
            return;
        }
    }
    simba__redis_turn_end(env);
}

void simba__redis_turn_add(struct simba__redis_conn *conn)
{
    struct simba__redis_env *env = conn->env;

    if (!conn->is_listed) {
        conn->is_listed = true;
        conn->next_unsent = env->unsent;
        env->unsent = conn;
    }
}

void simba__redis_turn_remove(struct simba__redis_conn *conn)
{
    struct simba__redis_conn **at = &conn->env->unsent;

    if (conn->is_listed) {
        while (*at != conn) {
            at = &(*at)->next_unsent;
        }
        *at = conn->next_unsent;
        conn->next_unsent = NULL;
        conn->is_listed = false;
    }
}

void simba__redis_turn_stop(struct simba__redis_env *env)
{
    if (env->post != NULL) {
        env->post->env = NULL;
        env->post = NULL;
    }
}
/* Bytes on their way out; see buffer.h. */

enum { ROOM_LEAST = 4096 };

char *simba__redis_buffer_grow(struct simba__redis_buffer *buffer, size_t more)
{
    size_t room = buffer->room < ROOM_LEAST ? ROOM_LEAST : buffer->room;
    char *grown;

    while (room - buffer->length < more) {
        room *= 2;
    }
    if (room != buffer->room) {
        grown = realloc(buffer->data, room);
        if (grown == NULL) {
            return NULL;
        }
        buffer->data = grown;
        buffer->room = room;
    }
    return buffer->data + buffer->length;
}

bool simba__redis_buffer_add(struct simba__redis_buffer *buffer,
                             const char *bytes,
                             size_t count)
{
    char *end = simba__redis_buffer_grow(buffer, count);

    if (end == NULL) {
        return false;
    }
    memcpy(end, bytes, count);
    buffer->length += count;
    return true;
}

void simba__redis_buffer_take(struct simba__redis_buffer *buffer, size_t count)
{
    assert(count <= simba__redis_buffer_left(buffer));
    buffer->from += count;
    if (buffer->from == buffer->length) {
        simba__redis_buffer_clear(buffer);
    }
}

size_t simba__redis_buffer_left(const struct simba__redis_buffer *buffer)
{
    return buffer->length - buffer->from;
}

void simba__redis_buffer_clear(struct simba__redis_buffer *buffer)
{
    buffer->from = 0;
    buffer->length = 0;
}

void simba__redis_buffer_fini(struct simba__redis_buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct simba__redis_buffer){NULL, 0, 0, 0};
}
