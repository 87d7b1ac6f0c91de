/* A bad wire to a server; see redis_wire.h. A thread for each connection. */
#define _GNU_SOURCE
#include "servers/redis_wire.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 65536, ONE_IN = 50, MUTE_MS = 1000 };

static int subscriber, server_port;
static _Atomic int fault;
static _Atomic unsigned heard; /* messages of the server */

static struct sockaddr_in loopback(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET};

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons((uint16_t)port);
    return at;
}

static bool pass(int to, const char *bytes, ssize_t count)
{
    return count > 0 && send(to, bytes, (size_t)count, MSG_NOSIGNAL) == count;
}

/* False: this connection has come to its end. */
static bool say(int client, char *bytes, ssize_t count, bool *is_mute)
{
    int now = ++heard % ONE_IN == 0 ? fault : REDIS_WIRE_GOOD;

    switch (now) {
    case REDIS_WIRE_CUT:
        return false;
    case REDIS_WIRE_GARBAGE:
        for (ssize_t i = 0; i < count; i++) {
            bytes[i] = (char)(bytes[i] * 7 + i);
        }
        break;
    case REDIS_WIRE_HALF:
        (void)pass(client, bytes, count / 2);
        return false;
    case REDIS_WIRE_MUTE:
        *is_mute = true;
        break;
    default:
        break;
    }
    return *is_mute ? count > 0 : pass(client, bytes, count);
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void carry(int client, int server)
{
    struct pollfd set[2] = {{.fd = client, .events = POLLIN},
                            {.fd = server, .events = POLLIN}};
    static _Thread_local char bytes[CHUNK];
    bool is_mute = false, is_open = true;
    int64_t mute_since = INT64_MAX;

    while (is_open && poll(set, 2, is_mute ? MUTE_MS : -1) > 0) {
        if (set[0].revents != 0) {
            is_open = pass(server, bytes, recv(client, bytes, CHUNK, 0));
        }
        if (is_open && set[1].revents != 0) {
            ssize_t count = recv(server, bytes, CHUNK, 0);

            is_open = say(client, bytes, count, &is_mute);
        }
        /* What is mute for long is given up by a real network too. */
        if (is_mute && mute_since == INT64_MAX) {
            mute_since = now_ms();
        }
        is_open = is_open && (!is_mute || now_ms() - mute_since < MUTE_MS);
    }
}

static void *serve(void *argument)
{
    int client = (int)(intptr_t)argument;
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = loopback(server_port);

    if (connect(server, (struct sockaddr *)&at, sizeof at) == 0) {
        carry(client, server);
    }
    close(server);
    close(client);
    return NULL;
}

static void *listen_for_ever(void *argument)
{
    int client;

    (void)argument;
    while ((client = accept4(subscriber, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        pthread_t thread;

        if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)client) ==
            0) {
            pthread_detach(thread);
        }
    }
    return NULL;
}

int redis_wire_start(int port)
{
    struct sockaddr_in at = loopback(0);
    socklen_t size = sizeof at;
    pthread_t thread;

    server_port = port;
    subscriber = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(subscriber, (struct sockaddr *)&at, sizeof at) != 0 ||
        listen(subscriber, 64) != 0 ||
        getsockname(subscriber, (struct sockaddr *)&at, &size) != 0 ||
        pthread_create(&thread, NULL, listen_for_ever, NULL) != 0) {
        perror("wire");
        abort();
    }
    pthread_detach(thread);
    return ntohs(at.sin_port);
}

void redis_wire_set(enum redis_wire_fault which)
{
    fault = (int)which;
}
