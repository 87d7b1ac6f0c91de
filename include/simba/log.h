/**
 * @file simba/log.h
 * Where the library's messages go. Nowhere, unless a hook is given.
 */
#ifndef SIMBA_LOG_H
#define SIMBA_LOG_H

#include <simba/export.h>

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

SIMBA_END_DECLS

#endif
