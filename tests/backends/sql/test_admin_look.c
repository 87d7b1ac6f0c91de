/* Looking at a database: it makes nothing there, needs no right but to read,
 * and sees what others have made. */
#define _GNU_SOURCE
#include "driver.h"
#include "reported.h"

static const simba_request list = {.kind = SIMBA_LIST, .mutex = ""};
static const simba_request examine = {.kind = SIMBA_DOCTOR, .mutex = ""};

static void drop_tables(void)
{
    static const char *const names[] = {"mutex",  "tenure", "line", "tombstone",
                                        "broken", "slot",   "told"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        server_sql("DROP TABLE IF EXISTS simba_%s", names[i]);
    }
}

static int64_t count_tables(void)
{
    return server_sql("SELECT count(*) FROM information_schema.tables "
                      "WHERE table_name LIKE 'simba!_%%' ESCAPE '!'");
}

/* As another implementation does; the older have no tokens. */
static void make_table_of_others(const char *more_columns)
{
    drop_tables();
    server_sql("CREATE TABLE simba_mutex (mutex varchar(66) NOT NULL PRIMARY "
               "KEY, acquired_at bigint NOT NULL, ttl_at bigint NOT NULL, "
               "transition_at bigint NOT NULL, owner_id varchar(128) NOT NULL, "
               "version int NOT NULL%s)",
               more_columns);
}

static void let_others_own(const char *name)
{
    int64_t until_ms = (int64_t)time(NULL) * 1000 + 600000;

    server_sql("INSERT INTO simba_mutex (mutex, acquired_at, ttl_at, "
               "transition_at, owner_id, version) VALUES "
               "('%s', 1, %lld, %lld, 'jvm', 7), ('free', 0, 0, 0, '', 3)",
               name, (long long)until_ms, (long long)until_ms);
}

SQL_TEST(test_sql_admin_look__leaves_an_empty_database_empty)
{
    struct who a = person(&first, "a");

    drop_tables();
    memset(&noted, 0, sizeof noted);
    run(&a, list);
    assert_int_equal(noted.mutexes, 0);
    run(&a, (simba_request){.kind = SIMBA_READ, .want_queue = true});
    assert_string_equal(got.owner.id, "");
    run(&a, (simba_request){.kind = SIMBA_BREAK, .token = 1, .now = true});
    assert_false(got.mine);
    run(&a, examine);
    assert_int_equal(finding("tables")->gravity, SIMBA_FINDING_NOTE);
    assert_non_null(strstr(finding("tables")->text, "simba init"));
    assert_int_equal(count_tables(), 0);
    ask(&a);
    expect_mine(&a);
    assert_int_equal(count_tables(), 7);
    memset(&noted, 0, sizeof noted);
    run(&a, examine);
    assert_int_equal(finding("tables")->gravity, SIMBA_FINDING_OK);
    assert_int_equal(finding("rights")->gravity, SIMBA_FINDING_OK);
}

/* What it is to others, of whom our tables know nothing. */
static void expect_owner(const char *id)
{
    struct who a = person(&first, "a");

    memset(&noted, 0, sizeof noted);
    run(&a, list);
    assert_int_equal(noted.mutexes, 1);
    assert_string_equal(noted.mutex[0].name, "theirs");
    assert_string_equal(noted.mutex[0].owner.id, id);
    run(&a, (simba_request){.kind = SIMBA_READ, .mutex = "theirs"});
    assert_string_equal(got.owner.id, id);
    assert_int_equal(got.owner.token, noted.mutex[0].owner.token);
    run(&a, (simba_request){.kind = SIMBA_READ, .mutex = "free"});
    assert_string_equal(got.owner.id, "");
}

SQL_TEST(test_sql_admin_look__sees_owners_in_a_table_of_others)
{
    struct who a = person(&first, "a");

    for (int i = 0; i < 2; i++) {
        make_table_of_others(
            i == 0 ? "" : ", fencing_token bigint NOT NULL DEFAULT 5");
        let_others_own("theirs");
        expect_owner("jvm");
        assert_int_equal(got.token, 0);
        memset(&noted, 0, sizeof noted);
        run(&a, examine);
        assert_true(finding("tables")->gravity >= SIMBA_FINDING_NOTE);
        assert_int_equal(count_tables(), 1);
    }
    drop_tables();
}

/* It has a row in simba_mutex only: none of ours ever wanted it. */
SQL_TEST(test_sql_admin_look__sees_owners_none_of_ours_ever_met)
{
    struct who a = person(&first, "a");

    drop_tables();
    run(&a, (simba_request){.kind = SIMBA_INIT, .mutex = ""});
    let_others_own("theirs");
    expect_owner("jvm");
    assert_int_equal(server_sql("SELECT count(*) FROM simba_tenure"), 0);
}

