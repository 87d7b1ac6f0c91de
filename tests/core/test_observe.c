/* The observation machine: when it looks, and what it tells. */
#include "observe_driver.h"

TEST(test_observe__tells_the_first_owner)
{
    begin();
    read_is("a", 1, 105);
    expect_change("", "a");
    assert_int_equal(simba__observe_wake_at(&o), 1105);
}

TEST(test_observe__tells_no_owner_at_first_as_nothing)
{
    begin();
    read_is("", 0, 105);
    assert_false(up.changed);
    assert_true(o.is_heard);
}

TEST(test_observe__tells_every_change_once)
{
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

TEST(test_observe__follows_a_wake)
{
    begin();
    read_is("a", 1, 105);
    happen(SIMBA__OBSERVE_WAKE, 200);
    assert_true(up.read);
    happen(SIMBA__OBSERVE_WAKE, 201); /* while reading */
    assert_false(up.read);
    read_is("b", 2, 202);
    expect_change("a", "b");
    assert_true(up.read); /* once more, at once */
    read_is("b", 2, 203);
    assert_false(up.changed);
    assert_int_equal(simba__observe_wake_at(&o), 1203);
}

TEST(test_observe__asks_again_when_a_read_fails)
{
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

TEST(test_observe__asks_again_soon_however_seldom_it_polls)
{
    simba__observe_init(&o, 3600 * 1000, true);
    happen(SIMBA__OBSERVE_START, 100);
    read_fails(110);
    assert_int_equal(simba__observe_wake_at(&o), 1110);
}

TEST(test_observe__slows_down_to_an_eighth)
{
    int64_t now = 100;

    begin();
    for (int i = 0; i < 10; i++) {
        read_fails(now);
        now = simba__observe_wake_at(&o);
        happen(SIMBA__OBSERVE_TIMER, now);
    }
    read_fails(now);
    assert_int_equal(simba__observe_wake_at(&o), now + 8000);
}

TEST(test_observe__gives_up_a_hung_read)
{
    begin();
    assert_int_equal(simba__observe_wake_at(&o), 5100);
    happen(SIMBA__OBSERVE_TIMER, 5100);
    assert_false(up.read);
    assert_int_equal(simba__observe_wake_at(&o), 6100);
    read_is("a", 1, 5200); /* too late */
    assert_false(up.changed);
}

TEST(test_observe__is_silent_when_stopped)
{
    begin();
    happen(SIMBA__OBSERVE_STOP, 110);
    read_is("a", 1, 120);
    assert_false(up.changed);
    happen(SIMBA__OBSERVE_WAKE, 130);
    happen(SIMBA__OBSERVE_TIMER, 90);
    assert_false(up.read);
    assert_int_equal(simba__observe_wake_at(&o), INT64_MAX);
}
