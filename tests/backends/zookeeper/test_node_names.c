/* Names of nodes, the order of latches, serial numbers. */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixtures/unit_test.h"

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

TEST(test_names__what_zookeeper_takes_stays)
{
    expect_escaped("nightly-report", "nightly-report");
    expect_escaped("a b{c}:'d'\"e\"", "a b{c}:'d'\"e\"");
    expect_escaped("100%", "100%");
    expect_escaped("50% off", "50% off");
    expect_escaped("l\xc3\xb6we", "l\xc3\xb6we");
    expect_escaped("...", "...");
}

TEST(test_names__what_it_refuses_is_escaped)
{
    expect_escaped("a/b", "a%2Fb");
    expect_escaped(".", "%2E");
    expect_escaped("..", "%2E%2E");
    expect_escaped("\xf0\x9f\xa6\x81", "%F0%9F%A6%81"); /* two UTF-16 units */
    expect_escaped("\xee\x80\x80", "%EE%80%80");        /* private use */
    expect_escaped("\xc2\x85", "%C2%85");
}

TEST(test_names__no_two_mutexes_share_a_node)
{
    expect_escaped("%2F", "%252F");
    expect_escaped("%/", "%%2F");
    expect_escaped("%2/", "%2%2F");
    expect_escaped("%25", "%2525");
}

TEST(test_names__attempt_is_a_uuid_of_version_4)
{
    char prefix[SIMBA__ZK_PREFIX_SIZE];

    simba__zk_prefix((simba_attempt){UINT64_C(0x0123456789abcdef),
                                     UINT64_C(0x1122334455667788)},
                     0, prefix);
    assert_string_equal(prefix,
                        "_c_01234567-89ab-4def-9122-334455667788-latch-");
}

TEST(test_names__order_is_by_what_follows_the_last_latch)
{
    char *children[] = {"_c_b-latch-0000000007", "stray",
                        "x-latch-9-latch-0000000003", "_c_a-latch-0000000010"};
    simba__zk_queue queue;

    simba__zk_queue_read(&queue, children, 4);
    assert_int_equal(queue.count, 3);
    assert_string_equal(queue.nodes[0], "x-latch-9-latch-0000000003");
    assert_string_equal(queue.nodes[1], "_c_b-latch-0000000007");
    assert_string_equal(queue.nodes[2], "_c_a-latch-0000000010");
    assert_string_equal(queue.nodes[3], "stray");
    assert_int_equal(simba__zk_find_prefix(&queue, "_c_a-latch-"), 2);
    assert_int_equal(simba__zk_find_prefix(&queue, "_c_c-latch-"), -1);
    assert_int_equal(simba__zk_find_prefix(&queue, "stray"), -1);
}

TEST(test_names__of_two_that_begin_alike_the_last_made_counts)
{
    char *children[] = {"_c_a-latch-0000000007", "_c_a-latch-0000000003",
                        "_c_b-latch-0000000009"};
    simba__zk_queue queue;

    simba__zk_queue_read(&queue, children, 3);
    assert_int_equal(simba__zk_find_prefix(&queue, "_c_a-latch-"), 1);
    children[0] = "_c_a-latch-2147483647";
    children[1] = "_c_a-latch--2147483648"; /* and then they wrapped */
    simba__zk_queue_read(&queue, children, 3);
    assert_string_equal(
        queue.nodes[simba__zk_find_prefix(&queue, "_c_a-latch-")],
        "_c_a-latch--2147483648");
}

TEST(test_names__slots_stand_before_the_latch)
{
    char prefix[SIMBA__ZK_PREFIX_SIZE];

    simba__zk_prefix((simba_attempt){0, 1}, UINT32_MAX, prefix);
    assert_string_equal(
        prefix, "_c_00000000-0000-4000-8000-000000000001-n4294967295-latch-");
    assert_true(simba__zk_slots(prefix) == UINT32_MAX);
    assert_int_equal(simba__zk_slots("_c_0-n3-latch-0000000002"), 3);
    assert_int_equal(simba__zk_slots("-n12-latch-"), 12);
}

