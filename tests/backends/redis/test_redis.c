/* Single requests to a real server, and what they leave in its keys. */
#define _GNU_SOURCE
#include "driver.h"

#include <inttypes.h>

REDIS_TEST(test_redis__grants_when_free)
{
    struct who alice = person(&first, "alice");

    must_open(&first);
    ask(&alice);
    expect_mine(&alice);
    assert_string_equal(redis_text(&server, "GET %s", KEY), "alice");
    assert_in_range(redis_number(&server, "PTTL %s", KEY), LEASE - 5000, LEASE);
    assert_true(redis_number(&server, "PTTL %s:tenure", KEY) > LEASE - 5000);
    assert_int_equal(
        strtoull(redis_text(&server, "GET %s:token", KEY), NULL, 10),
        alice.token);
    assert_int_equal(
        strtoull(redis_text(&server, "GET %s:fence", KEY), NULL, 10),
        alice.token);
}

REDIS_TEST(test_redis__refuses_when_held)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");

    must_open(&first);
    must_open(&second);
    ask(&alice);
    ask(&bob);
    expect_queued(true);
    assert_string_equal(got.owner.id, "alice");
    assert_int_equal(got.owner.token, alice.token);
    assert_in_range(got.wait_ms, LEASE - 5000, LEASE);
    assert_in_range(got.owner.acquired_at_ms, got.store_ms - 5000,
                    got.store_ms);
}

REDIS_TEST(test_redis__asking_once_leaves_no_trace)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");

    must_open(&first);
    ask(&alice);
    run(&bob, (simba_request){.kind = SIMBA_ACQUIRE, .waiter_ms = WAITER_MS});
    assert_false(got.mine);
    assert_false(got.is_queued);
    assert_int_equal(redis_number(&server, "EXISTS %s:contender", KEY), 0);
    assert_int_equal(redis_number(&server, "EXISTS %s:waiters", KEY), 0);
}

/* An attempt whose lease has lapsed asks again and is a new tenure, whose
 * renewals are counted from the beginning. Who saw the earlier one stand still
 * has seen nothing of it. */
REDIS_TEST(test_redis__what_was_seen_of_a_tenure_is_not_of_the_next)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");
    int64_t seen_ms;

    alice.ttl_ms = bob.ttl_ms = 300;
    alice.transition_ms = bob.transition_ms = 100;
    must_open(&first);
    ask(&alice);
    expect_mine(&alice);
    ask(&bob);
    expect_queued(true);
    seen_ms = now_ms();
    run(&bob, (simba_request){.kind = SIMBA_LEAVE});
    await(redis_number(&server, "EXISTS %s", KEY) == 0);
    alice.ttl_ms = LEASE;
    ask(&alice);
    expect_mine(&alice);
    await(now_ms() >= seen_ms + 425); /* a lease and its margin */
    ask(&bob);
    assert_false(got.mine);
}

REDIS_TEST(test_redis__same_attempt_extends)
{
    struct who alice = person(&first, "alice");
    uint64_t token;

    must_open(&first);
    ask(&alice);
    token = got.token;
    redis_number(&server, "PEXPIRE %s 5000", KEY);
    ask(&alice);
    expect_mine(&alice);
    assert_int_equal(got.token, token);
    assert_in_range(redis_number(&server, "PTTL %s", KEY), LEASE - 5000, LEASE);
}

REDIS_TEST(test_redis__same_id_is_not_the_tenure)
{
    struct who alice = person(&first, "alice"), again = person(&first, "alice");

    must_open(&first);
    ask(&alice);
    run(&again, (simba_request){.kind = SIMBA_RENEW});
    assert_false(got.mine);
    release(&again);
    assert_string_equal(redis_text(&server, "GET %s", KEY), "alice");
    ask(&again);
    assert_false(got.mine);
}

