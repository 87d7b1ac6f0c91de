/**
 * @file simba/sys/bench.h
 * What a store's operations are measured against: the least exchange with the
 * bare client library that does the same for one mutex, with none of our code
 * between. `simba bench` is made of it.
 */
#ifndef SIMBA_SYS_BENCH_H
#define SIMBA_SYS_BENCH_H

#include <simba/error.h>
#include <simba/export.h>
#include <simba/sys/backend.h>

SIMBA_BEGIN_DECLS

typedef struct simba_bench simba_bench; /* opaque */

/**
 * Connect for bare exchanges. Processes that give the same mutex exchange with
 * each other.
 *
 * @param url         as for simba_store_open(); copied
 * @param mutex       a name nobody uses otherwise; copied. Names that differ
 *                    behind a # only are mutexes of one measurement
 * @param[out] bench  the handle, or NULL on failure; close it
 * @param[out] error  filled on failure; may be NULL
 * @return SIMBA_OK; SIMBA_EINVAL also when this store has none; else as
 *         simba_store_open()
 *
 * Threads: any thread.
 */
SIMBA_API SIMBA_MUST_USE int simba_bench_open(const char *url,
                                              const char *mutex,
                                              simba_bench **bench,
                                              simba_error *error);

/**
 * Carry out one step; blocks until it is done.
 *
 * Threads: one at a time.
 */
SIMBA_API SIMBA_MUST_USE int simba_bench_step(simba_bench *bench,
                                              enum simba_floor_step step,
                                              simba_error *error);

/** Disconnect, and remove what it needed in the store. NULL is a no-op. */
SIMBA_API void simba_bench_close(simba_bench *bench);

SIMBA_END_DECLS

#endif
