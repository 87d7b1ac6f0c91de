/* A disk that forgets what was not flushed: what was written since is there, or
 * is not, sector by sector. And a wall clock that can be set.
 *
 * The program stands between SQLite and the kernel's fdatasync(), and so knows
 * what a disk would have. At every flush it sets such a disk aside; afterwards
 * it can boot from each of them. */
#ifndef TESTS_BACKENDS_SQLITE_FORGETFUL_DISK_H
#define TESTS_BACKENDS_SQLITE_FORGETFUL_DISK_H

#include "driver.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>

enum { FILES = 2, SECTOR = 512, FILE_MOST = 1024 * 1024, MOMENTS = 400 };
enum { MUTEXES = 3 };

struct image {
    unsigned char bytes[FILE_MOST];
    size_t length;
};

static const char *const suffixes[FILES] = {"", "-wal"};
static int files[FILES] = {-1, -1};
static struct image flushed[FILES];
static struct image lost; /* of the log, when a flush has failed */
static bool is_lost_for_good;
static const char *const mutexes[MUTEXES] = {MUTEX, "b", "c"};
static uint64_t answered[MUTEXES]; /* the last token of each */
static uint64_t moments[MOMENTS][MUTEXES];
static int moment_count;
static bool is_recording;
static int flushes_to_fail;
static _Atomic int flush_count;
static mode_t last_flushed; /* what kind of file */
static long slowness_ms;    /* of a flush, on a disk that is only slow */
static void (*amid_flush)(void);
static unsigned seed;
static int64_t wall_offset_s;

/* --- the disk ------------------------------------------------------------ */

/* Opened once and kept: to close a descriptor of a database would let go of
 * SQLite's locks. */
static inline void read_image(int which, struct image *image)
{
    char path[128];
    ssize_t length;

    snprintf(path, sizeof path, "%s%s", database, suffixes[which]);
    if (files[which] < 0) {
        files[which] = open(path, O_RDONLY | O_CLOEXEC);
    }
    length = pread(files[which], image->bytes, sizeof image->bytes, 0);
    assert_in_range(length, 0, sizeof image->bytes - 1);
    image->length = (size_t)length;
}

static inline unsigned one_of(unsigned count)
{
    seed = seed * 1103515245 + 12345;
    return (seed >> 16) % count;
}

/* Of every second disk nothing is left but what was flushed. Sectors are there
 * one by one, but a file was cut off or was not: file systems do it at once. */
static inline void mix(struct image *now, const struct image *then)
{
    bool is_cut_off = now->length < then->length;

    if (moment_count % 2 == 0 || (is_cut_off && one_of(2) == 0)) {
        *now = *then;
        return;
    }
    for (size_t at = 0; at < now->length && !is_cut_off; at += SECTOR) {
        if (one_of(2) == 0) {
            memcpy(now->bytes + at, then->bytes + at, SECTOR);
        }
    }
}

/* The power fails now. Files end on whole pages, sectors on whole sectors. */
static inline void set_aside(void)
{
    static struct image now;
    char path[160];

    if (!is_recording || moment_count == MOMENTS) {
        return;
    }
    for (int i = 0; i < FILES; i++) {
        FILE *file;

        memset(&now, 0, sizeof now);
        read_image(i, &now);
        mix(&now, &flushed[i]);
        snprintf(path, sizeof path, "%s/cut-%d.db%s", directory, moment_count,
                 suffixes[i]);
        file = fopen(path, "w");
        assert_non_null(file);
        assert_int_equal(fwrite(now.bytes, 1, now.length, file), now.length);
        assert_int_equal(fclose(file), 0);
    }
    memcpy(moments[moment_count++], answered, sizeof answered);
}

/* What could not be written counts as written for some kernels, and they do
 * not try again. */
