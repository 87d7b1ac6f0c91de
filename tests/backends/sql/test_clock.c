/* Leases while the local time of a server repeats an hour: neither shorter nor
 * longer; and while its clock is set back: neither longer than their owners
 * live. */
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

/* --- a clock that is set back -------------------------------------------- */

static void set_clock(int ahead_s)
{
    FILE *file = fopen(getenv("SIMBA_SERVER_CLOCK"), "w");

    assert_non_null(file);
    fprintf(file, "%d000", ahead_s);
    fclose(file);
}

/* The server runs by a clock that set_clock() sets. */
static void use_own_clock(void)
{
    char path[512];

    snprintf(path, sizeof path, "%s/clock", getenv("SIMBA_SERVER_DIR"));
    setenv("SIMBA_SERVER_CLOCK", path, 1);
    set_clock(0);
    server_control("--restart");
}

TEST(test_sql_clock__set_back_it_keeps_no_dead_owner)
{
    struct who a = person(&first, "a"), b = person(&second, "b"),
               c = person(&third, "c");
    int64_t sent_ms, until_ms;

    use_own_clock();
    set_up(NULL);
    a.ttl_ms = b.ttl_ms = c.ttl_ms = 2000;
    a.transition_ms = b.transition_ms = c.transition_ms = 2000;
    sent_ms = simba_loop_now_ms();
    ask(&a);
    expect_mine(&a);
    ask(&b); /* it sees a, of whom nobody hears again */
    expect_queued(true);
    set_clock(-3600);
    assert_true(server_sql(SERVER_EPOCH) < time(NULL) - 3000);
    ask(&c); /* and it does not matter who comes meanwhile */
    expect_queued(false);
    await((ask(&b), got.mine));
    assert_true(simba_loop_now_ms() >= sent_ms + 4000);
    assert_true(b.token > a.token);
    renew(&a);
    assert_false(got.mine);
    /* Who renews keeps it, whatever the clock does; on a busy machine it comes
     * to that late. */
    b.ttl_ms = b.transition_ms = 30000;
    until_ms = simba_loop_now_ms() + 5000;
    for (int i = 0; simba_loop_now_ms() < until_ms; i++) {
        set_clock(-3600 - i);
        renew(&b);
        assert_true(got.mine);
        ask(&c);
        assert_false(got.mine);
        nap_ms(100);
    }
    tear_down(NULL);
    unsetenv("SIMBA_SERVER_CLOCK");
}
