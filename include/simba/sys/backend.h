/**
 * @file simba/sys/backend.h
 * For authors of backends: how a store is taught to keep mutexes.
 *
 * A backend holds no policy. It carries out single requests on single
 * mutexes; when to ask, to renew, to retry or to give up is decided elsewhere.
 * backends.md says how to write one, safety.md what a request must guarantee,
 * and examples/backend has some to begin with; they are installed together, in
 * share/doc/simba.
 */
#ifndef SIMBA_SYS_BACKEND_H
#define SIMBA_SYS_BACKEND_H

#include <simba/error.h>
#include <simba/export.h>
#include <simba/log.h>
#include <simba/owner.h>
#include <simba/report.h>
#include <simba/store.h>
#include <simba/sys/request.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

SIMBA_BEGIN_DECLS

/** The version of this file's structs. They grow at the end only. */
#define SIMBA_BACKEND_ABI 2

typedef struct simba_loop simba_loop;
typedef struct simba_backend simba_backend;
typedef struct simba_backend_ops simba_backend_ops;

/** What a backend is opened with. */
typedef struct simba_backend_config {
    const char *url;  /**< whole, as given; may hold a password */
    const char *rest; /**< what follows "scheme:" */
    simba_loop *loop; /**< runs already */
    simba_log_fn log; /**< never NULL */
    void *log_user;
    bool look; /**< open: make nothing; what is not there is SIMBA_ENOTINIT */
    /** Open, with `look`: what is not there is SIMBA_ENOTINIT only to requests
     * other than SIMBA_DOCTOR. MAY be passed over. */
    bool examine;
    /** For those whose URL has another in it, such as a shim: find the backend
     * of that one, and what follows its "scheme:". */
    int (*find)(const char *url,
                const simba_backend_ops **ops,
                const char **rest,
                simba_error *error);
} simba_backend_config;

/** The head of every backend instance. */
struct simba_backend {
    const simba_backend_ops *ops;
    simba_loop *loop;
};

/** How much this process wants to hear about a mutex. */
enum simba_subscription {
    SIMBA_SUBSCRIBE_NONE = 0,
    SIMBA_SUBSCRIBE_WAIT = 1,   /**< hear when it is offered to us */
    SIMBA_SUBSCRIBE_OBSERVE = 2 /**< hear of every change of owner */
};

/** A backend: static, const, shared by its instances. */
struct simba_backend_ops {
    uint32_t abi;       /**< SIMBA_BACKEND_ABI */
    const char *scheme; /**< of its URLs, static */
    /** The shortest ttl + transition it can keep: shorter ones are refused. A
     * few times what a slow answer takes; 100 is the least that any has. */
    int64_t least_lease_ms;

    /** MUST. Open a store and set base.ops and base.loop. Called on the thread
     * of simba_store_open(); may block. Outside the loop: enter it for what
     * must be done inside, such as simba_connection_open(). */
    int (*open)(const simba_backend_config *config,
                simba_backend **backend,
                simba_error *error);
    /** MUST. Start a request; complete it exactly once with
     * simba_request_done(), at once or later. Must not block. Inside the loop.
     * Kinds whose capability is not claimed do not come; one that you do not
     * know, of a newer library, is completed with SIMBA_EINVAL. */
    void (*submit)(simba_backend *self, simba_request *request);
    /** MUST. Free it. Called on the thread of simba_store_close() when the loop
     * has ended and no request is open; may block shortly. */
    void (*close)(simba_backend *self);
    /** MAY be NULL. The loop is about to end: clear your timers and
     * descriptors. Inside the loop. */
    void (*detach)(simba_backend *self);
    /** MAY be NULL. In a forked child: close descriptors, touch nothing shared,
     * send nothing, free nothing that needs a lock. */
    void (*forked)(simba_backend *self);
    /** MAY be NULL. The descriptor of simba_store_life_fd(). Any thread. */
    int (*life_fd)(simba_backend *self);

    uint32_t capabilities; /**< of enum simba_capability */

    /** MAY be NULL. How much this process wants to hear about a mutex has
     * changed: of who observes before its first read, of who waits not before
     * its first refusal, which is too late to make sure that it hears. Comes
     * whether a server is there or not: remember what is observed, and tell
     * each new connection. Inside the loop. */
    void (*subscription)(simba_backend *self,
                         const char *mutex,
                         enum simba_subscription subscription);
    /**
     * MAY be NULL. A thread that has submitted a request and has nothing to
     * do until it is done lends itself: do one step of the work here, on this
     * thread, instead of waking another. Outside the loop; enter it to complete
     * requests. One thread at a time.
     *
     * @param until_ms  wait no longer than this (boot clock), nor after
     *                  simba_loop_nudge_fd() has become readable. 0: the thread
     *                  leaves; see to the rest without it
     * @return false when there is nothing to do on a caller's thread
     */
    bool (*drive)(simba_backend *self, int64_t until_ms);

