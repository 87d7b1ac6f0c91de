/* One mutex as a store keeps it: the line, who is called when the mutex is
 * free, and how the dead are passed over (S10, S11). */
#include "row_driver.h"

/* --- the line ------------------------------------------------------------ */

static void test_row_line__first_come_is_first_served(void **state)
{
    struct who *order[] = {&alice, &bob, &carol, &dave};

    (void)state;
    four_meet();
    for (int i = 1; i < 4; i++) {
        int64_t now = T + 100 * i;

        release(order[i - 1], now);
        expect_hints(order[i], i < 3 ? order[i + 1] : NULL);
        ask(order[i], now + 5);
        expect_mine(order[i]);
    }
}

static void test_row_line__line_outgrows_its_first_room(void **state)
{
    struct who crowd[40];

    (void)state;
    ask(&alice, T);
    for (uint64_t i = 0; i < 40; i++) {
        crowd[i] = person("crowd", i + 10);
        ask(&crowd[i], T + 1);
        expect_in_line(i == 0);
        assert_true(i == 0 || crowd[i].place > crowd[i - 1].place);
    }
    release(&alice, T + 2);
    for (int i = 0; i < 39; i++) {
        ask(&crowd[i], T + 3);
        expect_mine(&crowd[i]);
        release(&crowd[i], T + 3);
        assert_int_equal(store.hinted[0], crowd[i + 1].connection);
    }
}

static void test_row_line__places_follow_the_clock(void **state)
{
    (void)state;
    ask(&alice, T);
    ask(&bob, T + 1);
    assert_int_equal(bob.place, (T + 1) * INT64_C(1000));
    ask(&carol, T + 1);
    assert_int_equal(carol.place, bob.place + 1);
    ask(&dave, T / 2); /* the clock stepped back */
    assert_int_equal(dave.place, bob.place + 2);
}

static void test_row_line__asking_again_keeps_the_place(void **state)
{
    uint64_t place;

    (void)state;
    four_meet();
    place = carol.place;
    carol.place = 0; /* even when it is not told */
    ask(&carol, T + 50);
    expect_in_line(false);
    assert_int_equal(got.place, place);
    ask(&bob, T + 60);
    expect_in_line(true);
    assert_int_equal(row.line_count, 3);
}

static void test_row_line__lost_place_is_given_back(void **state)
{
    (void)state;
    four_meet();
    simba__row_fini(&row); /* the store lost its data */
    ask(&alice, T + 100);
    ask(&dave, T + 101);
    expect_in_line(true);
    ask(&carol, T + 102);
    expect_in_line(true);
    ask(&bob, T + 103);
    expect_in_line(true);
    ask(&carol, T + 104);
    expect_in_line(false);
    release(&alice, T + 105);
    expect_hints(&bob, &carol);
}

static void test_row_line__newcomer_stands_behind_places_given_back(
    void **state)
{
    struct who newcomer = person("erin", 5);

    (void)state;
    four_meet();
    dave.place += 1000000; /* from before the clock stepped back */
    leave(&dave, T + 4);
    ask(&dave, T + 5);
    ask(&newcomer, T + 6);
    assert_int_equal(newcomer.place, dave.place + 1);
}

static void test_row_line__who_does_not_join_leaves_no_trace(void **state)
{
    (void)state;
    ask(&alice, T);
    ask_without_joining(&bob, T + 1);
    expect_refused(LEASE - 1);
    assert_false(got.in_line || got.is_head);
    ask(&carol, T + 2);
    expect_in_line(true);
    release(&alice, T + 3);
    expect_hints(&carol, NULL);
}

static void test_row_line__leaving_the_line_lets_the_next_be_head(void **state)
{
    (void)state;
    four_meet();
    leave(&bob, T + 10);
    expect_hints(NULL, NULL);
    assert_true(simba__row_is_held(&row, T + 10));
    ask(&carol, T + 11);
    expect_in_line(true);
    leave(&dave, T + 12); /* the last of the line */
    release(&alice, T + 20);
    expect_hints(&carol, NULL);
}

static void test_row_line__newcomer_does_not_pass_the_line(void **state)
{
    struct who newcomer = person("erin", 5);

    (void)state;
    four_meet();
    /* The lease ends without a release; the newcomer is the first to ask. */
    ask(&newcomer, T + LEASE + 1);
    expect_refused(RESERVATION);
    expect_in_line(false);
    expect_hints(&bob, &carol); /* the asking called who is first */
    ask(&bob, T + LEASE + 5);
    expect_mine(&bob);
}

static void test_row_line__head_takes_a_lapsed_lease_itself(void **state)
{
    (void)state;
    four_meet();
    ask(&bob, T + LEASE + 1);
    expect_mine(&bob);
    expect_hints(NULL, NULL);
    ask(&bob, T + LEASE + 2);
    expect_mine(&bob);
    ask(&carol, T + LEASE + 3);
    expect_in_line(true); /* who owns does not stand in line */
}

