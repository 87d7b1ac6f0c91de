/* Contenders through the public API while things go wrong. A watchman asks all
 * of them all the time whether they own the mutex, and `simba verify` reads
 * what they asked and heard. */
#ifndef TESTS_BACKENDS_ZOOKEEPER_STORIES_H
#define TESTS_BACKENDS_ZOOKEEPER_STORIES_H

/* A new leader of an ensemble, and leases, take their time. */
#define PATIENCE_MS 60000

#include "fixtures/api_harness.h"
#include "fixtures/zookeeper_servers.h"

#include <simba.h>

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pthread.h>

enum { MANY = 3, TTL_MS = 2500, TRANSITION_MS = 1500 };

static struct servers servers;
static const char *simba;
static bool is_begun; /* a story */

/* One process's view, though all live in one here: a store of its own. */
static struct contender {
    char hosts[128]; /* it speaks to */
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

/* --- the watchman -------------------------------------------------------- */

/* Owner before and after another was seen to be owner: both at once. */
static inline bool overlap(int i, int j)
{
    uint64_t token = simba_service_token(contenders[i].service);

    return token != 0 && simba_service_is_owner(contenders[j].service) &&
           simba_service_token(contenders[i].service) == token;
}

static inline void *keep_watch(void *argument)
{
    (void)argument;
    while (!atomic_load(&watchman.is_ending)) {
        for (int i = 0; i < MANY * MANY; i++) {
            if (i / MANY != i % MANY && overlap(i / MANY, i % MANY)) {
                atomic_fetch_add(&watchman.overlaps, 1);
            }
        }
        nap_ms(1);
    }
    return NULL;
}

static inline void on_acquired(void *user, const simba_state *change)
{
    struct contender *c = user;
    uint64_t before = atomic_exchange(&watchman.token, change->after.token);

    if (change->after.token <= before) {
        atomic_fetch_add(&watchman.stale_tokens, 1);
    }
    atomic_fetch_add(&c->acquired, 1);
}

static inline void on_released(void *user, const simba_state *change)
{
    struct contender *c = user;

    (void)change;
    atomic_fetch_add(&c->released, 1);
}

/* --- stories ------------------------------------------------------------- */

static inline void open_contender(int i, const char *mutex)
{
    struct contender *c = &contenders[i];
    simba_contender contender = SIMBA_CONTENDER_INIT;
    simba_error error;
    char url[256];

    snprintf(url, sizeof url, "trace:%s/trace-%d.jsonl:zookeeper://%s",
             servers.directory, i, c->hosts);
    contender.mutex = mutex;
    contender.times.ttl_ms = TTL_MS;
    contender.times.transition_ms = TRANSITION_MS;
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

static inline void start(int i)
{
    assert_int_equal(simba_service_start(contenders[i].service, NULL),
                     SIMBA_OK);
}

static inline void stop(int i)
{
    assert_int_equal(simba_service_stop(contenders[i].service, NULL), SIMBA_OK);
}

/* `first` becomes owner before the others begin. */
static inline void begin(const char *mutex, int first)
{
    for (int i = 0; i < MANY; i++) {
        open_contender(i, mutex);
    }
    is_begun = true;
    atomic_store(&watchman.is_ending, false);
    atomic_store(&watchman.overlaps, 0);
    atomic_store(&watchman.stale_tokens, 0);
    atomic_store(&watchman.token, 0);
    assert_int_equal(pthread_create(&watchman.thread, NULL, keep_watch, NULL),
                     0);
    start(first);
    await(simba_service_is_owner(contenders[first].service));
}

static inline void start_others(int first)
{
    for (int i = 0; i < MANY; i++) {
        if (i != first) {
            start(i);
        }
    }
    for (int i = 0; i < MANY; i++) {
        await(simba_service_status(contenders[i].service) == SIMBA_RUNNING);
    }
}

static inline void stop_others(int last)
{
    for (int i = 0; i < MANY; i++) {
        if (i != last) {
            stop(i);
        }
    }
}

static inline int owner(void)
{
    for (int i = 0; i < MANY; i++) {
        if (simba_service_is_owner(contenders[i].service)) {
            return i;
        }
    }
    return -1;
}

/* What the traces tell, over all that has happened so far. */
static inline void verify_traces(void)
{
    char command[512];

    snprintf(command, sizeof command, "'%s' verify '%s'/trace-*.jsonl", simba,
             servers.directory);
    assert_int_equal(system(command), 0);
}

/* Also where a test has failed. */
static inline int close_story(void **state)
{
    (void)state;
    if (is_begun) {
        atomic_store(&watchman.is_ending, true);
        pthread_join(watchman.thread, NULL);
        for (int i = 0; i < MANY; i++) {
            simba_service_close(contenders[i].service);
            simba_store_close(contenders[i].store);
        }
    }
    is_begun = false;
    return 0;
}

static inline void end(void)
{
    close_story(NULL);
    assert_int_equal(atomic_load(&watchman.overlaps), 0);
    assert_int_equal(atomic_load(&watchman.stale_tokens), 0);
    verify_traces();
}

#endif
