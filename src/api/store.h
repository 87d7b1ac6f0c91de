/* The store handle: a loop, a backend, a pool of notifiers, a log hook. */
#ifndef SIMBA_API_STORE_H
#define SIMBA_API_STORE_H

#include <simba/store.h>

#include "runtime/notify.h"

#include <stdatomic.h>
#include <stdint.h>

struct simba_store {
    simba_loop *loop;
    simba_backend *backend;
    simba__fork_mark mark;
    struct simba__pool pool;
    void *module;                 /* of dlopen(), or NULL */
    char *name;                   /* its URL without secrets */
    simba_log_fn log;             /* never NULL */
    simba_log_event_fn log_event; /* or NULL */
    void *log_user;
    enum simba_log_level log_level;
    int64_t ttl_ms, transition_ms; /* for contenders that set none */
    _Atomic int handles;           /* services and lockers not yet closed */
    struct simba__fork_entry fork_entry;
};

/* --- log.c --------------------------------------------------------------- */

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
void simba__store_tell(const simba_store *store,
                       const struct simba__log_entry *entry,
                       const char *format,
                       ...) __attribute__((format(printf, 3, 4)));

/** The same for a line that is about nothing in particular. */
void simba__store_log(const simba_store *store,
                      enum simba_log_level level,
                      const char *component,
                      const char *format,
                      ...) __attribute__((format(printf, 4, 5)));

/** The same as a simba_log_fn, for backends; `user` is the store. */
void simba__store_log_plain(void *user,
                            enum simba_log_level level,
                            const char *component,
                            const char *message);

/** A hook that does nothing. */
void simba__log_nothing(void *user,
                        enum simba_log_level level,
                        const char *component,
                        const char *message);

/* --- store.c ------------------------------------------------------------- */

/** Refuse use in a forked child. */
int simba__store_check(const simba_store *store, simba_error *error);

/* --- registry.c ---------------------------------------------------------- */

/* The backend of a URL. */
struct simba__found {
    const simba_backend_ops *ops;
    const char *rest; /* what follows "scheme:" */
    void *module;     /* of dlopen(), or NULL */
};

/** Find the backend of a URL, loading its module if need be. */
int simba__registry_find(const char *url,
                         struct simba__found *found,
                         simba_error *error);

/** What the backend of a URL tells of its schema; "" when nothing. To be freed;
 * NULL: it failed. schema.c. */
char *simba__schema_of(const char *url, bool upgrade, simba_error *error);

/** Load the module that speaks for a scheme; modules.c. */
int simba__module_load(const char *scheme,
                       struct simba__found *found,
                       simba_error *error);

#endif
