/* What retrievers hear, and owners for them to see. */
#ifndef TESTS_API_RETRIEVAL_DRIVER_H
#define TESTS_API_RETRIEVAL_DRIVER_H

#include "fixtures/api_harness.h"

#include <pthread.h>
#include <string.h>

/* What the retriever heard. */
struct sight {
    pthread_mutex_t lock;
    int changes, gaps;
    char id[SIMBA_ID_MAX + 1];
    uint64_t newest;
    bool is_broken; /* not in order, or told twice */
};

static inline void on_changed(void *user, const simba_state *change)
{
    struct sight *sight = user;

    pthread_mutex_lock(&sight->lock);
    sight->is_broken |= strcmp(sight->id, change->before.id) != 0 ||
                        !simba_state_is_changed(change);
    if (change->after.token != 0) {
        sight->is_broken |= change->after.token <= sight->newest;
        sight->newest = change->after.token;
    }
    sight->changes++;
    sight->gaps += change->has_gap ? 1 : 0;
    strcpy(sight->id, change->after.id);
    pthread_mutex_unlock(&sight->lock);
}

static inline bool heard(struct sight *sight, const char *id)
{
    bool is_so;

    pthread_mutex_lock(&sight->lock);
    is_so = strcmp(sight->id, id) == 0 && (sight->changes > 0 || id[0] == '\0');
    pthread_mutex_unlock(&sight->lock);
    return is_so;
}

static inline simba_locker *acquire(simba_store *store,
                                    const char *mutex,
                                    const char *id)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker;

    options.mutex = mutex;
    options.id = id;
    locker = must_open_locker(store, &options);
    assert_int_equal(simba_locker_acquire(locker, -1, NULL, NULL), SIMBA_OK);
    return locker;
}

#endif
