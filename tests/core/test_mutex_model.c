/* The rules of one mutex, on snapshots: crowds of several owners, successors,
 * and a token above a given one. What one owner at a time shows of the rules is
 * in test_mutex_record*.c. */
#include "core/mutex_model.h"

#include <stddef.h>

#include "fixtures/unit_test.h"

enum { NOW = 1000 };

static struct simba__mutex_snapshot s;
static struct simba__verdict v;

static int setup(void **state)
{
    (void)state;
    s = (struct simba__mutex_snapshot){.now_ms = NOW};
    s.me.is_connected = true;
    return 0;
}

static void decide(enum simba_request_kind kind, uint32_t slots)
{
    simba_request request = {.kind = kind, .slots = slots, .join = true};

    v = simba__mutex_decide(&s, &request);
}

static struct simba__crowd crowd(uint32_t count, uint32_t limit)
{
    return (struct simba__crowd){.count = count,
                                 .limit = limit,
                                 .first_end_ms = NOW + 70,
                                 .last_end_ms = NOW + 90};
}

static struct simba__candidate waiter(uint64_t position, uint32_t slots)
{
    return (struct simba__candidate){
        .is_there = true, .position = position, .slots = slots};
}

static void expect_granted(bool is_offered_on)
{
    assert_int_equal(v.answer, SIMBA__GRANT);
    assert_int_equal(v.offer_to, is_offered_on);
    assert_false(v.join);
}

static void expect_refused(int64_t wait_ms)
{
    assert_int_equal(v.answer, SIMBA__REFUSE);
    assert_int_equal(v.wait_ms, wait_ms);
    assert_true(v.join);
}

#define MODEL_TEST(test) TEST_AROUND(test_mutex_model__##test, setup, NULL)

MODEL_TEST(exclusive_and_one_slot_need_nobody)
{
    for (uint32_t slots = 0; slots < 2; slots++) {
        s.owners = crowd(0, 0);
        decide(SIMBA_ACQUIRE, slots);
        expect_granted(false);
        s.owners = crowd(1, UINT32_MAX);
        decide(SIMBA_ACQUIRE, slots);
        expect_refused(70);
    }
}

MODEL_TEST(nobody_enters_beside_an_exclusive_owner)
{
    s.owners = crowd(1, 0);
    decide(SIMBA_ACQUIRE, UINT32_MAX);
    expect_refused(70);
}

MODEL_TEST(least_limit_of_all_counts)
{
    s.owners = crowd(3, 5);
    decide(SIMBA_ACQUIRE, 3);
    expect_refused(70);
    decide(SIMBA_ACQUIRE, 4);
    expect_granted(false);
    s.owners = crowd(3, 3);
    decide(SIMBA_ACQUIRE, 5);
    expect_refused(70);
}

MODEL_TEST(offers_take_slots)
{
    s.owners = crowd(1, 3);
    s.offered = crowd(1, 3);
    decide(SIMBA_ACQUIRE, 3);
    expect_granted(false);
    s.offered = crowd(1, 2);
    s.offered.first_end_ms = NOW + 40;
    decide(SIMBA_ACQUIRE, 3);
    expect_refused(40); /* the first of them all to end */
    s.owners = crowd(0, 0);
    s.offered = crowd(1, 0);
    decide(SIMBA_ACQUIRE, 3);
    expect_refused(70);
}

MODEL_TEST(leaving_the_queue_may_let_those_behind_in)
{
    s.owners = crowd(1, 4);
    s.me.is_queued = true;
    s.first = waiter(6, 4);
    decide(SIMBA_LEAVE, 0);
    assert_true(v.evict && v.offer_to);
    s.owners = crowd(1, 0);
    decide(SIMBA_LEAVE, 0);
    assert_true(v.evict && !v.offer_to);
}

MODEL_TEST(refusal_offers_to_who_stands_before_and_fits)
{
    s.owners = crowd(1, UINT32_MAX);
    s.first = waiter(5, UINT32_MAX);
    decide(SIMBA_ACQUIRE, 0);
    expect_refused(70);
    assert_int_equal(v.offer_to, SIMBA__OFFER_FIRST);
}

MODEL_TEST(renewal_may_let_more_in_but_never_fewer)
{
    s.mine.is_there = s.mine.is_live = true;
    s.first = waiter(5, 4);
    decide(SIMBA_RENEW, 4);
    assert_int_equal(v.answer, SIMBA__EXTEND);
    assert_int_equal(v.slots, 4);
    assert_int_equal(v.offer_to, SIMBA__OFFER_FIRST);
    s.mine.slots = 4;
    decide(SIMBA_RENEW, 2);
    assert_int_equal(v.answer, SIMBA__EXTEND);
    assert_int_equal(v.slots, 4);
    assert_int_equal(v.offer_to, SIMBA__OFFER_NOBODY);
}

MODEL_TEST(named_successor_is_offered_it_if_it_fits)
{
    s.mine.is_there = s.mine.is_live = true;
    s.first = waiter(5, 0);
    s.second = waiter(6, 0);
    s.named = waiter(7, 0);
    decide(SIMBA_RELEASE, 0);
    assert_int_equal(v.offer_to, SIMBA__OFFER_NAMED);
    assert_true(v.wake);
    s.named = s.first;
    decide(SIMBA_RELEASE, 0);
    assert_int_equal(v.offer_to, SIMBA__OFFER_FIRST);
    s.owners = crowd(1, 4);
    s.first = waiter(5, 4);
    s.named = waiter(7, 0);
    decide(SIMBA_RELEASE, 0);
    assert_int_equal(v.offer_to, SIMBA__OFFER_FIRST);
}

