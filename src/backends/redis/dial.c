/* Sockets: made, tuned, connected, one address after the other. */
#define _GNU_SOURCE
#include "backends/redis/conn.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

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
