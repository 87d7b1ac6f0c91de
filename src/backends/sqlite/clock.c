/* By what the store's clock counts: the machine's boot clock, the same for all
 * its processes. Steps of the wall clock do nothing to it, and it runs during a
 * suspend. It means nothing after a reboot, so every row names its boot. */
#define _GNU_SOURCE
#include "backends/sqlite/sqlite.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
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

int simba__sqlite_clock_init(struct simba__sqlite *self, simba_error *error)
{
    static const char key[] = "boottime";
    char text[256], own[64], next[64];
    long long seconds, nanoseconds;
    const char *line;
    ssize_t n, m;

    /* The offsets that the kernel shows are those of the namespace our children
     * will be in. Between unshare() and fork() that is not ours. */
    n = readlink("/proc/self/ns/time", own, sizeof own);
    m = readlink("/proc/self/ns/time_for_children", next, sizeof next);
    if (n > 0 && m > 0 && (n != m || memcmp(own, next, (size_t)n) != 0)) {
        return simba_error_set(error, SIMBA_EMISCONFIG, 0,
                               "sqlite %s: this process has unshared its time "
                               "namespace; open the store in a child",
                               self->settings.shown);
    }
    /* Processes of one machine may live in several time namespaces, each with
     * its own idea of the boot clock. What they have in common is the clock
     * without the offset. A kernel without such namespaces has no such file. */
    self->clock_offset_ns = 0;
    if (slurp("/proc/self/timens_offsets", text, sizeof text) > 0) {
        line = strstr(text, key);
        /* NOLINTNEXTLINE(cert-err34-c): the kernel writes numbers that fit */
        if (line != NULL && sscanf(line + sizeof key - 1, "%lld %lld", &seconds,
                                   &nanoseconds) == 2) {
            self->clock_offset_ns = seconds * 1000000000 + nanoseconds;
        }
    }
    if (slurp("/proc/sys/kernel/random/boot_id", text, sizeof text) <
        SIMBA__SQLITE_BOOT) {
        return simba__sqlite_fail_errno(
            &self->settings, "cannot read the boot id from /proc", error);
    }
    memcpy(self->boot, text, SIMBA__SQLITE_BOOT);
    self->boot[SIMBA__SQLITE_BOOT] = '\0';
    return SIMBA_OK;
}
