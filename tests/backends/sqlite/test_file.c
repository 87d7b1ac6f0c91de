/* The SQLite store's URL and file: what is accepted, what is made, and how
 * everything else is refused by name. */
#define _GNU_SOURCE
#include "driver.h"

#include <sys/mount.h>

static void write_file(const char *text)
{
    FILE *file = fopen(database, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void expect_file(const char *text)
{
    char found[256] = "";
    FILE *file = fopen(database, "r");

    assert_non_null(file);
    assert_non_null(fgets(found, sizeof found, file));
    fclose(file);
    assert_string_equal(found, text);
}

static mode_t mode_of(const char *ending)
{
    char path[192];
    struct stat about;

    snprintf(path, sizeof path, "%s%s", database, ending);
    assert_int_equal(stat(path, &about), 0);
    return about.st_mode & 07777;
}

/* --- the URL ------------------------------------------------------------- */

static void expect_bad_url(const char *rest, const char *words)
{
    int rc = handle_open(&first, &simba__sqlite_ops, rest, &why);

    assert_int_equal(rc, SIMBA_EINVAL);
    if (strstr(why.message, words) == NULL) {
        fail_msg("%s: %s", rest, why.message);
    }
}

SQLITE_TEST(test_sqlite_file__bad_urls_are_refused)
{
    expect_bad_url("", "no file");
    expect_bad_url("?fs=trust", "no file");
    expect_bad_url("//", "host");
    expect_bad_url("//host/x.db", "host");
    expect_bad_url("///tmp/", "directory");
    expect_bad_url("x%zz", "escape");
    expect_bad_url("x%4", "escape");
    expect_bad_url("x%00y", "escape");
    expect_bad_url("x?a%zz=1", "escape");
    expect_bad_url("x?colour=red", "\"colour\"");
    expect_bad_url("x?fs=nfs", "fs must be check or trust");
    expect_bad_url("x?fs", "fs has no value");
    expect_bad_url("x?synchronous=off&fs=trust", "synchronous");
    expect_bad_url("x?crash_handover=maybe", "crash_handover");
}

SQLITE_TEST(test_sqlite_file__urls_name_files)
{
    char rest[256];

    snprintf(database, sizeof database, "%s/a b%%.db", directory);
    snprintf(rest, sizeof rest,
             "//%s/a%%20b%%25.db?synchronous=normal&fs=trust"
             "&crash_handover=on",
             directory);
    assert_int_equal(handle_open(&first, &simba__sqlite_ops, rest, &why), 0);
    assert_int_equal(mode_of(""), 0600);
    snprintf(rest, sizeof rest, "//localhost%s/a%%20b%%25.db", directory);
    assert_int_equal(handle_open(&second, &simba__sqlite_ops, rest, &why), 0);
    assert_int_equal(count_files(""), 2);
}

SQLITE_TEST(test_sqlite_file__relative_path_outlives_a_change_of_place)
{
    struct who alice = person(&first, "alice");
    char here[256];

    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(directory), 0);
    assert_int_equal(handle_open(&first, &simba__sqlite_ops, "simba.db", &why),
                     0);
    assert_int_equal(chdir(here), 0);
    ask(&alice);
    expect_mine(&alice);
    unlink(database);
    ask(&alice);
    expect_mine(&alice);
    assert_int_equal(mode_of(""), 0600);
}

/* --- what is made -------------------------------------------------------- */

SQLITE_TEST(test_sqlite_file__files_are_for_us_alone)
{
    mode_t mask = umask(0);
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");

    must_open(&first, "");
    ask(&alice);
    ask(&bob);
    umask(mask);
    assert_int_equal(mode_of(""), 0600);
    assert_int_equal(mode_of("-wal"), 0600);
    assert_int_equal(mode_of("-simba.d"), 0700);
}

SQLITE_TEST(test_sqlite_file__missing_directories_are_made)
{
    char path[96];
    struct stat about;

    snprintf(path, sizeof path, "%s/x/y", directory);
    snprintf(database, sizeof database, "%s/x/y/z.db", directory);
    must_open(&first, "");
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0700);
}

SQLITE_TEST(test_sqlite_file__symlink_leads_to_the_same_store)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");
    char link[96];

    must_open(&first, "");
    ask(&alice);
    snprintf(link, sizeof link, "%s/link.db", directory);
    assert_int_equal(symlink(database, link), 0);
    assert_int_equal(handle_open(&second, &simba__sqlite_ops, link, &why), 0);
    ask(&bob);
    expect_queued(true);
    release(&alice);
    assert_true(handle_woken(&second, MUTEX, PATIENCE_MS));
}

