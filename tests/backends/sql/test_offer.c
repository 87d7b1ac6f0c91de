/* Stores on database servers: a release that is waited for takes one statement
 * where it comes to nothing but an offer, and what it did before where there is
 * more to consider. */
#define _GNU_SOURCE
#include "driver.h"
#include "sent.h"

#include <pthread.h>

/* What the names of this test's mutex, and of no other, begin with. */
static int beginning(void)
{
    return (int)strcspn(mutex, " ") + 1;
}

static struct who a, b, c;
static int64_t released_ms; /* or earlier */

/* The first handle has offered it twice, and one of it owns it again; two
 * others wait. */
static void wait_for_a(struct handle *of_b, struct handle *of_c)
{
    a = person(&first, "a");
    ask(&a);
    for (int i = 0; i < 2; i++) {
        c = person(of_c, "before");
        ask(&c);
        release(&a);
        a = person(&first, "a");
        ask(&a);
        leave(&c);
        ask(&a);
        expect_mine(&a);
    }
    b = person(of_b, "b");
    c = person(of_c, "c");
    ask(&b);
    expect_queued(true);
    ask(&c);
    expect_queued(false);
    while (handle_woken(of_b, mutex, 0) || handle_woken(of_c, mutex, 0)) {
    }
    note_statements(&first);
    released_ms = simba_loop_now_ms();
}

/* It was offered to the one, and the other is behind it. On a slow machine the
 * offer may be over before that one asks: then nothing can be told. */
static void expect_offered_to(struct who *one, struct who *other)
{
    assert_string_equal(got.to, one->id);
    assert_string_equal(got.owner.id, "");
    assert_int_equal(server_sql("SELECT count(*) FROM simba_line "
                                "WHERE mutex LIKE '%.*s%%' AND id = '%s'",
                                beginning(), mutex, one->id),
                     0);
    ask(one);
    if (!got.mine && simba_loop_now_ms() - released_ms > OFFER_MS) {
        return;
    }
    expect_mine(one);
    assert_true(one->token > a.token);
    if (other != NULL) {
        ask(other);
        expect_queued(true);
        assert_int_equal(got.owner.token, one->token);
    }
}

SQL_TEST(test_sql_offer__takes_one_statement)
{
    wait_for_a(&second, &third);
    release(&a);
    EXPECT_SENT(SIMBA__SQL_OFFER);
    note_no_more(&first);
    assert_true(handle_woken(&second, mutex, PATIENCE_MS));
    assert_true(handle_woken(&third, mutex, PATIENCE_MS));
    expect_offered_to(&b, &c);
}

SQL_TEST(test_sql_offer__wakes_who_waits_in_this_process)
{
    wait_for_a(&first, &first);
    release(&a);
    EXPECT_SENT(SIMBA__SQL_OFFER);
    note_no_more(&first);
    assert_true(handle_woken(&first, mutex, PATIENCE_MS));
    expect_offered_to(&b, &c);
}

SQL_TEST(test_sql_offer__wakes_the_second_in_this_process)
{
    wait_for_a(&second, &first);
    release(&a);
    EXPECT_SENT(SIMBA__SQL_OFFER);
    note_no_more(&first);
    assert_true(handle_woken(&second, mutex, PATIENCE_MS));
    assert_true(handle_woken(&first, mutex, PATIENCE_MS));
    expect_offered_to(&b, &c);
}

static void release_to(const char *id)
{
    run(&a, (simba_request){.kind = SIMBA_RELEASE, .to = id});
}

SQL_TEST(test_sql_offer__named_successor_may_be_the_first)
{
    wait_for_a(&second, &third);
    release_to("b");
    EXPECT_SENT(SIMBA__SQL_OFFER);
    note_no_more(&first);
    assert_true(handle_woken(&second, mutex, PATIENCE_MS));
    expect_offered_to(&b, &c);
}

/* S11: who stands further behind goes before; who is passed is woken, too, and
 * keeps its position. */
SQL_TEST(test_sql_offer__named_successor_may_stand_behind)
{
    uint64_t position;

    wait_for_a(&second, &third);
    position = b.position;
    release_to("c");
    EXPECT_SENT(SIMBA__SQL_OFFER);
    assert_true(handle_woken(&third, mutex, PATIENCE_MS));
    assert_true(handle_woken(&second, mutex, PATIENCE_MS));
    expect_offered_to(&c, &b);
    if (got.is_queued) {
        assert_int_equal(got.position, position);
    }
    note_no_more(&first);
    release(&c);
    ask(&b);
    expect_mine(&b);
}

