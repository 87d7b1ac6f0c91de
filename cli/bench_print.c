#include "bench_print.h"
#include "json.h"

#include <stdio.h>

static double in_us(int64_t ns)
{
    return (double)ns / 1000;
}

/* --- JSON ---------------------------------------------------------------- */

static void print_head(const struct simba__cli *cli, const char *scenario)
{
    char shown[256];

    simba__opt_show_url(cli->store, shown, sizeof(shown));
    (void)printf("{\"scenario\":");
    simba__json_string(stdout, scenario);
    (void)printf(",\"store\":");
    simba__json_string(stdout, shown);
}

static void print_floor(const struct simba__bench_result *r)
{
    if (r->floor_p50 == 0) {
        (void)printf(",\"floor_p50_us\":null,\"ratio_p50\":null");
        return;
    }
    (void)printf(",\"floor_p50_us\":%.1f,\"ratio_p50\":%.3f,\"rounds\":%zu",
                 in_us(r->floor_p50), r->ratio_p50, r->rounds);
    if (r->floor_per_second > 0) {
        (void)printf(",\"floor_per_second\":%.0f", r->floor_per_second);
    }
}

static void print_times(const struct simba__bench_result *r)
{
    (void)printf(",\"n\":%zu,\"seconds\":%.3f,\"p50_us\":%.1f,\"p99_us\":%.1f,"
                 "\"p999_us\":%.1f,\"per_second\":%.*f",
                 r->count, r->seconds, in_us(r->p50), in_us(r->p99),
                 in_us(r->p999), r->per_second < 10 ? 3 : 0, r->per_second);
    print_floor(r);
    if (r->processes > 0) {
        (void)printf(",\"contenders\":%zu,\"processes\":%zu", r->contenders,
                     r->processes);
    }
    if (r->since != NULL) {
        (void)printf(",\"since\":\"%s\"", r->since);
    }
}

static void print_idle(const struct simba__bench_result *r)
{
    (void)printf(",\"contenders\":%zu,\"seconds\":%.3f,"
                 "\"bytes_per_contender\":%.0f,\"cpu_percent\":%.3f,"
                 "\"store_ops_per_second\":%.3f",
                 r->contenders, r->seconds, r->bytes_each, r->cpu_percent,
                 r->store_ops_per_second);
}

/* --- words --------------------------------------------------------------- */

static void tell_times(const struct simba__bench_result *r, const char *name)
{
    (void)printf("%s: %zu in %.3g s, p50 %.0f µs, p99 %.0f µs, p99.9 %.0f µs, "
                 "%.*f per second\n",
                 name, r->count, r->seconds, in_us(r->p50), in_us(r->p99),
                 in_us(r->p999), r->per_second < 10 ? 1 : 0, r->per_second);
    if (r->since != NULL) {
        (void)printf("counted from %s\n", r->since[0] == 'k'
                                              ? "the kill: this store sees it"
                                              : "the end of the lease");
    }
    if (r->floor_p50 == 0) {
        (void)printf("floor: none for this store\n");
        return;
    }
    (void)printf("floor: p50 %.0f µs", in_us(r->floor_p50));
    if (r->floor_per_second > 0) {
        (void)printf(", %.0f per second", r->floor_per_second);
    }
    (void)printf("; ratio %.2f, the median of %zu round%s (most between %.2f "
                 "and %.2f)\n",
                 r->ratio_p50, r->rounds, r->rounds == 1 ? "" : "s",
                 r->ratio_low, r->ratio_high);
}

static void tell_idle(const struct simba__bench_result *r)
{
    (void)printf(
        "idle: %zu contender%s for %.1f s, %.0f bytes each, %.2f %% of "
        "a CPU, %.1f store operations per second\n",
        r->contenders, r->contenders == 1 ? "" : "s", r->seconds, r->bytes_each,
        r->cpu_percent, r->store_ops_per_second);
}

void simba__bench_print(const struct simba__cli *cli,
                        const char *scenario,
                        const struct simba__bench_result *result)
{
    bool is_idle = result->count == 0 && result->contenders > 0;

    if (!cli->is_json) {
        if (is_idle) {
            tell_idle(result);
        } else {
            tell_times(result, scenario);
        }
        return;
    }
    print_head(cli, scenario);
    if (is_idle) {
        print_idle(result);
    } else {
        print_times(result);
    }
    (void)printf("}\n");
}
