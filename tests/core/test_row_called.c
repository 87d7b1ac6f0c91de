/* One mutex as a store keeps it: who is called when the mutex is free, and how
 * long it is kept for him (S10). */
#include "row_driver.h"

static void test_row_called__called_waiter_has_300_ms(void **state)
{
    (void)state;
    four_meet();
    release(&alice, T + 100);
    ask(&carol, T + 120);
    expect_refused(RESERVATION - 20);
    expect_in_line(true); /* nobody stands before it but the called one */
    expect_wakes(NULL, NULL);
    ask_without_joining(&alice, T + 100 + RESERVATION);
    expect_refused(0);
    ask(&bob, T + 100 + RESERVATION);
    expect_mine(&bob);
}

static void test_row_called__called_waiter_that_does_not_come_is_passed(
    void **state)
{
    (void)state;
    four_meet();
    release(&alice, T + 100);
    ask(&carol, T + 100 + RESERVATION + 1);
    expect_mine(&carol);
    expect_wakes(NULL, NULL);
}

static void test_row_called__next_is_called_when_the_called_one_stays_away(
    void **state)
{
    (void)state;
    four_meet();
    release(&alice, T + 100);
    ask(&dave, T + 100 + RESERVATION + 1); /* carol stands before him */
    expect_refused(RESERVATION);
    expect_wakes(&carol, &dave);
    ask(&carol, T + 450);
    expect_mine(&carol);
}

static void test_row_called__only_waiter_may_come_after_its_reservation(
    void **state)
{
    (void)state;
    ask(&alice, T);
    ask(&bob, T + 1);
    release(&alice, T + 100);
    ask(&bob, T + 5000);
    expect_mine(&bob);
}

static void test_row_called__called_waiter_that_leaves_calls_the_next(
    void **state)
{
    (void)state;
    four_meet();
    release(&alice, T + 100);
    leave(&bob, T + 110);
    expect_wakes(&carol, &dave);
    ask(&carol, T + 100 + RESERVATION + 5); /* a reservation of its own */
    expect_mine(&carol);
}

static void test_row_called__last_called_waiter_that_leaves_frees(void **state)
{
    (void)state;
    ask(&alice, T);
    ask(&bob, T + 1);
    release(&alice, T + 100);
    leave(&bob, T + 110);
    expect_wakes(NULL, NULL);
    ask(&carol, T + 111);
    expect_mine(&carol);
}

/* The old owner wakes up late: its lease has lapsed, bob has been called by
 * carol's asking. Its release must not take the reservation from bob. */
static void test_row_called__late_release_keeps_the_reservation(void **state)
{
    (void)state;
    four_meet();
    ask(&carol, T + LEASE + 1);
    expect_wakes(&bob, &carol);
    release(&alice, T + LEASE + 2);
    expect_wakes(NULL, NULL);
    ask(&carol, T + LEASE + 3);
    expect_refused(RESERVATION - 2);
    ask(&bob, T + LEASE + 1 + RESERVATION);
    expect_mine(&bob);
}

static void test_row_called__late_release_after_the_reservation_calls(
    void **state)
{
    (void)state;
    four_meet();
    ask(&carol, T + LEASE + 1);
    expect_wakes(&bob, &carol);
    release(&alice, T + LEASE + 1 + RESERVATION + 1);
    expect_wakes(&carol, &dave);
}

static void test_row_called__late_release_with_nobody_called_calls(void **state)
{
    (void)state;
    four_meet();
    release(&alice, T + LEASE + 50);
    expect_wakes(&bob, &carol);
}

/* Bob had been called, came, and slept over his lease. */
static void test_row_called__late_release_of_one_once_called_is_void(
    void **state)
{
    (void)state;
    four_meet();
    release(&alice, T + 100);
    ask(&bob, T + 101);
    ask(&carol, T + 101 + LEASE + 1);
    expect_mine(&carol);
    release(&bob, T + 101 + LEASE + 2);
    expect_wakes(NULL, NULL);
    renew(&carol, T + 101 + LEASE + 3);
    expect_mine(&carol);
}

static void test_row_called__release_of_nobody_calls_nobody(void **state)
{
    static const simba_attempt none; /* what a free row holds */
    struct who nobody = person("nobody", 9);

    (void)state;
    nobody.attempt = none;
    four_meet();
    release(&alice, T + 100);
    release(&nobody, T + 100 + RESERVATION + 1);
    expect_wakes(NULL, NULL);
}

static void test_row_called__late_release_does_not_end_the_next_tenure(
    void **state)
{
    (void)state;
    four_meet();
    ask(&bob, T + LEASE + 1);
    release(&alice, T + LEASE + 2);
    expect_wakes(NULL, NULL);
    renew(&bob, T + LEASE + 3);
    expect_mine(&bob);
}

static void test_row_called__release_of_a_waiter_keeps_who_is_called(
    void **state)
{
    (void)state;
    four_meet();
    release(&alice, T + 100);
    release(&carol, T + 101);
    expect_wakes(NULL, NULL);
    ask(&dave, T + 102);
    expect_refused(RESERVATION - 2);
    ask(&bob, T + 103);
    expect_mine(&bob);
}

static void test_row_called__place_in_line_is_given_up_with_the_grant(
    void **state)
{
    (void)state;
    ask(&alice, T);
    ask(&bob, T + 1);
    release(&alice, T + 100);
    ask(&bob, T + 101);
    release(&bob, T + 102);
    expect_wakes(NULL, NULL); /* bob is not called by himself */
    ask(&carol, T + 103);
    expect_mine(&carol);
}

static void test_row_called__who_stays_away_goes_to_the_end(void **state)
{
    (void)state;
    four_meet(); /* alice owns; bob, carol, dave wait */
    release(&alice, T + 100);
    ask(&carol, T + 100 + RESERVATION + 1);
    expect_mine(&carol);
    ask(&bob, T + 450); /* he missed his call */
    expect_in_line(false);
    release(&carol, T + 500);
    expect_wakes(&dave, &bob);
    ask(&dave, T + 510);
    expect_mine(&dave);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW_TEST(test_row_called__called_waiter_has_300_ms),
        ROW_TEST(test_row_called__who_stays_away_goes_to_the_end),
        ROW_TEST(test_row_called__called_waiter_that_does_not_come_is_passed),
        ROW_TEST(
            test_row_called__next_is_called_when_the_called_one_stays_away),
        ROW_TEST(test_row_called__only_waiter_may_come_after_its_reservation),
        ROW_TEST(test_row_called__called_waiter_that_leaves_calls_the_next),
        ROW_TEST(test_row_called__last_called_waiter_that_leaves_frees),
        ROW_TEST(test_row_called__late_release_keeps_the_reservation),
        ROW_TEST(test_row_called__late_release_after_the_reservation_calls),
        ROW_TEST(test_row_called__late_release_with_nobody_called_calls),
        ROW_TEST(test_row_called__late_release_of_one_once_called_is_void),
        ROW_TEST(test_row_called__release_of_nobody_calls_nobody),
        ROW_TEST(test_row_called__late_release_does_not_end_the_next_tenure),
        ROW_TEST(test_row_called__release_of_a_waiter_keeps_who_is_called),
        ROW_TEST(test_row_called__place_in_line_is_given_up_with_the_grant),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
