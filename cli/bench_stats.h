/* Percentiles of what was measured. */
#ifndef SIMBA_CLI_BENCH_STATS_H
#define SIMBA_CLI_BENCH_STATS_H

#include "bench.h"

/** Sort times, and tell the one at so many per mille; 0 of none. */
void simba__bench_sort(int64_t *ns, size_t count);
int64_t simba__bench_percentile(const int64_t *sorted,
                                size_t count,
                                size_t per_mille);

/** The percentiles of our side; `ns` is sorted by it. */
void simba__bench_put_times(struct simba__bench_result *result,
                            int64_t *ns,
                            size_t count);

/** The median of the rounds' ratios, and between what most are; `ratios` is
 * sorted by it. */
void simba__bench_put_ratios(struct simba__bench_result *result,
                             double *ratios,
                             size_t count);

#endif
