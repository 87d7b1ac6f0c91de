/* Resources that refuse stale tokens; above all that of an owner which was
 * paused, succeeded, and wakes up believing. */
#include "fixtures/directory.h"
#include "fixtures/paused_owner.h"

#include <simba/admin.h>

#include <fcntl.h>
#include <sqlite3.h>
#include <string.h>

static simba_guard_file *open_guard(const char *name)
{
    simba_guard_file *guard;
    simba_error error;

    if (simba_guard_file_open(in_directory(name), &guard, &error) != 0) {
        fail_msg("%s", error.message);
    }
    return guard;
}

static int enter_once(simba_guard_file *guard, uint64_t token)
{
    int rc = simba_guard_file_enter(guard, token, 0, NULL);

    simba_guard_file_leave(guard);
    return rc;
}

/* --- the file ------------------------------------------------------------ */

TEST(test_guard_file__lets_tokens_only_grow)
{
    simba_guard_file *guard = open_guard("grow");
    simba_error error;

    assert_int_equal(enter_once(guard, 5), SIMBA_OK);
    assert_int_equal(enter_once(guard, 5), SIMBA_OK);
    assert_int_equal(enter_once(guard, 4), SIMBA_ELOST);
    assert_int_equal(enter_once(guard, UINT64_C(1794802914776999)), SIMBA_OK);
    assert_int_equal(enter_once(guard, 5), SIMBA_ELOST);
    assert_int_equal(enter_once(guard, UINT64_MAX), SIMBA_OK);
    simba_guard_file_close(guard);
    guard = open_guard("grow"); /* it is kept */
    assert_int_equal(simba_guard_file_enter(guard, 6, -1, &error), SIMBA_ELOST);
    assert_non_null(strstr(error.message, "stale"));
    assert_int_equal(enter_once(guard, UINT64_MAX), SIMBA_OK);
    assert_int_equal(enter_once(guard, 0), SIMBA_EMISUSE);
    simba_guard_file_close(guard);
    simba_guard_file_close(NULL);
}

TEST(test_guard_file__lets_one_in_at_a_time)
{
    simba_guard_file *a = open_guard("one");
    simba_guard_file *b = open_guard("one");
    int64_t start;

    assert_int_equal(simba_guard_file_enter(a, 1, -1, NULL), SIMBA_OK);
    assert_int_equal(simba_guard_file_enter(a, 1, -1, NULL), SIMBA_EMISUSE);
    assert_int_equal(simba_guard_file_enter(b, 2, 0, NULL), SIMBA_EBUSY);
    start = now_ms();
    assert_int_equal(simba_guard_file_enter(b, 2, 50, NULL), SIMBA_ETIMEDOUT);
    assert_true(now_ms() - start >= 49);
    simba_guard_file_leave(a);
    assert_int_equal(simba_guard_file_enter(b, 2, 0, NULL), SIMBA_OK);
    simba_guard_file_close(b); /* leaves */
    assert_int_equal(simba_guard_file_enter(a, 1, 0, NULL), SIMBA_ELOST);
    simba_guard_file_close(a);
}

static void overwrite(const char *name, off_t at, const char *text)
{
    int fd = open(in_directory(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, text, strlen(text), at), strlen(text));
    close(fd);
}

/* As when the power fails in the midst of writing the newest mark. */
TEST(test_guard_file__survives_a_torn_write)
{
    simba_guard_file *guard = open_guard("torn");

    assert_int_equal(enter_once(guard, 10), SIMBA_OK); /* in the first slot */
    assert_int_equal(enter_once(guard, 20), SIMBA_OK); /* in the second */
    overwrite("torn", 4096 + 20, "9");
    assert_int_equal(enter_once(guard, 9), SIMBA_ELOST);
    assert_int_equal(enter_once(guard, 15), SIMBA_OK); /* 20 never came */
    assert_int_equal(enter_once(guard, 14), SIMBA_ELOST);
    simba_guard_file_close(guard);
}

