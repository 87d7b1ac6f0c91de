/* The file with figures for Prometheus: written again and again while simba
 * leads or stands by, on a thread of its own, since a disk may hang. */
#ifndef SIMBA_CLI_GAUGE_H
#define SIMBA_CLI_GAUGE_H

#include <simba/store.h>

#include <pthread.h>
#include <stdbool.h>

struct simba__gauge {
    simba_store *store;
    const char *path;
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
