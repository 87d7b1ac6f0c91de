/* A floor that looks for replies before it sleeps, as ours does: client
 * libraries wait by poll(2) and recv(2), which are taken over here for the
 * whole program. */
#define _GNU_SOURCE
#include "bench/bench.h"

#include <simba/export.h>

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_NS = 100000 };

static _Atomic bool is_spinning;

void simba__floor_spin(bool is_on)
{
    atomic_store(&is_spinning, is_on);
}

static int64_t look_until(bool waits)
{
    return waits && atomic_load(&is_spinning) ? simba__bench_now_ns() + LOOK_NS
                                              : 0;
}

SIMBA_API int poll(struct pollfd *set, nfds_t count, int timeout_ms)
{
    struct timespec limit = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
    int64_t until_ns = look_until(timeout_ms != 0);
    int ready = 0;

    while (ready == 0 && until_ns != 0 && simba__bench_now_ns() < until_ns) {
        ready = ppoll(set, count, &(struct timespec){0, 0}, NULL);
    }
    return ready != 0 ? ready
                      : ppoll(set, count, timeout_ms < 0 ? NULL : &limit, NULL);
}

/* As recv(2); nothing came in that time, or it is no socket: is_nothing(). */
static ssize_t look(int fd, void *room, size_t size, int flags)
{
    int64_t until_ns = look_until((flags & MSG_DONTWAIT) == 0);
    ssize_t got = -1;

    errno = EAGAIN;
    while (got < 0 && errno == EAGAIN && until_ns != 0 &&
           simba__bench_now_ns() < until_ns) {
        got = recvfrom(fd, room, size, flags | MSG_DONTWAIT, NULL, NULL);
    }
    return got;
}

static bool is_nothing(ssize_t got)
{
    return got < 0 && (errno == EAGAIN || errno == ENOTSOCK);
}

SIMBA_API ssize_t recv(int fd, void *room, size_t size, int flags)
{
    ssize_t got = look(fd, room, size, flags);

    return is_nothing(got) ? recvfrom(fd, room, size, flags, NULL, NULL) : got;
}

SIMBA_API ssize_t read(int fd, void *room, size_t size)
{
    struct iovec into = {room, size};
    ssize_t got = look(fd, room, size, 0);

    return is_nothing(got) ? readv(fd, &into, 1) : got;
}
