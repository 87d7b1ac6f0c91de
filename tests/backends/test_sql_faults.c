/* What goes wrong with database servers and those who run them: each failure
 * has its name, and passes when its cause does. */
#define _GNU_SOURCE
#include "sql_driver.h"
#include "sql_noted.h"

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

/* Until a renewal is answered yes; each failure must be one that may pass. */
static void renew_in_the_end(struct who *who)
{
    int64_t until_ms = simba_loop_now_ms() + PATIENCE_MS;
    int status;

    do {
        simba_op op = {.kind = SIMBA_OP_RENEW,
                       .deadline_ms = simba_loop_now_ms() + 1000};

        status = try_run(who, op);
        if (status != SIMBA_OK && status != SIMBA_EUNAVAIL &&
            status != SIMBA_EUNKNOWN) {
            fail_msg("%d: %s", status, why.message);
        }
        if (simba_loop_now_ms() > until_ms) {
            fail_msg("waited in vain for a renewal: %s", why.message);
        }
    } while (status != SIMBA_OK);
    expect_mine(who);
    assert_int_equal(got.token, who->token);
}

static void test_sql_faults__a_tenure_survives_a_restart(void **state)
{
    struct who a = person(&first, "a");

    (void)state;
    ask(&a);
    server_control("--restart");
    renew_in_the_end(&a);
    release(&a);
}

static void test_sql_faults__says_when_the_server_is_down(void **state)
{
    struct who a = person(&first, "a");
    int status;

    (void)state;
    ask(&a);
    server_control("--stop");
    status = try_run(&a, (simba_op){.kind = SIMBA_OP_RENEW});
    assert_true(status == SIMBA_EUNAVAIL || status == SIMBA_EUNKNOWN);
    status = try_run(&a, (simba_op){.kind = SIMBA_OP_RENEW});
    assert_int_equal(status, SIMBA_EUNAVAIL);
    assert_true(strlen(why.message) > 10);
    server_control("--start");
    renew_in_the_end(&a);
}

static void test_sql_faults__outlives_killed_sessions(void **state)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");

    (void)state;
    ask(&a);
    ask(&b);
    expect_in_line(true);
    server_kill_sessions();
    renew_in_the_end(&a);
    /* The bell is hung again, and tells so by a hint. */
    assert_true(handle_hinted(&second, mutex, PATIENCE_MS));
    ask(&b);
    expect_in_line(true);
    handle_hinted(&second, mutex, 0);
    release(&a);
    assert_true(handle_hinted(&second, mutex, PATIENCE_MS));
    ask(&b);
    expect_mine(&b);
}

/* A server that is cut off from us keeps the lock of a bell that is no more. */
static void test_sql_faults__hangs_a_bell_beside_a_ghost(void **state)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");
    char process[SIMBA__SQL_HEX + 1];

    (void)state;
    ask(&a);
    ask(&b);
    snprintf(process, sizeof process, "%s",
             ((struct simba__sql *)second.backend)->process);
    server_haunt(process);
    assert_true(handle_hinted(&second, mutex, PATIENCE_MS)); /* hung again */
    ask(&b);
    expect_in_line(true);
    handle_hinted(&second, mutex, 0);
    release(&a);
    assert_true(handle_hinted(&second, mutex, PATIENCE_MS));
    assert_int_equal(((struct simba__sql *)second.backend)->bell,
                     SIMBA__SQL_BELL_HUNG);
    ask(&b);
    expect_mine(&b);
}

/* A renewal is not held up by who waits for the same mutex in its process. */
static void test_sql_faults__a_stuck_waiter_holds_up_no_renewal(void **state)
{
    struct who a = person(&first, "a");
    struct who b = person(&first, "b");
    simba_op stuck = asking(&b);
    int64_t began_ms;

    (void)state;
    ask(&a);
    ask(&b); /* everything is prepared, and the bell is hung */
    leave(&b);
    server_hold(LOCK_LINE);
    fill_op(&b, &stuck);
    stuck.deadline_ms = simba_loop_now_ms() + 1500;
    handle_start(&first, &stuck);
    began_ms = simba_loop_now_ms();
    renew(&a);
    expect_mine(&a);
    assert_true(simba_loop_now_ms() - began_ms < 700);
    handle_join(&first, &stuck, &why);
    server_let_go();
}

