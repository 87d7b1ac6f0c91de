/* What operations added to their answers, for tests without the API. */
#ifndef TESTS_BACKENDS_REDIS_NOTED_H
#define TESTS_BACKENDS_REDIS_NOTED_H

#include <simba/backend.h>

enum { NOTED_MOST = 64 };

struct noted {
    simba_waiter waiters[NOTED_MOST];
    int waiter_count;
    struct {
        char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
        simba_owner owner;
        int waiting;
    } mutexes[NOTED_MOST];
    int mutex_count;
    struct {
        enum simba_gravity gravity;
        char name[32];
        char text[256];
    } findings[NOTED_MOST];
    int finding_count;
};

extern struct noted noted;

#endif