REDIS_TEST(test_redis__renews_this_tenure_only)
{
    struct who alice = person(&first, "alice");

    must_open(&first);
    renew(&alice);
    assert_false(got.mine);
    assert_int_equal(redis_number(&server, "EXISTS %s", KEY), 0);
    ask(&alice);
    redis_number(&server, "PEXPIRE %s 3000", KEY);
    renew(&alice);
    expect_mine(&alice);
    assert_int_equal(got.token, alice.token);
    assert_true(redis_number(&server, "PTTL %s", KEY) > LEASE - 5000);
    assert_true(redis_number(&server, "PTTL %s:token", KEY) > LEASE - 5000);
    assert_true(redis_number(&server, "PTTL %s:tenure", KEY) > LEASE - 5000);
}

REDIS_TEST(test_redis__release_leaves_only_the_fence)
{
    struct who alice = person(&first, "alice");

    must_open(&first);
    ask(&alice);
    release(&alice);
    redis_number(&server, "DEL simba:grace"); /* is of no mutex */
    assert_int_equal(redis_number(&server, "DBSIZE"), 1);
    assert_int_equal(redis_number(&server, "EXISTS %s:fence", KEY), 1);
    assert_int_equal(redis_number(&server, "PTTL %s:fence", KEY), -1);
}

REDIS_TEST(test_redis__tokens_grow)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");
    uint64_t token;

    must_open(&first);
    ask(&alice);
    token = got.token;
    release(&alice);
    redis_number(&server, "FLUSHALL");
    ask(&bob);
    assert_true(got.token > token);
    release(&bob);
    redis_number(&server, "SET %s:fence 9007199254740995", KEY);
    alice = person(&first, "alice");
    ask(&alice);
    assert_int_equal(got.token, 9007199254740996U);
    look(&alice);
    assert_int_equal(got.owner.token, 9007199254740996U);
}

REDIS_TEST(test_redis__tombstone_refuses_its_attempt)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");

    must_open(&first);
    run(&alice, (simba_request){.kind = SIMBA_RELEASE, .tombstone_ms = LEASE});
    ask(&alice);
    assert_false(got.mine);
    assert_false(got.is_queued);
    ask(&bob);
    expect_mine(&bob);
}

REDIS_TEST(test_redis__late_leave_costs_nobody_his_position)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");
    struct who former = bob;

    must_open(&first);
    ask(&alice);
    ask(&former);
    bob = person(&first, "bob");
    ask(&bob);
    expect_queued(true);
    leave(&former);
    assert_true(redis_text(&server, "ZSCORE %s:contender bob", KEY)[0] != '\0');
    leave(&bob);
    assert_int_equal(redis_number(&server, "EXISTS %s:contender", KEY), 0);
}

REDIS_TEST(test_redis__queue_keys_expire_with_the_last_waiter)
{
    static const char *const keys[] = {"contender", "waiters", "attempts"};
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");

    must_open(&first);
    ask(&alice);
    ask(&bob);
    for (int i = 0; i < 3; i++) {
        assert_in_range(redis_number(&server, "PTTL %s:%s", KEY, keys[i]),
                        WAITER_MS - 5000, WAITER_MS);
    }
}

REDIS_TEST(test_redis__reads_owner_and_queue)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob"),
               carol = person(&first, "carol");

    must_open(&first);
    look(&alice);
    assert_string_equal(got.owner.id, "");
    assert_true(got.store_ms > 0);
    ask(&alice);
    ask(&bob);
    ask(&carol);
    run(&bob, (simba_request){.kind = SIMBA_READ, .want_queue = true});
    assert_string_equal(got.owner.id, "alice");
    assert_int_equal(told.waiter_count, 2);
    assert_string_equal(told.waiters[0].id, "bob");
    assert_int_equal(told.waiters[0].position, bob.position);
    assert_string_equal(told.waiters[1].id, "carol");
    release(&alice);
    told.waiter_count = 0;
    run(&bob, (simba_request){.kind = SIMBA_READ, .want_queue = true});
    assert_int_equal(told.waiter_count, 2);
    assert_string_equal(told.waiters[0].id, "bob");
    assert_true(told.waiters[0].is_offered);
    assert_false(told.waiters[1].is_offered);
}

