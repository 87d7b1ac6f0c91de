#define _GNU_SOURCE
#include "proxy.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LINKS_MOST = 64, CHUNK = 16384 };

/* One connection: [0] is who came, [1] the target. */
struct link {
    int ends[2];            /* -1: free */
    unsigned char head[12]; /* of the request that passes */
    uint32_t filled, rest;  /* bytes of the head, and those behind it */
    bool is_greeted;
};

struct proxy {
    pthread_t thread;
    int subscriber, wake, port, target;
    struct link links[LINKS_MOST]; /* the thread's own */
    _Atomic bool hold[2];          /* what comes from ends[i] */
    _Atomic int trap;              /* a kind of request, or 0 */
    _Atomic bool is_cutting, is_ending;
};

static struct sockaddr_in loopback(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port)};

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static void unlink_pair(struct link *link)
{
    for (int i = 0; i < 2; i++) {
        if (link->ends[i] >= 0) {
            close(link->ends[i]);
            link->ends[i] = -1;
        }
    }
}

/* What comes in pieces is passed on in pieces: a kernel that waits for more
 * waits for the other's delayed acknowledgement, 40 ms for each. */
static void send_at_once(int fd)
{
    int one = 1;

    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0) {
        abort();
    }
}

static void take_in(struct proxy *proxy)
{
    struct sockaddr_in target = loopback(proxy->target);
    int from = accept4(proxy->subscriber, NULL, NULL, SOCK_CLOEXEC);
    int to = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    for (int i = 0; from >= 0 && to >= 0 && i < LINKS_MOST; i++) {
        if (proxy->links[i].ends[0] < 0 &&
            connect(to, (struct sockaddr *)&target, sizeof target) == 0) {
            send_at_once(from);
            send_at_once(to);
            proxy->links[i] = (struct link){.ends = {from, to}};
            return;
        }
    }
    close(from);
    close(to);
}

/* Requests begin with their length, number and kind, of four bytes each; the
 * first of a connection, a greeting, has no kind. */
static uint32_t number_at(const unsigned char *bytes)
{
    uint32_t number;

    memcpy(&number, bytes, sizeof number);
    return ntohl(number);
}

/* Once the kind that is waited for has come, nothing is answered any more. */
static void spring(struct proxy *proxy, struct link *link)
{
    uint32_t kind = number_at(link->head + 8);
    int trap = atomic_load(&proxy->trap);

    if (link->is_greeted && trap != 0 && kind == (uint32_t)trap) {
        atomic_store(&proxy->hold[1], true);
        atomic_store(&proxy->trap, 0);
    }
    link->is_greeted = true;
}

static void follow(struct proxy *proxy,
                   struct link *link,
                   const char *data,
                   ssize_t count)
{
    for (ssize_t i = 0; i < count; i++) {
        if (link->rest > 0) {
            link->rest--;
            continue;
        }
        link->head[link->filled++] = (unsigned char)data[i];
        if (link->filled == sizeof link->head) {
            link->filled = 0;
            link->rest = number_at(link->head) - 8;
            spring(proxy, link);
        }
    }
}

/* Blocking writes: the tests hold at the reading side. */
static void pass(struct proxy *proxy, struct link *link, int from)
{
    char data[CHUNK];
    ssize_t count = recv(link->ends[from], data, sizeof data, 0);
    ssize_t done = 0;

    if (from == 0) {
        follow(proxy, link, data, count);
    }

    while (count > 0 && done < count) {
        ssize_t sent = send(link->ends[1 - from], data + done,
                            (size_t)(count - done), MSG_NOSIGNAL);
        if (sent < 0) {
            count = -1;
            break;
        }
        done += sent;
    }
    if (count <= 0) {
        unlink_pair(link);
    }
}

static void quiet(const struct proxy *proxy)
{
    uint64_t count;

    if (read(proxy->wake, &count, sizeof count) < 0) {
        assert(errno == EAGAIN);
    }
}