/* --- the called waiter --------------------------------------------------- */

static void test_row_line__called_waiter_has_300_ms(void **state)
{
    (void)state;
    four_meet();
    release(&alice, T + 100);
    ask(&carol, T + 120);
    expect_refused(RESERVATION - 20);
    expect_in_line(true); /* nobody stands before it but the called one */
    expect_hints(NULL, NULL);
    ask_without_joining(&alice, T + 100 + RESERVATION);
    expect_refused(0);
    ask(&bob, T + 100 + RESERVATION);
    expect_mine(&bob);
}

static void test_row_line__called_waiter_that_does_not_come_is_passed(
    void **state)
{
    (void)state;
    four_meet();
    release(&alice, T + 100);
    ask(&carol, T + 100 + RESERVATION + 1);
    expect_mine(&carol);
    expect_hints(NULL, NULL);
}

static void test_row_line__next_is_called_when_the_called_one_stays_away(
    void **state)
{
    (void)state;
    four_meet();
    release(&alice, T + 100);
    ask(&dave, T + 100 + RESERVATION + 1); /* carol stands before him */
    expect_refused(RESERVATION);
    expect_hints(&carol, &dave);
    ask(&carol, T + 450);
    expect_mine(&carol);
}

static void test_row_line__only_waiter_may_come_after_its_reservation(
    void **state)
{
    (void)state;
    ask(&alice, T);
    ask(&bob, T + 1);
    release(&alice, T + 100);
    ask(&bob, T + 5000);
    expect_mine(&bob);
}

static void test_row_line__called_waiter_that_leaves_calls_the_next(
    void **state)
{
    (void)state;
    four_meet();
    release(&alice, T + 100);
    leave(&bob, T + 110);
    expect_hints(&carol, &dave);
    ask(&carol, T + 100 + RESERVATION + 5); /* a reservation of its own */
    expect_mine(&carol);
}

static void test_row_line__last_called_waiter_that_leaves_frees(void **state)
{
    (void)state;
    ask(&alice, T);
    ask(&bob, T + 1);
    release(&alice, T + 100);
    leave(&bob, T + 110);
    expect_hints(NULL, NULL);
    ask(&carol, T + 111);
    expect_mine(&carol);
}

/* The old owner wakes up late: its lease has lapsed, bob has been called by
 * carol's asking. Its release must not take the reservation from bob. */
static void test_row_line__late_release_keeps_the_reservation(void **state)
{
    (void)state;
    four_meet();
    ask(&carol, T + LEASE + 1);
    expect_hints(&bob, &carol);
    release(&alice, T + LEASE + 2);
    expect_hints(NULL, NULL);
    ask(&carol, T + LEASE + 3);
    expect_refused(RESERVATION - 2);
    ask(&bob, T + LEASE + 1 + RESERVATION);
    expect_mine(&bob);
}

static void test_row_line__late_release_after_the_reservation_calls(
    void **state)
{
    (void)state;
    four_meet();
    ask(&carol, T + LEASE + 1);
    expect_hints(&bob, &carol);
    release(&alice, T + LEASE + 1 + RESERVATION + 1);
    expect_hints(&carol, &dave);
}

static void test_row_line__late_release_with_nobody_called_calls(void **state)
{
    (void)state;
    four_meet();
    release(&alice, T + LEASE + 50);
    expect_hints(&bob, &carol);
}

static void test_row_line__late_release_does_not_end_the_next_tenure(
    void **state)
{
    (void)state;
    four_meet();
    ask(&bob, T + LEASE + 1);
    release(&alice, T + LEASE + 2);
    expect_hints(NULL, NULL);
    renew(&bob, T + LEASE + 3);
    expect_mine(&bob);
}

static void test_row_line__release_of_a_waiter_keeps_who_is_called(void **state)
{
    (void)state;
    four_meet();
    release(&alice, T + 100);
    release(&carol, T + 101);
    expect_hints(NULL, NULL);
    ask(&dave, T + 102);
    expect_refused(RESERVATION - 2);
    ask(&bob, T + 103);
    expect_mine(&bob);
}

static void test_row_line__place_in_line_is_given_up_with_the_grant(
    void **state)
{
    (void)state;
    ask(&alice, T);
    ask(&bob, T + 1);
    release(&alice, T + 100);
    ask(&bob, T + 101);
    release(&bob, T + 102);
    expect_hints(NULL, NULL); /* bob is not called by himself */
    ask(&carol, T + 103);
    expect_mine(&carol);
}

/* --- dead waiters -------------------------------------------------------- */

static void test_row_line__waiter_without_connection_is_not_called(void **state)
{
    (void)state;
    four_meet();
    disconnect(&bob);
    release(&alice, T + 100);
    expect_hints(&carol, &dave);
}

static void test_row_line__second_without_connection_is_not_told(void **state)
{
    (void)state;
    four_meet();
    disconnect(&carol);
    release(&alice, T + 100);
    expect_hints(&bob, &dave);
}

