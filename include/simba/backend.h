/**
 * @file simba/backend.h
 * For authors of backends: how a store is taught to keep mutexes.
 *
 * A backend holds no policy. It carries out single operations on single
 * mutexes; when to ask, to renew, to retry or to give up is decided elsewhere.
 * docs/safety.md says what an operation must guarantee; the shortest backend to
 * read is src/backends/memory.
 */
#ifndef SIMBA_BACKEND_H
#define SIMBA_BACKEND_H

#include <simba/error.h>
#include <simba/export.h>
#include <simba/log.h>
#include <simba/owner.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

SIMBA_BEGIN_DECLS

/** The version of this file's structs. They grow at the end only. */
#define SIMBA_BACKEND_ABI 1

struct event_base; /* of libevent */

typedef struct simba_loop simba_loop;
typedef struct simba_backend simba_backend;
typedef struct simba_backend_ops simba_backend_ops;
typedef struct simba_op simba_op;

/** Identity of one try to get a mutex, and of the tenure it becomes (S5). */
typedef struct simba_attempt {
    uint64_t high, low;
} simba_attempt;

enum simba_op_kind {
    /** Take the mutex if it is free and it is this contender's turn; else, if
     * `join`, take or keep a place in line. The attempt that has the mutex
     * already gets its lease extended and its token answered. */
    SIMBA_OP_ACQUIRE = 1,
    /** Extend this very tenure; never create, never steal. */
    SIMBA_OP_RENEW = 2,
    /** End this very attempt: its tenure if it has one, its place in line, its
     * being called; then call the next. Others' are left alone. With
     * `tombstone_ms`, refuse this attempt for so long. */
    SIMBA_OP_RELEASE = 3,
    /** Give up the place in line; if called, call the next. */
    SIMBA_OP_LEAVE = 4,
    /** Who owns it? Changes nothing. */
    SIMBA_OP_READ = 5
};

/** What a backend answers. Zeroed before the operation starts. */
typedef struct simba_op_reply {
    bool mine;         /**< acquire, renew: this attempt has the mutex */
    uint64_t token;    /**< when mine */
    bool in_line;      /**< refused, and has a place */
    bool is_head;      /**< nobody alive stands before it */
    uint64_t place;    /**< where; given back with the next acquire */
    int64_t wait_ms;   /**< refused: asking again earlier makes no sense */
    int64_t store_ms;  /**< the store's clock; 0: not told */
    simba_owner owner; /**< who owns it now, or none */
} simba_op_reply;

/** One operation. The runtime owns it until it is given to the backend, and
 * again after simba_op_done(). */
struct simba_op {
    enum simba_op_kind kind;
    const char *mutex; /**< valid by S14; lives as long as the operation */
    const char *id;    /**< likewise */
    simba_attempt attempt;
    uint64_t token;        /**< of the tenure, 0 while there is none */
    uint64_t place;        /**< acquire: the place first given, or 0 */
    int64_t ttl_ms;        /**< */
    int64_t transition_ms; /**< */
    int64_t waiter_ms;     /**< acquire: how long a place lives unrenewed */
    int64_t tombstone_ms;  /**< release: 0, or refuse the attempt so long */
    int64_t deadline_ms;   /**< boot clock; the answer is of no use later */
    bool join;             /**< acquire: take a place in line when refused */

    simba_op_reply reply; /**< filled before simba_op_done(op, SIMBA_OK, …) */

    simba_op *next;     /**< the backend's own, while it has the operation */
    void *backend_data; /**< likewise */
};

/**
 * Complete an operation, exactly once.
 *
 * @param op      gone afterwards
 * @param status  SIMBA_OK: answered. SIMBA_EUNKNOWN: it may have taken effect,
 *                or may yet. Any other code: it surely had none.
 * @param error   why it failed, or NULL; copied
 *
 * Threads: loop thread only.
 */
SIMBA_API void simba_op_done(simba_op *op,
                             int status,
                             const simba_error *error);

/** What a backend is opened with. */
typedef struct simba_backend_config {
    const char *url;  /**< whole, as given; may hold a password */
    const char *rest; /**< what follows "scheme:" */
    simba_loop *loop; /**< runs already */
    simba_log_fn log; /**< never NULL */
    void *log_user;
} simba_backend_config;

/** The head of every backend instance. */
struct simba_backend {
    const simba_backend_ops *ops;
    simba_loop *loop;
};

/** A backend: static, const, shared by its instances. */
struct simba_backend_ops {
    uint32_t abi;           /**< SIMBA_BACKEND_ABI */
    const char *scheme;     /**< of its URLs, static */
    int64_t least_lease_ms; /**< shortest ttl + transition it can keep */

    /** MUST. Open a store and set base.ops and base.loop. Called on the thread
     * of simba_store_open(); may block. */
    int (*open)(const simba_backend_config *config,
                simba_backend **backend,
                simba_error *error);
    /** MUST. Start an operation of any kind above; complete it exactly once
     * with simba_op_done(), at once or later. Must not block. Loop thread. */
    void (*submit)(simba_backend *self, simba_op *op);
    /** MUST. Free it. Called on the thread of simba_store_close() when the loop
     * has ended and no operation is open; may block shortly. */
    void (*close)(simba_backend *self);
    /** MAY be NULL. The loop is about to end: remove your events from it. Loop
     * thread. */
    void (*detach)(simba_backend *self);
    /** MAY be NULL. In a forked child: close descriptors, touch nothing shared,
     * send nothing, free nothing that needs a lock. */
    void (*forked)(simba_backend *self);
    /** MAY be NULL. The descriptor of simba_store_life_fd(). Any thread. */
    int (*life_fd)(simba_backend *self);
    /* ABI 1 ends here. Append below, never reorder. */
};

/** The loop's libevent base, for events of the backend. Loop thread only. */
SIMBA_API struct event_base *simba_loop_base(simba_loop *loop);

/** Run a function on the loop thread, soon. Threads: any. */
SIMBA_API void simba_loop_post(simba_loop *loop,
                               void (*run)(void *argument),
                               void *argument);

/** The boot clock in milliseconds, rounded down. Any thread. */
SIMBA_API int64_t simba_loop_now_ms(void);

/**
 * Say that the owner of a mutex may have changed, or that a waiter was called.
 * Spurious hints are allowed, lost ones too.
 *
 * @param loop   the backend's
 * @param mutex  NULL: any mutex
 *
 * Threads: loop thread only.
 */
SIMBA_API void simba_hint(simba_loop *loop, const char *mutex);

/* --- the blocking adapter ----------------------------------------------- */

typedef struct simba_worker simba_worker;

/**
 * For backends with plain blocking calls: a worker thread that takes operations
 * one by one.
 *
 * @param loop   the backend's
 * @param serve  carries out one operation, on the worker thread; fills
 *               op->reply and returns the status for simba_op_done()
 * @param self   first argument of serve
 *
 * Threads: any thread.
 */
SIMBA_API SIMBA_MUST_USE int simba_worker_open(simba_loop *loop,
                                               int (*serve)(void *self,
                                                            simba_op *op,
                                                            simba_error *error),
                                               void *self,
                                               simba_worker **worker);

/** Hand it an operation; it is completed on the loop thread. Loop thread.
 * Renewals and releases are taken before anything else. An
 * operation whose deadline has passed before its turn is completed with
 * SIMBA_EUNAVAIL. */
SIMBA_API void simba_worker_submit(simba_worker *worker, simba_op *op);

/** Wait for the operation in hand, drop the rest, end the thread. */
SIMBA_API void simba_worker_close(simba_worker *worker);

SIMBA_END_DECLS

#endif
