/* Owner snapshots: which instants belong to the ttl, the transition and the
 * lease, and whose they are. */
#include <simba/owner.h>

#include <stddef.h>
#include <string.h>

#include "fixtures/unit_test.h"

/* Owned by "a" from 1000, ttl to 2000, transition to 2600. */
static simba_owner owned_by_a(void)
{
    simba_owner owner = simba_owner_none();

    assert_true(simba_owner_set_id(&owner, "a"));
    owner.acquired_at_ms = 1000;
    owner.ttl_at_ms = 2000;
    owner.transition_at_ms = 2600;
    owner.token = 7;
    return owner;
}

TEST(test_owner__none_is_empty_and_zero)
{
    simba_owner none = simba_owner_none();

    assert_string_equal(none.id, "");
    assert_int_equal(none.acquired_at_ms, 0);
    assert_int_equal(none.ttl_at_ms, 0);
    assert_int_equal(none.transition_at_ms, 0);
    assert_int_equal(none.token, 0);
}

TEST(test_owner__nones_are_equal_byte_for_byte)
{
    simba_owner one = simba_owner_none();
    simba_owner other = simba_owner_none();

    assert_memory_equal(&one, &other, sizeof one);
}

TEST(test_owner__set_id_copies_the_id)
{
    char id[] = "0:1@host";
    simba_owner owner = simba_owner_none();

    assert_true(simba_owner_set_id(&owner, id));
    id[0] = 'x';
    assert_string_equal(owner.id, "0:1@host");
}

TEST(test_owner__set_id_leaves_nothing_of_a_longer_one)
{
    simba_owner owner = simba_owner_none();
    simba_owner fresh = simba_owner_none();

    assert_true(simba_owner_set_id(&owner, "a-much-longer-id"));
    assert_true(simba_owner_set_id(&owner, "a"));
    assert_true(simba_owner_set_id(&fresh, "a"));
    assert_memory_equal(&owner, &fresh, sizeof owner);
}

TEST(test_owner__set_id_takes_the_longest_and_no_longer)
{
    char id[SIMBA_ID_MAX + 2];
    simba_owner owner = owned_by_a();

    memset(id, 'i', sizeof id);
    id[SIMBA_ID_MAX + 1] = '\0';
    assert_false(simba_owner_set_id(&owner, id));
    assert_string_equal(owner.id, "a"); /* refused, not cut */
    id[SIMBA_ID_MAX] = '\0';
    assert_true(simba_owner_set_id(&owner, id));
    assert_string_equal(owner.id, id);
}

TEST(test_owner__is_owner_compares_every_byte)
{
    simba_owner owner = owned_by_a();

    assert_true(simba_owner_is_owner(&owner, "a"));
    assert_false(simba_owner_is_owner(&owner, "A"));
    assert_false(simba_owner_is_owner(&owner, "a "));
    assert_false(simba_owner_is_owner(&owner, ""));
}

TEST(test_owner__is_owner_whatever_the_time)
{
    simba_owner owner = owned_by_a();

    owner.ttl_at_ms = 0;
    owner.transition_at_ms = 0;
    assert_true(simba_owner_is_owner(&owner, "a"));
}

TEST(test_owner__ttl_ends_just_before_ttl_at)
{
    simba_owner owner = owned_by_a();

    assert_true(simba_owner_is_in_ttl(&owner, 1999));
    assert_false(simba_owner_is_in_ttl(&owner, 2000));
    assert_false(simba_owner_is_in_ttl(&owner, 2001));
}

TEST(test_owner__ttl_belongs_to_the_named_contender)
{
    simba_owner owner = owned_by_a();

    assert_true(simba_owner_is_in_ttl_of(&owner, "a", 1999));
    assert_false(simba_owner_is_in_ttl_of(&owner, "a", 2000));
    assert_false(simba_owner_is_in_ttl_of(&owner, "b", 1999));
}

TEST(test_owner__transition_includes_transition_at)
{
    simba_owner owner = owned_by_a();

    assert_true(simba_owner_is_in_transition(&owner, 1500)); /* in ttl, too */
    assert_true(simba_owner_is_in_transition(&owner, 2600));
    assert_false(simba_owner_is_in_transition(&owner, 2601));
}

TEST(test_owner__transition_belongs_to_the_named_contender)
{
    simba_owner owner = owned_by_a();

    assert_true(simba_owner_is_in_transition_of(&owner, "a", 2600));
    assert_false(simba_owner_is_in_transition_of(&owner, "a", 2601));
    assert_false(simba_owner_is_in_transition_of(&owner, "b", 2600));
}

TEST(test_owner__has_owner_until_the_transition_ends)
{
    simba_owner owner = owned_by_a();

    assert_true(simba_owner_has_owner(&owner, 1999));
    assert_true(simba_owner_has_owner(&owner, 2600));
    assert_false(simba_owner_has_owner(&owner, 2601));
}

TEST(test_owner__none_has_no_owner_once_time_has_begun)
{
    simba_owner none = simba_owner_none();

    assert_false(simba_owner_has_owner(&none, 1));
    assert_true(simba_owner_has_owner(&none, 0)); /* documented oddity */
}

TEST(test_owner__lease_without_end_never_ends)
{
    simba_owner owner = owned_by_a();

    owner.ttl_at_ms = INT64_MAX;
    owner.transition_at_ms = INT64_MAX;
    assert_true(simba_owner_is_in_ttl(&owner, INT64_MAX - 1));
    assert_true(simba_owner_has_owner(&owner, INT64_MAX));
}
