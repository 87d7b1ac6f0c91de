/* A ZooKeeper server acted by the test: a few nodes of one mutex, sessions, and
 * faults that real servers have once in a year. */
#ifndef TESTS_BACKENDS_ZOOKEEPER_ACTED_SERVER_H
#define TESTS_BACKENDS_ZOOKEEPER_ACTED_SERVER_H

#include "backends/zookeeper/zookeeper.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MUTEX       "m"
#define TTL         2500
#define LEASE       4000
#define WAITER_MS   (2 * LEASE)
#define PATIENCE_MS 20000
#define ANSWER_MS   PATIENCE_MS
#define MAY_PASS(status)                                                       \
    ((status) == SIMBA_EUNAVAIL || (status) == SIMBA_EUNKNOWN)
#include "fixtures/contenders.h"

enum { LINKS_MOST = 8, NODES_MOST = 8, KINDS = 128, ROOM = 1 << 16 };

/* What is answered to requests of a kind; those within a multi have their own.
 */
struct lie {
    int op, rc, times; /* -1: always; `op` -1: all but pings */
};

static struct acted {
    pthread_t thread;
    pthread_mutex_t lock; /* of all that follows */
    int listener, port;
    bool is_ending;
    struct {
        int fd; /* 0: free */
        int64_t session;
        size_t length;
        char bytes[ROOM];
    } links[LINKS_MOST];
    struct {
        char name[SIMBA__ZK_NODE_SIZE];
        int64_t session, czxid;
    } nodes[NODES_MOST];
    int node_count;
    int32_t sequence; /* of the next node */
    int64_t zxid, session /* the last */;
    int connections, asked[KINDS]; /* so many came */

    /* What the test may set. */
    int timeout_ms; /* granted to who asks for a session */
    bool is_mute;   /* answers greetings only */
    bool is_full;   /* hangs up on new connections */
    struct lie lie;
    int cut;                 /* carries this kind out, and hangs up; once */
    int hold;                /* keeps the reply to the next of this kind */
    struct simba__text held; /* ... and sends it after the next reply */
} acted;

static struct handle first;

/* --- packets ------------------------------------------------------------- */

static inline void acted_send(int fd, struct simba__text *out)
{
    simba__zk_put_length(out, 0);
    (void)send(fd, out->bytes, out->length, MSG_NOSIGNAL);
    simba__text_fini(out);
}

static inline void acted_hang_up(int i)
{
    close(acted.links[i].fd);
    acted.links[i].fd = 0;
}

static inline void acted_greet(int i, simba__zk_input *in)
{
    struct simba__text out = {0};

    (void)simba__zk_get_int(in);
    (void)simba__zk_get_long(in);
    (void)simba__zk_get_int(in);
    acted.links[i].session = simba__zk_get_long(in);
    if (acted.links[i].session == 0) {
        acted.links[i].session = ++acted.session;
    }
    simba__zk_put_long(&out, 0);
    simba__zk_put_int(&out, acted.timeout_ms);
    simba__zk_put_long(&out, acted.links[i].session);
    simba__zk_put_bytes(&out, "abcdefghijklmnop", SIMBA__ZK_PASSWORD);
    simba__text_add(&out, "", 1);
    acted_send(acted.links[i].fd, &out);
}

static inline void acted_put_stat(struct simba__text *out, int node)
{
    bool is_node = node >= 0;

    simba__zk_put_long(out, is_node ? acted.nodes[node].czxid : 1);
    simba__zk_put_long(out, 1); /* mzxid */
    simba__zk_put_long(out, 1);
    simba__zk_put_long(out, 1); /* mtime */
    simba__zk_put_int(out, 0);
    simba__zk_put_int(out, acted.sequence); /* cversion */
    simba__zk_put_int(out, 0);
    simba__zk_put_long(out, is_node ? acted.nodes[node].session : 0);
    simba__zk_put_int(out, 0);
    simba__zk_put_int(out, is_node ? 0 : acted.node_count);
    simba__zk_put_long(out, 1); /* pzxid */
}

/* --- nodes --------------------------------------------------------------- */

/* The last element of a path is the node of a latch, or none. */
static inline int acted_find(const char *path)
{
    const char *name = strrchr(path, '/') + 1;

    for (int i = 0; i < acted.node_count; i++) {
        if (strcmp(acted.nodes[i].name, name) == 0) {
            return i;
        }
    }
    return strstr(name, "latch-") == NULL ? -1 : -2;
}

