/* One mutex as a store keeps it: the queue, and how the dead are passed over
 * (S11). Who is offered the mutex is in test_mutex_record_offer.c. */
#include "mutex_record_driver.h"

/* --- the queue ----------------------------------------------------------- */

RECORD_TEST(test_record_queue__first_come_is_first_served)
{
    struct who *order[] = {&alice, &bob, &carol, &dave};

    four_meet();
    for (int i = 1; i < 4; i++) {
        int64_t now = T + 100 * i;

        release(order[i - 1], now);
        expect_wakes(order[i], i < 3 ? order[i + 1] : NULL);
        ask(order[i], now + 5);
        expect_mine(order[i]);
    }
}

RECORD_TEST(test_record_queue__queue_outgrows_its_first_room)
{
    struct who crowd[40];

    ask(&alice, T);
    for (uint64_t i = 0; i < 40; i++) {
        crowd[i] = person("crowd", i + 10);
        ask(&crowd[i], T + 1);
        expect_queued(i == 0);
        assert_true(i == 0 || crowd[i].position > crowd[i - 1].position);
    }
    release(&alice, T + 2);
    for (int i = 0; i < 39; i++) {
        ask(&crowd[i], T + 3);
        expect_mine(&crowd[i]);
        release(&crowd[i], T + 3);
        assert_int_equal(store.woken[0], crowd[i + 1].connection);
    }
}

RECORD_TEST(test_record_queue__positions_follow_the_clock)
{
    ask(&alice, T);
    ask(&bob, T + 1);
    assert_int_equal(bob.position, (T + 1) * INT64_C(1000));
    ask(&carol, T + 1);
    assert_int_equal(carol.position, bob.position + 1);
    ask(&dave, T / 2); /* the clock stepped back */
    assert_int_equal(dave.position, bob.position + 2);
}

RECORD_TEST(test_record_queue__asking_again_keeps_the_position)
{
    uint64_t position;

    four_meet();
    position = carol.position;
    carol.position = 0; /* even when it is not told */
    ask(&carol, T + 50);
    expect_queued(false);
    assert_int_equal(got.position, position);
    ask(&bob, T + 60);
    expect_queued(true);
    assert_int_equal(record.queue_count, 3);
}

RECORD_TEST(test_record_queue__lost_position_is_given_back)
{
    four_meet();
    simba__mutex_fini(&record); /* the store lost its data */
    ask(&alice, T + 100);
    ask(&dave, T + 101);
    expect_queued(true);
    ask(&carol, T + 102);
    expect_queued(true);
    ask(&bob, T + 103);
    expect_queued(true);
    ask(&carol, T + 104);
    expect_queued(false);
    release(&alice, T + 105);
    expect_wakes(&bob, &carol);
}

/* Two lives of a store may have given out the same position. */
RECORD_TEST(test_record_queue__equal_positions_are_first_come_first_served)
{
    ask(&alice, T);
    bob.position = carol.position = 42;
    ask(&bob, T + 1);
    ask(&carol, T + 2);
    expect_queued(false);
    release(&alice, T + 3);
    expect_wakes(&bob, &carol);
}

RECORD_TEST(test_record_queue__position_given_back_does_not_move_the_end)
{
    struct who newcomer = person("erin", 5);

    four_meet();
    leave(&bob, T + 4);
    ask(&bob, T + 5);
    ask(&newcomer, T + 1); /* the clock stepped back */
    assert_int_equal(newcomer.position, dave.position + 1);
}

RECORD_TEST(test_record_queue__newcomer_stands_behind_positions_given_back)
{
    struct who newcomer = person("erin", 5);

    four_meet();
    dave.position += 1000000; /* from before the clock stepped back */
    leave(&dave, T + 4);
    ask(&dave, T + 5);
    ask(&newcomer, T + 6);
    assert_int_equal(newcomer.position, dave.position + 1);
}

RECORD_TEST(test_record_queue__who_does_not_join_leaves_no_trace)
{
    ask(&alice, T);
    ask_without_joining(&bob, T + 1);
    expect_refused(LEASE - 1);
    assert_false(got.is_queued || got.is_head);
    ask(&carol, T + 2);
    expect_queued(true);
    release(&alice, T + 3);
    expect_wakes(&carol, NULL);
}

RECORD_TEST(test_record_queue__leaving_the_queue_lets_the_next_be_head)
{
    four_meet();
    leave(&bob, T + 10);
    expect_wakes(NULL, NULL);
    assert_true(simba__mutex_is_held(&record, T + 10));
    ask(&carol, T + 11);
    expect_queued(true);
    leave(&dave, T + 12); /* the last of the queue */
    release(&alice, T + 20);
    expect_wakes(&carol, NULL);
}

