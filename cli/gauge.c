/* The file with figures for Prometheus. */
#define _GNU_SOURCE
#include "gauge.h"

#include <simba/metrics.h>

#include <time.h>

/* More often than anybody scrapes. */
enum { BETWEEN_S = 5 };

void simba__gauge_save(struct simba__gauge *gauge)
{
    simba_error error;

    if (simba_metrics_save(gauge->store, gauge->path, &error) != SIMBA_OK) {
        gauge->complain(gauge->user, &error);
    }
}

/* False: it is over. */
static bool sleep_a_while(struct simba__gauge *gauge)
{
    struct timespec until;
    int rc = 0;
    bool is_over;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += BETWEEN_S;
    (void)pthread_mutex_lock(&gauge->lock);
    while (!gauge->is_over && rc == 0) {
        rc = pthread_cond_timedwait(&gauge->told, &gauge->lock, &until);
    }
    is_over = gauge->is_over;
    (void)pthread_mutex_unlock(&gauge->lock);
    return !is_over;
}

static void *keep(void *argument)
{
    struct simba__gauge *gauge = argument;

    do {
        simba__gauge_save(gauge);
    } while (sleep_a_while(gauge));
    return NULL;
}

void simba__gauge_start(struct simba__gauge *gauge)
{
    pthread_condattr_t attributes;

    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&gauge->lock, NULL);
    (void)pthread_cond_init(&gauge->told, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    gauge->is_over = false;
    gauge->is_running = pthread_create(&gauge->thread, NULL, keep, gauge) == 0;
}

void simba__gauge_stop(struct simba__gauge *gauge)
{
    if (!gauge->is_running) {
        return;
    }
    (void)pthread_mutex_lock(&gauge->lock);
    gauge->is_over = true;
    (void)pthread_cond_broadcast(&gauge->told);
    (void)pthread_mutex_unlock(&gauge->lock);
    (void)pthread_join(gauge->thread, NULL);
    gauge->is_running = false;
}