TEST(test_guard_file__refuses_what_is_none)
{
    simba_guard_file *guard;

    overwrite("none", 0, "important words of somebody else");
    assert_int_equal(simba_guard_file_open(in_directory("none"), &guard, NULL),
                     SIMBA_EMISCONFIG);
    assert_null(guard);
    assert_int_equal(
        simba_guard_file_open(in_directory("no/where"), &guard, NULL),
        SIMBA_EDENIED);
}

TEST(test_guard_file__a_dead_process_has_left)
{
    simba_guard_file *guard = open_guard("dead");
    pid_t child = fork();

    if (child == 0) {
        simba_guard_file *own;

        if (simba_guard_file_open(in_directory("dead"), &own, NULL) == 0 &&
            simba_guard_file_enter(own, 7, -1, NULL) == SIMBA_OK) {
            raise(SIGKILL);
        }
        _exit(1);
    }
    waitpid(child, NULL, 0);
    assert_int_equal(simba_guard_file_enter(guard, 6, 0, NULL), SIMBA_ELOST);
    assert_int_equal(simba_guard_file_enter(guard, 8, 0, NULL), SIMBA_OK);
    simba_guard_file_close(guard);
}

TEST(test_guard__judges_marks)
{
    char text[SIMBA_GUARD_TEXT];

    simba_guard_format(42, text);
    assert_string_equal(text, "00000000000000000042");
    assert_int_equal(simba_guard_judge(text, strlen(text), 42, NULL), 0);
    assert_int_equal(simba_guard_judge(text, strlen(text), 41, NULL),
                     SIMBA_ELOST);
    assert_int_equal(simba_guard_judge("", 0, 1, NULL), SIMBA_OK);
    assert_int_equal(simba_guard_judge("7", 1, 8, NULL), SIMBA_OK);
    assert_int_equal(simba_guard_judge("18446744073709551615", 20, 8, NULL),
                     SIMBA_ELOST);
    assert_int_equal(simba_guard_judge("18446744073709551616", 20, 8, NULL),
                     SIMBA_EMISCONFIG);
    assert_int_equal(simba_guard_judge("4x", 2, 8, NULL), SIMBA_EMISCONFIG);
    assert_null(simba_guard_sql((enum simba_guard_dialect)3, SIMBA_GUARD_ASK));
    assert_null(
        simba_guard_sql(SIMBA_GUARD_MYSQL, (enum simba_guard_statement)3));
}

/* --- an owner that was paused -------------------------------------------- */

static int write_guarded_file(uint64_t token, const char *text)
{
    simba_guard_file *guard;
    int rc = simba_guard_file_open(in_directory("guard"), &guard, NULL);

    if (rc == SIMBA_OK) {
        rc = simba_guard_file_enter(guard, token, -1, NULL);
        if (rc == SIMBA_OK) {
            overwrite("file", 0, text);
        }
        simba_guard_file_close(guard);
    }
    return rc;
}

static void read_file(char *text, size_t room)
{
    int fd = open(in_directory("file"), O_RDONLY | O_CLOEXEC);
    ssize_t size = read(fd, text, room - 1);

    close(fd);
    text[size > 0 ? size : 0] = '\0';
}

static sqlite3 *open_database(void)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(in_directory("data.db"), &db), SQLITE_OK);
    sqlite3_busy_timeout(db, PATIENCE_MS);
    return db;
}

static void run(sqlite3 *db, const char *text)
{
    if (sqlite3_exec(db, text, NULL, NULL, NULL) != SQLITE_OK) {
        fail_msg("%s: %s", text, sqlite3_errmsg(db));
    }
}

