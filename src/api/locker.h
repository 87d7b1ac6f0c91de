/* A locker, as the locker of several mutexes sees it. */
#ifndef SIMBA_API_LOCKER_H
#define SIMBA_API_LOCKER_H

#include <simba/locker.h>

#include "api/contender.h"

struct simba_locker {
    struct simba__contender base; /* first: hooks get this */
    struct simba__serial_queue serial_queue;
    struct simba__task lost_task;
    void (*on_lost)(void *user, const simba_error *why);
    void *user;
    struct simba__message stopping;
    uint64_t wakes; /* how often who waits was to look again */
    pthread_cond_t changed;
    const _Atomic bool *veto; /* NULL, or: wait no more when it is set */

    /* Inside the loop only. */
    bool is_started;   /* from START until STOPPED */
    bool is_stopping;  /* the stop is on its way */
    bool is_acquiring; /* a thread is inside acquire */
    bool is_granted;   /* acquired since START, perhaps lost again */
    bool is_held;      /* acquired, and neither released nor lost */
    bool is_lost;      /* lost since it was acquired */
    bool is_cancelled;
    bool is_patient; /* not content with one try */
    bool is_refused; /* the store said no at least once */
    bool is_unreleased;
    int failure; /* newest status of a request */
    simba_error error, why;
    uint64_t token;
    uint64_t stops; /* counted */

    /* Read from any thread. */
    _Atomic int64_t granted_ms;     /* store's time; INT64_MIN: not told */
    _Atomic int64_t store_ahead_ms; /* of our clock, at least; INT64_MIN: not
                                       known */
    _Atomic uint32_t slot;          /* of the present or last tenure */
    _Atomic uint32_t session_ms;    /* of the store; 0: it has none */
    struct simba__contend_tenure tenure; /* the machine's */
};

#endif
