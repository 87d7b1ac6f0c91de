/* Contenders on a real ensemble of three, through the public API, while servers
 * die and are cut off; a watchman asks all of them all the time whether they
 * own the mutex, and `simba verify` reads what they asked and heard. argv[1] is
 * simba. */
#define _GNU_SOURCE
#include "servers.h"

#include <simba.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <pthread.h>

enum { MANY = 3, TTL_MS = 2500, TRANSITION_MS = 1500, PATIENCE_MS = 60000 };

static struct servers servers;
static const char *simba;

/* One process's view, though all live in one here: a store of its own. */
static struct contender {
    simba_store *store;
    simba_service *service;
    _Atomic int acquired, released;
} contenders[MANY];

static struct {
    pthread_t thread;
    _Atomic bool is_ending;
    _Atomic int overlaps;
    _Atomic int stale_tokens;
    _Atomic uint64_t token; /* the newest that anybody was told */
} watchman;

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void pause_us(long us)
{
    struct timespec time = {us / 1000000, us % 1000000 * 1000};

    nanosleep(&time, NULL);
}

#define await(condition)                                                       \
    do {                                                                       \
        int64_t until = now_ms() + PATIENCE_MS;                                \
        while (!(condition)) {                                                 \
            if (now_ms() > until) {                                            \
                fail_msg("%s", "waited in vain for " #condition);              \
            }                                                                  \
            pause_us(2000);                                                    \
        }                                                                      \
    } while (0)

/* --- the watchman -------------------------------------------------------- */

/* Owner before and after another was seen to be owner: both at once. */
static bool overlap(int i, int j)
{
    uint64_t token = simba_service_token(contenders[i].service);

    return token != 0 && simba_service_is_owner(contenders[j].service) &&
           simba_service_token(contenders[i].service) == token;
}

static void *keep_watch(void *argument)
{
    (void)argument;
    while (!atomic_load(&watchman.is_ending)) {
        for (int i = 0; i < MANY * MANY; i++) {
            if (i / MANY != i % MANY && overlap(i / MANY, i % MANY)) {
                atomic_fetch_add(&watchman.overlaps, 1);
            }
        }
        pause_us(200);
    }
    return NULL;
}

static void on_acquired(void *user, const simba_state *change)
{
    struct contender *c = user;
    uint64_t before = atomic_exchange(&watchman.token, change->after.token);

    if (change->after.token <= before) {
        atomic_fetch_add(&watchman.stale_tokens, 1);
    }
    atomic_fetch_add(&c->acquired, 1);
}

static void on_released(void *user, const simba_state *change)
{
    struct contender *c = user;

    (void)change;
    atomic_fetch_add(&c->released, 1);
}

/* --- stories ------------------------------------------------------------- */

/* The i-th contender speaks to the i-th host only, or to all. */
static void start_contender(int i, bool is_bound, const char *mutex)
{
    struct contender *c = &contenders[i];
    simba_contender contender = SIMBA_CONTENDER_INIT;
    simba_error error;
    char url[256], one[32];

    snprintf(one, sizeof one, "127.0.0.1:%d", servers.one[i].client_port);
    snprintf(url, sizeof url, "trace:%s/trace-%d.jsonl:zookeeper://%s",
             servers.directory, i, is_bound ? one : servers.hosts);
    contender.mutex = mutex;
    contender.ttl_ms = TTL_MS;
    contender.transition_ms = TRANSITION_MS;
    contender.on_acquired = on_acquired;
    contender.on_released = on_released;
    contender.user = c;
    atomic_store(&c->acquired, 0);
    atomic_store(&c->released, 0);
    if (simba_store_open(url, NULL, &c->store, &error) != SIMBA_OK ||
        simba_service_open(c->store, &contender, &c->service, &error) !=
            SIMBA_OK) {
        fail_msg("%s", error.message);
    }
}

/* `first` becomes owner before the others begin. */
static void begin(const char *mutex, bool is_bound, int first)
{
    for (int i = 0; i < MANY; i++) {
        start_contender(i, is_bound, mutex);
    }
    atomic_store(&watchman.is_ending, false);
    atomic_store(&watchman.overlaps, 0);
    atomic_store(&watchman.stale_tokens, 0);
    atomic_store(&watchman.token, 0);
    assert_int_equal(pthread_create(&watchman.thread, NULL, keep_watch, NULL),
                     0);
    assert_int_equal(simba_service_start(contenders[first].service, NULL),
                     SIMBA_OK);
    await(simba_service_is_owner(contenders[first].service));
    for (int i = 0; i < MANY; i++) {
        if (i != first) {
            assert_int_equal(simba_service_start(contenders[i].service, NULL),
                             SIMBA_OK);
        }
    }
    for (int i = 0; i < MANY; i++) {
        await(simba_service_status(contenders[i].service) == SIMBA_RUNNING);
    }
}

static int owner(void)
{
    for (int i = 0; i < MANY; i++) {
        if (simba_service_is_owner(contenders[i].service)) {
            return i;
        }
    }
    return -1;
}

/* What the traces tell, over all that has happened so far. */
static void verify_traces(void)
{
    char command[512];

    snprintf(command, sizeof command, "'%s' verify '%s'/trace-*.jsonl", simba,
             servers.directory);
    assert_int_equal(system(command), 0);
}

static void end(void)
{
    atomic_store(&watchman.is_ending, true);
    pthread_join(watchman.thread, NULL);
    for (int i = 0; i < MANY; i++) {
        simba_service_close(contenders[i].service);
        simba_store_close(contenders[i].store);
    }
    assert_int_equal(atomic_load(&watchman.overlaps), 0);
    assert_int_equal(atomic_load(&watchman.stale_tokens), 0);
    verify_traces();
}

static int follower(void)
{
    int leader;

    await((leader = servers_leader(&servers)) >= 0);
    return (leader + 1) % MANY;
}

/* The very thing guards are for: the follower goes on answering reads and
 * pings, while the leader has ended the session. */
static void test_ensemble__owner_on_a_follower_cut_off(void **state)
{
    int cut = follower();

    (void)state;
    begin("cut off", true, cut);
    server_freeze(&servers, cut, true);
    await(owner() >= 0 && owner() != cut);
    assert_int_equal(atomic_load(&contenders[cut].released), 1);
    server_freeze(&servers, cut, false);
    server_await(&servers, cut);
    /* and it is of use again */
    for (int i = 0; i < MANY; i++) {
        if (i != cut) {
            assert_int_equal(simba_service_stop(contenders[i].service, NULL),
                             SIMBA_OK);
        }
    }
    await(owner() == cut);
    end();
}

static void test_ensemble__leader_killed(void **state)
{
    int leader;

    (void)state;
    await((leader = servers_leader(&servers)) >= 0);
    begin("leader killed", false, 0);
    server_kill(&servers, leader);
    await(servers_leader(&servers) >= 0);
    await(owner() >= 0);
    server_start(&servers, leader);
    server_await(&servers, leader);
    await(owner() >= 0);
    assert_int_equal(simba_service_stop(contenders[owner()].service, NULL),
                     SIMBA_OK);
    await(owner() >= 0);
    end();
}

static void test_ensemble__quorum_lost_and_back(void **state)
{
    int64_t lost_at;
    uint64_t token;

    (void)state;
    begin("quorum lost", false, 1);
    token = simba_service_token(contenders[1].service);
    server_kill(&servers, 0);
    server_kill(&servers, 1);
    lost_at = now_ms();
    await(owner() < 0); /* by our own clock, at U */
    assert_true(now_ms() - lost_at < TTL_MS + TRANSITION_MS);
    while (now_ms() - lost_at < 2 * (TTL_MS + TRANSITION_MS)) {
        assert_int_equal(owner(), -1);
        pause_us(10000);
    }
    server_start(&servers, 0);
    server_start(&servers, 1);
    await(owner() >= 0);
    await(atomic_load(&watchman.token) > token); /* it looks by turns */
    server_await(&servers, 0);
    server_await(&servers, 1);
    end();
}

static _Atomic int complaints;

static void hear_complaints(void *user,
                            enum simba_log_level level,
                            const char *component,
                            const char *message)
{
    (void)user;
    if (level <= SIMBA_LOG_WARN && strcmp(component, "zookeeper") == 0 &&
        strstr(message, "no server answers") != NULL) {
        atomic_fetch_add(&complaints, 1);
    }
}

/* Curator says nothing then, for ever. */
static void test_ensemble__unreachable_at_start_is_said(void **state)
{
    struct proxy *proxy = proxy_open(servers.one[0].client_port);
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;
    simba_contender contender = SIMBA_CONTENDER_INIT;
    struct contender *c = &contenders[0];
    char url[64];

    (void)state;
    proxy_hold(proxy, true, true);
    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d", proxy_port(proxy));
    options.log = hear_complaints;
    options.log_level = SIMBA_LOG_WARN;
    contender.mutex = "unreachable";
    assert_int_equal(simba_store_open(url, &options, &c->store, NULL),
                     SIMBA_OK);
    assert_int_equal(
        simba_service_open(c->store, &contender, &c->service, NULL), SIMBA_OK);
    assert_int_equal(simba_service_start(c->service, NULL), SIMBA_OK);
    await(atomic_load(&complaints) > 0);
    assert_int_equal(simba_service_status(c->service), SIMBA_STARTING);
    proxy_hold(proxy, false, false);
    proxy_cut(proxy);
    await(simba_service_is_owner(c->service));
    simba_service_close(c->service);
    simba_store_close(c->store);
    proxy_close(proxy);
}

static int start_ensemble(void **state)
{
    (void)state;
    servers_start(&servers, MANY);
    return 0;
}

static int stop_ensemble(void **state)
{
    (void)state;
    servers_stop(&servers);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ensemble__unreachable_at_start_is_said),
        cmocka_unit_test(test_ensemble__owner_on_a_follower_cut_off),
        cmocka_unit_test(test_ensemble__leader_killed),
        cmocka_unit_test(test_ensemble__quorum_lost_and_back),
    };

    if (argc < 2 || !servers_installed()) {
        puts("1..0 # SKIP no ZooKeeper server is installed");
        return 77;
    }
    simba = argv[1];
    return cmocka_run_group_tests(tests, start_ensemble, stop_ensemble);
}
