/* Who is woken, who is offered the mutex, who is passed over. */
#define _GNU_SOURCE
#include "driver.h"

#include "backends/redis/redis.h"

static int64_t waited_for_wake(struct handle *handle)
{
    int64_t from = simba_loop_now_ms();

    assert_true(handle_woken(handle, MUTEX, PATIENCE_MS));
    return simba_loop_now_ms() - from;
}

static long long subscribers_of(const char *id)
{
    redisReply *reply = redis_do(&server, "PUBSUB NUMSUB %s:%s", KEY, id);
    long long count = reply->element[1]->integer;

    freeReplyObject(reply);
    return count;
}

REDIS_TEST(test_redis_notify__release_wakes_the_head)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob"),
               carol = person(&third, "carol");

    must_open(&first);
    must_open(&second);
    must_open(&third);
    ask(&alice);
    ask(&bob);
    expect_queued(true);
    ask(&carol);
    expect_queued(false);
    release(&alice);
    assert_true(waited_for_wake(&second) < 5000);
    assert_string_equal(redis_text(&server, "GET %s:next", KEY), "bob");
    assert_int_equal(redis_number(&server, "EXISTS %s", KEY), 0);
    ask(&carol);
    expect_queued(true); /* bob has left the queue: it is offered to him */
    assert_in_range(got.wait_ms, 0, OFFER_MS);
    ask(&bob);
    expect_mine(&bob);
    assert_int_equal(redis_number(&server, "EXISTS %s:next", KEY), 0);
    assert_string_equal(redis_text(&server, "ZSCORE %s:contender bob", KEY),
                        "");
}

/* If it asked at once, it would only keep the server from the first. */
REDIS_TEST(test_redis_notify__second_is_woken_when_the_offer_is_over)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob"),
               carol = person(&third, "carol");
    int64_t from_ms;

    must_open(&first);
    must_open(&second);
    must_open(&third);
    ask(&alice);
    ask(&bob);
    ask(&carol);
    from_ms = simba_loop_now_ms();
    release(&alice);
    waited_for_wake(&third);
    assert_true(simba_loop_now_ms() - from_ms >= OFFER_MS);
    ask(&carol); /* bob has not come */
    expect_mine(&carol);
}

/* The first two may both be stopped. */
REDIS_TEST(test_redis_notify__who_asked_last_is_told_behind_two_silent_ones)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob"),
               carol = person(&second, "carol"), dave = person(&third, "dave");
    int64_t from_ms;

    must_open(&first);
    must_open(&second);
    must_open(&third);
    ask(&alice);
    ask(&bob);
    ask(&carol);
    redis_nap_ms(150);
    ask(&dave);
    from_ms = simba_loop_now_ms();
    release(&alice);
    waited_for_wake(&third);
    assert_true(simba_loop_now_ms() - from_ms >= OFFER_MS);
    ask(&dave); /* finds that bob has not come: it is offered to carol */
    expect_queued(true);
    waited_for_wake(&third);
    ask(&dave);
    expect_mine(&dave);
}

/* It costs what any release does: the script of several owners is not called.
 */
REDIS_TEST(test_redis_notify__release_names_its_successor)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob"),
               carol = person(&third, "carol");
    const char *crowd = simba__redis_script(SIMBA__REDIS_CROWD)->sha;
    redisReply *known;

    freeReplyObject(redis_do(&server, "SCRIPT FLUSH"));
    must_open(&first);
    must_open(&second);
    must_open(&third);
    ask(&alice);
    ask(&bob);
    ask(&carol);
    run(&alice, (simba_request){.kind = SIMBA_RELEASE, .to = "carol"});
    assert_string_equal(got.to, "carol");
    waited_for_wake(&third);
    ask(&carol);
    expect_mine(&carol);
    run(&carol, (simba_request){.kind = SIMBA_RELEASE, .to = "bob"});
    assert_string_equal(got.to, "bob");
    ask(&bob);
    expect_mine(&bob);
    carol = person(&third, "carol");
    ask(&carol);
    run(&bob, (simba_request){.kind = SIMBA_RELEASE, .to = "dave"});
    assert_string_equal(got.to, "carol"); /* nobody waits who is called dave */
    known = redis_do(&server, "SCRIPT EXISTS %s", crowd);
    assert_int_equal(known->element[0]->integer, 0);
    freeReplyObject(known);
}

REDIS_TEST(test_redis_notify__newcomer_does_not_pass_the_queue)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob"),
               carol = person(&third, "carol");

    must_open(&first);
    must_open(&second);
    must_open(&third);
    ask(&alice);
    ask(&bob);
    redis_number(&server, "DEL %s %s:tenure %s:token", KEY, KEY, KEY);
    ask(&carol); /* the lease is over: it is offered to bob first */
    assert_false(got.mine);
    waited_for_wake(&second);
    ask(&bob);
    expect_mine(&bob);
}

REDIS_TEST(test_redis_notify__dead_waiter_is_passed_over)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob"),
               carol = person(&third, "carol");

    must_open(&first);
    must_open(&second);
    must_open(&third);
    ask(&alice);
    ask(&bob);
    ask(&carol);
    handle_close(&second);
    await(subscribers_of("bob") == 0);
    release(&alice);
    waited_for_wake(&third);
    ask(&carol);
    expect_mine(&carol);
    /* bob's position is his until his waiter lease lapses */
    assert_true(redis_text(&server, "ZSCORE %s:contender bob", KEY)[0] != '\0');
}

