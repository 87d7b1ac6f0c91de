/* What the two files of the locker of several mutexes share. */
#ifndef SIMBA_API_MULTI_LOCKER_H
#define SIMBA_API_MULTI_LOCKER_H

#include <simba/multi_locker.h>

#include "api/locker.h"

#include <pthread.h>

struct simba__member {
    simba_multi_locker *multi;
    simba_locker *locker;
    const char *mutex; /* the locker's */
    size_t index;      /* where the user gave it */
    uint64_t token;    /* of the newest acquire */
};

enum simba__loss {
    SIMBA__LOSS_UNTOLD,
    SIMBA__LOSS_IN_TELLING,
    SIMBA__LOSS_TOLD
};

struct simba_multi_locker {
    simba_store *store;
    void (*on_lost)(void *user, const char *mutex, const simba_error *why);
    void *user;

    /* Given to the lockers: an acquire that sees it set gives up. */
    _Atomic bool veto;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    struct simba__member *acquiring; /* the one that is being waited for */
    bool is_acquiring;               /* a thread is inside acquire */
    bool is_cancelled;
    bool is_lost; /* one of those acquired is not ours any more */
    bool is_held; /* all are, since when a loss is told */
    enum simba__loss telling;
    simba_error why;

    size_t count;
    struct simba__member members[]; /* in the order of their bytes */
};

/** on_lost of a member. */
void simba__member_lost(void *user, const simba_error *why);

#endif
