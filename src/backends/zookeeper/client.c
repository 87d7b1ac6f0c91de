#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* NOLINTNEXTLINE(readability-function-size): the client library's signature */
void simba__zk_plain_watch(zhandle_t *handle,
                           int type,
                           int state,
                           const char *path,
                           void *context)
{
    struct simba__zk_plain *plain = context;

    (void)handle;
    (void)path;
    pthread_mutex_lock(&plain->lock);
    if (type == ZOO_SESSION_EVENT) {
        plain->state = state;
    } else {
        plain->events++;
    }
    pthread_cond_broadcast(&plain->changed);
    pthread_mutex_unlock(&plain->lock);
}

/* Waits a while; false when the time is up. */
static bool wait_a_while(struct simba__zk_plain *plain, int64_t until_ms)
{
    int64_t left = until_ms - simba_loop_now_ms();
    struct timespec at;

    if (left <= 0) {
        return false;
    }
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += left / 1000;
    at.tv_nsec += left % 1000 * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(&plain->changed, &plain->lock, &at);
    return true;
}

static bool await_connection(struct simba__zk_plain *plain, int64_t until_ms)
{
    bool is_in_time = true, is_connected;

    pthread_mutex_lock(&plain->lock);
    while (plain->state != ZOO_CONNECTED_STATE && is_in_time) {
        is_in_time = wait_a_while(plain, until_ms);
    }
    is_connected = plain->state == ZOO_CONNECTED_STATE;
    pthread_mutex_unlock(&plain->lock);
    return is_connected;
}

static void close_handle(struct simba__zk_plain *plain)
{
    if (plain->handle != NULL) {
        zookeeper_close(plain->handle);
    }
    plain->handle = NULL;
    plain->state = 0;
}

static bool make_handle(struct simba__zk_plain *plain,
                        const struct simba__zk_settings *settings,
                        unsigned first_host)
{
    char *hosts = simba__zk_hosts_from(settings->hosts, first_host);

    if (hosts != NULL) {
        plain->handle = simba__zk_handle_make(hosts, plain->timeout_ms,
                                              simba__zk_plain_watch, plain);
        free(hosts);
    }
    if (plain->handle != NULL && settings->auth != NULL) {
        zoo_add_auth(plain->handle, "digest", settings->auth,
                     (int)strlen(settings->auth), NULL, NULL);
    }
    return plain->handle != NULL;
}

/* As long as there is time, and each host for a while. */
static bool connect_any(struct simba__zk_plain *plain,
                        const struct simba__zk_settings *settings,
                        int64_t until_ms)
{
    unsigned first = (unsigned)simba_loop_now_ms();

    for (unsigned tried = 0; simba_loop_now_ms() < until_ms; tried++) {
        int64_t soon_ms =
            simba_loop_now_ms() +
            simba__zk_hosts_wait(settings->hosts, tried, plain->timeout_ms);

        if (!make_handle(plain, settings, first + tried)) {
            return false;
        }
        if (await_connection(plain, soon_ms < until_ms ? soon_ms : until_ms)) {
            return true;
        }
        close_handle(plain);
    }
    return false;
}

