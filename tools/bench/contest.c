/* The rounds of a measurement, and its percentiles. */
#define _GNU_SOURCE
#include "bench/bench.h"
#include "cli/cli.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

enum {
    ROUNDS_LEAST = 15,
    ROUNDS_MOST = 61,
    ROUND_MS = 60, /* about so long, both sides together */
    WARM_UP = 8    /* exchanges that are not counted */
};

/* All that was measured of one side; those of the present round last. */
struct series {
    int64_t *ns;
    size_t count, room, round_from;
};

struct contest {
    const struct simba__bench_plan *plan;
    const struct simba__bench_side *sides;
    struct series series[SIMBA__BENCH_SIDES];
    double *ratios[SIMBA__BENCH_SIDES]; /* of ours to this side's, by round */
    int64_t cpu_ns;                     /* of ours */
    size_t rounds;
    size_t batch; /* exchanges of each side in a round */
    size_t extra; /* so many of the first rounds have one more */
};

int64_t simba__bench_now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t cpu_now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int simba__bench_cancel(simba_error *error)
{
    return simba_error_set(error, SIMBA_ECANCELED, 0, "interrupted");
}

/* --- percentiles --------------------------------------------------------- */

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
    qsort(ns, count, sizeof *ns, compare_times);
}

int64_t simba__bench_percentile(const int64_t *sorted,
                                size_t count,
                                size_t per_mille)
{
    size_t index = count * per_mille / 1000;

    assert(per_mille <= 1000);
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
    simba__bench_put_spread(&result->spreads[0], ns, count);
}

void simba__bench_put_spread(struct simba__bench_spread *spread,
                             const int64_t *sorted,
                             size_t count)
{
    spread->count = count;
    for (size_t i = 0; i <= SIMBA__BENCH_STEPS; i++) {
        spread->at[i] = simba__bench_percentile(sorted, count,
                                                i * 1000 / SIMBA__BENCH_STEPS);
    }
}

void simba__bench_put_ratios(struct simba__bench_result *result,
                             double *ratios,
                             size_t count)
{
    result->rounds = count;
    if (count > 0) {
        qsort(ratios, count, sizeof *ratios, compare_ratios);
        result->ratio_p50 = ratios[count / 2];
        result->ratio_low = ratios[count / 10];
        result->ratio_high = ratios[count * 9 / 10];
    }
}

/* --- rounds -------------------------------------------------------------- */

/* Of the present round, which is sorted by it. */
static int64_t round_median(struct series *series)
{
    size_t count = series->count - series->round_from;
    int64_t *ns = series->ns + series->round_from;

    assert(count > 0);
    simba__bench_sort(ns, count);
    return simba__bench_percentile(ns, count, 500);
}

static int measure(struct contest *contest,
                   int which,
                   size_t times,
                   simba_error *error)
{
    const struct simba__bench_side *side = &contest->sides[which];
    struct series *series = &contest->series[which];
    int64_t begun_ns;
    int rc = SIMBA_OK;

    assert(side->once != NULL);
    series->round_from = series->count;
    begun_ns = cpu_now_ns();
    while (times-- > 0 && rc == SIMBA_OK && series->count < series->room) {
        rc = side->once(side->self, &series->ns[series->count], error);
        series->count += rc == SIMBA_OK ? 1 : 0;
        rc = simba__interrupt() == 0 ? rc : simba__bench_cancel(error);
    }
    contest->cpu_ns += which == 0 ? cpu_now_ns() - begun_ns : 0;
    return rc;
}

static bool has(const struct contest *contest, int which)
{
    return which == 0 || contest->sides[which].self != NULL;
}

/* Who begins changes with every round. */
static int run_round(struct contest *contest, simba_error *error)
{
    size_t times = contest->batch + (contest->rounds < contest->extra ? 1 : 0);
    int first = (int)(contest->rounds % SIMBA__BENCH_SIDES);
    int rc = SIMBA_OK;

    assert(contest->rounds < ROUNDS_MOST);
    for (int i = 0; i < SIMBA__BENCH_SIDES && rc == SIMBA_OK; i++) {
        int which = (first + i) % SIMBA__BENCH_SIDES;

        if (has(contest, which)) {
            rc = measure(contest, which, times, error);
        }
    }
    for (int i = 1; i < SIMBA__BENCH_SIDES && rc == SIMBA_OK; i++) {
        if (has(contest, i)) {
            contest->ratios[i][contest->rounds] =
                (double)round_median(&contest->series[0]) /
                (double)round_median(&contest->series[i]);
        }
    }
    contest->rounds++;
    return rc;
}

size_t simba__bench_round_count(const struct simba__bench_plan *plan)
{
    size_t fitting = (size_t)(plan->length_ms / ROUND_MS);

    if (plan->is_slow) {
        fitting = plan->most;
    }
    fitting = fitting < ROUNDS_LEAST ? ROUNDS_LEAST : fitting;
    fitting = fitting > ROUNDS_MOST ? ROUNDS_MOST : fitting;
    return plan->most != 0 && plan->most < fitting ? plan->most : fitting;
}

