/* What the URL of a PostgreSQL store comes to, without any server: where TLS is
 * verified, and what is shown of a URL. */
#define _GNU_SOURCE
#include "backends/postgres/postgres.h"

#include "kit/secret.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixtures/unit_test.h"

static struct simba__pg pg;
static simba_error error;
static char services[] = "/tmp/simba-services-XXXXXX";

static int reads(const char *url)
{
    memset(&pg, 0, sizeof pg);
    memset(&error, 0, sizeof error);
    return simba__pg_settings_read(&pg, url, &error);
}

/* What the library would be told; the last word counts. */
static const char *told(const char *keyword)
{
    static struct simba__pg_parameters all;
    const char *value = "";

    simba__pg_settings_list(&pg, &all);
    for (int i = 0; i < all.count; i++) {
        if (strcmp(all.keywords[i], keyword) == 0) {
            value = all.values[i];
        }
    }
    return value;
}

static void goes_with(const char *sslmode, const char *url)
{
    if (reads(url) != SIMBA_OK) {
        fail_msg("%s: %s", url, error.message);
    }
    if (strcmp(told("sslmode"), sslmode) != 0) {
        fail_msg("%s: '%s' instead of '%s'", url, told("sslmode"), sslmode);
    }
    simba__pg_settings_fini(&pg);
}

static void verified(const char *url)
{
    goes_with("verify-full", url);
}

static void plain(const char *url)
{
    goes_with("", url);
}

static int set_up(void **state)
{
    PQconninfoOption *all = PQconndefaults();

    (void)state;
    for (const PQconninfoOption *o = all; o->keyword != NULL; o++) {
        if (o->envvar != NULL) {
            unsetenv(o->envvar);
        }
    }
    PQconninfoFree(all);
    setenv("HOME", "/nonexistent", 1);
    return 0;
}

#define SETTINGS_TEST(test) TEST_AROUND(test, set_up, NULL)

/* --- where it goes -------------------------------------------------------- */

SETTINGS_TEST(test_postgres_settings__verify_unless_it_stays_here)
{
    plain("postgres:///d");
    plain("postgres://localhost/d");
    plain("postgres://127.0.0.1:1,[::1]:2/d");
    plain("postgres:///d?host=/run/postgresql");
    plain("postgres://localhost/d?hostaddr=127.0.0.2");
    plain("postgres:///d?hostaddr=::1");
    verified("postgres://192.0.2.2/d");
    verified("postgres://localhost,192.0.2.2/d");
    verified("postgres:///d?host=db.invalid");
    verified("postgres://127.0.0.1.invalid/d");
    goes_with("require", "postgres://192.0.2.2/d?sslmode=require");
    goes_with("prefer", "postgres://192.0.2.2/d?sslmode=prefer");
}

SETTINGS_TEST(test_postgres_settings__an_address_counts_more_than_a_name)
{
    verified("postgres://u@localhost/d?hostaddr=192.0.2.2");
    verified("postgres://u@localhost,localhost/d?hostaddr=127.0.0.1,192.0.2.2");
    verified("postgres:///d?host=localhost&hostaddr=192.0.2.2");
    verified("postgres:///d?host=/run/postgresql&hostaddr=2001:db8::2");
}

SETTINGS_TEST(test_postgres_settings__know_the_environment)
{
    setenv("PGHOSTADDR", "192.0.2.2", 1);
    verified("postgres:///d");
    verified("postgres://localhost/d");
    plain("postgres://localhost/d?hostaddr=127.0.0.1");
    setenv("PGSSLMODE", "require", 1);
    plain("postgres://localhost/d"); /* the library reads it itself */
    unsetenv("PGSSLMODE");
    unsetenv("PGHOSTADDR");
    setenv("PGHOST", "db.invalid", 1);
    verified("postgres:///d");
}

SETTINGS_TEST(test_postgres_settings__know_service_files)
{
    int fd = mkstemp(services);
    FILE *file = fdopen(fd, "w");

    assert_non_null(file);
    fputs("[here]\nhost=localhost\n"
          "[far]\nhost=db.invalid\n"
          "[hidden]\nhost=localhost\nhostaddr=192.0.2.2\n"
          "[said]\nhost=db.invalid\nsslmode=require\n"
          "[two]\nhost=a.invalid,b.invalid\n",
          file);
    fclose(file);
    setenv("PGSERVICEFILE", services, 1);
    plain("postgres:///d?service=here");
    verified("postgres:///d?service=far");
    verified("postgres:///d?service=hidden");
    plain("postgres:///d?service=said"); /* the library reads it itself */
    verified("postgres:///d?service=here&hostaddr=192.0.2.2");
    verified("postgres:///d?service=absent"); /* it may come to be */
    setenv("PGSERVICE", "hidden", 1);
    verified("postgres:///d");
    assert_int_equal(reads("postgres:///d?service=two"), SIMBA_OK);
    assert_string_equal(told("target_session_attrs"), "read-write");
    simba__pg_settings_fini(&pg);
    unlink(services);
}

/* --- secrets -------------------------------------------------------------- */

/* The password is of the signs that parsers stop at and of Z, which stands
 * nowhere else. */
SETTINGS_TEST(test_postgres_settings__never_show_a_password)
{
    static const char signs[] = "Z/?@:&=#%[],;~ Z9";
    char url[128];

    srand(1);
    for (int i = 0; i < 20000; i++) {
        size_t length = (size_t)snprintf(url, sizeof url, "postgres://u:Z");

        for (int left = rand() % 12; left > 0; left--) {
            url[length++] = signs[(size_t)rand() % (sizeof signs - 1)];
        }
        snprintf(url + length, sizeof url - length, "@h:1/d%s",
                 i % 2 == 0 ? "" : "?connect_timeout=3");
        if (reads(url) == SIMBA_OK) {
            assert_null(strchr(pg.sql.shown, 'Z'));
            assert_null(strchr(told("host"), 'Z'));
            assert_null(strchr(told("port"), 'Z'));
            assert_non_null(strchr(told("password"), 'Z'));
            simba__pg_settings_fini(&pg);
        }
        if (strchr(error.message, 'Z') != NULL) {
            fail_msg("%s: %s", url, error.message);
        }
    }
}

SETTINGS_TEST(test_postgres_settings__refuse_a_key_that_others_can_read)
{
    char path[] = "/tmp/simba-key-XXXXXX", url[128];
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    snprintf(url, sizeof url, "postgres://h/d?sslcert=%s&sslkey=%s", path,
             path);
    assert_int_equal(fchmod(fd, 0644), 0);
    assert_int_equal(reads(url), SIMBA_EMISCONFIG);
    assert_non_null(strstr(error.message, "others can read this key"));
    assert_int_equal(fchmod(fd, 0600), 0);
    assert_int_equal(reads(url), SIMBA_OK);
    simba__pg_settings_fini(&pg);
    close(fd);
    unlink(path);
}

SETTINGS_TEST(test_postgres_settings__refuse_what_would_tear_a_password)
{
    static const char *const urls[] = {
        "postgres://u:hunter2/x@h/d", "postgres://u:x/hunter2@h/d",
        "postgres://u:x@hunter2@h/d", "postgres://u:1?hunter2=x@h/d"};

    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        assert_int_equal(reads(urls[i]), SIMBA_EINVAL);
        assert_non_null(strstr(error.message, "%2F"));
        assert_null(strstr(error.message, "hunter2"));
    }
    assert_int_equal(reads("postgres:///d?host=@socket,@other"), SIMBA_OK);
    simba__pg_settings_fini(&pg);
}

int main(void)
{
    return run_unit_tests(NULL, NULL);
}
