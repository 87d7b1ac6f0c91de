/* States: what a pair of owners means for one contender, above all when the
 * same id comes back in a new tenure (safety.md S5). */
#include <simba/state.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

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

static void test_state__nobody_to_a_is_acquired_by_a(void **state)
{
    simba_state s = change(simba_owner_none(), owner_with("a", 1));

    (void)state;
    assert_true(simba_state_is_changed(&s));
    assert_true(simba_state_is_acquired(&s, "a"));
    assert_false(simba_state_is_released(&s, "a"));
    assert_false(simba_state_is_acquired(&s, "b"));
}

static void test_state__a_to_nobody_is_released_by_a(void **state)
{
    simba_state s = change(owner_with("a", 1), simba_owner_none());

    (void)state;
    assert_true(simba_state_is_changed(&s));
    assert_true(simba_state_is_released(&s, "a"));
    assert_false(simba_state_is_acquired(&s, "a"));
    assert_false(simba_state_is_released(&s, "b"));
}

static void test_state__a_to_b_releases_one_and_acquires_the_other(void **state)
{
    simba_state s = change(owner_with("a", 1), owner_with("b", 2));

    (void)state;
    assert_true(simba_state_is_released(&s, "a"));
    assert_true(simba_state_is_acquired(&s, "b"));
    assert_false(simba_state_is_acquired(&s, "a"));
    assert_false(simba_state_is_released(&s, "b"));
}

static void test_state__renewal_is_no_change(void **state)
{
    simba_state s = change(owner_with("a", 1), owner_with("a", 1));

    (void)state;
    s.after.ttl_at_ms += 10000;
    s.after.transition_at_ms += 10000;
    assert_false(simba_state_is_changed(&s));
    assert_false(simba_state_is_acquired(&s, "a"));
    assert_false(simba_state_is_released(&s, "a"));
}

static void test_state__nobody_twice_is_no_change(void **state)
{
    simba_state s = change(simba_owner_none(), simba_owner_none());

    (void)state;
    assert_false(simba_state_is_changed(&s));
}

static void test_state__new_token_is_released_and_acquired(void **state)
{
    simba_state s = change(owner_with("a", 1), owner_with("a", 2));

    (void)state;
    assert_true(simba_state_is_changed(&s));
    assert_true(simba_state_is_released(&s, "a"));
    assert_true(simba_state_is_acquired(&s, "a"));
    assert_false(simba_state_is_released(&s, "b"));
    assert_false(simba_state_is_acquired(&s, "b"));
}

static void test_state__unknown_token_proves_no_change(void **state)
{
    simba_state lost = change(owner_with("a", 1), owner_with("a", 0));
    simba_state found = change(owner_with("a", 0), owner_with("a", 1));

    (void)state;
    assert_false(simba_state_is_changed(&lost));
    assert_false(simba_state_is_changed(&found));
}

static void test_state__equal_token_of_other_ids_is_a_change(void **state)
{
    simba_state s = change(owner_with("a", 1), owner_with("b", 1));

    (void)state;
    assert_true(simba_state_is_changed(&s));
}

static void test_state__owner_is_the_later_one(void **state)
{
    simba_state s = change(owner_with("a", 1), owner_with("b", 2));

    (void)state;
    assert_true(simba_state_is_owner(&s, "b"));
    assert_false(simba_state_is_owner(&s, "a"));
}

static void test_state__ttl_is_that_of_the_later_owner(void **state)
{
    simba_state s = change(owner_with("a", 1), owner_with("b", 2));

    (void)state;
    s.before.ttl_at_ms = 9000;
    assert_true(simba_state_is_in_ttl(&s, "b", 1999));
    assert_false(simba_state_is_in_ttl(&s, "b", 2000));
    assert_false(simba_state_is_in_ttl(&s, "a", 1999));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_state__nobody_to_a_is_acquired_by_a),
        cmocka_unit_test(test_state__a_to_nobody_is_released_by_a),
        cmocka_unit_test(
            test_state__a_to_b_releases_one_and_acquires_the_other),
        cmocka_unit_test(test_state__renewal_is_no_change),
        cmocka_unit_test(test_state__nobody_twice_is_no_change),
        cmocka_unit_test(test_state__new_token_is_released_and_acquired),
        cmocka_unit_test(test_state__unknown_token_proves_no_change),
        cmocka_unit_test(test_state__equal_token_of_other_ids_is_a_change),
        cmocka_unit_test(test_state__owner_is_the_later_one),
        cmocka_unit_test(test_state__ttl_is_that_of_the_later_owner),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
