/* What the tests of the API share: a store by URL (in memory, or the first
 * argument of the program), fresh mutex names, waiting with a deadline. */
#ifndef SIMBA_TESTS_API_HARNESS_H
#define SIMBA_TESTS_API_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <simba.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* Generous: only a fault takes this long. */
enum { PATIENCE_MS = 20000 };

static const char *store_url = "memory:test";

static inline int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline simba_store *open_store(void)
{
    simba_store *store;
    simba_error error;
    int rc = simba_store_open(store_url, NULL, &store, &error);

    if (rc != SIMBA_OK) {
        fail_msg("%s: %s", store_url, error.message);
    }
    return store;
}

/* A name no other test uses, also when several run at once. */
static inline const char *fresh_mutex(void)
{
    static char name[64];
    static _Atomic int counter;

    snprintf(name, sizeof name, "test %d/%d", (int)getpid(),
             atomic_fetch_add(&counter, 1));
    return name;
}

/* Waits until the condition holds; a fault of the code, not of the machine,
 * makes it fail. */
#define await(condition)                                                       \
    do {                                                                       \
        int64_t await_until = now_ms() + PATIENCE_MS;                          \
        while (!(condition)) {                                                 \
            if (now_ms() > await_until) {                                      \
                fail_msg("%s", "waited in vain for " #condition);              \
            }                                                                  \
            nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);            \
        }                                                                      \
    } while (0)

#endif
