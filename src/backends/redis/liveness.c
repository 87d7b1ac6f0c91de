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

typedef struct simba__redis_subscription subscription_t;

static bool is_seen(const subscription_t *s, uint64_t token, uint64_t renewals)
{
    return s->still_until_ms != 0 && s->seen_renewals == renewals &&
           s->seen_token == token;
}

bool simba__redis_still_tenure(struct simba__redis *store,
                               const char *mutex,
                               char text[SIMBA__REDIS_STILL])
{
    const subscription_t *s = simba__redis_subscription_find(store, mutex);

    if (s == NULL || s->still_until_ms == 0 ||
        simba_loop_now_ms() < s->still_until_ms) {
        return false;
    }
    snprintf(text, SIMBA__REDIS_STILL, "%" PRIu64 " %" PRIu32, s->seen_token,
             s->seen_renewals);
    return true;
}

/* Counted from here, and not from when the request was sent: a renewal may have
 * come before it to the server, but not after what we have read. */
static void begin(subscription_t *s,
                  uint64_t token,
                  int64_t lease_ms,
                  uint64_t renewals)
{
    struct simba__lease lease = {.ttl_ms = lease_ms};

    s->still_until_ms = 0;
    if (lease_ms > 0 && token != 0) {
        s->seen_token = token;
        s->seen_renewals = (uint32_t)renewals;
        s->still_until_ms = simba_loop_now_ms() + simba__lease_over_ms(&lease);
    }
}

void simba__redis_sight(struct simba__redis_request *r,
                        const struct simba__redis_script_reply *read)
{
    subscription_t *s =
        simba__redis_subscription_find(r->store, r->request->mutex);
    simba_reply *reply = &r->request->reply;
    int64_t now_ms = simba_loop_now_ms();
    bool is_same;

    if (s == NULL) {
        return;
    }
    is_same =
        read->lease_ms > 0 && is_seen(s, read->owner.token, read->renewals);
    if (r->is_ending && !is_same) {
        simba__log(&r->store->log, SIMBA_LOG_WARN,
                   "redis %s: %s: its owner did not renew it for more than "
                   "its lease, and it was ended: the server's clock has gone "
                   "back",
                   r->server->command.shown, r->request->mutex);
    }
    if (read->is_mine) { /* it is not waited for any more */
        s->still_until_ms = 0;
    } else if (!is_same) {
        begin(s, read->owner.token, read->lease_ms, read->renewals);
    }
    if (!reply->mine && s->still_until_ms != 0 &&
        s->still_until_ms - now_ms < reply->wait_ms) {
        reply->wait_ms = s->still_until_ms - now_ms;
    }
}

int64_t simba__redis_sight_again(struct simba__redis *store,
                                 const char *mutex,
                                 const struct simba__redis_seen *seen)
{
    subscription_t *s = simba__redis_subscription_find(store, mutex);
    int64_t left_ms;

    if (s == NULL) {
        return -1;
    }
    if (s->still_until_ms == 0) {
        return seen->lease_ms == 0 ? seen->left_ms : -1;
    }
    if (s->seen_token != seen->token) {
        return -1;
    }
    if (!is_seen(s, seen->token, seen->renewals)) {
        begin(s, seen->token, seen->lease_ms, seen->renewals);
    }
    left_ms = s->still_until_ms - simba_loop_now_ms();
    return left_ms < seen->left_ms ? left_ms : seen->left_ms;
}
