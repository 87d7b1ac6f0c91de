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
#include <stdlib.h>
#include <string.h>

/* The attempt and the token, as they stand in a tenure before its "<". */
enum { NAME_MOST = SIMBA__REDIS_ATTEMPT + 22 };

static size_t put_name(const struct simba__redis_sighting *sighting,
                       char name[NAME_MOST])
{
    return (size_t)snprintf(name, NAME_MOST,
                            "%016" PRIx64 "%016" PRIx64 "%c%" PRIu64,
                            sighting->attempt.high, sighting->attempt.low,
                            sighting->mark, sighting->token);
}

/* S5: an attempt that has lapsed and asks again is another tenure, by its
 * token. */
static bool is_named(const struct simba__redis_sighting *sighting,
                     const char *tenure)
{
    char name[NAME_MOST];
    size_t length = put_name(sighting, name);

    return strncmp(name, tenure, length) == 0 && tenure[length] == '<';
}

static bool is_seen(const struct simba__redis_sighting *sighting,
                    const struct simba__redis_script_reply *read)
{
    return read->lease_ms > 0 && sighting->until_ms != 0 &&
           sighting->renewals == read->renewals &&
           is_named(sighting, read->tenure);
}

bool simba__redis_still_tenure(struct simba__redis *store,
                               const char *mutex,
                               char text[SIMBA__REDIS_STILL])
{
    const struct simba__redis_subscription *subscription =
        simba__redis_subscription_find(store, mutex);
    const struct simba__redis_sighting *sighting;
    char name[NAME_MOST];

    if (subscription == NULL) {
        return false;
    }
    sighting = &subscription->sighting;
    put_name(sighting, name);
    snprintf(text, SIMBA__REDIS_STILL, "%s %" PRIu64, name, sighting->renewals);
    return sighting->until_ms != 0 && simba_loop_now_ms() >= sighting->until_ms;
}

static uint64_t read_half(const char *attempt)
{
    char digits[SIMBA__REDIS_ATTEMPT / 2 + 1] = "";

    memcpy(digits, attempt, sizeof digits - 1);
    return strtoull(digits, NULL, 16);
}

/* Counted from here, and not from when the request was sent: a renewal may have
 * come before it to the server, but not after what we have read. */
static void begin(struct simba__redis_sighting *sighting,
                  const struct simba__redis_script_reply *read)
{
    struct simba__lease lease = {.ttl_ms = read->lease_ms};
    struct simba__redis_sighting seen = {.renewals = read->renewals};

    memset(sighting, 0, sizeof *sighting);
    if (read->lease_ms <= 0) {
        return;
    }
    seen.attempt.high = read_half(read->tenure);
    seen.attempt.low = read_half(read->tenure + SIMBA__REDIS_ATTEMPT / 2);
    seen.mark = read->tenure[SIMBA__REDIS_ATTEMPT];
    seen.token = strtoull(read->tenure + SIMBA__REDIS_ATTEMPT + 1, NULL, 10);
    if (is_named(&seen, read->tenure)) { /* else it is none of ours */
        seen.until_ms = simba_loop_now_ms() + simba__lease_over_ms(&lease);
        *sighting = seen;
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
                   "redis %s: %s: its owner did not renew it for more than "
                   "its lease, and it was ended: the server's clock has gone "
                   "back",
                   r->server->command.shown, r->request->mutex);
    }
    if (read->is_mine) { /* it is not waited for any more */
        memset(sighting, 0, sizeof *sighting);
    } else if (!is_seen(sighting, read)) {
        begin(sighting, read);
    }
    if (!reply->mine && sighting->until_ms != 0 &&
        sighting->until_ms - now_ms < reply->wait_ms) {
        reply->wait_ms = sighting->until_ms - now_ms;
    }
}
