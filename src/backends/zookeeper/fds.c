/* The client library's system calls: the linker gives it ours of these
 * functions instead of the system's (see sources.cmake). Its descriptors become
 * close-on-exec, and known, so that a forked child can close them; a write to a
 * closed connection raises no signal; and a numeric address is not looked up,
 * for the resolver has locks, and a process that forks while its thread holds
 * them leaves them locked in the child. */
#define _GNU_SOURCE
#include "backends/zookeeper/instance.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FDS_MOST = 1024 };

/* Descriptors plus one, so that 0 is a free slot. No lock: a forked child must
 * be able to read it, whatever the parent's threads were doing. */
static _Atomic int fds[FDS_MOST];

static void remember(int fd)
{
    for (int i = 0; fd >= 0 && i < FDS_MOST; i++) {
        int none = 0;

        if (atomic_compare_exchange_strong(&fds[i], &none, fd + 1)) {
            return;
        }
    }
}

static void forget(int fd)
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

    remember(fd);
    return fd;
}

int __wrap_pipe(int ends[2])
{
    int rc = pipe2(ends, O_CLOEXEC);

    if (rc == 0) {
        remember(ends[0]);
        remember(ends[1]);
    }
    return rc;
}

int __wrap_close(int fd)
{
    forget(fd);
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