    /** MAY be NULL: there is nothing to make. What SIMBA_INIT would do to an
     * empty store, or with `upgrade` to an older one, in the store's own
     * language, for admins who do it by hand. Touches nothing; config->loop is
     * NULL. To be freed by free(); NULL: it failed. Any thread. */
    char *(*schema)(const simba_backend_config *config,
                    bool upgrade,
                    simba_error *error);

    /** MAY be NULL: there is nothing to say. How its URLs look and which
     * parameters they take, for people: the first line is a URL, the others are
     * two blanks, a name, blanks and what it means. `simba help stores` prints
     * it, simba_admin_help() has it. To be freed by free(); NULL: no memory.
     * Any thread. */
    char *(*help)(void);

    /** MAY be NULL: as long as its lease. How long a tenure may be certain at
     * most after its last answered request, whatever lease it asks for, as
     * simba_reply.lease_ms tells each time; 0: as long as its lease. A budget
     * that nobody gave is made to fit into it. Any thread; known from the URL.
     */
    int64_t (*certain_ms)(simba_backend *self);
    /* ABI 1 ends here. Append below, never reorder. */
};

/** What a module, simba-<name>.so, exports: the table of its backend. It is
 * loaded when one of its schemes is first opened, from the directories of
 * $SIMBA_MODULE_PATH, or from "simba" beside the library. */
#define SIMBA_MODULE_SYMBOL "simba_module"
extern SIMBA_API const simba_backend_ops simba_module;

/* --- the loop ------------------------------------------------------------ */

/**
 * Everything of a store that is not a user's callback or a blocking call
 * happens inside its loop, one thread at a time: the loop thread when a
 * descriptor or the clock wakes it, or any other that enters. What runs inside
 * must not block and must not enter again.
 *
 * Threads: any that is not inside a loop.
 */
SIMBA_API void simba_loop_enter(simba_loop *loop);
SIMBA_API void simba_loop_leave(simba_loop *loop);

/** Run a function inside the loop, soon; never waits. Any thread, also one that
 * is inside this or another loop. */
SIMBA_API void simba_loop_post(simba_loop *loop,
                               void (*run)(void *argument),
                               void *argument);

/** The boot clock in milliseconds, rounded down. Any thread. */
SIMBA_API int64_t simba_loop_now_ms(void);

/** Becomes readable when the thread that drives is wanted elsewhere. */
SIMBA_API int simba_loop_nudge_fd(const simba_loop *loop);

struct pollfd;

/** What drive() waits by: as poll(2), but while a reply is due it may look at
 * the descriptors for a while before it sleeps, where that is faster. The
 * thread that drives, outside the loop. */
SIMBA_API int simba_loop_poll(simba_loop *loop,
                              struct pollfd *set,
                              size_t count,
                              int timeout_ms);

/** Count a connection to the store that was lost and has been made anew, for
 * simba/metrics.h. Those of simba/sys/connection.h count by themselves: only
 * for a backend with another way to its server. Any thread. */
SIMBA_API void simba_count_reconnect(simba_loop *loop);

/** A descriptor to be woken by. Lives in the backend's memory, zeroed first. */
typedef struct simba_io simba_io;
struct simba_io {
    /** Inside the loop. `events` as of epoll(7). */
    void (*ready)(simba_io *self, uint32_t events);
    int fd;          /**< set before the first simba_io_set() */
    uint32_t events; /**< the runtime's: what it waits for */
    bool is_set;     /**< the runtime's */
};

/** Wait for these events, or for others than before; 0: only for errors and
 * hang-ups. False: the system refuses (errno). Inside the loop. */
SIMBA_API bool simba_io_set(simba_loop *loop, simba_io *io, uint32_t events);

/** Wait no more; before the descriptor is closed. Inside the loop. */
SIMBA_API void simba_io_clear(simba_loop *loop, simba_io *io);

/** A wake-up on the boot clock. Lives in its user's memory, zeroed first. */
typedef struct simba_timer simba_timer;
struct simba_timer {
    /** Inside the loop; the timer is no longer set then. */
    void (*fire)(simba_timer *self);
    simba_timer *child, *sibling, *before; /**< the runtime's */
    int64_t at_ms : 63;                    /**< likewise; there are many */
    bool is_set : 1;
};

/** Set it, or move it; what is beyond INT64_MAX / 2 clears it. Inside the loop.
 */
SIMBA_API void simba_timer_set(simba_loop *loop,
                               simba_timer *timer,
                               int64_t at_ms);
SIMBA_API void simba_timer_clear(simba_loop *loop, simba_timer *timer);

