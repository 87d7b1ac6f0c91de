/* Sharing mutexes with JVM contenders: a test client plays their part, command
 * by command, as generations A (3.0.2-3.1) and C (3.3, 4.x) send them. */
#define _GNU_SOURCE
#include "driver.h"

/* --- a JVM contender ----------------------------------------------------- */

struct jvm {
    const char *id;
    redisContext *channels; /* on the broadcast and its personal channel */
};

static void jvm_open_at(struct jvm *jvm, const char *id, const char *channel)
{
    struct timeval patience = {20, 0};

    jvm->id = id;
    jvm->channels = redisConnect("127.0.0.1", server.port);
    redisSetTimeout(jvm->channels, patience);
    freeReplyObject(redisCommand(jvm->channels, "SUBSCRIBE %s", channel));
    freeReplyObject(
        redisCommand(jvm->channels, "SUBSCRIBE %s:%s", channel, id));
}

static void jvm_open(struct jvm *jvm, const char *id)
{
    jvm_open_at(jvm, id, KEY);
}

static void jvm_close(struct jvm *jvm)
{
    redisFree(jvm->channels);
}

/* The next message; every JVM client must be able to take it apart. */
static const char *jvm_hear(struct jvm *jvm)
{
    static char message[256];
    redisReply *reply = NULL;
    const char *at;

    if (redisGetReply(jvm->channels, (void **)&reply) != REDIS_OK) {
        fail_msg("%s hears nothing: %s", jvm->id, jvm->channels->errstr);
    }
    snprintf(message, sizeof message, "%s", reply->element[2]->str);
    freeReplyObject(reply);
    at = strstr(message, "@@");
    assert_non_null(at);
    assert_null(strstr(at + 2, "@@"));
    assert_true(strncmp(message, "acquired@@", 10) == 0 ||
                strncmp(message, "released@@", 10) == 0);
    return message;
}

static bool jvm_acquire(const struct jvm *jvm, bool is_generation_a)
{
    bool is_mine =
        strcmp(redis_text(&server, "SET %s %s NX PX %d", KEY, jvm->id, LEASE),
               "OK") == 0;

    if (is_mine) {
        if (!is_generation_a) {
            long long token = redis_number(&server, "INCR %s:fence", KEY);

            redis_number(&server, "SET %s:token %lld PX %d", KEY, token, LEASE);
        }
        redis_number(&server, "PUBLISH %s acquired@@%s", KEY, jvm->id);
    } else if (is_generation_a) {
        redisReply *time = redis_do(&server, "TIME");

        redis_number(&server, "ZADD %s:contender NX %s %s", KEY,
                     time->element[0]->str, jvm->id);
        freeReplyObject(time);
    }
    return is_mine;
}

static void jvm_release_a(const struct jvm *jvm)
{
    redisReply *head;

    assert_string_equal(redis_text(&server, "GET %s", KEY), jvm->id);
    redis_number(&server, "DEL %s", KEY);
    head = redis_do(&server, "ZPOPMIN %s:contender", KEY);
    if (head->elements > 0) {
        redis_number(&server, "PUBLISH %s:%s released@@%s", KEY,
                     head->element[0]->str, jvm->id);
    }
    freeReplyObject(head);
}

static void jvm_release_c(const struct jvm *jvm)
{
    assert_string_equal(redis_text(&server, "GET %s", KEY), jvm->id);
    redis_number(&server, "DEL %s %s:token %s:contender", KEY, KEY, KEY);
    redis_number(&server, "PUBLISH %s released@@%s", KEY, jvm->id);
}

/* --- sharing ------------------------------------------------------------- */

REDIS_TEST(test_redis_jvm__c_owner_hands_to_a)
{
    struct who alice = person(&first, "alice");
    struct jvm java;

    must_open(&first);
    jvm_open(&java, "java");
    ask(&alice);
    assert_string_equal(jvm_hear(&java), "acquired@@alice");
    assert_false(jvm_acquire(&java, true));
    release(&alice);
    assert_string_equal(jvm_hear(&java), "released@@alice");
    assert_true(jvm_acquire(&java, true));
    /* taken out of the queue when woken */
    assert_int_equal(redis_number(&server, "ZCARD %s:contender", KEY), 0);
    jvm_close(&java);
}

