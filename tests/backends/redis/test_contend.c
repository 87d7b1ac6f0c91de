/* Contenders while servers are killed, paused, moved and made to forget: never
 * two owners, tokens that grow, and soon after each fault somebody owns the
 * mutex again. See contender_threads.h for who watches. */
#define _GNU_SOURCE
#include "fixtures/await.h"
#include "fixtures/contender_threads.h"
#include "fixtures/redis_shapes.h"
#include "fixtures/redis_wire.h"

#include <simba.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct redis_shape shape;

static void begin(void)
{
    crowd_begin(shape.url, shape.nodes[0].directory);
}

/* --- one server ---------------------------------------------------------- */

/* Does the checker see at all? Two owners are made by hand. */
static void test_redis_contend__forced_overlap_is_seen(void **state)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *lockers[2];
    simba_store *stores[2];
    char path[128], url[1400];

    (void)state;
    snprintf(path, sizeof path, "%s/forced.jsonl", shape.nodes[0].directory);
    snprintf(url, sizeof url, "trace:%s:%s", path, shape.url);
    options.mutex = "forced";
    for (int i = 0; i < 2; i++) {
        assert_int_equal(simba_store_open(url, NULL, &stores[i], NULL), 0);
        assert_int_equal(
            simba_locker_open(stores[i], &options, &lockers[i], NULL), 0);
        assert_int_equal(simba_locker_acquire(lockers[i], 30000, NULL, NULL),
                         0);
        redis_number(&shape.nodes[0], "DEL simba:{forced}");
    }
    for (int i = 0; i < 2; i++) {
        simba_locker_close(lockers[i]);
        simba_store_close(stores[i]);
    }
    assert_true(crowd_verify(path).overlaps > 0);
}

static void test_redis_contend__single_server(void **state)
{
    struct redis *server = &shape.nodes[0];

    (void)state;
    begin();
    crowd_await(50);
    for (int i = 0; i < 3; i++) {
        redisContext *nosy = redisConnect("127.0.0.1", server->port);

        freeReplyObject(redisCommand(nosy, "PSUBSCRIBE *"));
        crowd_await(20);
        redis_number(server, "CLIENT KILL TYPE normal");
        redis_number(server, "CLIENT KILL TYPE pubsub");
        crowd_await(20);
        redis_number(server, "SCRIPT FLUSH");
        crowd_await(20);
        redis_number(server, "DEBUG SLEEP 0.5");
        crowd_await(20);
        redis_pause(server, true);
        redis_nap_ms(700);
        redis_pause(server, false);
        crowd_await(20);
        redis_kill(server); /* what was acknowledged is in its file */
        redis_run(server);
        crowd_await(20);
        redisFree(nosy);
    }
    crowd_end(CROWD_MUST_EXCLUDE);
}

static void test_redis_contend__flushed(void **state)
{
    (void)state;
    begin();
    for (int i = 0; i < 20; i++) {
        crowd_await(5);
        redis_number(&shape.nodes[0], "FLUSHALL");
    }
    crowd_end(CROWD_MAY_FORGET);
}

/* Answers are cut, spoilt, halved and withheld. */
static void test_redis_contend__bad_wire(void **state)
{
    static const enum redis_wire_fault faults[] = {
        REDIS_WIRE_CUT, REDIS_WIRE_GARBAGE, REDIS_WIRE_HALF, REDIS_WIRE_MUTE};
    char url[64];

    (void)state;
    snprintf(url, sizeof url, "redis://127.0.0.1:%d?restart_grace=0",
             redis_wire_start(shape.nodes[0].port));
    crowd_begin(url, shape.nodes[0].directory);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        redis_wire_set(faults[i]);
        crowd_await(faults[i] == REDIS_WIRE_MUTE ? 20 : 150);
    }
    redis_wire_set(REDIS_WIRE_GOOD);
    crowd_await(20);
    crowd_end(CROWD_MUST_EXCLUDE);
}

/* Without a file it forgets every owner; nobody may own before they all have
 * ended, whose leases are longer than what is waited. */
static void test_redis_contend__restarted_empty(void **state)
{
    struct redis forgetful;

    (void)state;
    redis_start(&forgetful, NULL);
    crowd_begin(redis_url(&forgetful, "?restart_grace=1s"),
                forgetful.directory);
    for (int i = 0; i < 2; i++) {
        crowd_await(20);
        redis_kill(&forgetful);
        redis_run(&forgetful);
    }
    crowd_await(20);
    crowd_end(CROWD_MUST_EXCLUDE);
    redis_remove(&forgetful);
}

