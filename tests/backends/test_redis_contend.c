/* Threads contend through stores of their own while the servers are killed,
 * paused, moved and made to forget: never two owners, tokens that grow, and
 * soon after each fault somebody owns the mutex again. */
#define _GNU_SOURCE
#include "servers/redis_shapes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <simba.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS = 4, PATIENCE_MS = 40000, TTL_MS = 1500, TRANSITION_MS = 1000 };

#define MUTEX "contended"

static struct redis_shape shape;
static const char *url_rest;
static simba_locker *lockers[THREADS];
static pthread_t threads[THREADS];
static _Atomic bool is_over;
static _Atomic int doubles, regressions, tenures;
static _Atomic uint64_t last_token;
static bool may_forget; /* then only tokens are watched */

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* --- contenders ---------------------------------------------------------- */

static void look_around(int me)
{
    for (int i = 0; i < THREADS; i++) {
        if (i != me && simba_locker_is_owner(lockers[i]) &&
            simba_locker_is_owner(lockers[me]) &&
            simba_locker_is_owner(lockers[i])) {
            atomic_fetch_add(&doubles, 1);
        }
    }
}

/* Of two tenures that follow each other the later has the greater token. */
static void note_token(int me, uint64_t token)
{
    uint64_t last = atomic_load(&last_token);

    if (token <= last && simba_locker_is_owner(lockers[me])) {
        atomic_fetch_add(&regressions, 1);
    }
    while (last < token &&
           !atomic_compare_exchange_weak(&last_token, &last, token)) {
    }
}

static void *contend(void *argument)
{
    int me = (int)(intptr_t)argument;

    while (!atomic_load(&is_over)) {
        uint64_t token;

        if (simba_locker_acquire(lockers[me], 500, &token, NULL) != SIMBA_OK) {
            redis_nap_ms(1);
            continue;
        }
        look_around(me);
        note_token(me, token);
        redis_nap_ms(1);
        look_around(me);
        atomic_fetch_add(&tenures, 1);
        (void)!simba_locker_release(lockers[me], NULL);
    }
    return NULL;
}

static simba_store *stores[THREADS];

static void begin(void)
{
    char url[1200];

    atomic_store(&is_over, false);
    atomic_store(&last_token, 0);
    atomic_store(&doubles, 0);
    atomic_store(&regressions, 0);
    atomic_store(&tenures, 0);
    snprintf(url, sizeof url, "%s%s", shape.url, url_rest);
    for (int i = 0; i < THREADS; i++) {
        simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
        simba_error error;

        options.mutex = MUTEX;
        options.ttl_ms = TTL_MS;
        options.transition_ms = TRANSITION_MS;
        if (simba_store_open(url, NULL, &stores[i], &error) != SIMBA_OK ||
            simba_locker_open(stores[i], &options, &lockers[i], &error) !=
                SIMBA_OK) {
            fail_msg("%s", error.message);
        }
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, contend, (void *)(intptr_t)i);
    }
}

static void end(void)
{
    atomic_store(&is_over, true);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        simba_locker_close(lockers[i]);
        simba_store_close(stores[i]);
    }
    if (!may_forget) {
        assert_int_equal(atomic_load(&doubles), 0);
    }
    assert_int_equal(atomic_load(&regressions), 0);
}

/* How long it takes until so many more tenures have been. */
static int64_t await_tenures(int more)
{
    int64_t from = now_ms();
    int wanted = atomic_load(&tenures) + more;

    while (atomic_load(&tenures) < wanted) {
        if (now_ms() - from > PATIENCE_MS) {
            fail_msg("nobody owns it any more after %d tenures",
                     atomic_load(&tenures));
        }
        redis_nap_ms(1);
    }
    return now_ms() - from;
}

/* --- one server ---------------------------------------------------------- */

static void test_redis_contend__single_server(void **state)
{
    struct redis *server = &shape.nodes[0];

    (void)state;
    begin();
    await_tenures(50);
    for (int i = 0; i < 3; i++) {
        redis_number(server, "CLIENT KILL TYPE normal");
        redis_number(server, "CLIENT KILL TYPE pubsub");
        await_tenures(20);
        redis_number(server, "SCRIPT FLUSH");
        await_tenures(20);
        redis_number(server, "DEBUG SLEEP 0.5");
        await_tenures(20);
        redis_pause(server, true);
        redis_nap_ms(700);
        redis_pause(server, false);
        await_tenures(20);
        redis_kill(server); /* what was acknowledged is in its file */
        redis_run(server);
        await_tenures(20);
    }
    end();
}

static void test_redis_contend__flushed(void **state)
{
    (void)state;
    may_forget = true;
    begin();
    for (int i = 0; i < 20; i++) {
        await_tenures(5);
        redis_number(&shape.nodes[0], "FLUSHALL");
    }
    end();
    may_forget = false;
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
    url_rest = "";
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
    await_tenures(30);
    before = master_now();
    redis_kill(&shape.nodes[before]);
    await_tenures(30);
    assert_int_not_equal(master_now(), before);
    redis_run(&shape.nodes[before]); /* comes back, and is a replica soon */
    await_tenures(30);
    end();
}

static void test_redis_contend__hung_master_is_left(void **state)
{
    int before;

    (void)state;
    begin();
    await_tenures(30);
    before = master_now();
    redis_pause(&shape.nodes[before], true);
    await_tenures(30);
    assert_int_not_equal(master_now(), before);
    redis_pause(&shape.nodes[before], false);
    await_tenures(30);
    end();
}

static int start_sentinel(void **state)
{
    (void)state;
    redis_shape_start(&shape, "sentinel");
    url_rest = "&replicas=1";
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

        await_tenures(20);
        move_slot(from, other_master(from));
        await_tenures(20);
    }
    end();
}

static void test_redis_contend__cluster_failover(void **state)
{
    struct redis *keeper;

    (void)state;
    may_forget = true; /* replication is asynchronous */
    begin();
    await_tenures(30);
    keeper = redis_shape_keeper(&shape, slot);
    redis_kill(keeper);
    await_tenures(30);
    redis_run(keeper);
    await_tenures(30);
    end();
    may_forget = false;
}

static int start_cluster(void **state)
{
    (void)state;
    redis_shape_start(&shape, "cluster");
    slot = (unsigned)redis_number(&shape.nodes[0],
                                  "CLUSTER KEYSLOT simba:{" MUTEX "}");
    url_rest = "";
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
        cmocka_unit_test(test_redis_contend__single_server),
        cmocka_unit_test(test_redis_contend__flushed),
    };
    const struct CMUnitTest sentinel[] = {
        cmocka_unit_test(test_redis_contend__sentinel_failover),
        cmocka_unit_test(test_redis_contend__hung_master_is_left),
    };
    const struct CMUnitTest cluster[] = {
        cmocka_unit_test(test_redis_contend__slot_moves),
        cmocka_unit_test(test_redis_contend__cluster_failover),
    };
    const char *which = argc > 1 ? argv[1] : "single";

    if (strcmp(which, "sentinel") == 0) {
        return cmocka_run_group_tests(sentinel, start_sentinel, remove_shape);
    }
    if (strcmp(which, "cluster") == 0) {
        return cmocka_run_group_tests(cluster, start_cluster, remove_shape);
    }
    return cmocka_run_group_tests(single, start_single, remove_shape);
}
