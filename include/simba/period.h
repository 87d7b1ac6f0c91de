/**
 * @file simba/period.h
 * How long a contender waits before it asks the store again.
 *
 * These are the formulas every Simba implementation shares, for programs that
 * drive a store themselves or compare implementations. A running service does
 * better where it can: it renews before the ttl ends, and a waiter that is
 * told by the store comes at once, with the contender's delay behind it as a
 * backstop.
 *
 * Nothing here reads a clock or draws a random number; both are arguments, so
 * equal arguments give equal delays. A delay that does not fit — an owner whose
 * lease has no end, INT64_MAX — becomes the largest (or least) int64_t.
 */
#ifndef SIMBA_PERIOD_H
#define SIMBA_PERIOD_H

#include <simba/export.h>
#include <simba/owner.h>

#include <stdint.h>

SIMBA_BEGIN_DECLS

/**
 * How long the owner waits until it renews: `ttl_at_ms - now_ms`.
 *
 * @param owner   snapshot, not NULL
 * @param now_ms  store's time
 * @return milliseconds; negative when the ttl is already over
 *
 * Threads: any thread.
 */
SIMBA_API int64_t simba_contend_period_owner_delay_ms(const simba_owner *owner,
                                                      int64_t now_ms);

/**
 * How long a contender that is not the owner waits until it tries:
 * `transition_at_ms - now_ms` and a random spread.
 *
 * The spread keeps contenders from arriving all at once. With a transition
 * window it is -200 to 999 ms: a little early does no harm, for the window is
 * there for the owner. Without one (`transition_at_ms == ttl_at_ms`) early
 * would always be in vain, and it is 0 to 999 ms.
 *
 * @param owner   snapshot, not NULL
 * @param now_ms  store's time
 * @param random  64 random bits, of which the upper 32 count: 0 gives the least
 *                delay, UINT64_MAX the greatest. Scaling 32 bits makes no
 *                millisecond more likely than another by more than one part in
 *                three million
 * @return milliseconds; negative when that time is already past
 *
 * Threads: any thread.
 */
SIMBA_API int64_t
simba_contend_period_contender_delay_ms(const simba_owner *owner,
                                        int64_t now_ms,
                                        uint64_t random);

/**
 * How long this contender waits: the owner's delay when the snapshot names it,
 * the contender's delay when not.
 *
 * @param owner   snapshot, not NULL
 * @param id      contender id, not NULL
 * @param now_ms  store's time
 * @param random  64 random bits; without effect for the owner
 * @return milliseconds; negative when that time is already past
 *
 * Threads: any thread.
 */
SIMBA_API int64_t simba_contend_period_next_delay_ms(const simba_owner *owner,
                                                     const char *id,
                                                     int64_t now_ms,
                                                     uint64_t random);

/**
 * The same delay, or 0 when it is already past.
 *
 * As simba_contend_period_next_delay_ms() otherwise.
 *
 * @param owner   snapshot, not NULL
 * @param id      contender id, not NULL
 * @param now_ms  store's time
 * @param random  64 random bits; without effect for the owner
 * @return milliseconds, 0 or more
 *
 * Threads: any thread.
 */
SIMBA_API int64_t
simba_contend_period_ensure_next_delay_ms(const simba_owner *owner,
                                          const char *id,
                                          int64_t now_ms,
                                          uint64_t random);

SIMBA_END_DECLS

#endif
