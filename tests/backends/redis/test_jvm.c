/* Sharing mutexes with JVM contenders: a test client plays their part, command
 * by command, as generations A (3.0.2-3.1) and C (3.3, 4.x) send them. */
#define _GNU_SOURCE
#include "driver.h"

/* --- a JVM contender ----------------------------------------------------- */

struct jvm {
    const char *id;
    redisContext *channels; /* on the broadcast and its personal channel */
};

static void jvm_open(struct jvm *jvm, const char *id)
{
    struct timeval patience = {20, 0};

    jvm->id = id;
    jvm->channels = redisConnect("127.0.0.1", server.port);
    redisSetTimeout(jvm->channels, patience);
    freeReplyObject(redisCommand(jvm->channels, "SUBSCRIBE %s", KEY));
    freeReplyObject(redisCommand(jvm->channels, "SUBSCRIBE %s:%s", KEY, id));
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

REDIS_TEST(test_redis_jvm__jvm_never_finds_itself_owner)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");
    struct jvm java;

    must_open(&first);
    must_open(&second);
    jvm_open(&java, "java");
    ask(&alice);
    assert_false(jvm_acquire(&java, true));
    redis_nap_ms(1); /* bob stands behind it: its score is a whole second */
    ask(&bob);
    release(&alice);
    assert_string_not_equal(redis_text(&server, "GET %s", KEY), "java");
    assert_string_not_equal(redis_text(&server, "GET %s:next", KEY), "java");
    assert_true(handle_woken(&second, MUTEX, PATIENCE_MS));
    ask(&bob); /* java was woken, but was slower */
    expect_mine(&bob);
    jvm_close(&java);
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

int main(void)
{
    return run_unit_tests(start_server, remove_server);
}