static int start_single(void **state)
{
    (void)state;
    redis_prepare(&shape.nodes[0]);
    shape.node_count = 1;
    redis_option(&shape.nodes[0], "--appendonly", "yes");
    redis_option(&shape.nodes[0], "--appendfsync", "always");
    redis_run(&shape.nodes[0]);
    snprintf(shape.url, sizeof shape.url, "%s",
             redis_url(&shape.nodes[0], "?restart_grace=1"));
    return 0;
}

/* --- Sentinel ------------------------------------------------------------ */

static int master_now(void)
{
    redisReply *reply = redis_do(
        &shape.nodes[3], "SENTINEL GET-MASTER-ADDR-BY-NAME %s", "simba");
    int port = atoi(reply->element[1]->str);
    int found = -1;

    freeReplyObject(reply);
    for (int i = 0; i < 3; i++) {
        if (shape.nodes[i].port == port) {
            found = i;
        }
    }
    return found;
}

static void test_redis_contend__sentinel_failover(void **state)
{
    int before;

    (void)state;
    begin();
    crowd_await(30);
    before = master_now();
    redis_kill(&shape.nodes[before]);
    crowd_await(30);
    assert_int_not_equal(master_now(), before);
    redis_run(&shape.nodes[before]); /* comes back, and is a replica soon */
    crowd_await(30);
    crowd_end(CROWD_MUST_EXCLUDE);
}

static void test_redis_contend__hung_master_is_left(void **state)
{
    int before;

    (void)state;
    begin();
    crowd_await(30);
    before = master_now();
    redis_pause(&shape.nodes[before], true);
    crowd_await(30);
    assert_int_not_equal(master_now(), before);
    redis_pause(&shape.nodes[before], false);
    crowd_await(30);
    crowd_end(CROWD_MUST_EXCLUDE);
}

static int start_sentinel(void **state)
{
    (void)state;
    redis_shape_start(&shape, "sentinel");
    strcat(shape.url, "&replicas=1");
    return 0;
}

/* --- Cluster ------------------------------------------------------------- */

static unsigned slot; /* of the mutex */

static void id_of(const struct redis *node, char *id)
{
    snprintf(id, 41, "%s", redis_text(node, "CLUSTER MYID"));
}

/* As redis-cli does it: announce, move key by key, then tell everybody. */
static void move_slot(struct redis *from, struct redis *to)
{
    char from_id[41], to_id[41], port[16];
    redisReply *keys;

    id_of(from, from_id);
    id_of(to, to_id);
    snprintf(port, sizeof port, "%d", to->port);
    redis_number(to, "CLUSTER SETSLOT %u IMPORTING %s", slot, from_id);
    redis_number(from, "CLUSTER SETSLOT %u MIGRATING %s", slot, to_id);
    do {
        keys = redis_do(from, "CLUSTER GETKEYSINSLOT %u 100", slot);
        for (size_t i = 0; i < keys->elements; i++) {
            redis_text(from, "MIGRATE 127.0.0.1 %s %s 0 5000 REPLACE", port,
                       keys->element[i]->str);
        }
        freeReplyObject(keys);
        keys = redis_do(from, "CLUSTER GETKEYSINSLOT %u 100", slot);
    } while (keys->elements > 0 && (freeReplyObject(keys), true));
    freeReplyObject(keys);
    redis_number(to, "CLUSTER SETSLOT %u NODE %s", slot, to_id);
    redis_number(from, "CLUSTER SETSLOT %u NODE %s", slot, to_id);
}

static struct redis *other_master(const struct redis *keeper)
{
    for (int i = 0; i < 6; i++) {
        struct redis *node = &shape.nodes[i];

        if (node != keeper && node->pid != 0 &&
            strstr(redis_text(node, "INFO replication"), "role:master") !=
                NULL) {
            return node;
        }
    }
    fail_msg("no other master");
    return NULL;
}

static void test_redis_contend__slot_moves(void **state)
{
    (void)state;
    begin();
    for (int i = 0; i < 4; i++) {
        struct redis *from = redis_shape_keeper(&shape, slot);

        crowd_await(20);
        move_slot(from, other_master(from));
        crowd_await(20);
    }
    crowd_end(CROWD_MUST_EXCLUDE);
}

