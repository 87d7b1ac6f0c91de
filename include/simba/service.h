/**
 * @file simba/service.h
 * A service is the running contention of one contender.
 *
 *     INITIAL --start--> STARTING --> RUNNING --stop--> STOPPING --> INITIAL
 */
#ifndef SIMBA_SERVICE_H
#define SIMBA_SERVICE_H

#include <simba/contender.h>
#include <simba/error.h>
#include <simba/export.h>
#include <simba/store.h>

#include <stdbool.h>
#include <stdint.h>

SIMBA_BEGIN_DECLS

typedef struct simba_service simba_service; /* opaque */

enum simba_service_status {
    SIMBA_INITIAL,  /**< not started, or stopped */
    SIMBA_STARTING, /**< the store has not answered yet */
    SIMBA_RUNNING,
    SIMBA_STOPPING /**< on its way out */
};

/**
 * Make a service for a contender; it does nothing before it is started.
 *
 * @param store        must outlive the service
 * @param contender    copied, its strings too
 * @param[out] service the handle, or NULL on failure; close it
 * @param[out] error   filled on failure; may be NULL
 * @return SIMBA_OK; SIMBA_EINVAL naming the value and why; SIMBA_ENOMEM;
 *         SIMBA_EFORKED
 *
 * Threads: any thread.
 */
SIMBA_API SIMBA_MUST_USE int simba_service_open(
    simba_store *store,
    const simba_contender *contender,
    simba_service **service,
    simba_error *error);

/**
 * Start to contend. Returns at once; callbacks tell what comes of it.
 *
 * @param service      not NULL
 * @param[out] error   filled on failure; may be NULL
 * @return SIMBA_OK; SIMBA_EMISUSE when it is not INITIAL; SIMBA_EFORKED
 *
 * Threads: any thread.
 */
SIMBA_API SIMBA_MUST_USE int simba_service_start(simba_service *service,
                                                 simba_error *error);

/**
 * Stop contending and wait until the store knows it: on_released has returned
 * (or overrun), then the mutex is released, then this returns.
 *
 * @param service      not NULL
 * @param[out] error   filled on failure; may be NULL
 * @return SIMBA_OK, also when it was not started; SIMBA_EUNKNOWN when the store
 *         did not answer: the lease will lapse by itself; SIMBA_EMISUSE from a
 *         callback of this service; SIMBA_EFORKED
 *
 * Threads: any thread, but not a callback of this service.
 */
SIMBA_API SIMBA_MUST_USE int simba_service_stop(simba_service *service,
                                                simba_error *error);

/**
 * Called when a service that was told to stop has done so.
 *
 * @param user    as given with the callback
 * @param status  what simba_service_stop() would have returned: SIMBA_OK, or
 *                SIMBA_EUNKNOWN when the store did not answer the release
 *
 * Threads: as the other callbacks of the service, after the last of them. The
 * service may be started again from it, and closed as soon as it has returned:
 * in a poll loop, when simba_store_dispatch() has. That close does not wait.
 */
typedef void (*simba_stopped_fn)(void *user, int status);

/**
 * Stop contending, as simba_service_stop() does, without waiting for it.
 *
 * @param service     not NULL
 * @param on_stopped  called once, also when it was not started; may be NULL
 * @param user        first argument of on_stopped
 * @param[out] error  filled on failure; may be NULL
 * @return SIMBA_OK; SIMBA_EMISUSE while the callback of another such stop is
 *         still to come; SIMBA_EFORKED
 *
 * Threads: any thread, and from its own callbacks.
 */
SIMBA_API SIMBA_MUST_USE int simba_service_stop_async(
    simba_service *service,
    simba_stopped_fn on_stopped,
    void *user,
    simba_error *error);

/**
 * Stop if need be, then free. No callback runs or starts afterwards.
 *
 * @param service  NULL is a no-op
 *
 * Threads: one at a time; a callback of this service calling it aborts.
 */
SIMBA_API void simba_service_close(simba_service *service);

/**
 * Do we own the mutex at this very instant? Computed from the clock, never a
 * stored flag: right also in a process that was stopped for an hour.
 *
 * @return true while the lease surely runs; false in a forked child
 *
 * Threads: any thread; wait-free; signal-safe.
 */
SIMBA_API bool simba_service_is_owner(const simba_service *service);

/**
 * The fencing token of the present tenure.
 *
 * @return 0 when we are not the owner
 *
 * Threads: any thread; wait-free.
 */
SIMBA_API uint64_t simba_service_token(const simba_service *service);

/**
 * Let another have the mutex, now: on_released is called, min_hold is kept, the
 * mutex is offered to the successor, and this service waits for it again, at
 * the end of the queue. Returns at once. If nobody waits, it gets it back.
 *
 * @param service      not NULL
 * @param to           id of the successor, which passes all others if it waits
 *                     and lives; NULL: whoever is first
 * @param[out] error   filled on failure; may be NULL
 * @return SIMBA_OK; SIMBA_ELOST when we are not the owner; SIMBA_EINVAL for an
 *         id that cannot be, or when this store has no hand-over;
 *         SIMBA_EFORKED
 *
 * Threads: any thread.
 */
SIMBA_API SIMBA_MUST_USE int simba_service_hand_over(simba_service *service,
                                                     const char *to,
                                                     simba_error *error);

/** Where the service stands. Threads: any thread. */
SIMBA_API enum simba_service_status simba_service_status(
    const simba_service *service);

/** Say that the work is getting on (contender.times.progress_ms). Any thread.
 */
SIMBA_API void simba_service_progress(simba_service *service);

/** For SIMBA_SERVICE_SCOPE. */
static inline void simba_service_close_scope(simba_service **service)
{
    simba_service_close(*service);
}

/** Marks a local `simba_service *`, set to NULL at first, that is closed when
 * its scope ends. Declare it after its store. */
#if defined(__GNUC__)
#define SIMBA_SERVICE_SCOPE __attribute__((cleanup(simba_service_close_scope)))
#endif

SIMBA_END_DECLS

#endif