/* Also the next time. */
SQL_TEST(test_sql_offer__named_successors_follow_each_other)
{
    wait_for_a(&second, &third);
    for (int i = 0; i < 3; i++) {
        release_to("c");
        EXPECT_SENT(SIMBA__SQL_OFFER);
        assert_string_equal(got.to, "c");
        leave(&c);
        ask(&b);
        expect_mine(&b);
        c = person(&third, "c");
        a = person(&first, "a");
        ask(&c);
        ask(&a);
        run(&b, (simba_request){.kind = SIMBA_RELEASE, .to = "a"});
        b = person(&second, "b");
        ask(&a);
        expect_mine(&a);
        leave(&c);
        c = person(&third, "c");
        ask(&b);
        ask(&c);
        sent_count = 0;
    }
    note_no_more(&first);
}

SQL_TEST(test_sql_offer__named_successor_of_this_process)
{
    wait_for_a(&first, &first);
    release_to("c");
    EXPECT_SENT(SIMBA__SQL_OFFER);
    note_no_more(&first);
    assert_true(handle_woken(&first, mutex, PATIENCE_MS));
    expect_offered_to(&c, &b);
}

/* Of two with that name the first is meant. */
SQL_TEST(test_sql_offer__two_may_have_the_name)
{
    struct who other = person(&third, "c");

    wait_for_a(&second, &third);
    ask(&other);
    release_to("c");
    EXPECT_SENT(SIMBA__SQL_OFFER);
    note_no_more(&first);
    assert_string_equal(got.to, "c");
    ask(&other);
    expect_queued(false);
    ask(&c);
    expect_mine(&c);
}

/* S10: who did not come goes to the end. */
SQL_TEST(test_sql_offer__lapses_as_any_other)
{
    wait_for_a(&second, &third);
    release(&a);
    EXPECT_SENT(SIMBA__SQL_OFFER);
    note_no_more(&first);
    nap_ms(OFFER_MS + 20);
    ask(&c);
    expect_mine(&c);
    ask(&b);
    expect_queued(true);
}

/* S5: only this very tenure is ended. */
SQL_TEST(test_sql_offer__ends_no_other_tenure)
{
    wait_for_a(&second, &third);
    release(&a);
    EXPECT_SENT(SIMBA__SQL_OFFER);
    expect_offered_to(&b, NULL);
    if (got.mine) {
        release(&a);
        EXPECT_SENT(SIMBA__SQL_OFFER, SIMBA__SQL_LOAD);
        renew(&b);
        expect_mine(&b);
    }
    note_no_more(&first);
}

/* --- where there is more to consider ------------------------------------- */

/* The release does what it did before, and offers it to this one. */
static void expect_slow(struct who *one)
{
    release(&a);
    EXPECT_SENT(SIMBA__SQL_OFFER, SIMBA__SQL_LOAD, SIMBA__SQL_APPLY);
    note_no_more(&first);
    expect_offered_to(one, NULL);
}

#define CHANGE(table, set)                                                     \
    server_sql("UPDATE " table " SET " set " WHERE mutex LIKE '%.*s%%'",       \
               beginning(), mutex)

SQL_TEST(test_sql_offer__not_to_the_dead)
{
    wait_for_a(&second, &third);
    handle_close(&second);
    await_notify_connections(2);
    expect_slow(&c);
}

SQL_TEST(test_sql_offer__not_before_one_that_is_dead)
{
    wait_for_a(&second, &third);
    handle_close(&third);
    await_notify_connections(2);
    expect_slow(&b);
}

SQL_TEST(test_sql_offer__not_to_one_that_has_lapsed)
{
    wait_for_a(&second, &third);
    server_sql("UPDATE simba_line SET lapses_at = 1 "
               "WHERE mutex LIKE '%.*s%%' AND id = 'b'",
               beginning(), mutex);
    expect_slow(&c);
}

/* A successor that is named, and does what it did before, too. */
static void expect_slow_to(const char *id, struct who *one)
{
    release_to(id);
    assert_int_equal(sent[0], SIMBA__SQL_OFFER);
    assert_int_equal(sent[sent_count - 1], SIMBA__SQL_APPLY);
    sent_count = 0;
    note_no_more(&first);
    expect_offered_to(one, NULL);
}

SQL_TEST(test_sql_offer__not_to_a_name_that_does_not_wait)
{
    wait_for_a(&second, &third);
    expect_slow_to("nobody", &b);
}

/* To MariaDB a blank equals the empty text, which names nobody. */
SQL_TEST(test_sql_offer__blank_is_a_name)
{
    wait_for_a(&second, &third);
    expect_slow_to(" ", &b);
}

SQL_TEST(test_sql_offer__not_to_a_named_one_that_is_dead)
{
    wait_for_a(&second, &third);
    handle_close(&third);
    await_notify_connections(2);
    expect_slow_to("c", &b);
}

SQL_TEST(test_sql_offer__not_to_a_named_one_that_has_lapsed)
{
    wait_for_a(&second, &third);
    server_sql("UPDATE simba_line SET lapses_at = 1 "
               "WHERE mutex LIKE '%.*s%%' AND id = 'c'",
               beginning(), mutex);
    expect_slow_to("c", &b);
}