/* To break there is something, so what is needed for it is made. */
SQL_TEST(test_sql_admin_look__breaks_what_others_own)
{
    struct who a = person(&first, "a");
    simba_request request = {
        .kind = SIMBA_BREAK, .mutex = "theirs", .now = true};

    for (int i = 0; i < 2; i++) {
        if (i == 0) {
            make_table_of_others("");
        } else {
            drop_tables();
            run(&a, (simba_request){.kind = SIMBA_INIT, .mutex = ""});
        }
        let_others_own("theirs");
        run(&a, (simba_request){.kind = SIMBA_READ, .mutex = "theirs"});
        request.token = got.owner.token;
        run(&a, request);
        assert_true(got.mine);
        assert_int_equal(server_sql("SELECT count(*) FROM simba_broken"), 1);
        run(&a, (simba_request){.kind = SIMBA_READ, .mutex = "theirs"});
        assert_string_equal(got.owner.id, "");
    }
    drop_tables();
}

static void look_as_reader(struct handle *handle)
{
    struct who reader = person(handle, "reader");

    memset(&noted, 0, sizeof noted);
    run(&reader, list);
    assert_int_equal(noted.mutexes, 1);
    assert_string_equal(noted.mutex[0].owner.id, "a");
    assert_int_equal(noted.mutex[0].waiting, 1);
    run(&reader, (simba_request){.kind = SIMBA_READ, .want_queue = true});
    assert_string_equal(got.owner.id, "a");
    assert_int_equal(noted.waiters, 1);
    run(&reader, examine);
    assert_int_equal(finding("rights")->gravity, SIMBA_FINDING_SERIOUS);
    assert_int_equal(try_run(&reader, asking(&reader)), SIMBA_EDENIED);
}

SQL_TEST(test_sql_admin_look__needs_only_the_right_to_read)
{
    struct who a = person(&first, "a"), b = person(&second, "b");
    struct handle handle;
    struct who reader = person(&handle, "reader");

    drop_tables();
    server_make_reader("reader", "right");
    assert_int_equal(
        try_open(&handle, server_url("reader:right", SERVER_DATABASE)),
        SIMBA_OK);
    memset(&noted, 0, sizeof noted);
    run(&reader, list); /* nothing is there yet, and nothing can be made */
    assert_int_equal(noted.mutexes, 0);
    run(&reader, examine);
#ifdef SERVER_IS_POSTGRES
    assert_int_equal(finding("rights")->gravity, SIMBA_FINDING_SERIOUS);
#else /* what a role or PUBLIC may do cannot be seen */
    assert_int_equal(finding("rights")->gravity, SIMBA_FINDING_NOTE);
    assert_non_null(strstr(finding("rights")->text, "cannot be seen"));
#endif
    assert_non_null(strstr(finding("rights")->text, "simba init"));
    ask(&a);
    ask(&b);
    server_make_reader("reader", "right");
    look_as_reader(&handle);
    handle_close(&handle);
}

#ifdef SERVER_IS_POSTGRES
/* Whoever has no right to a table sees nothing of it in the information
 * schema; that is no weakness of the table. */
SQL_TEST(test_sql_admin_look__blames_rights_and_not_the_tables)
{
    struct who a = person(&first, "a");
    struct handle handle;
    struct who outsider = person(&handle, "outsider");

    ask(&a);
    server_make_user_of_tables("guarded", "right");
    assert_int_equal(
        try_open(&handle, server_url("guarded:right", SERVER_DATABASE)),
        SIMBA_OK);
    memset(&noted, 0, sizeof noted);
    run(&outsider, examine);
    assert_int_equal(finding("tables")->gravity, SIMBA_FINDING_OK);
    assert_int_equal(finding("rights")->gravity, SIMBA_FINDING_SERIOUS);
    handle_close(&handle);
}
#endif

/* A standby serves those who look. */
SQL_TEST(test_sql_admin_look__works_on_a_server_that_takes_no_changes)
{
    struct who a = person(&first, "a");
    struct handle handle;
    struct who reader = person(&handle, "reader");

    drop_tables();
    ask(&a);
    server_set_read_only(true);
    must_open(&handle);
    memset(&noted, 0, sizeof noted);
    run(&reader, list);
    assert_int_equal(noted.mutexes, 1);
    run(&reader, (simba_request){.kind = SIMBA_READ, .want_queue = true});
    assert_string_equal(got.owner.id, "a");
    run(&reader, examine);
    assert_int_equal(finding("primary")->gravity, SIMBA_FINDING_SERIOUS);
    handle_close(&handle);
    server_set_read_only(false);
}
