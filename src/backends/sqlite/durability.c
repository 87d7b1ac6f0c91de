/* What outlasts a loss of power: the write-ahead log, when it is flushed and
 * copied back into the database, and the tokens that need no flush.
 *
 * A reboot frees every mutex, so nobody misses a release, a renewal or a
 * position in the queue that went with the power: what they had changed is void
 * anyway. Two things must stay: a token that was given out, or another could
 * get the same once the wall clock is behind (S4), and the audit of a break.
 *
 * So SQLite commits without a flush (synchronous=NORMAL), and we flush its log
 * ourselves before an answer that must last; for tokens that is once a minute,
 * see below. A flush takes along all that was written to the log
 * before it, by any process. If another process has copied the log back and
 * begun it anew in the meantime, it has flushed the log, then the database:
 * NORMAL does that as FULL does, for else a loss of power could corrupt the
 * file.
 *
 * SQLite's own FULL would flush at every commit, while all other writers wait,
 * and with the first one the directory, too. That of a new log is flushed in
 * NORMAL as well, with the head of the log, before the first page is in it.
 *
 * Where there is no log SQLite flushes each commit. There FULL is not enough:
 * it leaves the end of the rollback journal's name to the file system, and a
 * journal that comes back undoes the commit. EXTRA flushes the directory.
 *
 * Copying the log back flushes the log, then the database, and the next writer
 * flushes the head of the new log: three times the disk. SQLite would do it in
 * whichever commit makes the log too long, before the waiters are notified. We
 * do all of it after the answer to a release or a renewal was found and the
 * waiters were notified, so that no mutex that changes hands waits for it. */
#define _GNU_SOURCE
#include "backends/sqlite/sqlite.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long we wait for other writers, to keep them out. */
enum { CUT_PATIENCE_MS = 20 };

/* The pragma is always given, because builds of SQLite differ in the default.
 */
int simba__sqlite_wal_open(struct simba__sqlite *self, simba_error *error)
{
    bool is_full = self->settings.is_full;
    char *path = NULL;
    int rc;

    /* The log is not a file that SQLite locks: to close another descriptor of
     * such a file would let go of its locks. */
    if (is_full && asprintf(&path, "%s-wal", self->settings.path) >= 0) {
        self->db.log_fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        free(path);
    }
    rc = sqlite3_exec(self->db.handle,
                      is_full && self->db.log_fd < 0
                          ? "PRAGMA synchronous=EXTRA"
                          : "PRAGMA synchronous=NORMAL",
                      NULL, NULL, NULL);
    return simba__sqlite_result(self, rc, error);
}

/* --- copying back -------------------------------------------------------- */

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
    return simba__sqlite_nap(*(int64_t *)until_ms, (unsigned)tries);
}

/* If many write without a pause, there is always more in the log than was
 * copied, and it never begins anew. So other writers are kept out meanwhile. A
 * long reader defeats that; then the next try comes later. */
static enum outcome cut(struct simba__sqlite_db *db, int pages)
{
    int64_t until_ms = simba_loop_now_ms() + CUT_PATIENCE_MS;
    enum outcome outcome;

    sqlite3_busy_handler(db->handle, await_others, &until_ms);
    outcome = copy_back(db, SQLITE_CHECKPOINT_TRUNCATE);
    sqlite3_busy_handler(db->handle, NULL, NULL);
    if (outcome != OTHERS_DO) {
        db->cut_pages =
            outcome == COPIED ? SIMBA__SQLITE_LOG_PAGES_MOST : 2 * pages;
    }
    return outcome;
}

/* If it fails, the next request tries again. */
void simba__sqlite_wal_shorten(struct simba__sqlite *self)
{
    struct simba__sqlite_db *db = &self->db;
    int pages = db->log_pages;
    enum outcome outcome;
    simba_error ignored;

    db->log_pages = 0;
    outcome = pages < db->cut_pages ? copy_back(db, SQLITE_CHECKPOINT_PASSIVE)
                                    : cut(db, pages);
    if (outcome == COPIED) {
        /* The first commit after the log was copied back begins it anew, unless
         * somebody is reading it. */
        (void)simba__sqlite_execute(self, SIMBA__SQLITE_BEGIN_LOG, &ignored,
                                    "");
    }
}

/* --- flushing ------------------------------------------------------------ */

/* After a flush has failed, the kernel may count as written what it could not
 * write, and a later flush does not report it. So the next one copies the log
 * back: that writes all of it once more, elsewhere. Then the log must be gone,
 * for what is on disk of it is less. */
int simba__sqlite_wal_flush(struct simba__sqlite *self, simba_error *error)
{
    struct simba__sqlite_db *db = &self->db;

    if (db->log_fd < 0) {
        return SIMBA_OK;
    }
    errno = EIO; /* if SQLite does not tell why */
    if (db->is_log_doubtful) {
        db->is_log_doubtful = cut(db, SIMBA__SQLITE_LOG_PAGES_MOST) != COPIED ||
                              fsync(db->log_fd) != 0;
    } else {
        db->is_log_doubtful = fdatasync(db->log_fd) != 0;
    }
    if (!db->is_log_doubtful) {
        return SIMBA_OK;
    }
    return simba_error_set(error, SIMBA_EUNKNOWN, errno,
                           "sqlite %s: its log cannot be flushed: %s",
                           self->settings.shown,
                           simba__sqlite_errno_words(errno));
}