REDIS_TEST(test_redis_jvm__a_owner_hands_to_c)
{
    struct who alice = person(&first, "alice");
    struct jvm java;

    must_open(&first);
    jvm_open(&java, "java");
    assert_true(jvm_acquire(&java, true));
    ask(&alice);
    expect_queued(true);
    assert_string_equal(got.owner.id, "java");
    jvm_release_a(&java); /* pops alice from the queue */
    assert_true(handle_woken(&first, MUTEX, PATIENCE_MS));
    ask(&alice);
    expect_mine(&alice);
    jvm_close(&java);
}

REDIS_TEST(test_redis_jvm__c_generation_owner_hands_to_c)
{
    struct who alice = person(&first, "alice");
    struct jvm java;
    uint64_t token;

    must_open(&first);
    jvm_open(&java, "java");
    ask(&alice);
    token = got.token;
    release(&alice);
    assert_true(jvm_acquire(&java, false));
    alice = person(&first, "alice");
    ask(&alice);
    expect_queued(true);
    assert_true(got.owner.token > token); /* INCR goes on from ours */
    token = got.owner.token;
    jvm_release_c(&java); /* broadcasts only, and deletes the queue */
    assert_true(handle_woken(&first, MUTEX, PATIENCE_MS));
    ask(&alice);
    expect_mine(&alice);
    assert_true(got.token > token);
    jvm_close(&java);
}

REDIS_TEST(test_redis_jvm__c_owner_hands_to_b_and_c)
{
    struct who alice = person(&first, "alice");
    struct jvm java;

    must_open(&first);
    jvm_open(&java, "java");
    ask(&alice);
    jvm_hear(&java);
    assert_false(jvm_acquire(&java, false));
    release(&alice); /* nobody is in the queue: it is broadcast */
    assert_string_equal(jvm_hear(&java), "released@@alice");
    assert_true(jvm_acquire(&java, false));
    jvm_close(&java);
}

REDIS_TEST(test_redis_jvm__dead_jvm_head_swallows_no_wake_up)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");

    must_open(&first);
    must_open(&second);
    ask(&alice);
    redis_number(&server, "ZADD %s:contender 1 dead-java", KEY);
    ask(&bob);
    release(&alice);
    assert_true(handle_woken(&second, MUTEX, PATIENCE_MS));
    ask(&bob);
    expect_mine(&bob);
    assert_int_equal(redis_number(&server, "ZCARD %s:contender", KEY), 0);
}

/* It stands before who joins from now on: its score is a whole second. */
static void jvm_joins(const struct jvm *jvm)
{
    assert_false(jvm_acquire(jvm, true));
    redis_nap_ms(1);
}

/* How many hear what is published for this id; NULL: for everybody. */
static long long listeners(const char *id)
{
    redisReply *reply = redis_do(&server, "PUBSUB NUMSUB %s%s%s", KEY,
                                 id == NULL ? "" : ":", id == NULL ? "" : id);
    long long count = reply->element[1]->integer;

    freeReplyObject(reply);
    return count;
}

/* It was left to JVM contenders, and none came. */
static void end_room(void)
{
    redis_number(&server, "DEL %s:next", KEY);
}

static void await_no_offer(void)
{
    await(redis_number(&server, "EXISTS %s:next", KEY) == 0);
}

REDIS_TEST(test_redis_jvm__jvm_head_is_offered_the_mutex)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");
    struct jvm java;

    must_open(&first);
    must_open(&second);
    jvm_open(&java, "java");
    ask(&alice);
    jvm_hear(&java);
    jvm_joins(&java);
    ask(&bob);
    release(&alice);
    assert_true(redis_number(&server, "PTTL %s:next", KEY) <= 100);
    /* It must not find itself as the owner before it has asked. */
    assert_string_not_equal(redis_text(&server, "GET %s", KEY), "java");
    assert_string_equal(jvm_hear(&java), "released@@alice");
    assert_true(handle_woken(&second, MUTEX, PATIENCE_MS));
    redis_text(&server, "SET %s:next java PX 20000", KEY); /* or it lapses */
    ask(&bob);                                             /* it is faster */
    expect_queued(true);
    assert_in_range(got.wait_ms, 1, 300);
    assert_true(jvm_acquire(&java, true));
    ask(&bob);
    jvm_release_a(&java);
    ask(&bob); /* and waits for no offer that was taken */
    expect_mine(&bob);
    jvm_close(&java);
}

