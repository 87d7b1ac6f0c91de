/* The contend period: how long an owner or a contender waits before it asks
 * the store again, by the formulas all Simba implementations share.
 *
 * When to renew really, and whom a push makes come earlier, is decided by the
 * contention core. */
#include <simba/period.h>

#include "core/saturate.h"

#include <assert.h>
#include <stddef.h>

/* Spread of the contenders, in milliseconds: from the least to just below the
 * bound. */
#define SPREAD_EARLY_MS (-200)
#define SPREAD_BOUND_MS 1000

int64_t simba_contend_period_owner_delay_ms(const simba_owner *owner,
                                            int64_t now_ms)
{
    assert(owner != NULL);
    return simba__subtract_saturating(owner->ttl_at_ms, now_ms);
}

int64_t simba_contend_period_contender_delay_ms(const simba_owner *owner,
                                                int64_t now_ms,
                                                uint64_t random)
{
    int64_t least, spread;

    assert(owner != NULL);
    least = owner->transition_at_ms == owner->ttl_at_ms ? 0 : SPREAD_EARLY_MS;
    /* Scaled, not reduced by a modulo: it costs a multiplication, keeps the
     * order of the random numbers, and of the 2^32 inputs each of the at most
     * 1,200 results gets the same number, give or take one. */
    spread =
        least +
        (int64_t)(((random >> 32) * (uint64_t)(SPREAD_BOUND_MS - least)) >> 32);
    return simba__add_saturating(
        simba__subtract_saturating(owner->transition_at_ms, now_ms), spread);
}

int64_t simba_contend_period_next_delay_ms(const simba_owner *owner,
                                           const char *id,
                                           int64_t now_ms,
                                           uint64_t random)
{
    if (simba_owner_is_owner(owner, id)) {
        return simba_contend_period_owner_delay_ms(owner, now_ms);
    }
    return simba_contend_period_contender_delay_ms(owner, now_ms, random);
}

int64_t simba_contend_period_ensure_next_delay_ms(const simba_owner *owner,
                                                  const char *id,
                                                  int64_t now_ms,
                                                  uint64_t random)
{
    int64_t delay_ms =
        simba_contend_period_next_delay_ms(owner, id, now_ms, random);

    return delay_ms < 0 ? 0 : delay_ms;
}