/* Of what says it otherwise nobody suffers another. */
TEST(test_names__what_says_no_slots_is_exclusive)
{
    static const char *const names[] = {"_c_0-latch-0000000002",
                                        "_c_0-n1-latch-2",
                                        "_c_0-n0-latch-2",
                                        "_c_0-n-latch-2",
                                        "_c_0-n3x-latch-2",
                                        "_c_0-n-3-latch-2",
                                        "_c_0-n4294967296-latch-2",
                                        "_c_0-n00000000003-latch-2",
                                        "_c_0-n3-latch-1-latch-2",
                                        "n3-latch-2",
                                        "-3-latch-2",
                                        "latch-2",
                                        "_c_0-n3latch-2",
                                        "_c_0-n3-",
                                        "_c_0-4000-8000-000000000001-latch-"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(simba__zk_slots(names[i]), 0);
    }
}

/* Curator's latch is one that suffers nobody. */
TEST(test_names__latches_with_slots_stand_in_the_same_queue)
{
    char *children[] = {"_c_c-n5-latch-0000000004", "_c_0-n3-latch-0000000002",
                        "stray", "_c_a-latch-0000000003",
                        "_c_b-n12-latch-0000000001"};
    simba__zk_queue queue;
    simba_crowd_watched watched;

    simba__zk_queue_read(&queue, children, 5);
    assert_int_equal(queue.count, 4);
    assert_int_equal(queue.owned, 2);
    assert_int_equal(queue.slots, 3);
    assert_false(queue.is_plain);
    assert_int_equal(simba__zk_find(&queue, 4), 2);
    watched = simba__zk_watched(&queue, 2);
    assert_string_equal(queue.nodes[watched.other], "_c_0-n3-latch-0000000002");
    watched = simba__zk_watched(&queue, 3);
    assert_string_equal(queue.nodes[watched.other], "_c_a-latch-0000000003");
    assert_int_equal(watched.begin, watched.end);
}

/* --- the queue ----------------------------------------------------------- */

enum { QUEUE = 12, NODE_TEXT = 40 };

/* Every third to every second of twelve is there, in any order. */
TEST(test_names__each_is_found_where_it_stands)
{
    unsigned random = 1;

    for (int round = 0; round < 20000; round++) {
        char texts[QUEUE + 1][NODE_TEXT];
        char *children[QUEUE + 1];
        bool is_there[QUEUE];
        simba__zk_queue queue;
        int count = 0, before = 0;

        for (unsigned i = 0; i < QUEUE; i++) {
            random = random * 1103515245 + 12345;
            is_there[i] = random >> 17 & 1;
            if (is_there[i]) {
                int at = (int)((random >> 20) % (unsigned)(count + 1));

                snprintf(texts[count], NODE_TEXT, "_c_%u-latch-%010u", i, i);
                children[count] = children[at];
                children[at] = texts[count++];
            }
        }
        if (random >> 18 & 1) {
            children[count++] = strcpy(texts[QUEUE], "lock-0000000001");
        }
        simba__zk_queue_read(&queue, children, count);
        assert_true(queue.is_plain);
        assert_int_equal(queue.owned, queue.count > 0);
        for (unsigned i = 0; i < QUEUE; i++) {
            int own = simba__zk_find(&queue, i + 1);

            assert_int_equal(own, is_there[i] ? before : -1);
            if (own > 0) {
                simba_crowd_watched watched = simba__zk_watched(&queue, own);

                assert_int_equal(watched.other, own - 1);
                assert_int_equal(watched.begin, watched.end);
            }
            before += is_there[i];
        }
        assert_int_equal(queue.count, before);
    }
}

/* Their order is not that of the numbers, or it is not the order that counts.
 */
TEST(test_names__queue_with_other_latches_is_not_plain)
{
    static const char *const others[] = {
        "_c_x-n2-latch-0000000007", "_c_x-latch--2147483648",
        "_c_x-latch-00000007", "_c_x-latch-", "_c_x-latch-00000000070"};

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        char plain[] = "_c_y-latch-0000000002", *children[2] = {plain, NULL};
        simba__zk_queue queue;

        simba__zk_queue_read(&queue, children, 1);
        assert_true(queue.is_plain);
        children[1] = strdup(others[i]);
        simba__zk_queue_read(&queue, children, 2);
        assert_false(queue.is_plain);
        assert_true(simba__zk_find(&queue, 3) >= 0);
        free(queue.nodes[queue.nodes[0] == plain]);
    }
}