static void test_row_line__line_of_the_dead_is_no_line(void **state)
{
    struct who newcomer = person("erin", 5);

    (void)state;
    four_meet();
    disconnect(&bob);
    disconnect(&carol);
    disconnect(&dave);
    release(&alice, T + 100);
    expect_hints(NULL, NULL);
    ask(&newcomer, T + 101);
    expect_mine(&newcomer);
}

static void test_row_line__reconnected_waiter_has_its_place_still(void **state)
{
    (void)state;
    four_meet();
    disconnect(&bob);
    ask(&carol, T + 50);
    expect_in_line(true);
    bob.connection = 7; /* a new one */
    ask(&bob, T + 60);
    expect_in_line(true);
    release(&alice, T + 100);
    expect_hints(&bob, &carol);
}

static void test_row_line__lapsed_waiter_is_not_called(void **state)
{
    int64_t now = T + 1 + PLACE_LIFE; /* bob's last millisecond */

    (void)state;
    four_meet();
    renew(&alice, T + 10000);
    renew(&alice, T + 20000);
    renew(&alice, T + 30000);
    ask(&carol, now);
    expect_in_line(false); /* bob is still alive */
    ask(&carol, now + 1);
    expect_in_line(true);
    release(&alice, now + 2); /* dave's last millisecond */
    expect_hints(&carol, &dave);
}

static void test_row_line__asking_again_renews_the_place(void **state)
{
    (void)state;
    four_meet();
    renew(&alice, T + 15000);
    ask(&bob, T + 20000);
    renew(&alice, T + 30000);
    release(&alice, T + 20000 + PLACE_LIFE);
    expect_hints(&bob, NULL); /* the others have lapsed */
}

static void test_row_line__asking_over_a_dead_connection_is_not_head(
    void **state)
{
    (void)state;
    ask(&alice, T);
    disconnect(&bob);
    ask(&bob, T + 1);
    expect_in_line(false);
    reconnect(&bob);
    ask(&bob, T + 2);
    expect_in_line(true);
}

/* Bob's connection breaks between the look at the line and the call. */
static void test_row_line__connection_may_break_while_it_is_looked_at(
    void **state)
{
    (void)state;
    ask(&alice, T);
    ask(&bob, T + 1);
    store.answers_left = 1;
    ask_without_joining(&carol, T + LEASE + 1);
    assert_false(got.mine);
    expect_hints(NULL, NULL);
    ask_without_joining(&carol, T + LEASE + 2);
    expect_mine(&carol);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW_TEST(test_row_line__first_come_is_first_served),
        ROW_TEST(test_row_line__line_outgrows_its_first_room),
        ROW_TEST(test_row_line__places_follow_the_clock),
        ROW_TEST(test_row_line__asking_again_keeps_the_place),
        ROW_TEST(test_row_line__lost_place_is_given_back),
        ROW_TEST(test_row_line__newcomer_stands_behind_places_given_back),
        ROW_TEST(test_row_line__who_does_not_join_leaves_no_trace),
        ROW_TEST(test_row_line__leaving_the_line_lets_the_next_be_head),
        ROW_TEST(test_row_line__newcomer_does_not_pass_the_line),
        ROW_TEST(test_row_line__head_takes_a_lapsed_lease_itself),
        ROW_TEST(test_row_line__called_waiter_has_300_ms),
        ROW_TEST(test_row_line__called_waiter_that_does_not_come_is_passed),
        ROW_TEST(test_row_line__next_is_called_when_the_called_one_stays_away),
        ROW_TEST(test_row_line__only_waiter_may_come_after_its_reservation),
        ROW_TEST(test_row_line__called_waiter_that_leaves_calls_the_next),
        ROW_TEST(test_row_line__last_called_waiter_that_leaves_frees),
        ROW_TEST(test_row_line__late_release_keeps_the_reservation),
        ROW_TEST(test_row_line__late_release_after_the_reservation_calls),
        ROW_TEST(test_row_line__late_release_with_nobody_called_calls),
        ROW_TEST(test_row_line__late_release_does_not_end_the_next_tenure),
        ROW_TEST(test_row_line__release_of_a_waiter_keeps_who_is_called),
        ROW_TEST(test_row_line__place_in_line_is_given_up_with_the_grant),
        ROW_TEST(test_row_line__waiter_without_connection_is_not_called),
        ROW_TEST(test_row_line__second_without_connection_is_not_told),
        ROW_TEST(test_row_line__line_of_the_dead_is_no_line),
        ROW_TEST(test_row_line__reconnected_waiter_has_its_place_still),
        ROW_TEST(test_row_line__lapsed_waiter_is_not_called),
        ROW_TEST(test_row_line__asking_again_renews_the_place),
        ROW_TEST(test_row_line__asking_over_a_dead_connection_is_not_head),
        ROW_TEST(test_row_line__connection_may_break_while_it_is_looked_at),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