static inline void acted_make(const char *prefix, int64_t session)
{
    int i = acted.node_count++;

    snprintf(acted.nodes[i].name, sizeof acted.nodes[i].name, "%s%010d",
             strrchr(prefix, '/') + 1, (int)acted.sequence);
    acted.sequence = (int32_t)((uint32_t)acted.sequence + 1);
    acted.nodes[i].session = session;
    acted.nodes[i].czxid = ++acted.zxid;
}

static inline int acted_lie(int op)
{
    struct lie *lie = &acted.lie;

    if ((lie->op == op || (lie->op == -1 && op != SIMBA__ZK_PING)) &&
        lie->times != 0) {
        lie->times -= lie->times > 0;
        return lie->rc;
    }
    return SIMBA__ZK_OK;
}

static inline void acted_get_path(simba__zk_input *in, char path[512])
{
    int length;
    const char *bytes = simba__zk_get_bytes(in, &length);

    snprintf(path, 512, "%.*s", length, bytes == NULL ? "" : bytes);
}

/* Of checks only. */
static inline void acted_multi(simba__zk_input *in, struct simba__text *out)
{
    char path[512];
    int rc;

    while (simba__zk_get_int(in) == SIMBA__ZK_CHECK) {
        in->at += 5;
        in->left -= 5;
        acted_get_path(in, path);
        (void)simba__zk_get_int(in);
        rc = acted_lie(SIMBA__ZK_CHECK);
        rc = rc == 0 && acted_find(path) == -2 ? SIMBA__ZK_NO_NODE : rc;
        simba__zk_put_int(out, rc == 0 ? SIMBA__ZK_CHECK : -1);
        simba__text_add(out, "", 1);
        simba__zk_put_int(out, rc);
        if (rc != 0) {
            simba__zk_put_int(out, rc);
        }
    }
    simba__text_add(out, "\377\377\377\377\1\377\377\377\377", 9);
}

/* Returns the code. */
static inline int acted_carry_out(int op,
                                  int64_t session,
                                  simba__zk_input *in,
                                  struct simba__text *out)
{
    char path[512] = "/";
    int node, rc = acted_lie(op);

    if (rc != 0 || op == SIMBA__ZK_PING || op == SIMBA__ZK_CLOSE) {
        return rc;
    }
    if (op == SIMBA__ZK_MULTI) {
        acted_multi(in, out);
        return SIMBA__ZK_OK;
    }
    acted_get_path(in, path);
    if (op == SIMBA__ZK_CREATE2) {
        acted_make(path, session);
        node = acted.node_count - 1;
        snprintf(strrchr(path, '/'), 128, "/%s", acted.nodes[node].name);
        simba__zk_put_bytes(out, path, strlen(path));
        acted_put_stat(out, node);
        return SIMBA__ZK_OK;
    }
    node = acted_find(path);
    if (node == -2) {
        return SIMBA__ZK_NO_NODE;
    }
    if (op == SIMBA__ZK_DELETE && node >= 0) {
        acted.nodes[node] = acted.nodes[--acted.node_count];
    } else if (op == SIMBA__ZK_GET_DATA) {
        simba__zk_put_bytes(out, "somebody", 8);
        acted_put_stat(out, node);
    } else if (op == SIMBA__ZK_GET_CHILDREN) {
        simba__zk_put_int(out, acted.node_count);
        for (int i = 0; i < acted.node_count; i++) {
            simba__zk_put_bytes(out, acted.nodes[i].name,
                                strlen(acted.nodes[i].name));
        }
        acted_put_stat(out, -1);
    } else if (op == SIMBA__ZK_EXISTS) {
        acted_put_stat(out, node);
    } else if (op == SIMBA__ZK_GET_ACL) {
        simba__zk_put_int(out, 0);
    }
    return SIMBA__ZK_OK;
}

static inline void acted_answer(int i, simba__zk_input *in)
{
    int xid = simba__zk_get_int(in), op = simba__zk_get_int(in), rc;
    struct simba__text body = {0}, out = {0};

    acted.asked[op < 0 ? 0 : op]++;
    if (acted.is_mute) {
        return;
    }
    rc = acted_carry_out(op, acted.links[i].session, in, &body);
    simba__zk_put_int(&out, 0);
    simba__zk_put_int(&out, op == SIMBA__ZK_PING ? SIMBA__ZK_XID_PING : xid);
    simba__zk_put_long(&out, ++acted.zxid);
    simba__zk_put_int(&out, rc);
    if (body.length > 0) {
        simba__text_add(&out, body.bytes, body.length);
    }
    simba__text_fini(&body);
    if (op == acted.cut) {
        acted.cut = 0;
        simba__text_fini(&out);
        acted_hang_up(i);
    } else if (op == acted.hold) {
        acted.hold = 0;
        acted.held = out;
    } else {
        acted_send(acted.links[i].fd, &out);
        if (acted.held.length > 0) {
            acted_send(acted.links[i].fd, &acted.held);
        }
    }
}

