/**
 * @file simba/sys/request.h
 * For authors of backends: one request to a store and its reply. The same plain
 * values go from the state machine that decides to ask, through the runtime, to
 * the store that answers.
 */
#ifndef SIMBA_SYS_REQUEST_H
#define SIMBA_SYS_REQUEST_H

#include <simba/error.h>
#include <simba/export.h>
#include <simba/owner.h>
#include <simba/report.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

SIMBA_BEGIN_DECLS

/** Identity of one try to get a mutex, and of the tenure it becomes (S5). */
typedef struct simba_attempt {
    uint64_t high, low;
} simba_attempt;

enum simba_request_kind {
    SIMBA_NO_REQUEST = 0,
    /** Take the mutex if it is free and nobody alive stands before this
     * contender; else, if `join`, take or keep a position in the queue. The
     * attempt that has the mutex already gets its lease extended and its token
     * answered. */
    SIMBA_ACQUIRE = 1,
    /** Extend this very tenure; never create, never steal. */
    SIMBA_RENEW = 2,
    /** End this very attempt: its tenure if it has one, its position in the
     * queue, an offer made to it; then offer the mutex to the next. Others' are
     * left alone. With `tombstone_ms`, refuse this attempt for so long. */
    SIMBA_RELEASE = 3,
    /** Give up the position in the queue, and an offer made to it. */
    SIMBA_LEAVE = 4,
    /** Who owns it? With `want_queue`, also who waits. Changes nothing. */
    SIMBA_READ = 5,
    /** Which mutexes are there? simba_request_add_mutex() for each that has an
     * owner or a queue. `mutex` is "". Only with SIMBA_CAN_LIST. */
    SIMBA_LIST = 6,
    /** End the tenure with `token`, whoever has it: no renewal is accepted any
     * more; free at the end of its lease, or with `now` at once, and offered to
     * the next. `mine` is answered when it was there. Only with
     * SIMBA_CAN_BREAK. */
    SIMBA_BREAK = 7,
    /** simba_request_add_finding() for everything this store, set up as it is,
     * can or cannot promise. `mutex` is "". Only with SIMBA_CAN_DOCTOR. */
    SIMBA_DOCTOR = 8,
    /** Make what the store needs and has not got, such as tables; change
     * nothing that is there, unless `upgrade`. simba_request_add_finding() for
     * each thing: OK when it is as it should be now, WEAK when only an upgrade
     * would make it so. `mutex` is "". Only with SIMBA_CAN_INIT. */
    SIMBA_INIT = 9,
    /** Is the server there, and does it let us in? Answered as soon as that is
     * known; asks for no mutex. `mutex` is "". Only with SIMBA_HAS_SERVER. */
    SIMBA_REACH = 10,
    /** The handle is about to be closed: end what the server keeps of it, such
     * as a session, so that nobody has to wait until it runs out. Comes last,
     * and is not waited for long. `mutex` is "". Only with
     * SIMBA_HAS_SESSION_LEASE. */
    SIMBA_CLOSE = 11,
    /** Ask the owner of the tenure with `token`, 0: of the oldest, to hand
     * over: to the contender with the id `to`, NULL: to whoever is first. Kept
     * with the tenure, told by its renewals, and its owner is woken. `mine` is
     * answered when the tenure is there, and `to` when that one waits; else
     * nothing is asked. Only with SIMBA_CAN_HAND_OVER. */
    SIMBA_HAND_OVER = 12,
    /** Keep `reason` as what the owner with `token` tells about itself, instead
     * of what it told before, for ttl + transition from now; NULL: forget it.
     * Nothing else depends on it: where it is written, and whether the tenure
     * is still there, does not matter. Only with SIMBA_CAN_TELL. */
    SIMBA_TELL = 13,
    /** simba_request_add_told() for each that is kept of the mutex; `mutex` is
     * "": of all. Only with SIMBA_CAN_TELL. */
    SIMBA_TOLD = 14,
    /** simba_request_add_broken() for each break that was written down of the
     * mutex; `mutex` is "": of all. Only with SIMBA_TELLS_BREAKS. */
    SIMBA_BREAKS = 15
};

/** simba_reply.ended, with SIMBA_TELLS_ENDED: but not for this owner, who is
 * of another implementation. */
#define SIMBA_ENDED_UNKNOWN UINT64_MAX

/** What a backend answers. Zeroed before the request starts, but for the
 * size. Grows at the end. */
