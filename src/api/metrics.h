/* What the snapshot and its printing share. */
#ifndef SIMBA_API_METRICS_H
#define SIMBA_API_METRICS_H

#include <simba/metrics.h>
#include <simba/owner.h>

#include "api/store.h"

struct simba__mutex_metrics {
    simba_counts counts;
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
};

struct simba_metrics {
    char *store_name; /* its URL without secrets */
    simba_store_counts store;
    size_t count;
    struct simba__mutex_metrics *mutexes; /* sorted by name */
};

#endif