static void test_sql_faults__a_locked_row_holds_up_no_other(void **state)
{
    struct who a = person(&first, "a");
    struct who b = person(&first, "b");
    simba_op ask_other = asking(&b);
    simba_op renew_other = {.kind = SIMBA_OP_RENEW, .mutex = "another"};
    simba_op renew_held = {.kind = SIMBA_OP_RENEW};
    int64_t began_ms;

    (void)state;
    ask_other.mutex = "another";
    ask(&a);
    run(&b, ask_other);
    b.token = got.token;
    server_hold("SELECT 1 FROM simba_mutex WHERE owner_id = 'a' FOR UPDATE");
    began_ms = simba_loop_now_ms();
    renew_held.deadline_ms = began_ms + 5000;
    assert_int_equal(try_run(&a, renew_held), SIMBA_EUNAVAIL);
    assert_true(simba_loop_now_ms() - began_ms < 3000);
    began_ms = simba_loop_now_ms();
    run(&b, renew_other);
    assert_true(got.mine);
    assert_true(simba_loop_now_ms() - began_ms < 500);
    server_let_go();
    renew_in_the_end(&a);
}

static void test_sql_faults__a_deadline_is_kept(void **state)
{
    struct who a = person(&first, "a");
    simba_op op = {.kind = SIMBA_OP_RENEW};
    int64_t began_ms;

    (void)state;
    ask(&a);
    server_hold("SELECT 1 FROM simba_mutex WHERE owner_id = 'a' FOR UPDATE");
    began_ms = simba_loop_now_ms();
    op.deadline_ms = began_ms + 100;
    assert_int_equal(try_run(&a, op), SIMBA_EUNKNOWN);
    assert_in_range(simba_loop_now_ms() - began_ms, 99, 600);
    server_let_go();
    renew_in_the_end(&a);
}

static void test_sql_faults__names_a_missing_database(void **state)
{
    struct handle handle;
    struct who a = person(&handle, "a");

    (void)state;
    assert_int_equal(try_open(&handle, server_url(SERVER_ADMIN, "nowhere")),
                     SIMBA_OK);
    assert_int_equal(try_run(&a, asking(&a)), SIMBA_EMISCONFIG);
    assert_non_null(strstr(why.message, "nowhere"));
    handle_close(&handle);
}

static void test_sql_faults__names_a_wrong_password(void **state)
{
    struct handle handle;
    struct who a = person(&handle, "a");

    (void)state;
    server_make_account("guarded", "right");
    assert_int_equal(
        try_open(&handle, server_url("guarded:wr0ng-secret", SERVER_DATABASE)),
        SIMBA_OK);
    assert_int_equal(try_run(&a, asking(&a)), SIMBA_EDENIED);
    assert_null(strstr(why.message, "wr0ng-secret"));
    handle_close(&handle);
}

static void test_sql_faults__names_a_missing_right(void **state)
{
    struct handle handle;
    struct who a = person(&first, "a");
    struct who b = person(&handle, "b");

    (void)state;
    ask(&a); /* there are tables */
    server_make_account("stranger", "right");
    assert_int_equal(
        try_open(&handle, server_url("stranger:right", SERVER_DATABASE)),
        SIMBA_OK);
    assert_int_equal(try_run(&b, asking(&b)), SIMBA_EDENIED);
    handle_close(&handle);
}

static void test_sql_faults__names_a_read_only_server(void **state)
{
    struct who a = person(&first, "a");
    int status;

    (void)state;
    ask(&a);
    server_set_read_only(true);
    do { /* sessions may have been ended for it */
        status = try_run(&a, (simba_op){.kind = SIMBA_OP_RELEASE});
    } while (status == SIMBA_EUNKNOWN || status == SIMBA_EUNAVAIL);
    assert_int_equal(status, SIMBA_EMISCONFIG);
    assert_non_null(strstr(why.message, "read-only"));
    look(&a);
    assert_string_equal(got.owner.id, "a");
    server_set_read_only(false);
    renew_in_the_end(&a);
    release(&a);
}

