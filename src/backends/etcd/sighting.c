/* What was seen of an owner, and when it may be taken over from. */
#define _GNU_SOURCE
#include "backends/etcd/etcd.h"

#include <stdio.h>
#include <string.h>

/* S1: an owner is certain for its lease after it sent the write that changed
 * its key or its heartbeat, less a margin for clocks of different rates. We see
 * that change later than it was sent, so that the lease from here on, by our
 * clock, is enough. */
void simba__etcd_sighting_note(struct simba__etcd_sighting *seen,
                               const struct simba__etcd_owner *owner,
                               int64_t beat_mod)
{
    beat_mod = owner->is_broken ? 0 : beat_mod;
    if (seen->owner_mod != owner->mod || seen->beat_mod != beat_mod) {
        *seen = (struct simba__etcd_sighting){owner->mod, beat_mod,
                                              simba_loop_now_ms()};
    }
}

int64_t simba__etcd_silent_in_ms(const struct simba__etcd_sighting *seen,
                                 const struct simba__etcd_owner *owner)
{
    int64_t lease_ms = owner->lease_ms + SIMBA__ETCD_MARGIN_MS;

    if (!owner->is_there) {
        return 0;
    }
    return seen->owner_mod != owner->mod || seen->beat_mod < 0
               ? lease_ms
               : seen->since_ms + lease_ms - simba_loop_now_ms();
}

void simba__etcd_sighting_write(const struct simba__etcd_sighting *seen,
                                char value[SIMBA__ETCD_SIGHTING])
{
    snprintf(value, SIMBA__ETCD_SIGHTING, "%lld %lld %lld",
             (long long)seen->owner_mod, (long long)seen->beat_mod,
             (long long)seen->since_ms);
}

bool simba__etcd_sighting_read(struct simba__etcd_sighting *seen,
                               const simba__etcd_kv *kept)
{
    long long owner_mod = 0, beat_mod = 0, since_ms = 0;
    char text[SIMBA__ETCD_SIGHTING] = "";

    if (kept->value.length > 0 && kept->value.length < sizeof text) {
        memcpy(text, kept->value.at, kept->value.length);
    }
    if (sscanf(text, "%lld %lld %lld", &owner_mod, &beat_mod, &since_ms) != 3 ||
        owner_mod != seen->owner_mod || beat_mod != seen->beat_mod ||
        since_ms <= 0 || since_ms > seen->since_ms) {
        return false;
    }
    seen->since_ms = since_ms;
    return true;
}
