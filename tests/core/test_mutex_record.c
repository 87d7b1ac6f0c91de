/* One mutex as a store keeps it: tenures and who may extend or end them,
 * tokens, tombstones, breaking. The queue is in test_mutex_record_queue.c. */
#include "mutex_record_driver.h"

/* --- tenures ------------------------------------------------------------- */

RECORD_TEST(test_mutex_record__free_mutex_is_granted)
{
    assert_false(simba__mutex_is_held(&record, 0));
    ask(&alice, T);
    expect_mine(&alice);
    expect_lease(T);
    assert_int_equal(record.owner.acquired_at_ms, T);
    expect_wakes(NULL, NULL);
}

RECORD_TEST(test_mutex_record__lease_is_free_after_its_last_millisecond)
{
    ask(&alice, T);
    assert_true(simba__mutex_is_held(&record, T + LEASE));
    assert_false(simba__mutex_is_held(&record, T + LEASE + 1));
    ask_without_joining(&bob, T + LEASE);
    expect_refused(0);
    ask_without_joining(&bob, T + LEASE + 1);
    expect_mine(&bob);
    expect_lease(T + LEASE + 1);
    assert_int_equal(record.owner.acquired_at_ms, T + LEASE + 1);
}

RECORD_TEST(test_mutex_record__refusal_says_how_long_to_wait)
{
    ask(&alice, T);
    ask(&bob, T + 400);
    expect_refused(LEASE - 400);
    ask_without_joining(&carol, T + 500);
    expect_refused(LEASE - 500);
    assert_false(got.is_queued);
    assert_int_equal(got.position, 0);
}

RECORD_TEST(test_mutex_record__same_attempt_again_gets_the_same_tenure)
{
    uint64_t token;

    ask(&alice, T);
    token = got.token;
    ask(&alice, T + 700);
    expect_mine(&alice);
    assert_int_equal(got.token, token);
    expect_lease(T + 700);
    assert_int_equal(record.owner.acquired_at_ms, T);
}

RECORD_TEST(test_mutex_record__same_id_is_not_the_same_tenure)
{
    struct who again = reborn(&alice);

    ask(&alice, T);
    renew(&again, T + 1);
    expect_refused(0);
    ask(&again, T + 2);
    expect_queued(true);
    release(&again, T + 3);
    assert_true(simba__mutex_is_held(&record, T + 3));
    renew(&alice, T + 4);
    expect_mine(&alice);
}

RECORD_TEST(test_mutex_record__renewal_extends_and_keeps_the_token)
{
    uint64_t token;

    ask(&alice, T);
    token = got.token;
    renew(&alice, T + LEASE);
    expect_mine(&alice);
    assert_int_equal(got.token, token);
    expect_lease(T + LEASE);
    assert_int_equal(record.owner.acquired_at_ms, T);
}

RECORD_TEST(test_mutex_record__renewal_never_creates_and_never_steals)
{
    static const simba_attempt nobody;
    struct who ghost = person("ghost", 9);

    renew(&alice, T);
    expect_refused(0);
    ghost.attempt = nobody; /* what an empty record holds */
    renew(&ghost, 0);
    expect_refused(0);
    ask(&alice, T);
    renew(&bob, T + 1);
    expect_refused(0);
    expect_lease(T);
    renew(&alice, T + LEASE + 1); /* a millisecond too late */
    expect_refused(0);
    expect_lease(T);
}

RECORD_TEST(test_mutex_record__release_frees)
{
    ask(&alice, T);
    release(&alice, T + 5);
    assert_false(simba__mutex_is_held(&record, T + 5));
    assert_string_equal(record.owner.id, "");
    assert_int_equal(record.owner.token, 0);
    expect_wakes(NULL, NULL);
    release(&alice, T + 6); /* again: nothing to do */
    renew(&alice, T + 7);
    expect_refused(0);
    ask(&bob, T + 8);
    expect_mine(&bob);
}

RECORD_TEST(test_mutex_record__release_of_a_stranger_changes_nothing)
{
    release(&alice, T);
    ask(&alice, T);
    ask(&bob, T + 1);
    release(&carol, T + 2);
    leave(&carol, T + 3);
    expect_wakes(NULL, NULL);
    renew(&alice, T + 4);
    expect_mine(&alice);
    ask(&bob, T + 5);
    expect_queued(true);
}

