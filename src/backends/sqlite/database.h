/* The connection to the database: transactions, statements, failures. Used by
 * one thread at a time: who opens the store, then its worker. */
#ifndef SIMBA_SQLITE_DATABASE_H
#define SIMBA_SQLITE_DATABASE_H

#include <simba/sys/backend.h>

#include "backends/sqlite/settings.h"

#include <sqlite3.h>

#include <stdint.h>

/* X(name, text macro) */
#define SIMBA__SQLITE_STATEMENTS(X)                                            \
    X(BEGIN, "BEGIN IMMEDIATE")                                                \
    X(BEGIN_READ, "BEGIN")                                                     \
    X(COMMIT, "COMMIT")                                                        \
    X(ROLLBACK, "ROLLBACK")                                                    \
    X(LOAD_MUTEX, SIMBA__SQL_LOAD_MUTEX)                                       \
    X(LOAD_LINE, SIMBA__SQL_LOAD_LINE)                                         \
    X(LOAD_TOMBSTONE, SIMBA__SQL_LOAD_TOMBSTONE)                               \
    X(STORE_MUTEX, SIMBA__SQL_STORE_MUTEX)                                     \
    X(STORE_TENURE, SIMBA__SQL_STORE_TENURE)                                   \
    X(STORE_WAITER, SIMBA__SQL_STORE_WAITER)                                   \
    X(DROP_WAITER, SIMBA__SQL_DROP_WAITER)                                     \
    X(DROP_STRANGERS, SIMBA__SQL_DROP_STRANGERS)                               \
    X(STORE_TOMBSTONE, SIMBA__SQL_STORE_TOMBSTONE)                             \
    X(DROP_TOMBSTONES, SIMBA__SQL_DROP_TOMBSTONES)                             \
    X(FREE_PROCESS, SIMBA__SQL_FREE_PROCESS)                                   \
    X(DROP_PROCESS, SIMBA__SQL_DROP_PROCESS)                                   \
    X(BREAK_TENURE, SIMBA__SQL_BREAK_TENURE)                                   \
    X(AUDIT_TABLE, SIMBA__SQL_AUDIT_TABLE)                                     \
    X(STORE_AUDIT, SIMBA__SQL_STORE_AUDIT)                                     \
    X(LIST_MUTEXES, SIMBA__SQL_LIST_MUTEXES)                                   \
    X(LOAD_RESERVE, SIMBA__SQL_LOAD_RESERVE)                                   \
    X(STORE_RESERVE, SIMBA__SQL_STORE_RESERVE)                                 \
    X(TELL_RESERVE, SIMBA__SQL_TELL_RESERVE)                                   \
    X(BEGIN_LOG, "UPDATE simba_reserve SET one = one")

enum simba__sqlite_statement {
#define X(name, text) SIMBA__SQLITE_##name,
    SIMBA__SQLITE_STATEMENTS(X)
#undef X
        SIMBA__SQLITE_STATEMENT_COUNT
};

struct simba__sqlite_db {
    const struct simba__sqlite_settings *settings;
    sqlite3 *handle;
    sqlite3_stmt *statements[SIMBA__SQLITE_STATEMENT_COUNT];
    int log_fd;           /* of the log; -1: SQLite flushes, or nobody does */
    int log_pages;        /* in the log, as of our last commit */
    bool is_log_doubtful; /* a flush of it has failed */
    int cut_pages; /* in a log that others must wait for, to be shortened */
};

/* Our own writers are through in a moment: who keeps the database locked for
 * longer, while nobody else gets on, is not waited for but named. */
enum { SIMBA__SQLITE_STUCK_MS = 1000 };

/**
 * Connect, and make or check the schema. The file exists.
 *
 * @param deadline_ms  boot clock; how long to wait for others, but see above
 * @return SIMBA_OK, SIMBA_EDENIED, SIMBA_EMISCONFIG, SIMBA_EUNAVAIL,
 *         SIMBA_ENOMEM
 */
int simba__sqlite_db_open(struct simba__sqlite_db *db,
                          const struct simba__sqlite_settings *settings,
                          int64_t deadline_ms,
                          simba_error *error);

/** Disconnect. Leaves the log to whoever writes next. */
void simba__sqlite_db_close(struct simba__sqlite_db *db);

/** Is the file we have open no longer the one at its path? */
bool simba__sqlite_db_is_moved(const struct simba__sqlite_db *db);

/** Begin to write, once nobody else does. */
int simba__sqlite_db_begin(struct simba__sqlite_db *db,
                           int64_t deadline_ms,
                           simba_error *error);

/** Begin to read. */
int simba__sqlite_db_begin_read(struct simba__sqlite_db *db,
                                int64_t deadline_ms,
                                simba_error *error);

/** Others see it then, but a loss of power may undo it: see
 * simba__sqlite_db_keep().
 *
 * @return also SIMBA_EUNKNOWN, when it may be found committed later */
int simba__sqlite_db_commit(struct simba__sqlite_db *db,
                            int64_t deadline_ms,
                            simba_error *error);

/** What was committed stays from now on, whatever happens to the power.
 *
 * @return SIMBA_OK or SIMBA_EUNKNOWN */
int simba__sqlite_db_keep(struct simba__sqlite_db *db, simba_error *error);

/** Is a commit of ours flushed only by simba__sqlite_db_keep()? */
bool simba__sqlite_db_is_flushed_by_us(const struct simba__sqlite_db *db);

/** Copy the log back if it has become long; `is_urgent`: only if very long.
 * Between transactions. */
void simba__sqlite_db_shorten_log(struct simba__sqlite_db *db, bool is_urgent);

/** Copy all of the log back, and flush that, while others wait. Between
 * transactions.
 *
 * @return false when it is not done */
bool simba__sqlite_db_cut_log(struct simba__sqlite_db *db);

/** End the transaction, if there is one, without effect. */
void simba__sqlite_db_rollback(struct simba__sqlite_db *db);

/** A statement to bind and step, reset; NULL and `error` when it cannot be. */
sqlite3_stmt *simba__sqlite_db_statement(struct simba__sqlite_db *db,
                                         enum simba__sqlite_statement which,
                                         simba_error *error);

/** Run a bound statement that gives no rows. */
int simba__sqlite_db_execute(struct simba__sqlite_db *db,
                             sqlite3_stmt *statement,
                             simba_error *error);

/** What a result code of SQLite means, in our codes and words. */
int simba__sqlite_db_fail(const struct simba__sqlite_db *db,
                          int rc,
                          simba_error *error);

/** The same for one that others were in the way of for long: says who. */
int simba__sqlite_db_fail_locked(const struct simba__sqlite_db *db,
                                 int rc,
                                 simba_error *error);

/** Does this result code of SQLite mean that others are in the way? */
bool simba__sqlite_db_is_busy(int rc);

/** Somebody else is writing: sleep a little, longer after many tries. False
 * after the deadline. */
bool simba__sqlite_db_wait(int64_t deadline_ms, unsigned tries);

/* Parts of simba__sqlite_db_open() and _close(). */
int simba__sqlite_db_keep_open(struct simba__sqlite_db *db, simba_error *error);
void simba__sqlite_db_keep_close(struct simba__sqlite_db *db);
void simba__sqlite_db_measure_log(struct simba__sqlite_db *db);
int simba__sqlite_schema_ensure(struct simba__sqlite_db *db,
                                int64_t deadline_ms,
                                simba_error *error);

/** What it runs on an empty file, or with `upgrade` on an older one; as
 * simba_backend_ops has it. */
char *simba__sqlite_schema_text(const simba_backend_config *config,
                                bool upgrade,
                                simba_error *error);

#endif
