/* The connection to the database; see database.h. */
#define _GNU_SOURCE
#include "backends/sqlite/database.h"

#include "backends/sqlite/file.h"
#include "backends/sqlite/sql.h"

#include <simba/sys/backend.h>

#include <errno.h>
#include <string.h>
#include <time.h>

/* SQLite's own busy handler backs off to steps of 100 ms. These naps keep the
 * wait of the unlucky near the length of one transaction; they grow only when
 * so many want to write that their trying alone would fill the machine. */
enum { NAP_LEAST_US = 50, NAP_SPAN_US = 450, NAP_SPAN_MOST_US = 8000 };
enum { TRIES_PER_SPAN = 8 };

/* --- failures ------------------------------------------------------------ */

static int fail_by_errno(const struct simba__sqlite_db *db,
                         int rc,
                         simba_error *error)
{
    int why = sqlite3_system_errno(db->handle);

    if (why == 0) {
        return SIMBA__SQLITE_FAIL(db->settings, error, SIMBA_EUNAVAIL, rc, "%s",
                                  sqlite3_errstr(rc));
    }
    /* A file that vanished under us is not a matter of configuration. */
    return SIMBA__SQLITE_FAIL(
        db->settings, error,
        why == ENOENT ? SIMBA_EUNAVAIL : simba__sqlite_file_status(why), rc,
        "%s: %s", sqlite3_errstr(rc), simba__sqlite_file_words(why));
}

int simba__sqlite_db_fail(const struct simba__sqlite_db *db,
                          int rc,
                          simba_error *error)
{
    static const struct {
        int rc;
        int code;
        const char *words;
    } known[] = {
        {SQLITE_BUSY, SIMBA_EUNAVAIL, "busy: others are writing"},
        {SQLITE_LOCKED, SIMBA_EUNAVAIL, "busy: others are writing"},
        {SQLITE_PROTOCOL, SIMBA_EUNAVAIL, "busy: others are opening it"},
        {SQLITE_FULL, SIMBA_EUNAVAIL, "disk full"},
        {SQLITE_NOTADB, SIMBA_EMISCONFIG, "is not an SQLite database"},
        {SQLITE_CORRUPT, SIMBA_EMISCONFIG, "the database is corrupt"},
        {SQLITE_FORMAT, SIMBA_EMISCONFIG, "the database is corrupt"},
        {SQLITE_READONLY, SIMBA_EDENIED, "may be read but not written"},
        {SQLITE_PERM, SIMBA_EDENIED, "may not be opened"},
        {SQLITE_AUTH, SIMBA_EDENIED, "may not be opened"},
        {SQLITE_NOMEM, SIMBA_ENOMEM, "out of memory"},
    };

    if (rc == SQLITE_CONSTRAINT_NOTNULL) {
        rc = SQLITE_NOMEM; /* what we bind is NULL only for want of memory */
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].rc == (rc & 0xff)) {
            return SIMBA__SQLITE_FAIL(db->settings, error, known[i].code, rc,
                                      "%s", known[i].words);
        }
    }
    if ((rc & 0xff) == SQLITE_IOERR || (rc & 0xff) == SQLITE_CANTOPEN) {
        return fail_by_errno(db, rc, error);
    }
    return SIMBA__SQLITE_FAIL(db->settings, error, SIMBA_EMISCONFIG, rc, "%s",
                              sqlite3_errmsg(db->handle));
}

bool simba__sqlite_db_wait(int64_t deadline_ms, unsigned tries)
{
    unsigned doublings = tries / TRIES_PER_SPAN;
    long span = doublings > 4 ? NAP_SPAN_MOST_US : NAP_SPAN_US << doublings;
    struct timespec nap = {0, 0};

    if (simba_loop_now_ms() >= deadline_ms) {
        return false;
    }
    /* Who woke up together must not come back together; the nanoseconds of a
     * clock are random enough for that. */
    clock_gettime(CLOCK_MONOTONIC, &nap);
    nap.tv_sec = 0;
    nap.tv_nsec = (NAP_LEAST_US + nap.tv_nsec / 64 % span) * 1000L;
    nanosleep(&nap, NULL);
    return true;
}

