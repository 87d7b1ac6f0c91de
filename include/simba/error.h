/**
 * @file simba/error.h
 * What can go wrong: a small closed set, the same in C, as exit codes and in
 * JSON.
 *
 * A function that can fail returns SIMBA_OK (0) or one of the negative codes,
 * and describes the failure in the caller's `simba_error`, if one was given.
 * Losing a race for a mutex is not a failure.
 */
#ifndef SIMBA_ERROR_H
#define SIMBA_ERROR_H

#include <simba/export.h>

SIMBA_BEGIN_DECLS

/** X(name, code, text): the one list of all codes. */
#define SIMBA_STATUS_MAP(X)                                                    \
    X(OK, 0, "success")                                                        \
    X(EINVAL, -1, "invalid argument")                                          \
    X(EBUSY, -2, "somebody else owns the mutex")                               \
    X(ETIMEDOUT, -3, "deadline passed")                                        \
    X(ECANCELED, -4, "cancelled")                                              \
    X(EUNAVAIL, -5, "store unreachable")                                       \
    X(EDENIED, -6, "access denied")                                            \
    X(EMISCONFIG, -7, "store misconfigured")                                   \
    X(ENOTINIT, -8, "store not initialised")                                   \
    X(ELOST, -9, "ownership was lost")                                         \
    X(EUNKNOWN, -10, "outcome unknown")                                        \
    X(EMISUSE, -11, "call not allowed now")                                    \
    X(EFORKED, -12, "handle belongs to the parent process")                    \
    X(ENOMEM, -13, "out of memory")                                            \
    X(EINTERNAL, -14, "fault of simba's own")                                  \
    X(EIO, -15, "could not be written")

#define SIMBA_STATUS_ENUM(name, code, text) SIMBA_##name = (code),
enum simba_status { SIMBA_STATUS_MAP(SIMBA_STATUS_ENUM) };
#undef SIMBA_STATUS_ENUM

/** One failure, in the caller's memory. */
typedef struct simba_error {
    int code;          /**< what the function returned */
    int native;        /**< the store's own code, 0 when there is none; of
                          SIMBA_ELOST why: an enum simba_cause */
    char message[256]; /**< one line for people, never with a password */
} simba_error;

/**
 * The text of a status code.
 *
 * @param status  a code of this library; others are called unknown
 * @return static text, never NULL
 *
 * Threads: any thread.
 */
SIMBA_API const char *simba_strerror(int status);

/**
 * The short name of a status code, such as "timed-out", for JSON and logs.
 *
 * @param status  a code of this library; others are called "unknown-code"
 * @return static text, never NULL
 *
 * Threads: any thread.
 */
SIMBA_API const char *simba_status_name(int status);

/**
 * Fill an error, for authors of backends.
 *
 * @param error   may be NULL: then only the code is returned
 * @param code    one of enum simba_status
 * @param native  the store's own code, or 0
 * @param format  as printf; the text is cut when it does not fit
 * @return `code`, so that a function can end with `return simba_error_set(…)`
 *
 * Threads: one at a time for each error.
 */
SIMBA_API int simba_error_set(simba_error *error,
                              int code,
                              int native,
                              const char *format,
                              ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;

SIMBA_END_DECLS

#endif
