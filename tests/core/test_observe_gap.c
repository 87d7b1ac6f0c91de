/* The observation machine: owners that it cannot have seen. */
#include "observe_driver.h"

TEST(test_observe__neighbours_have_no_gap)
{
    begin();
    read_after("a", 7, 5, 105); /* 5 was before our time */
    expect_change("", "a");
    assert_false(up.has_gap);
    poll_finds("", 0, 7);
    expect_change("a", "");
    assert_false(up.has_gap);
    poll_finds("b", 9, 7);
    expect_change("", "b");
    assert_false(up.has_gap);
    poll_finds("c", 11, 9); /* the free moment is no gap */
    expect_change("b", "c");
    assert_false(up.has_gap);
}

TEST(test_observe__a_missed_tenure_is_a_gap)
{
    begin();
    read_after("a", 7, 0, 105);
    poll_finds("c", 9, 8);
    expect_change("a", "c");
    assert_true(up.has_gap);
    poll_finds("", 0, 10); /* another between c and nobody */
    expect_change("c", "");
    assert_true(up.has_gap);
    poll_finds("d", 12, 11); /* and between nobody and d */
    expect_change("", "d");
    assert_true(up.has_gap);
    poll_finds("", 0, 12);
    assert_false(up.has_gap);
}

TEST(test_observe__who_came_and_went_is_told_as_a_gap)
{
    begin();
    read_after("", 0, 7, 105);
    assert_false(up.changed);
    poll_finds("", 0, 8);
    expect_change("", "");
    assert_true(up.has_gap);
    poll_finds("", 0, 8); /* once */
    assert_false(up.changed);
    poll_finds("a", 9, 8);
    expect_change("", "a");
    assert_false(up.has_gap);
}

TEST(test_observe__the_first_tenure_of_all_can_be_missed)
{
    begin();
    read_after("", 0, 0, 105); /* never owned */
    poll_finds("b", 2, 1);
    assert_true(up.has_gap);
    begin();
    read_after("", 0, 0, 105);
    poll_finds("a", 1, 0);
    assert_false(up.has_gap);
}

TEST(test_observe__a_renewal_is_no_gap)
{
    begin();
    read_after("a", 7, 5, 105);
    poll_finds("a", 7, 5);
    assert_false(up.changed);
    poll_finds("", 0, 7);
    assert_false(up.has_gap);
}

TEST(test_observe__guesses_where_the_store_does_not_say)
{
    begin();
    read_is("a", 1, 105);
    assert_false(up.has_gap);
    poll_finds("", 0, 0);
    assert_false(up.has_gap);
    poll_finds("b", 2, 0);
    assert_false(up.has_gap);
    poll_finds("c", 3, 0); /* from one to the other */
    assert_true(up.has_gap);
    happen(SIMBA__OBSERVE_TIMER, simba__observe_wake_at(&o));
    read_fails(o.now_ms + 5);
    poll_finds("", 0, 0); /* after a silence */
    assert_true(up.has_gap);
    poll_finds("d", 4, 0);
    assert_false(up.has_gap);
}

/* Between a free moment and the next owner there may have been another. */
TEST(test_observe__new_owner_of_a_mute_store_is_a_gap)
{
    begin();
    o.knows_ended = false;
    read_is("a", 1, 105);
    assert_false(up.has_gap);
    poll_finds("", 0, 0);
    assert_false(up.has_gap);
    poll_finds("b", 2, 0);
    assert_true(up.has_gap);
    poll_finds("b", 2, 0);
    assert_false(up.changed);
}

/* Owners of another implementation may count no tenures. */
TEST(test_observe__strangers_are_guessed)
{
    begin();
    read_after("a", 7, 5, 105);
    poll_finds("", 0, 7);
    assert_false(up.has_gap);
    poll_finds("stranger", 0, SIMBA__ENDED_UNKNOWN);
    expect_change("", "stranger");
    assert_true(up.has_gap);
    poll_finds("stranger", 0, SIMBA__ENDED_UNKNOWN);
    assert_false(up.changed);
    poll_finds("", 0, 7);
    expect_change("stranger", "");
    assert_false(up.has_gap);
    poll_finds("b", 9, 7);
    assert_false(up.has_gap);
    poll_finds("other stranger", 12, SIMBA__ENDED_UNKNOWN);
    assert_true(up.has_gap);
    poll_finds("c", 13, 12);
    assert_false(up.has_gap);
}

/* Several owners, each with the one that began before it. */
static void poll_finds_all(const simba_owner *owners,
                           size_t count,
                           uint64_t ended)
{
    struct simba__observe_event event = {.type = SIMBA__OBSERVE_READ,
                                         .owners = owners,
                                         .owner_count = count,
                                         .owned = (uint32_t)count,
                                         .ended = ended};

    happen(SIMBA__OBSERVE_TIMER, simba__observe_wake_at(&o));
    assert_true(up.read);
    event.seq = o.seq;
    event.now_ms = o.now_ms + 5;
    simba__observe_step(&o, &event, &up);
}

