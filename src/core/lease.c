/* The arithmetic of a lease; the picture is in lease.h. */
#include "core/lease.h"

#include "core/plant.h"

#include <assert.h>

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t simba__lease_length_ms(const struct simba__lease *lease)
{
    return lease->ttl_ms + lease->transition_ms;
}

/* 1.01 / 0.99 is 1.0202: 2.1 % covers two clocks at opposite ends of +-1 %.
 * The 10 ms cover times rounded to whole milliseconds. */
int64_t simba__lease_margin_ms(const struct simba__lease *lease)
{
    return PLANTED(NO_MARGIN)
               ? 0
               : 10 + (simba__lease_length_ms(lease) * 21 + 999) / 1000;
}

int64_t simba__lease_budget_most_ms(const struct simba__lease *lease)
{
    int64_t five_sixths = (lease->ttl_ms * 5 + 5) / 6;

    return simba__lease_length_ms(lease) - simba__lease_margin_ms(lease) -
           five_sixths;
}

int64_t simba__lease_budget_default_ms(const struct simba__lease *lease)
{
    int64_t eighth = simba__lease_length_ms(lease) / 8;

    return least(least(eighth, 2000), simba__lease_budget_most_ms(lease));
}

enum simba__lease_problem simba__lease_check(const struct simba__lease *lease)
{
    if (lease->ttl_ms < SIMBA__TTL_LEAST_MS) {
        return SIMBA__LEASE_TTL_SHORT;
    }
    if (lease->ttl_ms > SIMBA__LEASE_MOST_MS) {
        return SIMBA__LEASE_TTL_LONG;
    }
    if (lease->transition_ms < 0) {
        return SIMBA__LEASE_TRANSITION_NEGATIVE;
    }
    if (lease->transition_ms > SIMBA__LEASE_MOST_MS) {
        return SIMBA__LEASE_TRANSITION_LONG;
    }
    if (lease->budget_ms < 1) {
        return SIMBA__LEASE_BUDGET_SHORT;
    }
    if (lease->budget_ms > simba__lease_budget_most_ms(lease)) {
        return SIMBA__LEASE_BUDGET_LONG;
    }
    return SIMBA__LEASE_FINE;
}

struct simba__lease simba__lease_shorten(const struct simba__lease *lease,
                                         int64_t granted_ms)
{
    int64_t length = simba__lease_length_ms(lease);
    struct simba__lease granted = *lease;

    assert(granted_ms >= 0 && length > 0);
    if (granted_ms == 0 || granted_ms >= length) {
        return granted;
    }
    /* In doubles: ten years times ten years would overflow. */
    granted.ttl_ms =
        (int64_t)((double)lease->ttl_ms * (double)granted_ms / (double)length);
    granted.transition_ms = granted_ms - granted.ttl_ms;
    return granted;
}

/* A lease that passed its check has 5/6 ttl before U, so 4/5 of that is no
 * limit to it; of a shortened one the budget may take almost everything. */
int64_t simba__lease_renew_after_ms(const struct simba__lease *lease)
{
    int64_t use = simba__lease_use_ms(lease);
    int64_t late = use > 0 ? use - use / 5 : 0;

    return least(lease->ttl_ms * 2 / 3, late);
}

int64_t simba__lease_use_ms(const struct simba__lease *lease)
{
    int64_t budget = PLANTED(NO_BUDGET) ? 0 : lease->budget_ms;

    return simba__lease_hard_ms(lease) - budget;
}

int64_t simba__lease_hard_ms(const struct simba__lease *lease)
{
    return simba__lease_length_ms(lease) - simba__lease_margin_ms(lease);
}

int64_t simba__lease_over_ms(const struct simba__lease *lease)
{
    return simba__lease_length_ms(lease) + simba__lease_margin_ms(lease);
}
