/* Where a password may come from, besides the URL: the environment, a password
 * file, and the files that the client libraries know. Each alone must do. */
#define _GNU_SOURCE
#include "driver.h"

#include <sys/stat.h>

#ifdef SERVER_IS_POSTGRES
#define VARIABLE    "PGPASSWORD"
#define OURS        "SIMBA_POSTGRES_PASSWORD"
#define MORE        "&passfile=/dev/null"
#define FILE_TEXT   "*:*:*:guarded:right\n"
#define HOME_FILE   ".pgpass"
#define FILE_OPTION "&passfile="
#else
#define VARIABLE    "MYSQL_PWD"
#define OURS        "SIMBA_MYSQL_PASSWORD"
#define MORE        "&option_file=/dev/null"
#define FILE_TEXT   "[simba]\npassword=right\n"
#define HOME_FILE   ".my.cnf"
#define FILE_OPTION "&option_file="
#endif

static char home[300], file[340], url[1024];

static int make_account(void **state)
{
    (void)state;
    server_make_account("guarded", "right");
    snprintf(home, sizeof home, "%s/home", getenv("SIMBA_SERVER_DIR"));
    snprintf(file, sizeof file, "%s/%s", home, HOME_FILE);
    mkdir(home, 0700);
    setenv("HOME", home, 1);
    unsetenv(VARIABLE);
    return 0;
}

/* The account has no right to anything, but it must be let in. */
static bool is_let_in(const char *user, const char *more)
{
    struct handle handle;
    struct who a = person(&handle, "a");

    snprintf(url, sizeof url, "%s%s", server_url(user, SERVER_DATABASE), more);
    assert_int_equal(try_open(&handle, url), SIMBA_OK);
    (void)try_run(&a, asking(&a));
    handle_close(&handle);
    return strstr(why.message, "assword") == NULL;
}

static void write_file(const char *text, mode_t mode)
{
    FILE *to = fopen(file, "w");

    assert_non_null(to);
    fputs(text, to);
    fclose(to);
    assert_int_equal(chmod(file, mode), 0);
}

#define SECRETS_TEST(test) TEST_AROUND(test, make_account, NULL)

SECRETS_TEST(test_sql_settings_secrets__none_does_not_do)
{
    assert_false(is_let_in("guarded", MORE));
    assert_false(is_let_in("guarded:wrong", MORE));
}

SECRETS_TEST(test_sql_settings_secrets__from_the_url)
{
    assert_true(is_let_in("guarded:right", MORE));
    assert_true(is_let_in("guarded:%72ight", MORE));
}

SECRETS_TEST(test_sql_settings_secrets__from_the_environment)
{
    setenv(VARIABLE, "right", 1);
    assert_true(is_let_in("guarded", MORE));
    assert_false(is_let_in("guarded:wrong", MORE)); /* what the URL says */
    unsetenv(VARIABLE);
}

SECRETS_TEST(test_sql_settings_secrets__from_our_variable)
{
    setenv(VARIABLE, "wrong", 1);
    setenv(OURS, "right", 1);
    assert_true(is_let_in("guarded", MORE));
    assert_false(is_let_in("guarded:wrong", MORE));
    unsetenv(OURS);
    unsetenv(VARIABLE);
}

SECRETS_TEST(test_sql_settings_secrets__from_a_password_file)
{
    struct handle handle;
    char more[400];

    snprintf(more, sizeof more, "%s&password_file=%s", MORE, file);
    write_file("wrong\n", 0640);
    assert_false(is_let_in("guarded", more));
    write_file("right\nmore\n", 0640);
    assert_true(is_let_in("guarded", more));
    snprintf(url, sizeof url, "%s%s",
             server_url("guarded:right", SERVER_DATABASE), more);
    assert_int_equal(try_open(&handle, url), SIMBA_EINVAL);
    assert_non_null(strstr(why.message, "password already"));
    write_file("right\n", 0644);
    snprintf(url, sizeof url, "%s%s", server_url("guarded", SERVER_DATABASE),
             more);
    assert_int_equal(try_open(&handle, url), SIMBA_EMISCONFIG);
    assert_non_null(strstr(why.message, "others can read this password"));
    assert_null(strstr(why.message, "right"));
    assert_int_equal(unlink(file), 0);
}

SECRETS_TEST(test_sql_settings_secrets__from_a_file_at_home)
{
    write_file(FILE_TEXT, 0600);
    assert_true(is_let_in("guarded", ""));
    assert_int_equal(unlink(file), 0);
    assert_false(is_let_in("guarded", ""));
}

SECRETS_TEST(test_sql_settings_secrets__from_a_file_that_is_named)
{
    char more[400];

    setenv("HOME", "/nonexistent", 1);
    write_file(FILE_TEXT, 0600);
    snprintf(more, sizeof more, "%s%s", FILE_OPTION, file);
    assert_true(is_let_in("guarded", more));
    assert_int_equal(unlink(file), 0);
}
