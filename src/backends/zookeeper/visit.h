/* What an admin asks that takes a while: a thread of its own, with a session of
 * its own, and the client library's blocking calls. */
#ifndef SIMBA_ZOOKEEPER_VISIT_H
#define SIMBA_ZOOKEEPER_VISIT_H

#include "backends/zookeeper/plain.h"

struct simba__zk_visit {
    struct simba__zk *self; /* of which only the settings are touched */
    simba_request *request;
    int64_t connect_until_ms;
    struct simba__zk_plain plain;
};

/** doctor.c: what these servers can promise. init.c: make what is missing. Both
 * add findings, and return a status. On the visit's thread, connected. */
int simba__zk_examine(struct simba__zk_visit *visit, simba_error *error);
int simba__zk_init(struct simba__zk_visit *visit, simba_error *error);

#endif
