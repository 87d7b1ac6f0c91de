/* The arithmetic of a lease: L, m, B, U and H. */
#include "core/lease.h"

#include <stddef.h>

#include "fixtures/unit_test.h"

static struct simba__lease lease_of(int64_t ttl_ms,
                                    int64_t transition_ms,
                                    int64_t budget_ms)
{
    struct simba__lease lease = {ttl_ms, transition_ms, budget_ms};

    return lease;
}

static void expect_problem(struct simba__lease lease,
                           enum simba__lease_problem problem)
{
    assert_int_equal(simba__lease_check(&lease), problem);
}

TEST(test_lease__default_times_are_those_of_the_design)
{
    struct simba__lease lease = lease_of(10000, 6000, 2000);

    expect_problem(lease, SIMBA__LEASE_FINE);
    assert_int_equal(simba__lease_length_ms(&lease), 16000);
    assert_int_equal(simba__lease_margin_ms(&lease), 346);
    assert_int_equal(simba__lease_renew_after_ms(&lease), 6666);
    assert_int_equal(simba__lease_use_ms(&lease), 13654);
    assert_int_equal(simba__lease_hard_ms(&lease), 15654);
    assert_int_equal(simba__lease_over_ms(&lease), 16346);
    assert_int_equal(simba__lease_budget_default_ms(&lease), 2000);
    assert_int_equal(simba__lease_budget_most_ms(&lease), 7320);
}

static void expect_margin(int64_t length_ms, int64_t margin_ms)
{
    struct simba__lease lease = lease_of(length_ms, 0, 1);

    assert_int_equal(simba__lease_margin_ms(&lease), margin_ms);
}

TEST(test_lease__margin_is_rounded_up)
{
    expect_margin(1000, 10 + 21);
    expect_margin(1001, 10 + 22); /* 21.021 */
    expect_margin(100, 10 + 3);   /* 2.1 */
    expect_margin(3000, 10 + 63);
}

/* What the margin is for: by the time a slow owner (1 % slow) reaches H, a
 * fast store (1 % fast) has not ended the lease. */
TEST(test_lease__margin_covers_clocks_at_one_percent)
{
    for (int64_t length = 200; length < 4000000; length += 777) {
        struct simba__lease lease = lease_of(length / 2, length / 2, 1);
        int64_t by_store = simba__lease_hard_ms(&lease) * 101;
        int64_t whole = simba__lease_length_ms(&lease) * 99;

        assert_true(by_store < whole);
    }
}

/* S + over: even a slow store has ended the lease by a fast clock. */
TEST(test_lease__over_is_after_the_end_by_any_clock)
{
    for (int64_t length = 200; length < 4000000; length += 777) {
        struct simba__lease lease = lease_of(length / 2, length / 2, 1);

        assert_true(simba__lease_over_ms(&lease) * 99 >
                    simba__lease_length_ms(&lease) * 101);
    }
}

TEST(test_lease__default_budget_is_an_eighth)
{
    struct simba__lease lease = lease_of(6000, 4000, 0);

    assert_int_equal(simba__lease_budget_default_ms(&lease), 1250);
    lease = lease_of(6000, 4007, 0);
    assert_int_equal(simba__lease_budget_default_ms(&lease), 1250);
}

TEST(test_lease__default_budget_is_two_seconds_at_most)
{
    struct simba__lease lease = lease_of(60000, 60000, 0);

    assert_int_equal(simba__lease_budget_default_ms(&lease), 2000);
    lease = lease_of(8000, 7992, 0);
    assert_int_equal(simba__lease_budget_default_ms(&lease), 1999);
}

TEST(test_lease__default_budget_is_what_fits)
{
    struct simba__lease lease = lease_of(6000, 0, 0);

    /* L - m - 5/6 ttl = 6000 - 136 - 5000; an eighth would be 750. */
    assert_int_equal(simba__lease_budget_most_ms(&lease), 864);
    assert_int_equal(simba__lease_budget_default_ms(&lease), 750);
    lease = lease_of(300, 0, 0);
    /* 300 - 17 - 250; an eighth would be 37. */
    assert_int_equal(simba__lease_budget_default_ms(&lease), 33);
}

TEST(test_lease__five_sixths_are_rounded_up)
{
    struct simba__lease lease = lease_of(1000, 1000, 0);

    assert_int_equal(simba__lease_budget_most_ms(&lease), 2000 - 52 - 834);
    lease = lease_of(1002, 998, 0);
    assert_int_equal(simba__lease_budget_most_ms(&lease), 2000 - 52 - 835);
}

