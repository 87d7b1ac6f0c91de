/* The file with figures for Prometheus: written again and again while simba
 * leads or stands by, on a thread of its own, since a disk may hang. */
#ifndef SIMBA_CLI_GAUGE_H
#define SIMBA_CLI_GAUGE_H

#include <simba/store.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/** What became of the runs of CMD; counted by the guardian. */
struct simba__gauge_runs {
    _Atomic uint64_t started;
    _Atomic uint64_t failed; /* another exit code than 0 */
    _Atomic uint64_t skipped;
    _Atomic int exit_code;      /* of the last one */
    _Atomic int64_t ended_unix; /* when it ended, in seconds; 0: none has */
};

struct simba__gauge {
    simba_store *store;
    const char *path;
    const char *mutex; /* NULL: only what the store's handle has seen */
    struct simba__gauge_runs runs;
    /* Told on that thread why the file could not be written. */
    void (*complain)(void *user, const simba_error *error);
    void *user;

    pthread_t thread;
    bool is_running;
    pthread_mutex_t lock;
    pthread_cond_t told;
    bool is_over; /* under the lock */
};

/** Write the file now. */
void simba__gauge_save(struct simba__gauge *gauge);

/** Start the thread; without one the file is written only by
 * simba__gauge_save(). */
void simba__gauge_start(struct simba__gauge *gauge);

/** End the thread, if there is one, and wait for that. */
void simba__gauge_stop(struct simba__gauge *gauge);

#endif