RECORD_TEST(test_record_queue__newcomer_does_not_pass_the_queue)
{
    struct who newcomer = person("erin", 5);

    four_meet();
    /* The lease ends without a release; the newcomer is the first to ask. */
    ask(&newcomer, T + LEASE + 1);
    expect_refused(OFFER);
    expect_queued(false);
    expect_wakes(&bob, &carol); /* the asking offered it to who is first */
    ask(&bob, T + LEASE + 5);
    expect_mine(&bob);
}

RECORD_TEST(test_record_queue__head_takes_a_lapsed_lease_itself)
{
    four_meet();
    ask(&bob, T + LEASE + 1);
    expect_mine(&bob);
    expect_wakes(NULL, NULL);
    ask(&bob, T + LEASE + 2);
    expect_mine(&bob);
    ask(&carol, T + LEASE + 3);
    expect_queued(true); /* who owns does not stand in the queue */
}

/* --- dead waiters -------------------------------------------------------- */

RECORD_TEST(test_record_queue__waiter_without_connection_is_not_offered_it)
{
    four_meet();
    disconnect(&bob);
    release(&alice, T + 100);
    expect_wakes(&carol, &dave);
}

RECORD_TEST(test_record_queue__second_without_connection_is_not_told)
{
    four_meet();
    disconnect(&carol);
    release(&alice, T + 100);
    expect_wakes(&bob, &dave);
}

RECORD_TEST(test_record_queue__queue_of_the_dead_is_no_queue)
{
    struct who newcomer = person("erin", 5);

    four_meet();
    disconnect(&bob);
    disconnect(&carol);
    disconnect(&dave);
    release(&alice, T + 100);
    expect_wakes(NULL, NULL);
    ask(&newcomer, T + 101);
    expect_mine(&newcomer);
}

RECORD_TEST(test_record_queue__reconnected_waiter_has_its_position_still)
{
    four_meet();
    disconnect(&bob);
    ask(&carol, T + 50);
    expect_queued(true);
    bob.connection = 7; /* a new one */
    ask(&bob, T + 60);
    expect_queued(true);
    release(&alice, T + 100);
    expect_wakes(&bob, &carol);
}

RECORD_TEST(test_record_queue__connection_that_comes_back_keeps_the_position)
{
    four_meet();
    disconnect(&bob);
    ask(&carol, T + 50);
    expect_queued(true);
    reconnect(&bob);
    release(&alice, T + 100);
    expect_wakes(&bob, &carol);
}

RECORD_TEST(test_record_queue__lapsed_position_is_forgotten)
{
    int64_t now = T + 1 + WAITER_LIFE + 1;

    four_meet();
    renew(&alice, T + LEASE);
    renew(&alice, T + 2 * LEASE);
    ask(&carol, now); /* finds bob lapsed */
    bob.position = 0;
    ask(&bob, now + 1);
    expect_queued(false);
    assert_true(bob.position > dave.position);
}

RECORD_TEST(test_record_queue__lapsed_waiter_is_not_offered_it)
{
    int64_t now = T + 1 + WAITER_LIFE; /* bob's last millisecond */

    four_meet();
    renew(&alice, T + 10000);
    renew(&alice, T + 20000);
    renew(&alice, T + 30000);
    ask(&carol, now);
    expect_queued(false); /* bob is still alive */
    ask(&carol, now + 1);
    expect_queued(true);
    release(&alice, now + 2); /* dave's last millisecond */
    expect_wakes(&carol, &dave);
}

RECORD_TEST(test_record_queue__asking_again_renews_the_position)
{
    four_meet();
    renew(&alice, T + 15000);
    ask(&bob, T + 20000);
    renew(&alice, T + 30000);
    release(&alice, T + 20000 + WAITER_LIFE);
    expect_wakes(&bob, NULL); /* the others have lapsed */
}

RECORD_TEST(test_record_queue__asking_over_a_dead_connection_is_not_head)
{
    four_meet();
    leave(&bob, T + 4);
    leave(&carol, T + 5);
    disconnect(&dave);
    ask(&dave, T + 6);
    expect_queued(false);
    reconnect(&dave);
    ask(&dave, T + 7);
    expect_queued(true);
}

/* Bob's connection breaks after it was looked at: nobody else gets the mutex
 * before what he was offered is over. */
RECORD_TEST(test_record_queue__connection_may_break_when_it_was_looked_at)
{
    ask(&alice, T);
    ask(&bob, T + 1);
    store.answers_left = 2; /* carol's, and his */
    ask_without_joining(&carol, T + LEASE + 1);
    expect_refused(OFFER);
    expect_wakes(&bob, NULL);
    ask_without_joining(&carol, T + LEASE + 1 + OFFER);
    expect_refused(0);
    ask_without_joining(&carol, T + LEASE + 2 + OFFER);
    expect_mine(&carol);
}
