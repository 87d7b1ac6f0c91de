/**
 * @file simba/store.h
 * A store is the place where mutexes live. It is opened by URL:
 *
 *     sqlite:path/to/file.db      sqlite:///absolute/path.db
 *     memory:name                 in this process only
 *     redis://host:6379           postgres://host/database
 *     mysql://host/database       zookeeper://host:2181,host:2181
 *     etcd://host:2379,host:2379
 *
 * Those with a server are modules, which are installed by themselves;
 * simba_admin_help() tells what their URLs may say.
 *
 * One handle serves any number of contenders; it runs one loop thread and a
 * few callback threads.
 */
#ifndef SIMBA_STORE_H
#define SIMBA_STORE_H

#include <simba/error.h>
#include <simba/export.h>
#include <simba/log.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

SIMBA_BEGIN_DECLS

typedef struct simba_store simba_store; /* opaque */

/**
 * Where callbacks run instead of on callback threads: a thread pool or an event
 * loop of the program's own.
 *
 * To accept a task is to promise that `run(argument)` is called once, soon, and
 * on any thread, also by an executor that is about to end: a stop or close
 * waits for the callbacks it has queued. A task that comes late makes its
 * callback late: on_released has its budget (S6), no more. Tasks may run side
 * by side and in any order; those of one contender are given one after the
 * other. A callback that waits for another one (it stops another service) needs
 * a second thread to run that one.
 *
 * @param user      as given with the executor
 * @param run       what is to be called
 * @param argument  with what
 * @return true when it will be; false to have the callback run on a callback
 *         thread after all, which is logged once
 *
 * Threads: called on a callback thread with no lock of ours held; it may call
 * `run` at once, and then is that thread's whole pool.
 */
typedef bool (*simba_executor_fn)(void *user,
                                  void (*run)(void *argument),
                                  void *argument);

/** When the config file is read (docs/configuration.md). */
enum simba_config_use {
    SIMBA_CONFIG_WHEN_ASKED = 0, /**< when the program gives no URL */
    SIMBA_CONFIG_ALWAYS = 1,     /**< for its defaults also when it does */
    SIMBA_CONFIG_NEVER = 2
};

typedef struct simba_store_options {
    uint32_t size;    /**< set by SIMBA_STORE_OPTIONS_INIT */
    simba_log_fn log; /**< NULL: no messages */
    void *log_user;
    enum simba_log_level log_level; /**< messages above are dropped */
    int callback_threads;           /**< most callback threads, up to 1024; 0:
                                       16 */
    enum simba_config_use config;   /**< may the config file be read? */
    simba_log_event_fn log_event;   /**< called instead of `log`, with the same
                                       log_user; NULL: none */
    simba_executor_fn executor; /**< runs callbacks; NULL: callback threads do.
                                   Not together with callback_threads */
    void *executor_user;
    bool look; /**< make nothing by opening: a store that is not there yet is
                  SIMBA_ENOTINIT. Of today's stores this is SQLite's file */
    /** With `look`: one that is not there yet is opened all the same, for
     * simba_admin_doctor() and nothing else. */
    bool examine;
    /**
     * What opening does about a store that cannot be reached.
     *
     * 0: a server is not asked, so a handle can be opened while it is down.
     * Requests then fail with SIMBA_EUNAVAIL, and who waits for a mutex waits
     * for the server, too: a locker within its timeout, a service until it is
     * stopped. It is noticed within a second after it is up.
     *
     * More: opening ends when the server has let us in. One that refuses
     * connections, does not answer, or whose name cannot be looked up just now
     * is tried again for so many milliseconds, and at least once, which takes
     * five seconds at most. That it is waited for is logged as a warning, at
     * once and each minute. A file of SQLite that cannot be used for the moment
     * is waited for as well.
     *
     * Less than 0: likewise, for ever.
     *
     * A host that does not exist (SIMBA_EUNAVAIL), SIMBA_EDENIED and
     * SIMBA_EMISCONFIG are never waited for: neither here nor by a locker.
     */
    int64_t wait_ms;
    /** Callbacks run in simba_store_dispatch(), which the program calls when
     * simba_store_fd() is readable, and there are no callback threads. Who
     * waits for callbacks by a stop, a release or a close runs those on its own
     * thread, so one thread is enough. Only the work of schedulers still has a
     * thread of its own. Not together with executor or callback_threads. */
    bool dispatch;
    uint8_t reserved[7]; /**< 0 */
} simba_store_options;

/* clang-format off */
#define SIMBA_STORE_OPTIONS_INIT \
    {(uint32_t)sizeof(simba_store_options), 0, 0, SIMBA_LOG_DEFAULT, 0, \
     SIMBA_CONFIG_WHEN_ASKED, 0, 0, 0, 0, 0, 0, 0, {0}}
/* clang-format on */

/**
 * Open a store.
 *
 * @param url         a store URL; or the name of a [store NAME] in the config
 *                    file; NULL: $SIMBA_STORE, else what the config file says,
 *                    else the embedded SQLite default
 *                    ($XDG_STATE_HOME/simba/simba.db, of root
 *                    /var/lib/simba/simba.db) if the file does not forbid it by
 *                    store_required; "required": the same without the default;
 *                    copied
 * @param options     NULL: the defaults; copied
 * @param[out] store  the handle, or NULL on failure; close it
 * @param[out] error  filled on failure; may be NULL
 * @return SIMBA_OK; SIMBA_EINVAL for a URL that cannot be understood, or an
 *         option, which is named; SIMBA_EDENIED, SIMBA_EMISCONFIG,
 *         SIMBA_ENOTINIT or SIMBA_EUNAVAIL for a store that does not let itself
 *         be used; SIMBA_EFORKED for a SQLite file that was open in the parent
 *         when this process was forked; SIMBA_ENOMEM
 *
 * Threads: any thread.
 */
