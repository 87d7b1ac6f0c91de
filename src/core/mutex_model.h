/* The rules of one mutex: who may have it, who waits, whom it is offered to.
 *
 * A pure function from a snapshot of what a store keeps of the mutex, as the
 * asking contender ("me") sees it, to a verdict that the store carries out. The
 * snapshot has a constant size: those who own the mutex or are offered it are
 * counted as crowds, and of the queue only its first two are seen, so that a
 * store can gather it by aggregation as well as by walking over a list.
 *
 * Today a mutex has one owner; a crowd is then one or nobody, and its limit 0.
 * mutex_record.h keeps a mutex in memory and runs these rules on it. */
#ifndef SIMBA_CORE_MUTEX_MODEL_H
#define SIMBA_CORE_MUTEX_MODEL_H

#include <simba/sys/request.h>

/** How long the mutex is kept for a waiter that it was offered to. */
#define SIMBA__OFFER_MS 300

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
        /* Reserved, NULL: the id I am asked to hand over to; "@": anybody. A
         * renewal answers it, whatever the verdict. */
        const char *asked;
    } mine;

    /* My attempt. */
    struct {
        bool is_queued;
        bool is_offered;
        bool is_entombed;
        bool is_connected; /* acquire */
        uint64_t position; /* when queued */
    } me;

    /* The first two of the queue, in the store's order. For an acquire I may be
     * one of them; when I am about to leave, I am not. The second is needed
     * only while nobody else owns the mutex or is offered it. */
    struct simba__candidate first, second;

    /* Reserved, not there: whom a release names as its successor, if that one
     * waits and lives; it may be the first or the second as well. */
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
    SIMBA__OFFER_NAMED, /* reserved: the named successor, where there is one */
};

/* What to do, in this order. */
struct simba__verdict {
    enum simba__decision answer;
    bool is_broken; /* break: mark the tenure, it can't be renewed */
    bool evict;     /* end my tenure, my offer, my position */
    enum simba__offer_to offer_to; /* keep it SIMBA__OFFER_MS, and wake it */
    bool wake;    /* wake the second: it knows then when to ask again */
    bool join;    /* be in the queue, at this position */
    bool is_head; /* joined, and nobody alive stands before me */
    uint64_t position;
    uint64_t token;  /* granted, extended */
    uint32_t slot;   /* likewise */
    int64_t wait_ms; /* refused: asking again earlier makes no sense */
};

/** Decide an acquire, renewal, release, leave or break; nothing comes of any
 * other kind. */
struct simba__verdict simba__mutex_decide(
    const struct simba__mutex_snapshot *snapshot,
    const simba_request *request);

#endif