/* Before 3.0.2 it subscribes to channels without the braces. */
REDIS_TEST(test_redis_jvm__old_jvm_head_is_offered_the_mutex)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");
    struct jvm java;

    must_open(&first);
    must_open(&second);
    jvm_open_at(&java, "java", "simba:" MUTEX);
    ask(&alice);
    jvm_joins(&java);
    ask(&bob);
    release(&alice);
    assert_string_equal(jvm_hear(&java), "released@@alice");
    ask(&bob);
    assert_false(got.mine);
    assert_true(jvm_acquire(&java, true));
    jvm_close(&java);
}

REDIS_TEST(test_redis_jvm__jvm_head_that_does_not_come_goes_to_the_end)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob"),
               carol = person(&second, "carol");
    struct jvm java;

    must_open(&first);
    must_open(&second);
    jvm_open(&java, "java");
    ask(&alice);
    jvm_joins(&java);
    ask(&bob);
    ask(&carol);
    release(&alice);
    await_no_offer();
    ask(&bob);
    expect_mine(&bob);
    assert_int_equal(redis_number(&server, "ZCARD %s:contender", KEY), 1);
    assert_false(jvm_acquire(&java, true)); /* too late */
    release(&bob);
    ask(&carol);
    expect_mine(&carol);
    jvm_close(&java);
}

/* A release of 3.2 and 3.3 deletes the queue, and only who subscribed hears of
 * it. */
REDIS_TEST(test_redis_jvm__deleted_queue_is_put_back)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob"),
               carol = person(&third, "carol");
    struct jvm java;

    must_open(&first);
    must_open(&second);
    must_open(&third);
    jvm_open(&java, "java");
    assert_true(jvm_acquire(&java, false));
    ask(&alice);
    ask(&bob);
    ask(&carol);
    jvm_release_c(&java);
    ask(&alice);
    expect_mine(&alice);
    release(&alice);
    end_room();
    ask(&carol);
    expect_queued(true); /* bob was offered it */
    ask(&bob);
    expect_mine(&bob);
    jvm_close(&java);
}

/* Those who leave while it is left to JVM contenders leave nobody asleep. */
REDIS_TEST(test_redis_jvm__who_is_left_behind_is_told)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob"),
               carol = person(&third, "carol");
    struct jvm java;

    must_open(&first);
    must_open(&second);
    must_open(&third);
    jvm_open(&java, "java");
    ask(&alice);
    jvm_joins(&java);
    ask(&bob);
    ask(&carol);
    (void)handle_woken(&third, MUTEX, 0);
    release(&alice);
    (void)handle_woken(&third, MUTEX, 50);
    release(&bob);
    assert_true(handle_woken(&third, MUTEX, PATIENCE_MS));
    jvm_close(&java);
}

REDIS_TEST(test_redis_jvm__lone_contender_leaves_room)
{
    struct who alice = person(&first, "alice");
    struct jvm java;
    int turns = 0;

    must_open(&first);
    jvm_open(&java, "java");
    do {
        ask(&alice);
        expect_mine(&alice);
        release(&alice);
    } while (++turns < 20 && redis_number(&server, "EXISTS %s:next", KEY) == 0);
    assert_in_range(turns, 1, 2);
    look(&alice);
    assert_int_equal(told.waiter_count, 0);
    assert_true(jvm_acquire(&java, false));
    jvm_close(&java);
}

REDIS_TEST(test_redis_jvm__jvm_that_has_gone_is_offered_nothing)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");
    struct jvm java;

    must_open(&first);
    must_open(&second);
    jvm_open(&java, "java");
    ask(&alice);
    jvm_joins(&java);
    ask(&bob);
    jvm_close(&java);
    await(listeners("java") == 0);
    release(&alice);
    ask(&bob);
    expect_mine(&bob);
}

REDIS_TEST(test_redis_jvm__jvm_owner_is_not_woken_by_itself)
{
    struct who alice = person(&first, "alice");
    struct jvm java;

    must_open(&first);
    jvm_open(&java, "java");
    redis_number(&server, "ZADD %s:contender 1 java", KEY); /* it had waited */
    assert_true(jvm_acquire(&java, true));
    ask(&alice);
    ask(&alice);
    expect_queued(true);
    jvm_release_a(&java);
    assert_true(handle_woken(&first, MUTEX, PATIENCE_MS));
    ask(&alice);
    expect_mine(&alice);
    jvm_close(&java);
}

