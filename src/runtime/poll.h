/* Waiting for descriptors: as poll(2) does, but first looking at them for a
 * while where that pays (core/spin). */
#ifndef SIMBA_RUNTIME_POLL_H
#define SIMBA_RUNTIME_POLL_H

#include "core/spin.h"
#include "runtime/metrics.h"

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* One thread at a time waits by it. */
struct simba__poll {
    struct simba__spin spin;
    struct simba__loop_metrics *metrics;
    /* Whether this machine and this thread may look. */
    bool has_cpus;
    int64_t asked_ns; /* when that was seen; 0: not yet */
    bool is_fit;
    pthread_t thread; /* of which that was seen */
};

/** For who awaits a reply: look at the descriptors until one is ready or
 * nothing comes soon; then sleep. As poll(2) otherwise. */
int simba__poll(struct simba__poll *self,
                struct pollfd *set,
                nfds_t count,
                int timeout_ms);

/** May the cgroups that `list` names, as /proc/self/cgroup does, use so many
 * CPUs? `root` is where they are mounted. What cannot be read does not limit.
 */
bool simba__cgroups_have_cpus(const char *list, const char *root, int cpus);

#endif
