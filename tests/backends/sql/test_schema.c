/* Tables that others made or use: other versions of ours, other
 * implementations, administrators. */
#define _GNU_SOURCE
#include "driver.h"
#include "reported.h"

SQL_TEST(test_sql_schema__an_owner_who_does_not_know_us)
{
    struct who a = person(&first, "a");
    int64_t until;

    ask(&a);
    release(&a);
    until = got.store_ms + 400;
    server_sql("UPDATE simba_mutex SET acquired_at = 1, ttl_at = %lld, "
               "transition_at = %lld, owner_id = 'jvm', version = version + 1",
               (long long)until, (long long)until);
    ask(&a);
    assert_false(got.mine);
    assert_string_equal(got.owner.id, "jvm");
    assert_in_range(got.wait_ms, 1, 400);
    nap_ms(got.wait_ms + 2);
    ask(&a);
    expect_mine(&a);
    server_sql("UPDATE simba_mutex SET version = version + 1, acquired_at = 2");
    renew(&a); /* somebody else has taken it meanwhile */
    assert_false(got.mine);
}

/* As another implementation takes it. */
static void give_to_jvm(void)
{
    server_sql("UPDATE simba_mutex SET acquired_at = 1, ttl_at = %lld, "
               "transition_at = %lld, owner_id = 'jvm', version = version + 1",
               (long long)got.store_ms + 60000,
               (long long)got.store_ms + 60000);
}

/* Who does not know us notifies nobody, so we poll. */
SQL_TEST(test_sql_schema__hears_of_a_release_by_others)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");

    ask(&a);
    release(&a);
    give_to_jvm();
    ask(&b);
    expect_queued(true);
    handle_woken(&second, mutex, 0);
    server_sql("UPDATE simba_mutex SET acquired_at = 0, ttl_at = 0, "
               "transition_at = 0, owner_id = '', version = version + 1");
    assert_true(handle_woken(&second, mutex, 5000));
    ask(&b);
    expect_mine(&b);
}

#ifndef SERVER_IS_POSTGRES
/* Who was offered it and comes too late, on a slow machine, is offered it
 * again.
 */
static void ask_in_the_end(struct who *who)
{
    int64_t until_ms = simba_loop_now_ms() + PATIENCE_MS;

    do {
        ask(who);
        nap_ms(got.mine ? 0 : 20);
    } while (!got.mine && simba_loop_now_ms() < until_ms);
    expect_mine(who);
}

/* An account may not kill the statements of another. */
SQL_TEST(test_sql_schema__hears_of_a_release_by_another_account)
{
    struct handle handle;
    struct who a = person(&first, "a");
    struct who b = person(&handle, "b");
    struct who c = person(&second, "c");

    run(&a, (simba_request){.kind = SIMBA_INIT, .mutex = ""});
    server_make_user_of_tables("other", "right");
    assert_int_equal(
        try_open(&handle, server_url("other:right", SERVER_DATABASE)),
        SIMBA_OK);
    ask(&b);
    release(&b);
    ask(&a); /* now it is theirs no more, as simba_mutex alone knows */
    expect_mine(&a);
    b = person(&handle, "b");
    ask(&b);
    expect_queued(true);
    ask(&c); /* behind somebody who cannot notify it */
    expect_queued(false);
    handle_woken(&handle, mutex, 0);
    release(&a);
    assert_true(handle_woken(&handle, mutex, 5000));
    ask_in_the_end(&b);
    handle_woken(&second, mutex, 0);
    release(&b);
    assert_true(handle_woken(&second, mutex, 5000));
    ask_in_the_end(&c);
    handle_close(&handle);
}
#endif

SQL_TEST(test_sql_schema__counts_in_no_time_zone)
{
    struct handle handle;
    struct who a = person(&handle, "a");

    server_set_time_zone(true);
    must_open(&handle);
    ask(&a);
    expect_mine(&a);
    assert_in_range(got.store_ms / 1000, time(NULL) - 600, time(NULL) + 600);
    handle_close(&handle);
    server_set_time_zone(false);
}