static inline void forget_lost(struct image *now, const struct image *then)
{
    for (size_t at = 0; at < lost.length; at += SECTOR) {
        if (memcmp(now->bytes + at, lost.bytes + at, SECTOR) == 0) {
            memcpy(now->bytes + at, then->bytes + at, SECTOR);
        }
    }
}

static inline void note_flush(int fd, bool is_failed)
{
    static struct image now;
    struct stat synced, file;
    char path[128];

    assert_int_equal(fstat(fd, &synced), 0);
    last_flushed = synced.st_mode;
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "%s%s", database, suffixes[i]);
        if (stat(path, &file) != 0 || synced.st_ino != file.st_ino) {
            continue;
        }
        memset(&now, 0, sizeof now);
        read_image(i, &now);
        if (i == 1 && is_failed && is_lost_for_good) {
            lost = now;
        } else if (i == 1) {
            forget_lost(&now, &flushed[i]);
        }
        if (!is_failed) {
            flushed[i] = now;
        }
    }
}

/* In place of the C library's, for SQLite as for us. */
#define IN_PLACE __attribute__((visibility("default")))

/* What is written during a flush may be in it or not. */
IN_PLACE int fdatasync(int fd)
{
    bool is_before = amid_flush != NULL && one_of(2) == 0;

    flush_count++;
    if (slowness_ms > 0) {
        nap_ms(slowness_ms);
        return 0;
    }
    set_aside();
    if (flushes_to_fail > 0) {
        flushes_to_fail--;
        note_flush(fd, true);
        errno = EIO;
        return -1;
    }
    if (is_before) {
        amid_flush();
    }
    note_flush(fd, false);
    if (amid_flush != NULL && !is_before) {
        amid_flush();
    }
    set_aside();
    return 0;
}

IN_PLACE int fsync(int fd)
{
    return fdatasync(fd);
}

/* --- the wall clock ------------------------------------------------------ */

IN_PLACE int clock_gettime(clockid_t which, struct timespec *now)
{
    long rc = syscall(SYS_clock_gettime, which, now);

    if (which == CLOCK_REALTIME) {
        now->tv_sec += wall_offset_s;
    }
    return (int)rc;
}

/* --- booting ------------------------------------------------------------- */

static inline int start_empty(void **state)
{
    memset(flushed, 0, sizeof flushed);
    lost.length = 0;
    is_lost_for_good = false;
    moment_count = 0;
    memset(answered, 0, sizeof answered);
    seed = 1;
    amid_flush = NULL;
    is_recording = false;
    flush_count = 0;
    slowness_ms = 0;
    wall_offset_s = 0;
    return make_directory(state);
}

static inline int end(void **state)
{
    int rc = remove_directory(state);

    for (int i = 0; i < FILES; i++) {
        close(files[i]);
        files[i] = -1;
    }
    return rc;
}

/* Of another boot than those who wrote it. */
static inline void boot_from(int moment)
{
    is_recording = false;
    snprintf(database, sizeof database, "%s/cut-%d.db", directory, moment);
    must_open(&third, "");
    reboot();
    sql("UPDATE simba_reserve SET boot = 'x' WHERE boot <> ''");
}

/* The token that is given next, of the mutex of that number. */
static inline uint64_t next_token(int which)
{
    struct who carol = person(&third, "carol");
    simba_request request = asking(&carol);

    request.mutex = mutexes[which];
    run(&carol, request);
    expect_mine(&carol);
    return got.token;
}

static inline void halt(void)
{
    handle_close(&third);
    assert_int_equal(sql("SELECT 'ok' <> integrity_check FROM "
                         "pragma_integrity_check"),
                     0);
}

/* Boots from that disk; how many tokens come again? */
static inline int count_repeated(int moment)
{
    int count = 0;

    boot_from(moment);
    for (int i = 0; i < MUTEXES; i++) {
        count += next_token(i) <= moments[moment][i];
    }
    halt();
    return count;
}

#define DISK_TEST(test) TEST_AROUND(test, start_empty, end)

#endif
