/* The contend period: the shared formulas, to the millisecond, and at the ends
 * of the numbers. */
#include <simba/period.h>

#include <stddef.h>

#include "fixtures/unit_test.h"

#define LEAST    UINT64_C(0)
#define GREATEST UINT64_MAX

static simba_owner owner_until(int64_t ttl_at_ms, int64_t transition_at_ms)
{
    simba_owner owner = simba_owner_none();

    assert_true(simba_owner_set_id(&owner, "a"));
    owner.ttl_at_ms = ttl_at_ms;
    owner.transition_at_ms = transition_at_ms;
    return owner;
}

static int64_t contender_delay(const simba_owner *owner,
                               int64_t now_ms,
                               uint64_t random)
{
    return simba_contend_period_contender_delay_ms(owner, now_ms, random);
}

TEST(test_period__owner_renews_at_the_end_of_the_ttl)
{
    simba_owner owner = owner_until(2000, 2600);

    assert_int_equal(simba_contend_period_owner_delay_ms(&owner, 1200), 800);
    assert_int_equal(simba_contend_period_owner_delay_ms(&owner, 2000), 0);
    assert_int_equal(simba_contend_period_owner_delay_ms(&owner, 2100), -100);
    assert_int_equal(simba_contend_period_owner_delay_ms(&owner, -500), 2500);
}

TEST(test_period__contender_spreads_from_200_early)
{
    simba_owner owner = owner_until(2000, 2600);

    assert_int_equal(contender_delay(&owner, 1600, LEAST), 1000 - 200);
    assert_int_equal(contender_delay(&owner, 1600, GREATEST), 1000 + 999);
    assert_int_equal(contender_delay(&owner, 1600, UINT64_C(1) << 63),
                     1000 + 400);
}

TEST(test_period__contender_is_never_early_without_window)
{
    simba_owner owner = owner_until(2000, 2000);

    assert_int_equal(contender_delay(&owner, 1600, LEAST), 400);
    assert_int_equal(contender_delay(&owner, 1600, GREATEST), 400 + 999);
}

TEST(test_period__delay_of_the_past_is_negative)
{
    simba_owner owner = owner_until(2000, 2600);

    assert_int_equal(contender_delay(&owner, 5000, LEAST), -2400 - 200);
}

/* Steps through the random numbers evenly and counts where they end up. */
TEST(test_period__spread_favours_no_millisecond)
{
    enum { WIDTH = 1200, PER_VALUE = 100 };
    simba_owner owner = owner_until(2000, 2600);
    uint64_t step = UINT64_MAX / (WIDTH * PER_VALUE);
    int hits[WIDTH] = {0};

    for (uint64_t i = 0; i < WIDTH * PER_VALUE; i++) {
        int64_t delay = contender_delay(&owner, 2600, i * step);

        assert_in_range(delay + 200, 0, WIDTH - 1);
        hits[delay + 200]++;
    }
    for (int i = 0; i < WIDTH; i++) {
        assert_in_range(hits[i], PER_VALUE - 1, PER_VALUE + 1);
    }
}

TEST(test_period__next_delay_depends_on_who_asks)
{
    simba_owner owner = owner_until(2000, 2600);

    assert_int_equal(
        simba_contend_period_next_delay_ms(&owner, "a", 1200, GREATEST), 800);
    assert_int_equal(
        simba_contend_period_next_delay_ms(&owner, "b", 1200, LEAST), 1200);
}

TEST(test_period__next_delay_may_be_negative)
{
    simba_owner owner = owner_until(2000, 2600);

    assert_int_equal(
        simba_contend_period_next_delay_ms(&owner, "a", 2500, LEAST), -500);
}

TEST(test_period__ensured_delay_is_never_negative)
{
    simba_owner owner = owner_until(2000, 2600);

    assert_int_equal(
        simba_contend_period_ensure_next_delay_ms(&owner, "a", 2500, LEAST), 0);
    assert_int_equal(
        simba_contend_period_ensure_next_delay_ms(&owner, "a", 2000, LEAST), 0);
    assert_int_equal(
        simba_contend_period_ensure_next_delay_ms(&owner, "a", 1999, LEAST), 1);
}

TEST(test_period__nobody_to_wait_for_is_no_wait)
{
    simba_owner none = simba_owner_none();

    assert_int_equal(simba_contend_period_ensure_next_delay_ms(
                         &none, "a", 1700000000000, GREATEST),
                     0);
}

TEST(test_period__lease_without_end_is_the_longest_wait)
{
    simba_owner owner = owner_until(INT64_MAX, INT64_MAX);

    assert_int_equal(contender_delay(&owner, 0, GREATEST), INT64_MAX);
    assert_int_equal(contender_delay(&owner, -1, LEAST), INT64_MAX);
    assert_int_equal(simba_contend_period_owner_delay_ms(&owner, INT64_MIN),
                     INT64_MAX);
    assert_int_equal(simba_contend_period_owner_delay_ms(&owner, 1000),
                     INT64_MAX - 1000);
}

TEST(test_period__endless_past_is_the_least_delay)
{
    simba_owner owner = owner_until(0, INT64_MIN);

    assert_int_equal(contender_delay(&owner, 1, LEAST), INT64_MIN);
    assert_int_equal(contender_delay(&owner, INT64_MAX, LEAST), INT64_MIN);
    assert_int_equal(
        simba_contend_period_ensure_next_delay_ms(&owner, "b", 1, LEAST), 0);
}
