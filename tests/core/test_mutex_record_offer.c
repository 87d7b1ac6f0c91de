/* One mutex as a store keeps it: who is offered it when the mutex is free, and
 * how long it is kept for him (S10). */
#include "mutex_record_driver.h"

RECORD_TEST(test_record_offer__offered_waiter_has_300_ms)
{
    four_meet();
    release(&alice, T + 100);
    ask(&carol, T + 120);
    expect_refused(OFFER - 20);
    expect_queued(true); /* nobody stands before it but who is offered it */
    expect_wakes(NULL, NULL);
    ask_without_joining(&alice, T + 100 + OFFER);
    expect_refused(0);
    ask(&bob, T + 100 + OFFER);
    expect_mine(&bob);
}

RECORD_TEST(test_record_offer__offered_waiter_that_stays_away_is_passed)
{
    four_meet();
    release(&alice, T + 100);
    ask(&carol, T + 100 + OFFER + 1);
    expect_mine(&carol);
    expect_wakes(NULL, NULL);
}

RECORD_TEST(test_record_offer__next_is_offered_it_when_the_first_stays_away)
{
    four_meet();
    release(&alice, T + 100);
    ask(&dave, T + 100 + OFFER + 1); /* carol stands before him */
    expect_refused(OFFER);
    expect_wakes(&carol, &dave);
    ask(&carol, T + 450);
    expect_mine(&carol);
}

RECORD_TEST(test_record_offer__only_waiter_may_come_later)
{
    ask(&alice, T);
    ask(&bob, T + 1);
    release(&alice, T + 100);
    ask(&bob, T + 5000);
    expect_mine(&bob);
}

RECORD_TEST(test_record_offer__offered_waiter_that_leaves_offers_it_on)
{
    four_meet();
    release(&alice, T + 100);
    leave(&bob, T + 110);
    expect_wakes(&carol, &dave);
    ask(&carol, T + 100 + OFFER + 5); /* an offer of its own */
    expect_mine(&carol);
}

RECORD_TEST(test_record_offer__last_offered_waiter_that_leaves_frees)
{
    ask(&alice, T);
    ask(&bob, T + 1);
    release(&alice, T + 100);
    leave(&bob, T + 110);
    expect_wakes(NULL, NULL);
    ask(&carol, T + 111);
    expect_mine(&carol);
}

/* The old owner wakes up late: its lease has lapsed, it was offered to bob by
 * carol's asking. Its release must not take it from bob. */
RECORD_TEST(test_record_offer__late_release_keeps_the_offer)
{
    four_meet();
    ask(&carol, T + LEASE + 1);
    expect_wakes(&bob, &carol);
    release(&alice, T + LEASE + 2);
    expect_wakes(NULL, NULL);
    ask(&carol, T + LEASE + 3);
    expect_refused(OFFER - 2);
    ask(&bob, T + LEASE + 1 + OFFER);
    expect_mine(&bob);
}

RECORD_TEST(test_record_offer__late_release_after_the_offer_offers)
{
    four_meet();
    ask(&carol, T + LEASE + 1);
    expect_wakes(&bob, &carol);
    release(&alice, T + LEASE + 1 + OFFER + 1);
    expect_wakes(&carol, &dave);
}

RECORD_TEST(test_record_offer__late_release_with_nobody_offered_offers)
{
    four_meet();
    release(&alice, T + LEASE + 50);
    expect_wakes(&bob, &carol);
}

/* Bob had been offered it, came, and slept over his lease. */
RECORD_TEST(test_record_offer__late_release_of_one_once_offered_is_void)
{
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

RECORD_TEST(test_record_offer__release_of_nobody_offers_nothing)
{
    static const simba_attempt none; /* what a free record holds */
    struct who nobody = person("nobody", 9);

    nobody.attempt = none;
    four_meet();
    release(&alice, T + 100);
    release(&nobody, T + 100 + OFFER + 1);
    expect_wakes(NULL, NULL);
}

RECORD_TEST(test_record_offer__late_release_does_not_end_the_next_tenure)
{
    four_meet();
    ask(&bob, T + LEASE + 1);
    release(&alice, T + LEASE + 2);
    expect_wakes(NULL, NULL);
    renew(&bob, T + LEASE + 3);
    expect_mine(&bob);
}

RECORD_TEST(test_record_offer__release_of_a_waiter_keeps_the_offer_of_another)
{
    four_meet();
    release(&alice, T + 100);
    release(&carol, T + 101);
    expect_wakes(NULL, NULL);
    ask(&dave, T + 102);
    expect_refused(OFFER - 2);
    ask(&bob, T + 103);
    expect_mine(&bob);
}

RECORD_TEST(test_record_offer__position_is_given_up_with_the_grant)
{
    ask(&alice, T);
    ask(&bob, T + 1);
    release(&alice, T + 100);
    ask(&bob, T + 101);
    release(&bob, T + 102);
    expect_wakes(NULL, NULL); /* bob is not woken by himself */
    ask(&carol, T + 103);
    expect_mine(&carol);
}

RECORD_TEST(test_record_offer__who_stays_away_goes_to_the_end)
{
    four_meet(); /* alice owns; bob, carol, dave wait */
    release(&alice, T + 100);
    ask(&carol, T + 100 + OFFER + 1);
    expect_mine(&carol);
    ask(&bob, T + 450); /* he missed his call */
    expect_queued(false);
    release(&carol, T + 500);
    expect_wakes(&dave, &bob);
    ask(&dave, T + 510);
    expect_mine(&dave);
}

static void share(struct who *who, uint32_t slots, int64_t now_ms)
{
    must_serve(who,
               (simba_request){.kind = SIMBA_ACQUIRE,
                               .position = who->position,
                               .waiter_ms = WAITER_LIFE,
                               .join = true,
                               .slots = slots},
               now_ms);
    who->position = got.position;
}

/* Carol takes the other slot while one is offered to bob, who does not come.
 * Dave knows of it, and when to ask. */
RECORD_TEST(test_record_offer__next_is_woken_by_a_grant_beside_an_offer)
{
    ask(&alice, T);
    share(&bob, 2, T + 1);
    share(&carol, 2, T + 2);
    share(&dave, 2, T + 3);
    release(&alice, T + 100);
    expect_wakes(&bob, &carol);
    share(&carol, 2, T + 101);
    assert_true(got.mine);
    expect_wakes(&dave, NULL);
    share(&dave, 2, T + 102);
    expect_refused(OFFER - 2);
    expect_wakes(NULL, NULL);
    share(&dave, 2, T + 100 + OFFER + 1);
    assert_true(got.mine);
}

/* So does who comes to be the first when another goes. */
RECORD_TEST(test_record_offer__next_is_woken_when_another_goes_beside_an_offer)
{
    ask(&alice, T);
    share(&bob, 2, T + 1);
    share(&carol, 2, T + 2);
    share(&dave, 2, T + 3);
    release(&alice, T + 100);
    share(&carol, 2, T + 101);
    release(&carol, T + 102);
    expect_wakes(&dave, NULL);
}
