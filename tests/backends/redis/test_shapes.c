/* TLS, sentinels and replicas: what is refused, and in which words. */
#define _GNU_SOURCE
#include "driver.h"
#include "fixtures/lying_server.h"
#include "fixtures/redis_shapes.h"

static struct redis_shape shape;

static void expect_refusal(const char *url, int code, const char *words)
{
    int rc;

    handle_close(&first);
    rc = try_open(&first, url);
    if (rc != code || strcasestr(why.message, words) == NULL) {
        fail_msg("%s: %d %s", url, rc, why.message);
    }
    assert_null(strstr(why.message, "s3cr"));
}

static const char *tls_url(const char *user, const char *rest)
{
    static char url[512];
    const char *in = shape.nodes[0].directory;

    snprintf(url, sizeof url,
             "rediss://%s127.0.0.1:%d?cert=%s/client.crt&key=%s/client.key"
             "&ca=%s/%s",
             user, shape.tls_port, in, in, in, rest);
    return url;
}

static int remove_shape(void **state)
{
    close_handles(state);
    lying_server_stop();
    redis_shape_remove(&shape);
    return 0;
}

#define SHAPE_TEST(test) TEST_AROUND(test, NULL, remove_shape)

SHAPE_TEST(test_redis_shapes__tls_is_verified)
{
    char url[512];
    const char *in = shape.nodes[0].directory;

    redis_shape_start(&shape, "tls");
    expect_refusal(tls_url("simba:s3cr%3At%40@", "other.crt"), SIMBA_EMISCONFIG,
                   "certificate");
    expect_refusal(tls_url("simba:s3cr-wrong@", "ca.crt"), SIMBA_EDENIED,
                   "password");
    snprintf(url, sizeof url, "rediss://127.0.0.1:%d?ca=%s/ca.crt",
             shape.tls_port, in);
    expect_refusal(url, SIMBA_EDENIED, "TLS");
    /* What was not looked at is not why. */
    snprintf(url, sizeof url, "rediss://127.0.0.1:%d?verify=off",
             shape.tls_port);
    expect_refusal(url, SIMBA_EDENIED, "the server refuses our TLS");
    snprintf(url, sizeof url,
             "rediss://localhost:%d?ca=%s/ca.crt&cert=%s/client.crt"
             "&key=%s/client.key",
             shape.tls_port, in, in, in);
    expect_refusal(url, SIMBA_EMISCONFIG, "certificate"); /* for 127.0.0.1 */
    snprintf(url, sizeof url, "rediss://127.0.0.1:%d?ca=%s/ca.crt",
             shape.nodes[0].port, in);
    expect_refusal(url, SIMBA_EMISCONFIG, "TLS"); /* the plain port */
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", shape.tls_port);
    expect_refusal(url, SIMBA_EUNAVAIL, "TLS");
    assert_int_equal(
        try_open(&first, tls_url("simba:s3cr%3At%40@", "other.crt&verify=off")),
        SIMBA_OK);
}

/* Sentinels that take a busy master for what it is, and choose no other. */
static void start_patient_sentinels(void)
{
    redis_shape_start(&shape, "sentinel");
    for (int i = 3; i < 6; i++) {
        redis_number(&shape.nodes[i],
                     "SENTINEL SET simba down-after-milliseconds 600000");
    }
}

SHAPE_TEST(test_redis_shapes__unknown_master)
{
    char url[128];

    start_patient_sentinels();
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d/nope",
             shape.nodes[3].port, shape.nodes[4].port);
    expect_refusal(url, SIMBA_EMISCONFIG, "nope");
    snprintf(url, sizeof url,
             "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d/simba",
             redis_free_port(), shape.nodes[4].port);
    assert_int_equal(try_open(&first, url), SIMBA_OK); /* the second knows */
    handle_close(&first);
    redis_pause(&shape.nodes[3], true); /* accepts, and never answers */
    snprintf(url, sizeof url,
             "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d/simba",
             shape.nodes[3].port, shape.nodes[4].port);
    assert_int_equal(try_open(&first, url), SIMBA_OK);
}

static long long listeners(const struct redis *node, const char *id)
{
    redisReply *reply = redis_do(node, "PUBSUB NUMSUB %s:%s", KEY, id);
    long long count = reply->element[1]->integer;

    freeReplyObject(reply);
    return count;
}

/* One sentinel still names a master that is a replica by now, and nobody tells
 * it. */
SHAPE_TEST(test_redis_shapes__lagging_sentinel_is_passed_over)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");
    const struct redis *master = &shape.nodes[0];
    struct redis *lagging = &shape.nodes[6];
    char url[128];

    start_patient_sentinels();
    redis_sentinel_start(lagging, shape.nodes[1].port, 99);
    snprintf(url, sizeof url,
             "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d/simba"
             "?restart_grace=0",
             lagging->port, shape.nodes[3].port);
    if (try_open(&first, url) != SIMBA_OK) {
        fail_msg("%s", why.message);
    }
    ask(&alice);
    expect_mine(&alice);
    for (int i = 0; i < 4; i++) {
        redis_number(master, "CLIENT KILL TYPE normal");
        await(try_run(&alice, (simba_request){.kind = SIMBA_RENEW}) ==
              SIMBA_OK);
        expect_mine(&alice);
    }
    /* Who waits is alive if it has a subscriber where the commands are. */
    ask(&bob);
    for (int i = 0; i < 4; i++) {
        await(listeners(master, "bob") == 1);
        redis_number(master, "CLIENT KILL TYPE pubsub");
    }
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d/simba",
             lagging->port);
    expect_refusal(url, SIMBA_EUNAVAIL, "replica"); /* nobody knows better */
}

