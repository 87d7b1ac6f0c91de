/* Single requests to a store on a database server: what is granted, what is
 * refused, the queue, tombstones, breaks. */
#define _GNU_SOURCE
#include "driver.h"
#include "reported.h"

SQL_TEST(test_sql__grants_a_free_mutex)
{
    struct who a = person(&first, "a");

    ask(&a);
    expect_mine(&a);
    release(&a);
    look(&a);
    assert_string_equal(got.owner.id, "");
    ask(&a);
    expect_mine(&a);
}

SQL_TEST(test_sql__refuses_a_second)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");

    ask(&a);
    ask(&b);
    expect_queued(true);
    assert_in_range(got.wait_ms, LEASE - 5000, LEASE);
    assert_string_equal(got.owner.id, "a");
    look(&b);
    assert_string_equal(got.owner.id, "a");
    assert_int_equal(got.owner.token, a.token);
}

SQL_TEST(test_sql__without_join_takes_no_position)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");
    simba_request request = asking(&b);

    request.join = false;
    ask(&a);
    run(&b, request);
    assert_false(got.mine);
    assert_false(got.is_queued);
    release(&a);
    ask(&a);
    expect_mine(&a);
}

SQL_TEST(test_sql__asking_again_extends)
{
    struct who a = person(&first, "a");
    int64_t until;

    ask(&a);
    until = got.owner.transition_at_ms;
    nap_ms(5);
    ask(&a);
    expect_mine(&a);
    assert_int_equal(got.token, a.token);
    assert_true(got.owner.transition_at_ms > until);
}

SQL_TEST(test_sql__renews_only_this_tenure)
{
    struct who a = person(&first, "a");
    struct who other_start = person(&first, "a");
    int64_t until;

    ask(&a);
    until = got.owner.transition_at_ms;
    nap_ms(5);
    renew(&a);
    expect_mine(&a);
    assert_int_equal(got.token, a.token);
    assert_true(got.owner.transition_at_ms > until);
    renew(&other_start);
    assert_false(got.mine);
    release(&other_start);
    renew(&a);
    assert_true(got.mine);
    release(&a);
    renew(&a);
    assert_false(got.mine);
}

SQL_TEST(test_sql__renews_while_others_join)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");

    ask(&a);
    ask(&b);
    renew(&a);
    expect_mine(&a);
    assert_int_equal(got.token, a.token);
}

SQL_TEST(test_sql__tokens_grow)
{
    struct who a = person(&first, "a");
    uint64_t last = 0;

    for (int i = 0; i < 20; i++) {
        a = person(&first, "a");
        ask(&a);
        assert_true(a.token > last);
        last = a.token;
        release(&a);
    }
    server_sql("DELETE FROM simba_mutex");
    a = person(&second, "a");
    ask(&a);
    assert_true(a.token > last);
}

/* Whether the mutex is quiet or somebody waits for it. */
SQL_TEST(test_sql__token_is_above_what_is_asked)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");
    simba_request request = asking(&a);

    ask(&a); /* now there is a row, for the statements that do all at once */
    release(&a);
    a = person(&first, "a");
    request.token_above = 8000000000000000;
    run(&a, request);
    expect_mine(&a);
    assert_int_equal(got.token, request.token_above + 1);
    ask(&b);
    expect_queued(true);
    release(&a);
    request = asking(&b);
    request.token_above = 8000000000000008;
    run(&b, request);
    expect_mine(&b);
    assert_int_equal(got.token, request.token_above + 1);
    release(&b);
    a = person(&first, "a");
    ask(&a);
    expect_mine(&a);
    assert_int_equal(got.token, request.token_above + 2);
    release(&a);
}

SQL_TEST(test_sql__offers_it_to_the_first_in_the_queue)
{
    struct who a, b, c, d;

    for (int tries = 0;; tries++) {
        int64_t released_ms;

        a = person(&first, "a");
        b = person(&second, "b");
        c = person(&third, "c");
        d = person(&first, "d");
        ask(&a);
        ask(&b);
        expect_queued(true);
        ask(&c);
        expect_queued(false);
        released_ms = simba_loop_now_ms();
        release(&a);
        ask(&d);
        if (simba_loop_now_ms() - released_ms < OFFER_MS) {
            break;
        }
        assert_true(tries < 50); /* it was asked too late to see the offer */
        release(&b);
        release(&c);
        release(&d);
    }
    assert_false(got.mine);
    assert_in_range(got.wait_ms, 0, OFFER_MS);
    ask(&b);
    expect_mine(&b);
    release(&b);
    ask(&c);
    expect_mine(&c);
}

SQL_TEST(test_sql__wakes_the_first_two_in_the_queue)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");
    struct who c = person(&third, "c");

    ask(&a);
    ask(&b);
    ask(&c);
    release(&a);
    assert_true(handle_woken(&second, mutex, PATIENCE_MS));
    assert_true(handle_woken(&third, mutex, PATIENCE_MS));
}

SQL_TEST(test_sql__wakes_within_one_process)
{
    struct who a = person(&first, "a");
    struct who b = person(&first, "b");

    ask(&a);
    ask(&b);
    expect_queued(true);
    release(&a);
    assert_true(handle_woken(&first, mutex, PATIENCE_MS));
    ask(&b);
    expect_mine(&b);
}