/* As the JVM library made it before 3.0.2. */
static void make_old_table(void)
{
    server_sql("DROP TABLE IF EXISTS simba_mutex");
    server_sql("CREATE TABLE simba_mutex (mutex varchar(66) NOT NULL PRIMARY "
               "KEY, acquired_at bigint NOT NULL, ttl_at bigint NOT NULL, "
               "transition_at bigint NOT NULL, owner_id char(32) NOT NULL, "
               "version int NOT NULL)");
}

SQL_TEST(test_sql_schema__adopts_a_table_without_tokens)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");
    uint64_t before;

    make_old_table();
    ask(&a);
    expect_mine(&a);
    before = a.token;
    ask(&b);
    expect_queued(true);
    renew(&a);
    expect_mine(&a);
    assert_int_equal(got.token, before);
    release(&a);
    assert_true(handle_woken(&second, mutex, PATIENCE_MS));
    ask(&b);
    expect_mine(&b);
    assert_true(b.token > before);
    release(&b);
    b = person(&second, "an id that is longer than thirty-two characters");
    assert_int_equal(try_run(&b, asking(&b)), SIMBA_EMISCONFIG);
    server_sql("DROP TABLE simba_mutex");
}

/* S14: it is not cut to one that does, which may be another's. */
SQL_TEST(test_sql_schema__names_a_column_that_is_too_short)
{
    struct who a = person(&first, "a");
    simba_request request = asking(&a);

    server_sql("DROP TABLE IF EXISTS simba_mutex");
    server_sql("CREATE TABLE simba_mutex (mutex varchar(8) NOT NULL PRIMARY "
               "KEY, acquired_at bigint NOT NULL, ttl_at bigint NOT NULL, "
               "transition_at bigint NOT NULL, owner_id varchar(128) NOT NULL, "
               "version int NOT NULL)");
    request.mutex = "longer than that";
    assert_int_equal(try_run(&a, request), SIMBA_EMISCONFIG);
    assert_non_null(strstr(why.message, "too short"));
    assert_int_equal(server_sql("SELECT count(*) FROM simba_mutex"), 0);
    server_sql("DROP TABLE simba_mutex");
}

static int gravest_of_init(struct who *who, bool upgrade)
{
    int gravest = SIMBA_FINDING_OK;

    memset(&noted, 0, sizeof noted);
    run(who,
        (simba_request){.kind = SIMBA_INIT, .mutex = "", .upgrade = upgrade});
    assert_true(noted.findings >= 2);
    for (int i = 0; i < noted.findings; i++) {
        if ((int)noted.finding[i].gravity > gravest) {
            gravest = (int)noted.finding[i].gravity;
        }
    }
    return gravest;
}

/* Who is running already goes on, and tokens grow over it. */
SQL_TEST(test_sql_schema__upgrades_only_when_told)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");
    uint64_t before;

    make_old_table();
    ask(&a);
    before = a.token;
    assert_int_equal(gravest_of_init(&b, false), SIMBA_FINDING_WEAK);
    assert_int_equal(gravest_of_init(&b, true), SIMBA_FINDING_OK);
    assert_int_equal(gravest_of_init(&b, true), SIMBA_FINDING_OK);
    renew(&a);
    expect_mine(&a);
    release(&a);
    b = person(&third, "an id that is longer than thirty-two characters");
    ask(&b);
    expect_mine(&b);
    assert_true(b.token > before);
    before = b.token;
    release(&b);
    a = person(&first, "a"); /* it took versions for tokens */
    ask(&a);
    expect_mine(&a);
    assert_true(a.token > before);
    release(&a);
    server_sql("DROP TABLE simba_mutex");
}

static int64_t count_new_columns(void)
{
    return server_sql(
        "SELECT count(*) FROM information_schema.columns WHERE (table_name = "
        "'simba_line' AND column_name IN ('slots', 'rank')) OR "
        "(table_name = 'simba_tenure' AND column_name = 'asked')");
}