static void test_redis_contend__cluster_failover(void **state)
{
    struct redis *keeper;

    (void)state;
    begin();
    crowd_await(30);
    keeper = redis_shape_keeper(&shape, slot);
    redis_kill(keeper);
    crowd_await(30);
    redis_run(keeper);
    crowd_await(30);
    crowd_end(CROWD_MAY_FORGET); /* replication is asynchronous */
}

/* Callers that read for themselves, through one store, from all servers: an
 * answer that nobody reads would come only when it is given up. */
enum { CALLERS = 3, SLOTS_USED = 6, PAIRS = 300, SLOW_MS = 2000 };

static simba_store *shared;
static _Atomic int slow, failed;

static void *call_around(void *argument)
{
    simba_locker *lockers[SLOTS_USED];

    for (int i = 0; i < SLOTS_USED; i++) {
        simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
        char mutex[32];

        snprintf(mutex, sizeof mutex, "%d-of-%d", i, (int)(intptr_t)argument);
        options.mutex = mutex;
        failed += simba_locker_open(shared, &options, &lockers[i], NULL) != 0;
    }
    for (int i = 0; i < PAIRS && failed == 0; i++) {
        simba_locker *locker = lockers[i % SLOTS_USED];
        int64_t from = now_ms();

        failed += simba_locker_acquire(locker, 60000, NULL, NULL) != SIMBA_OK ||
                  simba_locker_release(locker, NULL) != SIMBA_OK;
        slow += now_ms() - from > SLOW_MS;
    }
    for (int i = 0; i < SLOTS_USED; i++) {
        simba_locker_close(lockers[i]);
    }
    return NULL;
}

static void test_redis_contend__callers_of_all_slots_are_answered(void **state)
{
    pthread_t callers[CALLERS];

    (void)state;
    assert_int_equal(simba_store_open(shape.url, NULL, &shared, NULL), 0);
    for (int i = 0; i < CALLERS; i++) {
        pthread_create(&callers[i], NULL, call_around, (void *)(intptr_t)i);
    }
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(callers[i], NULL);
    }
    simba_store_close(shared);
    assert_int_equal(failed, 0);
    assert_in_range(slow, 0, 3); /* a busy machine may do that too */
}

static int start_cluster(void **state)
{
    (void)state;
    redis_shape_start(&shape, "cluster");
    slot = (unsigned)redis_number(&shape.nodes[0],
                                  "CLUSTER KEYSLOT simba:{" CROWD_MUTEX "}");
    return 0;
}

static int remove_shape(void **state)
{
    (void)state;
    redis_shape_remove(&shape);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest single[] = {
        cmocka_unit_test(test_redis_contend__forced_overlap_is_seen),
        cmocka_unit_test(test_redis_contend__single_server),
        cmocka_unit_test(test_redis_contend__flushed),
    };
    const struct CMUnitTest wire[] = {
        cmocka_unit_test(test_redis_contend__bad_wire),
        cmocka_unit_test(test_redis_contend__restarted_empty),
    };
    const struct CMUnitTest sentinel[] = {
        cmocka_unit_test(test_redis_contend__sentinel_failover),
        cmocka_unit_test(test_redis_contend__hung_master_is_left),
    };
    const struct CMUnitTest cluster[] = {
        cmocka_unit_test(test_redis_contend__callers_of_all_slots_are_answered),
        cmocka_unit_test(test_redis_contend__slot_moves),
        cmocka_unit_test(test_redis_contend__cluster_failover),
    };
    const char *which = argc > 1 ? argv[1] : "";

    if (argc != 3) {
        fprintf(stderr, "usage: %s single|wire|sentinel|cluster SIMBA\n",
                argv[0]);
        return 64;
    }
    crowd_simba = argv[2];
    if (strcmp(which, "wire") == 0) {
        return cmocka_run_group_tests(wire, start_single, remove_shape);
    }
    if (strcmp(which, "sentinel") == 0) {
        return cmocka_run_group_tests(sentinel, start_sentinel, remove_shape);
    }
    if (strcmp(which, "cluster") == 0) {
        return cmocka_run_group_tests(cluster, start_cluster, remove_shape);
    }
    return cmocka_run_group_tests(single, start_single, remove_shape);
}
