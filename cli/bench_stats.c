#include "bench_stats.h"

#include <stdlib.h>

static int compare_times(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

static int compare_ratios(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

void simba__bench_sort(int64_t *ns, size_t count)
{
    qsort(ns, count, sizeof(*ns), compare_times);
}

int64_t simba__bench_percentile(const int64_t *sorted,
                                size_t count,
                                size_t per_mille)
{
    size_t index = count * per_mille / 1000;

    return count == 0 ? 0 : sorted[index < count ? index : count - 1];
}

void simba__bench_put_times(struct simba__bench_result *result,
                            int64_t *ns,
                            size_t count)
{
    simba__bench_sort(ns, count);
    result->p50 = simba__bench_percentile(ns, count, 500);
    result->p99 = simba__bench_percentile(ns, count, 990);
    result->p999 = simba__bench_percentile(ns, count, 999);
}

void simba__bench_put_ratios(struct simba__bench_result *result,
                             double *ratios,
                             size_t count)
{
    result->rounds = count;
    if (count > 0) {
        qsort(ratios, count, sizeof(*ratios), compare_ratios);
        result->ratio_p50 = ratios[count / 2];
        result->ratio_low = ratios[count / 10];
        result->ratio_high = ratios[count * 9 / 10];
    }
}
