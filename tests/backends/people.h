/* People who contend through handles of a store. Included by the driver of the
 * store, which says before what MUTEX is, and may have its own way to
 * LISTEN(who) after a position in the queue was given, times of its own, and
 * failures that MAY_PASS(status). */
#ifndef TESTS_BACKENDS_PEOPLE_H
#define TESTS_BACKENDS_PEOPLE_H

#include "double.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#ifndef LISTEN
#define LISTEN(who) ((void)(who))
#endif

#ifndef MAY_PASS
#define MAY_PASS(status) false
#endif

#ifndef TTL
#define TTL         10000
#define LEASE       16000
#define PLACE_LIFE  34000
#define PATIENCE_MS 20000 /* only a fault takes this long */
#define ANSWER_MS   PATIENCE_MS
#endif

enum { RESERVATION = 300 };

/* A contender and the handle it speaks through. */
struct who {
    struct handle *at;
    const char *id;
    simba_attempt attempt;
    uint64_t position;
    uint64_t token;
    int64_t ttl_ms, transition_ms;
};

static simba_reply got;
static simba_error why;

static inline void nap_ms(long ms)
{
    struct timespec nap = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&nap, NULL);
}

static inline struct who person(struct handle *at, const char *id)
{
    static uint64_t count;
    struct who who = {at, id, {0, 0}, 0, 0, TTL, LEASE - TTL};

    who.attempt.high = (uint64_t)getpid() << 32 | 0x8000000000000000U;
    who.attempt.low = ++count;
    return who;
}

static inline void fill_op(const struct who *who, simba_request *request)
{
    request->mutex = request->mutex == NULL ? MUTEX : request->mutex;
    request->id = who->id;
    request->attempt = who->attempt;
    request->token = request->token == 0 ? who->token : request->token;
    request->ttl_ms = who->ttl_ms;
    request->transition_ms = who->transition_ms;
    if (request->deadline_ms == 0) {
        request->deadline_ms = simba_loop_now_ms() + ANSWER_MS;
    }
}

static inline int try_run(struct who *who, simba_request request)
{
    int status;

    fill_op(who, &request);
    status = handle_run(who->at, &request, &why);
    got = request.reply;
    return status;
}

static inline void run(struct who *who, simba_request request)
{
    int64_t until_ms = simba_loop_now_ms() + PATIENCE_MS;
    int status = try_run(who, request);

    while (MAY_PASS(status) && simba_loop_now_ms() < until_ms) {
        status = try_run(who, request);
    }
    if (status != SIMBA_OK) {
        fail_msg("%s", why.message);
    }
}

static inline simba_request asking(const struct who *who)
{
    simba_request request = {.kind = SIMBA_ACQUIRE,
                             .position = who->position,
                             .waiter_ms = PLACE_LIFE,
                             .join = true};

    return request;
}

/* As the contention machine asks: with the first place it was given. */
static inline void ask(struct who *who)
{
    run(who, asking(who));
    if (got.is_queued) {
        LISTEN(who);
    }
    if (who->position == 0) {
        who->position = got.position;
    }
    if (got.mine) {
        who->token = got.token;
    }
}

static inline void renew(struct who *who)
{
    run(who, (simba_request){.kind = SIMBA_RENEW});
}

static inline void release(struct who *who)
{
    run(who, (simba_request){.kind = SIMBA_RELEASE});
}

static inline void leave(struct who *who)
{
    run(who, (simba_request){.kind = SIMBA_LEAVE});
}

#define await(condition)                                                       \
    do {                                                                       \
        int64_t await_until = simba_loop_now_ms() + PATIENCE_MS;               \
        while (!(condition)) {                                                 \
            if (simba_loop_now_ms() > await_until) {                           \
                fail_msg("%s", "waited in vain for " #condition);              \
            }                                                                  \
            nap_ms(1);                                                         \
        }                                                                      \
    } while (0)

#endif