/* --- tokens without a flush ---------------------------------------------- */

/* No token may come again, also not after a loss of power that took along the
 * row it was in, while the wall clock went back (S4). To flush each would do,
 * but a disk takes its time just when a mutex changes hands. So a minute of
 * tokens is reserved with one flush: those up to `reserved` can be given out
 * without another, because a later boot begins above it.
 *
 * Between the commit that raises `reserved` and its flush other processes see a
 * value that is not on disk yet. Therefore `flushed` says how much is. The
 * process that has flushed writes it, with whatever it writes next. A process
 * that needs a token above it flushes for itself.
 *
 * After a loss of power `reserved` may be an older one, but not below any
 * `flushed` that was ever seen. It only grows, so what we flushed ourselves
 * stays true, too.
 *
 * Containers may have boot ids of their own. Then each raises the floor over
 * the other's reserve and has to flush: slow, but right. As the reserve follows
 * the wall clock and not the floor, they do not drive each other on. */
/* How far the reserve is ahead of the wall clock. After a reboot tokens may be
 * ahead of it by as much; if the file is lost then, a new one begins at the
 * clock. */
#define SPAN_US UINT64_C(60000000)

static uint64_t greater(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

int simba__sqlite_reserve_load(struct simba__sqlite *self, simba_error *error)
{
    struct simba__sqlite_reserve *reserve = &self->reserve;
    sqlite3_stmt *row =
        simba__sqlite_prepare(self, SIMBA__SQLITE_LOAD_RESERVE, error, "");
    int rc;

    if (row == NULL) {
        return error->code;
    }
    reserve->floor = reserve->reserved = reserve->flushed = 0;
    reserve->is_ours = false;
    rc = sqlite3_step(row);
    if (rc == SQLITE_ROW) {
        const char *boot = (const char *)sqlite3_column_text(row, 0);

        reserve->floor = (uint64_t)sqlite3_column_int64(row, 1);
        reserve->reserved = (uint64_t)sqlite3_column_int64(row, 2);
        reserve->flushed = (uint64_t)sqlite3_column_int64(row, 3);
        reserve->is_ours = boot != NULL && strcmp(boot, self->boot) == 0;
        rc = SQLITE_DONE;
    }
    sqlite3_reset(row);
    if (reserve->reserved < reserve->seen_flushed) {
        reserve->seen_flushed = 0; /* lost, or a backup was written back */
        reserve->is_untold = false;
    }
    if (!reserve->is_ours) {
        reserve->floor = greater(reserve->floor, reserve->reserved);
    }
    return simba__sqlite_result(self, rc, error);
}

static bool is_flush_due(const struct simba__sqlite *self, uint64_t token)
{
    const struct simba__sqlite_reserve *reserve = &self->reserve;

    return self->db.log_fd >= 0 &&
           token > greater(reserve->flushed, reserve->seen_flushed);
}

int simba__sqlite_reserve_cover(struct simba__sqlite *self,
                                uint64_t token,
                                bool *is_changed,
                                simba_error *error)
{
    struct simba__sqlite_reserve *reserve = &self->reserve;
    uint64_t wall_us = simba__sqlite_wall_us();
    bool is_raised = false;

    assert(!sqlite3_get_autocommit(self->db.handle));
    /* A deleted row begins again at the clock. While that is behind the floor,
     * the floor must go on with every token it has chosen (S4). */
    if (token > wall_us && token == reserve->floor + 1) {
        reserve->floor = token;
        is_raised = true;
    }
    if (is_flush_due(self, token) &&
        (!reserve->is_ours || token > reserve->reserved)) {
        reserve->reserved =
            greater(greater(reserve->reserved, token), wall_us + SPAN_US);
        is_raised = true;
    }
    if (!is_raised) {
        return SIMBA_OK;
    }
    *is_changed = true;
    return simba__sqlite_execute(self, SIMBA__SQLITE_STORE_RESERVE, error,
                                 "tnnn", self->boot, reserve->floor,
                                 reserve->reserved, reserve->flushed);
}

int simba__sqlite_reserve_flush(struct simba__sqlite *self,
                                uint64_t token,
                                simba_error *error)
{
    int rc;

    if (!is_flush_due(self, token)) {
        return SIMBA_OK;
    }
    rc = simba__sqlite_wal_flush(self, error);
    if (rc == SIMBA_OK) {
        self->reserve.seen_flushed = self->reserve.reserved;
        self->reserve.is_untold = true;
    }
    return rc;
}

int simba__sqlite_reserve_tell(struct simba__sqlite *self, simba_error *error)
{
    return self->reserve.is_untold
               ? simba__sqlite_execute(self, SIMBA__SQLITE_STORE_FLUSHED, error,
                                       "n", self->reserve.seen_flushed)
               : SIMBA_OK;
}
