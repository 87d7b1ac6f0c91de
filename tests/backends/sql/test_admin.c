/* What administrators do and see: breaks, lists, the queue. */
#define _GNU_SOURCE
#include "driver.h"
#include "reported.h"

SQL_TEST(test_sql_admin__breaks_a_tenure)
{
    struct who a = person(&first, "a");
    struct who admin = person(&second, "admin");
    simba_request request = {.kind = SIMBA_BREAK};

    ask(&a);
    request.token = a.token + 1;
    run(&admin, request);
    assert_false(got.mine);
    request.token = a.token;
    run(&admin, request);
    assert_true(got.mine);
    renew(&a);
    assert_false(got.mine);
    ask(&admin);
    assert_false(got.mine);
    request.now = true;
    run(&admin, request);
    assert_true(got.mine);
    ask(&admin);
    expect_mine(&admin);
    assert_true(admin.token > a.token);
}

/* A row for each break, and none for what broke nothing; also where the table
 * was not there yet. */
SQL_TEST(test_sql_admin__breaks_are_in_the_book)
{
    struct who a = person(&first, "a");
    struct who admin = person(&second, "admin");
    simba_request request = {.kind = SIMBA_BREAK, .reason = "it 'hangs'"};

    ask(&a);
    server_sql("DROP TABLE simba_broken");
    request.token = a.token;
    run(&admin, request);
    assert_true(got.mine);
    request.now = true;
    run(&admin, request);
    assert_true(got.mine);
    request.token = a.token + 1;
    run(&admin, request);
    assert_false(got.mine);
    assert_int_equal(server_sql("SELECT count(*) FROM simba_broken"), 2);
    assert_int_equal(
        server_sql(
            "SELECT count(*) FROM simba_broken WHERE mutex LIKE 'm/%%' AND "
            "token = %lld AND owner_id = 'a' AND at_once = 0 AND "
            "account <> '' AND reason = 'it ''hangs'''",
            (long long)a.token),
        1);
}

SQL_TEST(test_sql_admin__lists_what_is_owned_or_wanted)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");
    int found = -1;

    ask(&a);
    ask(&b);
    memset(&noted, 0, sizeof noted);
    run(&a, (simba_request){.kind = SIMBA_LIST, .mutex = ""});
    for (int i = 0; i < noted.mutexes; i++) {
        if (strcmp(noted.mutex[i].name, mutex) == 0) {
            found = i;
        }
    }
    assert_true(found >= 0);
    assert_string_equal(noted.mutex[found].owner.id, "a");
    assert_int_equal(noted.mutex[found].owner.token, a.token);
    assert_int_equal(noted.mutex[found].waiting, 1);
}

SQL_TEST(test_sql_admin__shows_the_queue)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");
    struct who c = person(&third, "c");
    int64_t began_ms;

    ask(&a);
    ask(&b);
    ask(&c);
    memset(&noted, 0, sizeof noted);
    run(&a, (simba_request){.kind = SIMBA_READ, .want_queue = true});
    assert_int_equal(noted.waiters, 2);
    assert_string_equal(noted.waiter[0].id, "b");
    assert_string_equal(noted.waiter[1].id, "c");
    assert_false(noted.waiter[0].is_offered);
    began_ms = simba_loop_now_ms();
    release(&a);
    memset(&noted, 0, sizeof noted);
    run(&a, (simba_request){.kind = SIMBA_READ, .want_queue = true});
    if (simba_loop_now_ms() - began_ms < OFFER_MS) { /* it still stands */
        assert_string_equal(noted.waiter[0].id, "b");
        assert_true(noted.waiter[0].is_offered);
    }
}

/* What Simba on the JVM and older versions read: changes if any of it does. */
static int64_t sum_of_mutexes(void)
{
    return server_sql("SELECT sum(version + acquired_at + ttl_at + "
                      "transition_at) FROM simba_mutex");
}

/* They never see what owners tell: it has a table of its own. */
SQL_TEST(test_sql_admin__what_is_told_is_beside_the_rest)
{
    struct who a = person(&first, "a");
    int64_t before;

    ask(&a);
    before = sum_of_mutexes();
    run(&a, (simba_request){.kind = SIMBA_TELL, .reason = "host h"});
    assert_int_equal(server_sql("SELECT count(*) FROM simba_told"), 1);
    assert_int_equal(sum_of_mutexes(), before);
    run(&a, (simba_request){.kind = SIMBA_TELL});
    assert_int_equal(server_sql("SELECT count(*) FROM simba_told"), 0);
    assert_int_equal(sum_of_mutexes(), before);
}
