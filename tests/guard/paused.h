/* The story of every guard: an owner is paused between its acquire and its
 * write, is succeeded, and wakes up believing. What it then writes must be
 * refused. */
#ifndef SIMBA_TESTS_GUARD_PAUSED_H
#define SIMBA_TESTS_GUARD_PAUSED_H

#include "../api/harness.h"

#include <simba/sys/probe.h>

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

/* How a resource is written, once, under a token: SIMBA_OK, or SIMBA_ELOST. */
typedef int (*writer)(uint64_t token, const char *text);

#define GUARDED_MUTEX "guarded resource"

/* The shortest lease that the store takes, but not shorter than asked for. */
static inline simba_locker *open_guarded(simba_store *store, int64_t lease_ms)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    int64_t least_ms = simba_probe_ops(store)->least_lease_ms;
    simba_locker *locker;
    simba_error error;

    lease_ms = lease_ms > least_ms ? lease_ms : least_ms;
    options.mutex = GUARDED_MUTEX;
    options.times.ttl_ms = lease_ms / 2;
    options.times.transition_ms = lease_ms - options.times.ttl_ms;
    if (simba_locker_open(store, &options, &locker, &error) != SIMBA_OK) {
        fputs(error.message, stderr);
        abort();
    }
    return locker;
}

/* Acquires, writes, is stopped before it writes again, and does so when it
 * runs again. Its exit code says how far it came. */
static inline void be_paused(const char *url,
                             int64_t lease_ms,
                             writer write_once)
{
    simba_store *store;
    uint64_t token;

    if (simba_store_open(url, NULL, &store, NULL) != SIMBA_OK ||
        simba_locker_acquire(open_guarded(store, lease_ms), -1, &token, NULL) !=
            SIMBA_OK) {
        _exit(1);
    }
    if (write_once(token, "old owner") != SIMBA_OK) {
        _exit(2);
    }
    raise(SIGSTOP);
    _exit(write_once(token, "too late") == SIMBA_ELOST ? 0 : 3);
}

/* Afterwards the resource holds "new again". */
static inline void pause_an_owner(const char *url,
                                  int64_t lease_ms,
                                  writer write_once)
{
    simba_store *store;
    simba_locker *locker;
    uint64_t token;
    pid_t child = fork();
    int status;

    if (child == 0) {
        be_paused(url, lease_ms, write_once);
    }
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    if (!WIFSTOPPED(status)) {
        fail_msg("the first owner ended with status %x", (unsigned)status);
    }
    assert_int_equal(simba_store_open(url, NULL, &store, NULL), SIMBA_OK);
    locker = open_guarded(store, lease_ms);
    assert_int_equal(
        simba_locker_acquire(locker, 3 * PATIENCE_MS, &token, NULL), SIMBA_OK);
    assert_int_equal(write_once(token, "new owner"), SIMBA_OK);
    kill(child, SIGCONT);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(write_once(token, "new again"), SIMBA_OK);
    simba_locker_close(locker);
    simba_store_close(store);
}

#endif
