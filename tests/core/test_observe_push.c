/* The observation machine: changes that the store pushes. */
#include "observe_driver.h"

static void push(const char *id, uint64_t token, uint64_t ended)
{
    feed_owner((struct simba__observe_event){.type = SIMBA__OBSERVE_PUSHED,
                                             .now_ms = o.now_ms + 1,
                                             .ended = ended},
               id, token);
}

TEST(test_observe__push_that_follows_is_told_without_a_read)
{
    begin();
    read_after("", 0, 0, 105);
    push("a", 1, 0);
    expect_change("", "a");
    push("", 0, 1);
    expect_change("a", "");
    push("b", 2, 1);
    expect_change("", "b");
    push("c", 3, 2); /* that b had ended was lost */
    expect_change("b", "c");
    assert_false(up.has_gap);
    assert_false(up.read);
    assert_int_equal(simba__observe_wake_at(&o), o.now_ms + 1000);
}

TEST(test_observe__push_that_does_not_follow_makes_it_look)
{
    begin();
    read_after("a", 1, 0, 105);
    push("c", 3, 2);
    assert_false(up.changed);
    assert_true(up.read);
    read_after("c", 3, 2, 120);
    expect_change("a", "c");
    assert_true(up.has_gap);
    push("", 0, 9);
    assert_true(up.read);
}

TEST(test_observe__late_and_doubled_pushes_are_no_news)
{
    begin();
    read_after("a", 1, 0, 105);
    push("b", 2, 1);
    expect_change("a", "b");
    push("", 0, 1); /* the end of a, behind the beginning of b */
    assert_false(up.changed || up.read);
    push("b", 2, 1);
    assert_false(up.changed || up.read);
    push("", 0, 2);
    expect_change("b", "");
    push("", 0, 2);
    assert_false(up.changed || up.read);
    push("b", 2, 1); /* it has ended, and does not begin again */
    assert_false(up.changed || up.read);
}

TEST(test_observe__answer_older_than_a_push_is_no_news)
{
    begin();
    read_after("a", 1, 0, 105);
    happen(SIMBA__OBSERVE_TIMER, 1105);
    assert_true(up.read);
    push("", 0, 1);
    expect_change("a", "");
    read_after("a", 1, 0, 1110); /* seen before it was released */
    assert_false(up.changed);
    happen(SIMBA__OBSERVE_TIMER, simba__observe_wake_at(&o));
    push("b", 2, 1);
    expect_change("", "b");
    read_after("", 0, 1, o.now_ms + 1);
    assert_false(up.changed);
    poll_finds("b", 2, 1);
    assert_false(up.changed);
}

/* Only what overtook a push is distrusted: a store may have lost its data. */
TEST(test_observe__read_is_believed_otherwise)
{
    begin();
    read_after("b", 9, 8, 105);
    poll_finds("a", 2, 1);
    expect_change("b", "a");
    assert_true(up.has_gap);
}

TEST(test_observe__push_before_the_first_answer_is_a_wake)
{
    begin();
    push("a", 1, 0);
    assert_false(up.changed);
    read_after("", 0, 0, 110);
    assert_true(up.read); /* once more */
    push("", 0, 0);       /* of a store that knows nothing */
    assert_false(up.changed);
    happen(SIMBA__OBSERVE_STOP, 120);
    push("a", 1, 0);
    assert_false(up.changed || up.read);
}
