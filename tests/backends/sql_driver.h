/* Stores on a database server that the test program was started beside
 * (with_postgres, with_mysql), and people who contend through them. The same
 * tests are built for each kind of server; server.h says which. */
#ifndef TESTS_BACKENDS_SQL_DRIVER_H
#define TESTS_BACKENDS_SQL_DRIVER_H

#include "double.h"
#include "sql_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { TTL = 10000, LEASE = 16000, PLACE_LIFE = 34000, RESERVATION = 300 };

/* Generous: only a fault takes this long. */
enum { PATIENCE_MS = 20000 };

struct who {
    struct handle *at;
    const char *id;
    simba_attempt attempt;
    uint64_t place;
    uint64_t token;
    int64_t ttl_ms, transition_ms;
};

static struct handle first, second, third;
static char mutex[64];
static simba_op_reply got;
static simba_error why;

static inline void nap_ms(long ms)
{
    struct timespec nap = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&nap, NULL);
}

static inline int try_open(struct handle *handle, const char *url)
{
    memset(&why, 0, sizeof why);
    return handle_open(handle, SERVER_OPS, url + strlen(SERVER_SCHEME), &why);
}

static inline void must_open(struct handle *handle)
{
    if (try_open(handle, getenv("SIMBA_SERVER_URL")) != SIMBA_OK) {
        fail_msg("%s", why.message);
    }
}

/* Three handles, and a mutex nobody else uses. */
static inline int set_up(void **state)
{
    static int count;

    (void)state;
    snprintf(mutex, sizeof mutex, "m/%d {a}:'b'%%\"\\ %d", ++count,
             (int)getpid());
    must_open(&first);
    must_open(&second);
    must_open(&third);
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    server_let_go();
    handle_close(&first);
    handle_close(&second);
    handle_close(&third);
    return 0;
}

#define SQL_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static inline void control_server(const char *what)
{
    char command[512];

    snprintf(command, sizeof command, "'%s' %s", getenv("SIMBA_SERVER_CONTROL"),
             what);
    assert_int_equal(system(command), 0);
}

/* --- people -------------------------------------------------------------- */

static inline struct who person(struct handle *at, const char *id)
{
    static uint64_t count;
    struct who who = {at, id, {0, 0}, 0, 0, TTL, LEASE - TTL};

    who.attempt.high = (uint64_t)getpid() << 32 | 0x8000000000000000U;
    who.attempt.low = ++count;
    return who;
}

static inline void fill_op(const struct who *who, simba_op *op)
{
    op->mutex = op->mutex == NULL ? mutex : op->mutex;
    op->id = who->id;
    op->attempt = who->attempt;
    op->token = op->token == 0 ? who->token : op->token;
    op->ttl_ms = who->ttl_ms;
    op->transition_ms = who->transition_ms;
    if (op->deadline_ms == 0) {
        op->deadline_ms = simba_loop_now_ms() + PATIENCE_MS;
    }
}

static inline int try_run(struct who *who, simba_op op)
{
    int status;

    fill_op(who, &op);
    status = handle_run(who->at, &op, &why);
    got = op.reply;
    return status;
}

static inline void run(struct who *who, simba_op op)
{
    if (try_run(who, op) != SIMBA_OK) {
        fail_msg("%s", why.message);
    }
}

static inline simba_op asking(const struct who *who)
{
    simba_op op = {.kind = SIMBA_OP_ACQUIRE,
                   .place = who->place,
                   .waiter_ms = PLACE_LIFE,
                   .join = true};

    return op;
}

static inline void wish(const struct who *who)
{
    simba_loop_enter(who->at->loop);
    who->at->backend->ops->interest(who->at->backend, mutex,
                                    SIMBA_INTEREST_WAIT);
    simba_loop_leave(who->at->loop);
}

/* As the contention machine asks: with the first place it was given. */
static inline void ask(struct who *who)
{
    run(who, asking(who));
    if (got.in_line) {
        wish(who);
    }
    if (who->place == 0) {
        who->place = got.place;
    }
    if (got.mine) {
        who->token = got.token;
    }
}

static inline void renew(struct who *who)
{
    run(who, (simba_op){.kind = SIMBA_OP_RENEW});
}

static inline void release(struct who *who)
{
    run(who, (simba_op){.kind = SIMBA_OP_RELEASE});
}

static inline void leave(struct who *who)
{
    run(who, (simba_op){.kind = SIMBA_OP_LEAVE});
}

static inline void look(struct who *who)
{
    run(who, (simba_op){.kind = SIMBA_OP_READ});
}

static inline void expect_mine(const struct who *who)
{
    assert_true(got.mine);
    assert_true(got.token != 0);
    assert_string_equal(got.owner.id, who->id);
    assert_int_equal(got.owner.token, got.token);
    assert_int_equal(got.owner.ttl_at_ms, got.store_ms + who->ttl_ms);
    assert_int_equal(got.owner.transition_at_ms,
                     got.store_ms + who->ttl_ms + who->transition_ms);
}

static inline void expect_in_line(bool is_head)
{
    assert_false(got.mine);
    assert_true(got.in_line);
    assert_int_equal(got.is_head, is_head);
    assert_true(got.place != 0);
}

#endif
