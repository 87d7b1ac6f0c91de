/* What the files of the memory store share. */
#ifndef SIMBA_MEMORY_INSTANCE_H
#define SIMBA_MEMORY_INSTANCE_H

#include "backends/memory/memory.h"
#include "core/mutex_record.h"

#include <pthread.h>

struct simba__memory_row {
    struct simba__mutex_record row;
    struct simba__memory_row *next;
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
};

struct simba__memory_space {
    char *name;
    pthread_mutex_t lock; /* guards the entries and the list of handles */
    struct simba__memory_row *entries;
    struct simba__memory *handles;
    struct simba__memory_space *next;
    uint64_t token_floor; /* no tenure of it has a smaller token */
    int users;            /* guarded by spaces_lock */
};

/* A mutex that a handle observes. */
struct simba__memory_eye {
    struct simba__memory_eye *next;
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
};

/* A new owner, as observers are told of it. */
struct simba__memory_change {
    bool is_seen; /* one of the handle that made it observes it */
    simba_owner owner;
    uint64_t ended;
};

struct simba__memory {
    simba_backend base;
    struct simba__memory_space *space;
    struct simba__memory *next;
    struct simba__memory_eye *eyes;     /* guarded by the space's lock */
    struct simba__memory_change change; /* by the operation in hand; likewise */
    uint64_t connection;
};

/* space.c */

/** The space of this name, made when there is none; NULL: out of memory. The
 * handle gets its connection. */
struct simba__memory_space *simba__memory_enter(const char *name,
                                                struct simba__memory *memory);
/** The last one out ends it. */
void simba__memory_leave(struct simba__memory_space *space);

/** A child has no part in its parent's spaces: who waits there is not here. */
void simba__memory_forget_all(void);

/** The handle of a connection, or NULL. With the space locked. */
struct simba__memory *simba__memory_handle(struct simba__memory_space *space,
                                           uint64_t connection);

/** The row of a mutex, made when there is none; NULL: out of memory. With the
 * space locked. */
struct simba__memory_row *simba__memory_find(struct simba__memory_space *space,
                                             const char *mutex);

/* ring.c, all with the space locked */

/** Wake a handle, through its loop. A lost wake-up does no harm (S7). `change`
 * is for observers; NULL: a waiter is called. */
void simba__memory_ring(const struct simba__memory *m,
                        const char *mutex,
                        const struct simba__memory_change *change);

/** Tell all who observe the mutex of the change in hand. Our own are told
 * later, with the space unlocked: they may look. */
void simba__memory_tell(struct simba__memory *self, const char *mutex);

/** Observe it, or do not any more; unlocked. */
void simba__memory_subscription(simba_backend *self,
                                const char *mutex,
                                enum simba_subscription subscription);

#endif
