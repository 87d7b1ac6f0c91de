/* One mutex on a table: the test is the store around the record. It says who is
 * connected, hears who is woken, and plays four contenders. */
#ifndef TESTS_CORE_ROW_DRIVER_H
#define TESTS_CORE_ROW_DRIVER_H

#include "core/mutex_record.h"

#include <stddef.h>
#include <string.h>

#include "fixtures/unit_test.h"

/* When the stories begin, by the store's clock. */
enum { T = 1000000 };
enum { TTL = 10000, LEASE = 16000, WAITER_LIFE = 34000, OFFER = 300 };

/* A contender; its number is its connection, too. */
struct who {
    simba_attempt attempt;
    const char *id;
    uint64_t connection;
    uint64_t position;
};

static struct who alice, bob, carol, dave;
static struct simba__mutex_record record;
static simba_reply got = SIMBA_REPLY_INIT;

static struct {
    uint64_t broken;    /* connections that are gone, a bit each */
    int answers_left;   /* then every connection is gone; -1: never */
    uint64_t woken[16]; /* connections in the order of their wake-ups */
    size_t wakes;
} store;

static inline bool is_connected(void *self, uint64_t connection)
{
    assert_ptr_equal(self, &store);
    if (store.answers_left == 0) {
        return false;
    }
    store.answers_left -= store.answers_left > 0;
    return (store.broken >> connection & 1) == 0;
}

static inline void take_wake(void *self, const struct simba__waiter *waiter)
{
    assert_ptr_equal(self, &store);
    assert_true(store.wakes < 16);
    store.woken[store.wakes++] = waiter->connection;
}

static const struct simba__mutex_host host = {.self = &store,
                                              .is_connected = is_connected,
                                              .wake = take_wake};

static inline struct who person(const char *id, uint64_t number)
{
    struct who who = {{number, 100 + number}, id, number, 0};

    return who;
}

static inline int setup(void **state)
{
    (void)state;
    record = (struct simba__mutex_record){0};
    memset(&store, 0, sizeof store);
    store.answers_left = -1;
    alice = person("alice", 1);
    bob = person("bob", 2);
    carol = person("carol", 3);
    dave = person("dave", 4);
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    simba__mutex_fini(&record);
    return 0;
}

/* The same person, another start of the contender. */
static inline struct who reborn(const struct who *who)
{
    struct who again = *who;

    again.attempt.low += 1000;
    again.position = 0;
    return again;
}

/* --- requests ------------------------------------------------------------ */

static inline bool serve(const struct who *who,
                         simba_request request,
                         int64_t now_ms)
{
    struct simba__mutex_request given = {
        .request = &request, .connection = who->connection, .now_ms = now_ms};

    request.id = who->id;
    request.attempt = who->attempt;
    request.ttl_ms = TTL;
    request.transition_ms = LEASE - TTL;
    store.wakes = 0;
    return simba__mutex_serve(&record, &host, &given, &got);
}

static inline void must_serve(const struct who *who,
                              simba_request request,
                              int64_t now_ms)
{
    assert_true(serve(who, request, now_ms));
    assert_int_equal(got.size, sizeof got);
    assert_int_equal(got.store_ms, now_ms);
}

/* Asks as the contention machine does: with the first position it was given. */
static inline void ask(struct who *who, int64_t now_ms)
{
    must_serve(who,
               (simba_request){.kind = SIMBA_ACQUIRE,
                               .position = who->position,
                               .waiter_ms = WAITER_LIFE,
                               .join = true},
               now_ms);
    if (who->position == 0) {
        who->position = got.position;
    }
}

static inline void ask_without_joining(const struct who *who, int64_t now_ms)
{
    must_serve(who, (simba_request){.kind = SIMBA_ACQUIRE}, now_ms);
}

static inline void renew(const struct who *who, int64_t now_ms)
{
    must_serve(who, (simba_request){.kind = SIMBA_RENEW}, now_ms);
}

static inline void release(const struct who *who, int64_t now_ms)
{
    must_serve(who, (simba_request){.kind = SIMBA_RELEASE}, now_ms);
}

static inline void leave(const struct who *who, int64_t now_ms)
{
    must_serve(who, (simba_request){.kind = SIMBA_LEAVE}, now_ms);
}

/* Undo an asking that may still be on its way. */
static inline void undo(const struct who *who,
                        int64_t now_ms,
                        int64_t tombstone_ms)
{
    must_serve(
        who,
        (simba_request){.kind = SIMBA_RELEASE, .tombstone_ms = tombstone_ms},
        now_ms);
}

static inline bool breaks(uint64_t token, bool at_once, int64_t now_ms)
{
    simba_request request = {
        .kind = SIMBA_BREAK, .token = token, .now = at_once};
    struct simba__mutex_request given = {.request = &request, .now_ms = now_ms};

    store.wakes = 0;
    assert_true(simba__mutex_serve(&record, &host, &given, &got));
    return got.mine;
}

/* --- expectations -------------------------------------------------------- */

static inline void expect_mine(const struct who *who)
{
    assert_true(got.mine);
    assert_int_equal(got.token, record.owner.token);
    assert_string_equal(record.owner.id, who->id);
    assert_int_equal(got.wait_ms, 0);
    assert_false(got.is_queued);
}

static inline void expect_refused(int64_t wait_ms)
{
    assert_false(got.mine);
    assert_int_equal(got.token, 0);
    assert_int_equal(got.wait_ms, wait_ms);
}

static inline void expect_queued(bool is_head)
{
    assert_false(got.mine);
    assert_true(got.is_queued);
    assert_true(got.position != 0);
    assert_int_equal(got.is_head, is_head);
}

static inline void expect_lease(int64_t from_ms)
{
    assert_int_equal(record.owner.ttl_at_ms, from_ms + TTL);
    assert_int_equal(record.owner.transition_at_ms, from_ms + LEASE);
}

static inline void expect_wakes(const struct who *first,
                                const struct who *second)
{
    assert_int_equal(store.wakes, (first != NULL) + (second != NULL));
    if (first != NULL) {
        assert_int_equal(store.woken[0], first->connection);
    }
    if (second != NULL) {
        assert_int_equal(store.woken[1], second->connection);
    }
}

static inline void disconnect(const struct who *who)
{
    store.broken |= UINT64_C(1) << who->connection;
}

static inline void reconnect(const struct who *who)
{
    store.broken &= ~(UINT64_C(1) << who->connection);
}

/* Alice owns since T; bob, carol and dave stand in the queue in this order. */
static inline void four_meet(void)
{
    ask(&alice, T);
    expect_mine(&alice);
    ask(&bob, T + 1);
    expect_queued(true);
    ask(&carol, T + 2);
    expect_queued(false);
    ask(&dave, T + 3);
    expect_queued(false);
}

/* A test that begins with a free mutex and an empty queue. */
#define RECORD_TEST(test) TEST_AROUND(test, setup, teardown)

#endif
