/* One contender on a table: the test plays the runtime, the store and the
 * user, and feeds one event at a time.
 *
 * After every step the driver itself checks what must hold in any story: the
 * user hears acquired and released in turn (S9), the store is told only when
 * on_released is back or has overrun (S6), the answer of is_owner is what the
 * user was told last, and nothing that is due is left undone. */
#ifndef TESTS_CORE_CONTEND_DRIVER_H
#define TESTS_CORE_CONTEND_DRIVER_H

#include "core/contend.h"
#include "core/mutex_record.h"

#include <stddef.h>
#include <string.h>

#include "fixtures/unit_test.h"

#define NEVER SIMBA__NEVER

/* What core/lease.h makes of the default times: ttl 10 s, transition 6 s, B 2
 * s. */
enum {
    TTL = 10000,
    LEASE = 16000,
    MARGIN = 346, /* 10 ms + 2.1 % of 16 s */
    BUDGET = 2000,
    RENEW = 6666,       /* 2/3 ttl */
    USE = 13654,        /* U: 16000 - 346 - 2000 */
    HARD = 15654,       /* H: 16000 - 346 */
    OVER = 16346,       /* the store's lease is surely over */
    ASK_TRY = 3413,     /* (U - s) / 4 */
    RENEW_TRY = 1747,   /* (U - s - 2/3 ttl) / 4 */
    WAITER_LIFE = 34000 /* twice the lease and the greatest jitter */
};

/* When the stories begin; the first request goes out then. */
enum { S = 1000 };

static struct simba__contend machine;
static struct simba__contend_config machine_config;
static struct simba__rng rng;
static struct simba__contend_update up;
static simba_request sent; /* the newest request */
static struct simba__contend_tenure tenure;
static int64_t patience_ms; /* how long after its sending its deadline was */

/* What the user knows. */
static struct {
    bool owns;
    bool leaves; /* on_released is running */
    bool overran;
    bool started;
} user;

static inline struct simba__contend_config default_config(void)
{
    struct simba__contend_config config = {
        .lease = {.ttl_ms = TTL,
                  .transition_ms = LEASE - TTL,
                  .budget_ms = BUDGET},
        .join = true,
    };

    return config;
}

static inline void use_seeded(struct simba__contend_config config,
                              uint64_t seed)
{
    simba__rng_seed(&rng, seed);
    machine_config = config;
    simba__contend_init(&machine, &machine_config);
    tenure = (struct simba__contend_tenure){0};
    machine.tenure = &tenure;
    memset(&up, 0, sizeof up);
    memset(&sent, 0, sizeof sent);
    memset(&user, 0, sizeof user);
}

static inline void use(struct simba__contend_config config)
{
    use_seeded(config, 7);
}

/* --- what holds in every story ------------------------------------------- */

static inline bool is_told(unsigned telling)
{
    return (up.tell & telling) != 0;
}

static inline void check_tellings(void)
{
    if (is_told(SIMBA__TELL_RELEASED)) {
        assert_true(user.owns && !user.leaves);
        user.owns = false;
        user.leaves = true;
        user.overran = false;
    }
    if (is_told(SIMBA__TELL_OVERRUN)) {
        assert_true(user.leaves && !user.overran);
        user.overran = true;
    }
    if (is_told(SIMBA__TELL_ACQUIRED)) {
        assert_true(user.started && !user.owns && !user.leaves);
        user.owns = true;
    }
    if (is_told(SIMBA__TELL_STOPPED)) {
        assert_true(user.started && !user.owns);
        user.started = false;
    }
}

