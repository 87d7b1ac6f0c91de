#define _GNU_SOURCE
#include "runtime/meter.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

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

static int64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* --- finding the mutex --------------------------------------------------- */

static simba_counts *find_or_make(struct simba__tallies *tallies,
                                  const char *mutex)
{
    struct simba__tally *tally =
        (void *)simba__hash_find(&tallies->mutexes, mutex);

    if (tally == NULL && tallies->mutexes.count < SIMBA__TALLY_MOST) {
        tally = simba__hash_new(&tallies->mutexes, sizeof *tally, mutex);
    }
    if (tally == NULL) {
        tallies->has_others = true;
        return &tallies->others;
    }
    return &tally->counts;
}

/* Late: a thousand who only wait need no memory for it. */
static simba_counts *counts_of(struct simba__meter *meter)
{
    if (meter->counts == NULL) {
        meter->counts = find_or_make(meter->tallies, meter->mutex);
    }
    return meter->counts;
}

void simba__tallies_free(struct simba__tallies *tallies)
{
    struct simba__hash_link *next;

    for (struct simba__hash_link *l = simba__hash_next(&tallies->mutexes, NULL);
         l != NULL; l = next) {
        next = simba__hash_next(&tallies->mutexes, l);
        free(l);
    }
    simba__hash_fini(&tallies->mutexes);
}

/* --- what happens -------------------------------------------------------- */

void simba__meter_open(struct simba__meter *meter,
                       struct simba__tallies *tallies,
                       const char *mutex)
{
    *meter = (struct simba__meter){.tallies = tallies, .mutex = mutex};
    tallies->contenders++;
}

void simba__meter_close(struct simba__meter *meter)
{
    meter->tallies->contenders--;
}

void simba__meter_ask(struct simba__meter *meter)
{
    if (!meter->is_waiting) {
        meter->is_waiting = true;
        meter->was_refused = false;
        meter->since_us = now_us();
    }
}

static void begin_tenure(struct simba__meter *meter)
{
    simba_counts *counts = counts_of(meter);
    int64_t now = now_us();

    counts->acquires++;
    counts->hand_overs += meter->was_refused ? 1 : 0;
    add(&counts->wait, now - meter->since_us);
    meter->is_waiting = false;
    meter->is_owner = true;
    meter->since_us = now;
    meter->tallies->owned++;
}

static uint64_t *count_of_cause(simba_counts *counts, enum simba__cause cause)
{
    switch (cause) {
    case SIMBA__CAUSE_EXPIRED:
        return &counts->lost_expired;
    case SIMBA__CAUSE_GONE:
        return &counts->lost_gone;
    case SIMBA__CAUSE_MAX_HOLD:
        return &counts->lost_max_hold;
    case SIMBA__CAUSE_STALLED:
        return &counts->lost_stalled;
    case SIMBA__CAUSE_STOP:
        break;
    }
    return &counts->releases;
}

static void end_tenure(struct simba__meter *meter, enum simba__cause cause)
{
    simba_counts *counts = counts_of(meter);

    (*count_of_cause(counts, cause))++;
    add(&counts->hold, now_us() - meter->since_us);
    meter->is_owner = false;
    meter->tallies->owned--;
}

void simba__meter_tell(struct simba__meter *meter,
                       const struct simba__contend_update *update)
{
    unsigned tell = update->tell;

    if ((tell & SIMBA__TELL_RELEASED) && meter->is_owner) {
        end_tenure(meter, update->cause);
    }
    if (tell & SIMBA__TELL_ACQUIRED) {
        begin_tenure(meter);
    }
    if (tell & SIMBA__TELL_OVERRUN) {
        counts_of(meter)->overruns++;
    }
    if (tell & SIMBA__TELL_UNRELEASED) {
        counts_of(meter)->unreleased++;
    }
    if (tell & SIMBA__TELL_CLOCK_JUMP) {
        counts_of(meter)->clock_jumps++;
    }
    if ((tell & SIMBA__TELL_STOPPED) && meter->is_waiting) {
        counts_of(meter)->abandoned++;
        meter->is_waiting = false;
    }
}

void simba__meter_renewed(struct simba__meter *meter,
                          bool is_granted,
                          int64_t margin_ms)
{
    if (is_granted) {
        counts_of(meter)->renewals++;
        add(&counts_of(meter)->renewal_margin, margin_ms * 1000);
    } else {
        counts_of(meter)->renewal_failures++;
    }
}