REDIS_TEST(test_redis__lists_mutexes)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");
    simba_request other = asking(&alice);

    must_open(&first);
    ask(&alice);
    ask(&bob);
    other.mutex = "another}";
    run(&alice, other);
    redis_number(&server, "RPUSH simba:{foreign} x");
    redis_number(&server, "SET simba:other x");
    run(&alice, (simba_request){.kind = SIMBA_LIST, .mutex = ""});
    assert_int_equal(told.mutex_count, 2);
    for (int i = 0; i < 2; i++) {
        bool is_first = strcmp(told.mutexes[i].mutex, MUTEX) == 0;

        assert_string_equal(told.mutexes[i].owner.id, "alice");
        assert_int_equal(told.mutexes[i].waiting, is_first ? 1 : 0);
        assert_true(is_first || strcmp(told.mutexes[i].mutex, "another}") == 0);
    }
}

/* A waiter lease is over, and nobody has come since to forget it. */
REDIS_TEST(test_redis__does_not_tell_of_the_dead)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob"),
               carol = person(&first, "carol");

    must_open(&first);
    ask(&alice);
    ask(&bob);
    ask(&carol);
    redis_number(&server, "ZADD %s:waiters XX 1 bob", KEY);
    run(&alice, (simba_request){.kind = SIMBA_READ, .want_queue = true});
    assert_int_equal(told.waiter_count, 1);
    assert_string_equal(told.waiters[0].id, "carol");
    run(&alice, (simba_request){.kind = SIMBA_LIST, .mutex = ""});
    assert_int_equal(told.mutex_count, 1);
    assert_int_equal(told.mutexes[0].waiting, 1);
    assert_int_equal(redis_number(&server, "ZCARD %s:contender", KEY), 2);
}

/* It is in no queue any more, and owns nothing yet. */
REDIS_TEST(test_redis__lists_a_mutex_that_is_offered_to_its_only_waiter)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");

    must_open(&first);
    ask(&alice);
    ask(&bob);
    release(&alice);
    redis_number(&server, "PEXPIRE %s:next 60000", KEY);
    run(&alice, (simba_request){.kind = SIMBA_LIST, .mutex = ""});
    assert_int_equal(told.mutex_count, 1);
    assert_string_equal(told.mutexes[0].mutex, MUTEX);
    assert_string_equal(told.mutexes[0].owner.id, "");
    assert_int_equal(told.mutexes[0].waiting, 1);
}

/* So many bytes the server has been sent. */
static long long count_sent(void)
{
    static const char field[] = "total_net_input_bytes:";
    const char *found = strstr(redis_text(&server, "INFO stats"), field);

    assert_non_null(found);
    return strtoll(found + strlen(field), NULL, 10);
}

/* Who looks at a thousand mutexes twice a second may not send the text of a
 * script for each of them. */
REDIS_TEST(test_redis__list_sends_its_script_once)
{
    enum { MUTEXES = 40, EACH = 2000, SCRIPT = 32 << 10 };
    struct who alice = person(&first, "alice");
    const simba_request asked[] = {{.kind = SIMBA_LIST, .mutex = ""},
                                   {.kind = SIMBA_TOLD, .mutex = ""}};
    char name[16];

    must_open(&first);
    for (int i = 0; i < MUTEXES; i++) {
        simba_request other = asking(&alice);

        snprintf(name, sizeof name, "n%d", i);
        other.mutex = name;
        run(&alice, other);
        assert_true(got.mine);
        run(&alice, (simba_request){.kind = SIMBA_TELL,
                                    .mutex = name,
                                    .token = got.token,
                                    .reason = "host h"});
    }
    for (int i = 0; i < 2; i++) {
        long long before = count_sent();

        run(&alice, asked[i]);
        assert_in_range(count_sent() - before, MUTEXES,
                        MUTEXES * EACH + SCRIPT);
    }
    assert_true(told.mutex_count > 0);
}

/* Older versions and Simba on the JVM never see it: what they read stays as it
 * is, and one key comes that they do not know. */
