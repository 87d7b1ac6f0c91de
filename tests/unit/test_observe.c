/* The observation machine. */
#include "core/observe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct simba__observe o;
static struct simba__observe_update up;

static void happen(enum simba__observe_event_type type, int64_t now_ms)
{
    struct simba__observe_event event = {.type = type, .now_ms = now_ms};

    simba__observe_step(&o, &event, &up);
}

/* Of a store that knows which tenure ended last. */
static void read_after(const char *id,
                       uint64_t token,
                       uint64_t ended,
                       int64_t now_ms)
{
    simba_owner owner = simba_owner_none();
    struct simba__observe_event event = {.type = SIMBA__OBSERVE_READ,
                                         .now_ms = now_ms,
                                         .seq = o.seq,
                                         .owner = &owner,
                                         .ended = ended};

    assert_true(simba_owner_set_id(&owner, id));
    owner.token = token;
    simba__observe_step(&o, &event, &up);
}

/* Of one that does not. */
static void read_is(const char *id, uint64_t token, int64_t now_ms)
{
    read_after(id, token, 0, now_ms);
}

/* Looks at the time of its next poll, and finds this. */
static void poll_finds(const char *id, uint64_t token, uint64_t ended)
{
    happen(SIMBA__OBSERVE_TIMER, simba__observe_wake_at(&o));
    assert_true(up.read);
    read_after(id, token, ended, o.now_ms + 5);
}

static void read_fails(int64_t now_ms)
{
    struct simba__observe_event event = {
        .type = SIMBA__OBSERVE_FAILED, .now_ms = now_ms, .seq = o.seq};

    simba__observe_step(&o, &event, &up);
}

static void expect_change(const char *from, const char *to)
{
    assert_true(up.changed);
    assert_string_equal(up.before.id, from);
    assert_string_equal(up.after.id, to);
}

static void begin(void)
{
    simba__observe_init(&o, 1000, true);
    assert_int_equal(simba__observe_wake_at(&o), INT64_MAX);
    happen(SIMBA__OBSERVE_START, 100);
    assert_true(up.read);
}

static void test_observe__tells_the_first_owner(void **state)
{
    (void)state;
    begin();
    read_is("a", 1, 105);
    expect_change("", "a");
    assert_int_equal(simba__observe_wake_at(&o), 1105);
}

static void test_observe__tells_no_owner_at_first_as_nothing(void **state)
{
    (void)state;
    begin();
    read_is("", 0, 105);
    assert_false(up.changed);
    assert_true(o.is_heard);
}

static void test_observe__tells_every_change_once(void **state)
{
    (void)state;
    begin();
    read_is("a", 1, 105);
    happen(SIMBA__OBSERVE_TIMER, 1105);
    assert_true(up.read);
    read_is("a", 1, 1110);
    assert_false(up.changed);
    happen(SIMBA__OBSERVE_TIMER, 2110);
    read_is("a", 2, 2115); /* the same contender, another tenure */
    expect_change("a", "a");
    happen(SIMBA__OBSERVE_TIMER, 3115);
    read_is("", 0, 3120);
    expect_change("a", "");
}

static void test_observe__follows_a_hint(void **state)
{
    (void)state;
    begin();
    read_is("a", 1, 105);
    happen(SIMBA__OBSERVE_HINT, 200);
    assert_true(up.read);
    happen(SIMBA__OBSERVE_HINT, 201); /* while reading */
    assert_false(up.read);
    read_is("b", 2, 202);
    expect_change("a", "b");
    assert_true(up.read); /* once more, at once */
    read_is("b", 2, 203);
    assert_false(up.changed);
    assert_int_equal(simba__observe_wake_at(&o), 1203);
}

static void test_observe__asks_again_when_a_read_fails(void **state)
{
    (void)state;
    begin();
    read_fails(110);
    assert_int_equal(simba__observe_wake_at(&o), 1110);
    happen(SIMBA__OBSERVE_TIMER, 1110);
    assert_true(up.read);
    read_fails(1120);
    assert_int_equal(simba__observe_wake_at(&o), 3120);
    happen(SIMBA__OBSERVE_TIMER, 3120);
    read_is("a", 1, 3125);
    assert_int_equal(simba__observe_wake_at(&o), 4125);
}