/* A server counts with 32 bits; what others write may be any number. */
TEST(test_names__position_is_never_nothing)
{
    static const char *const nodes[] = {"stray",
                                        "latch-",
                                        "latch-x",
                                        "latch-0000000000",
                                        "latch-18446744073709551615",
                                        "latch--000000001"};
    char sequence[SIMBA__ZK_SEQUENCE_SIZE];

    for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++) {
        assert_true(simba__zk_position(nodes[i]) > 0);
    }
    /* One that wrapped comes after all that did not, whatever its order. */
    assert_true(simba__zk_position("latch-2147483647") <
                simba__zk_position("latch--2147483648"));
    simba__zk_sequence_of(simba__zk_position("latch--2147483648"), sequence);
    assert_string_equal(sequence, "-2147483648");
    simba__zk_sequence_of(simba__zk_position("latch-2147483647"), sequence);
    assert_string_equal(sequence, "2147483647");
}

/* --- serial numbers ------------------------------------------------------ */

static simba__zk_serials serials;

static void begin_serials(void)
{
    serials = (simba__zk_serials){0};
}

static void see(int64_t czxid, uint64_t made, uint64_t mutexes)
{
    simba__zk_serials_read(&serials, &(simba__zk_view){czxid, made, mutexes});
}

static void watch_is_set(int64_t czxid, uint64_t made)
{
    simba__zk_serials_watched(&serials, &(simba__zk_view){czxid, made, 0});
}

static void expect_next(uint64_t expected)
{
    assert_int_equal(serials.base + serials.seen.latches_made + 1, expected);
}

static uint64_t children_made(int32_t changes, int32_t present)
{
    simba__zk_stat stat = {.cversion = changes, .child_count = present};

    return simba__zk_children_made(&stat);
}

TEST(test_serials__children_are_counted)
{
    assert_int_equal(children_made(0, 0), 0);
    assert_int_equal(children_made(1, 1), 1); /* one came */
    assert_int_equal(children_made(2, 0), 1); /* and went */
    assert_int_equal(children_made(7, 3), 5); /* five came, two went */
    begin_serials();
    see(10, 5, 1);
    assert_int_equal(serials.base + 5, 5);
    expect_next(6);
}

TEST(test_serials__go_on_in_the_next_life)
{
    begin_serials();
    see(10, 2, 1);
    watch_is_set(10, 3); /* one more since we looked */
    simba__zk_serials_changed(&serials, true);
    see(0, 0, 1);
    expect_next(4);
    watch_is_set(0, 0);
    simba__zk_serials_changed(&serials, false);
    see(20, 1, 2); /* one has come */
    assert_int_equal(serials.base + 1, 4);
    expect_next(5);
}

TEST(test_serials__go_on_if_a_life_was_not_missed)
{
    begin_serials();
    see(10, 2, 1);
    watch_is_set(10, 2);
    simba__zk_serials_changed(&serials, true);
    see(20, 1, 2); /* gone and made again between two looks */
    assert_int_equal(serials.base + 1, 3);
}

TEST(test_serials__leave_one_out_after_an_unseen_end)
{
    begin_serials();
    see(10, 2, 1);
    watch_is_set(10, 2);
    simba__zk_serials_changed(&serials, false); /* somebody came */
    simba__zk_serials_changed(&serials, true); /* gone before it was set anew */
    see(0, 0, 1);
    expect_next(4); /* not 3 */
}

TEST(test_serials__leave_one_out_after_a_lost_connection)
{
    begin_serials();
    see(10, 2, 1);
    watch_is_set(10, 2);
    simba__zk_serials_changed(&serials, false);
    see(0, 0, 1);
    expect_next(4);
}

TEST(test_serials__leave_one_out_where_a_life_may_be_missed)
{
    begin_serials();
    see(0, 0, 5);
    watch_is_set(0, 0);
    simba__zk_serials_changed(&serials, false);
    see(20, 1, 7); /* this one twice, or another beside it */
    assert_int_equal(serials.base + 1, 2);
}

TEST(test_serials__others_do_not_count_while_there_is_none)
{
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