TEST(test_lease__largest_budget_fits_and_no_larger)
{
    struct simba__lease lease = lease_of(10000, 6000, 7320);

    expect_problem(lease, SIMBA__LEASE_FINE);
    lease.budget_ms = 7321;
    expect_problem(lease, SIMBA__LEASE_BUDGET_LONG);
    lease.budget_ms = 1;
    expect_problem(lease, SIMBA__LEASE_FINE);
    lease.budget_ms = 0;
    expect_problem(lease, SIMBA__LEASE_BUDGET_SHORT);
}

TEST(test_lease__first_renewal_fits_before_use_ends)
{
    for (int64_t ttl = 100; ttl < 100000; ttl += 37) {
        struct simba__lease lease = lease_of(ttl, 60, 0);

        lease.budget_ms = simba__lease_budget_most_ms(&lease);
        expect_problem(lease, SIMBA__LEASE_FINE);
        assert_true(simba__lease_use_ms(&lease) >
                    simba__lease_renew_after_ms(&lease));
    }
}

TEST(test_lease__wrong_times_are_named)
{
    int64_t most = SIMBA__LEASE_MOST_MS;

    expect_problem(lease_of(99, 1000, 10), SIMBA__LEASE_TTL_SHORT);
    expect_problem(lease_of(100, 1000, 10), SIMBA__LEASE_FINE);
    expect_problem(lease_of(most, most, 10), SIMBA__LEASE_FINE);
    expect_problem(lease_of(most + 1, 0, 10), SIMBA__LEASE_TTL_LONG);
    expect_problem(lease_of(1000, -1, 10), SIMBA__LEASE_TRANSITION_NEGATIVE);
    expect_problem(lease_of(1000, 0, 10), SIMBA__LEASE_FINE);
    expect_problem(lease_of(1000, most, 10), SIMBA__LEASE_FINE);
    expect_problem(lease_of(1000, most + 1, 10), SIMBA__LEASE_TRANSITION_LONG);
    expect_problem(lease_of(1000, 1000, -5), SIMBA__LEASE_BUDGET_SHORT);
}

TEST(test_lease__shortest_lease_leaves_room_for_a_callback)
{
    struct simba__lease lease = lease_of(100, 0, 0);

    /* 100 - 13 - 84: three milliseconds, and no more. */
    lease.budget_ms = simba__lease_budget_default_ms(&lease);
    assert_int_equal(lease.budget_ms, 3);
    expect_problem(lease, SIMBA__LEASE_FINE);
    lease.budget_ms = 4;
    expect_problem(lease, SIMBA__LEASE_BUDGET_LONG);
}

TEST(test_lease__shortened_keeps_its_proportions)
{
    struct simba__lease lease = lease_of(10000, 6000, 2000);
    struct simba__lease half = simba__lease_shorten(&lease, 8000);

    assert_int_equal(half.ttl_ms, 5000);
    assert_int_equal(half.transition_ms, 3000);
    assert_int_equal(half.budget_ms, 2000);
    assert_int_equal(simba__lease_renew_after_ms(&half), 3333);
    assert_int_equal(simba__lease_use_ms(&half), 8000 - 178 - 2000);
}

TEST(test_lease__is_never_made_longer)
{
    struct simba__lease lease = lease_of(10000, 6000, 2000);
    struct simba__lease same = simba__lease_shorten(&lease, 0);
    struct simba__lease more = simba__lease_shorten(&lease, 16001);

    assert_memory_equal(&same, &lease, sizeof lease);
    assert_memory_equal(&more, &lease, sizeof lease);
}

/* Of what little there is before U, a fifth is left for a second try. */
TEST(test_lease__shortened_is_renewed_before_use_ends)
{
    struct simba__lease lease = lease_of(10000, 6000, 7000);
    struct simba__lease half = simba__lease_shorten(&lease, 8000);
    struct simba__lease none = simba__lease_shorten(&lease, 7000);

    assert_int_equal(simba__lease_use_ms(&half), 822);
    assert_int_equal(simba__lease_renew_after_ms(&half), 822 - 164);
    assert_true(simba__lease_use_ms(&none) < 0);
    assert_int_equal(simba__lease_renew_after_ms(&none), 0);
}
