/* One who asks a store by single requests, as the contention machine would,
 * so that a test can say exactly what is asked and when. */
#ifndef SIMBA_TCK_CONTENDER_H
#define SIMBA_TCK_CONTENDER_H

#include "kit.h"

struct tck_contender {
    struct tck *t;
    simba_store *store;
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1]; /* that of the test, at first */
    char id[SIMBA_ID_MAX + 1];             /* a fresh one, at first */
    simba_attempt attempt;
    uint64_t token;       /* of the tenure, 0: none */
    uint64_t position;    /* the first that was given, 0: none */
    uint64_t token_above; /* a new token shall be above it, 0: none */
    uint32_t slots;       /* how many owners it suffers, 0: itself */
    struct tck_times times;
    int64_t waiter_ms; /* how long a position lives unrenewed */
    simba_reply reply; /* the last */
};

/** As simba_probe(); a request of a kind that the backend did not complete
 * before fails at once. */
int tck_probe(struct tck *t,
              simba_store *store,
              simba_request *request,
              simba_error *error);

/** A new one with a new attempt, on the long lease. What it may own is released
 * when the test ends. */
struct tck_contender *tck_contender(struct tck *t, simba_store *store);

/** A new one with a handle of its own. */
struct tck_contender *tck_stranger(struct tck *t);

/** Another mutex, or another id; copied. */
void tck_at(struct tck_contender *p, const char *mutex);
void tck_as(struct tck_contender *p, const char *id);

/** Close its handle; what it owned or waited for is left as it is. */
void tck_gone(struct tck_contender *p);

/** As a contender that starts again: the same id, another attempt. */
void tck_begin_anew(struct tck_contender *p);

/* Each carries out one request, fails the test when the store fails, and
 * returns the reply. */

/** Acquire; join the queue when refused. */
const simba_reply *tck_ask(struct tck_contender *p);
/** Acquire; take no position. */
const simba_reply *tck_try(struct tck_contender *p);
const simba_reply *tck_renew(struct tck_contender *p);
const simba_reply *tck_release(struct tck_contender *p);
/** Release to this one, if it waits. */
const simba_reply *tck_release_to(struct tck_contender *p, const char *id);
/** Ask the oldest owner to hand over to this one; NULL: to the first. */
const simba_reply *tck_hand_over(struct tck_contender *p, const char *id);
/** Tell this about itself; NULL: nothing any more. */
const simba_reply *tck_tell(struct tck_contender *p, const char *text);
/** Release, and refuse the attempt for so long. */
const simba_reply *tck_undo(struct tck_contender *p, int64_t tombstone_ms);
const simba_reply *tck_leave(struct tck_contender *p);
const simba_reply *tck_read(struct tck_contender *p);

/** How many wait in the queue, as a read tells it. */
size_t tck_count_line(struct tck_contender *p);

/** Own it on the short lease, do `again` halfway, and expect that nobody else
 * is granted for a whole lease from then on, and then anybody is. */
void tck_expect_lease_from(struct tck *t,
                           const simba_reply *(*again)(struct tck_contender *));

/** Try until it is granted. Fail when that is before the lease of this length
 * can be over, which somebody else got by a request begun at `sent_ms` and
 * answered by now; or when one is refused that was begun after it must be. */
void tck_expect_lease_between(struct tck_contender *p,
                              int64_t sent_ms,
                              int64_t lease_ms);

/** Ask, and expect to be granted. */
#define EXPECT_GRANTED(p)                                                      \
    (tck_is_granted(p) ? (void)0                                               \
                       : tck_fail((p)->t, TCK_HERE,                            \
                                  "expected %s to be granted; \"%s\" owns it", \
                                  #p, (p)->reply.owner.id))

/** Ask. Where faults are injected a request that was done again may stand in
 * the queue for somebody who has left: then once more, until it is passed. */
bool tck_is_granted(struct tck_contender *p);

/** Ask, and expect to be refused, standing in the queue. */
#define EXPECT_QUEUED(p)                                                       \
    (!tck_ask(p)->mine && (p)->reply.is_queued                                 \
         ? (void)0                                                             \
         : tck_fail((p)->t, TCK_HERE,                                          \
                    "expected %s to wait in the queue; it %s", #p,             \
                    (p)->reply.mine ? "was granted" : "has no position"))

/** Read, and expect this one to own it with its token. */
#define EXPECT_OWNS(p)                                                         \
    do {                                                                       \
        EXPECT_TEXT((p)->t, tck_read(p)->owner.id, (p)->id);                   \
        EXPECT_NUMBER((p)->t, (p)->reply.owner.token, (p)->token);             \
    } while (0)

/** Read, and expect nobody to own it. */
#define EXPECT_FREE(p) EXPECT_TEXT((p)->t, tck_read(p)->owner.id, "")

#endif
