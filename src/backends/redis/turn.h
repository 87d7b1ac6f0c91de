/* A turn: what happens in one go inside the loop. Commands written during a
 * turn are sent together at its end. */
#ifndef SIMBA_REDIS_TURN_H
#define SIMBA_REDIS_TURN_H

#include "backends/redis/conn.h"

/** Enclose whatever may write commands. */
void simba__redis_turn_begin(struct simba__redis_env *env);
void simba__redis_turn_end(struct simba__redis_env *env);

/** Like turn_end, but let the output wait for more of the same turn of the
 * loop, if a reply is awaited anyway. */
void simba__redis_turn_end_later(struct simba__redis_env *env);

/** The connection has output. */
void simba__redis_turn_add(struct simba__redis_conn *conn);

/** It has none any more, or is gone. */
void simba__redis_turn_remove(struct simba__redis_conn *conn);

/** The loop is about to end: nothing will be posted any more. */
void simba__redis_turn_stop(struct simba__redis_env *env);

#endif
