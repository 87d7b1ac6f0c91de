/* The parts of the ZooKeeper store that need no server: names, the order of
 * latches, how long a session is certain, serial numbers, the URL. */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* --- names --------------------------------------------------------------- */

static void expect_escaped(const char *mutex, const char *expected)
{
    char escaped[SIMBA__ZK_ESCAPED_SIZE];
    char back[SIMBA_MUTEX_MAX_BYTES + 1];

    simba__zk_escape(mutex, escaped);
    assert_string_equal(escaped, expected);
    assert_true(simba__zk_unescape(escaped, back));
    assert_string_equal(back, mutex);
}

static void test_names__what_zookeeper_takes_stays(void **state)
{
    (void)state;
    expect_escaped("nightly-report", "nightly-report");
    expect_escaped("a b{c}:'d'\"e\"", "a b{c}:'d'\"e\"");
    expect_escaped("100%", "100%");
    expect_escaped("50% off", "50% off");
    expect_escaped("l\xc3\xb6we", "l\xc3\xb6we");
    expect_escaped("...", "...");
}

static void test_names__what_it_refuses_is_escaped(void **state)
{
    (void)state;
    expect_escaped("a/b", "a%2Fb");
    expect_escaped(".", "%2E");
    expect_escaped("..", "%2E%2E");
    expect_escaped("\xf0\x9f\xa6\x81", "%F0%9F%A6%81"); /* two UTF-16 units */
    expect_escaped("\xee\x80\x80", "%EE%80%80");        /* private use */
    expect_escaped("\xc2\x85", "%C2%85");
}

static void test_names__no_two_mutexes_share_a_node(void **state)
{
    (void)state;
    expect_escaped("%2F", "%252F");
    expect_escaped("%/", "%%2F");
    expect_escaped("%2/", "%2%2F");
    expect_escaped("%25", "%2525");
}

static void test_names__attempt_is_a_uuid_of_version_4(void **state)
{
    char prefix[SIMBA__ZK_PREFIX_SIZE];

    (void)state;
    simba__zk_prefix((simba_attempt){UINT64_C(0x0123456789abcdef),
                                     UINT64_C(0x1122334455667788)},
                     prefix);
    assert_string_equal(prefix,
                        "_c_01234567-89ab-4def-9122-334455667788-latch-");
}

static void test_names__order_is_by_what_follows_the_last_latch(void **state)
{
    char *children[] = {"_c_b-latch-0000000007", "stray",
                        "x-latch-9-latch-0000000003", "_c_a-latch-0000000010"};
    struct simba__zk_standing where;

    (void)state;
    simba__zk_stand(children, 4, "_c_a-latch-", &where);
    assert_int_equal(where.own, 3);
    assert_int_equal(where.lowest, 2);
    assert_int_equal(where.before, 0);
    assert_int_equal(where.latches, 3);
    simba__zk_stand(children, 2, "_c_a-latch-", &where);
    assert_int_equal(where.own, -1);
    assert_int_equal(where.lowest, 0);
}

/* A later client says before "latch-" how many may own. */
static void test_names__latch_with_slots_stands_in_the_same_queue(void **state)
{
    char *children[] = {"_c_01234567-89ab-4def-9122-334455667788-n3-"
                        "latch-0000000002",
                        "_c_a-latch-0000000003", "_c_b-n12-latch-0000000001"};
    struct simba__zk_standing where;

    (void)state;
    simba__zk_stand(children, 3, "_c_a-latch-", &where);
    assert_int_equal(where.own, 1);
    assert_int_equal(where.before, 0);
    assert_int_equal(where.lowest, 2);
    assert_int_equal(where.latches, 3);
    assert_int_equal(simba__zk_position(children[0]), 3);
}

/* --- certainty ----------------------------------------------------------- */

enum { T = 16000, QUARTER = T / 4 };

static struct simba__zk_certainty certainty;

static void test_certainty__new_session_is_certain_at_once(void **state)
{
    (void)state;
    simba__zk_certainty_init(&certainty, T, 1000);
    assert_int_equal(simba__zk_certainty_lease(&certainty, 1000), T);
    assert_int_equal(simba__zk_certainty_lease(&certainty, 2000),
                     T - 1000 - 21);
    assert_int_equal(simba__zk_certainty_lease(&certainty, 1000 + T), 1);
}

