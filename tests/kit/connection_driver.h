/* A store for a server that answers a line with a line, and that server, played
 * by the test itself: it accepts, expects and answers in the order of its
 * statements. */
#ifndef TESTS_KIT_CONNECTION_DRIVER_H
#define TESTS_KIT_CONNECTION_DRIVER_H

#include "runtime/loop.h"

#include <simba/sys/connection.h>

#include "fixtures/await.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/* --- the client ---------------------------------------------------------- */

enum { OPEN = 1 }; /* status of an ask that has not come to its end */

struct ask {
    simba_exchange exchange; /* first */
    char line[64];           /* "" cannot be written */
    char reply[64];
    simba_error error;
    _Atomic int status, sends;
};

struct client {
    simba_loop *loop;
    simba_connection *connection;
    simba_connection_config config;
    simba_connection_host hosts[3];
    bool greets;
    bool by_tag;           /* "<tag> <reply>" in any order */
    const char *closes_on; /* a line that makes it close */
    _Atomic int readies, downs, pushes;
    _Atomic bool is_closed;
    simba_error why; /* of the last down */
    int64_t down_at_ms[64];
    pthread_t reader;     /* who ran received() last */
    struct ask *in_ready; /* submitted there */
};

static inline bool send_ask(simba_exchange *e, simba_connection *c)
{
    struct ask *ask = (struct ask *)e;

    ask->sends++;
    if (!simba_connection_write(c, ask->line, strlen(ask->line))) {
        return false;
    }
    return simba_connection_write(c, "\n", 1) && ask->line[0] != '\0';
}

static inline void ask_failed(simba_exchange *e,
                              int status,
                              const simba_error *error)
{
    struct ask *ask = (struct ask *)e;

    ask->error = *error;
    assert_int_equal(error->code, status);
    ask->status = status;
}

/* One line at a time: the connection comes again with the rest. */
static inline size_t received(void *self,
                              simba_connection *c,
                              const char *bytes,
                              size_t size)
{
    struct client *client = self;
    const char *end = memchr(bytes, '\n', size);
    simba_exchange *e = NULL;
    char line[64];

    client->reader = pthread_self();
    if (end == NULL) {
        return 0;
    }
    snprintf(line, sizeof line, "%.*s", (int)(end - bytes), bytes);
    if (client->closes_on != NULL && strcmp(line, client->closes_on) == 0) {
        simba_connection_close(c);
        client->is_closed = true;
    } else if (line[0] == '!') {
        client->pushes++;
    } else if (client->greets && !simba_connection_is_ready(c)) {
        simba_connection_ready(c);
    } else if (client->by_tag) {
        e = simba_connection_find(c, strtoull(line, NULL, 10));
        if (e != NULL) {
            simba_exchange_end(e);
        }
    } else if (!simba_connection_take(c, &e)) {
        simba_connection_break(c, SIMBA_EMISCONFIG, 7, "nobody asked for %s",
                               line);
    }
    if (e != NULL) {
        struct ask *ask = (struct ask *)e;

        snprintf(ask->reply, sizeof ask->reply, "%s", line);
        ask->status = SIMBA_OK;
    }
    return (size_t)(end + 1 - bytes);
}

static inline void greet(void *self, simba_connection *c)
{
    (void)self;
    simba_connection_write(c, "hello\n", 6);
}

static inline void is_ready(void *self, simba_connection *c)
{
    struct client *client = self;

    client->readies++;
    if (client->in_ready != NULL) {
        simba_connection_submit(c, &client->in_ready->exchange);
        client->in_ready = NULL;
    }
}

static inline void is_down(void *self,
                           simba_connection *c,
                           const simba_error *why)
{
    struct client *client = self;

    (void)c;
    client->why = *why;
    if (client->downs < 64) {
        client->down_at_ms[client->downs] = now_ms();
    }
    client->downs++;
}

static inline void client_open(struct client *client)
{
    simba_connection_config *config = &client->config;
    simba_error error;

    config->size = sizeof *config;
    config->store = "lines";
    config->hosts = client->hosts;
    config->host_count = config->host_count == 0 ? 1 : config->host_count;
    config->self = client;
    config->received = received;
    config->connected = client->greets ? greet : NULL;
    config->ready = is_ready;
    config->down = is_down;
    assert_int_equal(simba__loop_open(&client->loop, &error), SIMBA_OK);
    config->loop = client->loop;
    simba_loop_enter(client->loop);
    assert_int_equal(simba_connection_open(config, &client->connection, &error),
                     SIMBA_OK);
    simba_loop_leave(client->loop);
}

static inline void detach(void *argument)
{
    struct client *client = argument;

    if (!client->is_closed) {
        simba_connection_close(client->connection);
    }
}

static inline void client_close(struct client *client)
{
    simba__loop_end(client->loop, detach, client);
    simba__loop_close(client->loop);
}

static inline void prepare(struct ask *ask, const char *line, int64_t within_ms)
{
    *ask = (struct ask){
        .exchange = {.send = send_ask,
                     .failed = ask_failed,
                     .deadline_ms = within_ms == 0 ? 0 : now_ms() + within_ms},
        .status = OPEN};
    snprintf(ask->line, sizeof ask->line, "%s", line);
}

static inline void submit(struct client *client,
                          struct ask *ask,
                          const char *line)
{
    prepare(ask, line, 0);
    simba_loop_enter(client->loop);
    simba_connection_submit(client->connection, &ask->exchange);
    simba_loop_leave(client->loop);
}

#define inside(client, statement)                                              \
    do {                                                                       \
        simba_loop_enter((client)->loop);                                      \
        statement;                                                             \
        simba_loop_leave((client)->loop);                                      \
    } while (0)

/* --- the server ---------------------------------------------------------- */

static inline int listen_on(simba_connection_host *host)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    assert_int_equal(listen(fd, 8), 0);
    *host = (simba_connection_host){"127.0.0.1", ntohs(address.sin_port)};
    return fd;
}

static inline int admit(int listener)
{
    struct timeval patience = {.tv_sec = PATIENCE_MS / 1000};
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return fd;
}

static inline void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL),
                     (ssize_t)strlen(text));
}

static inline void expect(int fd, const char *text)
{
    char bytes[256] = "";
    size_t length = 0;

    while (length < strlen(text)) {
        ssize_t count = recv(fd, bytes + length, strlen(text) - length, 0);

        if (count <= 0) {
            fail_msg("expected %s, got %s", text, bytes);
        }
        length += (size_t)count;
    }
    assert_string_equal(bytes, text);
}

/* Accepts one that greets. */
static inline int admit_greeted(int listener)
{
    int fd = admit(listener);

    expect(fd, "hello\n");
    say(fd, "welcome\n");
    return fd;
}

static inline void expect_hang_up(int fd)
{
    char byte;

    assert_true(recv(fd, &byte, 1, 0) <= 0);
    close(fd);
}

#endif
