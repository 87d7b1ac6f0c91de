/* Leases while the local time of a server repeats an hour: neither shorter nor
 * longer. */
#define _GNU_SOURCE
#include "driver.h"

#include "clock_change.h"

enum { SHORT_TTL = 3000, SHORT_LEASE = 6000, ABOUT_S = 600 };

static void expect_true_time(int64_t moment)
{
    assert_in_range(got.store_ms / 1000, moment - ABOUT_S, moment + ABOUT_S);
}

/* Somebody takes the mutex before that moment and is not heard of again; who
 * waits gets it when the lease is over. */
static void outlast_a_lease(int64_t moment)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");
    int64_t sent_ms = simba_loop_now_ms();

    a.ttl_ms = SHORT_TTL;
    a.transition_ms = SHORT_LEASE - SHORT_TTL;
    ask(&a);
    expect_mine(&a);
    expect_true_time(moment);
    do {
        ask(&b);
        expect_true_time(moment);
        assert_in_range(got.wait_ms, 0, SHORT_LEASE);
        assert_true(simba_loop_now_ms() < sent_ms + SHORT_LEASE + PATIENCE_MS);
        nap_ms(got.mine ? 0 : 50);
    } while (!got.mine);
    assert_true(simba_loop_now_ms() >= sent_ms + SHORT_LEASE);
    assert_true(b.token > a.token);
    assert_true(server_sql(SERVER_EPOCH) >= moment);
    release(&b);
}

static void run_over_change(int index)
{
    server_restart_before(clock_changes[index]);
    set_up(NULL);
    outlast_a_lease(clock_changes[index]);
    tear_down(NULL);
}

TEST(test_sql_clock__an_hour_that_will_come_again)
{
    run_over_change(0);
}

TEST(test_sql_clock__an_hour_that_comes_again)
{
    run_over_change(1);
}

TEST(test_sql_clock__an_hour_that_came_twice)
{
    run_over_change(2);
}
