/* What the history checker knows of one mutex; shared by its files. */
#ifndef SIMBA_VERIFY_TRACK_H
#define SIMBA_VERIFY_TRACK_H

#include "util/hash.h"
#include "verify/across.h"
#include "verify/history.h"

/* How many tenures of a mutex are remembered beside those that are relied on,
 * and for each of these: far more than late answers are of. */
enum { SIMBA__TENURES_MOST = 16, SIMBA__TENURES_EACH = 8 };

/* And how many runs. */
enum { SIMBA__RUNS_MOST = 8 };

#define SIMBA__UNENDED INT64_MAX

struct simba__tenure {
    bool is_former; /* its attempt has had the mutex again since */
    bool is_whole;  /* told by ACQUIRED, not seen in requests */
    struct simba__deed_attempt attempt;
    uint64_t token;
    uint64_t handle;
    char id[SIMBA_ID_MAX + 1];
    struct simba__where where;  /* what began it */
    int64_t from_us, until_us;  /* relied on, as far as is known */
    int64_t asked_us, heard_us; /* of the newest yes */
    int64_t released_us;        /* its release was sent; UNENDED: not yet */
    int64_t ended_us;           /* its end was heard; UNENDED: not yet */
    int64_t broken_us;          /* likewise */
    int64_t overtaken_us;       /* whole: another began meanwhile */
    struct simba__where overtaker;
    char overtaker_id[SIMBA_ID_MAX + 1];
    uint64_t overtaker_token;
    bool is_told; /* an overlap of it */
    uint64_t slots, slot;
    /* By the store's clock, as far as it was told; 0: it was not. */
    int64_t store_from_ms; /* its first yes */
    int64_t store_ms;      /* its newest yes, */
    int64_t store_us;      /* and when that was heard, by the boot clock */
    int64_t alive_us;      /* the newest sign of life of its owner */
};

/* A request under way. */
struct simba__traced_request {
    uint64_t handle, number;
    enum simba__deed_request request;
    struct simba__deed_attempt attempt;
    int64_t sent_us, use_us, waiter_us;
    uint64_t newest_token; /* heard of when it was sent */
    uint64_t token;
    bool now;
};

/* One who asks for the mutex, and may stand in the queue. */
struct simba__traced_waiter {
    struct simba__deed_attempt attempt;
    uint64_t handle;
    char id[SIMBA_ID_MAX + 1];
    int64_t first_us;  /* when it asked first; 0: before it had the mutex */
    int64_t newest_us; /* and last */
    uint64_t position; /* 0: it was not told yet */
    int64_t told_us;   /* when it was first told this one */
    int64_t asked_us;  /* of the last time it was told so */
    int64_t waiter_us; /* the shortest it ever asked for: it may come late */
    bool is_timed;     /* told by the store, which tells its time */
    bool is_doubtful;  /* a question of it came to an unknown end */
    bool is_out;       /* it stands there no more, but comes back to it */
    bool is_passed;    /* somebody got the mutex before it */
    bool is_named;     /* an owner that released it named this one */
    int64_t passed_us;
    struct simba__where passer;
    char passer_id[SIMBA_ID_MAX + 1];
    uint64_t passer_token;
};

/* A run of a command. */
struct simba__run {
    uint64_t number;
    uint64_t token;
    char id[SIMBA_ID_MAX + 1];
    struct simba__where where; /* line 0: there is none */
    int64_t from_us;
    int64_t beat_ms;
    bool is_open; /* its end is still to come */
};

/* S1: do both suffer others, and is each of them another one of those that both
 * let in? Who has a slot of its own below its own limit is one of so many. How
 * many there are without numbers is not seen here. */
#define SIMBA__MAY_OVERLAP(a, b)                                               \
    ((a)->slots > 1 && (b)->slots > 1 &&                                       \
     ((a)->slot == SIMBA_NO_SLOT || (b)->slot == SIMBA_NO_SLOT ||              \
      ((a)->slot != (b)->slot && (a)->slot < (a)->slots &&                     \
       (b)->slot < (b)->slots)))

