/* What this process knows of those who wait through it, and of the mutexes that
 * they wait for. */
#ifndef SIMBA_SQL_WAITERS_H
#define SIMBA_SQL_WAITERS_H

#include "backends/sql/sql.h"

/** One waiter of this process, as the server has told. */
struct simba__sql_waiter {
    simba_attempt attempt;
    uint64_t position;
    int64_t lapses_ms; /* its lease is to be renewed by then; boot clock */
    uint32_t life_ms;  /* of its lease, unless it asks again */
    bool is_head : 1;
    bool must_ask : 1;    /* there is news for it, or may be */
    bool has_asked : 1;   /* since the last heartbeat */
    bool is_kept : 1;     /* by the present one */
    bool is_expected : 1; /* it was in the queue when that was sent */
};

/** A tenure that somebody waits for the end of, as it was last told. */
struct simba__sql_sighting {
    uint64_t token; /* 0: none, or one of another implementation */
    int64_t ttl_at_ms, transition_at_ms;
    int64_t lease_ms; /* the longest that those who wait ask for */
    int64_t until_ms; /* over by then, if not renewed; boot clock */
};

/** A mutex that somebody of this process waits for or watches. There may be
 * 100,000, most with one waiter each, or one with as many. */
struct simba__sql_subscription {
    struct simba__hash_link link; /* first; by its name */
    union {
        struct simba__sql_waiter one;
        struct simba__sql_waiter *all; /* where more than one wait; in the order
                                        * of positions */
    } waiters;
    uint32_t waiter_count;
    uint32_t seen_waiting; /* how many there are by the present heartbeat */
    struct simba__sql_sighting sighting;
    int64_t held_until_ms; /* as last told: asking earlier makes no sense */

    /* The owner, as last told to those who wait, in a part of its size. */
    struct simba__sql_name *owner; /* NULL: nobody */
    uint64_t token, former;
    int64_t acquired_at_ms, ttl_at_ms, transition_at_ms;
    uint32_t slots, slot;

    uint8_t subscription;             /* an enum simba_subscription */
    bool is_broken : 1, is_asked : 1; /* the owner */
    bool is_foreign : 1;              /* somebody there cannot notify us */
    bool is_crowd : 1; /* several own it, by the last heartbeat */
};

/* --- waiters.c ----------------------------------------------------------- */

struct simba__sql_subscription *simba__sql_subscription_find(
    const struct simba__sql *self,
    const char *mutex);
/** The next after one, or the first after NULL; NULL: no more. */
struct simba__sql_subscription *simba__sql_subscription_next(
    const struct simba__sql *self,
    const struct simba__sql_subscription *after);
void simba__sql_subscriptions_fini(struct simba__sql *self);
/** Those who wait, the first in the queue first. */
struct simba__sql_waiter *simba__sql_waiters(
    struct simba__sql_subscription *at);

/** An acquire has been answered: in the queue. */
void simba__sql_waiter_note(const struct simba__sql_request *request);
/** Keep who owns it. False: no memory; those who wait ask for themselves. */
bool simba__sql_keep_owner(struct simba__sql *self,
                           struct simba__sql_subscription *at,
                           const simba_owner *owner);
/** There is news for it: it is to ask the server. False: it does not wait. */
bool simba__sql_waiter_call(struct simba__sql *self,
                            const char *mutex,
                            simba_attempt attempt);
/** Who comes anew is refused without the server, because it is to wait. */
bool simba__sql_is_early(const struct simba__sql *self, simba_request *asked);
/** Answer an acquire by what is known; false: ask the server. */
bool simba__sql_waiter_answer(struct simba__sql *self, simba_request *asked);
/** It is in the queue no more, or will not be. */
void simba__sql_waiter_forget(struct simba__sql *self,
                              const simba_request *asked);

/** The mutex is owned or offered for so long, by the server's clock, but not
 * longer than by ours. */
void simba__sql_held_until(struct simba__sql_subscription *at, int64_t left_ms);

/** Look at the tenure that was loaded. */
void simba__sql_waiter_look(const struct simba__sql_request *request,
                            struct simba__sql_subscription *at);

/* --- liveness.c ---------------------------------------------------------- */

/** The ttl_at to be written of a tenure that was extended. */
int64_t simba__sql_counted_ttl_at(const simba_owner *was,
                                  const simba_owner *owner);

/** The tenure was looked at, at that time by the server's clock. */
void simba__sql_sight(struct simba__sql_sighting *seen,
                      const simba_owner *owner,
                      int64_t store_ms);

/** Was it over then, by our clock, whatever the server's says? */
bool simba__sql_is_over(const struct simba__sql_sighting *seen, int64_t at_ms);

/* --- heartbeat.c --------------------------------------------------------- */

void simba__sql_heartbeat_plan(struct simba__sql *self);
void simba__sql_heartbeat_fired(simba_timer *timer);
/** Send a heartbeat, without waiting until it is due. */
void simba__sql_heartbeat_now(struct simba__sql *self);
/** Somebody is in the queue anew, or still wants to be. */
void simba__sql_heartbeat_asked(struct simba__sql *self,
                                const struct simba__sql_waiter *waiter,
                                const struct simba__sql_subscription *at);
/** Those whose leases this heartbeat is to renew: attempts, with commas
 * between; to be freed. NULL: no memory. */
char *simba__sql_heartbeat_kept(const struct simba__sql *self);
void simba__sql_heartbeat_answered(struct simba__sql_request *request,
                                   const struct simba__sql_rows *rows);
/** Instead of simba_request_done(). */
void simba__sql_heartbeat_done(struct simba__sql *self, int status);

#endif
