/* What must outlast a loss of power, and what need not.
 *
 * A reboot frees every mutex, so nobody misses a release, a renewal or a place
 * in the queue that went with the power: what they had changed is void anyway.
 * Two things must stay: a token that was given out, or another could get the
 * same once the wall clock is behind (S4), and the audit of a break.
 *
 * So SQLite commits without a flush (synchronous=NORMAL), and we flush its log
 * ourselves before an answer that must last; for tokens that is once a minute,
 * see reserve.c. A flush takes along all that was written to the log before it,
 * by whomever. If somebody has copied the log back and begun it anew in the
 * meantime, he has flushed the log, then the database: NORMAL leaves that out
 * no more than FULL does, for else a loss of power could corrupt the file.
 *
 * SQLite's own FULL would flush at every commit, while all other writers wait,
 * and with the first one the directory, too. That of a new log is flushed in
 * NORMAL as well, with the head of the log, before the first page is in it.
 *
 * Where there is no log SQLite flushes each commit. There FULL is not enough:
 * it leaves the end of the rollback journal's name to the file system, and a
 * journal that comes back undoes the commit. EXTRA flushes the directory. */
#define _GNU_SOURCE
#include "backends/sqlite/database.h"
#include "backends/sqlite/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Not one that SQLite locks: to close another descriptor of such a file would
 * let go of its locks. */
static int open_log(const char *database)
{
    char *path = NULL;
    int fd;

    if (asprintf(&path, "%s-wal", database) < 0) {
        return -1;
    }
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    free(path);
    return fd;
}

int simba__sqlite_db_keep_open(struct simba__sqlite_db *db, simba_error *error)
{
    bool is_full = db->settings->is_full;
    int rc;

    db->log_fd = is_full ? open_log(db->settings->path) : -1;
    rc = sqlite3_exec(db->handle,
                      is_full && db->log_fd < 0 ? "PRAGMA synchronous=EXTRA"
                                                : "PRAGMA synchronous=NORMAL",
                      NULL, NULL, NULL);
    return rc == SQLITE_OK ? SIMBA_OK : simba__sqlite_db_fail(db, rc, error);
}

bool simba__sqlite_db_is_flushed_by_us(const struct simba__sqlite_db *db)
{
    return db->log_fd >= 0;
}

/* Once a flush has failed, the kernel may count as written what it could not
 * write, and a later flush says nothing of it. So the log is copied back then:
 * that writes all of it once more, elsewhere. Then it must be gone, for what is
 * on disk of it is less. */
static bool flush(struct simba__sqlite_db *db)
{
    if (db->is_log_doubtful) {
        db->is_log_doubtful =
            !simba__sqlite_db_cut_log(db) || fsync(db->log_fd) != 0;
    } else {
        db->is_log_doubtful = fdatasync(db->log_fd) != 0;
    }
    return !db->is_log_doubtful;
}

int simba__sqlite_db_keep(struct simba__sqlite_db *db, simba_error *error)
{
    errno = EIO; /* when SQLite keeps its reason to itself */
    if (db->log_fd < 0 || flush(db)) {
        return SIMBA_OK;
    }
    return SIMBA__SQLITE_FAIL(db->settings, error, SIMBA_EUNKNOWN, errno,
                              "its log cannot be flushed: %s",
                              simba__sqlite_file_words(errno));
}

void simba__sqlite_db_keep_close(struct simba__sqlite_db *db)
{
    if (db->log_fd >= 0) {
        close(db->log_fd);
    }
    db->log_fd = -1;
}