static void test_observe__asks_again_soon_however_seldom_it_polls(void **state)
{
    (void)state;
    simba__observe_init(&o, 3600 * 1000, true);
    happen(SIMBA__OBSERVE_START, 100);
    read_fails(110);
    assert_int_equal(simba__observe_wake_at(&o), 1110);
}

static void test_observe__slows_down_to_an_eighth(void **state)
{
    int64_t now = 100;

    (void)state;
    begin();
    for (int i = 0; i < 10; i++) {
        read_fails(now);
        now = simba__observe_wake_at(&o);
        happen(SIMBA__OBSERVE_TIMER, now);
    }
    read_fails(now);
    assert_int_equal(simba__observe_wake_at(&o), now + 8000);
}

static void test_observe__gives_up_a_hung_read(void **state)
{
    (void)state;
    begin();
    assert_int_equal(simba__observe_wake_at(&o), 5100);
    happen(SIMBA__OBSERVE_TIMER, 5100);
    assert_false(up.read);
    assert_int_equal(simba__observe_wake_at(&o), 6100);
    read_is("a", 1, 5200); /* too late */
    assert_false(up.changed);
}

static void test_observe__is_silent_when_stopped(void **state)
{
    (void)state;
    begin();
    happen(SIMBA__OBSERVE_STOP, 110);
    read_is("a", 1, 120);
    assert_false(up.changed);
    happen(SIMBA__OBSERVE_HINT, 130);
    happen(SIMBA__OBSERVE_TIMER, 90);
    assert_false(up.read);
    assert_int_equal(simba__observe_wake_at(&o), INT64_MAX);
}

/* --- gaps ---------------------------------------------------------------- */

