/**
 * @file simba/retrieval.h
 * Watching who owns a mutex, without contending for it.
 *
 * A retriever names the mutex and what to call; its retrieval service does the
 * watching. Changes are told in order, none twice. The service looks when the
 * store says that the owner has changed, and every so often by itself, for a
 * lease that lapses or a dead owner is announced by nobody. A tenure that is
 * over before it was seen leaves a gap: state->has_gap says so, between the two
 * owners or, when the mutex was free before and is free again, alone. Each
 * tenure knows the one before it; only on ZooKeeper a gap may be told where
 * there was none: when one left the queue, or a mutex was removed as unused,
 * just as we did not look.
 */
#ifndef SIMBA_RETRIEVAL_H
#define SIMBA_RETRIEVAL_H

#include <simba/contender.h>
#include <simba/error.h>
#include <simba/export.h>
#include <simba/service.h>
#include <simba/state.h>
#include <simba/store.h>

#include <stdint.h>

SIMBA_BEGIN_DECLS

typedef struct simba_retriever {
    uint32_t size;     /**< set by SIMBA_RETRIEVER_INIT */
    const char *mutex; /**< required; copied */
    int64_t poll_ms;   /**< look at least this often; 0: 1 000 */
    /** The owner changed: from state->before to state->after; an empty id means
     * nobody. Of several owners one did: it has the slot of the one before; an
     * empty id means that it began or ended beside the others, state->owned in
     * all. With state->has_gap others may have been owners in between. On a
     * callback thread, one call at a time; up to 1 000 changes wait for a slow
     * one, further ones become a gap. Required. */
    simba_contender_fn on_changed;
    void *user; /**< first argument of on_changed */
} simba_retriever;

/* clang-format off */
#define SIMBA_RETRIEVER_INIT {(uint32_t)sizeof(simba_retriever), 0, 0, 0, 0}
/* clang-format on */

typedef struct simba_retrieval simba_retrieval; /* opaque */

/**
 * Make a retrieval service; it does nothing before it is started.
 *
 * @param store          must outlive it
 * @param retriever      copied, its strings too
 * @param[out] retrieval the handle, or NULL on failure; close it
 * @param[out] error     filled on failure; may be NULL
 * @return SIMBA_OK; SIMBA_EINVAL naming the value and why; SIMBA_ENOMEM;
 *         SIMBA_EFORKED
 *
 * Threads: any thread.
 */
SIMBA_API SIMBA_MUST_USE int simba_retrieval_open(
    simba_store *store,
    const simba_retriever *retriever,
    simba_retrieval **retrieval,
    simba_error *error);

/**
 * Start to watch. The first owner seen is told as a change from nobody.
 *
 * @return SIMBA_OK; SIMBA_EMISUSE when it is started already; SIMBA_EFORKED
 *
 * Threads: any thread.
 */
SIMBA_API SIMBA_MUST_USE int simba_retrieval_start(simba_retrieval *retrieval,
                                                   simba_error *error);

/**
 * Stop watching, and wait for a callback that runs.
 *
 * @return SIMBA_OK, also when it was not started; SIMBA_EMISUSE from its own
 *         callback; SIMBA_EFORKED
 *
 * Threads: any thread, but not a callback of this retrieval.
 */
SIMBA_API SIMBA_MUST_USE int simba_retrieval_stop(simba_retrieval *retrieval,
                                                  simba_error *error);

/** Where it stands: INITIAL, STARTING until the store answered, or RUNNING.
 * Threads: any thread. */
SIMBA_API enum simba_service_status simba_retrieval_status(
    const simba_retrieval *retrieval);

/** Stop if need be, then free. NULL is a no-op. Threads: one at a time; its own
 * callback calling it aborts. */
SIMBA_API void simba_retrieval_close(simba_retrieval *retrieval);

/** For SIMBA_RETRIEVAL_SCOPE. */
static inline void simba_retrieval_close_scope(simba_retrieval **retrieval)
{
    simba_retrieval_close(*retrieval);
}

/** Marks a local `simba_retrieval *`, set to NULL at first, that is closed when
 * its scope ends. Declare it after its store. */
#if defined(__GNUC__)
#define SIMBA_RETRIEVAL_SCOPE                                                  \
    __attribute__((cleanup(simba_retrieval_close_scope)))
#endif

SIMBA_END_DECLS

#endif
