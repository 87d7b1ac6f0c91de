/**
 * @file simba/times.h
 * The times of a tenure: what contenders, lockers and schedulers have in
 * common. All are milliseconds.
 */
#ifndef SIMBA_TIMES_H
#define SIMBA_TIMES_H

#include <simba/export.h>

#include <stdint.h>

SIMBA_BEGIN_DECLS

typedef struct simba_times {
    int64_t ttl_ms;        /**< 0: as configured, else 10 000 */
    int64_t transition_ms; /**< negative: as configured, else 6 000 */
    int64_t budget_ms;     /**< how long on_released, on_lost or the work of a
                              scheduler may take to end; 0: the least of an
                              eighth of the lease, 2 s, and what fits */
    int64_t max_hold_ms;   /**< 0: none; a tenure ends by then */
    int64_t min_hold_ms;   /**< 0: none; a stop or a release keeps others out
                              so long */
    int64_t progress_ms;   /**< 0: off; renew only so long after the acquire or
                              the last sign of progress, as
                              simba_locker_progress() gives it */
    int64_t reserved[2];   /**< 0 */
} simba_times;

/* clang-format off */
#define SIMBA_TIMES_INIT {0, -1, 0, 0, 0, 0, {0, 0}}
/* clang-format on */

/**
 * The longest budget_ms that fits into a lease: what is left of ttl and
 * transition when a renewal was lost and repeated, less the drift margin.
 *
 * @param ttl_ms         as it will be, not 0; simba_store_lease() tells what
 *                       is configured
 * @param transition_ms  likewise, not negative
 * @return milliseconds; below 1 when none fits, or when there is no such lease
 *
 * Threads: any thread.
 */
SIMBA_API int64_t simba_times_budget_most_ms(int64_t ttl_ms,
                                             int64_t transition_ms);

SIMBA_END_DECLS

#endif