TEST(test_observe__several_that_began_one_by_one_are_no_gap)
{
    static const simba_owner all[] = {
        {.id = "a", .token = 3, .slots = 9, .slot = 0, .former = 1},
        {.id = "b", .token = 4, .slots = 9, .slot = 1, .former = 3},
        {.id = "c", .token = 6, .slots = 9, .slot = 2, .former = 4},
        {.id = "d", .token = 9, .slots = 9, .slot = 0, .former = 8}};

    begin();
    read_after("", 0, 1, 105);
    poll_finds_all(all, 2, 3);
    assert_true(up.changed && !up.has_gap);
    poll_finds_all(all, 2, 3);
    assert_false(up.changed);
    poll_finds_all(all, 3, 4);
    assert_true(up.changed && !up.has_gap);
    poll_finds_all(all + 1, 1, 6); /* a and c have ended */
    assert_true(up.changed && !up.has_gap);
    poll_finds_all(all + 1, 1, 8); /* one began and ended */
    assert_true(up.has_gap);
    poll_finds_all(all + 1, 1, 8);
    assert_false(up.changed);
    poll_finds_all(all + 1, 3, 8); /* c is back? whatever: d follows on 8 */
    assert_true(up.changed && !up.has_gap);
    poll_finds("", 0, 9);
    assert_true(up.changed && !up.has_gap);
}

TEST(test_observe__one_that_was_missed_among_several_is_a_gap)
{
    static const simba_owner all[] = {
        {.id = "a", .token = 3, .slots = 9, .slot = 0},
        {.id = "b", .token = 6, .slots = 9, .slot = 1, .former = 5}};

    begin();
    read_after("", 0, 0, 105);
    poll_finds_all(all, 1, 0);
    assert_true(up.changed && !up.has_gap);
    poll_finds_all(all, 2, 5);
    assert_true(up.has_gap);
}

/* A store may tell by a plain read only that there are several. */
TEST(test_observe__asks_for_all_when_not_all_were_told)
{
    static const simba_owner all[] = {
        {.id = "a", .token = 3, .slots = 9, .slot = 0},
        {.id = "b", .token = 4, .slots = 9, .slot = 1, .former = 3}};
    struct simba__observe_event event = {.type = SIMBA__OBSERVE_READ,
                                         .owners = all,
                                         .owner_count = 1,
                                         .owned = 2,
                                         .now_ms = 105,
                                         .ended = 3};

    begin();
    event.seq = o.seq;
    simba__observe_step(&o, &event, &up);
    assert_true(up.read && up.wants_all && !up.changed);
    event.seq = o.seq;
    event.owner_count = 2;
    simba__observe_step(&o, &event, &up);
    assert_true(up.changed && !up.read);
    poll_finds_all(all, 1, 4);
    assert_true(up.changed && !up.has_gap);
    happen(SIMBA__OBSERVE_TIMER, simba__observe_wake_at(&o));
    assert_true(up.read && !up.wants_all);
}

TEST(test_observe__owners_are_told_one_by_one)
{
    simba_owner room[8] = {{.id = "a", .token = 1, .slots = 9, .slot = 0},
                           {.id = "b", .token = 2, .slots = 9, .slot = 1},
                           {.id = "c", .token = 3, .slots = 9, .slot = 2}};
    simba_owner are[] = {{.id = "b", .token = 2, .slots = 9, .slot = 1},
                         {.id = "d", .token = 5, .slots = 9, .slot = 2},
                         {.id = "e", .token = 6, .slots = 9, .slot = 3}};
    simba_owner alone = {.id = "x", .token = 9};
    struct simba__owners told = {room, 3, 8}, now = {are, 3, 3};
    static const char *const steps[][2] = {{"a", ""}, {"c", "d"}, {"", "e"}};
    static const char *const others[][2] = {
        {"b", ""}, {"d", ""}, {"e", ""}, {"", "x"}};
    simba_owner from, to;

    for (size_t i = 0; i < 3; i++) {
        assert_true(simba__owners_step(&told, &now, &from, &to));
        assert_string_equal(from.id, steps[i][0]);
        assert_string_equal(to.id, steps[i][1]);
    }
    assert_false(simba__owners_step(&told, &now, &from, &to));
    now = (struct simba__owners){&alone, 1, 1};
    for (size_t i = 0; i < 4; i++) {
        assert_true(simba__owners_step(&told, &now, &from, &to));
        assert_string_equal(from.id, others[i][0]);
        assert_string_equal(to.id, others[i][1]);
    }
    assert_false(simba__owners_step(&told, &now, &from, &to));
}

