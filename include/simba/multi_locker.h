/**
 * @file simba/multi_locker.h
 * Several mutexes at once: all of them, or none.
 *
 * They are acquired one after the other in the order of their bytes, whatever
 * order they were given in, so that two programs that want the same mutexes
 * never wait for each other in a circle. That holds among multi lockers; a
 * program that holds a mutex by other means and waits for more is on its own.
 */
#ifndef SIMBA_MULTI_LOCKER_H
#define SIMBA_MULTI_LOCKER_H

#include <simba/error.h>
#include <simba/export.h>
#include <simba/store.h>
#include <simba/times.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

SIMBA_BEGIN_DECLS

typedef struct simba_multi_locker simba_multi_locker; /* opaque */

typedef struct simba_multi_locker_options {
    uint32_t size;              /**< set by SIMBA_MULTI_LOCKER_OPTIONS_INIT */
    const char *const *mutexes; /**< required; names, none twice; copied */
    size_t count;               /**< of mutexes; at least one */
    const char *id;             /**< as in simba_locker_options, for all */
    simba_times times;          /**< likewise */
    /** One of them is lost: stop working, and release the others. Told once for
     * a tenure of all, on a callback thread, of the first that is lost; may be
     * NULL. */
    void (*on_lost)(void *user, const char *mutex, const simba_error *why);
    void *user;
} simba_multi_locker_options;

/* clang-format off */
#define SIMBA_MULTI_LOCKER_OPTIONS_INIT \
    {(uint32_t)sizeof(simba_multi_locker_options), \
     0, 0, 0, SIMBA_TIMES_INIT, 0, 0}
/* clang-format on */

/**
 * Make one; it does nothing before acquire.
 *
 * @param store        must outlive it
 * @param options      copied, its strings too
 * @param[out] multi   the handle, or NULL on failure; close it
 * @param[out] error   filled on failure; may be NULL
 * @return SIMBA_OK; SIMBA_EINVAL naming the value and why; SIMBA_ENOMEM;
 *         SIMBA_EFORKED
 *
 * Threads: any thread.
 */
SIMBA_API SIMBA_MUST_USE int simba_multi_locker_open(
    simba_store *store,
    const simba_multi_locker_options *options,
    simba_multi_locker **multi,
    simba_error *error);

/**
 * Block until all mutexes are ours, the timeout passes, one that was acquired
 * already is lost again, or another thread calls simba_multi_locker_cancel().
 *
 * @param multi        not NULL
 * @param timeout_ms   for all together; negative waits for ever; 0 tries each
 *                     once
 * @param[out] tokens  `count` fencing tokens, in the order in which the mutexes
 *                     were given; may be NULL
 * @param[out] error   filled on failure; may be NULL
 * @return SIMBA_OK; after anything else we hold none of them: SIMBA_ELOST, and
 *         whatever simba_locker_acquire() returns
 *
 * Threads: one at a time; not from a callback of this handle.
 */
SIMBA_API SIMBA_MUST_USE int simba_multi_locker_acquire(
    simba_multi_locker *multi,
    int64_t timeout_ms,
    uint64_t *tokens,
    simba_error *error);

/**
 * Let go of all. They can be acquired again.
 *
 * @return SIMBA_OK, also when they were not held; SIMBA_ELOST when one had been
 *         lost before; SIMBA_EUNKNOWN when the store did not answer; then one
 *         or more lapse by themselves; SIMBA_EMISUSE; SIMBA_EFORKED
 *
 * Threads: one at a time; not from a callback of this handle.
 */
SIMBA_API int simba_multi_locker_release(simba_multi_locker *multi,
                                         simba_error *error);

/** Make a waiting acquire return SIMBA_ECANCELED; without one, nothing happens.
 * Any thread. */
SIMBA_API void simba_multi_locker_cancel(simba_multi_locker *multi);

/** Are all of them ours at this very instant? Any thread; wait-free. */
SIMBA_API bool simba_multi_locker_is_owner(const simba_multi_locker *multi);

/** Fencing token of one of the mutexes; 0 when it is not ours, or not among
 * them. Any thread; wait-free. */
SIMBA_API uint64_t simba_multi_locker_token(const simba_multi_locker *multi,
                                            const char *mutex);

/** Say that the work is getting on, for all of them
 * (options.times.progress_ms). Any thread. */
SIMBA_API void simba_multi_locker_progress(simba_multi_locker *multi);

/** Release what is held, then free. NULL is a no-op. Threads: one at a time. */
SIMBA_API void simba_multi_locker_close(simba_multi_locker *multi);

/** For SIMBA_MULTI_LOCKER_SCOPE. */
static inline void simba_multi_locker_close_scope(simba_multi_locker **multi)
{
    simba_multi_locker_close(*multi);
}

/** Marks a local `simba_multi_locker *` that is closed when its scope ends. */
#if defined(__GNUC__)
#define SIMBA_MULTI_LOCKER_SCOPE                                               \
    __attribute__((cleanup(simba_multi_locker_close_scope)))
#endif

SIMBA_END_DECLS

#endif
