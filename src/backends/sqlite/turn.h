/* The turn of one operation, and whom it wakes. */
#ifndef SIMBA_SQLITE_TURN_H
#define SIMBA_SQLITE_TURN_H

#include "backends/sqlite/instance.h"

/* Whom to ring after the commit: the called one, the second in the queue, and
 * who stands behind a change that nobody else tells of. */
enum { SIMBA__SQLITE_RINGS = 3 };

struct simba__sqlite_turn {
    struct simba__sqlite *self;
    simba_request *request;
    struct simba__sqlite_wish wish;
    struct simba__reply reply;
    size_t rings[SIMBA__SQLITE_RINGS]; /* peers */
    size_t ring_count;
};

/** Is the one with this connection alive? As simba__mutex_host has it. */
bool simba__sqlite_is_connected(void *turn, uint64_t connection);

/** Ring this one after the commit. As simba__mutex_host has it. */
void simba__sqlite_ring_later(void *turn, const struct simba__waiter *waiter);
void simba__sqlite_ring_now(const struct simba__sqlite_turn *turn);

/** After the row was served: who else has to ask again. */
void simba__sqlite_wake_successor(struct simba__sqlite_turn *turn);

/** Who was refused listens from now on; who was not, no more. */
void simba__sqlite_watch_or_forget(struct simba__sqlite_turn *turn);

#endif
