/**
 * @file simba/locker.h
 * The blocking way: acquire, work, release. In a loop that must not block, use
 * a service (simba/service.h).
 *
 *     SIMBA_LOCKER_SCOPE simba_locker *locker = NULL;
 *     if (simba_locker_open(store, &options, &locker, &error) == SIMBA_OK &&
 *         simba_locker_acquire(locker, 30000, &token, &error) == SIMBA_OK) {
 *         work(token);
 *     } // released and closed here
 */
#ifndef SIMBA_LOCKER_H
#define SIMBA_LOCKER_H

#include <simba/contender.h>
#include <simba/error.h>
#include <simba/export.h>
#include <simba/owner.h>
#include <simba/store.h>
#include <simba/times.h>

#include <stdbool.h>
#include <stdint.h>

SIMBA_BEGIN_DECLS

typedef struct simba_locker simba_locker; /* opaque */

typedef struct simba_locker_options {
    uint32_t size;     /**< set by SIMBA_LOCKER_OPTIONS_INIT */
    const char *mutex; /**< required; copied */
    const char *id;    /**< NULL: made as simba_id_host() does; copied */
    simba_times times; /**< budget_ms counts from on_lost */
    /** The mutex is lost, or was held for max_hold: stop working. Called on a
     * callback thread, once for a tenure; one that takes longer than the budget
     * is logged, for another may own the mutex then. `why->native` is the enum
     * simba_cause. May be NULL. */
    void (*on_lost)(void *user, const simba_error *why);
    void *user;
    uint32_t slots;      /**< how many may own it: as in simba_contender */
    const char *command; /**< as in simba_contender, and so is `tell` */
    uint32_t tell;
    uint32_t reserved; /**< 0 */
} simba_locker_options;

/* clang-format off */
#define SIMBA_LOCKER_OPTIONS_INIT \
    {(uint32_t)sizeof(simba_locker_options), 0, 0, SIMBA_TIMES_INIT, 0, 0, 0, \
     0, 0, 0}
/* clang-format on */

/**
 * Make a locker; it does nothing before acquire.
 *
 * @param store        must outlive the locker
 * @param options      copied, its strings too
 * @param[out] locker  the handle, or NULL on failure; close it
 * @param[out] error   filled on failure; may be NULL
 * @return SIMBA_OK; SIMBA_EINVAL naming the value and why; SIMBA_ENOMEM;
 *         SIMBA_EFORKED
 *
 * Threads: any thread.
 */
SIMBA_API SIMBA_MUST_USE int simba_locker_open(
    simba_store *store,
    const simba_locker_options *options,
    simba_locker **locker,
    simba_error *error);

/**
 * Block until the mutex is ours, the timeout passes, or another thread calls
 * simba_locker_cancel().
 *
 * @param locker       not NULL
 * @param timeout_ms   negative waits for ever; 0 tries once
 * @param[out] token   fencing token of the tenure; may be NULL
 * @param[out] error   filled on failure; may be NULL
 * @return SIMBA_OK; after anything else we do not hold it: SIMBA_EBUSY (tried
 *         once), SIMBA_ETIMEDOUT, SIMBA_ECANCELED, SIMBA_EUNAVAIL when the
 *         store could not be reached in all that time or was away at its end,
 *         and at once when its host does not exist; SIMBA_EDENIED,
 *         SIMBA_EMISCONFIG, SIMBA_ENOTINIT at once, SIMBA_EMISUSE when held
 *         already or another thread is acquiring, SIMBA_EFORKED
 *
 * Threads: one at a time; not from a callback of this locker.
 */
SIMBA_API SIMBA_MUST_USE int simba_locker_acquire(simba_locker *locker,
                                                  int64_t timeout_ms,
                                                  uint64_t *token,
                                                  simba_error *error);

/**
 * Let go. The locker can be acquired again.
 *
 * @return SIMBA_OK, also when it was not held; SIMBA_ELOST when it had been
 *         lost before; SIMBA_EUNKNOWN when the store did not answer within the
 *         lease: it lapses by itself; SIMBA_EFORKED
 *
 * Threads: one at a time; not from a callback of this locker.
 */
SIMBA_API int simba_locker_release(simba_locker *locker, simba_error *error);

