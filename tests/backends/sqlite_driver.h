/* A database in a directory of its own, store handles on it, and people who
 * contend through them. */
#ifndef TESTS_BACKENDS_SQLITE_DRIVER_H
#define TESTS_BACKENDS_SQLITE_DRIVER_H

#include "backends/sqlite/sqlite.h"
#include "double.h"

#include <sqlite3.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define MUTEX "m/1 {a}:'b'%\""

enum { TTL = 10000, LEASE = 16000, PLACE_LIFE = 34000, RESERVATION = 300 };

/* A contender and the handle it speaks through. */
struct who {
    struct handle *at;
    const char *id;
    simba_attempt attempt;
    uint64_t place;
    uint64_t token;
    int64_t ttl_ms, transition_ms;
};

static char directory[64];
static char database[96];
static struct handle first, second, third;
static simba_op_reply got;
static simba_error why;

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

/* --- people -------------------------------------------------------------- */

static inline struct who person(struct handle *at, const char *id)
{
    static uint64_t count;
    struct who who = {at, id, {0, 0}, 0, 0, TTL, LEASE - TTL};

    who.attempt.high = (uint64_t)getpid() << 32 | 0x8000000000000000U;
    who.attempt.low = ++count;
    return who;
}

static inline int try_run(struct who *who, simba_op op)
{
    int status;

    op.mutex = op.mutex == NULL ? MUTEX : op.mutex;
    op.id = who->id;
    op.attempt = who->attempt;
    op.token = who->token;
    op.ttl_ms = who->ttl_ms;
    op.transition_ms = who->transition_ms;
    if (op.deadline_ms == 0) {
        op.deadline_ms = simba_loop_now_ms() + 5000;
    }
    status = handle_run(who->at, &op, &why);
    got = op.reply;
    return status;
}

static inline void run(struct who *who, simba_op op)
{
    if (try_run(who, op) != SIMBA_OK) {
        fail_msg("%s", why.message);
    }
}

static inline simba_op asking(const struct who *who)
{
    simba_op op = {.kind = SIMBA_OP_ACQUIRE,
                   .place = who->place,
                   .waiter_ms = PLACE_LIFE,
                   .join = true};

    return op;
}

/* As the contention machine asks: with the first place it was given. */
static inline void ask(struct who *who)
{
    run(who, asking(who));
    if (who->place == 0) {
        who->place = got.place;
    }
    if (got.mine) {
        who->token = got.token;
    }
}

static inline void renew(struct who *who)
{
    run(who, (simba_op){.kind = SIMBA_OP_RENEW});
}

static inline void release(struct who *who)
{
    run(who, (simba_op){.kind = SIMBA_OP_RELEASE});
}

static inline void leave(struct who *who)
{
    run(who, (simba_op){.kind = SIMBA_OP_LEAVE});
}

static inline void look(struct who *who)
{
    run(who, (simba_op){.kind = SIMBA_OP_READ});
}

static inline void expect_mine(const struct who *who)
{
    assert_true(got.mine);
    assert_true(got.token != 0);
    assert_string_equal(got.owner.id, who->id);
    assert_int_equal(got.owner.token, got.token);
    assert_int_equal(got.owner.ttl_at_ms, got.store_ms + who->ttl_ms);
    assert_int_equal(got.owner.transition_at_ms,
                     got.store_ms + who->ttl_ms + who->transition_ms);
}

static inline void expect_in_line(bool is_head)
{
    assert_false(got.mine);
    assert_true(got.in_line);
    assert_int_equal(got.is_head, is_head);
    assert_true(got.place != 0);
}

#define SQLITE_TEST(test)                                                      \
    cmocka_unit_test_setup_teardown(test, make_directory, remove_directory)

#endif