/* --- statements ---------------------------------------------------------- */

static const char *const texts[] = {
#define X(name, text) text,
    SIMBA__SQLITE_STATEMENTS(X)
#undef X
};

sqlite3_stmt *simba__sqlite_db_statement(struct simba__sqlite_db *db,
                                         enum simba__sqlite_statement which,
                                         simba_error *error)
{
    sqlite3_stmt **statement = &db->statements[which];
    int rc;

    if (*statement != NULL) {
        return *statement;
    }
    rc = sqlite3_prepare_v3(db->handle, texts[which], -1,
                            SQLITE_PREPARE_PERSISTENT, statement, NULL);
    if (rc != SQLITE_OK) {
        simba__sqlite_db_fail(db, rc, error);
    }
    return *statement;
}

int simba__sqlite_db_execute(struct simba__sqlite_db *db,
                             sqlite3_stmt *statement,
                             simba_error *error)
{
    int rc = sqlite3_step(statement);

    sqlite3_reset(statement);
    return rc == SQLITE_DONE ? SIMBA_OK : simba__sqlite_db_fail(db, rc, error);
}

/* --- transactions -------------------------------------------------------- */

bool simba__sqlite_db_is_busy(int rc)
{
    rc &= 0xff;
    return rc == SQLITE_BUSY || rc == SQLITE_LOCKED || rc == SQLITE_PROTOCOL;
}

/* Changes when others have committed; as of our last try to begin. */
static unsigned count_changes(struct simba__sqlite_db *db)
{
    unsigned changes = 0;

    sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_DATA_VERSION,
                         &changes);
    return changes;
}

/* Repeats a statement for as long as others keep it from running, in their
 * turns; returns SQLite's code. Where nobody else gets on either, somebody has
 * locked the database and does not let go. */
static int step_when_free(struct simba__sqlite_db *db,
                          sqlite3_stmt *statement,
                          int64_t deadline_ms)
{
    int64_t stuck_ms = simba_loop_now_ms() + SIMBA__SQLITE_STUCK_MS;
    unsigned changes = count_changes(db);
    unsigned tries = 0;
    int rc;

    do {
        rc = sqlite3_step(statement);
        sqlite3_reset(statement);
        if (count_changes(db) != changes) {
            changes = count_changes(db);
            stuck_ms = simba_loop_now_ms() + SIMBA__SQLITE_STUCK_MS;
        }
    } while (simba__sqlite_db_is_busy(rc) &&
             simba__sqlite_db_wait(
                 stuck_ms < deadline_ms ? stuck_ms : deadline_ms, tries++));
    return rc;
}

static int begin(struct simba__sqlite_db *db,
                 enum simba__sqlite_statement which,
                 int64_t deadline_ms,
                 simba_error *error)
{
    int64_t stuck_ms = simba_loop_now_ms() + SIMBA__SQLITE_STUCK_MS;
    sqlite3_stmt *statement;
    int rc;

    simba__sqlite_db_rollback(
        db); /* nothing is open, or something went wrong */
    statement = simba__sqlite_db_statement(db, which, error);
    if (statement == NULL) {
        return error->code;
    }
    rc = step_when_free(db, statement, deadline_ms);
    if (simba__sqlite_db_is_busy(rc) && simba_loop_now_ms() >= stuck_ms) {
        return simba__sqlite_db_fail_locked(db, rc, error);
    }
    return rc == SQLITE_DONE ? SIMBA_OK : simba__sqlite_db_fail(db, rc, error);
}

int simba__sqlite_db_begin(struct simba__sqlite_db *db,
                           int64_t deadline_ms,
                           simba_error *error)
{
    return begin(db, SIMBA__SQLITE_BEGIN, deadline_ms, error);
}

