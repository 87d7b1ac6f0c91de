/* Stores on a database server that the test program was started beside
 * (with_postgres, with_mysql), and people who contend through them. The same
 * tests are built for each kind of server; sql_server.h says which. */
#ifndef TESTS_BACKENDS_SQL_DRIVER_H
#define TESTS_BACKENDS_SQL_DRIVER_H

#include "backends/sql/sql.h"
#include "fixtures/bare_runtime.h"
#include "fixtures/sql_server.h"

#include <stdio.h>
#include <stdlib.h>

static struct handle first, second, third;
static char mutex[64];

static inline void listen_at(struct handle *at)
{
    simba_loop_enter(at->loop);
    at->backend->ops->subscription(at->backend, mutex, SIMBA_SUBSCRIBE_WAIT);
    simba_loop_leave(at->loop);
}

#define MUTEX       mutex
#define LISTEN(who) listen_at((who)->at)
#include "fixtures/contenders_lease.h"

static inline int try_open(struct handle *handle, const char *url)
{
    memset(&why, 0, sizeof why);
    return handle_open(handle, SERVER_OPS, url + strlen(SERVER_SCHEME), &why);
}

/* Owners that others play are taken for the JVM's, to whom room is left at
 * certain times of day; only test_jvm.c wants that. */
#ifndef LEAVES_ROOM
#define LEAVES_ROOM false
#endif

static inline void must_open(struct handle *handle)
{
    if (try_open(handle, getenv("SIMBA_SERVER_URL")) != SIMBA_OK) {
        fail_msg("%s", why.message);
    }
    ((struct simba__sql *)handle->backend)->is_jvm_possible &= LEAVES_ROOM;
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

/* Until a renewal is answered yes; each failure must be one that may pass. */
static inline void renew_in_the_end(struct who *who)
{
    int64_t until_ms = simba_loop_now_ms() + PATIENCE_MS;
    int status;

    do {
        simba_request request = {.kind = SIMBA_RENEW,
                                 .deadline_ms = simba_loop_now_ms() + 1000};

        status = try_run(who, request);
        if (status != SIMBA_OK && status != SIMBA_EUNAVAIL &&
            status != SIMBA_EUNKNOWN) {
            fail_msg("%d: %s", status, why.message);
        }
        if (simba_loop_now_ms() > until_ms) {
            fail_msg("waited in vain for a renewal: %s", why.message);
        }
    } while (status != SIMBA_OK);
    expect_mine(who);
    assert_int_equal(got.token, who->token);
}

/* The server hears of the end of a connection a little later. */
static inline void await_notify_connections(int64_t count)
{
    int64_t until_ms = simba_loop_now_ms() + PATIENCE_MS;

    while (server_count_notify_connections() != count) {
        if (simba_loop_now_ms() > until_ms) {
            fail_msg("%s", "waited in vain for the server to notice");
        }
        nap_ms(5);
    }
}

#define SQL_TEST(test) TEST_AROUND(test, set_up, tear_down)

#endif
