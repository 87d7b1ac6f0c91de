#define _GNU_SOURCE
#include "kit/url.h"

#include "kit/secret.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixtures/unit_test.h"

struct settings {
    struct simba__url url;
    int db;
};

static const struct simba__parameter parameters[] = {
    {"db", SIMBA__PARAMETER_INT, offsetof(struct settings, db), NULL, 99, "x"},
    {0}};

static const struct simba__url_form form = {.store = "toy",
                                            .example = "toy://host/path",
                                            .parameters = parameters,
                                            .is_networked = true};

static const struct simba__url_form local = {.store = "toy",
                                             .example = "toy:path",
                                             .parameters = parameters};

static struct settings s;
static simba_error error;

static void reads(const char *url)
{
    simba__url_fini(&s.url);
    if (simba__url_read(&s.url, &form, url + 4, &error) != SIMBA_OK) {
        fail_msg("%s: %s", url, error.message);
    }
}

static void refused(const char *url, const char *words)
{
    simba__url_fini(&s.url);
    if (simba__url_read(&s.url, &form, url + 4, &error) != SIMBA_EINVAL ||
        strstr(error.message, words) == NULL ||
        strstr(error.message, "hunter2") != NULL) {
        fail_msg("%s: %s", url, error.message);
    }
}

static int clean(void **state)
{
    (void)state;
    simba__url_fini(&s.url);
    unsetenv("SIMBA_TOY_USER");
    unsetenv("SIMBA_TOY_PASSWORD");
    return 0;
}

#define URL_TEST(test) TEST_AROUND(test, NULL, clean)

URL_TEST(test_url__is_cut_into_its_pieces)
{
    reads("toy://a%40b:c%3Ad@h%2Dh:1,[::1]:65535,[::2],,i/p%2Fq/r?db=7");
    assert_string_equal(s.url.user, "a@b");
    assert_string_equal(s.url.password, "c:d");
    assert_int_equal(s.url.host_count, 4);
    assert_string_equal(s.url.hosts[0].name, "h-h");
    assert_int_equal(s.url.hosts[0].port, 1);
    assert_string_equal(s.url.hosts[1].name, "::1");
    assert_int_equal(s.url.hosts[1].port, 65535);
    assert_string_equal(s.url.hosts[2].name, "::2");
    assert_int_equal(s.url.hosts[2].port, 0);
    assert_string_equal(s.url.hosts[3].name, "i");
    assert_string_equal(s.url.path, "/p%2Fq/r");
    assert_int_equal(s.db, 7);
}

URL_TEST(test_url__may_leave_out_nearly_all)
{
    reads("toy://");
    assert_null(s.url.user);
    assert_null(s.url.password);
    assert_int_equal(s.url.host_count, 0);
    assert_string_equal(s.url.path, "");
    reads("toy://u@?db=1");
    assert_string_equal(s.url.user, "u");
    assert_null(s.url.password);
    reads("toy://:pw@h/");
    assert_null(s.url.user);
    assert_string_equal(s.url.password, "pw");
    assert_string_equal(s.url.path, "/");
    reads("toy://h?user=u&password=a@b");
    assert_string_equal(s.url.user, "u");
    assert_string_equal(s.url.password, "a@b");
}

URL_TEST(test_url__of_a_local_store_has_a_path_only)
{
    assert_int_equal(simba__url_read(&s.url, &local, "a@b/c?db=3", &error),
                     SIMBA_OK);
    assert_null(s.url.authority);
    assert_string_equal(s.url.path, "a@b/c");
    assert_int_equal(s.db, 3);
    simba__url_fini(&s.url);
    assert_int_equal(simba__url_read(&s.url, &local, "//here/c", &error),
                     SIMBA_OK);
    assert_string_equal(s.url.authority, "here");
    assert_string_equal(s.url.path, "/c");
    simba__url_fini(&s.url);
    assert_int_equal(simba__url_read(&s.url, &local, "a?user=x", &error),
                     SIMBA_EINVAL);
}

URL_TEST(test_url__is_refused_in_words_that_help)
{
    refused("toy:h", "looks like toy://host/path");
    refused("toy://h:0", "port");
    refused("toy://h:65536", "port");
    refused("toy://h:", "port");
    refused("toy://:1", "no name");
    refused("toy://u%3Ahunter2%40h:1", "escaped");
    refused("toy://[::1", "no end");
    refused("toy://[::1]x", "no port");
    refused("toy://h%zz", "escape");
    refused("toy://u:hunter2%zz@h", "escape");
    refused("toy://h?db=x", "db must be");
    refused("toy://h?bd=1", "is db meant");
    refused("toy://h?passwd=hunter2", "is password meant");
}