RECORD_TEST(test_mutex_record__nothing_asked_is_nothing_done)
{
    struct simba__mutex_record before;

    ask(&alice, T);
    before = record;
    must_serve(&alice, (simba_request){.kind = SIMBA_NO_REQUEST}, T + 1);
    must_serve(&alice, (simba_request){.kind = (enum simba_request_kind)99},
               T + 2);
    expect_refused(0);
    assert_memory_equal(&record, &before, sizeof record);
}

/* --- tokens -------------------------------------------------------------- */

RECORD_TEST(test_mutex_record__token_is_the_time_in_microseconds)
{
    ask(&alice, T);
    assert_int_equal(got.token, T * INT64_C(1000));
    release(&alice, T + 1);
    ask(&bob, T + 2);
    assert_int_equal(got.token, (T + 2) * INT64_C(1000));
}

RECORD_TEST(test_mutex_record__token_grows_when_the_clock_stands)
{
    uint64_t first;

    ask(&alice, T);
    first = got.token;
    release(&alice, T);
    ask(&bob, T);
    assert_int_equal(got.token, first + 1);
}

RECORD_TEST(test_mutex_record__token_grows_when_the_clock_steps_back)
{
    uint64_t first;

    ask(&alice, T);
    first = got.token;
    release(&alice, T);
    ask(&bob, T / 2);
    assert_int_equal(got.token, first + 1);
    release(&bob, T / 2);
    ask(&carol, T / 2 + 1);
    assert_int_equal(got.token, first + 2);
}

RECORD_TEST(test_mutex_record__token_grows_over_lost_data)
{
    uint64_t first;

    ask(&alice, T);
    first = got.token;
    simba__mutex_fini(&record);
    ask(&bob, T + 1);
    assert_true(got.token > first);
}

RECORD_TEST(test_mutex_record__next_tenure_of_the_same_attempt_has_a_new_token)
{
    uint64_t first;

    ask(&alice, T);
    first = got.token;
    ask(&alice, T + LEASE + 1);
    expect_mine(&alice);
    assert_true(got.token > first);
}

/* --- tombstones ---------------------------------------------------------- */

RECORD_TEST(test_mutex_record__undone_asking_fails_when_it_comes)
{
    undo(&alice, T, LEASE);
    ask(&alice, T + 1);
    expect_refused(0);
    assert_false(got.is_queued);
    assert_false(simba__mutex_is_held(&record, T + 1));
    ask(&bob, T + 2);
    expect_mine(&bob);
}

RECORD_TEST(test_mutex_record__undone_tenure_is_not_taken_again)
{
    ask(&alice, T);
    undo(&alice, T + 10, LEASE);
    assert_false(simba__mutex_is_held(&record, T + 10));
    ask(&alice, T + 11);
    expect_refused(0);
}

RECORD_TEST(test_mutex_record__undone_position_is_not_taken_again)
{
    ask(&alice, T);
    ask(&bob, T + 1);
    undo(&bob, T + 2, LEASE);
    ask(&bob, T + 3);
    assert_false(got.is_queued);
    release(&alice, T + 4);
    expect_wakes(NULL, NULL);
}

RECORD_TEST(test_mutex_record__tombstone_lasts_as_long_as_asked)
{
    undo(&alice, T, 500);
    ask(&alice, T + 500);
    assert_false(got.mine);
    ask(&alice, T + 501);
    expect_mine(&alice);
}

RECORD_TEST(test_mutex_record__undoing_again_renews_the_tombstone)
{
    undo(&alice, T, 500);
    undo(&bob, T, 500);
    undo(&alice, T + 400, 500);
    ask(&bob, T + 501);
    expect_mine(&bob);
    ask(&alice, T + 900);
    assert_false(got.is_queued);
    ask(&alice, T + 901);
    expect_queued(true);
}

RECORD_TEST(test_mutex_record__lapsed_tombstone_is_made_anew)
{
    undo(&alice, T, 500);
    undo(&alice, T + 501, 500);
    ask(&alice, T + 1001);
    assert_false(got.mine);
    ask(&alice, T + 1002);
    expect_mine(&alice);
}

RECORD_TEST(test_mutex_record__plain_release_leaves_no_tombstone)
{
    ask(&alice, T);
    release(&alice, T + 1);
    ask(&alice, T + 2);
    expect_mine(&alice);
}

