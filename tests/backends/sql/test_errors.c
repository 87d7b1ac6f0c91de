/* What a database server refuses, and why, in words that help. */
#define _GNU_SOURCE
#include "driver.h"

#ifdef SERVER_IS_POSTGRES
#define NUMBER_OF_MISSING_DATABASE "3D000"
#define NUMBER_OF_WRONG_PASSWORD   "28P01"
#define PASSWORD_VARIABLE          "PGPASSWORD"
#define URL_OF_NO_SOCKET           "postgres://a@/b?host=/nonexistent"
#define URL_OF_NO_PORT             "postgres://a@127.0.0.1:1/b"

#define URL_OF_NO_HOST "postgres://a@nowhere.invalid/b?sslmode=disable"
#define ALLOW_ONE      "ALTER ROLE guarded CONNECTION LIMIT 0" /* or none */
#else
#define NUMBER_OF_MISSING_DATABASE "1049"
#define NUMBER_OF_WRONG_PASSWORD   "1045"
#define PASSWORD_VARIABLE          "MYSQL_PWD"
#define URL_OF_NO_SOCKET           "mysql://a@localhost/b?socket=/nonexistent"
#define URL_OF_NO_PORT             "mysql://a@127.0.0.1:1/b"
#define URL_OF_NO_HOST             "mysql://a@nowhere.invalid/b?tls=off"

#define ALLOW_ONE "ALTER USER guarded@localhost WITH MAX_CONNECTIONS_PER_HOUR 1"
#endif

/* What an acquire through such a URL is answered; `why` tells more. */
static int status_of(const char *url)
{
    struct handle handle;
    struct who a = person(&handle, "a");
    int status;

    assert_int_equal(try_open(&handle, url), SIMBA_OK);
    status = try_run(&a, asking(&a));
    handle_close(&handle);
    return status;
}

static void expect_told(const char *words)
{
    if (strstr(why.message, words) == NULL) {
        fail_msg("\"%s\" is not in: %s", words, why.message);
    }
}

SQL_TEST(test_sql_errors__names_a_missing_database)
{
    assert_int_equal(status_of(server_url(SERVER_ADMIN, "nowhere")),
                     SIMBA_EMISCONFIG);
    expect_told("nowhere");
    expect_told(NUMBER_OF_MISSING_DATABASE);
    expect_told("create it, or name another in the URL");
}

SQL_TEST(test_sql_errors__names_a_wrong_password)
{
    server_make_account("guarded", "right");
    assert_int_equal(
        status_of(server_url("guarded:wr0ng-secret", SERVER_DATABASE)),
        SIMBA_EDENIED);
    expect_told(NUMBER_OF_WRONG_PASSWORD);
    assert_null(strstr(why.message, "wr0ng-secret"));
}

SQL_TEST(test_sql_errors__says_where_a_password_goes)
{
    server_make_account("guarded", "right");
    assert_int_equal(status_of(server_url("guarded", SERVER_DATABASE)),
                     SIMBA_EDENIED);
    expect_told("in the URL, ");
    expect_told(PASSWORD_VARIABLE);
}

SQL_TEST(test_sql_errors__names_a_server_that_is_not_there)
{
    assert_int_equal(status_of(URL_OF_NO_SOCKET), SIMBA_EUNAVAIL);
    expect_told("/nonexistent");
    expect_told("No such file or directory");
    assert_int_equal(status_of(URL_OF_NO_PORT), SIMBA_EUNAVAIL);
    expect_told("127.0.0.1");
    assert_null(strstr(why.message, "(0)"));
    assert_int_equal(status_of(URL_OF_NO_HOST), SIMBA_EUNAVAIL);
    expect_told("nowhere.invalid");
    assert_null(strstr(why.message, "(-"));
}

SQL_TEST(test_sql_errors__names_a_full_server)
{
    server_make_account("guarded", "right");
    server_sql(ALLOW_ONE);
    (void)status_of(server_url("guarded:right", SERVER_DATABASE));
    assert_int_equal(status_of(server_url("guarded:right", SERVER_DATABASE)),
                     SIMBA_EUNAVAIL);
    expect_told("takes no more connections");
}

SQL_TEST(test_sql_errors__names_a_missing_right)
{
    struct handle handle;
    struct who a = person(&first, "a");
    struct who b = person(&handle, "b");

    ask(&a); /* there are tables */
    server_make_account("stranger", "right");
    assert_int_equal(
        try_open(&handle, server_url("stranger:right", SERVER_DATABASE)),
        SIMBA_OK);
    assert_int_equal(try_run(&b, asking(&b)), SIMBA_EDENIED);
    handle_close(&handle);
}

SQL_TEST(test_sql_errors__names_a_read_only_server)
{
    struct who a = person(&first, "a"), b = person(&second, "b");

    ask(&a);
    server_set_read_only(true);
    assert_int_equal(try_run(&b, asking(&b)), SIMBA_EMISCONFIG);
    assert_non_null(strstr(why.message, "read-only"));
    look(&b);
    assert_string_equal(got.owner.id, "a");
    server_set_read_only(false);
    renew_in_the_end(&a);
    release(&a);
}

/* Until it is refused: sessions hear of it one after the other. */
static void change_in_vain(struct who *who, enum simba_request_kind kind)
{
    int64_t until_ms = simba_loop_now_ms() + PATIENCE_MS;
    int status;

    do {
        status =
            try_run(who, (simba_request){.kind = kind, .tombstone_ms = 1000});
        assert_true(simba_loop_now_ms() < until_ms);
    } while (status == SIMBA_OK);
    assert_int_equal(status, SIMBA_EUNAVAIL); /* not for ever, it may be */
    assert_non_null(strstr(why.message, "read-only"));
}

/* After a failover the same name may lead to another server: no session
 * stays with the one that steps down, nor does the notify session. */
SQL_TEST(test_sql_errors__leaves_a_server_that_steps_down)
{
    struct who a = person(&first, "a"), b = person(&second, "b");
    int64_t until_ms = simba_loop_now_ms() + PATIENCE_MS;
    int64_t moment;

    ask(&a);
    ask(&b);
    expect_queued(true);
    moment = server_moment();
    assert_true(server_count_since(moment) >= 3);
    server_set_read_only(true);
    change_in_vain(&a, SIMBA_RENEW);
    change_in_vain(&b, SIMBA_RELEASE);
    while (server_count_since(moment) > 0) {
        assert_true(simba_loop_now_ms() < until_ms);
        nap_ms(5);
    }
    server_set_read_only(false);
    renew_in_the_end(&a);
    await_notify_connections(1);
    ask(&b);
    expect_queued(true);
    handle_woken(&second, mutex, 0);
    release(&a);
    assert_true(handle_woken(&second, mutex, PATIENCE_MS));
}

#ifdef SERVER_IS_POSTGRES
SQL_TEST(test_sql_errors__names_an_encoding_that_is_too_small)
{
    struct handle handle;
    struct who a = person(&handle, "\xe6\x97\xa5"); /* no letter of it */

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