static void test_observe__neighbours_have_no_gap(void **state)
{
    (void)state;
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

static void test_observe__a_missed_tenure_is_a_gap(void **state)
{
    (void)state;
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

static void test_observe__who_came_and_went_is_told_as_a_gap(void **state)
{
    (void)state;
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

static void test_observe__the_first_tenure_of_all_can_be_missed(void **state)
{
    (void)state;
    begin();
    read_after("", 0, 0, 105); /* never owned */
    poll_finds("b", 2, 1);
    assert_true(up.has_gap);
    begin();
    read_after("", 0, 0, 105);
    poll_finds("a", 1, 0);
    assert_false(up.has_gap);
}

static void test_observe__a_renewal_is_no_gap(void **state)
{
    (void)state;
    begin();
    read_after("a", 7, 5, 105);
    poll_finds("a", 7, 5);
    assert_false(up.changed);
    poll_finds("", 0, 7);
    assert_false(up.has_gap);
}

static void test_observe__guesses_where_the_store_does_not_say(void **state)
{
    (void)state;
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
static void test_observe__new_owner_of_a_mute_store_is_a_gap(void **state)
{
    (void)state;
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
static void test_observe__strangers_are_guessed(void **state)
{
    (void)state;
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

/* The owner's number, or that of who comes next; and who is next in line, 0:
 * nobody waits. Tokens are ten times the number. */
static void numbered(const char *id, uint64_t turn, uint64_t waiter)
{
    simba_owner owner = simba_owner_none();
    uint64_t token = id[0] == '\0' ? 0 : 10 * turn;
    struct simba__observe_event event = {
        .type = SIMBA__OBSERVE_READ, .owner = &owner, .turn = turn};

    event.next_turn = waiter != 0 ? waiter : turn + (token != 0);

    happen(SIMBA__OBSERVE_TIMER, simba__observe_wake_at(&o));
    assert_true(up.read);
    assert_true(simba_owner_set_id(&owner, id));
    owner.token = token;
    event.seq = o.seq;
    event.now_ms = o.now_ms + 5;
    simba__observe_step(&o, &event, &up);
}

/* A store may not know who was before, but whose turn it was to be next. */
static void test_observe__who_was_next_is_no_gap(void **state)
{
    (void)state;
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

static void test_observe__who_was_not_next_is_a_gap(void **state)
{
    (void)state;
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

static void test_observe__a_silence_is_no_gap_for_who_knows(void **state)
{
    (void)state;
    begin();
    read_after("a", 7, 5, 105);
    happen(SIMBA__OBSERVE_TIMER, simba__observe_wake_at(&o));
    read_fails(o.now_ms + 5);
    poll_finds("b", 9, 7);
    expect_change("a", "b");
    assert_false(up.has_gap);
}

static void test_observe__starts_anew_without_a_gap(void **state)
{
    (void)state;
    begin();
    read_after("a", 7, 5, 105);
    happen(SIMBA__OBSERVE_STOP, 110);
    happen(SIMBA__OBSERVE_START, 5000);
    read_after("z", 20, 19, 5005);
    expect_change("", "z");
    assert_false(up.has_gap);
}

/* --- pushes -------------------------------------------------------------- */

static void push(const char *id, uint64_t token, uint64_t ended)
{
    simba_owner owner = simba_owner_none();
    struct simba__observe_event event = {.type = SIMBA__OBSERVE_PUSHED,
                                         .now_ms = o.now_ms + 1,
                                         .owner = &owner,
                                         .ended = ended};

    assert_true(simba_owner_set_id(&owner, id));
    owner.token = token;
    simba__observe_step(&o, &event, &up);
}

static void test_observe__push_that_follows_is_told_without_a_read(void **state)
{
    (void)state;
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

static void test_observe__push_that_does_not_follow_makes_it_look(void **state)
{
    (void)state;
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

static void test_observe__late_and_doubled_pushes_are_no_news(void **state)
{
    (void)state;
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

static void test_observe__answer_older_than_a_push_is_no_news(void **state)
{
    (void)state;
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
static void test_observe__read_is_believed_otherwise(void **state)
{
    (void)state;
    begin();
    read_after("b", 9, 8, 105);
    poll_finds("a", 2, 1);
    expect_change("b", "a");
    assert_true(up.has_gap);
}

static void test_observe__push_before_the_first_answer_is_a_hint(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_observe__tells_the_first_owner),
        cmocka_unit_test(test_observe__tells_no_owner_at_first_as_nothing),
        cmocka_unit_test(test_observe__tells_every_change_once),
        cmocka_unit_test(test_observe__follows_a_hint),
        cmocka_unit_test(test_observe__asks_again_when_a_read_fails),
        cmocka_unit_test(test_observe__asks_again_soon_however_seldom_it_polls),
        cmocka_unit_test(test_observe__slows_down_to_an_eighth),
        cmocka_unit_test(test_observe__gives_up_a_hung_read),
        cmocka_unit_test(test_observe__is_silent_when_stopped),
        cmocka_unit_test(test_observe__neighbours_have_no_gap),
        cmocka_unit_test(test_observe__a_missed_tenure_is_a_gap),
        cmocka_unit_test(test_observe__who_came_and_went_is_told_as_a_gap),
        cmocka_unit_test(test_observe__the_first_tenure_of_all_can_be_missed),
        cmocka_unit_test(test_observe__a_renewal_is_no_gap),
        cmocka_unit_test(test_observe__guesses_where_the_store_does_not_say),
        cmocka_unit_test(test_observe__new_owner_of_a_mute_store_is_a_gap),
        cmocka_unit_test(test_observe__strangers_are_guessed),
        cmocka_unit_test(test_observe__who_was_next_is_no_gap),
        cmocka_unit_test(test_observe__who_was_not_next_is_a_gap),
        cmocka_unit_test(test_observe__a_silence_is_no_gap_for_who_knows),
        cmocka_unit_test(test_observe__starts_anew_without_a_gap),
        cmocka_unit_test(
            test_observe__push_that_follows_is_told_without_a_read),
        cmocka_unit_test(test_observe__push_that_does_not_follow_makes_it_look),
        cmocka_unit_test(test_observe__late_and_doubled_pushes_are_no_news),
        cmocka_unit_test(test_observe__answer_older_than_a_push_is_no_news),
        cmocka_unit_test(test_observe__read_is_believed_otherwise),
        cmocka_unit_test(test_observe__push_before_the_first_answer_is_a_hint),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