int simba__sqlite_db_begin_read(struct simba__sqlite_db *db,
                                int64_t deadline_ms,
                                simba_error *error)
{
    return begin(db, SIMBA__SQLITE_BEGIN_READ, deadline_ms, error);
}

/* Busy, and full before the last page was written, are sure to have no effect
 * once rolled back. After any other failure the pages may be in the log, and
 * the next process that recovers it may take them for committed. */
int simba__sqlite_db_commit(struct simba__sqlite_db *db,
                            int64_t deadline_ms,
                            simba_error *error)
{
    sqlite3_stmt *statement =
        simba__sqlite_db_statement(db, SIMBA__SQLITE_COMMIT, error);
    int rc, code;

    if (statement == NULL) {
        simba__sqlite_db_rollback(db);
        return error->code;
    }
    rc = step_when_free(db, statement, deadline_ms);
    if (rc == SQLITE_DONE) {
        return SIMBA_OK;
    }
    code = simba__sqlite_db_fail(db, rc, error);
    simba__sqlite_db_rollback(db);
    if (!simba__sqlite_db_is_busy(rc) && (rc & 0xff) != SQLITE_FULL) {
        code = error->code = SIMBA_EUNKNOWN;
    }
    return code;
}

void simba__sqlite_db_rollback(struct simba__sqlite_db *db)
{
    simba_error ignored;
    sqlite3_stmt *statement;

    if (sqlite3_get_autocommit(db->handle)) {
        return;
    }
    statement =
        simba__sqlite_db_statement(db, SIMBA__SQLITE_ROLLBACK, &ignored);
    if (statement != NULL) {
        sqlite3_step(statement);
        sqlite3_reset(statement);
    }
}

/* --- the connection ------------------------------------------------------ */

/* How it flushes is said aloud, because builds of SQLite differ in that. */
static int configure(struct simba__sqlite_db *db, simba_error *error)
{
    if (sqlite3_db_readonly(db->handle, "main") != 0) {
        return simba__sqlite_db_fail(db, SQLITE_READONLY, error);
    }
    sqlite3_db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    simba__sqlite_db_measure_log(db);
    return simba__sqlite_db_keep_open(db, error);
}

int simba__sqlite_db_open(struct simba__sqlite_db *db,
                          const struct simba__sqlite_settings *settings,
                          int64_t deadline_ms,
                          simba_error *error)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
                SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_NOFOLLOW;
    int rc;

    *db = (struct simba__sqlite_db){.settings = settings, .log_fd = -1};
    rc = sqlite3_open_v2(settings->path, &db->handle, flags, NULL);
    if (rc != SQLITE_OK) {
        rc = db->handle == NULL ? SIMBA_ENOMEM
                                : simba__sqlite_db_fail(db, rc, error);
    } else {
        rc = simba__sqlite_schema_ensure(db, deadline_ms, error);
    }
    if (rc == SIMBA_OK) {
        rc = configure(db, error);
    }
    if (rc != SIMBA_OK) {
        simba__sqlite_db_close(db);
    }
    return rc;
}

void simba__sqlite_db_close(struct simba__sqlite_db *db)
{
    if (db->handle == NULL) {
        return;
    }
    simba__sqlite_db_keep_close(db);
    for (size_t i = 0; i < SIMBA__SQLITE_STATEMENT_COUNT; i++) {
        sqlite3_finalize(db->statements[i]);
        db->statements[i] = NULL;
    }
    sqlite3_close(db->handle);
    db->handle = NULL;
}

bool simba__sqlite_db_is_moved(const struct simba__sqlite_db *db)
{
    int is_moved = 0;

    return db->handle == NULL ||
           (sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_HAS_MOVED,
                                 &is_moved) == SQLITE_OK &&
            is_moved != 0);
}