RECORD_TEST(test_mutex_record__each_attempt_has_its_own_tombstone)
{
    struct who crowd[20];

    for (uint64_t i = 0; i < 20; i++) {
        crowd[i] = person("crowd", i + 10);
        undo(&crowd[i], T, i % 2 == 0 ? 100 : 200);
    }
    ask(&alice, T + 1);
    expect_mine(&alice);
    for (int i = 0; i < 20; i++) {
        ask(&crowd[i], T + 150);
        assert_int_equal(got.is_queued, i % 2 == 0);
    }
    assert_int_equal(record.tombstone_count, 10); /* the others were swept */
}

/* --- breaking ------------------------------------------------------------ */

RECORD_TEST(test_mutex_record__broken_tenure_is_not_renewed)
{
    uint64_t token;

    ask(&alice, T);
    token = got.token;
    assert_true(breaks(token, false, T + 1));
    expect_wakes(NULL, NULL);
    assert_true(simba__mutex_is_held(&record, T + LEASE));
    renew(&alice, T + 2);
    expect_refused(0);
    ask(&bob, T + 3);
    expect_refused(LEASE - 3); /* to the end of its lease, not longer */
    ask(&alice, T + 4);
    expect_refused(LEASE - 4); /* asking again does not mend it */
    expect_queued(false);
    ask(&bob, T + LEASE + 1);
    expect_mine(&bob);
    renew(&bob, T + LEASE + 2);
    expect_mine(&bob); /* what was broken was alice's tenure */
}

RECORD_TEST(test_mutex_record__broken_tenure_can_be_released)
{
    four_meet();
    assert_true(breaks(record.owner.token, false, T + 10));
    release(&alice, T + 20);
    expect_wakes(&bob, &carol);
    ask(&bob, T + 21);
    expect_mine(&bob);
    renew(&bob, T + 22);
    expect_mine(&bob);
}

RECORD_TEST(test_mutex_record__break_at_once_offers_it_to_the_next)
{
    uint64_t token;

    four_meet();
    token = record.owner.token;
    assert_true(breaks(token, true, T + 10));
    expect_wakes(&bob, &carol);
    assert_false(simba__mutex_is_held(&record, T + 10));
    renew(&alice, T + 11);
    expect_refused(0);
    ask(&bob, T + 12);
    expect_mine(&bob);
    assert_true(got.token > token);
}

RECORD_TEST(test_mutex_record__break_hits_only_the_tenure_it_names)
{
    uint64_t token;

    assert_false(breaks(0, true, T)); /* nobody owns it */
    ask(&alice, T);
    token = got.token;
    assert_false(breaks(token - 1, true, T + 1));
    assert_false(breaks(token + 1, false, T + 1));
    renew(&alice, T + 2);
    expect_mine(&alice);
    assert_false(breaks(token, true, T + 2 + LEASE + 1)); /* lapsed */
    assert_true(breaks(token, true, T + 2 + LEASE));
}

/* --- out of memory ------------------------------------------------------- */

void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);

/* Calls of realloc that still succeed; -1: all of them. */
static int reallocs_left = -1;

void *__wrap_realloc(void *memory, size_t size)
{
    if (reallocs_left == 0) {
        return NULL;
    }
    reallocs_left -= reallocs_left > 0;
    return __real_realloc(memory, size);
}

RECORD_TEST(test_mutex_record__without_memory_it_is_as_it_was)
{
    static const simba_request join = {
        .kind = SIMBA_ACQUIRE, .join = true, .waiter_ms = LEASE};
    static const simba_request release = {.kind = SIMBA_RELEASE,
                                          .tombstone_ms = LEASE};

    reallocs_left = 0;
    ask(&alice, T); /* a free mutex needs none */
    expect_mine(&alice);
    assert_false(serve(&bob, join, T));
    assert_int_equal(record.queue_count, 0);
    assert_false(serve(&alice, release, T));
    assert_int_equal(record.tombstone_count, 0);
    assert_true(simba__mutex_is_held(&record, T));
    reallocs_left = -1;
    assert_true(serve(&bob, join, T));
    assert_int_equal(record.queue_count, 1);
    assert_true(serve(&alice, release, T));
    assert_int_equal(record.tombstone_count, 1);
    assert_false(simba__mutex_is_held(&record, T));
}