/* Asks with ever more time, until the answer is this one: with little, a busy
 * machine has another, but never success. Who asks again and finds the mutex
 * its own may have been told so and stays in doubt: that attempt is ended. */
static void expect_failure(struct who *who, simba_request request, int wanted)
{
    int64_t most_ms = 300;
    int status = SIMBA_OK;

    while (status != wanted && most_ms < PATIENCE_MS) {
        if (request.kind == SIMBA_ACQUIRE) {
            release(who);
            *who = person(who->at, who->id);
        }
        request.deadline_ms = simba_loop_now_ms() + most_ms;
        status = try_run(who, request);
        assert_int_not_equal(status, SIMBA_OK);
        most_ms *= 2;
    }
    assert_int_equal(status, wanted);
}

SHAPE_TEST(test_redis_shapes__too_few_replicas_fail_closed)
{
    struct who alice = person(&first, "alice");
    simba_request request = asking(&alice);
    char url[1100];

    start_patient_sentinels();
    snprintf(url, sizeof url, "%s&replicas=2", shape.url);
    assert_int_equal(try_open(&first, url), SIMBA_OK);
    ask(&alice);
    expect_mine(&alice);
    redis_kill(&shape.nodes[1]);
    expect_failure(&alice, (simba_request){.kind = SIMBA_RENEW},
                   SIMBA_EUNKNOWN);
    expect_failure(&alice, request, SIMBA_EUNAVAIL);
    assert_non_null(strstr(why.message, "only 1 of 2 replicas"));
    assert_int_equal(redis_number(&shape.nodes[0], "EXISTS %s", KEY), 0);
    request.slots = 3;
    expect_failure(&alice, request, SIMBA_EUNAVAIL);
    assert_int_equal(
        redis_number(&shape.nodes[0], "EXISTS %s %s:owners", KEY, KEY), 0);
    redis_run(&shape.nodes[1]);
    await(try_run(&alice, asking(&alice)) == SIMBA_OK && got.mine);
}

/* A cluster of one, with all slots. */
static void start_lone_cluster(struct redis *node, int port)
{
    char own_port[16];

    redis_prepare(node);
    node->port = port;
    snprintf(own_port, sizeof own_port, "%d", redis_free_port());
    redis_option(node, "--cluster-enabled", "yes");
    redis_option(node, "--cluster-port", own_port);
    redis_run(node);
    redis_number(node, "CLUSTER ADDSLOTSRANGE 0 16383");
    await(strstr(redis_text(node, "CLUSTER INFO"), "cluster_state:ok") != NULL);
}

/* All servers were replaced while we were away; one is where the URL says. */
SHAPE_TEST(test_redis_shapes__replaced_cluster_is_found_by_its_url)
{
    struct who alice = person(&first, "alice");
    int ports[2] = {redis_free_port(), redis_free_port()};
    char url[128];

    if (redis_is_before_7()) {
        skip(); /* has no ADDSLOTSRANGE */
    }
    start_lone_cluster(&shape.nodes[0], ports[0]);
    snprintf(url, sizeof url,
             "redis+cluster://127.0.0.1:%d,127.0.0.1:%d?restart_grace=0",
             ports[0], ports[1]);
    if (try_open(&first, url) != SIMBA_OK) {
        fail_msg("%s", why.message);
    }
    ask(&alice);
    expect_mine(&alice);
    redis_kill(&shape.nodes[0]);
    start_lone_cluster(&shape.nodes[1], ports[1]);
    alice = person(&first, "alice");
    await(try_run(&alice, asking(&alice)) == SIMBA_OK);
    expect_mine(&alice);
}

/* It was there, and hangs when it is asked where the slots are. */
SHAPE_TEST(test_redis_shapes__hung_server_of_a_cluster_is_passed_over)
{
    static const struct lie lies[] = {
        LIE("$62\r\nredis_version:7.0\r\nredis_mode:cluster\r\n"
            "uptime_in_seconds:999\r\n\r\n$11\r\nloading:0\r\n\r\n"
            "$13\r\nrole:master\r\n\r\n"),
        {NULL, 0}};
    static const struct lying_server hung = {.lies = lies};
    struct who alice = person(&first, "alice");
    int port = redis_free_port();
    char url[128];

    if (redis_is_before_7()) {
        skip(); /* has no ADDSLOTSRANGE */
    }
    snprintf(url, sizeof url,
             "redis+cluster://127.0.0.1:%d,127.0.0.1:%d?restart_grace=0",
             lying_server_start(&hung), port);
    assert_int_equal(handle_open(&first, &simba_module, url, &why), SIMBA_OK);
    start_lone_cluster(&shape.nodes[0], port); /* while that one is asked */
    ask(&alice);
    expect_mine(&alice);
}
