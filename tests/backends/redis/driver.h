/* Redis servers, store handles on them, and people who contend through them. */
#ifndef TESTS_BACKENDS_REDIS_DRIVER_H
#define TESTS_BACKENDS_REDIS_DRIVER_H

#include "fixtures/bare_runtime.h"
#include "fixtures/redis_server.h"

#include <stdio.h>
#include <stdlib.h>

#define MUTEX "m/1 {a}:'b'%\""
#define KEY   "simba:{" MUTEX "}"

#include "fixtures/contenders_lease.h"

static struct redis server;
static struct handle first, second, third;

/* --- servers ------------------------------------------------------------- */

static inline int start_server(void **state)
{
    (void)state;
    redis_start(&server, NULL);
    return 0;
}

static inline int remove_server(void **state)
{
    (void)state;
    redis_remove(&server);
    return 0;
}

static inline int empty_server(void **state)
{
    (void)state;
    redis_number(&server, "FLUSHALL");
    memset(&told, 0, sizeof told);
    return 0;
}

static inline int close_handles(void **state)
{
    (void)state;
    handle_close(&first);
    handle_close(&second);
    handle_close(&third);
    return 0;
}

/* Opened and, as with wait_ms, reached. */
static inline int try_open(struct handle *handle, const char *url)
{
    simba_request reach = {.kind = SIMBA_REACH,
                           .mutex = "",
                           .id = "",
                           .deadline_ms = simba_loop_now_ms() + 10000};
    int rc;

    memset(&why, 0, sizeof why);
    rc = handle_open(handle, &simba_module, url, &why);
    if (rc == SIMBA_OK) {
        rc = handle_run(handle, &reach, &why);
        if (rc != SIMBA_OK) {
            handle_close(handle);
        }
    }
    return rc;
}

static inline void must_open(struct handle *handle)
{
    if (try_open(handle, redis_url(&server, "?restart_grace=0")) != SIMBA_OK) {
        fail_msg("%s", why.message);
    }
}

/* --- several owners ------------------------------------------------------- */

static inline void share(struct who *who)
{
    simba_request request = asking(who);

    request.slots = UINT32_MAX;
    run(who, request);
    who->position = got.is_queued ? got.position : 0;
    who->token = got.mine ? got.token : who->token;
}

static inline void end_share(struct who *who)
{
    run(who, (simba_request){.kind = SIMBA_RELEASE, .slots = UINT32_MAX});
}

#define REDIS_TEST(test) TEST_AROUND(test, empty_server, close_handles)

#endif
