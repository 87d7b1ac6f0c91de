/* Snapshots of what was counted. */
#define _GNU_SOURCE
#include "api/metrics.h"

#include <stdlib.h>
#include <string.h>

void simba_metrics_free(simba_metrics *metrics)
{
    if (metrics != NULL) {
        free(metrics->mutexes);
        free(metrics->store_name);
        free(metrics);
    }
}

/* --- inside the loop ----------------------------------------------------- */

static void copy_mutex(simba_metrics *metrics,
                       const char *name,
                       const simba_counts *counts)
{
    struct simba__mutex_metrics *to = &metrics->mutexes[metrics->count++];

    memcpy(to->mutex, name, strlen(name) + 1);
    to->counts = *counts;
}

static void copy_store(simba_metrics *metrics, struct simba__tallies *tallies)
{
    metrics->store.reconnects = atomic_load(&tallies->reconnects);
    metrics->store.callback_waits = atomic_load(&tallies->callback_waits);
    metrics->store.operations = tallies->operations;
    metrics->store.contenders = tallies->contenders;
    metrics->store.owned = tallies->owned;
}

static bool copy_all(simba_metrics *metrics, struct simba__tallies *tallies)
{
    metrics->mutexes = calloc(tallies->count + 1, sizeof *metrics->mutexes);
    if (metrics->mutexes == NULL) {
        return false;
    }
    for (size_t i = 0; i < SIMBA__TALLY_BUCKETS; i++) {
        for (const struct simba__tally *t = tallies->buckets[i]; t != NULL;
             t = t->next) {
            copy_mutex(metrics, t->mutex, &t->counts);
        }
    }
    if (tallies->has_others) {
        copy_mutex(metrics, "", &tallies->others);
    }
    copy_store(metrics, tallies);
    return true;
}

/* --- reading ------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct simba__mutex_metrics *)a)->mutex,
                  ((const struct simba__mutex_metrics *)b)->mutex);
}

int simba_metrics_read(simba_store *store,
                       simba_metrics **out,
                       simba_error *error)
{
    int rc = simba__store_check(store, error);
    simba_metrics *metrics;
    bool is_copied = false;

    *out = NULL;
    if (rc != SIMBA_OK) {
        return rc;
    }
    metrics = calloc(1, sizeof *metrics);
    if (metrics != NULL) {
        metrics->store_name = strdup(store->name);
    }
    if (metrics != NULL && metrics->store_name != NULL) {
        simba_loop_enter(store->loop);
        is_copied = copy_all(metrics, &store->loop->tallies);
        simba_loop_leave(store->loop);
    }
    if (!is_copied) {
        simba_metrics_free(metrics);
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    qsort(metrics->mutexes, metrics->count, sizeof *metrics->mutexes, by_name);
    *out = metrics;
    return SIMBA_OK;
}

const simba_store_counts *simba_metrics_store(const simba_metrics *metrics)
{
    return &metrics->store;
}

size_t simba_metrics_count(const simba_metrics *metrics)
{
    return metrics->count;
}

const char *simba_metrics_mutex(const simba_metrics *metrics, size_t index)
{
    return index < metrics->count ? metrics->mutexes[index].mutex : "";
}

static const simba_counts nothing;

const simba_counts *simba_metrics_counts(const simba_metrics *metrics,
                                         size_t index)
{
    return index < metrics->count ? &metrics->mutexes[index].counts : &nothing;
}

const simba_counts *simba_metrics_of(const simba_metrics *metrics,
                                     const char *mutex)
{
    for (size_t i = 0; i < metrics->count; i++) {
        if (strcmp(metrics->mutexes[i].mutex, mutex) == 0) {
            return &metrics->mutexes[i].counts;
        }
    }
    return &nothing;
}
