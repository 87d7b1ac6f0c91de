/* A caller that waits for its own reply alone reads it itself. */
#ifndef SIMBA_REDIS_DRIVE_H
#define SIMBA_REDIS_DRIVE_H

#include "backends/redis/instance.h"

/** An operation was sent to the commands of this node: who reads its answer?
 * The caller that waits for it, if nothing overlaps; else the loop. */
void simba__redis_drive_choose(struct simba__redis_node *node, bool is_driven);

/** Something else was sent over it: the loop reads. */
void simba__redis_drive_share(struct simba__redis_conn *conn);

/** The node goes. */
void simba__redis_drive_forget(const struct simba__redis_node *node);

/** See `drive` in simba/sys/backend.h. */
bool simba__redis_drive(simba_backend *self, int64_t until_ms);

#endif