/* --- many at once -------------------------------------------------------- */

enum { THREADS = 20, NEW_ONES = 10 };

static void *use_new_mutexes(void *argument)
{
    int index = *(int *)argument;
    struct handle *handles[] = {&first, &second, &third};
    char name[96];

    for (int i = 0; i < NEW_ONES; i++) {
        simba_op op = {.kind = SIMBA_OP_ACQUIRE, .join = true, .id = "x"};
        simba_error error;

        /* Half of them are used by two at once. */
        snprintf(name, sizeof name, "%s %d", mutex,
                 (i % 2 == 0 ? index : index / 2 * 2) * 100 + i);
        op.mutex = name;
        op.attempt = (simba_attempt){(uint64_t)(index + 1) << 32, (uint64_t)i};
        op.ttl_ms = op.transition_ms = op.waiter_ms = 20000;
        op.deadline_ms = simba_loop_now_ms() + PATIENCE_MS;
        if (handle_run(handles[index % 3], &op, &error) != SIMBA_OK) {
            fprintf(stderr, "%s\n", error.message);
            return &first;
        }
    }
    return NULL;
}

static void test_sql_faults__two_hundred_first_uses_at_once(void **state)
{
    pthread_t threads[THREADS];
    int indices[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        indices[i] = i;
        assert_int_equal(
            pthread_create(&threads[i], NULL, use_new_mutexes, &indices[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *failed;

        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
}

/* --- other implementations ----------------------------------------------- */

static void test_sql_faults__an_owner_who_does_not_know_us(void **state)
{
    struct who a = person(&first, "a");
    int64_t until;

    (void)state;
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

/* Who does not know us rings no bell, so we look. */
static void test_sql_faults__hears_of_a_release_by_others(void **state)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");

    (void)state;
    ask(&a);
    release(&a);
    server_sql("UPDATE simba_mutex SET acquired_at = 1, ttl_at = %lld, "
               "transition_at = %lld, owner_id = 'jvm', version = version + 1",
               (long long)got.store_ms + 60000,
               (long long)got.store_ms + 60000);
    ask(&b);
    expect_in_line(true);
    handle_hinted(&second, mutex, 0);
    server_sql("UPDATE simba_mutex SET acquired_at = 0, ttl_at = 0, "
               "transition_at = 0, owner_id = '', version = version + 1");
    assert_true(handle_hinted(&second, mutex, 5000));
    ask(&b);
    expect_mine(&b);
}

#ifndef SERVER_IS_POSTGRES
/* Who was called and comes too late, on a slow machine, is called again. */
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
static void test_sql_faults__hears_of_a_release_by_another_account(void **state)
{
    struct handle handle;
    struct who a = person(&first, "a");
    struct who b = person(&handle, "b");
    struct who c = person(&second, "c");

    (void)state;
    ask(&a);
    server_make_user_of_tables("other", "right");
    assert_int_equal(
        try_open(&handle, server_url("other:right", SERVER_DATABASE)),
        SIMBA_OK);
    ask(&b);
    expect_in_line(true);
    ask(&c); /* behind somebody who cannot ring it */
    expect_in_line(false);
    handle_hinted(&handle, mutex, 0);
    release(&a);
    assert_true(handle_hinted(&handle, mutex, 5000));
    ask_in_the_end(&b);
    handle_hinted(&second, mutex, 0);
    release(&b);
    assert_true(handle_hinted(&second, mutex, 5000));
    ask_in_the_end(&c);
    handle_close(&handle);
}
#endif

/* As the JVM library made it before 3.0.2. */
static void make_old_table(void)
{
    server_sql("DROP TABLE IF EXISTS simba_mutex");
    server_sql("CREATE TABLE simba_mutex (mutex varchar(66) NOT NULL PRIMARY "
               "KEY, acquired_at bigint NOT NULL, ttl_at bigint NOT NULL, "
               "transition_at bigint NOT NULL, owner_id char(32) NOT NULL, "
               "version int NOT NULL)");
}

static void test_sql_faults__adopts_a_table_without_tokens(void **state)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");
    uint64_t before;

    (void)state;
    make_old_table();
    ask(&a);
    expect_mine(&a);
    before = a.token;
    ask(&b);
    expect_in_line(true);
    renew(&a);
    expect_mine(&a);
    assert_int_equal(got.token, before);
    release(&a);
    assert_true(handle_hinted(&second, mutex, PATIENCE_MS));
    ask(&b);
    expect_mine(&b);
    assert_true(b.token > before);
    release(&b);
    b = person(&second, "an id that is longer than thirty-two characters");
    assert_int_equal(try_run(&b, asking(&b)), SIMBA_EMISCONFIG);
    server_sql("DROP TABLE simba_mutex");
}

static int gravest_of_init(struct who *who, bool upgrade)
{
    int gravest = SIMBA_FINDING_OK;

    memset(&noted, 0, sizeof noted);
    run(who,
        (simba_op){.kind = SIMBA_OP_INIT, .mutex = "", .upgrade = upgrade});
    assert_true(noted.findings >= 2);
    for (int i = 0; i < noted.findings; i++) {
        if ((int)noted.finding[i].gravity > gravest) {
            gravest = (int)noted.finding[i].gravity;
        }
    }
    return gravest;
}

/* Who is running already goes on, and tokens grow over it. */
static void test_sql_faults__upgrades_only_when_told(void **state)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");
    uint64_t before;

    (void)state;
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

/* What is told makes what is made. */
static void test_sql_faults__tells_its_tables(void **state)
{
    simba_backend_config config = {.url = "", .rest = ""};
    struct who a = person(&first, "a");
    char *text = SERVER_OPS->schema(&config, false, &why);

    (void)state;
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

static void test_sql_faults__says_who_must_make_the_tables(void **state)
{
    struct handle handle;
    struct who a = person(&handle, "a");
    simba_op init = {.kind = SIMBA_OP_INIT, .mutex = ""};

    (void)state;
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
static void test_sql_faults__makes_tables_that_are_gone(void **state)
{
    struct who a = person(&first, "a");

    (void)state;
    ask(&a);
    renew(&a);
    server_sql("DROP TABLE simba_line");
    run(&a, (simba_op){.kind = SIMBA_OP_LIST, .mutex = ""});
    renew(&a);
    expect_mine(&a);
    release(&a);
}

#ifdef SERVER_IS_POSTGRES
static void test_sql_faults__names_an_encoding_that_is_too_small(void **state)
{
    struct handle handle;
    struct who a = person(&handle, "\xe6\x97\xa5"); /* no letter of it */

    (void)state;
    server_sql("CREATE DATABASE small ENCODING LATIN1 TEMPLATE template0");
    assert_int_equal(try_open(&handle, server_url(SERVER_ADMIN, "small")),
                     SIMBA_OK);
    assert_int_equal(try_run(&a, asking(&a)), SIMBA_EMISCONFIG);
    assert_non_null(strstr(why.message, "encoding"));
    a = person(&handle, "\xc3\xa4");
    ask(&a);
    expect_mine(&a);
    handle_close(&handle);
}
#endif

#ifndef SERVER_IS_POSTGRES
static void test_sql_faults__names_a_collation_that_mixes_up(void **state)
{
    struct who a = person(&first, "a");
    simba_op op = asking(&a);

    (void)state;
    server_sql("DROP TABLE IF EXISTS simba_mutex");
    server_sql("CREATE TABLE simba_mutex (mutex varchar(66) NOT NULL PRIMARY "
               "KEY, acquired_at bigint unsigned NOT NULL, ttl_at bigint "
               "unsigned NOT NULL, transition_at bigint unsigned NOT NULL, "
               "owner_id varchar(128) NOT NULL, version int unsigned NOT NULL, "
               "fencing_token bigint unsigned NOT NULL DEFAULT 0) "
               "CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci");
    op.mutex = "one";
    run(&a, op);
    assert_true(got.mine);
    op.mutex = "ONE";
    a = person(&first, "a");
    assert_int_equal(try_run(&a, op), SIMBA_EMISCONFIG);
    assert_non_null(strstr(why.message, "collation"));
    server_sql("DROP TABLE simba_mutex");
}
#endif

static void test_sql_faults__counts_in_no_time_zone(void **state)
{
    struct handle handle;
    struct who a = person(&handle, "a");

    (void)state;
    server_set_time_zone(true);
    must_open(&handle);
    ask(&a);
    expect_mine(&a);
    assert_in_range(got.store_ms / 1000, time(NULL) - 600, time(NULL) + 600);
    handle_close(&handle);
    server_set_time_zone(false);
}

/* --- a waiter that is stopped -------------------------------------------- */

/* In another process: joins the line and leaves it, without end. */
static _Noreturn void play_restless(const char *name)
{
    struct who who;

    snprintf(mutex, sizeof mutex, "%s", name);
    must_open(&first);
    for (;;) {
        who = person(&first, "restless");
        (void)try_run(&who, asking(&who));
        (void)try_run(&who, (simba_op){.kind = SIMBA_OP_LEAVE});
    }
}

/* Wherever it is stopped, it holds nothing that a renewal waits for: that would
 * fail when the wait for the lock is over. */
static void test_sql_faults__a_stopped_waiter_blocks_no_renewal(void **state)
{
    struct who a = person(&second, "a");
    char self[] = "/proc/self/exe";
    char *arguments[] = {self, mutex, NULL};
    pid_t pid;

    (void)state;
    ask(&a);
    assert_int_equal(posix_spawn(&pid, self, NULL, NULL, arguments, environ),
                     0);
    for (int i = 0; i < 60; i++) {
        nap_ms(i % 7);
        kill(pid, SIGSTOP);
        renew(&a);
        expect_mine(&a);
        kill(pid, SIGCONT);
    }
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        SQL_TEST(test_sql_faults__a_tenure_survives_a_restart),
        SQL_TEST(test_sql_faults__says_when_the_server_is_down),
        SQL_TEST(test_sql_faults__outlives_killed_sessions),
        SQL_TEST(test_sql_faults__hangs_a_bell_beside_a_ghost),
        SQL_TEST(test_sql_faults__a_stuck_waiter_holds_up_no_renewal),
        SQL_TEST(test_sql_faults__a_locked_row_holds_up_no_other),
        SQL_TEST(test_sql_faults__a_deadline_is_kept),
        SQL_TEST(test_sql_faults__names_a_missing_database),
        SQL_TEST(test_sql_faults__names_a_wrong_password),
        SQL_TEST(test_sql_faults__names_a_missing_right),
        SQL_TEST(test_sql_faults__names_a_read_only_server),
        SQL_TEST(test_sql_faults__two_hundred_first_uses_at_once),
        SQL_TEST(test_sql_faults__an_owner_who_does_not_know_us),
        SQL_TEST(test_sql_faults__hears_of_a_release_by_others),
#ifndef SERVER_IS_POSTGRES
        SQL_TEST(test_sql_faults__hears_of_a_release_by_another_account),
#endif
        SQL_TEST(test_sql_faults__counts_in_no_time_zone),
        SQL_TEST(test_sql_faults__a_stopped_waiter_blocks_no_renewal),
        SQL_TEST(test_sql_faults__adopts_a_table_without_tokens),
        SQL_TEST(test_sql_faults__upgrades_only_when_told),
        SQL_TEST(test_sql_faults__tells_its_tables),
        SQL_TEST(test_sql_faults__says_who_must_make_the_tables),
        SQL_TEST(test_sql_faults__makes_tables_that_are_gone),
#ifdef SERVER_IS_POSTGRES
        SQL_TEST(test_sql_faults__names_an_encoding_that_is_too_small),
#endif
#ifndef SERVER_IS_POSTGRES
        SQL_TEST(test_sql_faults__names_a_collation_that_mixes_up),
#endif
    };

    if (argc > 1) {
        play_restless(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
