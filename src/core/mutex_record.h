/* One mutex as a store keeps it: the owner, the tenure, the line, the called
 * waiter, the tombstones. Time and liveness are given by the caller.
 *
 * It is the heart of the memory store and the model store of the simulator, so
 * what the simulator proves holds for code that runs; the other stores say the
 * same in SQL, Lua or znodes. */
#ifndef SIMBA_CORE_MUTEX_RECORD_H
#define SIMBA_CORE_MUTEX_RECORD_H

#include "core/contend.h"
#include "simba/owner.h"

#include <stddef.h>

struct simba__waiter {
    struct simba__attempt attempt;
    uint64_t position;   /* smaller is earlier */
    uint64_t connection; /* through which it last asked */
    int64_t lapses_ms;   /* end of its waiter lease */
    char id[SIMBA_ID_MAX + 1];
};

struct simba__tombstone {
    struct simba__attempt attempt;
    int64_t until_ms;
};

struct simba__mutex_record {
    simba_owner owner;
    struct simba__attempt attempt; /* of the owner's tenure */
    uint64_t last_token;           /* none granted is greater */
    uint64_t tenure_token;         /* of the present or last tenure */
    uint64_t former_token;         /* of the one before that; 0: not known */
    uint64_t last_position;

    bool is_offered; /* to a waiter that has not come yet */
    struct simba__waiter offered;
    int64_t offered_until_ms;

    struct simba__waiter *queue; /* in the order of positions */
    size_t queue_count, queue_room;
    struct simba__tombstone *tombstones;
    size_t tombstone_count, tombstone_room;
};

/* What the row asks of, and says to, the store around it. */
struct simba__mutex_host {
    void *self;
    /* S11: is this waiter's connection still there? */
    bool (*is_connected)(void *self, uint64_t connection);
    /* Wake this waiter. */
    void (*wake)(void *self, const struct simba__waiter *waiter);
};

struct simba__mutex_call {
    const struct simba__request *request;
    const char *id;
    int64_t ttl_ms, transition_ms;
    uint64_t connection;
    int64_t now_ms; /* the store's clock */
};

void simba__mutex_init(struct simba__mutex_record *row);
void simba__mutex_fini(struct simba__mutex_record *row);

/** Is a lease running? A lease is free after its last millisecond. */
bool simba__mutex_is_held(const struct simba__mutex_record *row,
                          int64_t now_ms);

/** The token of the tenure that ended last, for observers; 0: not known. */
uint64_t simba__mutex_ended(const struct simba__mutex_record *row,
                            int64_t now_ms);

/**
 * Carry out one request of a contender.
 *
 * @return false when memory ran out: the row is as it was
 */
bool simba__mutex_serve(struct simba__mutex_record *row,
                        const struct simba__mutex_host *host,
                        const struct simba__mutex_call *call,
                        struct simba__reply *reply);

/* What an admin asks for. */
struct simba__mutex_break {
    uint64_t token; /* of the tenure that is meant */
    bool at_once;   /* free it now, not at the end of its lease */
    int64_t now_ms; /* the store's clock */
};

/**
 * End a tenure by force: no further renewal; `at_once` also frees it.
 *
 * @return whether the tenure with this token was the present one
 */
bool simba__mutex_break(struct simba__mutex_record *row,
                        const struct simba__mutex_host *host,
                        const struct simba__mutex_break *wish);

#endif
