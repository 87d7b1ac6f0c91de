/* A database in a directory of its own, store handles on it, and people who
 * contend through them. */
#ifndef TESTS_BACKENDS_SQLITE_DRIVER_H
#define TESTS_BACKENDS_SQLITE_DRIVER_H

#include "backends/sqlite/sqlite.h"
#include "fixtures/bare_runtime.h"

#include <sqlite3.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define MUTEX "m/1 {a}:'b'%\""

#include "fixtures/contenders_lease.h"

static char directory[64];
static char database[96];
static struct handle first, second, third;

/* --- the place ----------------------------------------------------------- */

static inline int make_directory(void **state)
{
    (void)state;
    snprintf(directory, sizeof directory, "/tmp/simba-sqlite-XXXXXX");
    assert_non_null(mkdtemp(directory));
    snprintf(database, sizeof database, "%s/simba.db", directory);
    return 0;
}

static inline int remove_directory(void **state)
{
    char command[128];

    (void)state;
    handle_close(&first);
    handle_close(&second);
    handle_close(&third);
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command);
}

/* Opens the database, with these parameters behind the path. */
static inline int try_open(struct handle *handle, const char *parameters)
{
    char rest[192];

    snprintf(rest, sizeof rest, "%s%s", database, parameters);
    memset(&why, 0, sizeof why);
    return handle_open(handle, &simba__sqlite_ops, rest, &why);
}

static inline void must_open(struct handle *handle, const char *parameters)
{
    if (try_open(handle, parameters) != SIMBA_OK) {
        fail_msg("%s", why.message);
    }
}

/* The message is one line that names the database and says this. */
static inline void expect_refusal(int code, const char *words)
{
    int rc = try_open(&first, "");

    assert_int_equal(rc, code);
    assert_int_equal(why.code, code);
    if (strstr(why.message, words) == NULL ||
        strstr(why.message, database) == NULL ||
        strchr(why.message, '\n') != NULL) {
        fail_msg("%s", why.message);
    }
}

/* Runs SQL on the database; returns the first column of the first row. */
static inline int64_t sql(const char *text)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    const char *rest = text;
    int64_t value = -1;

    assert_int_equal(sqlite3_open(database, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    while (*rest != '\0') {
        if (sqlite3_prepare_v2(db, rest, -1, &statement, &rest) != SQLITE_OK) {
            fail_msg("%s: %s", sqlite3_errmsg(db), text);
        }
        if (sqlite3_step(statement) == SQLITE_ROW) {
            value = sqlite3_column_int64(statement, 0);
        }
        assert_int_equal(sqlite3_finalize(statement), SQLITE_OK);
    }
    sqlite3_close(db);
    return value;
}

/* Files in the directory beside the database whose names end so. */
static inline int count_files(const char *ending)
{
    char command[192];
    FILE *pipe;
    int count = -1;

    snprintf(command, sizeof command, "ls '%s-simba.d' | grep -c '%s$'",
             database, ending);
    pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_int_equal(fscanf(pipe, "%d", &count), 1);
    pclose(pipe);
    return count;
}

/* The machine was booted anew: whoever owned or waited is dead, and left behind
 * the file that says so. */
#define DEAD "00000000000000000000000000000000"

static inline void reboot(void)
{
    char path[192];
    int fd;

    assert_int_equal(strlen(DEAD), SIMBA__SQLITE_PROCESS);
    sql("UPDATE simba_tenure SET boot = 'x', process = '" DEAD "';"
        "UPDATE simba_line SET boot = 'x', process = '" DEAD "';");
    snprintf(path, sizeof path, "%s-simba.d/" DEAD, database);
    fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
}

/* Asks for one of several slots. */
static inline void ask_slot(struct who *who, uint32_t slots)
{
    simba_request request = asking(who);

    request.slots = slots;
    run(who, request);
    if (got.mine) {
        who->token = got.token;
    }
}

#define SQLITE_TEST(test) TEST_AROUND(test, make_directory, remove_directory)

#endif
