/**
 * @file simba/sys/stat.h
 * What a store has done so far, for a store opened as `stat::INNER-URL`.
 *
 * The shim counts and times every request between the contention and the
 * store behind it. When the store is closed it also logs a line for each kind.
 */
#ifndef SIMBA_SYS_STAT_H
#define SIMBA_SYS_STAT_H

#include <simba/error.h>
#include <simba/export.h>
#include <simba/store.h>

#include <stdint.h>

SIMBA_BEGIN_DECLS

/** Requests of one kind, from submission to completion. */
typedef struct simba_stat {
    uint64_t started;  /**< submitted; for "wake-up" those that came */
    uint64_t answered; /**< completed with SIMBA_OK */
    uint64_t mine;     /**< of these: granted, renewed, broken */
    uint64_t unknown;  /**< completed with SIMBA_EUNKNOWN */
    uint64_t failed;   /**< completed with another code */
    int64_t total_us;  /**< time of all that are completed */
    int64_t least_us;
    int64_t p50_us; /**< percentiles, 6 % too large at most */
    int64_t p99_us;
    int64_t most_us;
} simba_stat;

/**
 * Read the figures of one kind of request.
 *
 * @param store      opened with a stat shim; of several the outermost answers
 * @param kind       "acquire", "renew", "release", "leave", "read", "list",
 *                   "break", "doctor" or "wake-up"
 * @param[out] stat  zero on failure
 * @param[out] error filled on failure; may be NULL
 * @return SIMBA_OK; SIMBA_EINVAL when there is no stat shim or no such kind;
 *         SIMBA_EFORKED
 *
 * Threads: any thread.
 */
SIMBA_API SIMBA_MUST_USE int simba_stat_read(simba_store *store,
                                             const char *kind,
                                             simba_stat *stat,
                                             simba_error *error);

SIMBA_END_DECLS

#endif