static sqlite3_stmt *prepare(sqlite3 *db, enum simba_guard_statement statement)
{
    const char *text = simba_guard_sql(SIMBA_GUARD_SQLITE, statement);
    sqlite3_stmt *prepared;

    if (sqlite3_prepare_v2(db, text, -1, &prepared, NULL) != SQLITE_OK) {
        fail_msg("%s: %s", text, sqlite3_errmsg(db));
    }
    return prepared;
}

/* The two statements of the guard, inside a transaction. */
static bool passes(sqlite3 *db, uint64_t token)
{
    sqlite3_stmt *raise_mark = prepare(db, SIMBA_GUARD_RAISE);
    sqlite3_stmt *ask = prepare(db, SIMBA_GUARD_ASK);
    bool answer;

    sqlite3_bind_text(raise_mark, 1, "data", -1, SQLITE_STATIC);
    sqlite3_bind_int64(raise_mark, 2, (int64_t)token);
    assert_int_equal(sqlite3_step(raise_mark), SQLITE_DONE);
    sqlite3_bind_int64(ask, 1, (int64_t)token);
    sqlite3_bind_text(ask, 2, "data", -1, SQLITE_STATIC);
    assert_int_equal(sqlite3_step(ask), SQLITE_ROW);
    answer = sqlite3_column_int(ask, 0) == 1;
    sqlite3_finalize(raise_mark);
    sqlite3_finalize(ask);
    return answer;
}

static int write_guarded_table(uint64_t token, const char *text)
{
    sqlite3 *db = open_database();
    char update[128];
    int rc = SIMBA_OK;

    snprintf(update, sizeof update, "REPLACE INTO data VALUES (1, '%s')", text);
    run(db, "BEGIN IMMEDIATE");
    run(db, simba_guard_sql(SIMBA_GUARD_SQLITE, SIMBA_GUARD_CREATE));
    run(db, "CREATE TABLE IF NOT EXISTS data (id INTEGER PRIMARY KEY, t)");
    if (passes(db, token)) {
        run(db, update);
        run(db, "COMMIT");
    } else {
        run(db, "ROLLBACK");
        rc = SIMBA_ELOST;
    }
    sqlite3_close(db);
    return rc;
}

static void read_table(char *text, size_t room)
{
    sqlite3 *db = open_database();
    sqlite3_stmt *select;

    assert_int_equal(
        sqlite3_prepare_v2(db, "SELECT t FROM data", -1, &select, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_step(select), SQLITE_ROW);
    snprintf(text, room, "%s", (const char *)sqlite3_column_text(select, 0));
    sqlite3_finalize(select);
    sqlite3_close(db);
}

static void pause_on_sqlite(writer write_once)
{
    char url[160];

    snprintf(url, sizeof url, "sqlite:%s", in_directory("locks.db"));
    pause_an_owner(url, 600, write_once);
}

TEST(test_guard_file__refuses_a_paused_owner)
{
    char text[32];

    pause_on_sqlite(write_guarded_file);
    read_file(text, sizeof text);
    assert_string_equal(text, "new again");
}

TEST(test_guard_sql__refuses_a_paused_owner)
{
    char text[32];

    pause_on_sqlite(write_guarded_table);
    read_table(text, sizeof text);
    assert_string_equal(text, "new again");
}

int main(void)
{
    return run_unit_tests(make_directory, remove_directory);
}

/* --- several owners ------------------------------------------------------ */

static simba_locker *own(simba_store *store, uint32_t slots, uint64_t *token)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker;

    options.mutex = "shared";
    options.slots = slots;
    assert_int_equal(simba_locker_open(store, &options, &locker, NULL),
                     SIMBA_OK);
    assert_int_equal(simba_locker_acquire(locker, 0, token, NULL), SIMBA_OK);
    return locker;
}

/* It is succeeded, and does not know it yet. */
static void succeed(simba_store *store, uint64_t token)
{
    simba_break order = SIMBA_BREAK_INIT;

    order.mutex = "shared";
    order.token = token;
    order.now = true;
    assert_int_equal(simba_admin_break(store, &order, NULL, NULL), SIMBA_OK);
}

