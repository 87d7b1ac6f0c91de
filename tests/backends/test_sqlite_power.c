/* What a loss of power leaves of an SQLite store: only what was flushed is sure
 * to be there; what was written since is there, or is not, sector by sector.
 *
 * This program stands between SQLite and the kernel's fdatasync(), and so knows
 * what a disk would have. At every flush and after every answer it sets such a
 * disk aside; afterwards it boots from each of them. */
#define _GNU_SOURCE
#include "sqlite_driver.h"

#include <errno.h>
#include <fcntl.h>

enum { FILES = 2, SECTOR = 512, FILE_MOST = 256 * 1024, MOMENTS = 400 };

/* More tenures than fit into a log before it is copied back, twice. */
enum { TENURES = 36 };

/* The wall clock is behind, so tokens have nothing but the last one to go by.
 */
#define AHEAD     UINT64_C(4000000000000000000)
#define SET_AHEAD "UPDATE simba_mutex SET fencing_token = 4000000000000000000"

struct image {
    unsigned char bytes[FILE_MOST];
    size_t length;
};

static const char *const suffixes[FILES] = {"", "-wal"};
static int files[FILES] = {-1, -1};
static struct image flushed[FILES];
static uint64_t answered; /* the last token */
static uint64_t moments[MOMENTS];
static int moment_count;
static bool is_recording;
static int flushes_to_fail;

/* --- the disk ------------------------------------------------------------ */

/* Opened once and kept: to close a descriptor of a database would let go of
 * SQLite's locks. */
static void read_image(int which, struct image *image)
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

/* Of every second disk nothing is left but what was flushed. */
static void mix(struct image *now, const struct image *then)
{
    static unsigned seed = 1;
    size_t length = now->length > then->length ? now->length : then->length;

    for (size_t at = 0; at < length; at += SECTOR) {
        seed = seed * 1103515245 + 12345;
        if (moment_count % 2 == 0 || (seed >> 16) % 2 == 0) {
            memcpy(now->bytes + at, then->bytes + at, SECTOR);
        }
    }
    now->length = moment_count % 2 == 0 ? then->length : length;
}

/* The power fails now. Files end on whole pages, sectors on whole sectors. */
static void set_aside(void)
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
    moments[moment_count++] = answered;
}

static void note_flush(int fd)
{
    struct stat synced, file;
    char path[128];

    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "%s%s", database, suffixes[i]);
        if (fstat(fd, &synced) == 0 && stat(path, &file) == 0 &&
            synced.st_ino == file.st_ino) {
            memset(&flushed[i], 0, sizeof flushed[i]);
            read_image(i, &flushed[i]);
        }
    }
}

/* In place of the C library's, for SQLite as for us. */
#define IN_PLACE __attribute__((visibility("default")))

IN_PLACE int fdatasync(int fd)
{
    set_aside();
    if (flushes_to_fail > 0) {
        flushes_to_fail--;
        errno = EIO;
        return -1;
    }
    note_flush(fd);
    set_aside();
    return 0;
}

IN_PLACE int fsync(int fd)
{
    return fdatasync(fd);
}

/* --- booting ------------------------------------------------------------- */

static int start_empty(void **state)
{
    memset(flushed, 0, sizeof flushed);
    moment_count = 0;
    answered = 0;
    is_recording = false;
    return make_directory(state);
}

static int end(void **state)
{
    int rc = remove_directory(state);

    for (int i = 0; i < FILES; i++) {
        close(files[i]);
        files[i] = -1;
    }
    return rc;
}

/* Of another boot than those who wrote it. */
static void boot_from(int moment)
{
    is_recording = false;
    snprintf(database, sizeof database, "%s/cut-%d.db", directory, moment);
    sql("UPDATE simba_tenure SET boot = 'x'; UPDATE simba_line SET boot = 'x'");
    must_open(&third, "");
}

static uint64_t next_token(int moment)
{
    struct who carol = person(&third, "carol");

    boot_from(moment);
    ask(&carol);
    expect_mine(&carol);
    handle_close(&third);
    assert_int_equal(sql("SELECT 'ok' <> integrity_check FROM "
                         "pragma_integrity_check"),
                     0);
    return carol.token;
}

/* Tenure after tenure, with somebody in line and a renewal now and then. */
static void live(const char *parameters)
{
    must_open(&first, parameters);
    sql("INSERT INTO simba_mutex VALUES ('m/1 {a}:''b''%\"', 0, 0, 0, '', 1, "
        "1);" SET_AHEAD);
    is_recording = true;
    for (int i = 0; i < TENURES; i++) {
        struct who alice = person(&first, "alice");
        struct who bob = person(&first, "bob");

        ask(&alice);
        answered = alice.token;
        assert_true(answered > AHEAD);
        set_aside();
        if (i % 4 == 0) {
            ask(&bob);
            renew(&alice);
            leave(&bob);
            set_aside();
        }
        release(&alice);
        set_aside();
    }
    is_recording = false;
}

/* S4, whenever the power fails. */
static void test_sqlite_power__no_token_comes_again(void **state)
{
    (void)state;
    live("");
    assert_true(moment_count > 3 * TENURES);
    for (int i = 0; i < moment_count; i++) {
        assert_true(next_token(i) > moments[i]);
    }
}

/* Without flushes tokens do come again: the disk above forgets what it must. */
static void test_sqlite_power__disk_forgets(void **state)
{
    int repeated = 0;

    (void)state;
    live("?synchronous=normal");
    for (int i = 0; i < moment_count; i++) {
        repeated += next_token(i) <= moments[i];
    }
    assert_true(repeated > 0);
}

/* One flush for a tenure, and none for what a reboot makes void. */
static void test_sqlite_power__flushes_are_few(void **state)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");
    int before;

    (void)state;
    must_open(&first, "");
    ask(&alice);
    is_recording = true;
    before = moment_count;
    ask(&bob);
    renew(&alice);
    leave(&bob);
    release(&alice);
    assert_int_equal(moment_count, before);
    ask(&bob);
    assert_int_equal(moment_count, before + 2);
}

/* S8: what may not be on disk is not known, and asking again makes sure. */
static void test_sqlite_power__failed_flush_is_unknown(void **state)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");
    int last;

    (void)state;
    must_open(&first, "");
    ask(&bob);
    release(&bob);
    sql(SET_AHEAD);
    is_recording = true;
    flushes_to_fail = 1;
    assert_int_equal(try_run(&alice, asking(&alice)), SIMBA_EUNKNOWN);
    assert_non_null(strstr(why.message, "log"));
    ask(&alice);
    expect_mine(&alice);
    last = moment_count & ~1; /* one that has only what was flushed */
    moment_count = last;
    set_aside();
    assert_true(next_token(last) > alice.token);
}

static void test_sqlite_power__audit_stays(void **state)
{
    struct who alice = person(&first, "alice");

    (void)state;
    must_open(&first, "");
    ask(&alice);
    run(&alice, (simba_op){.kind = SIMBA_OP_BREAK, .reason = "it hangs"});
    is_recording = true;
    set_aside();
    boot_from(0);
    assert_int_equal(sql("SELECT count(*) FROM simba_broken"), 1);
}

#define POWER_TEST(test) cmocka_unit_test_setup_teardown(test, start_empty, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        POWER_TEST(test_sqlite_power__no_token_comes_again),
        POWER_TEST(test_sqlite_power__disk_forgets),
        POWER_TEST(test_sqlite_power__flushes_are_few),
        POWER_TEST(test_sqlite_power__failed_flush_is_unknown),
        POWER_TEST(test_sqlite_power__audit_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
