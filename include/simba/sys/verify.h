/**
 * @file simba/sys/verify.h
 * Find in the event logs of real runs what must never be: two owners at once,
 * tokens that do not grow, waiters that were passed. `simba verify` is made of
 * it; docs/shims.md says what is found and what the logs are.
 */
#ifndef SIMBA_SYS_VERIFY_H
#define SIMBA_SYS_VERIFY_H

#include <simba/error.h>
#include <simba/export.h>

#include <stddef.h>
#include <stdint.h>

SIMBA_BEGIN_DECLS

/** One breach of the rules; its texts are borrowed. */
typedef struct simba_breach {
    const char *kind;  /**< a stable word for programs, such as "overlap" */
    const char *words; /**< for people: what stands between the two */
    const char *mutex;
    const char *file; /**< where it shows */
    uint64_t line;    /**< likewise, from 1 */
    const char *id;   /**< of the contender there */
    uint64_t token;   /**< 0: it has none */
    /** What it does not go with; NULL: something before. */
    const char *other_file;
    uint64_t other_line;
    const char *other_id;
    uint64_t other_token;
} simba_breach;

typedef struct simba_verify_options {
    uint32_t size; /**< set by SIMBA_VERIFY_OPTIONS_INIT */
    /** The logs, all of one store: they are merged by the boot clock. "-" is
     * stdin. Borrowed. */
    const char *const *files;
    size_t count;
    void (*on_breach)(void *user, const simba_breach *breach); /**< or NULL */
    /** A line that is no event, and what is wrong with it; may be NULL. */
    void (*on_malformed)(void *user,
                         const char *file,
                         uint64_t line,
                         const char *problem);
    void *user; /**< first argument of both */
} simba_verify_options;

/* clang-format off */
#define SIMBA_VERIFY_OPTIONS_INIT                                              \
    {(uint32_t)sizeof(simba_verify_options), 0, 0, 0, 0, 0}
/* clang-format on */

/** What became of it. */
typedef struct simba_verify_summary {
    uint64_t events; /**< lines that were understood */
    uint64_t malformed;
    uint64_t breaches;
    size_t mutexes;
    /** Boots that the logs are of. What happened in different ones is not
     * compared: their clocks have nothing in common. */
    size_t boots;
} simba_verify_summary;

/**
 * Read logs to their ends and tell what is found on the way. A few thousand
 * lines of each are in memory, and the present state of each mutex.
 *
 * @param options       not NULL
 * @param[out] summary  what it came to; not NULL
 * @param[out] error    filled on failure; may be NULL
 * @return SIMBA_OK when all were read, whatever was found; SIMBA_EUNAVAIL when
 *         one cannot be read; SIMBA_EINVAL; SIMBA_ENOMEM
 *
 * Threads: any thread.
 */
SIMBA_API SIMBA_MUST_USE int simba_verify(const simba_verify_options *options,
                                          simba_verify_summary *summary,
                                          simba_error *error);

SIMBA_END_DECLS

#endif