/**
 * Make a waiting simba_locker_acquire() return SIMBA_ECANCELED; without one,
 * nothing happens.
 *
 * Threads: any thread.
 */
SIMBA_API void simba_locker_cancel(simba_locker *locker);

/** Is it ours at this very instant? Any thread; wait-free; signal-safe. */
SIMBA_API bool simba_locker_is_owner(const simba_locker *locker);

/** Fencing token, 0 when not owner. Any thread; wait-free. */
SIMBA_API uint64_t simba_locker_token(const simba_locker *locker);

/** Which of its slots the present or last tenure has: less than options.slots,
 * and no other owner's meanwhile. 0 without slots; SIMBA_NO_SLOT on stores that
 * do not number them (SIMBA_NUMBERS_SLOTS). Any thread; wait-free. */
SIMBA_API uint32_t simba_locker_slot(const simba_locker *locker);

/**
 * Let another have the mutex, now: on_lost is called, min_hold is kept, and the
 * mutex is offered to the successor. Returns at once. It is released as after
 * any loss; simba_locker_acquire() waits for it again.
 *
 * @param locker      not NULL
 * @param to          id of the successor, which passes all others if it waits
 *                    and lives; NULL: whoever is first
 * @param[out] error  filled on failure; may be NULL
 * @return SIMBA_OK; SIMBA_ELOST when we are not the owner; SIMBA_EINVAL for an
 *         id that cannot be, or when this store has no hand-over;
 *         SIMBA_EFORKED
 *
 * Threads: any thread.
 */
SIMBA_API SIMBA_MUST_USE int simba_locker_hand_over(simba_locker *locker,
                                                    const char *to,
                                                    simba_error *error);

/** Say that the work is getting on (options.times.progress_ms). Any thread. */
SIMBA_API void simba_locker_progress(simba_locker *locker);

/**
 * When the tenure ends if no further renewal gets through, as milliseconds of
 * CLOCK_BOOTTIME: from U on is_owner answers no, and by H whatever the mutex
 * protects must have ended. For those who must enforce that from outside, such
 * as a guardian process.
 *
 * @param[out] use_until_ms   U, or 0 when not owner; may be NULL
 * @param[out] hard_until_ms  H, or 0 when not owner; may be NULL
 *
 * Threads: any thread; wait-free.
 */
SIMBA_API void simba_locker_deadlines(const simba_locker *locker,
                                      int64_t *use_until_ms,
                                      int64_t *hard_until_ms);

/**
 * How long the store keeps the mutex from others after it heard of this process
 * last, where that is not ttl and transition but the session of the handle
 * (SIMBA_HAS_SESSION_LEASE), as the server has agreed to it; 0: each tenure has
 * its own lease, or none was granted yet.
 *
 * Threads: any thread; wait-free.
 */
SIMBA_API int64_t simba_locker_session_ms(const simba_locker *locker);

/**
 * The store's clock, as far as its answers have told, for those who time their
 * work by it, so that owners that follow one another keep one beat.
 *
 * @param[out] ahead_ms    what the store's time is ahead of CLOCK_BOOTTIME, at
 *                         least, in milliseconds; each answer of the store
 *                         measures it anew. May be NULL
 * @param[out] granted_ms  store's time of the grant of the last tenure, or
 *                         little after it: what was due by then was due to the
 *                         owner before. May be NULL
 * @return false when the store tells no time, or nothing was acquired yet; then
 *         nothing is written
 *
 * Threads: any thread; wait-free.
 */
SIMBA_API bool simba_locker_clock(const simba_locker *locker,
                                  int64_t *ahead_ms,
                                  int64_t *granted_ms);

/** Release if held, then free. NULL is a no-op. Threads: one at a time; not
 * from its own callback, which is a programming error and aborts. */
SIMBA_API void simba_locker_close(simba_locker *locker);

/** For SIMBA_LOCKER_SCOPE. */
static inline void simba_locker_close_scope(simba_locker **locker)
{
    simba_locker_close(*locker);
}

/** Marks a local `simba_locker *`, set to NULL at first, that is closed when
 * its scope ends. Declare it after its store. */
#if defined(__GNUC__)
#define SIMBA_LOCKER_SCOPE __attribute__((cleanup(simba_locker_close_scope)))
#endif

SIMBA_END_DECLS

#endif
