/* Owners that are dead although the server's clock says that their leases run.
 *
 * Redis ends a lease by its wall clock. When that goes back by an hour, a dead
 * owner keeps its mutex for an hour more. So who waits looks by its own boot
 * clock, and at the count of the tenure's renewals, not at the time that is
 * left to it: one that was not renewed for the whole lease that its owner asked
 * for, and the margin, is owned by nobody (S2), and is ended.
 *
 *     renewed, at the latest     we saw the count           ended, if the count
 *              |                       |                     is still the same
 *              |---- lease, by the owner's clock ----|            |
 *                                      |---- lease + margin ------|
 *
 * Tenures of older versions and of the JVM do not count their renewals, and are
 * left alone. */
#include "backends/redis/redis.h"

#include "core/lease.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* S5: an attempt that has lapsed and asks again is another tenure, by its
 * token.
 */
static bool is_seen(const struct simba__redis_sighting *sighting,
                    const struct simba__redis_script_reply *read)
{
    size_t length = strlen(sighting->tenure);

    return read->lease_ms > 0 && length > 0 &&
           sighting->renewals == read->renewals &&
           strncmp(sighting->tenure, read->tenure, length) == 0 &&
           read->tenure[length] == '<';
}

bool simba__redis_still_tenure(struct simba__redis *store,
                               const char *mutex,
                               char text[SIMBA__REDIS_STILL])
{
    const struct simba__redis_subscription *subscription =
        simba__redis_subscription_find(store, mutex);
    const struct simba__redis_sighting *sighting;

    if (subscription == NULL) {
        return false;
    }
    sighting = &subscription->sighting;
    snprintf(text, SIMBA__REDIS_STILL, "%s %" PRIu64, sighting->tenure,
             sighting->renewals);
    return sighting->tenure[0] != '\0' &&
           simba_loop_now_ms() >= sighting->until_ms;
}

/* Counted from here, and not from when the request was sent: a renewal may have
 * come before it to the server, but not after what we have read. */
static void begin(struct simba__redis_sighting *sighting,
                  const struct simba__redis_script_reply *read)
{
    struct simba__lease lease = {.ttl_ms = read->lease_ms};
    size_t length = read->lease_ms > 0 ? strcspn(read->tenure, "<") : 0;

    memset(sighting, 0, sizeof *sighting);
    if (length > 0 && length < sizeof sighting->tenure) {
        memcpy(sighting->tenure, read->tenure, length);
        sighting->renewals = read->renewals;
        sighting->since_ms = simba_loop_now_ms();
        sighting->until_ms = sighting->since_ms + simba__lease_over_ms(&lease);
    }
}

void simba__redis_sight(struct simba__redis_request *r,
                        const struct simba__redis_script_reply *read)
{
    struct simba__redis_subscription *subscription =
        simba__redis_subscription_find(r->store, r->request->mutex);
    simba_reply *reply = &r->request->reply;
    struct simba__redis_sighting *sighting;
    int64_t now_ms = simba_loop_now_ms();

    if (subscription == NULL) {
        return;
    }
    sighting = &subscription->sighting;
    if (r->is_ending && !is_seen(sighting, read)) {
        simba__log(&r->store->log, SIMBA_LOG_WARN,
                   "redis %s: %s: its owner did not renew it for %" PRId64
                   " ms, more than its lease, and it was ended: the server's "
                   "clock has gone back",
                   r->server->command.shown, r->request->mutex,
                   now_ms - sighting->since_ms);
    }
    if (read->is_mine) { /* it is not waited for any more */
        memset(sighting, 0, sizeof *sighting);
    } else if (!is_seen(sighting, read)) {
        begin(sighting, read);
    }
    if (!reply->mine && sighting->tenure[0] != '\0' &&
        sighting->until_ms - now_ms < reply->wait_ms) {
        reply->wait_ms = sighting->until_ms - now_ms;
    }
}
