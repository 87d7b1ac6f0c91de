/* The arithmetic of a lease: L, m, B, U and H.
 *
 *   s                        s + 2/3 ttl            U          H        s + L
 *   |---- owner ----------------|---- renew late ----|--- B ----|--- m ---|
 *   asked                       first renewal     is_owner    CMD dead,  store
 *                                                 turns no    told       frees
 *
 * s is when we asked, L = ttl + transition what the store promises from some
 * instant after s, m what two clocks at +-1 % can disagree about, B the time
 * the user has to leave. All values are milliseconds. */
#ifndef SIMBA_CORE_LEASE_H
#define SIMBA_CORE_LEASE_H

#include <stdint.h>

/** The least ttl: below it a renewal cannot be tried twice in time. */
#define SIMBA__TTL_LEAST_MS 100
/** The longest ttl and transition, ten years: sums of them never overflow. */
#define SIMBA__LEASE_MOST_MS (INT64_C(10) * 366 * 86400 * 1000)

struct simba__lease {
    int64_t ttl_ms;
    int64_t transition_ms;
    int64_t budget_ms; /* B: from U, where the user is told, to H */
};

enum simba__lease_problem {
    SIMBA__LEASE_FINE,
    SIMBA__LEASE_TTL_SHORT,
    SIMBA__LEASE_TTL_LONG,
    SIMBA__LEASE_TRANSITION_NEGATIVE,
    SIMBA__LEASE_TRANSITION_LONG,
    SIMBA__LEASE_BUDGET_SHORT, /* less than 1 ms: no callback could keep it */
    SIMBA__LEASE_BUDGET_LONG,  /* simba__lease_budget_most_ms() says how long */
};

/** Say what is wrong with a lease, if anything. */
enum simba__lease_problem simba__lease_check(const struct simba__lease *lease);

/** L: what the store promises. */
int64_t simba__lease_length_ms(const struct simba__lease *lease);

/** m: what we do not rely on, for clock rates that differ. */
int64_t simba__lease_margin_ms(const struct simba__lease *lease);

/**
 * The largest B with which a renewal lost at 2/3 ttl can still be repeated
 * before U; below 1 when none fits.
 */
int64_t simba__lease_budget_most_ms(const struct simba__lease *lease);

/** B when the user gave none: the least of L/8, 2 s and what fits. */
int64_t simba__lease_budget_default_ms(const struct simba__lease *lease);

/**
 * What is left when the store granted less than was asked for: ttl and
 * transition in proportion, the budget as it is.
 *
 * @param granted_ms  0 or anything longer than L: the lease as it is
 */
struct simba__lease simba__lease_shorten(const struct simba__lease *lease,
                                         int64_t granted_ms);

/** From s to the first renewal; before U also for a shortened lease. */
int64_t simba__lease_renew_after_ms(const struct simba__lease *lease);

/** From s to U: is_owner holds up to here. */
int64_t simba__lease_use_ms(const struct simba__lease *lease);

/** From s to H: the user must be gone by here. */
int64_t simba__lease_hard_ms(const struct simba__lease *lease);

/** From s to the instant at which the store's lease is surely over. */
int64_t simba__lease_over_ms(const struct simba__lease *lease);

#endif