static bool cut(struct proxy *proxy)
{
    if (!atomic_exchange(&proxy->is_cutting, false)) {
        return false;
    }
    for (int i = 0; i < LINKS_MOST; i++) {
        unlink_pair(&proxy->links[i]);
    }
    return true;
}

static void turn(struct proxy *proxy)
{
    struct pollfd set[2 + 2 * LINKS_MOST];

    set[0] = (struct pollfd){.fd = proxy->wake, .events = POLLIN};
    set[1] = (struct pollfd){.fd = proxy->subscriber, .events = POLLIN};
    for (int i = 0; i < 2 * LINKS_MOST; i++) {
        bool is_held = atomic_load(&proxy->hold[i % 2]);
        int fd = proxy->links[i / 2].ends[i % 2];

        set[2 + i] = (struct pollfd){.fd = is_held ? -1 : fd, .events = POLLIN};
    }
    /* Only now: who cuts and then lets go on means to lose what was held. */
    if (cut(proxy)) {
        return;
    }
    poll(set, 2 + 2 * LINKS_MOST, -1);
    for (int i = 0; i < 2 * LINKS_MOST; i++) {
        if (set[2 + i].revents != 0 && set[2 + i].fd >= 0 &&
            proxy->links[i / 2].ends[i % 2] == set[2 + i].fd) {
            pass(proxy, &proxy->links[i / 2], i % 2);
        }
    }
    if (set[1].revents != 0) {
        take_in(proxy);
    }
    quiet(proxy);
}

static void *run(void *argument)
{
    struct proxy *proxy = argument;

    while (!atomic_load(&proxy->is_ending)) {
        turn(proxy);
    }
    for (int i = 0; i < LINKS_MOST; i++) {
        unlink_pair(&proxy->links[i]);
    }
    return NULL;
}

struct proxy *proxy_open(int target_port)
{
    struct proxy *proxy = calloc(1, sizeof *proxy);
    struct sockaddr_in address = loopback(0);
    socklen_t length = sizeof address;

    assert(proxy != NULL);
    for (int i = 0; i < LINKS_MOST; i++) {
        proxy->links[i] = (struct link){.ends = {-1, -1}};
    }
    proxy->target = target_port;
    proxy->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    proxy->subscriber = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(proxy->subscriber, (struct sockaddr *)&address, length) != 0 ||
        listen(proxy->subscriber, LINKS_MOST) != 0 ||
        getsockname(proxy->subscriber, (struct sockaddr *)&address, &length) !=
            0 ||
        pthread_create(&proxy->thread, NULL, run, proxy) != 0) {
        abort();
    }
    proxy->port = ntohs(address.sin_port);
    return proxy;
}

int proxy_port(const struct proxy *proxy)
{
    return proxy->port;
}

static void wake(struct proxy *proxy)
{
    uint64_t one = 1;

    if (write(proxy->wake, &one, sizeof one) < 0) {
        assert(errno == EAGAIN);
    }
}

void proxy_hold(struct proxy *proxy, bool forth, bool back)
{
    atomic_store(&proxy->hold[0], forth);
    atomic_store(&proxy->hold[1], back);
    wake(proxy);
}

void proxy_trap(struct proxy *proxy, int kind)
{
    atomic_store(&proxy->trap, kind);
}

bool proxy_has_sprung(const struct proxy *proxy)
{
    return atomic_load(&proxy->trap) == 0;
}

void proxy_cut(struct proxy *proxy)
{
    atomic_store(&proxy->is_cutting, true);
    wake(proxy);
}

void proxy_close(struct proxy *proxy)
{
    if (proxy == NULL) {
        return;
    }
    atomic_store(&proxy->is_ending, true);
    wake(proxy);
    pthread_join(proxy->thread, NULL);
    close(proxy->subscriber);
    close(proxy->wake);
    free(proxy);
}
