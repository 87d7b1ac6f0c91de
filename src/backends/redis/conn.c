/* One connection to a Redis server; see conn.h. */
#define _GNU_SOURCE
#include "backends/redis/conn.h"

#include "backends/redis/text.h"
#include "backends/redis/turn.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { COME_UP_MS = 3000, PAUSE_FIRST_MS = 10, PAUSE_MOST_MS = 200 };

#define container(pointer, type, member)                                       \
    ((type *)((char *)(pointer)-offsetof(type, member)))

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
