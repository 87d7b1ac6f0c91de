/**
 * @file simba/log.h
 * Where the library's messages go. Nowhere, unless a hook is given.
 */
#ifndef SIMBA_LOG_H
#define SIMBA_LOG_H

#include <simba/export.h>

#include <stddef.h>
#include <stdint.h>

SIMBA_BEGIN_DECLS

enum simba_log_level {
    SIMBA_LOG_DEFAULT = -1, /**< as configured, else SIMBA_LOG_WARN */
    SIMBA_LOG_ERROR = 0,    /**< something was lost or is broken */
    SIMBA_LOG_WARN = 1,     /**< it works, but not as it should */
    SIMBA_LOG_INFO = 2,     /**< tenures begin and end */
    SIMBA_LOG_DEBUG = 3     /**< everything */
};

/**
 * A log hook.
 *
 * @param user       as given with the hook
 * @param level      how urgent
 * @param component  "core", "store", "sqlite", …; static text
 * @param message    one line without newline, never with a password; borrowed
 *
 * Threads: called from any thread; must not block, call simba, or keep
 * `message`.
 */
typedef void (*simba_log_fn)(void *user,
                             enum simba_log_level level,
                             const char *component,
                             const char *message);

/** One thing that a message is about. Borrowed text. */
typedef struct simba_log_field {
    const char *key;   /**< "mutex", "id", "token", "cause", "status" */
    const char *value; /**< never with a password */
} simba_log_field;

/** A message with what it is about, for logs that programs read. */
typedef struct simba_log_event {
    uint32_t size; /**< of this struct; it grows at the end only */
    enum simba_log_level level;
    const char *component; /**< as in simba_log_fn */
    const char *message;   /**< likewise */
    const simba_log_field *fields;
    size_t field_count; /**< none is given that is not known */
} simba_log_event;

/**
 * A log hook that gets fields as well.
 *
 * @param user   as given with the hook
 * @param event  borrowed, with all it points to
 *
 * Threads: as simba_log_fn.
 */
typedef void (*simba_log_event_fn)(void *user, const simba_log_event *event);

/** "error", "warn", "info" or "debug"; static text. Any thread. */
SIMBA_API const char *simba_log_level_name(enum simba_log_level level);

SIMBA_END_DECLS

#endif
