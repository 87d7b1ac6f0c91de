/* Waiting for replicas: what is not on so many servers is not ours. */
#ifndef SIMBA_REDIS_REPLICAS_H
#define SIMBA_REDIS_REPLICAS_H

#include "backends/redis/call.h"

/** The master has granted or renewed; complete the call when enough replicas
 * have it as well. Its operation's reply is filled already. */
void simba__redis_replicas_await(struct simba__redis_call *call);

#endif