SIMBA_API SIMBA_MUST_USE int simba_store_open(
    const char *url,
    const simba_store_options *options,
    simba_store **store,
    simba_error *error);

/** What a store can do beyond what every store must. */
enum simba_capability {
    SIMBA_CAN_PUSH = 1 << 0,          /**< a release wakes the next waiter */
    SIMBA_CAN_LIST = 1 << 1,          /**< simba_admin_list() */
    SIMBA_CAN_BREAK = 1 << 2,         /**< simba_admin_break() */
    SIMBA_CAN_DOCTOR = 1 << 3,        /**< simba_admin_doctor() */
    SIMBA_CAN_SEE_CRASH = 1 << 4,     /**< a dead process costs no lease */
    SIMBA_HAS_STEADY_CLOCK = 1 << 5,  /**< its clock makes no steps */
    SIMBA_HAS_SESSION_LEASE = 1 << 6, /**< one for all tenures of a handle */
    SIMBA_IN_ONE_PROCESS = 1 << 7,    /**< others do not see its mutexes */
    SIMBA_CAN_OBSERVE = 1 << 8, /**< a change of owner reaches who observes */
    SIMBA_TELLS_ENDED = 1 << 9, /**< a read tells which tenure ended last */
    SIMBA_CAN_INIT = 1 << 10,   /**< simba_admin_init() has work to do */
    SIMBA_HAS_SERVER = 1 << 15, /**< it may be down: wait_ms counts */
    SIMBA_CAN_SLOTS = 1 << 11,  /**< several owners of one mutex */
    SIMBA_NUMBERS_SLOTS = 1 << 12, /**< and each is told which slot it has */
    SIMBA_CAN_HAND_OVER = 1 << 13, /**< simba_admin_hand_over(), and a release
                                      may name a successor */
    SIMBA_CAN_PRIORITY = 1 << 14,  /**< reserved */
    SIMBA_CAN_TELL = 1 << 16,      /**< owners tell about themselves */
    SIMBA_TELLS_BREAKS = 1 << 17   /**< simba_admin_breaks() */
};

/** What this store can do: a set of enum simba_capability. Threads: any
 * thread. */
SIMBA_API uint32_t simba_store_capabilities(const simba_store *store);

/**
 * Close a store. Every service and locker made from it must be closed before;
 * one that is not is a programming error and aborts with a message.
 *
 * @param store  NULL is a no-op
 *
 * Threads: one at a time; not from a callback. In a forked child it frees the
 * handle and touches nothing else: the rest is the parent's threads'.
 */
SIMBA_API void simba_store_close(simba_store *store);

/**
 * A descriptor for the poll loop of a program that runs callbacks itself
 * (options.dispatch). It is readable while callbacks wait to be run.
 *
 * @param store  not NULL
 * @return the descriptor, close-on-exec, still the store's: poll it, and
 *         nothing else; -1 when the store was opened without `dispatch`
 *
 * Threads: any thread.
 */
SIMBA_API int simba_store_fd(const simba_store *store);

/**
 * Run the callbacks that wait, of each contender one at most; never blocks by
 * itself. A loop that comes late makes its callbacks late: on_released has its
 * budget (S6), no more.
 *
 * @param store       not NULL
 * @param[out] error  filled on failure; may be NULL
 * @return how many were run, 0 if there was none; SIMBA_EMISUSE when the store
 *         was opened without `dispatch`; SIMBA_EFORKED
 *
 * Threads: any thread, several at once too, and from callbacks.
 */
SIMBA_API int simba_store_dispatch(simba_store *store, simba_error *error);

/**
 * A descriptor that stands for the life of this handle: when its last copy is
 * closed, the store knows that the process is gone and may pass on what it owns
 * at once, without waiting for the lease. Whatever must be gone first keeps a
 * copy: pass it to a helper process, and close it there last.
 *
 * @param store  not NULL
 * @return the descriptor, close-on-exec, still the store's (duplicate it, never
 *         close it); -1 when this store knows no such thing
 *
 * Threads: any thread.
 */
SIMBA_API int simba_store_life_fd(const simba_store *store);

/**
 * Tell which store simba_store_open() would open.
 *
 * @param url         as for simba_store_open()
 * @param[out] shown  its URL with the secrets blanked out; cut if need be
 * @param room        bytes of `shown`
 * @param[out] error  filled on failure; may be NULL
 * @return SIMBA_OK; else why the configuration cannot be used
 *
 * Threads: any thread.
 */
SIMBA_API SIMBA_MUST_USE int simba_store_describe(const char *url,
                                                  char *shown,
                                                  size_t room,
                                                  simba_error *error);

/**
 * The lease of a contender that sets no times of its own: what is configured,
 * else 10 s and 6 s.
 *
 * Threads: any thread.
 */
SIMBA_API void simba_store_lease(const simba_store *store,
                                 int64_t *ttl_ms,
                                 int64_t *transition_ms);

/** Take out of a store URL, in place, what may be secret: user and password,
 * and the values of its query, which become a star each. Any thread. */
SIMBA_API void simba_url_hide_secrets(char *url);

/** For SIMBA_STORE_SCOPE. */
static inline void simba_store_close_scope(simba_store **store)
{
    simba_store_close(*store);
}

/** Marks a local `simba_store *`, set to NULL at first, that is closed when its
 * scope ends. Declare it before what is made from it. */
#if defined(__GNUC__)
#define SIMBA_STORE_SCOPE __attribute__((cleanup(simba_store_close_scope)))
#endif

SIMBA_END_DECLS

#endif