/* --- connections --------------------------------------------------------- */

static inline void acted_hear(int i)
{
    ssize_t count =
        recv(acted.links[i].fd, acted.links[i].bytes + acted.links[i].length,
             ROOM - acted.links[i].length, 0);

    if (count <= 0) {
        acted_hang_up(i);
        return;
    }
    acted.links[i].length += (size_t)count;
    while (acted.links[i].fd != 0 && acted.links[i].length >= 4) {
        simba__zk_input in = {acted.links[i].bytes, ROOM, false};
        size_t length = 4 + (size_t)simba__zk_get_int(&in);

        if (length > acted.links[i].length) {
            break;
        }
        in.left = length - 4;
        if (acted.links[i].session == 0) {
            acted_greet(i, &in);
        } else {
            acted_answer(i, &in);
        }
        acted.links[i].length -= length;
        memmove(acted.links[i].bytes, acted.links[i].bytes + length,
                acted.links[i].length);
    }
}

static inline void acted_take_in(void)
{
    int fd = accept(acted.listener, NULL, NULL);

    acted.connections++;
    for (int i = 0; !acted.is_full && i < LINKS_MOST; i++) {
        if (acted.links[i].fd == 0) {
            acted.links[i].fd = fd;
            acted.links[i].length = 0;
            acted.links[i].session = 0;
            return;
        }
    }
    close(fd);
}

static inline void *acted_serve(void *argument)
{
    struct pollfd set[LINKS_MOST + 1];
    bool is_ending = false;

    while (!is_ending) {
        for (int i = 0; i <= LINKS_MOST; i++) { /* its own, but for shutdown */
            int fd = i == LINKS_MOST ? acted.listener : acted.links[i].fd;

            set[i] = (struct pollfd){.fd = fd == 0 ? -1 : fd, .events = POLLIN};
        }
        (void)poll(set, LINKS_MOST + 1, 5);
        pthread_mutex_lock(&acted.lock);
        for (int i = 0; i < LINKS_MOST; i++) {
            if (set[i].revents != 0 && acted.links[i].fd == set[i].fd) {
                acted_hear(i);
            }
        }
        if (set[LINKS_MOST].revents != 0) {
            acted_take_in();
        }
        is_ending = acted.is_ending;
        pthread_mutex_unlock(&acted.lock);
    }
    return argument;
}

/* --- what a test does ---------------------------------------------------- */

#define WITH_ACTED(...)                                                        \
    do {                                                                       \
        pthread_mutex_lock(&acted.lock);                                       \
        __VA_ARGS__;                                                           \
        pthread_mutex_unlock(&acted.lock);                                     \
    } while (0)

static inline void acted_cut(void)
{
    WITH_ACTED(for (int i = 0; i < LINKS_MOST; i++) {
        if (acted.links[i].fd != 0) {
            (void)shutdown(acted.links[i].fd, SHUT_RDWR);
        }
    });
}

/* A number that the server thread changes. */
static inline int acted_sees(const int *number)
{
    int value;

    WITH_ACTED(value = *number);
    return value;
}

static inline int start_acting(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    char url[64];

    (void)state;
    memset(&acted, 0, sizeof acted);
    acted.timeout_ms = LEASE;
    acted.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(acted.listener, (struct sockaddr *)&address, size),
                     0);
    assert_int_equal(listen(acted.listener, 64), 0);
    assert_int_equal(
        getsockname(acted.listener, (struct sockaddr *)&address, &size), 0);
    assert_int_equal(pthread_mutex_init(&acted.lock, NULL), 0);
    assert_int_equal(pthread_create(&acted.thread, NULL, acted_serve, NULL), 0);
    snprintf(url, sizeof url, "//127.0.0.1:%d", ntohs(address.sin_port));
    assert_int_equal(handle_open(&first, &simba_module, url, &why), SIMBA_OK);
    return 0;
}

static inline int stop_acting(void **state)
{
    (void)state;
    WITH_ACTED(acted.is_full = false; acted.is_mute = false;
               acted.lie.times = 0);
    handle_close(&first);
    WITH_ACTED(acted.is_ending = true);
    pthread_join(acted.thread, NULL);
    for (int i = 0; i < LINKS_MOST; i++) {
        if (acted.links[i].fd != 0) {
            acted_hang_up(i);
        }
    }
    close(acted.listener);
    simba__text_fini(&acted.held);
    pthread_mutex_destroy(&acted.lock);
    return 0;
}

#define ACTED_TEST(test) TEST_AROUND(test, start_acting, stop_acting)

#endif
