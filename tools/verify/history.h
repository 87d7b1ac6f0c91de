/* The history checker: it is told what contenders asked and what they heard,
 * in the order of time, and finds what must never be.
 *
 * Pure but for memory, and temporary files when there is much: no clock. The
 * simulator feeds it with what its contenders do, `simba verify` with the logs
 * of real runs. It knows nothing of the store's inside and believes nobody:
 *
 *     heard yes                                       release sent, or
 *        |------------- owner ----------------------| no longer relied on,
 *                                                     or heard no
 *
 * An owner relies on a yes for `use_us` from when it *asked* (S2), and begins
 * to when it *hears*. Two such intervals of one mutex must not overlap (S1).
 *
 * What it cannot see it does not check: whether a waiter was connected, and
 * what happened outside the logs. */
#ifndef SIMBA_VERIFY_HISTORY_H
#define SIMBA_VERIFY_HISTORY_H

#include <simba/owner.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where something is written; for messages. */
struct simba__where {
    int file;
    uint64_t line;
};

enum simba__deed_kind {
    SIMBA__DEED_SENT,     /* a request goes to the store */
    SIMBA__DEED_ANSWERED, /* and comes to its end */
    SIMBA__DEED_ACQUIRED, /* a whole tenure begins, as its user sees it */
    SIMBA__DEED_ENDED,    /* and ends, at until_us */
    SIMBA__DEED_ALIVE,    /* nothing but a sign of life of its handle */
    SIMBA__DEED_STARTED,  /* a command begins to run: `number`, `beat_ms` */
    SIMBA__DEED_OVER,     /* and nothing of it is left, since until_us */
    SIMBA__DEED_FORCED,   /* freed by force: no exclusion before until_us */
    SIMBA__DEED_FAULT,    /* what befell the store or its users: `id` says it */
};

enum simba__deed_request {
    SIMBA__DEED_OTHER, /* reads and the like */
    SIMBA__DEED_ACQUIRE,
    SIMBA__DEED_RENEW,
    SIMBA__DEED_RELEASE,
    SIMBA__DEED_LEAVE,
    SIMBA__DEED_BREAK,
};

enum simba__deed_outcome {
    SIMBA__DEED_HEARD,
    SIMBA__DEED_FAILED,  /* surely without effect */
    SIMBA__DEED_UNKNOWN, /* may have taken effect, now or later */
};

struct simba__deed_attempt {
    uint64_t high, low;
};

static inline bool simba__deed_attempt_equal(struct simba__deed_attempt a,
                                             struct simba__deed_attempt b)
{
    return a.high == b.high && a.low == b.low;
}

struct simba__deed {
    enum simba__deed_kind kind;
    int64_t at_us;    /* one clock for all deeds of one `scope` */
    int64_t merge_us; /* for reading logs: when to feed it, among all scopes */
    int64_t unix_us;  /* likewise: by the time of day; 0: not told */
    int64_t store_ms; /* ANSWERED, ACQUIRED: the store's clock; 0: not told */
    struct simba__where where;
    char scope[40]; /* whose clock: a boot id */
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
    char id[SIMBA_ID_MAX + 1];
    struct simba__deed_attempt attempt;

    /* SENT, ANSWERED */
    uint64_t handle, number; /* which request */
    enum simba__deed_request request;
    int64_t use_us;    /* SENT acquire, renew: how long a yes is relied on;
                        * ANSWERED: the same, if that is less; 0: it is not */
    int64_t waiter_us; /* SENT acquire: how long a position surely lives */
    bool now;          /* SENT break: frees at once */
    bool undoes;       /* SENT release: with a tombstone */
    enum simba__deed_outcome outcome;
    bool mine;
    uint64_t token; /* SENT break: which; ANSWERED: when mine */
    bool is_queued;
    uint64_t position;
    char to[SIMBA_ID_MAX + 1]; /* SENT release: the successor, or "" */

    /* ANSWERED, ACQUIRED: how many owners it suffers, and which of them it is;
     * 0: itself */
    uint64_t slots, slot;

    /* ENDED: when its user ceased to rely on it; OVER; FORCED */
    int64_t until_us;
    int64_t beat_ms; /* STARTED: when it was due, by the store; 0: no beat */
    bool is_cut_off; /* ALIVE: the connection of its handle was lost, or is
                      * back: all that wait by it are woken */
};

/* An overlap is told when the other owner shows a sign of life: a store that
 * sees crashes passes on at once what a dead process had. */
enum simba__finding_kind {
    SIMBA__OVERLAP,    /* two owners at once (S1) */
    SIMBA__TOKEN_BACK, /* a token not above those before it (S4) */
    SIMBA__TOKEN_TWICE,
    SIMBA__TOKEN_CHANGED, /* within one tenure */
    SIMBA__AFTER_END,     /* a tenure goes on after its end (S5, S8) */
    SIMBA__AFTER_BREAK,   /* a broken tenure was renewed */
    SIMBA__UNFAIR,        /* an earlier live waiter was passed (S11) */
    SIMBA__RUN_OVERLAP,   /* two runs of a command at once */
    SIMBA__BEAT_TWICE,    /* a beat that was run before, or is older */
    SIMBA__FINDING_KINDS
};

/** One thing that must not be. */
struct simba__history_finding {
    enum simba__finding_kind kind;
    const struct simba__deed *deed; /* which showed it */
    struct simba__where other;      /* what it does not go with; line 0: none */
    char other_id[SIMBA_ID_MAX + 1];
    uint64_t token, other_token;
};

/** A short stable word, such as "overlap". */
const char *simba__finding_word(enum simba__finding_kind kind);

typedef void (*simba__finding_fn)(void *user,
                                  const struct simba__history_finding *finding);

struct simba__history;

/** NULL: no memory. */
struct simba__history *simba__history_open(simba__finding_fn found, void *user);
void simba__history_close(struct simba__history *history);

/** Take in one deed, not older than those of its scope before it. False with
 * errno: no memory, or no room for temporary files. */
bool simba__history_add(struct simba__history *history,
                        const struct simba__deed *deed);

/** All deeds were added: compare what is of different scopes. False with
 * errno. */
bool simba__history_finish(struct simba__history *history);

/** Of how many tenures the store's clock was not told, or has made a step:
 * their times were compared within their scope only. Once finished. */
uint64_t simba__history_untimed(const struct simba__history *history);

/** How many mutexes were named, and how many things found. */
size_t simba__history_mutexes(const struct simba__history *history);
uint64_t simba__history_findings(const struct simba__history *history);

#endif
