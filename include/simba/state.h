/**
 * @file simba/state.h
 * What changed: the owner before and the owner after, as callbacks get it.
 *
 * **A tenure is what changes hands, not an id.** A contender may lose a mutex
 * and get it back before anybody saw it free, so that both snapshots name it.
 * These are two tenures with two tokens, and between them another owner may
 * have come and gone. When both tokens are known (not 0) and differ, the state
 * is therefore a change, and the contender has both released *and* acquired.
 * Whoever asks both questions asks released first.
 *
 * Where a token is not known — an owner written by an implementation that has
 * none — only the ids are compared. A renewal keeps its token, so moved times
 * alone are never a change.
 */
#ifndef SIMBA_STATE_H
#define SIMBA_STATE_H

#include <simba/export.h>
#include <simba/owner.h>

#include <stdbool.h>
#include <stdint.h>

SIMBA_BEGIN_DECLS

/** Why a tenure ended. */
enum simba_cause {
    SIMBA_CAUSE_NONE = 0,     /**< none did */
    SIMBA_CAUSE_STOPPED = 1,  /**< we wanted it: a stop, a release, a close */
    SIMBA_CAUSE_EXPIRED = 2,  /**< no renewal was answered in time */
    SIMBA_CAUSE_TAKEN = 3,    /**< the store says that it is not ours any more:
                                 the lease ran out there, it was freed at once
                                 by force, or its record was removed */
    SIMBA_CAUSE_BROKEN = 4,   /**< somebody ended it by simba_admin_break(); on
                                 etcd and ZooKeeper that is TAKEN */
    SIMBA_CAUSE_MAX_HOLD = 5, /**< it was held for max_hold_ms */
    SIMBA_CAUSE_STALLED = 6,  /**< no progress was made for progress_ms */
    SIMBA_CAUSE_ASKED = 7     /**< somebody asked for a hand-over */
};

/**
 * A cause as a word, as it stands in logs: "none", "stopped", "expired",
 * "taken", "broken", "max_hold", "stalled", "asked".
 *
 * @param cause  others are called "unknown"
 * @return static text, never NULL
 *
 * Threads: any thread.
 */
SIMBA_API const char *simba_cause_name(enum simba_cause cause);

/** Two snapshots of one mutex, in the order they were seen. Those given to
 * callbacks grow at the end only. */
typedef struct simba_state {
    simba_owner before; /**< the owner that was known until now */
    simba_owner after;  /**< the owner that is known from now on */
    /** For those who only watch: between the two, owners may have come and gone
     * unseen. Not set by a mere free moment between two tenures; set without a
     * change when the mutex is free again after those who were missed. */
    bool has_gap;
    enum simba_cause cause; /**< in on_released: why the tenure ended */
    /** For those who only watch: how many own it from now on. Of a mutex with
     * slots each tenure that begins or ends is a change of its own: without
     * `before` it began beside others, without `after` it ended, and these
     * go on. */
    uint32_t owned;
} simba_state;

/**
 * Did the mutex change hands?
 *
 * @param state  state, not NULL
 * @return true when the ids differ, or when they are equal under two different
 *         tokens, neither of them 0
 *
 * Threads: any thread.
 */
SIMBA_API bool simba_state_is_changed(const simba_state *state);

/**
 * Did this contender get the mutex by this change?
 *
 * @param state  state, not NULL
 * @param id     contender id, not NULL
 * @return true when the mutex changed hands and `after` names the contender
 *
 * Threads: any thread.
 */
SIMBA_API bool simba_state_is_acquired(const simba_state *state,
                                       const char *id);

/**
 * Did this contender lose or give back the mutex by this change?
 *
 * @param state  state, not NULL
 * @param id     contender id, not NULL
 * @return true when the mutex changed hands and `before` names the contender
 *
 * Threads: any thread.
 */
SIMBA_API bool simba_state_is_released(const simba_state *state,
                                       const char *id);

/**
 * Does the later snapshot name this contender?
 *
 * @param state  state, not NULL
 * @param id     contender id, not NULL
 * @return simba_owner_is_owner() of `after`
 *
 * Threads: any thread.
 */
SIMBA_API bool simba_state_is_owner(const simba_state *state, const char *id);

/**
 * Does the later snapshot name this contender, with the ttl still running?
 *
 * @param state   state, not NULL
 * @param id      contender id, not NULL
 * @param now_ms  store's time
 * @return simba_owner_is_in_ttl_of() of `after`
 *
 * Threads: any thread.
 */
SIMBA_API bool simba_state_is_in_ttl(const simba_state *state,
                                     const char *id,
                                     int64_t now_ms);

SIMBA_END_DECLS

#endif
