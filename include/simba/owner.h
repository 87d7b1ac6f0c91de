/**
 * @file simba/owner.h
 * A snapshot of who owns a mutex, as the store saw it.
 *
 * A snapshot is a plain value: copy it, keep it, compare it. It does not change
 * when the mutex does. All its times are milliseconds of the *store's* clock
 * and are compared only with another time of that clock; `now_ms` below is such
 * a time. To ask whether this process owns a mutex at this instant, ask its
 * service, which counts on its own clock and needs no store time.
 */
#ifndef SIMBA_OWNER_H
#define SIMBA_OWNER_H

#include <simba/export.h>

#include <stdbool.h>
#include <stdint.h>

SIMBA_BEGIN_DECLS

/** Longest contender id in bytes, the closing NUL not counted. */
#define SIMBA_ID_MAX 128

/** Longest mutex name in characters (Unicode code points). */
#define SIMBA_MUTEX_MAX 66

/** Longest mutex name in bytes of UTF-8, 66 * 4, the NUL not counted. */
#define SIMBA_MUTEX_MAX_BYTES 264

/** As the slot of a tenure: this store does not number them. */
#define SIMBA_NO_SLOT UINT32_MAX

/**
 * Who owns a mutex, until when, and under which fencing token.
 *
 * The lease has two parts. Until `ttl_at_ms` the owner is expected to renew;
 * from there until `transition_at_ms` it may still renew and nobody else may
 * take the mutex; after that the mutex is free.
 */
typedef struct simba_owner {
    char id[SIMBA_ID_MAX + 1]; /**< contender id; "" when nobody owns it */
    bool is_broken;            /**< ended by force: it cannot be renewed */
    bool is_asked;             /**< asked to hand over, and has not yet */
    uint8_t reserved_flag;     /**< 0 */
    uint32_t slots;            /**< how many owners it suffers; 0: itself */
    int64_t acquired_at_ms;    /**< when this tenure began */
    int64_t ttl_at_ms;         /**< end of the ttl; INT64_MAX: has no end */
    int64_t transition_at_ms;  /**< end of the lease; INT64_MAX: has no end */
    uint64_t token;            /**< fencing token; 0 when none is known */
    uint32_t slot;             /**< which slot it has; 0 without slots */
    int32_t priority;          /**< reserved: 0 */
    uint64_t former;           /**< token of the tenure that began before this
                                * one; 0: not told */
    uint64_t reserved;         /**< 0 */
} simba_owner;

/**
 * The owner of a mutex that nobody owns: an empty id, and zero everywhere else.
 *
 * @return the same value each time
 *
 * Threads: any thread.
 */
SIMBA_API simba_owner simba_owner_none(void);

/**
 * Put a contender id into a snapshot.
 *
 * An id that does not fit is refused rather than cut: a cut id could equal the
 * id of another contender.
 *
 * @param owner  snapshot to change, not NULL
 * @param id     id, not NULL; copied
 * @return true; false when the id is longer than SIMBA_ID_MAX bytes, and then
 *         the snapshot is as it was
 *
 * Threads: one at a time for each snapshot.
 */
SIMBA_API SIMBA_MUST_USE bool simba_owner_set_id(simba_owner *owner,
                                                 const char *id);

/**
 * Does the snapshot name this contender, whether or not the lease still runs?
 *
 * Ids are compared byte for byte. Since one contender can lose a mutex and get
 * it again, an equal id does not prove an equal tenure; the token does.
 *
 * @param owner  snapshot, not NULL
 * @param id     contender id, not NULL
 * @return true when the ids are equal
 *
 * Threads: any thread.
 */
SIMBA_API bool simba_owner_is_owner(const simba_owner *owner, const char *id);

/**
 * Is the ttl still running?
 *
 * @param owner   snapshot, not NULL
 * @param now_ms  store's time
 * @return true when `ttl_at_ms > now_ms`: the last instant of the ttl is the
 *         one before `ttl_at_ms`
 *
 * Threads: any thread.
 */
SIMBA_API bool simba_owner_is_in_ttl(const simba_owner *owner, int64_t now_ms);

/**
 * Is this contender named, with the ttl still running?
 *
 * @param owner   snapshot, not NULL
 * @param id      contender id, not NULL
 * @param now_ms  store's time
 * @return simba_owner_is_owner() and simba_owner_is_in_ttl()
 *
 * Threads: any thread.
 */
SIMBA_API bool simba_owner_is_in_ttl_of(const simba_owner *owner,
                                        const char *id,
                                        int64_t now_ms);

/**
 * Is the lease, ttl and transition together, still running?
 *
 * @param owner   snapshot, not NULL
 * @param now_ms  store's time
 * @return true when `transition_at_ms >= now_ms`: unlike the ttl, the lease
 *         includes its last instant
 *
 * Threads: any thread.
 */
SIMBA_API bool simba_owner_is_in_transition(const simba_owner *owner,
                                            int64_t now_ms);

/**
 * Is this contender named, with the lease still running?
 *
 * @param owner   snapshot, not NULL
 * @param id      contender id, not NULL
 * @param now_ms  store's time
 * @return simba_owner_is_owner() and simba_owner_is_in_transition()
 *
 * Threads: any thread.
 */
SIMBA_API bool simba_owner_is_in_transition_of(const simba_owner *owner,
                                               const char *id,
                                               int64_t now_ms);

/**
 * Does anybody own the mutex at this time?
 *
 * A ttl that has ended counts as owned until the transition has ended too. Only
 * the times are looked at, so simba_owner_none() has an owner by this formula
 * at `now_ms` 0 and before. No store's clock stands there, but a test's might.
 *
 * @param owner   snapshot, not NULL
 * @param now_ms  store's time
 * @return true when `transition_at_ms >= now_ms`
 *
 * Threads: any thread.
 */
SIMBA_API bool simba_owner_has_owner(const simba_owner *owner, int64_t now_ms);

SIMBA_END_DECLS

#endif
