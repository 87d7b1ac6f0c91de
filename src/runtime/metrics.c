#define _GNU_SOURCE
#include "runtime/metrics.h"

#include <stdlib.h>

/* --- histograms ---------------------------------------------------------- */

/* Fine where a fast store's round trips are, coarse where leases and jobs are.
 * Never changed: sums over versions would make no sense. */
static const uint64_t bounds_us[SIMBA_HISTOGRAM_BUCKETS] = {
    50,        100,       250,        500,       1000,     2500,
    5000,      10000,     25000,      50000,     100000,   250000,
    500000,    1000000,   2500000,    5000000,   10000000, 30000000,
    120000000, 600000000, 3600000000, UINT64_MAX};

uint64_t simba_histogram_bound_us(size_t bucket)
{
    return bucket < SIMBA_HISTOGRAM_BUCKETS ? bounds_us[bucket] : UINT64_MAX;
}

size_t simba__histogram_bucket(uint64_t us)
{
    size_t low = 0, high = SIMBA_HISTOGRAM_BUCKETS - 1;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (us <= bounds_us[middle]) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

static void add(simba_histogram *histogram, int64_t us)
{
    uint64_t length = us > 0 ? (uint64_t)us : 0;

    histogram->count++;
    histogram->sum_us += length;
    histogram->buckets[simba__histogram_bucket(length)]++;
}

void simba__metrics_find(struct simba__contender_metrics *self,
                         struct simba__loop_metrics *loop,
                         const char *mutex)
{
    struct simba__hash *mutexes = &loop->mutexes;
    struct simba__mutex_counts *found;

    if (self->counts == NULL) {
        found = (struct simba__mutex_counts *)simba__hash_find(mutexes, mutex);
        if (found == NULL && mutexes->count < SIMBA__METRICS_MOST) {
            found = simba__hash_new(mutexes, sizeof *found, mutex);
        }
        loop->has_others |= found == NULL;
        self->counts = found != NULL ? &found->counts : &loop->others;
    }
}

void simba__loop_metrics_fini(struct simba__loop_metrics *loop)
{
    struct simba__hash_link *link = simba__hash_next(&loop->mutexes, NULL);

    while (link != NULL) {
        struct simba__hash_link *next = simba__hash_next(&loop->mutexes, link);

        free(link);
        link = next;
    }
    simba__hash_fini(&loop->mutexes);
}

/* --- what happens -------------------------------------------------------- */

static void begin(struct simba__contender_metrics *self, int64_t now_us)
{
    self->since_us = (uint64_t)now_us & ((UINT64_C(1) << 56) - 1);
}

static int64_t age_us(const struct simba__contender_metrics *self,
                      int64_t now_us)
{
    return now_us - (int64_t)self->since_us;
}

void simba__metrics_ask(struct simba__contender_metrics *self, int64_t now_us)
{
    if (!self->is_waiting) {
        self->is_waiting = true;
        self->was_refused = false;
        begin(self, now_us);
    }
}

/* Where a tenure that ended so is counted, in simba_counts. */
static const size_t count_of_cause[] = {
    [SIMBA__CAUSE_STOP] = offsetof(simba_counts, releases),
    [SIMBA__CAUSE_EXPIRED] = offsetof(simba_counts, lost_expired),
    [SIMBA__CAUSE_GONE] = offsetof(simba_counts, lost_taken),
    [SIMBA__CAUSE_MAX_HOLD] = offsetof(simba_counts, lost_max_hold),
    [SIMBA__CAUSE_STALLED] = offsetof(simba_counts, lost_stalled),
    [SIMBA__CAUSE_ASKED] = offsetof(simba_counts, releases)};

static void count_end(simba_counts *counts,
                      bool was_broken,
                      enum simba__cause cause)
{
    size_t which = was_broken ? offsetof(simba_counts, lost_broken)
                              : count_of_cause[cause];

    ++*(uint64_t *)(void *)((char *)counts + which);
}

void simba__metrics_tell(struct simba__contender_metrics *self,
                         struct simba__loop_metrics *loop,
                         const struct simba__contend_update *update,
                         int64_t now_us)
{
    simba_counts *counts = self->counts;
    unsigned tell = update->tell;

    if ((tell & SIMBA__TELL_RELEASED) && self->is_owner) {
        count_end(counts, self->was_broken, update->cause);
        add(&counts->hold, age_us(self, now_us));
        self->is_owner = false;
        loop->owned--;
    }
    if (tell & SIMBA__TELL_ACQUIRED) {
        counts->acquires++;
        counts->hand_overs += self->was_refused;
        counts->backstops += (tell & SIMBA__TELL_BACKSTOP) != 0;
        add(&counts->wait, age_us(self, now_us));
        self->is_waiting = false;
        self->is_owner = true;
        begin(self, now_us);
        loop->owned++;
    }
    counts->overruns += (tell & SIMBA__TELL_OVERRUN) != 0;
    counts->unreleased += (tell & SIMBA__TELL_UNRELEASED) != 0;
    counts->clock_jumps += (tell & SIMBA__TELL_CLOCK_JUMP) != 0;
    if ((tell & SIMBA__TELL_STOPPED) && self->is_waiting) {
        counts->abandoned++;
        self->is_waiting = false;
    }
}

void simba__metrics_renewed(struct simba__contender_metrics *self,
                            bool is_granted,
                            int64_t margin_ms)
{
    simba_counts *counts = self->counts;

    if (is_granted) {
        counts->renewals++;
        add(&counts->renewal_margin, margin_ms * 1000);
    } else {
        counts->renewal_failures++;
    }
}
