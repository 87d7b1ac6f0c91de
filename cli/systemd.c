/* Telling systemd how the service is: datagrams to $NOTIFY_SOCKET, as in
 * sd_notify(3). The front speaks, as it is the main process of the unit. */
#define _GNU_SOURCE
#include "cli/clock.h"
#include "cli/front.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    FEEDS = 2, /* in a watchdog's time, as sd_watchdog_enabled(3) says */
    BEAT_MOST_MS = 2000 /* a guardian that is well ran since, at least */
};

static void tell(const char *text)
{
    const char *name = secure_getenv("NOTIFY_SOCKET");
    size_t length = name == NULL ? 0 : strlen(name);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    ssize_t ignored;
    int end;

    /* Names in a file system and abstract ones; others are no sockets of ours.
     */
    if (length < 2 || length >= sizeof address.sun_path ||
        (name[0] != '/' && name[0] != '@')) {
        return;
    }
    memcpy(address.sun_path, name, length);
    address.sun_path[0] = (char)(name[0] == '@' ? '\0' : '/');
    end = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (end >= 0) {
        /* Who does not listen is not waited for. */
        ignored = sendto(
            end, text, strlen(text), MSG_NOSIGNAL,
            (const struct sockaddr *)&address,
            (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
        (void)ignored;
        (void)close(end);
    }
}

static bool is_used(const struct simba__front *front)
{
    return front->job->kind != SIMBA__JOB_LOCK; /* there CMD may use it */
}

static void tell_status(const struct simba__front *front,
                        const char *what,
                        uint64_t token)
{
    char text[512], number[32] = "";

    if (token != 0) {
        (void)snprintf(number, sizeof number, ", token %" PRIu64, token);
    }
    (void)snprintf(text, sizeof text, "STATUS=%s '%s'%s", what,
                   front->job->mutex, number);
    tell(text);
}

void simba__systemd_begin(struct simba__front *front)
{
    const char *usec = secure_getenv("WATCHDOG_USEC");
    const char *pid = secure_getenv("WATCHDOG_PID");
    long long value = usec == NULL ? 0 : strtoll(usec, NULL, 10);

    if (!is_used(front)) {
        return;
    }
    /* The watchdog may be another process's. */
    if (value > 0 && (pid == NULL || strtol(pid, NULL, 10) == (long)getpid())) {
        front->feed_every_ms = value / 1000 / FEEDS;
        front->job->is_watched = true;
    }
    tell_status(front, "stands by for", 0);
    if (front->job->is_ready_early) {
        tell("READY=1");
    }
}

void simba__systemd_note(const struct simba__front *front,
                         const struct simba__note *note)
{
    if (!is_used(front)) {
        return;
    }
    switch (note->kind) {
    case SIMBA__NOTE_ACQUIRED:
        tell_status(front, "leads", note->token);
        tell("READY=1");
        break;
    case SIMBA__NOTE_LOST:
    case SIMBA__NOTE_RELEASED:
        tell_status(front, "stands by for", 0);
        break;
    default:
        break;
    }
}

void simba__systemd_end(struct simba__front *front)
{
    if (is_used(front) && !front->is_stopping) {
        front->is_stopping = true;
        tell("STOPPING=1");
    }
}

int64_t simba__systemd_next(const struct simba__front *front)
{
    return front->feed_every_ms == 0 ? SIMBA__CLOCK_NEVER
                                     : front->fed_ms + front->feed_every_ms;
}

void simba__systemd_feed(struct simba__front *front)
{
    const struct simba__share *share = front->share;
    int64_t now_ms = simba__clock_ms();

    if (now_ms < simba__systemd_next(front)) {
        return;
    }
    front->fed_ms = now_ms; /* also when it gets nothing */
    /* The guardian runs, and does not let CMD run beyond its time. */
    if (now_ms - atomic_load(&share->beat_ms) < BEAT_MOST_MS &&
        (atomic_load(&share->phase) != SIMBA__RUNNING ||
         now_ms < atomic_load(&share->use_until_ms))) {
        tell("WATCHDOG=1");
    }
}