REDIS_TEST(test_redis_jvm__who_was_taken_from_the_queue_is_still_the_first)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");
    struct jvm java;

    must_open(&first);
    must_open(&second);
    jvm_open(&java, "java");
    assert_true(jvm_acquire(&java, true));
    ask(&alice);
    ask(&bob);
    jvm_release_a(&java); /* takes alice from the queue */
    assert_true(handle_woken(&first, MUTEX, PATIENCE_MS));
    ask(&alice);
    expect_mine(&alice);
    jvm_close(&java);
}

/* Passes the mutex from one to the other and back until it is left to JVM
 * contenders, as often as this at most. Returns how often it passed. */
static int pass_until_left(struct who *owner, struct who *waiter, int most)
{
    struct who *both[] = {owner, waiter};
    int turns = 0;

    ask(both[0]);
    expect_mine(both[0]);
    ask(both[1]);
    while (turns < most) {
        release(both[turns % 2]);
        if (strcmp(redis_text(&server, "GET %s:next", KEY), "@") == 0) {
            break;
        }
        turns++;
        ask(both[turns % 2]);
        expect_mine(both[turns % 2]);
        ask(both[(turns + 1) % 2]);
    }
    return turns;
}

REDIS_TEST(test_redis_jvm__jvm_without_a_position_is_left_room)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");
    struct jvm java;
    int turns;

    must_open(&first);
    must_open(&second);
    jvm_open(&java, "java");
    turns = pass_until_left(&alice, &bob, 20);
    assert_in_range(turns, 0, 1); /* with more of ours it would be more */
    while (strncmp(jvm_hear(&java), "released@@", 10) != 0) {
    }
    ask(&alice); /* a newcomer, or the next in the queue */
    expect_queued(got.is_head);
    assert_in_range(got.wait_ms, 1, 50);
    assert_true(jvm_acquire(&java, false));
    jvm_release_c(&java);
    ask(turns % 2 == 0 ? &bob : &alice);
    expect_mine(turns % 2 == 0 ? &bob : &alice);
    jvm_close(&java);
}

REDIS_TEST(test_redis_jvm__room_that_nobody_uses_is_left_less_often)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");
    struct jvm java;
    int turns[3];

    must_open(&first);
    must_open(&second);
    jvm_open(&java, "java");
    for (int i = 0; i < 3; i++) {
        turns[i] = pass_until_left(&alice, &bob, 20);
        await_no_offer();
        ask(turns[i] % 2 == 0 ? &bob : &alice);
        expect_mine(turns[i] % 2 == 0 ? &bob : &alice);
        release(turns[i] % 2 == 0 ? &bob : &alice);
    }
    assert_true(turns[2] > turns[0]);
    jvm_close(&java);
}

REDIS_TEST(test_redis_jvm__observers_of_ours_cost_no_room)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");

    must_open(&first);
    must_open(&second);
    simba_loop_enter(first.loop);
    first.backend->ops->subscription(first.backend, MUTEX,
                                     SIMBA_SUBSCRIBE_OBSERVE);
    simba_loop_leave(first.loop);
    await(listeners(NULL) == 1);
    assert_int_equal(pass_until_left(&alice, &bob, 20), 20);
}

static void observe(enum simba_subscription subscription)
{
    simba_loop_enter(first.loop);
    first.backend->ops->subscription(first.backend, MUTEX, subscription);
    simba_loop_leave(first.loop);
}

/* Nothing is said on the channel that tells ours from JVM contenders, so
 * nothing was missed there. */
REDIS_TEST(test_redis_jvm__mark_of_observers_wakes_nobody)
{
    must_open(&first);
    observe(SIMBA_SUBSCRIBE_OBSERVE);
    assert_true(handle_woken(&first, MUTEX, PATIENCE_MS));
    assert_int_equal(listeners("@"), 1);
    assert_int_equal(handle_wakes(&first), 1);
}

/* Else every observer of ours would look like a JVM contender from then on. */
REDIS_TEST(test_redis_jvm__mark_that_was_refused_is_tried_again)
{
    must_open(&first);
    redis_number(&server, "ACL SETUSER default resetchannels &simba:{m*}");
    observe(SIMBA_SUBSCRIBE_OBSERVE);
    await(listeners(NULL) == 1);
    redis_number(&server, "ACL SETUSER default allchannels");
    assert_int_equal(listeners("@"), 0);
    observe(SIMBA_SUBSCRIBE_NONE);
    observe(SIMBA_SUBSCRIBE_OBSERVE);
    await(listeners("@") == 1);
}

