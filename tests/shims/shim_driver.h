/* What the tests of the shims share: stores and lockers through them, and what
 * the shim stat has counted. */
#ifndef TESTS_SHIMS_SHIM_DRIVER_H
#define TESTS_SHIMS_SHIM_DRIVER_H

#include "fixtures/api_harness.h"
#include "fixtures/directory.h"

#include <simba/sys/stat.h>

#include <pthread.h>

__attribute__((format(printf, 1, 2))) static simba_store *open_url(
    const char *format,
    ...)
{
    simba_store *store;
    simba_error error;
    char url[512];
    va_list args;

    va_start(args, format);
    vsnprintf(url, sizeof url, format, args);
    va_end(args);
    if (simba_store_open(url, NULL, &store, &error) != SIMBA_OK) {
        fail_msg("%s: %s", url, error.message);
    }
    return store;
}

static inline simba_locker *open_locker(simba_store *store, const char *mutex)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;

    options.mutex = mutex;
    options.id = "me \"\\é";
    return must_open_locker(store, &options);
}

static inline simba_stat stat_of(simba_store *store, const char *kind)
{
    simba_stat stat;

    assert_int_equal(simba_stat_read(store, kind, &stat, NULL), SIMBA_OK);
    return stat;
}

/* Once through a mutex; the token. */
static inline uint64_t pass_through(simba_store *store)
{
    simba_locker *locker = open_locker(store, fresh_mutex());
    uint64_t token;

    assert_int_equal(simba_locker_acquire(locker, PATIENCE_MS, &token, NULL),
                     SIMBA_OK);
    assert_true(simba_locker_is_owner(locker));
    assert_int_equal(simba_locker_release(locker, NULL), SIMBA_OK);
    simba_locker_close(locker);
    return token;
}

/* The thread of one who waits; NULL when it was granted. */
static inline void *wait_for_it(void *argument)
{
    return simba_locker_acquire(argument, PATIENCE_MS, NULL, NULL) == SIMBA_OK
               ? NULL
               : argument;
}

/* One has it, the other waits for it and gets it. */
static inline void hand_over(simba_store *store,
                             simba_locker *from,
                             simba_locker *to)
{
    pthread_t thread;
    void *failed;

    assert_int_equal(simba_locker_acquire(from, -1, NULL, NULL), SIMBA_OK);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_it, to), 0);
    await(stat_of(store, "acquire").answered >= 2);
    assert_int_equal(simba_locker_release(from, NULL), SIMBA_OK);
    pthread_join(thread, &failed);
    assert_null(failed);
}

/* The whole trace, to be freed. */
static inline char *read_trace(const char *name)
{
    char path[128];
    char *text = calloc(1, 1 << 20);
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", directory, name);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

#endif
