/* The clock of an SQLite store; see clock.h.
 *
 * Steps of the wall clock do nothing to it, and it runs during a suspend. It
 * means nothing after a reboot, so every row says by which boot it counts. */
#define _GNU_SOURCE
#include "backends/sqlite/clock.h"

#include "backends/sqlite/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Reads a small file of the kernel's; returns its length or -1. */
static ssize_t slurp(const char *path, char *text, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length;

    if (fd < 0) {
        return -1;
    }
    length = read(fd, text, room - 1);
    close(fd);
    text[length > 0 ? length : 0] = '\0';
    return length;
}

static int read_boot(struct simba__sqlite_clock *clock,
                     const struct simba__sqlite_settings *settings,
                     simba_error *error)
{
    char text[64];

    if (slurp("/proc/sys/kernel/random/boot_id", text, sizeof text) <
        SIMBA__SQLITE_BOOT) {
        return SIMBA__SQLITE_FAIL(settings, error,
                                  simba__sqlite_file_status(errno), errno,
                                  "cannot read the boot id from /proc: %s",
                                  simba__sqlite_file_words(errno));
    }
    memcpy(clock->boot, text, SIMBA__SQLITE_BOOT);
    clock->boot[SIMBA__SQLITE_BOOT] = '\0';
    return SIMBA_OK;
}

/* The offsets that the kernel shows are those of the namespace our children
 * will be in. Between unshare() and fork() that is not ours. */
static bool is_unshared(void)
{
    char own[64], next[64];
    ssize_t n = readlink("/proc/self/ns/time", own, sizeof own);
    ssize_t m = readlink("/proc/self/ns/time_for_children", next, sizeof next);

    return n > 0 && m > 0 && (n != m || memcmp(own, next, (size_t)n) != 0);
}

/* Processes of one machine may live in several time namespaces, each with its
 * own idea of the boot clock. What they have in common is the clock without
 * the offset. A kernel that has no such namespaces has no such file. */
static int64_t read_offset_ns(void)
{
    static const char key[] = "boottime";
    char text[256];
    const char *line;
    long long seconds, nanoseconds;

    if (slurp("/proc/self/timens_offsets", text, sizeof text) <= 0) {
        return 0;
    }
    line = strstr(text, key);
    /* NOLINTNEXTLINE(cert-err34-c): the kernel writes numbers that fit */
    if (line == NULL || sscanf(line + sizeof key - 1, "%lld %lld", &seconds,
                               &nanoseconds) != 2) {
        return 0;
    }
    return seconds * 1000000000 + nanoseconds;
}

int simba__sqlite_clock_init(struct simba__sqlite_clock *clock,
                             const struct simba__sqlite_settings *settings,
                             simba_error *error)
{
    if (is_unshared()) {
        return SIMBA__SQLITE_FAIL(settings, error, SIMBA_EMISCONFIG, 0,
                                  "this process has unshared its time "
                                  "namespace; open the store in a child");
    }
    clock->offset_ns = read_offset_ns();
    return read_boot(clock, settings, error);
}

int64_t simba__sqlite_clock_now_ms(const struct simba__sqlite_clock *clock)
{
    struct timespec now;
    int64_t ns;

    clock_gettime(CLOCK_BOOTTIME, &now);
    ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - clock->offset_ns;
    return ns / 1000000;
}

uint64_t simba__sqlite_clock_wall_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec < 0
               ? 0
               : (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}
