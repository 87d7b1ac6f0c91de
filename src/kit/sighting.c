/* What was seen of an owner, and by which clock. See
 * simba/sys/session_store.h. */
#define _GNU_SOURCE
#include <simba/sys/session_store.h>

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BOOT_ID = 36 };

void simba_sighting_note(simba_sighting *sighting,
                         int64_t owner,
                         int64_t beat,
                         int64_t now_ms)
{
    if (sighting->owner != owner || sighting->beat != beat) {
        *sighting = (simba_sighting){owner, beat, now_ms};
    }
}

int64_t simba_sighting_left_ms(const simba_sighting *sighting,
                               int64_t owner,
                               int64_t lease_ms,
                               int64_t now_ms)
{
    bool is_seen = sighting->owner == owner && sighting->beat >= 0;

    return lease_ms + SIMBA_SIGHTING_MARGIN_MS -
           (is_seen ? now_ms - sighting->since_ms : 0);
}

void simba_sighting_write(const simba_sighting *sighting,
                          char text[SIMBA_SIGHTING_TEXT])
{
    snprintf(text, SIMBA_SIGHTING_TEXT, "%" PRId64 " %" PRId64 " %" PRId64,
             sighting->owner, sighting->beat, sighting->since_ms);
}

bool simba_sighting_read(simba_sighting *sighting,
                         const char *text,
                         size_t length)
{
    char copy[SIMBA_SIGHTING_TEXT] = "";
    int64_t owner, beat, since_ms;

    if (length > 0 && length < sizeof copy) {
        memcpy(copy, text, length);
    }
    /* NOLINTNEXTLINE(cert-err34-c): so many digits fit */
    if (sscanf(copy, "%18" SCNd64 " %18" SCNd64 " %18" SCNd64, &owner, &beat,
               &since_ms) != 3 ||
        owner != sighting->owner || beat != sighting->beat || since_ms <= 0 ||
        since_ms > sighting->since_ms) {
        return false;
    }
    sighting->since_ms = since_ms;
    return true;
}

/* Without a boot id it counts for this process alone. */
void simba_clock_id(char id[SIMBA_CLOCK_ID])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    struct stat namespace = {0};
    struct timespec now;

    if (fd < 0 || read(fd, id, BOOT_ID) != BOOT_ID) {
        clock_gettime(CLOCK_REALTIME, &now);
        snprintf(id, BOOT_ID + 1, "%016lld%020lld", (long long)getpid(),
                 (long long)now.tv_sec * 1000000000 + now.tv_nsec);
    }
    if (fd >= 0) {
        close(fd);
    }
    (void)stat("/proc/self/ns/time", &namespace);
    snprintf(id + BOOT_ID, SIMBA_CLOCK_ID - BOOT_ID, "-%" PRIx64,
             (uint64_t) namespace.st_ino);
}