REDIS_TEST(test_redis__what_is_told_is_beside_the_rest)
{
    struct who alice = person(&first, "alice");
    char lease[256];
    long long keys;

    must_open(&first);
    ask(&alice);
    snprintf(lease, sizeof lease, "%s", redis_text(&server, "GET %s", KEY));
    assert_string_not_equal(lease, "");
    keys = redis_number(&server, "DBSIZE");
    run(&alice, (simba_request){.kind = SIMBA_TELL, .reason = "host h"});
    assert_int_equal(redis_number(&server, "DBSIZE"), keys + 1);
    assert_int_equal(redis_number(&server, "EXISTS %s", KEY ":who"), 1);
    assert_string_equal(redis_text(&server, "GET %s", KEY), lease);
    release(&alice);
    run(&alice, (simba_request){.kind = SIMBA_TELL});
    assert_int_equal(redis_number(&server, "EXISTS %s", KEY ":who"), 0);
}

REDIS_TEST(test_redis__breaks_a_tenure)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");

    must_open(&first);
    ask(&alice);
    ask(&bob);
    run(&bob, (simba_request){.kind = SIMBA_BREAK, .token = alice.token + 1});
    assert_false(got.mine);
    run(&bob, (simba_request){.kind = SIMBA_BREAK, .token = alice.token});
    assert_true(got.mine);
    renew(&alice);
    assert_false(got.mine);
    ask(&alice);
    assert_false(got.mine);
    ask(&bob);
    assert_false(got.mine);
    assert_string_equal(got.owner.id, "alice");
    assert_int_equal(got.owner.token, alice.token);
    run(&bob, (simba_request){
                  .kind = SIMBA_BREAK, .token = alice.token, .now = true});
    assert_true(got.mine);
    ask(&bob);
    expect_mine(&bob);
    assert_true(got.token > alice.token);
}

/* One entry for each break, and none for what broke nothing. */
REDIS_TEST(test_redis__breaks_are_in_the_book)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");
    redisReply *book;
    char wanted[128];
    int first_entry; /* a hash keeps no order */

    must_open(&first);
    ask(&alice);
    run(&bob, (simba_request){.kind = SIMBA_BREAK, .token = alice.token + 1});
    assert_int_equal(redis_number(&server, "EXISTS %s:broken", KEY), 0);
    run(&bob, (simba_request){.kind = SIMBA_BREAK,
                              .token = alice.token,
                              .reason = "it \"hangs\""});
    run(&bob, (simba_request){
                  .kind = SIMBA_BREAK, .token = alice.token, .now = true});
    book = redis_do(&server, "HVALS %s:broken", KEY);
    assert_int_equal(book->elements, 2);
    snprintf(wanted, sizeof wanted,
             "{\"token\":%" PRIu64 ",\"id\":\"alice\",\"now\":false,"
             "\"reason\":\"it \\\"hangs\\\"\"}",
             alice.token);
    first_entry = strcmp(book->element[0]->str, wanted) == 0 ? 0 : 1;
    assert_string_equal(book->element[first_entry]->str, wanted);
    assert_non_null(
        strstr(book->element[1 - first_entry]->str, "\"now\":true"));
    freeReplyObject(book);
}

/* Each of several owners has its own break, and its own tombstone. */
REDIS_TEST(test_redis__breaks_one_of_several)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");

    must_open(&first);
    share(&alice);
    share(&bob);
    run(&bob, (simba_request){.kind = SIMBA_BREAK, .token = alice.token});
    assert_true(got.mine);
    assert_string_equal(got.owner.id, "alice");
    renew(&alice);
    assert_false(got.mine);
    share(&alice);
    assert_false(got.mine);
    renew(&bob);
    assert_true(got.mine);
    run(&bob, (simba_request){.kind = SIMBA_READ, .want_queue = true});
    assert_int_equal(told.owner_count, 2);
    assert_true(told.owners[0].is_broken && !told.owners[1].is_broken);
    run(&bob, (simba_request){
                  .kind = SIMBA_BREAK, .token = alice.token, .now = true});
    assert_int_equal(redis_number(&server, "HLEN %s:broken", KEY), 2);
    assert_int_equal(redis_number(&server, "HLEN %s:owners", KEY), 1);
    run(&bob, (simba_request){.kind = SIMBA_RELEASE, .tombstone_ms = LEASE});
    share(&bob);
    assert_false(got.mine);
    assert_false(got.is_queued);
    assert_int_equal(redis_number(&server, "EXISTS %s %s:owners", KEY, KEY), 0);
}

