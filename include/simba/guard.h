/**
 * @file simba/guard.h
 * The resource's side of fencing: what a mutex protects refuses the token of an
 * owner that has been succeeded.
 *
 * A lease cannot stop a process that was paused between asking "am I owner?"
 * and writing. What it writes to can: it remembers the greatest token it has
 * seen, its *mark*, and refuses smaller ones. Checking and writing must be one
 * step, or the pause falls between the two; each guard here says how that is
 * done. docs/guards.md has an example of each.
 */
#ifndef SIMBA_GUARD_H
#define SIMBA_GUARD_H

#include <simba/error.h>
#include <simba/export.h>

#include <stddef.h>
#include <stdint.h>

SIMBA_BEGIN_DECLS

/* --- files --------------------------------------------------------------- */

typedef struct simba_guard_file simba_guard_file; /* opaque */

/**
 * Open a guard file, made if need be: it keeps the mark of whatever is written
 * while it is entered, be it a file, a directory or a device.
 *
 * @param path        on a local file system; one for each mutex and resource
 * @param[out] guard  the handle, or NULL on failure; close it
 * @param[out] error  filled on failure; may be NULL
 * @return SIMBA_OK; SIMBA_EDENIED; SIMBA_EMISCONFIG for a file that is no
 *         guard; SIMBA_ENOMEM
 *
 * Threads: any thread.
 */
SIMBA_API SIMBA_MUST_USE int simba_guard_file_open(const char *path,
                                                   simba_guard_file **guard,
                                                   simba_error *error);

/**
 * Enter with a token. From here until simba_guard_file_leave() nobody else
 * enters, so what is written in between is written by an owner that had not
 * been succeeded when it began, and its successor waits for it. A process that
 * dies leaves by dying.
 *
 * @param guard       not NULL, and not entered
 * @param token       of the mutex that protects the resource
 * @param timeout_ms  negative waits for ever; 0 tries once
 * @param[out] error  filled on failure; may be NULL
 * @return SIMBA_OK; SIMBA_ELOST when a greater token has entered before: do not
 *         write; SIMBA_ETIMEDOUT or, tried once, SIMBA_EBUSY when somebody else
 *         is inside; SIMBA_EDENIED when the mark cannot be kept; SIMBA_EMISUSE
 *
 * Threads: one at a time for a handle; handles exclude each other.
 */
SIMBA_API SIMBA_MUST_USE int simba_guard_file_enter(simba_guard_file *guard,
                                                    uint64_t token,
                                                    int64_t timeout_ms,
                                                    simba_error *error);

/** Leave; a handle that was not entered may leave too. */
SIMBA_API void simba_guard_file_leave(simba_guard_file *guard);

/** Leave and free. NULL is a no-op. */
SIMBA_API void simba_guard_file_close(simba_guard_file *guard);

/* --- SQL ----------------------------------------------------------------- */

enum simba_guard_dialect {
    SIMBA_GUARD_POSTGRES, /**< parameters $1, $2 */
    SIMBA_GUARD_MYSQL,    /**< parameters ?, ? in the order told below */
    SIMBA_GUARD_SQLITE    /**< parameters ?1, ?2 */
};

enum simba_guard_statement {
    /** Makes the table simba_guard, if it is not there. */
    SIMBA_GUARD_CREATE,
    /** First in the transaction that writes: raises the mark of a resource, and
     * locks it until the end of the transaction. Parameters: the resource, the
     * token. */
    SIMBA_GUARD_RAISE,
    /** Second: one row with one column, 1 when the token may pass. With 0, roll
     * back. Parameters: the token, the resource. */
    SIMBA_GUARD_ASK
};

/**
 * The text of a statement; static, and NULL for one that there is not.
 *
 * Where the rows written have a column for the token, no table is needed, only
 * a condition: `UPDATE … SET …, token = :token WHERE … AND token <= :token`,
 * which changes no row when it is stale.
 */
SIMBA_API const char *simba_guard_sql(enum simba_guard_dialect dialect,
                                      enum simba_guard_statement statement);

/* --- Redis --------------------------------------------------------------- */

/**
 * A script that carries out one command on one key, unless the token is stale;
 * static text for EVAL.
 *
 *     EVAL script 2 MARK-KEY KEY TOKEN COMMAND [ARGUMENT…]
 *
 * runs COMMAND KEY ARGUMENT… and returns what it returns, or an error that
 * begins with STALETOKEN; with BADTOKEN when TOKEN is none, as an empty
 * variable of a shell is. In a cluster both keys must be in one slot, as
 * `{orders}:mark` and `{orders}` are.
 */
SIMBA_API const char *simba_guard_redis_script(void);

/* --- anything with a compare-and-set, such as ZooKeeper ------------------ */

/** Room for a token as text. */
#define SIMBA_GUARD_TEXT 24

/** Write a token as a mark is written: 20 digits, so that marks sort as text.
 *
 * @param[out] text  SIMBA_GUARD_TEXT bytes
 * Threads: any thread. */
SIMBA_API void simba_guard_format(uint64_t token, char *text);

/**
 * Judge a token by a mark that was read from somewhere.
 *
 * With ZooKeeper: read the mark's node and its version, judge, then send one
 * multi of setData(mark's node, the token as text, that version) and the
 * writes. A newer owner in between has changed the version, and the whole multi
 * fails with ZBADVERSION. Where the mutex itself is in this ZooKeeper, a multi
 * that begins with check(own latch node, -1) needs no mark; the latch is the
 * child of /simba/MUTEX whose czxid is the token.
 *
 * @param mark        text as of simba_guard_format(); any digits are understood
 * @param length      its bytes; 0 for a mark that is not there yet
 * @param token       ours
 * @param[out] error  filled on failure; may be NULL
 * @return SIMBA_OK; SIMBA_ELOST when it is stale; SIMBA_EMISCONFIG when that is
 *         no mark
 *
 * Threads: any thread.
 */
SIMBA_API SIMBA_MUST_USE int simba_guard_judge(const char *mark,
                                               size_t length,
                                               uint64_t token,
                                               simba_error *error);

SIMBA_END_DECLS

#endif