URL_TEST(test_url__shows_nothing_of_a_password_that_is_cut)
{
    refused("toy://u:hunter2?x@h", "%3F");
    refused("toy://u:1?hunter2@h", "%3F");
    refused("toy://u:1/hunter2@h", "%2F");
    refused("toy://u:1?db=hunter2@h", "%3F");
    refused("toy://u:hunter2/x@h", "%2F");
    reads("toy://u:a@hunter2@h"); /* what cannot be misread is taken */
    assert_string_equal(s.url.password, "a@hunter2");
}

URL_TEST(test_url__leaves_the_environment_what_it_does_not_say)
{
    setenv("SIMBA_TOY_USER", "ann", 1);
    setenv("SIMBA_TOY_PASSWORD", "hunter2", 1);
    reads("toy://h");
    setenv("SIMBA_TOY_PASSWORD", "changed", 1);
    assert_string_equal(s.url.user, "ann");
    assert_string_equal(s.url.password, "hunter2");
    reads("toy://bob:pw@h");
    assert_string_equal(s.url.user, "bob");
    assert_string_equal(s.url.password, "pw");
    reads("toy://bob@h");
    assert_string_equal(s.url.password, "changed");
    setenv("SIMBA_TOY_PASSWORD", "", 1);
    reads("toy://bob@h");
    assert_null(s.url.password);
}

URL_TEST(test_url__may_name_a_file_for_the_password)
{
    char path[] = "/tmp/simba-url-XXXXXX", url[128];
    int fd = mkostemp(path, 0);

    assert_int_equal(write(fd, "hunter2\n", 8), 8);
    snprintf(url, sizeof url, "toy://u@h?password_file=%s", path);
    setenv("SIMBA_TOY_PASSWORD", "environment", 1);
    reads(url);
    assert_string_equal(s.url.password, "hunter2");
    snprintf(url, sizeof url, "toy://u:pw@h?password_file=%s", path);
    refused(url, "password already");
    assert_int_equal(fchmod(fd, 0644), 0);
    snprintf(url, sizeof url, "toy://u@h?password_file=%s", path);
    simba__url_fini(&s.url);
    assert_int_equal(simba__url_read(&s.url, &form, url + 4, &error),
                     SIMBA_EMISCONFIG);
    assert_non_null(strstr(error.message, "toy: password_file: /tmp/"));
    close(fd);
    unlink(path);
}

static void takes(const char *url, const char *value, const char *rest)
{
    char room[64];
    char *taken;

    snprintf(room, sizeof room, "%s", url);
    assert_int_equal(simba__url_take(room, "it", &taken), SIMBA_OK);
    if (value == NULL) {
        assert_null(taken);
    } else {
        assert_string_equal(taken, value);
    }
    assert_string_equal(room, rest);
    free(taken);
}

URL_TEST(test_url__gives_one_parameter_away)
{
    char broken[] = "a://b?it=%4";
    char *taken;

    takes("a://b?it=x", "x", "a://b?");
    takes("a://b?c=d&it=%41&e=f", "A", "a://b?c=d&e=f");
    takes("a://b?c=d&it=", "", "a://b?c=d&");
    takes("a://b?it=x&c=d", "x", "a://b?c=d");
    takes("a://b?item=x&it", NULL, "a://b?item=x&it");
    takes("a://it=b", NULL, "a://it=b");
    assert_int_equal(simba__url_take(broken, "it", &taken), SIMBA_EINVAL);
    free(taken);
}

/* Passwords of the signs that parsers stop at and of Z, which stands nowhere
 * else: neither what is shown of a URL nor what is said about it nor what is
 * taken for a host has a Z. */
URL_TEST(test_url__never_shows_a_password)
{
    static const char signs[] = "Z/?@:&=#%[],;~ Z9";
    static const char *const starts[] = {
        "toy://u:Z",       "toy://:Z", "toy:u:Z", "fault:seed=1:toy://u:Z",
        "fault:toy://u:Z", "u:Z"};
    char url[128], shown[128];

    srand(1);
    for (int i = 0; i < 20000; i++) {
        size_t length = (size_t)snprintf(url, sizeof url, "%s", starts[i % 6]);

        for (int left = rand() % 12; left > 0; left--) {
            url[length++] = signs[(size_t)rand() % (sizeof signs - 1)];
        }
        snprintf(url + length, sizeof url - length, "@h:1/2%s",
                 i % 12 < 6 ? "" : "?db=3");
        memcpy(shown, url, sizeof shown);
        simba__url_hide(shown);
        simba__url_fini(&s.url);
        error.message[0] = '\0';
        if (simba__url_read(&s.url, &form, strchrnul(url, ':') + 1, &error) ==
            SIMBA_OK) {
            for (size_t n = 0; n < s.url.host_count; n++) {
                assert_null(strchr(s.url.hosts[n].name, 'Z'));
            }
            assert_null(strchr(s.url.path, 'Z'));
        }
        if (!simba__url_has_secret(url) || strchr(shown, 'Z') != NULL ||
            strchr(error.message, 'Z') != NULL) {
            fail_msg("%s: %s: %s", url, shown, error.message);
        }
    }
}