/* It would have a log and a directory of its own, and owners of its own. */
SQLITE_TEST(test_sqlite_file__second_name_is_refused)
{
    char second_name[96];

    must_open(&first, "");
    snprintf(second_name, sizeof second_name, "%s/second.db", directory);
    assert_int_equal(link(database, second_name), 0);
    assert_int_equal(
        handle_open(&second, &simba__sqlite_ops, second_name, &why),
        SIMBA_EMISCONFIG);
    assert_non_null(strstr(why.message, "hard link"));
    assert_int_equal(unlink(second_name), 0);
    must_open(&second, "");
}

SQLITE_TEST(test_sqlite_file__closing_leaves_no_process_file)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");

    must_open(&first, "");
    must_open(&second, "");
    ask(&alice);
    ask(&bob);
    assert_int_equal(count_files(""), 3);
    leave(&bob);
    handle_close(&second);
    release(&alice);
    handle_close(&first);
    assert_int_equal(count_files(""), 0);
}

static ino_t life_of(const struct handle *handle)
{
    struct stat about;

    assert_int_equal(
        fstat(handle->backend->ops->life_fd(handle->backend), &about), 0);
    assert_int_equal(about.st_nlink, 1);
    return about.st_ino;
}

SQLITE_TEST(test_sqlite_file__life_is_left_to_the_next)
{
    ino_t left, kept;
    int copy;

    must_open(&first, "");
    left = life_of(&first);
    handle_close(&first);
    must_open(&second, "");
    must_open(&third, "");
    assert_int_equal(life_of(&second), left);
    assert_int_not_equal(life_of(&third), left);
    assert_int_equal(count_files(""), 2);
    /* What a child still has open stays its own. */
    kept = life_of(&third);
    copy = dup(third.backend->ops->life_fd(third.backend));
    handle_close(&third);
    must_open(&first, "");
    assert_int_not_equal(life_of(&first), kept);
    assert_int_not_equal(life_of(&first), left);
    close(copy);
    assert_int_equal(count_files(""), 2);
}

SQLITE_TEST(test_sqlite_file__journal_is_a_log_and_synchronous)
{
    struct who alice = person(&first, "alice");

    must_open(&first, "");
    ask(&alice);
    assert_int_equal(sql("SELECT count(*) FROM pragma_integrity_check"), 1);
    assert_int_equal(access(database, F_OK), 0);
    mode_of("-wal");
}

/* --- what is refused ----------------------------------------------------- */

SQLITE_TEST(test_sqlite_file__text_is_no_database)
{
    static const char text[] = "This is a letter, not a database. It is long "
                               "enough to be taken for one, nearly.....";
    write_file(text);
    expect_refusal(SIMBA_EMISCONFIG, "is not an SQLite database");
    expect_file(text);
}

SQLITE_TEST(test_sqlite_file__other_databases_are_refused)
{
    sql("CREATE TABLE letters (text)");
    expect_refusal(SIMBA_EMISCONFIG, "of another program");
    assert_int_equal(sql("SELECT count(*) FROM sqlite_schema"), 1);
    sql("DROP TABLE letters; PRAGMA application_id = 77");
    expect_refusal(SIMBA_EMISCONFIG, "of another program");
}

/* Files of one version have reserved columns or have them not. */
SQLITE_TEST(test_sqlite_file__without_reserved_columns_is_served)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");

    must_open(&first, "");
    handle_close(&first);
    sql("ALTER TABLE simba_tenure DROP COLUMN asked;"
        "ALTER TABLE simba_line DROP COLUMN slots;"
        "ALTER TABLE simba_line DROP COLUMN rank");
    must_open(&first, "");
    must_open(&second, "");
    ask(&alice);
    assert_true(got.mine);
    ask(&bob);
    assert_true(got.is_queued);
    release(&alice);
    ask(&bob);
    assert_true(got.mine);
    release(&bob);
    assert_int_equal(sql("PRAGMA user_version"), 3);
}

SQLITE_TEST(test_sqlite_file__newer_schema_is_refused)
{
    must_open(&first, "");
    handle_close(&first);
    sql("PRAGMA user_version = 99");
    expect_refusal(SIMBA_EMISCONFIG, "made by a newer simba");
}

static void scribble(off_t from, size_t length)
{
    int fd = open(database, O_WRONLY);

    assert_true(fd >= 0);
    for (size_t i = 0; i < length; i++) {
        assert_int_equal(pwrite(fd, "\xa5", 1, from + (off_t)i), 1);
    }
    close(fd);
}

SQLITE_TEST(test_sqlite_file__corrupt_database_is_named)
{
    must_open(&first, "");
    handle_close(&first);
    sql("PRAGMA wal_checkpoint(TRUNCATE)");
    scribble(100, 900); /* the schema */
    expect_refusal(SIMBA_EMISCONFIG, "corrupt");
}