REDIS_TEST(test_redis_jvm__offered_waiter_passed_by_jvm_keeps_its_position)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");
    struct jvm java;

    must_open(&first);
    must_open(&second);
    jvm_open(&java, "java");
    ask(&alice);
    ask(&bob);
    release(&alice);
    assert_true(jvm_acquire(&java, false)); /* knows no offer */
    ask(&bob);
    expect_queued(true);
    assert_int_equal(got.position, bob.position);
    assert_int_equal(redis_number(&server, "EXISTS %s:next", KEY), 0);
    jvm_release_c(&java);
    assert_true(handle_woken(&second, MUTEX, PATIENCE_MS));
    ask(&bob);
    expect_mine(&bob);
    jvm_close(&java);
}

/* In the first half of one of the server's seconds: what follows is in it, too,
 * unless the machine stands still. */
static void await_young_second(void)
{
    redisReply *time;
    long micros;

    do {
        time = redis_do(&server, "TIME");
        micros = atol(time->element[1]->str);
        freeReplyObject(time);
    } while (micros > 500000 && (redis_nap_ms(1), true));
}

/* Whether or not its time is over already. */
static const char *offered(void)
{
    return redis_text(&server, "HGET %s:attempts %b", KEY, "", (size_t)0);
}

/* Its score is the beginning of the second in which it came. */
REDIS_TEST(test_redis_jvm__who_came_earlier_in_a_second_is_first)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob"),
               carol = person(&third, "carol");
    struct jvm java, kotlin;

    must_open(&first);
    must_open(&second);
    must_open(&third);
    jvm_open(&java, "java");
    jvm_open(&kotlin, "kotlin");
    ask(&alice);
    await_young_second();
    jvm_joins(&java);
    ask(&bob);
    jvm_joins(&kotlin);
    release(&alice);
    assert_string_equal(offered(), "java");
    assert_true(jvm_acquire(&java, true));
    ask(&bob);
    ask(&carol);
    redis_number(&server, "DEL %s", KEY); /* it leaves without a word */
    ask(&carol);
    end_room();
    ask(&carol);
    assert_string_equal(offered(), "bob");
    jvm_close(&java);
    jvm_close(&kotlin);
}

/* So two of them would hand the mutex on to each other for a whole second. */
REDIS_TEST(test_redis_jvm__jvm_release_wakes_ours_that_came_before)
{
    struct who alice = person(&first, "alice");
    struct jvm java, kotlin;

    must_open(&first);
    jvm_open(&java, "java");
    jvm_open(&kotlin, "kotlin");
    await_young_second();
    assert_true(jvm_acquire(&java, true));
    ask(&alice);
    jvm_joins(&kotlin);
    jvm_release_a(&java);
    assert_true(handle_woken(&first, MUTEX, PATIENCE_MS));
    ask(&alice);
    expect_mine(&alice);
    jvm_close(&java);
    jvm_close(&kotlin);
}

/* Offers it to a JVM contender that comes only when it is over, or in time.
 * Returns for how long it was offered. */
static long long offer_to_jvm(const struct jvm *java, bool is_late)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");
    long long offer_ms;

    ask(&alice);
    expect_mine(&alice);
    jvm_joins(java);
    ask(&bob);
    release(&alice);
    offer_ms = redis_number(&server, "PTTL %s:next", KEY);
    assert_string_equal(redis_text(&server, "GET %s:next", KEY), java->id);
    if (is_late) {
        redis_number(&server, "DEL %s:next", KEY);
    } else {
        assert_true(jvm_acquire(java, true));
        ask(&bob);
        jvm_release_a(java);
    }
    ask(&bob);
    expect_mine(&bob);
    release(&bob);
    end_room();
    return offer_ms;
}

REDIS_TEST(test_redis_jvm__late_jvm_has_longer)
{
    struct jvm java;
    long long most = 0;

    must_open(&first);
    must_open(&second);
    jvm_open(&java, "java");
    assert_in_range(offer_to_jvm(&java, true), 50, 100);
    assert_in_range(offer_to_jvm(&java, true), 150, 200);
    for (int i = 0; i < 4; i++) {
        most = offer_to_jvm(&java, true);
    }
    assert_in_range(most, 700, 800);
    assert_in_range(offer_to_jvm(&java, false), 700, 800);
    assert_in_range(offer_to_jvm(&java, false), 600, 750);
    jvm_close(&java);
}

