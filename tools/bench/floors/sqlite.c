/* The floor under the SQLite store: the same commits and the same wake-up with
 * nothing but libsqlite3 and inotify. It works on a database of its own, in the
 * same directory and set up alike, so that the disk is the same. */
#define _GNU_SOURCE
#include "backends/sqlite/sqlite.h"

#include <simba/owner.h>
#include <simba/sys/bench.h>

#include <sqlite3.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

enum { LOG_PAGES = 64, BUSY_MS = 1000 };

enum { BEGIN, CHANGE, COMMIT, STATEMENTS };

struct simba_floor {
    struct simba__sqlite_settings settings;
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENTS];
    char *path, *watched;
    int watched_fd; /* to write to */
    int notify_fd;  /* says when that was done; -1 until armed */
};

static bool step(simba_floor *floor, int which)
{
    int rc = sqlite3_step(floor->statements[which]);

    sqlite3_reset(floor->statements[which]);
    return rc == SQLITE_DONE;
}

/* Answers for a step, or for opening, that is done or not. */
static int answer(const simba_floor *floor, bool is_done, simba_error *error)
{
    return is_done
               ? SIMBA_OK
               : simba_error_set(error, SIMBA_EUNAVAIL, errno,
                                 "the floor's database %s: %s", floor->path,
                                 floor->db == NULL ? strerror(errno)
                                                   : sqlite3_errmsg(floor->db));
}

static bool commit_one(simba_floor *floor)
{
    return step(floor, BEGIN) && step(floor, CHANGE) && step(floor, COMMIT);
}

/* --- steps --------------------------------------------------------------- */

static int pair(simba_floor *floor, simba_error *error)
{
    return answer(floor, commit_one(floor) && commit_one(floor), error);
}

static int arm(simba_floor *floor, simba_error *error)
{
    if (floor->notify_fd >= 0) {
        return SIMBA_OK;
    }
    floor->notify_fd = inotify_init1(IN_CLOEXEC);
    return answer(
        floor,
        floor->notify_fd >= 0 &&
            inotify_add_watch(floor->notify_fd, floor->watched, IN_MODIFY) >= 0,
        error);
}

static int notify(simba_floor *floor, simba_error *error)
{
    return answer(
        floor, commit_one(floor) && pwrite(floor->watched_fd, "!", 1, 0) == 1,
        error);
}

static int await(simba_floor *floor, simba_error *error)
{
    char events[4096];
    ssize_t length;

    do {
        length = read(floor->notify_fd, events, sizeof events);
    } while (length < 0 && errno == EINTR);
    return answer(floor, length > 0 && commit_one(floor), error);
}

/* --- life ---------------------------------------------------------------- */

static void close_floor(simba_floor *floor)
{
    char file[4096];

    for (int i = 0; i < STATEMENTS; i++) {
        sqlite3_finalize(floor->statements[i]);
    }
    sqlite3_close(floor->db);
    if (floor->watched_fd >= 0) {
        close(floor->watched_fd);
    }
    if (floor->notify_fd >= 0) {
        close(floor->notify_fd);
    }
    if (floor->path != NULL && floor->watched != NULL) {
        unlink(floor->path);
        unlink(floor->watched);
        snprintf(file, sizeof file, "%s-wal", floor->path);
        unlink(file);
        snprintf(file, sizeof file, "%s-shm", floor->path);
        unlink(file);
    }
    free(floor->path);
    free(floor->watched);
    simba__sqlite_settings_fini(&floor->settings);
}

static bool prepare(simba_floor *floor)
{
    static const char *const texts[STATEMENTS] = {
        [BEGIN] = "BEGIN IMMEDIATE",
        [CHANGE] = "UPDATE floor SET n = n + 1",
        [COMMIT] = "COMMIT"};

    for (int i = 0; i < STATEMENTS; i++) {
        if (sqlite3_prepare_v2(floor->db, texts[i], -1, &floor->statements[i],
                               NULL) != SQLITE_OK) {
            return false;
        }
    }
    return true;
}

static bool open_database(simba_floor *floor)
{
    if (sqlite3_open(floor->path, &floor->db) != SQLITE_OK) {
        return false;
    }
    sqlite3_busy_timeout(floor->db, BUSY_MS);
    sqlite3_wal_autocheckpoint(floor->db, LOG_PAGES);
    return sqlite3_exec(floor->db,
                        "PRAGMA journal_mode=WAL;"
                        "CREATE TABLE IF NOT EXISTS floor"
                        " (id INTEGER PRIMARY KEY, n INTEGER);"
                        "INSERT OR IGNORE INTO floor VALUES (1, 1)",
                        NULL, NULL, NULL) == SQLITE_OK &&
           sqlite3_exec(floor->db,
                        floor->settings.is_full ? "PRAGMA synchronous=FULL"
                                                : "PRAGMA synchronous=NORMAL",
                        NULL, NULL, NULL) == SQLITE_OK &&
           prepare(floor);
}

/* Mutex names may hold what a file name may not. Several mutexes of one
 * measurement are in one database, as those of a store are. */
static bool name_files(simba_floor *floor, const char *mutex)
{
    char plain[SIMBA_MUTEX_MAX_BYTES + 1];

    snprintf(plain, sizeof plain, "%.*s", (int)strcspn(mutex, "#"), mutex);
    for (char *c = plain; (c = strchr(c, '/')) != NULL;) {
        *c = '_';
    }
    return asprintf(&floor->path, "%s-floor-%s", floor->settings.path, plain) >
               0 &&
           asprintf(&floor->watched, "%s-bell", floor->path) > 0;
}

static int open_floor(simba_floor *floor,
                      const char *url,
                      const char *mutex,
                      simba_error *error)
{
    int rc = simba__sqlite_settings_init(&floor->settings, strchr(url, ':') + 1,
                                         error);

    floor->watched_fd = floor->notify_fd = -1;
    if (rc == SIMBA_OK && !name_files(floor, mutex)) {
        rc = simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    if (rc == SIMBA_OK) {
        floor->watched_fd =
            open(floor->watched, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        rc = answer(floor, floor->watched_fd >= 0 && open_database(floor),
                    error);
    }
    return rc;
}

const simba_floor_ops simba_floor_module = {SIMBA_FLOOR_ABI,
                                            sizeof(simba_floor),
                                            open_floor,
                                            close_floor,
                                            {pair, arm, notify, await}};
