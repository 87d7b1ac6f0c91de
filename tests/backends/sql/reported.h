/* What a store has added to its last answers. */
#ifndef TESTS_BACKENDS_SQL_REPORTED_H
#define TESTS_BACKENDS_SQL_REPORTED_H

#include <simba/sys/backend.h>

enum { NOTED_MOST = 256 };

struct noted_mutex {
    char name[SIMBA_MUTEX_MAX_BYTES + 1];
    simba_owner owner;
    int waiting;
};

struct noted_finding {
    enum simba_gravity gravity;
    char name[64];
    char text[256];
};

/** Zeroed by who wants to look. */
extern struct noted {
    int waiters, owners, mutexes, findings;
    simba_waiter waiter[NOTED_MOST];
    simba_owner owner[NOTED_MOST];
    struct noted_mutex mutex[NOTED_MOST];
    struct noted_finding finding[NOTED_MOST];
} noted;

/** The finding of that name; fails the test when there is none. */
const struct noted_finding *finding(const char *name);

#endif
