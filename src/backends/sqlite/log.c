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

static int note_pages(void *db, sqlite3 *handle, const char *name, int pages)
{
    (void)handle;
    (void)name;
    ((struct simba__sqlite_db *)db)->log_pages = pages;
    return SQLITE_OK;
}

void simba__sqlite_db_measure_log(struct simba__sqlite_db *db)
{
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

/* What fails is left to the next. */
void simba__sqlite_db_shorten_log(struct simba__sqlite_db *db, bool is_urgent)
{
    int pages, copied;

    if (db->log_pages < (is_urgent ? LOG_PAGES_MOST : LOG_PAGES)) {
        return;
    }
    db->log_pages = 0;
    if (sqlite3_wal_checkpoint_v2(db->handle, "main", SQLITE_CHECKPOINT_PASSIVE,
                                  &pages, &copied) == SQLITE_OK &&
        copied == pages) {
        begin_log(db);
    }
}