static inline void check_request(void)
{
    static const simba_request none;
    enum simba_request_kind kind = up.send.kind;

    if (kind == SIMBA_NO_REQUEST) {
        assert_memory_equal(&up.send, &none, sizeof none);
        return;
    }
    assert_int_equal(up.send.seq, sent.seq + 1);
    assert_int_equal(up.send.size, sizeof up.send);
    assert_int_equal(up.send.reply.size, sizeof up.send.reply);
    assert_int_equal(up.send.ttl_ms, machine.config->lease.ttl_ms);
    assert_int_equal(up.send.transition_ms,
                     machine.config->lease.transition_ms);
    assert_true(up.send.deadline_ms == NEVER ||
                up.send.deadline_ms - machine.now_ms >= 50);
    if (kind == SIMBA_RELEASE || kind == SIMBA_LEAVE) {
        assert_false(user.owns);
        assert_true(!user.leaves || user.overran);
    } else if (kind == SIMBA_ACQUIRE) {
        assert_false(user.owns || user.leaves);
    }
    sent = up.send;
    patience_ms = sent.deadline_ms - machine.now_ms;
}

/* How users of a service would see the machine. */
enum machine_status { INITIAL, STARTING, RUNNING, STOPPING };

static inline enum machine_status status_of_machine(void)
{
    if (machine.phase == SIMBA__IDLE) {
        return INITIAL;
    }
    if (machine.stopping) {
        return STOPPING;
    }
    return machine.is_heard ? RUNNING : STARTING;
}

static inline void check_machine(int64_t now_ms)
{
    bool is_initial = status_of_machine() == INITIAL;

    assert_int_equal(simba__contend_is_owner(&machine, now_ms), user.owns);
    assert_int_equal(is_initial, !user.started);
    assert_true(simba__contend_wake_at(&machine) > now_ms);
}

static inline void feed(const struct simba__contend_event *given)
{
    struct simba__contend_event event = *given;

    event.rng = &rng;
    if (event.type == SIMBA__START) {
        user.started = true;
    } else if (event.type == SIMBA__RETURNED) {
        user.leaves = false;
    }
    simba__contend_step(&machine, &event, &up);
    check_tellings();
    check_request();
    check_machine(event.now_ms);
}

/* --- events -------------------------------------------------------------- */

static inline void happen(enum simba__contend_event_type type, int64_t now_ms)
{
    struct simba__contend_event event = {.type = type, .now_ms = now_ms};

    feed(&event);
}

static inline void start(int64_t now_ms)
{
    happen(SIMBA__START, now_ms);
}

static inline void stop(int64_t now_ms)
{
    happen(SIMBA__STOP, now_ms);
}

static inline void timer(int64_t now_ms)
{
    happen(SIMBA__TIMER, now_ms);
}

static inline void wake_up(int64_t now_ms)
{
    happen(SIMBA__WAKE_UP, now_ms);
}

/* on_released has returned. */
static inline void returned(int64_t now_ms)
{
    happen(SIMBA__RETURNED, now_ms);
}

static inline void progress(int64_t now_ms)
{
    happen(SIMBA__PROGRESS, now_ms);
}

/* --- replies to the newest request --------------------------------------- */

static inline void reply(int64_t now_ms, simba_reply answer)
{
    struct simba__contend_event event = {.type = SIMBA__REPLIED,
                                         .now_ms = now_ms};

    event.seq = sent.seq;
    event.outcome = SIMBA__ANSWERED;
    event.reply = &answer;
    feed(&event);
}

static inline void no_reply(int64_t now_ms, enum simba__outcome outcome)
{
    feed(&(struct simba__contend_event){.type = SIMBA__REPLIED,
                                        .now_ms = now_ms,
                                        .seq = sent.seq,
                                        .outcome = outcome});
}

/* Granted or renewed. */
static inline void yes(int64_t now_ms, uint64_t token)
{
    reply(now_ms, (simba_reply){.mine = true, .token = token});
}

/* Somebody else has it, and the contender has no position in the queue. */
static inline void refused(int64_t now_ms, int64_t wait_ms)
{
    reply(now_ms, (simba_reply){.wait_ms = wait_ms});
}

static inline void is_queued(int64_t now_ms, int64_t wait_ms, uint64_t position)
{
    reply(now_ms, (simba_reply){.wait_ms = wait_ms,
                                .is_queued = true,
                                .position = position});
}