/* A program that knows of one owner only may end the tenures of several, if
 * none of them was renewed for a lease. What is left of them counts no more. */
REDIS_TEST(test_redis__ended_crowd_does_not_come_back)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");

    must_open(&first);
    share(&alice);
    redis_number(&server, "DEL %s %s:token %s:tenure", KEY, KEY, KEY);
    share(&bob);
    assert_true(got.mine);
    assert_int_equal(got.owned, 1);
    assert_int_equal(got.slot, 0);
    run(&alice, (simba_request){.kind = SIMBA_RENEW, .slots = UINT32_MAX});
    assert_false(got.mine);
}

/* All of several have gone, and only what stands for them is left: who wants
 * the mutex alone gets it, and knows. */
REDIS_TEST(test_redis__one_alone_follows_several)
{
    struct who alice = person(&first, "alice");
    const char *tenure = "00000000000000000000000000000000 123<100 "
                         "1794800000000 1000 slots@";

    must_open(&first);
    redis_text(&server, "SET %s slots@ PX 60000", KEY);
    redis_text(&server, "SET %s:token 123 PX 60000", KEY);
    redis_text(&server, "SET %s:tenure %s PX 60000", KEY, tenure);
    ask(&alice);
    expect_mine(&alice);
    assert_int_equal(got.owned, 1);
    assert_int_equal(got.slots, 0);
    assert_string_equal(redis_text(&server, "GET %s", KEY), "alice");
    renew(&alice);
    expect_mine(&alice);
}

/* The last of several goes while another is told that there are some. */
REDIS_TEST(test_redis__one_alone_comes_as_the_last_of_several_goes)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");
    simba_request coming = asking(&bob);
    simba_request going = {.kind = SIMBA_RELEASE, .slots = UINT32_MAX};

    must_open(&first);
    ask(&bob); /* the server knows the scripts then */
    release(&bob);
    share(&alice);
    fill_request(&bob, &coming);
    fill_request(&alice, &going);
    handle_start_all(&first, (simba_request *[]){&coming, &going}, 2);
    assert_int_equal(handle_join(&first, &coming, &why), SIMBA_OK);
    assert_int_equal(handle_join(&first, &going, &why), SIMBA_OK);
    got = coming.reply;
    expect_mine(&bob);
}

/* The server's clock has gone back by an hour: a dead one of several has its
 * lease from when somebody asks, and no more. */
REDIS_TEST(test_redis__one_of_several_is_ended_after_its_lease)
{
    struct who dead = person(&first, "dead"), bob = person(&first, "bob");
    struct who carol = person(&first, "carol");
    static const char clock_back[] =
        "local all = redis.call('HGETALL', KEYS[1]) "
        "for i = 1, #all, 2 do "
        "    if string.find(all[i + 1], ' dead%z') then "
        "        redis.call('HSET', KEYS[1], all[i], (string.gsub(all[i + 1], "
        "            '^%d+', function(ms) "
        "                return string.format('%.0f', ms + 3600000) end))) "
        "    end "
        "end "
        "return #all";

    must_open(&first);
    share(&bob);
    dead.ttl_ms = 60;
    dead.transition_ms = 40;
    share(&dead);
    redis_number(&server, "EVAL %s 1 %s:owners", clock_back, KEY);
    redis_number(&server, "PEXPIRE %s 3700000", KEY);
    ask(&carol);
    assert_in_range(got.wait_ms, 0, 100);
    assert_in_range(redis_number(&server, "PTTL %s", KEY), 1, LEASE);
    await((share(&bob), got.owned == 1));
}

