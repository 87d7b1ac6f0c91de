/* What was seen of an owner, and by which clock. See
 * simba/sys/session_store.h. */
#define _GNU_SOURCE
#include <simba/sys/session_store.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

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

/* The boot clocks of time namespaces with one offset are one clock. A process
 * that has left its own for its children cannot see which that is. */
void simba_clock_id(char id[SIMBA_CLOCK_ID])
{
    FILE *boot = fopen("/proc/sys/kernel/random/boot_id", "re");
    FILE *offsets = fopen("/proc/self/timens_offsets", "re");
    struct stat ours = {0}, of_children = {0};
    int64_t s = 0, ns = 0;

    (void)stat("/proc/self/ns/time", &ours);
    (void)stat("/proc/self/ns/time_for_children", &of_children);
    if (boot != NULL && fgets(id, BOOT_ID + 1, boot) != NULL &&
        strlen(id) == BOOT_ID && ours.st_ino == of_children.st_ino &&
        (offsets == NULL || /* NOLINTNEXTLINE(cert-err34-c): they fit */
         fscanf(offsets, "monotonic %*d %*d boottime %15" SCNd64 " %9" SCNd64,
                &s, &ns) == 2)) {
        snprintf(id + BOOT_ID, SIMBA_CLOCK_ID - BOOT_ID, "-%" PRIx64,
                 (uint64_t)(s * 1000 + ns / 1000000));
    } else {
        id[0] = '\0';
    }
    if (boot != NULL) {
        (void)fclose(boot);
    }
    if (offsets != NULL) {
        (void)fclose(offsets);
    }
}
