/* A database that somebody else wrote: opened, listed, read, acquired and
 * released. If the first byte is even the others are its file; else they are
 * SQL by which somebody has changed one of ours. The file is in memory, as far
 * as the system has such a place. */
#define _GNU_SOURCE
#include "fuzz/fuzz.h"

#include <simba/admin.h>
#include <simba/locker.h>
#include <simba/report.h>
#include <simba/store.h>

#include <fcntl.h>
#include <ftw.h>
#include <sqlite3.h>
#include <stdio.h>
#include <unistd.h>

static char directory[32] = "/dev/shm/simba-fuzz-XXXXXX";

static int remove_one(const char *path,
                      const struct stat *status,
                      int kind,
                      struct FTW *where)
{
    (void)status;
    (void)kind;
    return where->level == 0 ? 0 : remove(path);
}

static void remove_all(void)
{
    (void)nftw(directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void remove_directory(void)
{
    remove_all();
    (void)rmdir(directory);
}

static void write_file(const char *path, const void *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    FUZZ_CHECK(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
    (void)close(fd);
}

static void use(simba_store *store)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_report *report = NULL;
    simba_locker *locker = NULL;

    if (simba_admin_list(store, NULL, &report, NULL) == SIMBA_OK) {
        simba_report_close(report);
    }
    if (simba_admin_show(store, "m", &report, NULL) == SIMBA_OK) {
        simba_report_close(report);
    }
    options.mutex = "m";
    options.times.ttl_ms = 200; /* a release is tried as long as that */
    options.times.transition_ms = 100;
    if (simba_locker_open(store, &options, &locker, NULL) == SIMBA_OK) {
        if (simba_locker_acquire(locker, 0, NULL, NULL) == SIMBA_OK) {
            (void)simba_locker_release(locker, NULL);
        }
        simba_locker_close(locker);
    }
}

/* Whatever takes longer than this is none of our concern here. */
static int is_enough(void *count)
{
    return ++*(int *)count > 100;
}

/* A database of ours, changed by this text. */
static void change(const char *path, const char *url, const char *text)
{
    static sqlite3_int64 size;
    static unsigned char *ours;
    sqlite3 *db = NULL;
    simba_store *store;
    int count = 0;

    if (ours == NULL) {
        FUZZ_CHECK(simba_store_open(url, NULL, &store, NULL) == SIMBA_OK);
        use(store);
        simba_store_close(store);
        FUZZ_CHECK(sqlite3_open(path, &db) == SQLITE_OK);
        ours = sqlite3_serialize(db, "main", &size, 0);
        FUZZ_CHECK(ours != NULL && sqlite3_close(db) == SQLITE_OK);
    }
    write_file(path, ours, (size_t)size);
    FUZZ_CHECK(sqlite3_open(path, &db) == SQLITE_OK);
    sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0); /* no other files */
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 1 << 20);
    sqlite3_progress_handler(db, 1000, is_enough, &count);
    (void)sqlite3_exec(db, text, NULL, NULL, NULL);
    FUZZ_CHECK(sqlite3_close(db) == SQLITE_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char path[64], url[80];
    simba_store *store;
    char *text;

    if (path[0] == '\0') {
        if (mkdtemp(directory) == NULL) {
            (void)strcpy(directory, "/tmp/simba-fuzz-XXXXXX");
            FUZZ_CHECK(mkdtemp(directory) != NULL);
        }
        (void)atexit(remove_directory);
        (void)snprintf(path, sizeof path, "%s/db", directory);
        (void)snprintf(url, sizeof url, "sqlite:%s", path);
        setenv("SIMBA_CONFIG", "/dev/null", 1);
    }
    if (size == 0) {
        return 0;
    }
    remove_all();
    if (data[0] % 2 == 0) {
        write_file(path, data + 1, size - 1);
    } else {
        text = fuzz_text(data + 1, size - 1);
        change(path, url, text);
        free(text);
    }
    if (simba_store_open(url, NULL, &store, NULL) == SIMBA_OK) {
        use(store);
        simba_store_close(store);
    }
    return 0;
}
