/* States: what a pair of owners means for one contender, above all when the
 * same id comes back in a new tenure (safety.md S5). */
#include <simba/state.h>

#include <stddef.h>

#include "fixtures/unit_test.h"

static simba_owner owner_with(const char *id, uint64_t token)
{
    simba_owner owner = simba_owner_none();

    assert_true(simba_owner_set_id(&owner, id));
    owner.ttl_at_ms = 2000;
    owner.transition_at_ms = 2600;
    owner.token = token;
    return owner;
}

static simba_state change(simba_owner before, simba_owner after)
{
    simba_state change;

    change.before = before;
    change.after = after;
    return change;
}

TEST(test_state__nobody_to_a_is_acquired_by_a)
{
    simba_state s = change(simba_owner_none(), owner_with("a", 1));

    assert_true(simba_state_is_changed(&s));
    assert_true(simba_state_is_acquired(&s, "a"));
    assert_false(simba_state_is_released(&s, "a"));
    assert_false(simba_state_is_acquired(&s, "b"));
}

TEST(test_state__a_to_nobody_is_released_by_a)
{
    simba_state s = change(owner_with("a", 1), simba_owner_none());

    assert_true(simba_state_is_changed(&s));
    assert_true(simba_state_is_released(&s, "a"));
    assert_false(simba_state_is_acquired(&s, "a"));
    assert_false(simba_state_is_released(&s, "b"));
}

TEST(test_state__a_to_b_releases_one_and_acquires_the_other)
{
    simba_state s = change(owner_with("a", 1), owner_with("b", 2));

    assert_true(simba_state_is_released(&s, "a"));
    assert_true(simba_state_is_acquired(&s, "b"));
    assert_false(simba_state_is_acquired(&s, "a"));
    assert_false(simba_state_is_released(&s, "b"));
}

TEST(test_state__renewal_is_no_change)
{
    simba_state s = change(owner_with("a", 1), owner_with("a", 1));

    s.after.ttl_at_ms += 10000;
    s.after.transition_at_ms += 10000;
    assert_false(simba_state_is_changed(&s));
    assert_false(simba_state_is_acquired(&s, "a"));
    assert_false(simba_state_is_released(&s, "a"));
}

TEST(test_state__nobody_twice_is_no_change)
{
    simba_state s = change(simba_owner_none(), simba_owner_none());

    assert_false(simba_state_is_changed(&s));
}

TEST(test_state__new_token_is_released_and_acquired)
{
    simba_state s = change(owner_with("a", 1), owner_with("a", 2));

    assert_true(simba_state_is_changed(&s));
    assert_true(simba_state_is_released(&s, "a"));
    assert_true(simba_state_is_acquired(&s, "a"));
    assert_false(simba_state_is_released(&s, "b"));
    assert_false(simba_state_is_acquired(&s, "b"));
}

TEST(test_state__unknown_token_proves_no_change)
{
    simba_state lost = change(owner_with("a", 1), owner_with("a", 0));
    simba_state found = change(owner_with("a", 0), owner_with("a", 1));

    assert_false(simba_state_is_changed(&lost));
    assert_false(simba_state_is_changed(&found));
}

TEST(test_state__equal_token_of_other_ids_is_a_change)
{
    simba_state s = change(owner_with("a", 1), owner_with("b", 1));

    assert_true(simba_state_is_changed(&s));
}

TEST(test_state__owner_is_the_later_one)
{
    simba_state s = change(owner_with("a", 1), owner_with("b", 2));

    assert_true(simba_state_is_owner(&s, "b"));
    assert_false(simba_state_is_owner(&s, "a"));
}

TEST(test_state__ttl_is_that_of_the_later_owner)
{
    simba_state s = change(owner_with("a", 1), owner_with("b", 2));

    s.before.ttl_at_ms = 9000;
    assert_true(simba_state_is_in_ttl(&s, "b", 1999));
    assert_false(simba_state_is_in_ttl(&s, "b", 2000));
    assert_false(simba_state_is_in_ttl(&s, "a", 1999));
}