/**
 * Say that the owner of a mutex may have changed, or that it was offered to a
 * waiter. Spurious wake-ups are allowed, lost ones too.
 *
 * @param loop   the backend's
 * @param mutex  NULL: any mutex
 *
 * Threads: inside the loop.
 */
SIMBA_API void simba_wake(simba_loop *loop, const char *mutex);

/**
 * The same, where the wake-up is meant for one waiter: the one at this position
 * in the queue. If that is the first of this handle, no other is woken, which
 * would ask in vain; else those are that simba_wake() wakes.
 *
 * @param loop      the backend's
 * @param mutex     that it waits for
 * @param position  as the reply told it first; 0: not known
 *
 * Threads: inside the loop.
 */
SIMBA_API void simba_wake_waiter(simba_loop *loop,
                                 const char *mutex,
                                 uint64_t position);

/**
 * The same, where it is not said for whom of this handle it is, and only one
 * can own the mutex: of those who wait the first is woken. If that one is not
 * granted it, nobody behind it is. Not where this handle has waiters with
 * slots.
 *
 * Threads: inside the loop.
 */
SIMBA_API void simba_wake_first(simba_loop *loop, const char *mutex);

/**
 * Tell those who only watch a mutex (SIMBA_SUBSCRIBE_OBSERVE) what a read would
 * have answered right after its owner changed; waiters have nothing to ask.
 * What does not follow on what they know makes them look for themselves, so
 * that lost, doubled and reordered ones do no harm.
 *
 * @param loop   the backend's
 * @param mutex  whose owner has changed
 * @param owner  who owns it now, or none; borrowed. NULL: they shall look
 * @param ended  as simba_reply has it
 *
 * Threads: inside the loop.
 */
SIMBA_API void simba_observed(simba_loop *loop,
                              const char *mutex,
                              const simba_owner *owner,
                              uint64_t ended);

/* --- one look for many who wait ------------------------------------------- */

/** One who is in the queue and was told nothing: does it still stand there, and
 * for how long must it wait? */
typedef struct simba_look {
    const char *mutex; /**< NULL: it does not want to know any more */
    const char *id;
    simba_attempt attempt;
    int64_t waiter_ms; /**< so long its position shall live from now on */
    /** To be filled in: how long to wait, as in simba_reply. Below 0, which it
     * is at first: it must ask for itself, because something has changed or is
     * not known. */
    int64_t wait_ms;
    bool is_head; /**< likewise: as in simba_reply */
} simba_look;

/** So many of them; those of one mutex with one waiter_ms stand together. */
typedef struct simba_looks {
    size_t count;
    simba_look *look;
} simba_looks;

/**
 * Once a lease each who waits asks by an acquire with `is_backstop`. Where a
 * handle has many, this is called instead, for those whose time has come: renew
 * their positions and fill in what there is to know, by as few commands as you
 * can. Complete it exactly once with simba_looks_done(), at once or later, and
 * within seconds; the names may go meanwhile.
 *
 * @param loop  the backend's
 * @param look  inside the loop
 * @param self  who looks; it is not called behind a shim
 *
 * Threads: inside the loop, once, before the first request.
 */
SIMBA_API void simba_loop_look(simba_loop *loop,
                               void (*look)(simba_backend *self,
                                            simba_looks *looks),
                               simba_backend *self);

/** They are answered, and gone. Inside the loop. */
SIMBA_API void simba_looks_done(simba_looks *looks);

/* --- the blocking adapter ------------------------------------------------ */

typedef struct simba_worker simba_worker;

/**
 * For backends with plain blocking calls: a worker thread that takes requests
 * one by one.
 *
 * @param loop   the backend's
 * @param serve  carries out one request, on the worker thread; fills
 *               request->reply and returns the status for simba_request_done()
 * @param self   first argument of serve
 *
 * Threads: any thread.
 */
SIMBA_API SIMBA_MUST_USE int simba_worker_open(
    simba_loop *loop,
    int (*serve)(void *self, simba_request *request, simba_error *error),
    void *self,
    simba_worker **worker);

/** Hand it a request; it is completed inside the loop. Inside the loop.
 * Renewals and releases are taken before anything else. A request whose
 * deadline passes while it waits is completed with SIMBA_EUNAVAIL. One
 * that is_driven must not wait for others: serve answers SIMBA_EBUSY, and gets
 * it once more on the worker's own thread. */
SIMBA_API void simba_worker_submit(simba_worker *worker,
                                   simba_request *request);

/** What a backend with a worker does in drive(): carries out the next request
 * on the caller's thread, if the worker rests. */
SIMBA_API bool simba_worker_drive(simba_worker *worker, int64_t until_ms);

/** Wait for the request in hand, drop the rest, end the thread. */
SIMBA_API void simba_worker_close(simba_worker *worker);

SIMBA_END_DECLS

#endif