TEST(test_guard_file__of_each_slot_refuses_its_stale_owner)
{
    simba_guard_file *guards[] = {open_guard("slot.0"), open_guard("slot.1")};
    simba_store *store = NULL;
    simba_locker *lockers[3];
    uint64_t tokens[3];

    assert_int_equal(simba_store_open("memory:guard", NULL, &store, NULL),
                     SIMBA_OK);
    for (uint32_t i = 0; i < 3; i++) {
        lockers[i] = own(store, 2, &tokens[i]);
        assert_int_equal(simba_locker_slot(lockers[i]), i % 2);
        assert_int_equal(enter_once(guards[i % 2], tokens[i]), SIMBA_OK);
        if (i == 1) {
            succeed(store, tokens[0]);
        }
    }
    assert_int_equal(enter_once(guards[0], tokens[0]), SIMBA_ELOST);
    assert_int_equal(enter_once(guards[1], tokens[1]), SIMBA_OK); /* goes on */
    for (int i = 0; i < 3; i++) {
        simba_locker_close(lockers[i]);
    }
    simba_store_close(store);
    simba_guard_file_close(guards[0]);
    simba_guard_file_close(guards[1]);
}

/* Who shares locks the mark, and leaves it as it is. */
static bool passes_shared(sqlite3 *db, uint64_t token)
{
    sqlite3_stmt *raise = NULL, *ask = NULL;
    bool answer;

    assert_int_equal(sqlite3_prepare_v2(
                         db,
                         simba_guard_sql(SIMBA_GUARD_SQLITE, SIMBA_GUARD_RAISE),
                         -1, &raise, NULL),
                     SQLITE_OK);
    sqlite3_bind_text(raise, 1, "data", -1, SQLITE_STATIC);
    sqlite3_bind_int64(raise, 2, 0);
    assert_int_equal(sqlite3_step(raise), SQLITE_DONE);
    sqlite3_finalize(raise);
    assert_int_equal(sqlite3_prepare_v2(db,
                                        "SELECT token <= ?1 FROM simba_guard"
                                        " WHERE resource = 'data'",
                                        -1, &ask, NULL),
                     SQLITE_OK);
    sqlite3_bind_int64(ask, 1, (int64_t)token);
    assert_int_equal(sqlite3_step(ask), SQLITE_ROW);
    answer = sqlite3_column_int(ask, 0) == 1;
    sqlite3_finalize(ask);
    return answer;
}

TEST(test_guard_sql__only_exclusive_tokens_raise_the_mark)
{
    sqlite3 *db = open_database();
    simba_store *store = NULL;
    simba_locker *lockers[4];
    uint64_t tokens[4];

    run(db, "DROP TABLE IF EXISTS simba_guard");
    run(db, simba_guard_sql(SIMBA_GUARD_SQLITE, SIMBA_GUARD_CREATE));
    assert_int_equal(simba_store_open("memory:guard", NULL, &store, NULL),
                     SIMBA_OK);
    lockers[0] = own(store, SIMBA_SHARED, &tokens[0]);
    assert_true(passes_shared(db, tokens[0]));
    succeed(store, tokens[0]);
    lockers[1] = own(store, 0, &tokens[1]);
    assert_true(passes(db, tokens[1]));
    assert_false(passes_shared(db, tokens[0])); /* it came too late */
    succeed(store, tokens[1]);
    lockers[2] = own(store, SIMBA_SHARED, &tokens[2]);
    lockers[3] = own(store, SIMBA_SHARED, &tokens[3]);
    assert_true(passes_shared(db, tokens[3]));
    assert_true(passes_shared(db, tokens[2])); /* beside the newer one */
    for (int i = 0; i < 4; i++) {
        simba_locker_close(lockers[i]);
    }
    simba_store_close(store);
    sqlite3_close(db);
}
