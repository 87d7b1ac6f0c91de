/* A proxy before the server, which holds back and cuts, and requests that are
 * under way meanwhile. */
#ifndef TESTS_BACKENDS_ZOOKEEPER_PROXY_FAULTS_H
#define TESTS_BACKENDS_ZOOKEEPER_PROXY_FAULTS_H

#include "driver.h"

#include <pthread.h>

static struct proxy *proxy; /* before the server, for `first` */

static inline void open_through_proxy(void)
{
    proxy = proxy_open(servers.one[0].client_port);
    assert_int_equal(try_open(&first, "//127.0.0.1:%d", proxy_port(proxy)),
                     SIMBA_OK);
    assert_int_equal(try_open(&second, "//%s", servers.hosts), SIMBA_OK);
}

static inline int close_all(void **state)
{
    close_handles(state);
    proxy_close(proxy);
    proxy = NULL;
    return 0;
}

/* --- requests that do not end at once ------------------------------------ */

struct background {
    pthread_t thread;
    struct who *who;
    simba_request request;
    int status;
};

static inline void *run_in_background(void *argument)
{
    struct background *b = argument;
    simba_error error;

    b->request.deadline_ms = simba_loop_now_ms() + PATIENCE_MS;
    fill_request(b->who, &b->request);
    b->status = handle_run(b->who->at, &b->request, &error);
    return NULL;
}

static inline void start(struct background *b,
                         struct who *who,
                         simba_request request)
{
    *b = (struct background){.who = who, .request = request};
    assert_int_equal(pthread_create(&b->thread, NULL, run_in_background, b), 0);
}

static inline void finish(struct background *b)
{
    pthread_join(b->thread, NULL);
}

#define FAULT_TEST(test) TEST_AROUND(test, new_mutex, close_all)

#endif