SQLITE_TEST(test_sqlite_file__corrupt_table_fails_the_request)
{
    struct who alice = person(&first, "alice");

    must_open(&first, "");
    ask(&alice);
    release(&alice);
    handle_close(&first);
    sql("PRAGMA wal_checkpoint(TRUNCATE)");
    scribble(1024, 2048); /* the page of simba_mutex */
    must_open(&first, "");
    assert_int_equal(try_run(&alice, asking(&alice)), SIMBA_EMISCONFIG);
    assert_non_null(strstr(why.message, "corrupt"));
    assert_non_null(strstr(why.message, database));
}

SQLITE_TEST(test_sqlite_file__directory_is_no_file)
{
    assert_int_equal(mkdir(database, 0700), 0);
    expect_refusal(SIMBA_EMISCONFIG, "is not a file");
}

SQLITE_TEST(test_sqlite_file__dangling_link_is_refused)
{
    assert_int_equal(symlink("/nowhere/at/all", database), 0);
    expect_refusal(SIMBA_EMISCONFIG, "cannot find it");
}

SQLITE_TEST(test_sqlite_file__file_in_the_way_of_a_directory)
{
    write_file("x");
    snprintf(database + strlen(database), 8, "/y.db");
    expect_refusal(SIMBA_EMISCONFIG, "Not a directory");
}

SQLITE_TEST(test_sqlite_file__pseudo_file_systems_are_refused)
{
    snprintf(database, sizeof database, "/proc/%d/comm", (int)getpid());
    expect_refusal(SIMBA_EMISCONFIG, "file system proc");
    assert_non_null(strstr(why.message, "?fs=trust"));
}

SQLITE_TEST(test_sqlite_file__long_paths_are_cut_in_messages)
{
    char rest[600];

    memset(rest, 'a', sizeof rest);
    memcpy(rest, "/proc/\n", 7);
    memcpy(rest + sizeof rest - 5, "/end", 5);
    assert_int_equal(handle_open(&first, &simba__sqlite_ops, rest, &why),
                     SIMBA_EMISCONFIG);
    assert_non_null(strstr(why.message, "sqlite ...a"));
    assert_non_null(strstr(why.message, "/end: "));
    rest[40] = '\0';
    assert_true(handle_open(&first, &simba__sqlite_ops, rest, &why) < 0);
    assert_null(strchr(why.message, '\n'));
}

/* A link may lead to a database, but makes none of an empty file. */
SQLITE_TEST(test_sqlite_file__empty_file_behind_a_link_stays_empty)
{
    char real[128];
    struct stat about;

    snprintf(real, sizeof real, "%s/real", directory);
    assert_int_equal(mknod(real, S_IFREG | 0600, 0), 0);
    assert_int_equal(symlink(real, database), 0);
    assert_int_equal(try_open(&first, ""), SIMBA_EMISCONFIG);
    assert_non_null(strstr(why.message, "symbolic link"));
    assert_int_equal(stat(real, &about), 0);
    assert_int_equal(about.st_size, 0);
    assert_int_equal(unlink(database), 0);
    must_open(&first, ""); /* a real one */
    handle_close(&first);
    assert_int_equal(rename(database, real), 0);
    assert_int_equal(symlink(real, database), 0);
    must_open(&first, "");
}

/* --- what somebody else has put into it ---------------------------------- */

/* Without an end: who evaluates it never comes back. */
#define ENDLESS                                                                \
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "         \
    "SELECT 'm' AS mutex, x AS acquired_at, x AS ttl_at, x AS transition_at, " \
    "'a' AS owner_id, x AS version, x AS fencing_token FROM c"

SQLITE_TEST(test_sqlite_file__view_in_place_of_a_table_is_not_run)
{
    struct who alice = person(&first, "alice");

    must_open(&first, "");
    sql("DROP TABLE simba_mutex");
    sql("CREATE VIEW simba_mutex AS " ENDLESS);
    assert_int_equal(try_run(&alice, (simba_request){.kind = SIMBA_LIST}),
                     SIMBA_EMISCONFIG);
}

SQLITE_TEST(test_sqlite_file__triggers_are_not_run)
{
    struct who alice = person(&first, "alice");

    must_open(&first, "");
    sql("CREATE TRIGGER t BEFORE INSERT ON simba_tenure BEGIN " ENDLESS
        "; END");
    ask(&alice);
    expect_mine(&alice);
}

SQLITE_TEST(test_sqlite_file__value_of_two_megabytes_is_refused)
{
    struct who alice = person(&first, "alice");

    must_open(&first, "");
    sql("INSERT INTO simba_mutex VALUES ('m', 1, 2, 9e18, "
        "CAST(zeroblob(2000000) AS TEXT), 1, 1)");
    assert_int_equal(try_run(&alice, (simba_request){.kind = SIMBA_LIST}),
                     SIMBA_EMISCONFIG);
}