static void contend_for_it(void)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");

    ask(&a);
    expect_mine(&a);
    ask(&b);
    expect_queued(true);
    release(&a);
    assert_true(handle_woken(&second, mutex, PATIENCE_MS));
    ask(&b);
    expect_mine(&b);
    release(&b);
}

/* Versions before these columns name none when they insert. */
SQL_TEST(test_sql_schema__older_versions_can_insert)
{
    struct who a = person(&first, "a");

    gravest_of_init(&a, false);
    assert_int_equal(count_new_columns(), 3);
    server_sql("DELETE FROM simba_line");
    server_sql("INSERT INTO simba_line SELECT 'm', 'x', 'x', 'x', 0, 1, 1");
    assert_int_equal(server_sql("SELECT slots FROM simba_line"), 0);
    server_sql("DELETE FROM simba_line");
}

SQL_TEST(test_sql_schema__upgrades_those_of_older_versions)
{
    struct who a = person(&first, "a");

    gravest_of_init(&a, false);
    server_sql("ALTER TABLE simba_line DROP COLUMN slots");
    server_sql("ALTER TABLE simba_line DROP COLUMN rank");
    server_sql("ALTER TABLE simba_tenure DROP COLUMN asked");
    contend_for_it();
    assert_int_equal(gravest_of_init(&a, false), SIMBA_FINDING_NOTE);
    assert_int_equal(count_new_columns(), 0);
    assert_int_equal(gravest_of_init(&a, true), SIMBA_FINDING_OK);
    assert_int_equal(count_new_columns(), 3);
    contend_for_it();
}

/* S4: who took versions for tokens before the upgrade, and saw nothing since,
 * gets no smaller ones than those after it got, whatever came between. */
static void upgrade_behind_its_back(struct who *idle)
{
    struct who b = person(&second, "b");

    make_old_table();
    ask(idle);
    release(idle);
    gravest_of_init(&b, true);
    ask(&b);
    expect_mine(&b);
    release(&b);
    idle->token = b.token;
}

static void expect_greater_token(struct who *idle)
{
    uint64_t before = idle->token;

    *idle = person(idle->at, idle->id);
    ask(idle);
    expect_mine(idle);
    assert_true(idle->token > before);
    release(idle);
    server_sql("DROP TABLE simba_mutex");
}

SQL_TEST(test_sql_schema__learns_of_tokens_after_others)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");

    upgrade_behind_its_back(&a);
    give_to_jvm();
    ask(&b);
    expect_queued(true);
    server_sql("UPDATE simba_mutex SET acquired_at = 0, ttl_at = 0, "
               "transition_at = 0, owner_id = '', version = version + 1");
    leave(&b); /* and notes that the last tenure was none of ours */
    expect_greater_token(&a);
}

SQL_TEST(test_sql_schema__learns_of_tokens_without_rows)
{
    struct who a = person(&first, "a");

    upgrade_behind_its_back(&a);
    server_sql("DELETE FROM simba_mutex");
    server_sql("DELETE FROM simba_tenure");
    expect_greater_token(&a);
}

/* What is told makes what is made. */
SQL_TEST(test_sql_schema__tells_its_tables)
{
    simba_backend_config config = {.url = "", .rest = ""};
    struct who a = person(&first, "a");
    char *text = SERVER_OPS->schema(&config, false, &why);

    assert_non_null(text);
    server_sql("DROP TABLE IF EXISTS simba_mutex");
    server_run(text);
    assert_int_equal(server_sql("SELECT count(*) FROM simba_mutex"), 0);
    ask(&a);
    expect_mine(&a);
    free(text);
    text = SERVER_OPS->schema(&config, true, &why);
    server_run(text);
    renew(&a);
    expect_mine(&a);
    free(text);
}

SQL_TEST(test_sql_schema__says_who_must_make_the_tables)
{
    struct handle handle;
    struct who a = person(&handle, "a");
    simba_request init = {.kind = SIMBA_INIT, .mutex = ""};

    server_sql("DROP TABLE IF EXISTS simba_mutex");
    server_make_user_of_tables("stranger", "right");
    assert_int_equal(
        try_open(&handle, server_url("stranger:right", SERVER_DATABASE)),
        SIMBA_OK);
    assert_int_equal(try_run(&a, asking(&a)), SIMBA_ENOTINIT);
    assert_non_null(strstr(why.message, "no table simba_mutex"));
    assert_non_null(strstr(why.message, "simba init"));
    assert_int_equal(try_run(&a, init), SIMBA_EDENIED);
    handle_close(&handle);
}