struct simba__track {
    struct simba__hash_link link; /* its key is the mutex */
    char scope[40];
    uint64_t boot; /* a hash of that */
    struct simba__mutex *mutex;
    /* How far the store's clock is ahead of this one, in ms, as far as it is
     * known, and since when; clock_us 0: not at all. */
    int64_t clock_low_ms, clock_high_ms, clock_us;
    struct simba__tenure *tenures; /* in no order */
    size_t tenure_count, tenure_room;
    uint64_t newest_token;
    int64_t forced_until_us; /* freed by force: exclusion does not hold */
    struct simba__traced_request *pendings;
    size_t pending_count, pending_room;
    struct simba__traced_waiter *waiters;
    size_t waiter_count, waiter_room;
    struct simba__run runs[SIMBA__RUNS_MOST];
    size_t run_next;
    struct simba__run beat; /* the run of the newest beat */
};

/* An overlap with somebody who may be dead. */
struct simba__suspicion {
    uint64_t handle; /* whose sign of life it waits for */
    struct simba__deed deed;
    struct simba__tenure other;
};

struct simba__history {
    struct simba__hash tracks;
    struct simba__hash mutexes;
    struct simba__across across;
    uint64_t untimed_count;
    uint64_t finding_count;
    struct simba__suspicion *suspicions;
    size_t suspicion_count, suspicion_room;
    simba__finding_fn found;
    void *user;
};

/* A deed, the mutex it is about, and who hears of findings. */
struct simba__step {
    struct simba__history *history;
    struct simba__track *track;
    const struct simba__deed *deed;
};

/** Tell a finding; `other` may be NULL. */
void simba__history_tell(const struct simba__step *step,
                         enum simba__finding_kind kind,
                         const struct simba__tenure *other);

/** Tell of an overlap with a tenure when its owner turns out to live. False:
 * no memory. */
bool simba__history_suspect(const struct simba__step *step,
                            const struct simba__tenure *other);

/* --- tenure.c ------------------------------------------------------------ */

/** Make room for one more, so that what follows cannot fail. */
bool simba__tenure_reserve(struct simba__track *track);

/** Has this attempt had the mutex, or been released? */
bool simba__tenure_is_known(struct simba__track *track,
                            struct simba__deed_attempt attempt);
/** The attempt was answered yes. True: a tenure begins. */
bool simba__tenure_granted(const struct simba__step *step,
                           const struct simba__traced_request *asked);
/** The store says no. False: to a question from before it was heard to say
 * yes, which means nothing any more. */
bool simba__tenure_refused(const struct simba__step *step,
                           const struct simba__traced_request *asked);
void simba__tenure_release_sent(const struct simba__step *step);
void simba__tenure_broken(const struct simba__step *step,
                          const struct simba__traced_request *asked);
void simba__tenure_whole(const struct simba__step *step);
void simba__tenure_whole_ended(const struct simba__step *step);

/* --- across.c ------------------------------------------------------------ */

/** Note a tenure that is over, or will not be looked at any more; a beat; that
 * a tenure was ended by force. There must be room. */
void simba__across_note(struct simba__history *history,
                        const struct simba__track *track,
                        const struct simba__tenure *t);
void simba__across_note_beat(const struct simba__step *step);
void simba__across_note_forced(const struct simba__step *step, uint64_t token);

/* --- queue.c ------------------------------------------------------------- */

/** It asks. False: no memory. */
bool simba__queue_asked(const struct simba__step *step);
/** An owner releases the mutex, perhaps to one that it names: that one passes
 * all others, unless somebody has it alone before. */
void simba__queue_named(const struct simba__step *step);
/** It was told its position. */
void simba__queue_heard(const struct simba__step *step,
                        const struct simba__traced_request *asked);
/** It was refused, and told no position: one of several that was broken before
 * it heard that it was granted is told so until its lease is over, and then
 * asks for the position that it had. */
void simba__queue_not_in(const struct simba__step *step);
/** A question of it came to an unknown end. */
void simba__queue_doubt(const struct simba__step *step);
/** A question of it failed: its connection was down, or what it was granted was
 * taken back for want of replicas, and offered on. */
void simba__queue_failed(const struct simba__step *step);
/** Those who wait by this handle were not connected all the while: who is not
 * is not live, and may be passed. */
void simba__queue_cut_off(struct simba__track *track,
                          const struct simba__deed *deed);
/** It stands there no more. */
void simba__queue_gone(const struct simba__step *step);
/** It was answered yes; with a newer question open it may not have noticed. */
void simba__queue_served(const struct simba__step *step,
                         const struct simba__traced_request *asked);
/** It was granted the mutex: does anybody stand before it? */
void simba__queue_granted(const struct simba__step *step,
                          const struct simba__traced_request *asked);

#endif