static void test_certainty__one_alone_promises_nothing(void **state)
{
    (void)state;
    simba__zk_certainty_init(&certainty, T, 0);
    simba__zk_certainty_answered(&certainty, ZOK, 9000, 9010);
    assert_int_equal(simba__zk_certainty_lease(&certainty, 9000),
                     T - 9000 - 189);
}

static void test_certainty__two_count_from_the_first(void **state)
{
    (void)state;
    simba__zk_certainty_init(&certainty, T, 0);
    simba__zk_certainty_answered(&certainty, ZOK, 9000, 9010);
    simba__zk_certainty_answered(&certainty, ZOK, 9010 + QUARTER - 1,
                                 9020 + QUARTER);
    assert_int_equal(certainty.since_ms, 0); /* not far enough apart */
    simba__zk_certainty_answered(&certainty, ZOK, 9010 + QUARTER,
                                 9020 + QUARTER);
    assert_int_equal(certainty.since_ms, 9000);
}

static void test_certainty__slow_answer_is_counted_from_when_it_came(
    void **state)
{
    (void)state;
    simba__zk_certainty_init(&certainty, T, 0);
    simba__zk_certainty_answered(&certainty, ZOK, 9000, 9000 + QUARTER);
    simba__zk_certainty_answered(&certainty, ZOK, 9000 + QUARTER,
                                 9001 + QUARTER);
    assert_int_equal(certainty.since_ms, 0);
}

/* However often writes come, what is certain is what the best pair says, less
 * the distance of two marks. */
static void test_certainty__many_are_as_good_as_few(void **state)
{
    (void)state;
    simba__zk_certainty_init(&certainty, T, 0);
    for (int64_t at = 0; at < 100000; at += 7) {
        simba__zk_certainty_answered(&certainty, ZOK, at, at + 3);
        if (at > QUARTER + 10) {
            assert_true(certainty.since_ms <= at - QUARTER - 3);
            assert_true(certainty.since_ms >= at - QUARTER - T / 16 - 20);
        }
    }
}

/* Quorum writes every T/4 leave who becomes the lowest at any time with enough.
 */
static void test_certainty__every_quarter_leaves_three_eighths(void **state)
{
    (void)state;
    for (int64_t late = 0; late < QUARTER; late += 50) {
        int64_t now;

        simba__zk_certainty_init(&certainty, T, -10 * T);
        for (int i = 0; i <= 8; i++) {
            simba__zk_certainty_answered(&certainty, ZOK, i * QUARTER,
                                         i * QUARTER + 2);
        }
        now = 8 * QUARTER + late;
        simba__zk_certainty_answered(&certainty, ZOK, now, now + 2);
        assert_true(simba__zk_certainty_lease(&certainty, now) >= T * 3 / 8);
    }
}

/* A follower says so by itself, however long it has been cut off. */
static void test_certainty__only_what_the_leader_answers_counts(void **state)
{
    static const int others[] = {
        ZTHROTTLEDOP,      ZNOTREADONLY,      ZCONNECTIONLOSS,
        ZSESSIONMOVED,     ZMARSHALLINGERROR, ZAUTHFAILED,
        ZOPERATIONTIMEOUT, ZUNIMPLEMENTED,    ZRECONFIGINPROGRESS};

    (void)state;
    assert_true(simba__zk_is_by_quorum(ZOK));
    assert_true(simba__zk_is_by_quorum(ZNONODE));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_false(simba__zk_is_by_quorum(others[i]));
    }
}

/* --- the end of the numbers ---------------------------------------------- */

static void test_names__counter_that_wrapped_is_seen(void **state)
{
    (void)state;
    assert_false(simba__zk_is_wrapped("_c_x-latch-2147483647"));
    assert_true(simba__zk_is_wrapped("_c_x-latch--2147483648"));
    assert_false(simba__zk_is_wrapped("-2147483648"));
}

/* --- serial numbers ------------------------------------------------------ */

static struct simba__zk_serials serials;

static void begin_serials(void)
{
    serials = (struct simba__zk_serials){0};
}

static void see(int64_t czxid, uint64_t made, uint64_t mutexes)
{
    simba__zk_serials_read(&serials,
                           &(struct simba__zk_view){czxid, made, mutexes});
}

