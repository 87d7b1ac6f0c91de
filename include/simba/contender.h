/**
 * @file simba/contender.h
 * Who wants a mutex: its name, an id, the times of its lease, and what to call
 * when ownership changes.
 */
#ifndef SIMBA_CONTENDER_H
#define SIMBA_CONTENDER_H

#include <simba/export.h>
#include <simba/state.h>
#include <simba/times.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

SIMBA_BEGIN_DECLS

/**
 * Called when ownership changes. `state->after.token` is the fencing token of
 * the tenure that began; in on_released, `state->before.token` is that of the
 * tenure that ended, and `state->cause` says why it did.
 *
 * Threads: called on a callback thread, by the executor or within
 * simba_store_dispatch(), as the store was opened; one call at a time for a
 * contender, acquired and released in turn. No lock of ours is held. Everything
 * may be called from it but the close and stop of its own service, which
 * simba_service_stop_async() stops.
 */
typedef void (*simba_contender_fn)(void *user, const simba_state *state);

typedef struct simba_contender {
    uint32_t size;            /**< set by SIMBA_CONTENDER_INIT */
    const char *mutex;        /**< required; copied */
    const char *id;           /**< NULL: made as simba_id_host() does; copied */
    simba_times times;        /**< budget_ms is how long on_released may take */
    int64_t initial_delay_ms; /**< from start to the first request */
    simba_contender_fn on_acquired; /**< NULL: logged only */
    simba_contender_fn on_released; /**< NULL: logged only */
    simba_contender_fn on_changed; /**< a change of owner between others, as far
                                      as it was seen; may be NULL */
    void *user;                    /**< first argument of the callbacks */
    /** How many may own the mutex while we do, ourselves included. 0 or 1: we
     * alone. n: at most n of us. SIMBA_SHARED: any number of those who share.
     * The least limit of all owners counts, and nobody passes who waits before
     * it. Above 1 only with SIMBA_CAN_SLOTS. Which slot a tenure has is told in
     * its owner: below n, and no other owner's. Two that each own one and wait
     * for another slot of it wait for each other: give an end to such waits. */
    uint32_t slots;
    /** With SIMBA_TELL_COMMAND: what is told as our command; NULL: the command
     * line of this process. Copied */
    const char *command;
    /** What those who look at the mutex are told about us while we own it, of
     * enum simba_tell; 0: nothing but the id. Only with SIMBA_CAN_TELL. */
    uint32_t tell;
    uint32_t reserved; /**< 0 */
} simba_contender;

/** What an owner tells about itself (simba_admin_told()): for people, so that
 * they know whom to ask. Nothing is decided by it, it may come a moment after
 * the mutex was acquired, and it is gone with the tenure, or when its lease is
 * over. A password on a command line is told with it, but for those in URLs. */
enum simba_tell {
    SIMBA_TELL_HOST = 1 << 0,   /**< the name of this machine */
    SIMBA_TELL_PID = 1 << 1,    /**< the number of this process */
    SIMBA_TELL_USER = 1 << 2,   /**< whose it is, by name */
    SIMBA_TELL_COMMAND = 1 << 3 /**< what it runs */
};

/** As `slots`: shared with any number of others who share. */
#define SIMBA_SHARED UINT32_MAX

/* clang-format off */
#define SIMBA_CONTENDER_INIT \
    {(uint32_t)sizeof(simba_contender), 0, 0, SIMBA_TIMES_INIT, 0, 0, 0, 0, 0, \
     0, 0, 0, 0}
/* clang-format on */

/**
 * Make a readable id, `counter:pid@host`, with randomness appended so that it
 * is unique even where containers share pid and host name.
 *
 * @param[out] id  SIMBA_ID_MAX + 1 bytes at least
 *
 * Threads: any thread.
 */
SIMBA_API void simba_id_host(char *id);

/**
 * Make an id of 32 random hexadecimal digits.
 *
 * @param[out] id  33 bytes at least
 *
 * Threads: any thread.
 */
SIMBA_API void simba_id_uuid(char *id);

SIMBA_END_DECLS

#endif