SQL_TEST(test_sql__who_was_offered_it_and_did_not_come_goes_last)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");
    struct who c = person(&third, "c");

    ask(&a);
    ask(&b);
    ask(&c);
    release(&a);
    nap_ms(OFFER_MS + 20);
    ask(&c);
    expect_mine(&c);
    ask(&b);
    expect_queued(true);
}

/* Behind a pooler or in a cluster. */
static bool has_no_wake_ups(void)
{
    return getenv("SIMBA_SERVER_POOLED") != NULL ||
           getenv("SIMBA_SERVER_GALERA") != NULL;
}

SQL_TEST(test_sql__knows_whether_it_can_be_woken)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");

    ask(&a);
    ask(&b);
    assert_int_equal(((struct simba__sql *)second.backend)->notify,
                     has_no_wake_ups() ? SIMBA__SQL_NOTIFY_REFUSED
                                       : SIMBA__SQL_NOTIFY_READY);
    memset(&noted, 0, sizeof noted);
    run(&b, (simba_request){.kind = SIMBA_DOCTOR, .mutex = ""});
    for (int i = 0; i < noted.findings; i++) {
        if (strcmp(noted.finding[i].name, "push") == 0) {
            assert_int_equal(noted.finding[i].gravity, has_no_wake_ups()
                                                           ? SIMBA_FINDING_NOTE
                                                           : SIMBA_FINDING_OK);
            return;
        }
    }
    fail_msg("%s", "the doctor says nothing about push");
}

SQL_TEST(test_sql__skips_the_dead)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");
    struct who c = person(&third, "c");

    if (has_no_wake_ups()) {
        skip(); /* nobody is seen to die there */
    }
    ask(&a);
    ask(&b);
    ask(&c);
    expect_queued(false);
    handle_close(&second);
    await_notify_connections(1);
    release(&a);
    assert_true(handle_woken(&third, mutex, PATIENCE_MS));
    ask(&c);
    expect_mine(&c);
}

SQL_TEST(test_sql__leaving_offers_it_to_the_next)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");
    struct who c = person(&third, "c");

    ask(&a);
    ask(&b);
    ask(&c);
    release(&a);
    assert_true(handle_woken(&second, mutex, PATIENCE_MS));
    handle_woken(&third, mutex, PATIENCE_MS);
    leave(&b);
    assert_true(handle_woken(&third, mutex, PATIENCE_MS));
    ask(&c);
    expect_mine(&c);
}

SQL_TEST(test_sql__a_tombstone_refuses)
{
    struct who a = person(&first, "a");
    simba_request undo = {.kind = SIMBA_RELEASE, .tombstone_ms = LEASE};

    run(&a, undo);
    ask(&a);
    assert_false(got.mine);
    assert_false(got.is_queued);
    a = person(&first, "a");
    ask(&a);
    expect_mine(&a);
    run(&a, undo);
    ask(&a);
    assert_false(got.mine);
}

SQL_TEST(test_sql__an_expired_lease_passes_on)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");

    a.ttl_ms = a.transition_ms = 1000; /* long enough to be seen refused */
    ask(&a);
    expect_mine(&a);
    ask(&b);
    expect_queued(true);
    nap_ms(got.wait_ms + 2);
    renew(&a);
    assert_false(got.mine);
    ask(&b);
    expect_mine(&b);
    assert_true(b.token > a.token);
    release(&a);
    renew(&b);
    expect_mine(&b);
}

SQL_TEST(test_sql__a_lapsed_waiter_is_forgotten)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");
    struct who c = person(&third, "c");
    simba_request request = asking(&b);

    request.waiter_ms = 30;
    ask(&a);
    run(&b, request);
    expect_queued(true);
    nap_ms(40);
    ask(&c);
    expect_queued(true);
    release(&a);
    ask(&c);
    expect_mine(&c);
}

SQL_TEST(test_sql__tells_names_apart_byte_for_byte)
{
    static const char *const names[] = {"Abc",      "abc",       "abc ",
                                        "\xc3\xa4", "a\xcc\x88", "a"};
    struct who a = person(&first, "a");

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        simba_request request = asking(&a);

        a = person(&first, names[i]);
        request.mutex = names[i];
        run(&a, request);
        expect_mine(&a);
    }
}

SQL_TEST(test_sql__tells_what_can_be_relied_on)
{
    struct who a = person(&first, "a");

    ask(&a);
    memset(&noted, 0, sizeof noted);
    run(&a, (simba_request){.kind = SIMBA_DOCTOR, .mutex = ""});
    assert_true(noted.findings >= 6);
    for (int i = 0; i < noted.findings; i++) {
        const struct noted_finding *one = &noted.finding[i];

        assert_true(one->text[0] != '\0');
        if (strcmp(one->name, "persistence") == 0) { /* not in tests */
            assert_true(one->gravity >= SIMBA_FINDING_WEAK);
        } else if (strcmp(one->name, "cluster") == 0) {
            assert_int_equal(one->gravity >= SIMBA_FINDING_WEAK,
                             getenv("SIMBA_SERVER_GALERA") != NULL);
        } else if (one->gravity > SIMBA_FINDING_NOTE) {
            fail_msg("%s: %s", one->name, one->text);
        }
    }
}