static void watch_is_set(int64_t czxid, uint64_t made)
{
    simba__zk_serials_watched(&serials,
                              &(struct simba__zk_view){czxid, made, 0});
}

static void expect_next(uint64_t expected)
{
    assert_int_equal(simba__zk_serial(&serials, serials.seen.latches_made + 1),
                     expected);
}

static uint64_t children_made(int32_t changes, int32_t present)
{
    struct Stat stat = {.cversion = changes, .numChildren = present};

    return simba__zk_children_made(&stat);
}

static void test_serials__children_are_counted(void **state)
{
    (void)state;
    assert_int_equal(children_made(0, 0), 0);
    assert_int_equal(children_made(1, 1), 1); /* one came */
    assert_int_equal(children_made(2, 0), 1); /* and went */
    assert_int_equal(children_made(7, 3), 5); /* five came, two went */
    begin_serials();
    see(10, 5, 1);
    assert_int_equal(simba__zk_serial(&serials, 5), 5);
    expect_next(6);
}

static void test_serials__go_on_in_the_next_life(void **state)
{
    (void)state;
    begin_serials();
    see(10, 2, 1);
    watch_is_set(10, 3); /* one more since we looked */
    simba__zk_serials_changed(&serials, true);
    see(0, 0, 1);
    expect_next(4);
    watch_is_set(0, 0);
    simba__zk_serials_changed(&serials, false);
    see(20, 1, 2); /* one has come */
    assert_int_equal(simba__zk_serial(&serials, 1), 4);
    expect_next(5);
}

static void test_serials__go_on_if_a_life_was_not_missed(void **state)
{
    (void)state;
    begin_serials();
    see(10, 2, 1);
    watch_is_set(10, 2);
    simba__zk_serials_changed(&serials, true);
    see(20, 1, 2); /* gone and made again between two looks */
    assert_int_equal(simba__zk_serial(&serials, 1), 3);
}

static void test_serials__leave_one_out_after_an_unseen_end(void **state)
{
    (void)state;
    begin_serials();
    see(10, 2, 1);
    watch_is_set(10, 2);
    simba__zk_serials_changed(&serials, false); /* somebody came */
    simba__zk_serials_changed(&serials, true); /* gone before it was set anew */
    see(0, 0, 1);
    expect_next(4); /* not 3 */
}

static void test_serials__leave_one_out_after_a_lost_connection(void **state)
{
    (void)state;
    begin_serials();
    see(10, 2, 1);
    watch_is_set(10, 2);
    simba__zk_serials_changed(&serials, false);
    see(0, 0, 1);
    expect_next(4);
}

static void test_serials__leave_one_out_where_a_life_may_be_missed(void **state)
{
    (void)state;
    begin_serials();
    see(0, 0, 5);
    watch_is_set(0, 0);
    simba__zk_serials_changed(&serials, false);
    see(20, 1, 7); /* this one twice, or another beside it */
    assert_int_equal(simba__zk_serial(&serials, 1), 2);
}

static void test_serials__others_do_not_count_while_there_is_none(void **state)
{
    (void)state;
    begin_serials();
    see(0, 0, 5);
    watch_is_set(0, 0);
    see(0, 0, 5); /* the watch was there */
    see(0, 0, 9);
    expect_next(1);
    simba__zk_serials_changed(&serials, false); /* it may have come and gone */
    see(0, 0, 10);
    expect_next(2);
}

/* --- hosts --------------------------------------------------------------- */

static void expect_hosts(const char *hosts, unsigned first, const char *want)
{
    char *got = simba__zk_hosts_from(hosts, first);

    assert_non_null(got);
    assert_string_equal(got, want);
    free(got);
}

static void test_hosts__each_comes_first_by_turns(void **state)
{
    (void)state;
    expect_hosts("a:1,b:2,c:3", 0, "a:1,b:2,c:3");
    expect_hosts("a:1,b:2,c:3", 1, "b:2,c:3,a:1");
    expect_hosts("a:1,b:2,c:3", 2, "c:3,a:1,b:2");
    expect_hosts("a:1,b:2,c:3", 3, "a:1,b:2,c:3");
    expect_hosts("[::1]:1", 7, "[::1]:1");
}