REDIS_TEST(test_redis_jvm__scores_compare_with_whole_seconds)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");
    const char *score;

    must_open(&first);
    ask(&alice);
    ask(&bob);
    score = redis_text(&server, "ZSCORE %s:contender bob", KEY);
    assert_int_equal((uint64_t)(strtod(score, NULL) * 1e6 + 0.5), bob.position);
    assert_in_range(strtoull(score, NULL, 10), got.store_ms / 1000 - 5,
                    got.store_ms / 1000 + 5);
}

REDIS_TEST(test_redis_jvm__jvm_owner_can_be_broken)
{
    struct who alice = person(&first, "alice");
    struct jvm java;
    uint64_t token;

    must_open(&first);
    jvm_open(&java, "java");
    assert_true(jvm_acquire(&java, false));
    look(&alice);
    token = got.owner.token;
    assert_true(token != 0);
    run(&alice, (simba_request){.kind = SIMBA_BREAK, .token = token});
    assert_true(got.mine);
    assert_string_equal(redis_text(&server, "GET %s", KEY), "broken@");
    assert_true(redis_number(&server, "PTTL %s", KEY) > 0);
    jvm_close(&java);
}

/* --- beside several owners ----------------------------------------------- */

/* Several are one foreign owner to it, until the last of their leases ends. Who
 * comes later does not pass it. */
REDIS_TEST(test_redis_jvm__crowd_is_one_owner)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");
    struct who carol = person(&first, "carol");
    struct jvm java;

    must_open(&first);
    alice.ttl_ms += LEASE;
    share(&alice);
    share(&bob);
    assert_int_equal(got.owned, 2);
    assert_string_equal(redis_text(&server, "GET %s", KEY), "slots@");
    assert_true(redis_number(&server, "PTTL %s", KEY) > LEASE);
    assert_true(redis_number(&server, "PTTL %s:owners", KEY) > LEASE);
    jvm_open(&java, "java");
    jvm_joins(&java);
    share(&carol);
    expect_queued(true); /* of ours */
    end_share(&alice);
    assert_in_range(redis_number(&server, "PTTL %s", KEY), 1, LEASE);
    assert_false(jvm_acquire(&java, true));
    end_share(&bob);
    assert_int_equal(redis_number(&server, "EXISTS %s:owners", KEY), 0);
    share(&carol);
    expect_queued(true);
    assert_true(jvm_acquire(&java, true));
    jvm_release_a(&java);
    share(&carol);
    assert_true(got.mine);
    jvm_close(&java);
}

/* Where JVM contenders are to be expected and none is seen, the first that
 * joins is let in, and whoever is not waits for a share of the lease. */
REDIS_TEST(test_redis_jvm__crowd_makes_little_way_for_one_unseen)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");
    struct who carol = person(&first, "carol");

    assert_int_equal(
        try_open(&first, redis_url(&server, "?restart_grace=0&jvm=fair")),
        SIMBA_OK);
    alice.ttl_ms = bob.ttl_ms = carol.ttl_ms = 3000;
    alice.transition_ms = bob.transition_ms = carol.transition_ms = 200;
    share(&alice);
    share(&bob);
    assert_true(got.mine);
    share(&carol);
    assert_in_range(redis_number(&server, "PTTL %s:next", KEY), 1, 200);
    expect_queued(true);
    assert_in_range(got.wait_ms, 1, 200);
    await(redis_number(&server, "EXISTS %s:next", KEY) == 0);
    share(&carol);
    assert_true(got.mine);
}

/* One without a position hears the broadcasts, and would never find it free. */
REDIS_TEST(test_redis_jvm__crowd_makes_way_for_it)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");
    struct jvm java;

    must_open(&first);
    share(&alice);
    jvm_open(&java, "java");
    share(&bob);
    expect_queued(true);
    assert_false(jvm_acquire(&java, false));
    end_share(&alice);
    assert_string_equal(jvm_hear(&java), "released@@alice");
    assert_true(jvm_acquire(&java, false));
    share(&bob);
    expect_queued(true);
    jvm_release_c(&java);
    share(&bob);
    assert_true(got.mine);
    jvm_close(&java);
}

int main(void)
{
    return run_unit_tests(start_server, remove_server);
}