static inline void head_of_line(int64_t now_ms, int64_t wait_ms)
{
    reply(now_ms, (simba_reply){.wait_ms = wait_ms,
                                .is_queued = true,
                                .is_head = true,
                                .position = 1});
}

/* A renewal: not yours. A release or leave: done. */
static inline void answered(int64_t now_ms)
{
    reply(now_ms, (simba_reply){0});
}

static inline void failed(int64_t now_ms)
{
    no_reply(now_ms, SIMBA__FAILED);
}

static inline void unknown(int64_t now_ms)
{
    no_reply(now_ms, SIMBA__UNKNOWN);
}

/* --- expectations -------------------------------------------------------- */

static inline void expect_sent(enum simba_request_kind kind)
{
    assert_int_equal(up.send.kind, kind);
}

static inline void expect_told(unsigned tell)
{
    assert_int_equal(up.tell, tell);
}

static inline void expect_nothing(void)
{
    expect_sent(SIMBA_NO_REQUEST);
    expect_told(0);
}

static inline void expect_wake_at(int64_t at_ms)
{
    assert_int_equal(simba__contend_wake_at(&machine), at_ms);
}

static inline void expect_wake_in(int64_t from_ms, int64_t to_ms)
{
    assert_true(simba__contend_wake_at(&machine) >= from_ms);
    assert_true(simba__contend_wake_at(&machine) <= to_ms);
}

static inline void expect_status(enum machine_status status)
{
    assert_int_equal(status_of_machine(), status);
}

/* Owner up to the last millisecond before `until_ms`. */
static inline void expect_owner_until(int64_t until_ms)
{
    assert_true(simba__contend_is_owner(&machine, until_ms - 1));
    assert_false(simba__contend_is_owner(&machine, until_ms));
}

static inline void expect_acquired(uint64_t token)
{
    expect_told(SIMBA__TELL_ACQUIRED);
    assert_int_equal(up.token, token);
}

static inline void expect_released(enum simba__cause cause, int64_t deadline_ms)
{
    assert_true(is_told(SIMBA__TELL_RELEASED));
    assert_int_equal(up.cause, cause);
    assert_int_equal(up.deadline_ms, deadline_ms);
    assert_true(up.token != 0);
}

/* Nothing happens a millisecond before the wake-up; then it is carried out. */
static inline int64_t wake(void)
{
    int64_t at = simba__contend_wake_at(&machine);

    assert_true(at < NEVER);
    timer(at - 1);
    expect_nothing();
    expect_wake_at(at);
    timer(at);
    return at;
}

/* --- beginnings of stories ----------------------------------------------- */

static inline void ask(void)
{
    start(S);
    expect_sent(SIMBA_ACQUIRE);
}

/* Owner with token 5 since S + 10, by a request sent at S. */
static inline void own(void)
{
    ask();
    yes(S + 10, 5);
    expect_acquired(5);
}

/* Owner whose first renewal has just been sent, at S + RENEW. */
static inline void own_and_renew(void)
{
    own();
    assert_int_equal(wake(), S + RENEW);
    expect_sent(SIMBA_RENEW);
}

/* --- ends of stories ----------------------------------------------------- */

static inline void expect_stopped(void)
{
    expect_told(SIMBA__TELL_STOPPED);
    expect_sent(SIMBA_NO_REQUEST);
    expect_wake_at(NEVER);
    expect_status(INITIAL);
}

/* Owner who was told to stop at `now_ms`; on_released runs. */
static inline void own_and_stop(int64_t now_ms)
{
    own();
    stop(now_ms);
    expect_told(SIMBA__TELL_RELEASED);
    expect_released(SIMBA__CAUSE_STOP, now_ms + BUDGET);
    expect_sent(SIMBA_NO_REQUEST);
    expect_status(STOPPING);
}

#endif
