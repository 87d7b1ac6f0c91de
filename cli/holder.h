/* The guardian's thread that talks to the store. Its calls may block for as
 * long as a store can be silent, and the guardian must never be kept from its
 * deadline by that. */
#ifndef SIMBA_CLI_HOLDER_H
#define SIMBA_CLI_HOLDER_H

#include "gauge.h"
#include "job.h"
#include "patience.h"

#include <simba/locker.h>

#include <pthread.h>

enum simba__holder_state {
    SIMBA__HOLDER_BUSY,     /* opening, acquiring or releasing */
    SIMBA__HOLDER_PAUSED,   /* left the line or yielded (`error` tells trouble),
                               and waits for an order */
    SIMBA__HOLDER_HELD,     /* acquired; waits for an order */
    SIMBA__HOLDER_FAILED,   /* not acquired, see `error`; closes the store */
    SIMBA__HOLDER_RELEASED, /* or left; `error` tells trouble; all is closed */
};

enum simba__holder_order {
    SIMBA__HOLDER_WAIT,
    SIMBA__HOLDER_ACQUIRE,
    SIMBA__HOLDER_YIELD, /* release, to acquire again later */
    SIMBA__HOLDER_RELEASE
};

struct simba__holder {
    const struct simba__job *job;
    pthread_t guardian; /* gets SIGUSR1 when there is something to look at */
    int link;           /* the library's messages go to the front */
    int64_t wait_until_ms;
    simba_store *store; /* valid once the mutex is held */
    int64_t lease_ms;   /* likewise; ttl + transition */
    struct simba__gauge gauge;
    struct simba__patience patience;
    simba_owner owner; /* whom we wait for; "": unknown */

    _Atomic(simba_locker *) locker;
    _Atomic int state; /* enum simba__holder_state */
    atomic_bool is_lost;
    simba_error error; /* written before `state` */
    simba_error why;   /* written before `is_lost` */

    pthread_mutex_t lock;
    pthread_cond_t told;
    enum simba__holder_order order; /* under the lock */
    bool is_all_gone;               /* under the lock */
    bool is_closed;                 /* under the lock */
};

/** Start the thread, which opens the store and acquires; false with errno. */
bool simba__holder_start(struct simba__holder *holder);

/** Make it stop waiting in the queue; say it again until the state shows it. */
void simba__holder_cancel(struct simba__holder *holder);

/** Acquire again after a pause, yield, or release what is held and close. */
void simba__holder_order(struct simba__holder *holder,
                         enum simba__holder_order order);

/** After a failure: give it a moment to close the store. */
void simba__holder_settle(struct simba__holder *holder);

/** Nothing that used the mutex is left: a loss may now be acknowledged. */
void simba__holder_all_gone(struct simba__holder *holder);

/** Put U and H into the shared page; after a loss they stay as they were. Not
 * to be called once the release was ordered. */
void simba__holder_publish(struct simba__holder *holder);

/** The store's clock less ours, and when it granted the mutex; by the wall
 * clock where the store tells no time. While the mutex is held. */
void simba__holder_clock(const struct simba__holder *holder,
                         int64_t *offset_ms,
                         int64_t *granted_ms);

#endif