typedef struct simba_reply {
    /** Set by who made the request: this struct as it knows it. A backend
     * leaves it as it is, and writes to no member that ends beyond it; to write
     * the whole struct it uses simba_reply_copy(). */
    uint32_t size;
    bool mine;         /**< acquire, renew: this attempt has the mutex */
    bool is_queued;    /**< refused, and has a position in the queue */
    bool is_head;      /**< nobody alive stands before it */
    uint64_t token;    /**< when mine: the fencing token */
    uint64_t position; /**< when queued; given back with the next acquire */
    int64_t wait_ms;   /**< refused: asking again earlier makes no sense */
    int64_t store_ms;  /**< the store's clock; 0: not told */
    simba_owner owner; /**< who owns it now, or none */
    /** Read: token of the tenure that ended last, which is the one before the
     * owner's. By it observers see whether they missed one. 0: not known, and
     * with SIMBA_TELLS_ENDED: there was none */
    uint64_t ended;
    /** When mine: the lease granted, counted from the submitting, if it is
     * shorter than ttl + transition; 0: just that. A later answer may grant
     * less, but never ends what an earlier one granted. */
    int64_t lease_ms;
    /** Read, for stores that cannot tell `ended` but number all who ask for a
     * mutex, in the order they are served: the number of the owner, or if there
     * is none, the next to be given; and the number of who is next, which of a
     * free mutex is the same. Nobody came and went between two reads if
     * `serial` of the second is `next_serial` of the first; of several owners,
     * if as many began as `next_serial` has grown by. 0: not numbered */
    uint64_t serial, next_serial;

    /* With SIMBA_CAN_SLOTS and SIMBA_CAN_HAND_OVER; else 0 and "". */
    uint32_t slot;  /**< when mine: which of the slots it has */
    uint32_t slots; /**< how many may own it now: the least limit of all; 0:
                     * one */
    uint32_t owned; /**< how many own it now */
    /** When mine, with SIMBA_HAS_SESSION_LEASE: how long the session lasts
     * after the store heard of us last, as it was agreed upon; 0: not told */
    uint32_t session_ms;
    char asked[SIMBA_ID_MAX + 1]; /**< renew: hand over to this id; "@": to
                                   * anybody */
    /** Release, hand-over: to whom. Acquire, refused: the named successor that
     * it is offered to, if it stands behind who asks. */
    char to[SIMBA_ID_MAX + 1];
} simba_reply;

/** The first version of a reply: all before what was reserved then. */
#define SIMBA_REPLY_SIZE_LEAST ((uint32_t)offsetof(simba_reply, slot))

/* clang-format off */
#define SIMBA_REPLY_INIT                                                       \
    {(uint32_t)sizeof(simba_reply), false, false, false, 0, 0, 0, 0,           \
     {"", false, false, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},                         \
     0, 0, 0, 0, 0, 0, 0, 0, "", ""}
/* clang-format on */

/** Copy as much as both know, and leave the size of `to` as it is.
 * Threads: whoever has both. */
static inline void simba_reply_copy(simba_reply *to, const simba_reply *from)
{
    const size_t head = sizeof to->size;
    size_t size = to->size < from->size ? to->size : from->size;

    if (size > head) {
        memcpy((char *)to + head, (const char *)from + head, size - head);
    }
}

typedef struct simba_request simba_request;

/**
 * One request. Its sender owns it until it is given to the backend, and again
 * after simba_request_done().
 *
 * Everything before the reply stays where it is in all versions: new members
 * come out of `reserved`, and only the reply grows. So the size of a request is
 * the offset of its reply and the size of that.
 *
 * Who sends one sets both sizes, as SIMBA_REQUEST_INIT does: the runtime for
 * backends, the caller of simba_probe(). The library obeys them: it reads and
 * writes nothing beyond, takes what it does not find there as 0, and refuses
 * sizes below those of the first version with SIMBA_EMISUSE. A backend obeys
 * the reply's.
 *
 * It can be copied: a backend that sends it on to others copies as much as the
 * original has and it knows itself, sets `size`, `reply`, `done` and `original`
 * of the copy, and clears what is the backend's own. The texts stay the
 * original's. What the copy was answered is copied back by simba_reply_copy().
 */
struct simba_request {
    uint32_t size; /**< of this struct, the reply included, as its sender
                    * knows it */
    enum simba_request_kind kind;
    uint64_t seq;      /**< the sender's own number */
    const char *mutex; /**< valid by S14; lives as long as the request */
    const char *id;    /**< likewise */
    simba_attempt attempt;
    uint64_t token;        /**< of the tenure, 0 while there is none */
    uint64_t position;     /**< acquire: the position first given, or 0 */
    int64_t ttl_ms;        /**< acquire, renew */
    int64_t transition_ms; /**< likewise */
    int64_t waiter_ms;     /**< acquire: how long a position lives unrenewed */
    int64_t tombstone_ms;  /**< release: 0, or refuse the attempt so long */
    int64_t deadline_ms;   /**< boot clock; the answer is of no use later */
    bool join;       /**< acquire: take a position in the queue when refused */
    bool want_queue; /**< read: tell who waits as well */
    bool now;        /**< break: do not wait for the end of the lease */
    bool upgrade;    /**< init: also change what is there */
    bool is_driven;  /**< its caller comes to drive(), if only to leave */
    /** Acquire: who asks is in the queue and was told nothing since; it asks
     * only in case a wake-up was lost. A backend that looks for all who wait at
     * once, and keeps their positions, may answer by what it has seen last. */
    bool is_backstop;
    const char *reason; /**< break: for the store's own log, if it has one;
                         * tell: the text */

