/* Store handles on a real server, people who contend through them, and an admin
 * who looks at the nodes directly. */
#ifndef TESTS_BACKENDS_ZOOKEEPER_DRIVER_H
#define TESTS_BACKENDS_ZOOKEEPER_DRIVER_H

#define THREADED
#include "backends/double.h"
#include "backends/zookeeper/instance.h"
#include "backends/zookeeper/plain.h"
#include "servers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { TTL = 2500, LEASE = 4000, PATIENCE_MS = 60000 };

/* A contender and the handle it speaks through. */
struct who {
    struct handle *at;
    const char *id;
    simba_attempt attempt;
    uint64_t place;
    uint64_t token;
};

static struct servers servers;
static struct handle first, second;
static struct simba__zk_plain admin;
static simba_op_reply got;
static simba_error why;
static char mutex[64];
static char room[128]; /* its node */

/* --- what the runtime notes ---------------------------------------------- */

static char noted[8192];

static inline void note(const char *format, ...)
    __attribute__((format(printf, 1, 2)));
static inline void note(const char *format, ...)
{
    size_t length = strlen(noted);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(noted + length, sizeof noted - length, format, arguments);
    va_end(arguments);
}

void simba_op_add_waiter(simba_op *op, const simba_waiter *waiter)
{
    (void)op;
    note("[%s]", waiter->id);
}

void simba_op_add_mutex(simba_op *op,
                        const char *name,
                        const simba_owner *owner,
                        int waiting)
{
    (void)op;
    note("[%s %s %d]", name, owner->id, waiting);
}

void simba_op_add_finding(simba_op *op,
                          enum simba_gravity gravity,
                          const char *name,
                          const char *format,
                          ...)
{
    (void)op;
    (void)format;
    note("[%s %d]", name, (int)gravity);
}

/* --- places -------------------------------------------------------------- */

static inline void pause_ms(int ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000L};

    nanosleep(&time, NULL);
}

static inline int start_server(void **state)
{
    struct simba__zk_settings settings = {.hosts = servers.hosts};

    (void)state;
    servers_start(&servers, 1);
    return simba__zk_plain_open(&admin, &settings, 30000,
                                simba_loop_now_ms() + PATIENCE_MS)
               ? 0
               : -1;
}

static inline int stop_server(void **state)
{
    (void)state;
    if (admin.handle != NULL) {
        simba__zk_plain_close(&admin);
    }
    servers_stop(&servers);
    return 0;
}

static inline int new_mutex(void **state)
{
    static int count;

    (void)state;
    snprintf(mutex, sizeof mutex, "m%d", count++);
    snprintf(room, sizeof room, "/simba/%s", mutex);
    noted[0] = '\0';
    return 0;
}

static inline int close_handles(void **state)
{
    (void)state;
    handle_close(&first);
    handle_close(&second);
    return 0;
}

static inline int try_open(struct handle *handle, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static inline int try_open(struct handle *handle, const char *format, ...)
{
    char rest[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(rest, sizeof rest, format, arguments);
    va_end(arguments);
    return handle_open(handle, &simba_module, rest, &why);
}

static inline void open_handles(void)
{
    assert_int_equal(try_open(&first, "//%s", servers.hosts), SIMBA_OK);
    assert_int_equal(try_open(&second, "//%s", servers.hosts), SIMBA_OK);
}

/* --- people -------------------------------------------------------------- */

static inline struct who person(struct handle *at, const char *id)
{
    static uint64_t count;
    struct who who = {at, id, {0x123456789abcdef0, 0}, 0, 0};

    who.attempt.low = (uint64_t)getpid() << 32 | ++count;
    return who;
}

static inline void fill_op(const struct who *who, simba_op *op)
{
    op->mutex = op->mutex == NULL ? mutex : op->mutex;
    op->id = who->id;
    op->attempt = who->attempt;
    op->token = op->token == 0 ? who->token : op->token;
    op->ttl_ms = op->ttl_ms == 0 ? TTL : op->ttl_ms;
    op->transition_ms = LEASE - TTL;
    if (op->deadline_ms == 0) {
        op->deadline_ms = simba_loop_now_ms() + PATIENCE_MS / 3;
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

/* As the contention machine does: what failed for want of a connection, or
 * went unanswered, is tried again. A busy machine loses connections. */
static inline void run(struct who *who, simba_op op)
{
    int64_t until = simba_loop_now_ms() + PATIENCE_MS;
    int status = try_run(who, op);

    while ((status == SIMBA_EUNAVAIL || status == SIMBA_EUNKNOWN) &&
           simba_loop_now_ms() < until) {
        status = try_run(who, op);
    }
    if (status != SIMBA_OK) {
        fail_msg("%s", why.message);
    }
}

static inline simba_op asking(const struct who *who)
{
    return (simba_op){.kind = SIMBA_OP_ACQUIRE,
                      .place = who->place,
                      .waiter_ms = 2 * LEASE,
                      .join = true};
}

static inline void ask(struct who *who)
{
    run(who, asking(who));
    if (got.in_line) {
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
    noted[0] = '\0';
    run(who, (simba_op){.kind = SIMBA_OP_READ, .want_line = true});
}

static inline void expect_mine(const struct who *who)
{
    assert_true(got.mine);
    assert_true(got.token != 0);
    assert_true(got.lease_ms > LEASE / 4);
    assert_true(got.lease_ms <= LEASE);
    assert_string_equal(got.owner.id, who->id);
    assert_int_equal(got.owner.token, got.token);
}

static inline void expect_in_line(bool is_head, const char *owner)
{
    assert_false(got.mine);
    assert_true(got.in_line);
    assert_int_equal(got.is_head, is_head);
    assert_true(got.place != 0);
    assert_string_equal(got.owner.id, owner);
}

/* --- the admin ----------------------------------------------------------- */

static inline int count_children(const char *path)
{
    struct String_vector children = {0, NULL};
    int rc = zoo_get_children(admin.handle, path, 0, &children);
    int count = rc == ZOK ? children.count : rc;

    if (rc == ZOK) {
        deallocate_String_vector(&children);
    }
    return count;
}

/* The reaper may have taken the mutex already. */
static inline bool is_empty(const char *path)
{
    int count = count_children(path);

    return count == 0 || count == ZNONODE;
}

/* The node of the attempt's latch; its text lives until the next call. */
static inline const char *node_of(const struct who *who)
{
    static char path[256];
    char prefix[SIMBA__ZK_PREFIX_SIZE];
    struct String_vector children = {0, NULL};
    struct simba__zk_standing where;

    assert_int_equal(zoo_get_children(admin.handle, room, 0, &children), ZOK);
    simba__zk_prefix(who->attempt, prefix);
    simba__zk_stand(children.data, children.count, prefix, &where);
    assert_true(where.own >= 0);
    snprintf(path, sizeof path, "%s/%s", room, children.data[where.own]);
    deallocate_String_vector(&children);
    return path;
}

#define await(condition)                                                       \
    do {                                                                       \
        int64_t until = simba_loop_now_ms() + PATIENCE_MS;                     \
        while (!(condition)) {                                                 \
            if (simba_loop_now_ms() > until) {                                 \
                fail_msg("%s", "waited in vain for " #condition);              \
            }                                                                  \
            pause_ms(2);                                                       \
        }                                                                      \
    } while (0)

#define ZK_TEST(test)                                                          \
    cmocka_unit_test_setup_teardown(test, new_mutex, close_handles)

#endif
