#define _GNU_SOURCE
#include "kit/secret.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixtures/unit_test.h"

static char directory[] = "/tmp/simba-secret-XXXXXX";
static char path[64];
static simba_error error;

static int set_up(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/password", directory);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    rmdir(directory);
    return 0;
}

static void write_it(const char *bytes, size_t count, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, count), count);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void holds(const char *text, const char *password)
{
    char *secret = NULL;

    write_it(text, strlen(text), 0640);
    assert_int_equal(simba__secret_read(path, &secret, &error), SIMBA_OK);
    assert_string_equal(secret, password);
    simba__secret_free(secret);
}

static void refused(int code, const char *words)
{
    char *secret = NULL;

    if (simba__secret_read(path, &secret, &error) != code ||
        strncmp(error.message, path, strlen(path)) != 0 ||
        strstr(error.message, words) == NULL) {
        fail_msg("%d: %s", error.code, error.message);
    }
    assert_null(secret);
    assert_null(strstr(error.message, "hunter2"));
}

TEST(test_secret__is_the_first_line)
{
    holds("hunter2", "hunter2");
    holds("hunter2\n", "hunter2");
    holds("hunter2\r\n", "hunter2");
    holds(" hunter2 \nmore\n", " hunter2 ");
}

TEST(test_secret__must_be_there)
{
    write_it("", 0, 0600);
    refused(SIMBA_EMISCONFIG, "empty");
    write_it("\nhunter2", 8, 0600);
    refused(SIMBA_EMISCONFIG, "first line is empty");
    write_it("hunter2\n\0x", 10, 0600);
    refused(SIMBA_EMISCONFIG, "not a text");
    unlink(path);
    refused(SIMBA_EMISCONFIG, "No such file");
}

TEST(test_secret__is_not_for_others)
{
    write_it("hunter2", 7, 0604);
    refused(SIMBA_EMISCONFIG, "others can read this password; chmod");
    write_it("hunter2", 7, 0602);
    refused(SIMBA_EMISCONFIG, "anybody can write");
}

/* As root, nothing is refused for its owner's sake. */
TEST(test_secret__is_ours_or_roots)
{
    char *secret = NULL;

    if (geteuid() != 0) {
        skip();
    }
    assert_int_equal(chmod(directory, 0755), 0);
    write_it("hunter2", 7, 0640);
    assert_int_equal(chown(path, 12345, 12346), 0);
    assert_int_equal(simba__secret_read(path, &secret, &error), SIMBA_OK);
    simba__secret_free(secret);
    assert_int_equal(setegid(12346), 0);
    assert_int_equal(seteuid(12347), 0);
    refused(SIMBA_EMISCONFIG, "belongs to somebody else");
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(setegid(0), 0);
    assert_int_equal(chown(path, 0, 12346), 0);
    assert_int_equal(setegid(12346), 0);
    assert_int_equal(seteuid(12347), 0);
    assert_int_equal(simba__secret_read(path, &secret, &error), SIMBA_OK);
    simba__secret_free(secret);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(setegid(0), 0);
    assert_int_equal(chown(path, 0, 0), 0);
}

TEST(test_secret__of_endless_files_little_is_read)
{
    char *large = calloc(1, 70000);
    char *secret = NULL;

    memset(large, 'a', 70000);
    write_it(large, 65536, 0600);
    assert_int_equal(simba__secret_read(path, &secret, &error), SIMBA_OK);
    simba__secret_free(secret);
    write_it(large, 65537, 0600);
    refused(SIMBA_EMISCONFIG, "64 KiB");
    free(large);
    unlink(path);
    alarm(10); /* a FIFO that is waited for */
    assert_int_equal(mkfifo(path, 0600), 0);
    refused(SIMBA_EMISCONFIG, "not a regular file");
    unlink(path);
    assert_int_equal(symlink("/dev/zero", path), 0);
    refused(SIMBA_EMISCONFIG, "not a regular file");
    unlink(path);
    assert_int_equal(symlink("/tmp", path), 0);
    refused(SIMBA_EMISCONFIG, "Is a directory");
    alarm(0);
}

/* --- URLs ---------------------------------------------------------------- */

static void shown(const char *url, const char *wanted)
{
    char room[128] = "";
    size_t length = strlen(url);

    memcpy(room, url, length);
    simba__url_hide(room);
    assert_string_equal(room, wanted);
    for (size_t i = strlen(room); i < length; i++) {
        assert_int_equal(room[i], '\0');
    }
}

TEST(test_secret__is_hidden_in_urls)
{
    shown("redis://h:1", "redis://h:1");
    shown("redis://u:pw@h:1/2", "redis://h:1/2");
    shown("postgres://u:pw/x@h/d", "postgres://h/d");
    shown("postgres://u:pw@x@h/d", "postgres://h/d");
    shown("postgres://u:p?w@h/d?a=b", "postgres://h/d?a=*");
    shown("redis:u:pw@h", "redis:h");
    shown("fault:seed=1:redis://u:pw@h", "fault:seed=1:redis://h");
    shown("mysql:///db?socket=/a&password=pw",
          "mysql:///db?socket=*&password=*");
    shown("mysql:///db?pw&=pw&x=", "mysql:///db?*&=*&x=");
    shown("redis:u:p://w@h", "redis:h");
    shown("u:p/w@h", "u:h");
    shown("fault:redis://u:p/w@h", "fault:redis://h");
    shown("sqlite:/a@b/c.db", "sqlite:/a@b/c.db");
    shown("sqlite:a@b", "sqlite:a@b");
    shown("postgres:host=h password=p@w port=1", "postgres:host=h password=*");
    shown("postgres:sslPassword = 'p w' host=h", "postgres:sslPassword =*");
    shown("postgres:password", "postgres:password");
    shown("sqlite:/password=1/c.db", "sqlite:/password=1/c.db");
    shown("redis://u%3Apw%40h:1/2", "redis://h:1/2");
    shown("redis://u:pw%40h:1/2%40", "redis://h:1/2%40");
    shown("plain", "plain");
    shown("", "");
}

TEST(test_secret__is_seen_in_urls)
{
    assert_true(simba__url_has_secret("redis://u:pw@h"));
    assert_true(simba__url_has_secret("redis://:p/w@h"));
    assert_true(simba__url_has_secret("redis:u:pw@h"));
    assert_true(simba__url_has_secret("redis://h?Password=x"));
    assert_false(simba__url_has_secret("redis://u@h:1/2?db=3"));
    assert_true(simba__url_has_secret("u:p/w@h"));
    assert_false(simba__url_has_secret("sqlite:/a/b.db"));
    assert_false(simba__url_has_secret("sqlite:a@b"));
    assert_true(simba__url_has_secret("postgres:host=h password=x"));
    assert_false(simba__url_has_secret("name"));
}

int main(void)
{
    return run_unit_tests(set_up, tear_down);
}