/* A statement that could not be prepared takes no other with it. */
SQL_TEST(test_sql_schema__makes_tables_that_are_gone)
{
    struct who a = person(&first, "a");
    struct who b = person(&first, "b");

    ask(&a);
    renew(&a);
    server_sql("DROP TABLE simba_line");
    memset(&noted, 0, sizeof noted);
    run(&a, (simba_request){.kind = SIMBA_LIST, .mutex = ""});
    assert_int_equal(noted.mutexes, 1);
    renew(&a);
    expect_mine(&a);
    ask(&b);
    expect_queued(true);
    release(&a);
}

/* --- collations ---------------------------------------------------------- */

/* Names are in one that takes some for others, or in one that does not, but is
 * not ours either. */
#ifdef SERVER_IS_POSTGRES
#define MIXING "mixing"
#define OTHER  "\"en-x-icu\""
#define MAKE_MIXING                                                            \
    "CREATE COLLATION IF NOT EXISTS mixing (provider = icu, "                  \
    "locale = 'und-u-ks-level2', deterministic = false)"
#else
#define MIXING      "utf8mb4_general_ci"
#define OTHER       "utf8mb4_bin"
#define MAKE_MIXING "DO 0"
#endif

static void make_table_in(const char *collation)
{
    server_sql(MAKE_MIXING);
    server_sql("DROP TABLE IF EXISTS simba_mutex");
    server_sql("CREATE TABLE simba_mutex (mutex varchar(66) COLLATE %s NOT "
               "NULL PRIMARY KEY, acquired_at bigint NOT NULL, ttl_at bigint "
               "NOT NULL, transition_at bigint NOT NULL, owner_id varchar(128) "
               "COLLATE %s NOT NULL, version int NOT NULL, fencing_token "
               "bigint NOT NULL DEFAULT 0)",
               collation, collation);
}

static bool has_doubts_about(const char *name)
{
    for (int i = 0; i < noted.findings; i++) {
        if (strcmp(noted.finding[i].name, name) == 0) {
            return noted.finding[i].gravity >= SIMBA_FINDING_WEAK;
        }
    }
    fail_msg("the doctor says nothing about %s", name);
    return false;
}

SQL_TEST(test_sql_schema__names_a_collation_that_mixes_up)
{
    struct who a = person(&first, "a");
    simba_request request = asking(&a);

    make_table_in(MIXING);
    request.mutex = "one";
    run(&a, request);
    assert_true(got.mine);
    request.mutex = "ONE";
    a = person(&first, "a");
    assert_int_equal(try_run(&a, request), SIMBA_EMISCONFIG);
    assert_non_null(strstr(why.message, "simba_mutex does not tell"));
    memset(&noted, 0, sizeof noted);
    run(&a, (simba_request){.kind = SIMBA_DOCTOR, .mutex = ""});
    assert_true(has_doubts_about("collation"));
    server_sql("DROP TABLE simba_mutex");
}

/* Adopted as it is. */
SQL_TEST(test_sql_schema__uses_a_collation_of_others)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");

    make_table_in(OTHER);
    ask(&a);
    expect_mine(&a);
    ask(&b);
    expect_queued(true);
    renew(&a);
    expect_mine(&a);
    memset(&noted, 0, sizeof noted);
    run(&a, (simba_request){.kind = SIMBA_LIST, .mutex = ""});
    assert_int_equal(noted.mutexes, 1);
    assert_int_equal(noted.mutex[0].waiting, 1);
    release(&a);
    assert_true(handle_woken(&second, mutex, PATIENCE_MS));
    ask(&b);
    expect_mine(&b);
    release(&b);
    server_sql("DROP TABLE simba_mutex");
}