static void test_hosts__are_waited_for_longer_and_longer(void **state)
{
    (void)state;
    assert_int_equal(simba__zk_hosts_wait("a:1,b:2", 0, 16000), 800);
    assert_int_equal(simba__zk_hosts_wait("a:1,b:2", 1, 16000), 800);
    assert_int_equal(simba__zk_hosts_wait("a:1,b:2", 2, 16000), 1600);
    assert_int_equal(simba__zk_hosts_wait("a:1,b:2", 1000, 16000), 5333);
    assert_int_equal(simba__zk_hosts_wait("a:1,b:2", 1000, 900000), 204800);
    assert_int_equal(simba__zk_hosts_wait("a:1", 0, 16000), 5333);
}

/* --- the URL ------------------------------------------------------------- */

static struct simba__zk_settings settings;
static simba_error error;

static void test_url__names_hosts_and_chroot(void **state)
{
    (void)state;
    assert_int_equal(simba__zk_settings_init(
                         &settings, "//a,b:99,[::1],[::1]:7/x/y/", &error),
                     SIMBA_OK);
    assert_string_equal(settings.hosts, "a:2181,b:99,[::1]:2181,[::1]:7");
    assert_string_equal(settings.chroot, "/x/y");
    assert_string_equal(settings.base, "/x/y/simba");
    assert_null(settings.auth);
    assert_int_equal(settings.acl, SIMBA__ZK_ACL_OPEN);
    simba__zk_settings_fini(&settings);
}

static void test_url__has_credentials(void **state)
{
    (void)state;
    assert_int_equal(
        simba__zk_settings_init(&settings, "//ann:p%40ss@h?acl=shared", &error),
        SIMBA_OK);
    assert_string_equal(settings.auth, "ann:p@ss");
    assert_string_equal(settings.hosts, "h:2181");
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

static void test_url__is_refused_when_wrong(void **state)
{
    (void)state;
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
    expect_refused("//ann:secret@h?tls=on", SIMBA_EMISCONFIG);
    expect_refused("//ann@h?password_file=/nonexistent", SIMBA_EMISCONFIG);
}

static void test_url__names_a_password_file(void **state)
{
    char path[] = "/tmp/simba-zookeeper-XXXXXX", rest[64];
    int fd = mkstemp(path);

    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names__what_zookeeper_takes_stays),
        cmocka_unit_test(test_names__what_it_refuses_is_escaped),
        cmocka_unit_test(test_names__no_two_mutexes_share_a_node),
        cmocka_unit_test(test_names__attempt_is_a_uuid_of_version_4),
        cmocka_unit_test(test_names__order_is_by_what_follows_the_last_latch),
        cmocka_unit_test(test_names__latch_with_slots_stands_in_the_same_queue),
        cmocka_unit_test(test_names__counter_that_wrapped_is_seen),
        cmocka_unit_test(test_certainty__new_session_is_certain_at_once),
        cmocka_unit_test(test_certainty__one_alone_promises_nothing),
        cmocka_unit_test(test_certainty__two_count_from_the_first),
        cmocka_unit_test(
            test_certainty__slow_answer_is_counted_from_when_it_came),
        cmocka_unit_test(test_certainty__many_are_as_good_as_few),
        cmocka_unit_test(test_certainty__every_quarter_leaves_three_eighths),
        cmocka_unit_test(test_certainty__only_what_the_leader_answers_counts),
        cmocka_unit_test(test_serials__children_are_counted),
        cmocka_unit_test(test_serials__go_on_in_the_next_life),
        cmocka_unit_test(test_serials__go_on_if_a_life_was_not_missed),
        cmocka_unit_test(test_serials__leave_one_out_after_an_unseen_end),
        cmocka_unit_test(test_serials__leave_one_out_after_a_lost_connection),
        cmocka_unit_test(
            test_serials__leave_one_out_where_a_life_may_be_missed),
        cmocka_unit_test(test_serials__others_do_not_count_while_there_is_none),
        cmocka_unit_test(test_hosts__each_comes_first_by_turns),
        cmocka_unit_test(test_hosts__are_waited_for_longer_and_longer),
        cmocka_unit_test(test_url__names_hosts_and_chroot),
        cmocka_unit_test(test_url__has_credentials),
        cmocka_unit_test(test_url__is_refused_when_wrong),
        cmocka_unit_test(test_url__names_a_password_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