MODEL_TEST(only_a_live_owner_with_a_waiter_is_asked_to_hand_over)
{
    simba_request request = {.kind = SIMBA_HAND_OVER, .to = "bob"};

    s.mine.is_there = s.mine.is_live = true;
    decide(SIMBA_HAND_OVER, 0);
    assert_false(v.is_asked);
    s.first = waiter(5, 0);
    decide(SIMBA_HAND_OVER, 0);
    assert_true(v.is_asked);
    assert_false(simba__mutex_decide(&s, &request).is_asked);
    s.named = waiter(6, 0);
    assert_true(simba__mutex_decide(&s, &request).is_asked);
    s.owners = crowd(1, 3); /* it would not fit in beside the others */
    assert_false(simba__mutex_decide(&s, &request).is_asked);
    s.named = waiter(6, 2);
    assert_true(simba__mutex_decide(&s, &request).is_asked);
    s.mine.is_broken = true;
    assert_false(simba__mutex_decide(&s, &request).is_asked);
    s.mine.is_live = s.mine.is_broken = false;
    assert_false(simba__mutex_decide(&s, &request).is_asked);
}

MODEL_TEST(grant_offers_what_is_left)
{
    s.me.is_queued = s.me.is_first = true;
    s.me.position = 5;
    s.first = waiter(6, 3);
    decide(SIMBA_ACQUIRE, 3);
    expect_granted(true);
    assert_false(v.wake);
    s.second = waiter(7, 3);
    decide(SIMBA_ACQUIRE, 3);
    expect_granted(true);
    assert_true(v.wake);
    s.offered = crowd(1, 3); /* one offer at a time */
    decide(SIMBA_ACQUIRE, 3);
    expect_granted(false);
    assert_true(v.wake); /* the first: it asks when the offer ends */
    s.offered = crowd(0, 0);
    s.first = waiter(6, 0); /* it wants to be alone */
    decide(SIMBA_ACQUIRE, 3);
    expect_granted(false);
    s.owners = crowd(2, 3); /* full with me */
    s.first = waiter(6, 3);
    decide(SIMBA_ACQUIRE, 3);
    expect_granted(false);
}

MODEL_TEST(who_is_offered_enters_before_the_queue)
{
    s.me.is_offered = true;
    s.owners = crowd(1, 4);
    s.first = waiter(5, 4);
    s.second = waiter(6, 4);
    decide(SIMBA_ACQUIRE, 4);
    expect_granted(true);
    assert_true(v.wake);
}

MODEL_TEST(nobody_passes_although_it_would_fit)
{
    s.owners = crowd(1, 4);
    s.first = waiter(5, 0); /* waits to be alone */
    decide(SIMBA_ACQUIRE, 4);
    expect_refused(70);
    assert_false(v.offer_to);
    assert_false(v.is_head);
    s.owners.first_end_ms = NOW + 60000; /* who waits there may die before */
    decide(SIMBA_ACQUIRE, 4);
    expect_refused(2000);
    s.first = waiter(5, 2);
    decide(SIMBA_ACQUIRE, 4);
    expect_refused(SIMBA__OFFER_MS);
    assert_true(v.offer_to);
    assert_true(v.is_head); /* but for the one that it was offered to */
}

MODEL_TEST(release_offers_where_there_is_room)
{
    s.mine.is_there = s.mine.is_live = true;
    s.owners = crowd(2, 3);
    s.first = waiter(5, 3);
    decide(SIMBA_RELEASE, 0);
    assert_true(v.evict && v.offer_to);
    s.first = waiter(5, 2);
    decide(SIMBA_RELEASE, 0);
    assert_true(v.evict && !v.offer_to);
}

MODEL_TEST(slot_is_the_lowest_free_one)
{
    s.lowest_free_slot = 2;
    s.owners = crowd(2, 3);
    decide(SIMBA_ACQUIRE, 3);
    assert_int_equal(v.slot, 2);
    s.mine.is_there = s.mine.is_live = true;
    s.mine.slot = 1;
    s.mine.token = 9;
    decide(SIMBA_RENEW, 3);
    assert_int_equal(v.answer, SIMBA__EXTEND);
    assert_int_equal(v.slot, 1);
    assert_int_equal(v.token, 9);
}

MODEL_TEST(token_is_above_what_is_asked)
{
    simba_request request = {.kind = SIMBA_ACQUIRE};

    s.last_token = 7;
    v = simba__mutex_decide(&s, &request);
    assert_int_equal(v.token, NOW * 1000);
    request.token_above = NOW * 1000 + 5;
    v = simba__mutex_decide(&s, &request);
    assert_int_equal(v.token, NOW * 1000 + 6);
    s.last_token = NOW * 1000 + 8;
    v = simba__mutex_decide(&s, &request);
    assert_int_equal(v.token, NOW * 1000 + 9);
}

MODEL_TEST(other_kinds_change_nothing)
{
    static const enum simba_request_kind kinds[] = {
        SIMBA_NO_REQUEST, SIMBA_READ, SIMBA_LIST, SIMBA_DOCTOR, SIMBA_INIT};

    s.mine.is_there = s.mine.is_live = true;
    s.first = waiter(5, 0);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        decide(kinds[i], 0);
        assert_int_equal(v.answer, SIMBA__REFUSE);
        assert_false(v.evict || v.offer_to || v.wake || v.join || v.is_broken);
    }
}
