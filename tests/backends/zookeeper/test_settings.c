/* What the URL says. */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixtures/unit_test.h"

static simba__zk_settings settings;
static simba_error error;

/* --- the URL ------------------------------------------------------------- */

TEST(test_url__names_hosts_and_chroot)
{
    assert_int_equal(simba__zk_settings_init(
                         &settings, "//a,b:99,[::1],[::1]:7/x/y/", &error),
                     SIMBA_OK);
    assert_int_equal(settings.servers.url.host_count, 4);
    assert_int_equal(settings.servers.url.hosts[0].port, 2181);
    assert_int_equal(settings.servers.url.hosts[1].port, 99);
    assert_string_equal(settings.servers.url.hosts[2].name, "::1");
    assert_int_equal(settings.servers.url.hosts[2].port, 2181);
    assert_int_equal(settings.servers.url.hosts[3].port, 7);
    assert_string_equal(settings.servers.url.path, "/x/y");
    assert_string_equal(settings.base, "/x/y/simba");
    assert_null(settings.auth);
    assert_int_equal(settings.acl, SIMBA__ZK_ACL_OPEN);
    simba__zk_settings_fini(&settings);
}

TEST(test_url__may_want_tls)
{
    assert_int_equal(simba__zk_settings_init(&settings, "//h?tls=on", &error),
                     SIMBA_OK);
    assert_true(settings.servers.tls.is_on && settings.servers.tls.is_verified);
    simba__zk_settings_fini(&settings);
}

TEST(test_url__has_credentials)
{
    assert_int_equal(
        simba__zk_settings_init(&settings, "//ann:p%40ss@h?acl=shared", &error),
        SIMBA_OK);
    assert_string_equal(settings.auth, "ann:p@ss");
    assert_string_equal(settings.base, "/simba");
    assert_int_equal(settings.acl, SIMBA__ZK_ACL_SHARED);
    simba__zk_settings_fini(&settings);
}

static void expect_refused(const char *rest, int code)
{
    assert_int_equal(simba__zk_settings_init(&settings, rest, &error), code);
    assert_null(strstr(error.message, "secret"));
    simba__zk_settings_fini(&settings);
}

TEST(test_url__is_refused_when_wrong)
{
    expect_refused("h:2181", SIMBA_EINVAL);
    expect_refused("///chroot", SIMBA_EINVAL);
    expect_refused("//h/a//b", SIMBA_EINVAL);
    expect_refused("//h:", SIMBA_EINVAL);
    expect_refused("//h:zk", SIMBA_EINVAL);
    expect_refused("//h:0,i", SIMBA_EINVAL);
    expect_refused("//h,i:65536", SIMBA_EINVAL);
    expect_refused("//:2181", SIMBA_EINVAL);
    expect_refused("//ann:a?secret@h", SIMBA_EINVAL);
    expect_refused("//ann:1/secret@h", SIMBA_EINVAL);
    expect_refused("//h?acl=creator", SIMBA_EINVAL);
    expect_refused("//ann:secret@h?acl=any", SIMBA_EINVAL);
    expect_refused("//ann:secret@h?timeout=1", SIMBA_EINVAL);
    expect_refused("//ann:secret%zz@h", SIMBA_EINVAL);
    expect_refused("//ann:secret@h?ca=/nonexistent", SIMBA_EINVAL);
    expect_refused("//ann@h?password_file=/nonexistent", SIMBA_EMISCONFIG);
}

TEST(test_url__names_a_password_file)
{
    char path[] = "/tmp/simba-zookeeper-XXXXXX", rest[64];
    int fd = mkstemp(path);

    assert_int_equal(write(fd, "secret\n", 7), 7);
    snprintf(rest, sizeof rest, "//ann@h?password_file=%s", path);
    assert_int_equal(simba__zk_settings_init(&settings, rest, &error),
                     SIMBA_OK);
    assert_string_equal(settings.auth, "ann:secret");
    simba__zk_settings_fini(&settings);
    assert_int_equal(fchmod(fd, 0644), 0); /* others can read it */
    expect_refused(rest, SIMBA_EMISCONFIG);
    snprintf(rest, sizeof rest, "//ann:secret@h?password_file=%s", path);
    expect_refused(rest, SIMBA_EINVAL);
    close(fd);
    unlink(path);
}