    /** Acquire: a new token is greater than this one, too; 0: none. Stores
     * keep tokens of 63 bits, so INT64_MAX - 1 is the greatest here. Where the
     * tenures are numbered otherwise (by ZooKeeper's server, by the version in
     * a table that has no column for tokens) it cannot be kept: who asked
     * compares the token it was given. */
    uint64_t token_above;
    /** Acquire, renew: how many may own it while this one does, itself
     * included; 0: it alone, UINT32_MAX: any number. A renewal may ask for more
     * than before, never for less. Above 1 only with SIMBA_CAN_SLOTS. */
    uint32_t slots;
    int32_t priority; /**< reserved: 0 */
    /** Release: the successor, which is offered the mutex before all others if
     * it waits and lives; NULL: the first. Only with SIMBA_CAN_HAND_OVER. */
    const char *to;

    simba_request *next; /**< the backend's own, while it has the request */
    void *backend_data;  /**< likewise */

    /** Of a copy: what simba_request_done() calls. NULL: its sender is the
     * runtime. */
    void (*done)(simba_request *copy, int status, const simba_error *error);
    simba_request *original; /**< of a copy: takes what is added to it */
    /** Acquire: the release budget. A lease that leaves no time beside it is of
     * no use: a backend that knows it can grant no longer one refuses. */
    int64_t budget_ms;
    uint64_t reserved[3];

    simba_reply reply; /**< filled before simba_request_done(…, SIMBA_OK, …) */
};

/* clang-format off */
/** A request of which nothing is set but its sizes. */
#define SIMBA_REQUEST_INIT                                                     \
    {(uint32_t)sizeof(simba_request), SIMBA_NO_REQUEST, 0, 0, 0, {0, 0}, 0, 0, \
     0, 0, 0, 0, 0, false, false, false, false, false, false, 0, 0, 0, 0, 0,   \
     0, 0, 0, 0, 0, {0, 0, 0}, SIMBA_REPLY_INIT}
/* clang-format on */

/**
 * Complete a request, exactly once. One that has no answer at its deadline is
 * completed then or soon after: as SIMBA_EUNKNOWN if it may have taken effect,
 * else as SIMBA_EUNAVAIL.
 *
 * @param request  gone afterwards
 * @param status   SIMBA_OK: answered. SIMBA_EUNKNOWN: it may have taken effect,
 *                 or may yet. Any other code: it surely had none. SIMBA_EBUSY,
 *                 of an acquire: the store grants nothing to anybody for a
 *                 while; the error says why and how long.
 * @param error    why it failed, with `status` as its code, or NULL; copied
 *
 * Threads: inside the loop.
 */
SIMBA_API void simba_request_done(simba_request *request,
                                  int status,
                                  const simba_error *error);

/** Add one to the queue that a read answers, in the order of the queue; copied.
 * Threads: whoever has the request. */
SIMBA_API void simba_request_add_waiter(simba_request *request,
                                        const simba_waiter *waiter);

/** Add one to the owners that a read answers, or to those of the mutex that
 * was last added to a list; the oldest first; copied. Not needed where there is
 * one at most, which the reply or simba_request_add_mutex() tells. A read
 * without `want_queue` may leave it out: who needs it asks again with it. Each
 * has `former` with SIMBA_TELLS_ENDED.
 * Threads: whoever has the request. */
SIMBA_API void simba_request_add_owner(simba_request *request,
                                       const simba_owner *owner);

/** Add one to what a list answers; copied. `waiting` counts its queue, -1:
 * unknown. Threads: whoever has the request. */
SIMBA_API void simba_request_add_mutex(simba_request *request,
                                       const char *mutex,
                                       const simba_owner *owner,
                                       int waiting);

/** Add what an owner tells about itself, as it was given with SIMBA_TELL;
 * copied. What is no such text does no harm.
 * Threads: whoever has the request. */
SIMBA_API void simba_request_add_told(simba_request *request,
                                      const char *mutex,
                                      uint64_t token,
                                      const char *text);

/** Add one to the breaks, in any order; copied.
 * Threads: whoever has the request. */
SIMBA_API void simba_request_add_broken(simba_request *request,
                                        const simba_broken *broken);

/** Add one to what the doctor answers. `name` is a stable word for programs,
 * such as "persistence"; the text is for people, without a full stop.
 * Threads: whoever has the request. */
SIMBA_API void simba_request_add_finding(simba_request *request,
                                         enum simba_gravity gravity,
                                         const char *name,
                                         const char *format,
                                         ...)
    __attribute__((format(printf, 4, 5)));

SIMBA_END_DECLS

#endif
