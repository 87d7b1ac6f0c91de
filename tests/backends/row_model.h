/* The row in memory as a model of a store: people, what they ask at random, and
 * the same asked of the row. Included after the driver of the store. */
#ifndef SIMBA_TESTS_ROW_MODEL_H
#define SIMBA_TESTS_ROW_MODEL_H

#include "core/mutex_record.h"

enum { PEOPLE = 5, OPERATIONS = 6000 };

static const char *const ids[PEOPLE] = {"alice", "bob", "carol", "dave",
                                        "erin"};

static inline struct who newcomer(struct handle *at,
                                  const char *id,
                                  int64_t lease_ms)
{
    struct who who = person(at, id);

    who.ttl_ms = lease_ms * 3 / 5;
    who.transition_ms = lease_ms * 2 / 5;
    return who;
}

static inline simba_request any_op(const struct who *who,
                                   int64_t lease_ms,
                                   unsigned dice)
{
    simba_request request = asking(who);

    request.waiter_ms = lease_ms * 8 / 5;
    request.join = dice / 10 % 8 != 0;
    if (dice % 10 == 6) {
        request.kind = SIMBA_RENEW;
    } else if (dice % 10 == 7 || dice % 10 == 8) {
        request.kind = SIMBA_RELEASE;
        request.tombstone_ms = dice / 10 % 4 == 0 ? lease_ms * 6 / 5 : 0;
    } else if (dice % 10 == 9) {
        request.kind = SIMBA_LEAVE;
    }
    return request;
}

static inline bool is_always_connected(void *self, uint64_t connection)
{
    (void)self;
    (void)connection;
    return true;
}

static inline void wake_nobody(void *self, const struct simba__waiter *waiter)
{
    (void)self;
    (void)waiter;
}

static inline struct simba__request request_of(const struct who *who,
                                               const simba_request *request)
{
    static const enum simba__request_kind kinds[] = {
        SIMBA__NOTHING, SIMBA__ACQUIRE, SIMBA__RENEW, SIMBA__RELEASE,
        SIMBA__LEAVE};

    return (struct simba__request){
        .kind = kinds[request->kind],
        .attempt = {who->attempt.high, who->attempt.low},
        .position = request->position,
        .waiter_ms = request->waiter_ms,
        .tombstone_ms = request->tombstone_ms,
        .join = request->join};
}

/* At the time the store says it was. */
static inline void serve_row(struct simba__mutex_record *row,
                             const struct who *who,
                             const struct simba__request *request,
                             struct simba__reply *reply)
{
    struct simba__mutex_host host = {NULL, is_always_connected, wake_nobody};
    struct simba__mutex_call call = {
        request, who->id, who->ttl_ms, who->transition_ms, 0, got.store_ms};

    assert_true(simba__mutex_serve(row, &host, &call, reply));
}

#endif