/* So many that a renewal looks at its own tenure only. */
REDIS_TEST(test_redis__many_share_a_mutex)
{
    enum { MANY = 34 };
    struct who who[MANY];
    char names[MANY][8];

    must_open(&first);
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "r%d", i);
        who[i] = person(&first, names[i]);
        share(&who[i]);
        assert_true(got.mine);
        assert_int_equal(got.slot, i);
    }
    who[1].ttl_ms += LEASE;
    renew(&who[1]);
    expect_mine(&who[1]);
    assert_int_equal(got.slot, 1);
    assert_true(redis_number(&server, "PTTL %s", KEY) > LEASE);
    assert_true(redis_number(&server, "PTTL %s:owners", KEY) > LEASE);
    run(&who[0],
        (simba_request){.kind = SIMBA_HAND_OVER, .token = who[0].token});
    assert_true(got.mine);
    run(&who[0], (simba_request){.kind = SIMBA_BREAK, .token = who[0].token});
    renew(&who[0]);
    assert_false(got.mine);
    end_share(&who[0]);
    renew(&who[0]);
    assert_false(got.mine);
    look(&who[0]);
    assert_string_equal(got.owner.id, "r1"); /* the oldest now */
    assert_int_equal(got.owned, MANY - 1);
}

static enum simba_gravity gravity_of(const char *name)
{
    for (int i = 0; i < told.finding_count; i++) {
        if (strcmp(told.findings[i].name, name) == 0) {
            return told.findings[i].gravity;
        }
    }
    fail_msg("no finding \"%s\"", name);
    return SIMBA_FINDING_OK;
}

/* An older binary has the mutex, as its scripts wrote it down, and another has
 * broken the tenure of a JVM owner. */
REDIS_TEST(test_redis__shares_keys_with_older_versions)
{
    struct who alice = person(&first, "alice");
    const char *tenure = "00000000000000010000000000000002 123<100 "
                         "1794800000000 1000 old";

    must_open(&first);
    redis_text(&server, "SET %s old PX 5000", KEY);
    redis_text(&server, "SET %s:token 123 PX 5000", KEY);
    redis_text(&server, "SET %s:tenure %s PX 5000", KEY, tenure);
    look(&alice);
    assert_string_equal(got.owner.id, "old");
    assert_int_equal(got.owner.token, 123);
    assert_int_equal(got.owner.acquired_at_ms, 1794800000000);
    assert_int_equal(got.ended, 100);
    run(&alice, (simba_request){.kind = SIMBA_BREAK, .token = 123});
    assert_true(got.mine);
    assert_int_equal(redis_text(&server, "GET %s:tenure", KEY)[32], '!');
    assert_string_equal(redis_text(&server, "GET %s", KEY), "old");
    redis_number(&server, "DEL %s:tenure %s:token", KEY, KEY);
    redis_text(&server, "SET %s broken PX 5000", KEY);
    look(&alice);
    assert_string_equal(got.owner.id, "broken");
}

REDIS_TEST(test_redis__doctor_names_weaknesses)
{
    struct who alice = person(&first, "alice");

    must_open(&first);
    redis_number(&server, "CONFIG SET maxmemory-policy volatile-lru");
    run(&alice, (simba_request){.kind = SIMBA_DOCTOR, .mutex = ""});
    redis_number(&server, "CONFIG SET maxmemory-policy noeviction");
    assert_int_equal(gravity_of("eviction"), SIMBA_FINDING_SERIOUS);
    assert_int_equal(gravity_of("persistence"), SIMBA_FINDING_SERIOUS);
    assert_int_equal(gravity_of("version"), SIMBA_FINDING_OK);
    assert_int_equal(gravity_of("replicas"), SIMBA_FINDING_NOTE);
    assert_int_equal(gravity_of("clock"), SIMBA_FINDING_NOTE);
    assert_int_equal(gravity_of("wire"), SIMBA_FINDING_OK); /* this machine */
    memset(&told, 0, sizeof told);
    run(&alice, (simba_request){.kind = SIMBA_DOCTOR, .mutex = ""});
    assert_int_equal(gravity_of("eviction"), SIMBA_FINDING_OK);
}

REDIS_TEST(test_redis__database_number_is_honoured)
{
    struct who alice = person(&first, "alice");

    assert_int_equal(try_open(&first, redis_url(&server, "/3?restart_grace=0")),
                     SIMBA_OK);
    ask(&alice);
    assert_int_equal(redis_number(&server, "EXISTS %s", KEY), 0);
    handle_close(&first);
    assert_non_null(strstr(redis_text(&server, "INFO keyspace"), "db3:"));
}

int main(void)
{
    return run_unit_tests(start_server, remove_server);
}
