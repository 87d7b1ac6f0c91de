/* The store handle: a loop, a backend, a pool of callback threads, a
 * log hook. */
#ifndef SIMBA_API_STORE_H
#define SIMBA_API_STORE_H

#include <simba/store.h>

#include "runtime/callback_pool.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>

struct simba_store {
    simba_loop *loop;
    simba_backend *backend;
    simba__fork_mark mark;
    struct simba__callback_pool pool;
    char *name;                   /* its URL without secrets */
    simba_log_fn log;             /* never NULL */
    simba_log_event_fn log_event; /* or NULL */
    void *log_user;
    enum simba_log_level log_level;
    int64_t ttl_ms, transition_ms; /* for contenders that set none */
    int spin_us;                   /* of the loop: simba__loop_spin() */
    _Atomic int handles;           /* services and lockers not yet closed */
    /* Of the last service that brought others; NULL: none. Inside the loop. */
    struct simba__service_callbacks *last_callbacks;
    struct simba__fork_entry fork_entry;
};

/** Refuse use in a forked child. */
int simba__store_check(const simba_store *store, simba_error *error);

/** SIMBA_ENOMEM. */
int simba__fail_memory(simba_error *error);

/** What an error says, or else what its status means. */
const char *simba__error_text(int status, const simba_error *error);

/* --- the log ------------------------------------------------------------- */

/* A line of the log, and what it is about. */
struct simba__log_entry {
    enum simba_log_level level;
    const char *component;
    const char *mutex; /* or NULL */
    const char *id;    /* likewise */
    const char *cause; /* of a loss, as a word; or NULL */
    uint64_t token;    /* 0: none */
    int status;        /* SIMBA_OK: none */
};

/** Write a line to the store's log, if its level is wanted; the name of the
 * mutex comes first. Any thread. */
void simba__store_vlog(const simba_store *store,
                       const struct simba__log_entry *entry,
                       const char *format,
                       va_list args) __attribute__((format(printf, 3, 0)));

/** The same for a line that is about nothing in particular. */
void simba__store_log(const simba_store *store,
                      enum simba_log_level level,
                      const char *component,
                      const char *format,
                      ...) __attribute__((format(printf, 4, 5)));

/** A hook that does nothing. */
void simba__log_nothing(void *user,
                        enum simba_log_level level,
                        const char *component,
                        const char *message);

/* --- modules.c ----------------------------------------------------------- */

/** Find the backend of a URL, loading its module if need be. The module stays
 * loaded: its client library may have threads of its own.
 *
 * @param[out] rest  what follows "scheme:" */
int simba__backend_find(const char *url,
                        const simba_backend_ops **ops,
                        const char **rest,
                        simba_error *error);

/** The same for the store behind shims, if there are any.
 *
 * @param[in,out] url  its own URL then */
int simba__backend_find_bare(const char **url,
                             const simba_backend_ops **ops,
                             const char **rest,
                             simba_error *error);

#endif
