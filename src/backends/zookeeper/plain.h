/* The client library by its blocking calls, for what runs on a thread of its
 * own: the doctor, and the floor of a benchmark. */
#ifndef SIMBA_ZOOKEEPER_PLAIN_H
#define SIMBA_ZOOKEEPER_PLAIN_H

#include "backends/zookeeper/instance.h"

struct simba__zk_plain {
    zhandle_t *handle;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t timeout_ms;
    int state;  /* of the session */
    int events; /* watches that have fired */
};

/** Connect; false: not by then (boot clock), and there is nothing to close. */
bool simba__zk_plain_open(struct simba__zk_plain *plain,
                          const struct simba__zk_settings *settings,
                          int64_t timeout_ms,
                          int64_t until_ms);
void simba__zk_plain_close(struct simba__zk_plain *plain);

/** Wait until `events` watches have fired; false: not by then. */
bool simba__zk_plain_await(struct simba__zk_plain *plain,
                           int events,
                           int64_t until_ms);

/** A watch that counts, with the plain as its context. */
void simba__zk_plain_watch(zhandle_t *handle,
                           int type,
                           int state,
                           const char *path,
                           void *context);

#endif