REDIS_TEST(test_redis_notify__pattern_subscriber_revives_nobody)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob"),
               carol = person(&third, "carol");
    redisContext *nosy = redisConnect("127.0.0.1", server.port);

    freeReplyObject(redisCommand(nosy, "PSUBSCRIBE *"));
    must_open(&first);
    must_open(&second);
    must_open(&third);
    ask(&alice);
    ask(&bob);
    ask(&carol);
    handle_close(&second);
    await(subscribers_of("bob") == 0);
    release(&alice);
    waited_for_wake(&third);
    ask(&carol);
    expect_mine(&carol);
    redisFree(nosy);
}

REDIS_TEST(test_redis_notify__offered_one_that_does_not_come_is_last)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob"),
               carol = person(&third, "carol"), dave = person(&first, "dave");

    must_open(&first);
    must_open(&second);
    must_open(&third);
    ask(&alice);
    ask(&bob);
    ask(&carol);
    release(&alice);
    waited_for_wake(&third);
    ask(&carol);
    redis_nap_ms(got.wait_ms + 5);
    ask(&carol);
    expect_mine(&carol);
    ask(&dave);
    ask(&bob);
    expect_queued(true); /* requeued when carol came, dave after that */
    assert_true(got.position > bob.position);
}

/* There is room for carol, but for bob, who came before her and wants to be
 * alone. He may die without a word, so she looks again before a lease is over.
 */
REDIS_TEST(test_redis_notify__who_waits_for_one_that_waits_looks_again)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob"),
               carol = person(&third, "carol");

    must_open(&first);
    must_open(&second);
    must_open(&third);
    alice.slots = carol.slots = 2;
    ask(&alice);
    ask(&bob);
    assert_in_range(got.wait_ms, 2001, LEASE); /* an owner must go first */
    ask(&carol);
    expect_queued(false);
    assert_in_range(got.wait_ms, 1, 2000);
    handle_close(&second);
    await(subscribers_of("bob") == 0);
    ask(&carol);
    assert_true(got.mine);
}

/* A slot is offered to bob, who is stopped; carol takes the other. Dave hears
 * of it, and asks when the offer has lapsed. */
REDIS_TEST(test_redis_notify__next_is_woken_by_a_grant_beside_an_offer)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");
    struct who carol = person(&second, "carol"), dave = person(&third, "dave");

    must_open(&first);
    must_open(&second);
    must_open(&third);
    bob.slots = carol.slots = dave.slots = 2;
    ask(&alice);
    ask(&bob);
    ask(&carol);
    ask(&dave);
    release(&alice);
    waited_for_wake(&second);
    assert_false(handle_woken(&third, MUTEX, 0));
    ask(&carol);
    assert_true(got.mine);
    waited_for_wake(&third);
    ask(&dave);
    expect_queued(true);
    assert_in_range(got.wait_ms, 0, OFFER_MS);
    await(redis_number(&server, "EXISTS %s:next", KEY) == 0);
    ask(&dave);
    assert_true(got.mine);
}

REDIS_TEST(test_redis_notify__leaving_while_offered_offers_it_on)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob"),
               carol = person(&third, "carol");

    must_open(&first);
    must_open(&second);
    must_open(&third);
    ask(&alice);
    ask(&bob);
    ask(&carol);
    release(&alice);
    waited_for_wake(&second);
    leave(&bob);
    waited_for_wake(&third);
    assert_string_equal(redis_text(&server, "GET %s:next", KEY), "carol");
    ask(&carol);
    expect_mine(&carol);
}

REDIS_TEST(test_redis_notify__lost_position_is_restored)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob"),
               carol = person(&first, "carol");

    must_open(&first);
    ask(&alice);
    ask(&bob);
    ask(&carol);
    redis_number(&server, "DEL %s:contender", KEY); /* as 3.2 and 3.3 do */
    ask(&carol);
    ask(&bob);
    expect_queued(true);
    assert_int_equal(got.position, bob.position);
}

REDIS_TEST(test_redis_notify__observer_hears_every_change)
{
    struct who alice = person(&first, "alice");

    must_open(&first);
    must_open(&second);
    simba_loop_enter(second.loop);
    second.backend->ops->subscription(second.backend, MUTEX,
                                      SIMBA_SUBSCRIBE_OBSERVE);
    simba_loop_leave(second.loop);
    waited_for_wake(&second); /* listens now */
    ask(&alice);
    waited_for_wake(&second);
    release(&alice);
    waited_for_wake(&second);
}

static long long commands_of(const char *name)
{
    char field[48];
    const char *found;

    snprintf(field, sizeof field, "cmdstat_%s:calls=", name);
    found = strstr(redis_text(&server, "INFO commandstats"), field);
    return found == NULL ? 0 : atoll(found + strlen(field));
}

REDIS_TEST(test_redis_notify__idle_waiter_costs_no_command)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");
    long long before;

    must_open(&first);
    must_open(&second);
    ask(&alice);
    ask(&bob);
    redis_number(&server, "CONFIG RESETSTAT");
    before = commands_of("evalsha") + commands_of("subscribe");
    redis_nap_ms(1500);
    assert_int_equal(commands_of("evalsha") + commands_of("subscribe") +
                         commands_of("ping"),
                     before);
}

REDIS_TEST(test_redis_notify__subscribes_anew_and_looks_again)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");

    must_open(&first);
    must_open(&second);
    ask(&alice);
    ask(&bob);
    redis_number(&server, "CLIENT KILL TYPE pubsub");
    waited_for_wake(&second); /* what was said meanwhile is lost: look */
    release(&alice);
    waited_for_wake(&second);
    ask(&bob);
    expect_mine(&bob);
}

int main(void)
{
    return run_unit_tests(start_server, remove_server);
}
