/* One mutex as a store keeps it: the owner, the tenure, the queue, the offer,
 * the tombstones. It gathers the snapshot that the rules of mutex_model.h
 * decide by, and carries out their verdict. Time and liveness are given by the
 * caller.
 *
 * The memory store, SQLite, the SQL servers and the simulator's store run this
 * very code, so what the simulator proves holds for them; the other stores say
 * the same in Lua or znodes. */
#ifndef SIMBA_CORE_MUTEX_RECORD_H
#define SIMBA_CORE_MUTEX_RECORD_H

#include "core/mutex_model.h"

struct simba__waiter {
    simba_attempt attempt;
    uint64_t position;   /* smaller is earlier */
    uint64_t connection; /* through which it last asked */
    int64_t lapses_ms;   /* end of its waiter lease */
    uint32_t slots;
    char id[SIMBA_ID_MAX + 1];
};

struct simba__tenure {
    simba_owner owner;
    simba_attempt attempt;
    uint64_t connection;          /* through which its owner last asked */
    char asked[SIMBA_ID_MAX + 1]; /* to hand over to this id; "@": to anybody */
};

struct simba__tombstone {
    simba_attempt attempt;
    int64_t until_ms;
};

/** Zeroed, it is a mutex that nobody has ever asked for. */
struct simba__mutex_record {
    /* The tenure that began first of those that last; or the last one. */
    union {
        struct simba__tenure first;
        struct {
            simba_owner owner;
            simba_attempt attempt;
        };
    };
    /* Who owns it beside that one, in the order of their tokens. */
    struct simba__tenure *others;
    size_t other_count, other_room;

    uint64_t last_token;   /* none granted is greater */
    uint64_t tenure_token; /* of the present or last tenure */
    uint64_t former_token; /* of the one before that; 0: not known */
    uint64_t last_position;

    bool is_offered; /* to a waiter that has not come yet */
    struct simba__waiter offered;
    int64_t offered_until_ms;

    struct simba__waiter *queue; /* in the order of positions */
    size_t queue_count, queue_room;
    struct simba__tombstone *tombstones;
    size_t tombstone_count, tombstone_room;
};

/* What the record asks of, and says to, the store around it. */
struct simba__mutex_host {
    void *self;
    /* S11: is this waiter's connection still there? */
    bool (*is_connected)(void *self, uint64_t connection);
    /* Wake this waiter; or an owner that is asked to hand over. */
    void (*wake)(void *self, const struct simba__waiter *waiter);
};

/* A request as it reaches the record: with what only the store knows of it. */
struct simba__mutex_request {
    const simba_request *request;
    uint64_t connection;
    int64_t now_ms; /* the store's clock */
    /* How much longer than the request wants it a position is kept, so that
     * not each that asks again must be written. */
    int64_t spare_ms;
};

/** Forget all of it. */
void simba__mutex_fini(struct simba__mutex_record *record);

/** Empty it, but keep the room it has. */
void simba__mutex_clear(struct simba__mutex_record *record);

/** The waiter of this attempt in the queue, or NULL. */
const struct simba__waiter *simba__mutex_find_waiter(
    const struct simba__mutex_record *record,
    simba_attempt attempt);

/** Is the mutex offered to the same waiter until the same time, or to nobody?
 */
bool simba__mutex_is_same_offer(const struct simba__mutex_record *a,
                                const struct simba__mutex_record *b);

/** Its tenures, from 0 on, the oldest first; NULL behind the last. */
struct simba__tenure *simba__mutex_tenure(
    const struct simba__mutex_record *record,
    size_t i);

/** The tenure of this attempt, or NULL. */
struct simba__tenure *simba__mutex_find_tenure(
    const struct simba__mutex_record *record,
    simba_attempt attempt);

/** Its owners whose leases run, one by one, the oldest first; NULL behind the
 * last. `next` is 0 at first. */
const simba_owner *simba__mutex_next_owner(
    const struct simba__mutex_record *record,
    int64_t now_ms,
    size_t *next);

/* What tells whether others own it than at another time. */
struct simba__mutex_owners {
    uint64_t first_token, last_token;
    size_t other_count;
    bool is_shared; /* several may own it */
};

struct simba__mutex_owners simba__mutex_owners(
    const struct simba__mutex_record *record);

/** Do others own it than before, or did somebody between? */
bool simba__mutex_is_other(struct simba__mutex_owners before,
                           struct simba__mutex_owners after);

/** End one of its tenures; the next one moves up. */
void simba__mutex_end(struct simba__mutex_record *record,
                      struct simba__tenure *tenure);

/** Does its lease run? It is over after its last millisecond. */
static inline bool simba__tenure_is_live(const struct simba__tenure *tenure,
                                         int64_t now_ms)
{
    return tenure->owner.id[0] != '\0' &&
           tenure->owner.transition_at_ms >= now_ms;
}

/** Is any lease running? */
bool simba__mutex_is_held(const struct simba__mutex_record *record,
                          int64_t now_ms);

/** Tell who owns it now, and which tenure ended last. */
void simba__mutex_read(const struct simba__mutex_record *record,
                       int64_t now_ms,
                       simba_reply *reply);

/**
 * All its owners as one, for those who know of one only: the id "slots@", and
 * times that end when the last of them ends. Of one owner alone that one.
 */
simba_owner simba__mutex_shown(const struct simba__mutex_record *record,
                               int64_t now_ms);

/**
 * Carry out an acquire, renewal, release, leave, break or asking for a
 * hand-over; what else is asked for only reads.
 *
 * @param[out] reply  may be the request's own
 * @return false when memory ran out: the record is as it was
 */
bool simba__mutex_serve(struct simba__mutex_record *record,
                        const struct simba__mutex_host *host,
                        const struct simba__mutex_request *given,
                        simba_reply *reply);

/* A walk along those who wait and live, in the order of the queue. */
struct simba__waiter_walk {
    const struct simba__mutex_record *record;
    const struct simba__mutex_host *host;
    int64_t now_ms;
    size_t next; /* 0 at first */
};

/** The next of them; `told` may be NULL. False when there is none. */
bool simba__mutex_next_waiter(struct simba__waiter_walk *walk,
                              simba_waiter *told);

#endif
