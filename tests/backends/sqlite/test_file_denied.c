/* Where the SQLite store may not read or write, or the disk fails it: refused
 * by name, and never taken for an answer. */
#define _GNU_SOURCE
#include "driver.h"

#include <errno.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* --- permissions and space; as root, or not at all ----------------------- */

/* Runs the rest of the test in a child without privileges. */
static void as_nobody(void (*test)(void))
{
    pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (pid == 0) {
        if (setgid(65534) != 0 || setuid(65534) != 0) {
            _exit(77);
        }
        test();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void check_read_only_file(void)
{
    if (try_open(&first, "") != SIMBA_EDENIED ||
        strstr(why.message, database) == NULL) {
        fprintf(stderr, "%d: %s\n", why.code, why.message);
        _exit(1);
    }
}

SQLITE_TEST(test_sqlite_file_denied__read_only_file_is_denied)
{
    if (geteuid() != 0) {
        skip();
    }
    must_open(&first, "");
    handle_close(&first);
    assert_int_equal(chmod(directory, 0777), 0);
    assert_int_equal(chmod(database, 0444), 0);
    as_nobody(check_read_only_file);
}

SQLITE_TEST(test_sqlite_file_denied__unreadable_file_is_denied)
{
    if (geteuid() != 0) {
        skip();
    }
    must_open(&first, "");
    handle_close(&first);
    assert_int_equal(chmod(directory, 0777), 0);
    as_nobody(check_read_only_file);
}

SQLITE_TEST(test_sqlite_file_denied__read_only_directory_is_denied)
{
    if (geteuid() != 0) {
        skip();
    }
    assert_int_equal(chmod(directory, 0755), 0);
    as_nobody(check_read_only_file); /* cannot create it */
    must_open(&first, "");
    handle_close(&first);
    assert_int_equal(chmod(database, 0666), 0);
    as_nobody(check_read_only_file); /* cannot create what lies beside it */
}

/* A directory of somebody else's could make us look dead. */
SQLITE_TEST(test_sqlite_file_denied__directory_of_another_is_denied)
{
    char path[192];

    if (geteuid() != 0) {
        skip();
    }
    snprintf(path, sizeof path, "%s-simba.d", database);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_int_equal(chown(path, 12345, 12345), 0);
    expect_refusal(SIMBA_EDENIED, "-simba.d");
}

/* A file system of 64 pages; false when we may not mount one. */
static bool mount_small(const char *options)
{
    return geteuid() == 0 &&
           mount("none", directory, "tmpfs", MS_NOSUID, options) == 0;
}

SQLITE_TEST(test_sqlite_file_denied__full_disk_says_so)
{
    struct who alice = person(&first, "alice");
    char filler[128];
    int fd, rc = SIMBA_OK;

    if (!mount_small("size=256k")) {
        skip();
    }
    must_open(&first, "");
    ask(&alice);
    run(&alice, (simba_request){.kind = SIMBA_DOCTOR, .mutex = ""});
    assert_string_equal(told.findings[0].name, "file-system"); /* tmpfs */
    assert_int_equal(told.findings[0].gravity, SIMBA_FINDING_NOTE);
    assert_string_equal(told.findings[1].name, "room");
    assert_int_equal(told.findings[1].gravity, SIMBA_FINDING_SERIOUS);
    snprintf(filler, sizeof filler, "%s/filler", directory);
    fd = open(filler, O_WRONLY | O_CREAT, 0600);
    while (write(fd, directory, sizeof directory) > 0) {
    }
    close(fd);
    for (int i = 0; i < 500 && rc == SIMBA_OK; i++) {
        rc = try_run(&alice, (simba_request){.kind = SIMBA_RENEW});
    }
    assert_int_equal(rc, SIMBA_EUNAVAIL);
    assert_non_null(strstr(why.message, "disk full"));
    unlink(filler); /* and it goes on */
    renew(&alice);
    expect_mine(&alice);
    handle_close(&first);
    assert_int_equal(umount(directory), 0);
}

SQLITE_TEST(test_sqlite_file_denied__full_disk_at_the_beginning)
{
    char filler[128];
    int fd;

    if (!mount_small("size=64k")) {
        skip();
    }
    snprintf(filler, sizeof filler, "%s/filler", directory);
    fd = open(filler, O_WRONLY | O_CREAT, 0600);
    while (write(fd, directory, sizeof directory) > 0) {
    }
    close(fd);
    expect_refusal(SIMBA_EUNAVAIL, "disk full");
    umount2(directory, MNT_DETACH);
}

SQLITE_TEST(test_sqlite_file_denied__read_only_file_system_is_denied)
{
    if (!mount_small("size=1m")) {
        skip();
    }
    must_open(&first, "");
    handle_close(&first);
    assert_int_equal(
        mount("none", directory, "tmpfs", MS_REMOUNT | MS_RDONLY, ""), 0);
    assert_int_equal(try_open(&first, ""), SIMBA_EDENIED);
    assert_non_null(strstr(why.message, database));
    unlink(database);
    umount2(directory, MNT_DETACH);
}

SQLITE_TEST(test_sqlite_file_denied__untrusted_file_system_is_refused)
{
    if (geteuid() != 0 || mount("none", directory, "ramfs", 0, "") != 0) {
        skip();
    }
    expect_refusal(SIMBA_EMISCONFIG, "file system ramfs");
    must_open(&first, "?fs=trust");
    handle_close(&first);
    umount2(directory, MNT_DETACH);
}

/* Somebody writes for longer than we have: surely nothing was done. */
SQLITE_TEST(test_sqlite_file_denied__busy_database_is_given_up)
{
    struct who alice = person(&first, "alice");
    simba_request request = asking(&alice);
    int64_t from_ms = simba_loop_now_ms();
    sqlite3 *db = NULL;

    must_open(&first, "");
    assert_int_equal(sqlite3_open(database, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), 0);
    request.deadline_ms = simba_loop_now_ms() + 100;
    assert_int_equal(try_run(&alice, request), SIMBA_EUNAVAIL);
    assert_non_null(strstr(why.message, "busy"));
    assert_in_range(simba_loop_now_ms() - from_ms, 100, 1000);
    look(&alice); /* reading goes on */
    sqlite3_close(db);
    ask(&alice);
    expect_mine(&alice);
}

/* --- several users ------------------------------------------------------- */

static void expect(bool is_so, const char *what)
{
    if (!is_so) {
        fprintf(stderr, "not so: %s (%s)\n", what, why.message);
        _exit(1);
    }
}

/* Owns the mutex through one handle and waits through another, until it is
 * told to go. */
static void play_root(int ready, int go)
{
    struct who owner = person(&first, "root"), waiter = person(&second, "two");
    char byte = '!';

    expect(try_open(&first, "") == SIMBA_OK &&
               try_open(&second, "") == SIMBA_OK,
           "root can open it");
    expect(try_run(&owner, asking(&owner)) == SIMBA_OK && got.mine, "granted");
    expect(try_run(&waiter, asking(&waiter)) == SIMBA_OK && got.is_queued,
           "queued");
    expect(write(ready, &byte, 1) == 1 && read(go, &byte, 1) >= 0, "told");
    handle_close(&second);
    handle_close(&first);
    _exit(0);
}

/* Lives are looked at, others are notified. */
static void use_what_root_made(void)
{
    struct who nobody = person(&first, "nobody");
    char command[256];

    expect(try_open(&first, "") == SIMBA_OK, "the store opens");
    expect(try_run(&nobody, asking(&nobody)) == SIMBA_OK, "it answers");
    expect(!got.mine && strcmp(got.owner.id, "root") == 0, "root owns it");
    snprintf(command, sizeof command,
             "cd '%s-simba.d' && for f in *; do [ -w \"$f\" ] || exit 1; done",
             database);
    expect(system(command) == 0, "all files there can be written to");
    handle_close(&first);
}

SQLITE_TEST(test_sqlite_file_denied__database_of_all_is_shared)
{
    int ready[2], go[2], status;
    char byte;
    pid_t root;

    if (geteuid() != 0) {
        skip();
    }
    assert_int_equal(chmod(directory, 0777), 0);
    assert_int_equal(mknod(database, S_IFREG | 0600, 0), 0);
    assert_int_equal(chmod(database, 0666), 0);
    assert_int_equal(pipe(ready) | pipe(go), 0);
    root = fork();
    if (root == 0) {
        play_root(ready[1], go[0]);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    as_nobody(use_what_root_made);
    assert_int_equal(write(go[1], &byte, 1), 1);
    assert_int_equal(waitpid(root, &status, 0), root);
    assert_int_equal(status, 0);
    close(ready[0]);
    close(go[0]);
    close(go[1]);
}

/* --- other programs ------------------------------------------------------ */

/* One that begins and does not end, as sqlite3(1) can: not waited for as long
 * as those who get on. That the message names it is seen in tests/cli. */
SQLITE_TEST(test_sqlite_file_denied__kept_locked_says_so)
{
    struct who alice = person(&first, "alice");
    sqlite3 *other = NULL;

    must_open(&first, "");
    ask(&alice);
    assert_int_equal(sqlite3_open(database, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(try_run(&alice, (simba_request){.kind = SIMBA_RELEASE}),
                     SIMBA_EUNAVAIL);
    assert_non_null(strstr(why.message, "kept locked by another program"));
    assert_int_equal(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(other);
    release(&alice);
}

/* One that lets nobody even read, and was there first: that too is said by who
 * asks, not waited for by who opens. */
SQLITE_TEST(test_sqlite_file_denied__locked_before_it_was_opened)
{
    struct who alice = person(&first, "alice");
    sqlite3 *other = NULL;

    must_open(&second, "");
    handle_close(&second);
    assert_int_equal(sqlite3_open(database, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other,
                                  "PRAGMA locking_mode=EXCLUSIVE;"
                                  "BEGIN EXCLUSIVE",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    must_open(&first, "");
    assert_int_equal(try_run(&alice, asking(&alice)), SIMBA_EUNAVAIL);
    assert_non_null(strstr(why.message, "kept locked by another program"));
    sqlite3_close(other);
    ask(&alice);
    expect_mine(&alice);
    release(&alice);
}

/* --- failing disks ------------------------------------------------------- */

static _Atomic bool is_disk_broken;

/* Stands before the C library's, also for SQLite. The flush of what was written
 * fails in test_durability.c. */
__attribute__((visibility("default"))) ssize_t pwrite64(int fd,
                                                        const void *bytes,
                                                        size_t length,
                                                        off64_t at)
{
    if (is_disk_broken) {
        errno = EIO;
        return -1;
    }
    return syscall(SYS_pwrite64, fd, bytes, length, at);
}

/* S8: what was written in part may be there after all. */
SQLITE_TEST(test_sqlite_file_denied__failed_commit_is_of_unknown_outcome)
{
    struct who alice = person(&first, "alice");
    int rc;

    must_open(&first, "");
    ask(&alice);
    is_disk_broken = true;
    rc = try_run(&alice, (simba_request){.kind = SIMBA_RELEASE});
    is_disk_broken = false;
    assert_int_equal(rc, SIMBA_EUNKNOWN);
    assert_int_equal(why.code, SIMBA_EUNKNOWN);
    assert_non_null(strstr(why.message, database));
    release(&alice);
    look(&alice);
    assert_string_equal(got.owner.id, "");
}
