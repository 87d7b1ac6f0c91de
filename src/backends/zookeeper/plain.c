#define _GNU_SOURCE
#include "backends/zookeeper/plain.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* NOLINTNEXTLINE(readability-function-size): the client library's signature */
void simba__zk_plain_watch(zhandle_t *handle,
                           int type,
                           int state,
                           const char *path,
                           void *context)
{
    struct simba__zk_plain *plain = context;

    (void)handle;
    (void)path;
    pthread_mutex_lock(&plain->lock);
    if (type == ZOO_SESSION_EVENT) {
        plain->state = state;
    } else {
        plain->events++;
    }
    pthread_cond_broadcast(&plain->changed);
    pthread_mutex_unlock(&plain->lock);
}

/* Waits a while; false when the time is up. */
static bool wait_a_while(struct simba__zk_plain *plain, int64_t until_ms)
{
    int64_t left = until_ms - simba_loop_now_ms();
    struct timespec at;

    if (left <= 0) {
        return false;
    }
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += left / 1000;
    at.tv_nsec += left % 1000 * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(&plain->changed, &plain->lock, &at);
    return true;
}

static bool await_connection(struct simba__zk_plain *plain, int64_t until_ms)
{
    bool is_in_time = true, is_connected;

    pthread_mutex_lock(&plain->lock);
    while (plain->state != ZOO_CONNECTED_STATE && is_in_time) {
        is_in_time = wait_a_while(plain, until_ms);
    }
    is_connected = plain->state == ZOO_CONNECTED_STATE;
    pthread_mutex_unlock(&plain->lock);
    return is_connected;
}

static void close_handle(struct simba__zk_plain *plain)
{
    if (plain->handle != NULL) {
        zookeeper_close(plain->handle);
    }
    plain->handle = NULL;
    plain->state = 0;
}

static bool make_handle(struct simba__zk_plain *plain,
                        const struct simba__zk_settings *settings,
                        unsigned first_host)
{
    char *hosts = simba__zk_hosts_from(settings->hosts, first_host);

    if (hosts != NULL) {
        plain->handle = simba__zk_handle_make(hosts, plain->timeout_ms,
                                              simba__zk_plain_watch, plain);
        free(hosts);
    }
    if (plain->handle != NULL && settings->auth != NULL) {
        zoo_add_auth(plain->handle, "digest", settings->auth,
                     (int)strlen(settings->auth), NULL, NULL);
    }
    return plain->handle != NULL;
}

/* As long as there is time, and each host for a while. */
static bool connect_any(struct simba__zk_plain *plain,
                        const struct simba__zk_settings *settings,
                        int64_t until_ms)
{
    unsigned first = (unsigned)simba_loop_now_ms();

    for (unsigned tried = 0; simba_loop_now_ms() < until_ms; tried++) {
        int64_t soon_ms =
            simba_loop_now_ms() +
            simba__zk_hosts_wait(settings->hosts, tried, plain->timeout_ms);

        if (!make_handle(plain, settings, first + tried)) {
            return false;
        }
        if (await_connection(plain, soon_ms < until_ms ? soon_ms : until_ms)) {
            return true;
        }
        close_handle(plain);
    }
    return false;
}

bool simba__zk_plain_open(struct simba__zk_plain *plain,
                          const struct simba__zk_settings *settings,
                          int64_t timeout_ms,
                          int64_t until_ms)
{
    pthread_condattr_t attributes;

    memset(plain, 0, sizeof *plain);
    plain->timeout_ms = timeout_ms;
    pthread_mutex_init(&plain->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&plain->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    if (!connect_any(plain, settings, until_ms)) {
        simba__zk_plain_close(plain);
        return false;
    }
    return true;
}

void simba__zk_plain_close(struct simba__zk_plain *plain)
{
    close_handle(plain);
    pthread_cond_destroy(&plain->changed);
    pthread_mutex_destroy(&plain->lock);
}

bool simba__zk_plain_await(struct simba__zk_plain *plain,
                           int events,
                           int64_t until_ms)
{
    bool is_in_time = true, is_done;

    pthread_mutex_lock(&plain->lock);
    while (plain->events < events && is_in_time) {
        is_in_time = wait_a_while(plain, until_ms);
    }
    is_done = plain->events >= events;
    pthread_mutex_unlock(&plain->lock);
    return is_done;
}
