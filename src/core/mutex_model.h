/* The rules of one mutex: who may have it, who waits, whom it is offered to.
 *
 * A pure function from a snapshot of what a store keeps of the mutex, as the
 * asking contender ("me") sees it, to a verdict that the store carries out. The
 * snapshot has a constant size: those who own the mutex or are offered it are
 * counted as crowds, and of the queue only its first two are seen, so that a
 * store can gather it by aggregation as well as by walking over a list.
 *
 * One number makes a mutex exclusive, shared or a semaphore: the `slots` of who
 * asks. 0: alone. n: "at most n of us while I am in". UINT32_MAX: with anybody
 * who shares. The least limit of all counts, so callers may disagree. Nobody
 * passes another although it would fit, so neither kind starves.
 *
 * mutex_record.h keeps a mutex in memory and runs these rules on it. */
#ifndef SIMBA_CORE_MUTEX_MODEL_H
#define SIMBA_CORE_MUTEX_MODEL_H

#include <simba/sys/request.h>

/** How long the mutex is kept for a waiter that it was offered to. */
#define SIMBA__OFFER_MS 300

/** How long, at most, who fits in waits behind one who waits and does not,
 * before it looks whether that one still lives. */
#define SIMBA__LOOK_AGAIN_MS 2000

/** The owner of a mutex that several own, to those who know of one only. No
 * contender has such an id (S14). */
#define SIMBA__CROWD_ID "slots@"

static inline bool simba__attempt_equal(simba_attempt a, simba_attempt b)
{
    return a.high == b.high && a.low == b.low;
}

/* Some contenders, me not among them, whose leases or offers run. */
struct simba__crowd {
    uint32_t count;
    uint32_t limit;       /* the least of theirs; 0: exclusive */
    int64_t first_end_ms; /* when the first of them ends; the store's clock */
    int64_t last_end_ms;
};

/* One who waits, lives and was offered nothing. */
struct simba__candidate {
    bool is_there;
    bool is_me;
    uint64_t position;
    uint32_t slots;
};

struct simba__mutex_snapshot {
    int64_t now_ms; /* the store's clock */
    struct simba__crowd owners, offered;

    /* My tenure; of a break, the one that is meant. */
    struct {
        bool is_there;
        bool is_live; /* its lease runs */
        bool is_broken;
        int64_t end_ms;
        uint64_t token;
        uint32_t slot, slots;
    } mine;

    /* My attempt. */
    struct {
        bool is_queued;
        bool is_first; /* queued, and nobody alive stands before me */
        bool is_offered;
        bool is_entombed;
        bool is_connected; /* acquire */
        uint64_t position; /* when queued */
    } me;

    /* The first two of the queue, in the store's order. If I am the first, they
     * are the two behind me, and needed only where others may own it beside me;
     * else the second may be me. It is needed only if there is room for the
     * first. Who is about to leave is none of them. */
    struct simba__candidate first, second;

    /* Whom a release, or who asks for a hand-over, names as the successor, if
     * that one waits and lives; it may be the first or the second as well. */
    struct simba__candidate named;

    uint32_t lowest_free_slot;
    uint64_t last_token;    /* none granted is greater */
    uint64_t last_position; /* none given is greater */
};

enum simba__decision {
    SIMBA__REFUSE, /* acquire, renew: no. Whatever else was asked is done */
    SIMBA__GRANT,  /* a new tenure, with this token */
    SIMBA__EXTEND, /* my tenure goes on, with its own token */
};

enum simba__offer_to {
    SIMBA__OFFER_NOBODY,
    SIMBA__OFFER_FIRST,
    SIMBA__OFFER_NAMED, /* the named successor */
};

/* What to do, in this order. */
struct simba__verdict {
    enum simba__decision answer;
    bool is_broken; /* break: mark the tenure, it can't be renewed */
    bool is_asked;  /* hand-over: mark the tenure, and wake its owner */
    bool evict;     /* end my tenure, my offer, my position */
    enum simba__offer_to offer_to; /* keep it SIMBA__OFFER_MS, and wake it */
    bool wake;    /* wake who comes next: it knows then when to ask again. That
                   * is the first that waits and is not offered it now */
    bool join;    /* be in the queue, at this position */
    bool is_head; /* joined, and nobody alive stands before me */
    uint64_t position;
    uint64_t token;  /* granted, extended */
    uint32_t slot;   /* likewise */
    uint32_t slots;  /* likewise: how many this tenure suffers */
    int64_t wait_ms; /* refused: asking again earlier makes no sense */
};

/** How many may own it while one is in who gave this limit. */
static inline uint32_t simba__slots_limit(uint32_t slots)
{
    return slots == 0 ? 1 : slots;
}

/** The lesser of two limits; 0 is the least. */
static inline uint32_t simba__slots_least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/** Does one more with this limit fit in? */
bool simba__mutex_has_room(const struct simba__mutex_snapshot *snapshot,
                           uint32_t slots);

/** Decide an acquire, renewal, release, leave, break or the asking for a
 * hand-over; nothing comes of any other kind. */
struct simba__verdict simba__mutex_decide(
    const struct simba__mutex_snapshot *snapshot,
    const simba_request *request);

#endif
