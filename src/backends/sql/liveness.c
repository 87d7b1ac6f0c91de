/* Owners that are dead although the server's clock says that their leases run.
 *
 * A lease ends by the server's wall clock. When that goes back by an hour, a
 * dead owner would keep its mutex for an hour more. So who waits notes by its
 * own boot clock when the lease that it was told of is over, or one as long as
 * its own, if that is later. If by then nobody has renewed it, it is ended, as
 * one that has lapsed, provided that the mutex is exactly as it was loaded.
 *
 *   renewed, at the latest      told: so much is left          ended, if it is
 *            |                        |                        still the same
 *            |---- lease, by the owner's clock ----|                |
 *                                     |-------- and margin ---------|
 *
 * Whether it was renewed cannot be told by a time that a stepping clock may
 * show again. A renewal makes the lease end later; one that cannot, because the
 * clock went back or stands still, is counted: by as many milliseconds ttl_at
 * is earlier than it would be. So no two states of a tenure have both times
 * alike.
 *
 * Tenures of other implementations promise nothing of this, and are left
 * alone. */
#include "backends/sql/waiters.h"

#include "core/lease.h"
#include "core/saturate.h"

/* Far more renewals than there can be between two looks. */
enum { COUNTED_MOST = 64 };

int64_t simba__sql_counted_ttl_at(const simba_owner *was,
                                  const simba_owner *owner)
{
    int64_t count = simba__subtract_saturating(
        simba__subtract_saturating(was->transition_at_ms, was->ttl_at_ms),
        owner->transition_at_ms - owner->ttl_at_ms);

    if (count < 0 || count >= COUNTED_MOST) {
        count = 0; /* its transition was another */
    }
    if (owner->transition_at_ms <= was->transition_at_ms) {
        count = (count + 1) % COUNTED_MOST;
    }
    return owner->ttl_at_ms - count;
}

void simba__sql_sight(struct simba__sql_sighting *seen,
                      const simba_owner *owner,
                      int64_t store_ms)
{
    struct simba__lease left = {.ttl_ms = simba__subtract_saturating(
                                    owner->transition_at_ms, store_ms)};

    if (seen->token == owner->token && seen->ttl_at_ms == owner->ttl_at_ms &&
        seen->transition_at_ms == owner->transition_at_ms) {
        return;
    }
    if (left.ttl_ms < seen->lease_ms) {
        left.ttl_ms = seen->lease_ms;
    }
    if (left.ttl_ms > SIMBA__LEASE_MOST_MS) {
        left.ttl_ms = SIMBA__LEASE_MOST_MS;
    }
    seen->token = owner->token;
    seen->ttl_at_ms = owner->ttl_at_ms;
    seen->transition_at_ms = owner->transition_at_ms;
    seen->until_ms = simba_loop_now_ms() + simba__lease_over_ms(&left);
}

bool simba__sql_is_over(const struct simba__sql_sighting *seen, int64_t at_ms)
{
    return seen->token != 0 && at_ms >= seen->until_ms;
}