/* Warms up, and finds how many exchanges fit into a round. */
static int size_rounds(struct contest *contest,
                       size_t rounds,
                       simba_error *error)
{
    const struct simba__bench_plan *plan = contest->plan;
    int64_t begun_ns = simba__bench_now_ns(), each_ns;
    int rc = SIMBA_OK;

    assert(rounds > 0 && rounds <= ROUNDS_MOST);
    for (int i = 0; i < SIMBA__BENCH_SIDES && rc == SIMBA_OK; i++) {
        if (has(contest, i)) {
            rc = measure(contest, i, WARM_UP, error);
        }
        contest->series[i].count = 0;
    }
    contest->cpu_ns = 0;
    each_ns = (simba__bench_now_ns() - begun_ns) / WARM_UP + 1;
    contest->batch = (size_t)(plan->length_ms * 1000000 / each_ns) / rounds + 1;
    if (plan->most != 0 && contest->batch > plan->most / rounds) {
        contest->batch = plan->most / rounds;
        contest->extra = plan->most % rounds;
    }
    if (contest->batch > contest->series[0].room / rounds) {
        contest->batch = contest->series[0].room / rounds;
    }
    return rc;
}

static int run_rounds(struct contest *contest,
                      size_t rounds,
                      simba_error *error)
{
    const struct simba__bench_plan *plan = contest->plan;
    int64_t until_ns = simba__bench_now_ns() + plan->length_ms * 1000000;
    bool is_over = false;
    int rc = SIMBA_OK;

    contest->batch = 1;
    if (!plan->is_slow) {
        rc = size_rounds(contest, rounds, error);
    }
    while (rc == SIMBA_OK && contest->rounds < rounds && !is_over) {
        rc = run_round(contest, error);
        is_over = plan->is_slow && simba__bench_now_ns() > until_ns;
        plan->progress(plan->user,
                       is_over ? 100 : (int)(contest->rounds * 100 / rounds));
    }
    return rc;
}

/* --- the whole ----------------------------------------------------------- */

/* Of one that ours is compared with: its median, and the ratios to it. */
static int64_t sum_up_side(struct contest *contest,
                           int which,
                           struct simba__bench_result *result)
{
    struct series *side = &contest->series[which];

    simba__bench_sort(side->ns, side->count);
    simba__bench_put_spread(&result->spreads[which], side->ns, side->count);
    simba__bench_put_ratios(result, contest->ratios[which], contest->rounds);
    return simba__bench_percentile(side->ns, side->count, 500);
}

static void sum_up(struct contest *contest, struct simba__bench_result *result)
{
    struct series *ours = &contest->series[0];
    int64_t total_ns = 0;

    for (size_t i = 0; i < ours->count; i++) {
        total_ns += ours->ns[i];
    }
    *result = (struct simba__bench_result){
        .count = ours->count,
        .seconds = (double)total_ns / 1e9,
        .per_second =
            total_ns == 0 ? 0 : (double)ours->count * 1e9 / (double)total_ns,
        .rounds = contest->rounds,
        .cpu_each =
            ours->count == 0 ? 0 : contest->cpu_ns / (int64_t)ours->count,
    };
    simba__bench_put_times(result, ours->ns, ours->count);
    if (has(contest, 2)) {
        result->spinning_p50 = sum_up_side(contest, 2, result);
        result->spinning_ratio_p50 = result->ratio_p50;
    }
    if (has(contest, 1)) {
        result->floor_p50 = sum_up_side(contest, 1, result);
    }
}

int simba__bench_run(const struct simba__bench_plan *plan,
                     const struct simba__bench_side sides[SIMBA__BENCH_SIDES],
                     struct simba__bench_result *result,
                     simba_error *error)
{
    enum { ROOM = 1 << 20 };
    struct contest contest = {.plan = plan, .sides = sides};
    int rc = SIMBA_OK;

    for (int i = 0; i < SIMBA__BENCH_SIDES; i++) {
        contest.series[i].ns = calloc(ROOM, sizeof(int64_t));
        contest.series[i].room = ROOM;
        contest.ratios[i] = calloc(ROUNDS_MOST, sizeof(double));
        if (contest.series[i].ns == NULL || contest.ratios[i] == NULL) {
            rc = simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
        }
    }
    if (rc == SIMBA_OK) {
        rc = run_rounds(&contest, simba__bench_round_count(plan), error);
    }
    if (rc == SIMBA_OK) {
        sum_up(&contest, result);
    }
    for (int i = 0; i < SIMBA__BENCH_SIDES; i++) {
        free(contest.series[i].ns);
        free(contest.ratios[i]);
    }
    return rc;
}