bool simba__zk_plain_open(struct simba__zk_plain *plain,
                          const struct simba__zk_settings *settings,
                          int64_t timeout_ms,
                          int64_t until_ms)
{
    pthread_condattr_t attributes;

    memset(plain, 0, sizeof *plain);
    plain->timeout_ms = timeout_ms;
    pthread_mutex_init(&plain->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&plain->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    if (!connect_any(plain, settings, until_ms)) {
        simba__zk_plain_close(plain);
        return false;
    }
    return true;
}

void simba__zk_plain_close(struct simba__zk_plain *plain)
{
    close_handle(plain);
    pthread_cond_destroy(&plain->changed);
    pthread_mutex_destroy(&plain->lock);
}

bool simba__zk_plain_await(struct simba__zk_plain *plain,
                           int events,
                           int64_t until_ms)
{
    bool is_in_time = true, is_done;

    pthread_mutex_lock(&plain->lock);
    while (plain->events < events && is_in_time) {
        is_in_time = wait_a_while(plain, until_ms);
    }
    is_done = plain->events >= events;
    pthread_mutex_unlock(&plain->lock);
    return is_done;
}

/* The client library's system calls: the linker gives it ours of these
 * functions instead of the system's (see sources.cmake). Its descriptors become
 * close-on-exec, and known, so that a forked child can close them; a write to a
 * closed connection raises no signal; and a numeric address is not looked up,
 * for the resolver has locks, and a process that forks while its thread holds
 * them leaves them locked in the child. */

enum { FDS_MOST = 1024 };

/* Descriptors plus one, so that 0 is a free slot. No lock: a forked child must
 * be able to read it, whatever the parent's threads were doing. */
static _Atomic int fds[FDS_MOST];

static void remember_fd(int fd)
{
    for (int i = 0; fd >= 0 && i < FDS_MOST; i++) {
        int none = 0;

        if (atomic_compare_exchange_strong(&fds[i], &none, fd + 1)) {
            return;
        }
    }
}

static void forget_fd(int fd)
{
    for (int i = 0; i < FDS_MOST; i++) {
        int known = fd + 1;

        if (atomic_compare_exchange_strong(&fds[i], &known, 0)) {
            return;
        }
    }
}

void simba__zk_fds_close(void)
{
    for (int i = 0; i < FDS_MOST; i++) {
        int known = atomic_exchange(&fds[i], 0);

        if (known != 0) {
            close(known - 1);
        }
    }
}

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): the
 * linker's names. */
int __real_socket(int domain, int type, int protocol);
int __real_close(int fd);
ssize_t __real_send(int fd, const void *data, size_t size, int flags);
int __real_getaddrinfo(const char *host,
                       const char *port,
                       const struct addrinfo *wakes,
                       struct addrinfo **found);
int __wrap_socket(int domain, int type, int protocol);
int __wrap_pipe(int ends[2]);
int __wrap_close(int fd);
ssize_t __wrap_send(int fd, const void *data, size_t size, int flags);
int __wrap_getaddrinfo(const char *host,
                       const char *port,
                       const struct addrinfo *wakes,
                       struct addrinfo **found);

int __wrap_socket(int domain, int type, int protocol)
{
    int fd = __real_socket(domain, type | SOCK_CLOEXEC, protocol);

    remember_fd(fd);
    return fd;
}

int __wrap_pipe(int ends[2])
{
    int rc = pipe2(ends, O_CLOEXEC);

    if (rc == 0) {
        remember_fd(ends[0]);
        remember_fd(ends[1]);
    }
    return rc;
}

int __wrap_close(int fd)
{
    forget_fd(fd);
    return __real_close(fd);
}

ssize_t __wrap_send(int fd, const void *data, size_t size, int flags)
{
    return __real_send(fd, data, size, flags | MSG_NOSIGNAL);
}

/* The client library looks up an IPv6 address with the brackets of the URL. */
static const char *without_brackets(const char *host,
                                    char bare[INET6_ADDRSTRLEN])
{
    size_t length = host == NULL ? 0 : strlen(host);

    if (length < 2 || length - 2 >= INET6_ADDRSTRLEN || host[0] != '[' ||
        host[length - 1] != ']') {
        return host;
    }
    memcpy(bare, host + 1, length - 2);
    bare[length - 2] = '\0';
    return bare;
}

int __wrap_getaddrinfo(const char *host,
                       const char *port,
                       const struct addrinfo *wakes,
                       struct addrinfo **found)
{
    struct addrinfo numeric = {0};
    char bare[INET6_ADDRSTRLEN];
    int rc;

    if (wakes != NULL) {
        numeric = *wakes;
    }
    host = without_brackets(host, bare);
    numeric.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    rc = __real_getaddrinfo(host, port, &numeric, found);
    return rc == 0 ? 0 : __real_getaddrinfo(host, port, wakes, found);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
