/* When the log is copied back into the database.
 *
 * That flushes the log, then the database, and who writes next flushes the head
 * of the new log: three times the disk. SQLite would do it in whichever commit
 * makes the log too long, before those who wait are rung. We do all of it after
 * the answer to a release or a renewal was found and its bells were rung, so
 * that no mutex that changes hands waits for it. */
#include "backends/sqlite/database.h"

/* The log is not copied back when a store is closed, and whoever opens the
 * database next reads it through: keep it short. */
enum { LOG_PAGES = 64 };

/* Where nobody ever releases or renews, acquires must do it. */
enum { LOG_PAGES_MOST = 8 * LOG_PAGES };

/* How long we wait for others who write, to keep them out. */
enum { CUT_PATIENCE_MS = 20 };

static int note_pages(void *db, sqlite3 *handle, const char *name, int pages)
{
    (void)handle;
    (void)name;
    ((struct simba__sqlite_db *)db)->log_pages = pages;
    return SQLITE_OK;
}

void simba__sqlite_db_measure_log(struct simba__sqlite_db *db)
{
    db->cut_pages = LOG_PAGES_MOST;
    sqlite3_wal_hook(db->handle, note_pages, db);
}

/* The first commit after the log was copied back begins it anew, unless
 * somebody is reading it. */
static void begin_log(struct simba__sqlite_db *db)
{
    simba_error ignored;
    sqlite3_stmt *statement =
        simba__sqlite_db_statement(db, SIMBA__SQLITE_BEGIN_LOG, &ignored);

    if (statement != NULL) {
        simba__sqlite_db_execute(db, statement, &ignored);
    }
}

enum outcome { COPIED, LEFT_OVER, OTHERS_DO };

static enum outcome copy_back(struct simba__sqlite_db *db, int mode)
{
    int pages = -1, copied = -1;
    int rc =
        sqlite3_wal_checkpoint_v2(db->handle, "main", mode, &pages, &copied);

    if (pages < 0) {
        return OTHERS_DO;
    }
    return rc == SQLITE_OK && copied == pages ? COPIED : LEFT_OVER;
}

static int await_others(void *until_ms, int tries)
{
    return simba__sqlite_db_wait(*(int64_t *)until_ms, (unsigned)tries);
}

/* Where many write without a pause there is always more in the log than was
 * copied, so that it never begins anew: keep them out meanwhile. Who reads for
 * long defeats that; then we do not try again soon. */
static enum outcome cut(struct simba__sqlite_db *db, int pages)
{
    int64_t until_ms = simba_loop_now_ms() + CUT_PATIENCE_MS;
    enum outcome outcome;

    sqlite3_busy_handler(db->handle, await_others, &until_ms);
    outcome = copy_back(db, SQLITE_CHECKPOINT_TRUNCATE);
    sqlite3_busy_handler(db->handle, NULL, NULL);
    if (outcome != OTHERS_DO) {
        db->cut_pages = outcome == COPIED ? LOG_PAGES_MOST : 2 * pages;
    }
    return outcome;
}

bool simba__sqlite_db_cut_log(struct simba__sqlite_db *db)
{
    return cut(db, LOG_PAGES_MOST) == COPIED;
}

/* What fails is left to the next. */
void simba__sqlite_db_shorten_log(struct simba__sqlite_db *db, bool is_urgent)
{
    int pages = db->log_pages;
    enum outcome outcome;

    if (pages < (is_urgent ? LOG_PAGES_MOST : LOG_PAGES)) {
        return;
    }
    db->log_pages = 0;
    outcome = pages < db->cut_pages ? copy_back(db, SQLITE_CHECKPOINT_PASSIVE)
                                    : cut(db, pages);
    if (outcome == COPIED) {
        begin_log(db);
    }
}
