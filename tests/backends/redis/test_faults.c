/* Servers that stop, forget, hang and come back, while people contend. */
#define _GNU_SOURCE
#include "driver.h"

static int start_durable(void **state)
{
    (void)state;
    redis_start(&server, (const char *[]){"--appendonly", "yes",
                                          "--appendfsync", "always", NULL});
    return 0;
}

static simba_request asking_until(const struct who *who, int64_t patience_ms)
{
    simba_request request = asking(who);

    request.deadline_ms = simba_loop_now_ms() + patience_ms;
    return request;
}

static void open_with_grace(struct handle *handle)
{
    if (try_open(handle, redis_url(&server, "?restart_grace=2s")) != SIMBA_OK) {
        fail_msg("%s", why.message);
    }
}

REDIS_TEST(test_redis_faults__forgotten_scripts_are_sent_again)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");

    must_open(&first);
    ask(&alice);
    redis_number(&server, "SCRIPT FLUSH");
    ask(&bob);
    expect_queued(true);
    redis_number(&server, "SCRIPT FLUSH");
    renew(&alice);
    expect_mine(&alice);
    redis_number(&server, "SCRIPT FLUSH");
    release(&alice);
    redis_number(&server, "SCRIPT FLUSH");
    ask(&bob);
    expect_mine(&bob);
}

REDIS_TEST(test_redis_faults__killed_connections_come_back)
{
    struct who alice = person(&first, "alice");

    must_open(&first);
    ask(&alice);
    for (int i = 0; i < 5; i++) {
        redis_number(&server, "CLIENT KILL TYPE normal");
        await(try_run(&alice, (simba_request){.kind = SIMBA_RENEW}) ==
              SIMBA_OK);
        expect_mine(&alice);
    }
}

REDIS_TEST(test_redis_faults__hanging_server_is_unknown)
{
    struct who alice = person(&first, "alice");
    int64_t from;

    must_open(&first);
    redis_pause(&server, true);
    from = simba_loop_now_ms();
    assert_int_equal(try_run(&alice, asking_until(&alice, 200)),
                     SIMBA_EUNKNOWN);
    assert_in_range(simba_loop_now_ms() - from, 195, 5000);
    assert_int_equal(
        try_run(&alice,
                (simba_request){.kind = SIMBA_READ,
                                .deadline_ms = simba_loop_now_ms() + 50}),
        SIMBA_EUNAVAIL);
    redis_pause(&server, false);
    ask(&alice); /* the first was granted meanwhile; it is the same attempt */
    expect_mine(&alice);
}

REDIS_TEST(test_redis_faults__stopped_server_is_unreachable)
{
    struct who alice = person(&first, "alice");

    must_open(&first);
    ask(&alice);
    redis_stop(&server);
    await(try_run(&alice, asking_until(&alice, 100)) == SIMBA_EUNAVAIL);
    assert_non_null(strstr(why.message, "refused"));
    redis_run(&server);
    await(try_run(&alice, asking_until(&alice, 100)) == SIMBA_OK);
    redis_number(&server, "FLUSHALL");
}

REDIS_TEST(test_redis_faults__kept_data_is_there_after_a_restart)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");
    int64_t from;

    open_with_grace(&first);
    open_with_grace(&second);
    await(try_run(&alice, asking(&alice)) == SIMBA_OK);
    await(try_run(&bob, asking(&bob)) == SIMBA_OK);
    redis_kill(&server);
    redis_run(&server);
    from = simba_loop_now_ms();
    await(try_run(&alice, (simba_request){.kind = SIMBA_RENEW}) == SIMBA_OK);
    expect_mine(&alice);
    assert_true(handle_woken(&second, MUTEX, PATIENCE_MS));
    await(try_run(&bob, asking_until(&bob, 1000)) == SIMBA_OK);
    expect_queued(true);
    assert_in_range(simba_loop_now_ms() - from, 0, 3000);
    release(&alice);
    ask(&bob);
    expect_mine(&bob);
}

REDIS_TEST(test_redis_faults__lost_data_is_waited_for)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");
    uint64_t token;
    int64_t started;

    redis_number(&server, "CONFIG SET appendonly no");
    server.options[1] = "no";
    must_open(&first);
    open_with_grace(&second);
    ask(&alice);
    token = got.token;
    redis_kill(&server);
    redis_run(&server);
    started = simba_loop_now_ms();
    await(try_run(&alice, (simba_request){.kind = SIMBA_RENEW}) == SIMBA_OK);
    assert_false(got.mine);
    await(try_run(&bob, asking_until(&bob, 500)) == SIMBA_OK);
    expect_mine(&bob);
    assert_true(got.token > token);
    /* the server was up already when we saw it so */
    assert_in_range(simba_loop_now_ms() - started, 1000, 3500);
    server.options[1] = "yes";
    redis_kill(&server);
    redis_run(&server);
}

REDIS_TEST(test_redis_faults__whoever_waits_is_told_when_grace_is_over)
{
    struct who bob = person(&first, "bob");

    redis_number(&server, "CONFIG SET appendonly no");
    server.options[1] = "no";
    redis_kill(&server);
    redis_run(&server);
    open_with_grace(&first);
    assert_int_equal(try_run(&bob, asking(&bob)), SIMBA_EBUSY);
    assert_non_null(strstr(why.message, "was started"));
    assert_true(handle_woken(&first, MUTEX, PATIENCE_MS));
    ask(&bob);
    expect_mine(&bob);
    server.options[1] = "yes";
    redis_kill(&server);
    redis_run(&server);
}

REDIS_TEST(test_redis_faults__flushall_frees_and_tokens_grow)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");

    must_open(&first);
    ask(&alice);
    redis_number(&server, "FLUSHALL");
    renew(&alice);
    assert_false(got.mine);
    ask(&bob);
    expect_mine(&bob);
    assert_true(bob.token > alice.token);
    release(&alice);
    assert_string_equal(redis_text(&server, "GET %s", KEY), "bob");
}

REDIS_TEST(test_redis_faults__busy_script_is_waited_for)
{
    struct who alice = person(&first, "alice");
    redisContext *other = redisConnect("127.0.0.1", server.port);

    must_open(&first);
    redis_number(&server, "CONFIG SET lua-time-limit 50");
    redisAppendCommand(other, "EVAL %s 0",
                       "local t = redis.call('TIME') local till = t[1] * 1000 "
                       "+ t[2] / 1000 + 400 repeat t = redis.call('TIME') "
                       "until t[1] * 1000 + t[2] / 1000 > till");
    for (int done = 0; done == 0;) {
        assert_int_equal(redisBufferWrite(other, &done), REDIS_OK);
    }
    redis_nap_ms(100);
    ask(&alice);
    expect_mine(&alice);
    redisFree(other);
}

REDIS_TEST(test_redis_faults__nothing_to_read_but_a_hang_up)
{
    struct who alice = person(&first, "alice");

    must_open(&first);
    ask(&alice);
    redis_kill(&server);
    redis_run(&server);
    assert_true(handle_woken(&first, MUTEX, PATIENCE_MS)); /* noticed */
    redis_number(&server, "FLUSHALL");
}

int main(void)
{
    return run_unit_tests(start_durable, remove_server);
}