/* The owner's number, or that of who comes next; and who is next in the queue,
 * 0: nobody waits. Tokens are ten times the number. */
static void numbered(const char *id, uint64_t turn, uint64_t waiter)
{
    uint64_t token = id[0] == '\0' ? 0 : 10 * turn;
    struct simba__observe_event event = {.type = SIMBA__OBSERVE_READ,
                                         .serial = turn};

    event.next_serial = waiter != 0 ? waiter : turn + (token != 0);

    happen(SIMBA__OBSERVE_TIMER, simba__observe_wake_at(&o));
    assert_true(up.read);
    event.seq = o.seq;
    event.now_ms = o.now_ms + 5;
    feed_owner(event, id, token);
}

/* A store may not know who was before, but whose turn it was to be next. */
TEST(test_observe__who_was_next_is_no_gap)
{
    begin();
    o.knows_ended = false;
    read_is("", 0, 105);
    numbered("", 1, 0);
    assert_false(up.changed);
    numbered("a", 1, 0);
    expect_change("", "a");
    assert_false(up.has_gap);
    numbered("a", 1, 3); /* 2 came and left */
    assert_false(up.changed);
    numbered("b", 3, 0);
    expect_change("a", "b");
    assert_false(up.has_gap);
    numbered("", 4, 0);
    expect_change("b", "");
    assert_false(up.has_gap);
}

TEST(test_observe__who_was_not_next_is_a_gap)
{
    begin();
    o.knows_ended = false;
    read_is("", 0, 105);
    numbered("", 1, 0);
    numbered("b", 2, 3);
    expect_change("", "b");
    assert_true(up.has_gap);
    numbered("", 4, 0); /* 3 had it, or has left */
    expect_change("b", "");
    assert_true(up.has_gap);
    numbered("", 5, 0);
    assert_true(up.changed && up.has_gap);
    numbered("f", 1, 0); /* numbered anew */
    assert_true(up.has_gap);
    poll_finds("", 0, 0); /* not numbered */
    numbered("g", 2, 0);
    assert_true(up.has_gap);
}

/* Several of them, and the number of who comes next. */
static void all_numbered(const simba_owner *owners, size_t count, uint64_t next)
{
    struct simba__observe_event event = {.type = SIMBA__OBSERVE_READ,
                                         .owners = owners,
                                         .owner_count = count,
                                         .owned = (uint32_t)count,
                                         .serial = next - 1,
                                         .next_serial = next};

    happen(SIMBA__OBSERVE_TIMER, simba__observe_wake_at(&o));
    assert_true(up.read);
    event.seq = o.seq;
    event.now_ms = o.now_ms + 5;
    simba__observe_step(&o, &event, &up);
}

TEST(test_observe__several_are_counted_by_their_numbers)
{
    static const simba_owner all[] = {{.id = "a", .token = 10, .slots = 3},
                                      {.id = "b", .token = 20, .slots = 3},
                                      {.id = "c", .token = 30, .slots = 3},
                                      {.id = "e", .token = 50, .slots = 3}};

    begin();
    o.knows_ended = false;
    read_is("", 0, 105);
    numbered("", 1, 0);
    all_numbered(all, 2, 3);
    assert_true(up.changed && !up.has_gap);
    all_numbered(all, 2, 3);
    assert_false(up.changed);
    all_numbered(all, 3, 4);
    assert_true(up.changed && !up.has_gap);
    all_numbered(all, 3, 5); /* 4 found no room, and left */
    assert_false(up.changed);
    all_numbered(all + 1, 3, 6);
    assert_true(up.changed && !up.has_gap);
    all_numbered(all + 2, 2, 6);
    assert_true(up.changed && !up.has_gap);
    all_numbered(all + 2, 2, 7); /* 6 came and went */
    assert_true(up.changed && up.has_gap);
    numbered("", 7, 0);
    assert_true(up.changed && !up.has_gap);
}

TEST(test_observe__a_silence_is_no_gap_for_who_knows)
{
    begin();
    read_after("a", 7, 5, 105);
    happen(SIMBA__OBSERVE_TIMER, simba__observe_wake_at(&o));
    read_fails(o.now_ms + 5);
    poll_finds("b", 9, 7);
    expect_change("a", "b");
    assert_false(up.has_gap);
}

TEST(test_observe__starts_anew_without_a_gap)
{
    begin();
    read_after("a", 7, 5, 105);
    happen(SIMBA__OBSERVE_STOP, 110);
    happen(SIMBA__OBSERVE_START, 5000);
    read_after("z", 20, 19, 5005);
    expect_change("", "z");
    assert_false(up.has_gap);
}