SQL_TEST(test_sql_offer__not_past_one_that_is_dead)
{
    wait_for_a(&second, &third);
    handle_close(&second);
    await_notify_connections(2);
    expect_slow_to("c", &c);
}

SQL_TEST(test_sql_offer__not_to_a_named_one_that_suffers_others)
{
    wait_for_a(&second, &third);
    server_sql("UPDATE simba_line SET slots = 2 "
               "WHERE mutex LIKE '%.*s%%' AND id = 'c'",
               beginning(), mutex);
    release_to("c");
    EXPECT_SENT(SIMBA__SQL_OFFER, SIMBA__SQL_LOAD, SIMBA__SQL_APPLY_SLOTS);
    note_no_more(&first);
    assert_string_equal(got.to, "c");
}

SQL_TEST(test_sql_offer__not_to_one_that_suffers_others)
{
    wait_for_a(&second, &third);
    server_sql("UPDATE simba_line SET slots = 2 "
               "WHERE mutex LIKE '%.*s%%' AND id = 'b'",
               beginning(), mutex);
    release(&a);
    EXPECT_SENT(SIMBA__SQL_OFFER, SIMBA__SQL_LOAD, SIMBA__SQL_APPLY_SLOTS);
    note_no_more(&first);
    assert_string_equal(got.to, "b");
}

SQL_TEST(test_sql_offer__not_by_one_that_is_broken)
{
    wait_for_a(&second, &third);
    CHANGE("simba_tenure", "broken = 1");
    expect_slow(&b);
}

/* Another implementation has it by now. */
SQL_TEST(test_sql_offer__not_of_what_is_owned_by_others)
{
    wait_for_a(&second, &third);
    CHANGE("simba_mutex", "owner_id = 'jvm', version = version + 1");
    release(&a);
    assert_int_equal(sent[0], SIMBA__SQL_OFFER);
    assert_int_equal(sent[1], SIMBA__SQL_LOAD);
    sent_count = 0;
    note_no_more(&first);
    look(&b);
    assert_string_equal(got.owner.id, "jvm");
}

SQL_TEST(test_sql_offer__not_while_it_is_offered)
{
    wait_for_a(&second, &third);
    CHANGE("simba_tenure",
           "called_attempt = '0123456789abcdef0123456789abcdef', "
           "called_until = 1, called_lapses = 1");
    expect_slow(&b);
}

SQL_TEST(test_sql_offer__leaves_nobody_when_nobody_waits)
{
    wait_for_a(&second, &third);
    leave(&b);
    leave(&c);
    release(&a);
    EXPECT_SENT(SIMBA__SQL_OFFER, SIMBA__SQL_LOAD, SIMBA__SQL_APPLY);
    a = person(&first, "a");
    ask(&a);
    EXPECT_SENT(SIMBA__SQL_QUIET_ACQUIRE);
    release(&a);
    EXPECT_SENT(SIMBA__SQL_QUIET_RELEASE);
    note_no_more(&first);
}

/* The first one leaves while the statement waits for the row: what it has read
 * of the queue is old then, and the versions tell. */
SQL_TEST(test_sql_offer__not_to_one_that_leaves_meanwhile)
{
    simba_request request = {.kind = SIMBA_RELEASE};

    wait_for_a(&second, &third);
    server_hold(RAISE_VERSIONS, beginning(), mutex, beginning(), mutex);
    fill_request(&a, &request);
    handle_start(&first, &request);
    nap_ms(200);
    server_sql("DELETE FROM simba_line WHERE mutex LIKE '%.*s%%' AND id = 'b'",
               beginning(), mutex);
    server_commit();
    assert_int_equal(handle_join(&first, &request, &why), SIMBA_OK);
    assert_int_equal(sent[0], SIMBA__SQL_OFFER);
    assert_int_equal(sent[sent_count - 1], SIMBA__SQL_APPLY);
    sent_count = 0;
    note_no_more(&first);
    assert_string_equal(request.reply.to, "c");
    ask(&c);
    expect_mine(&c);
}

#ifndef SERVER_IS_POSTGRES
/* What goes between us and the server may have reset the session: what was
 * prepared there is prepared anew. */
SQL_TEST(test_sql_offer__what_was_prepared_may_be_forgotten)
{
    wait_for_a(&second, &third);
    ((struct simba__my_session *)((struct simba__sql *)first.backend)
         ->sessions[0])
        ->named = UINT32_MAX;
    look(&a);
    assert_string_equal(got.owner.id, "a");
    ((struct simba__my_session *)((struct simba__sql *)first.backend)
         ->sessions[0])
        ->named = UINT32_MAX;
    sent_count = 0;
    release(&a);
    EXPECT_SENT(SIMBA__SQL_OFFER, SIMBA__SQL_OFFER);
    note_no_more(&first);
    expect_offered_to(&b, &c);
}
#endif
