/* simba bench: how far from what the store allows. The options, and what is
 * printed. */
#define _GNU_SOURCE
#include "bench/bench.h"
#include "cli/command.h"
#include "cli/exit.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/say.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: simba bench SCENARIO [OPTION…]\n"
    "\n"
    "Measure this store, and in turns with it the floor: the same exchange by\n"
    "nothing but the bare client library. The ratio is the median of at least\n"
    "15 rounds, unless -n allows fewer exchanges.\n"
    "\n"
    "  pair        acquire and release by one locker, uncontended\n"
    "  throughput  many mutexes at once through one handle; the ratio is that\n"
    "              of the rates, the floor's to ours\n"
    "  handoff     release in one process until acquired in another\n"
    "  crash       the owner is killed, until acquired in another process:\n"
    "              beyond the end of its lease, or since the kill where the\n"
    "              store sees crashes; each takes as long as a lease\n"
    "  idle        what contenders cost that only wait: bytes, CPU, store\n"
    "              operations; it has no floor\n"
    "\n"
    "  -n N             exchanges at most, besides a few to warm up\n"
    "      --seconds S  take about so long; default: 5, for crash 15 "
    "exchanges\n"
    "      --contenders N\n"
    "                   throughput: at once, in each process; default: 64\n"
    "                   idle: that wait; default: 1000\n"
    "      --processes N\n"
    "                   throughput: so many, each with a handle; default: 1\n"
    "      --store URL, --json, -v, -q, --help\n"
    "                   see 'simba --help'\n"
    "\n"
    "exit codes: 0 measured; 64 usage; 69 store unreachable; 70 a fault of\n"
    "simba; 77 access denied; 78 wrong configuration or URL; 128 + N ended by\n"
    "signal N\n";

enum { OPT_SECONDS = SIMBA__OPT_OWN, OPT_CONTENDERS, OPT_PROCESSES };

static const struct option options[] = {
    {"seconds", required_argument, NULL, OPT_SECONDS},
    {"contenders", required_argument, NULL, OPT_CONTENDERS},
    {"processes", required_argument, NULL, OPT_PROCESSES},
    SIMBA__OPT_SHARED_LONG,
    {NULL, 0, NULL, 0}};

enum { SECONDS = 5, FOR_EVER_MS = 86400000 };

static const struct scenario {
    const char *name;
    int (*run)(const struct simba__bench_job *job,
               struct simba__bench_result *result,
               simba_error *error);
    bool is_shared;    /* between processes */
    bool is_slow;      /* a lease for each exchange */
    bool has_no_count; /* -n says nothing */
    size_t contenders; /* by default; 0: it has none to choose */
    size_t processes;  /* likewise */
} scenarios[] = {
    {.name = "pair", .run = simba__bench_pair},
    {.name = "throughput",
     .run = simba__bench_throughput,
     .contenders = 64,
     .processes = 1},
    {.name = "handoff", .run = simba__bench_handoff, .is_shared = true},
    {.name = "crash",
     .run = simba__bench_crash,
     .is_shared = true,
     .is_slow = true},
    {.name = "idle",
     .run = simba__bench_idle,
     .has_no_count = true,
     .contenders = 1000},
};

/* --- what is printed ----------------------------------------------------- */

static void show_progress(void *user, int percent)
{
    (void)user;
    (void)fprintf(stderr, percent < 100 ? "\r%3d %%" : "\r     \r", percent);
    (void)fflush(stderr);
}

static void hide_progress(void *user, int percent)
{
    (void)user;
    (void)percent;
}

static double in_us(int64_t ns)
{
    return (double)ns / 1000;
}

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

static void say_times(const struct simba__bench_result *r, const char *name)
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

static void say_idle(const struct simba__bench_result *r)
{
    (void)printf(
        "idle: %zu contender%s for %.1f s, %.0f bytes each, %.2f %% of "
        "a CPU, %.1f store operations per second\n",
        r->contenders, r->contenders == 1 ? "" : "s", r->seconds, r->bytes_each,
        r->cpu_percent, r->store_ops_per_second);
}

static void print_result(const struct simba__cli *cli,
                         const char *scenario,
                         const struct simba__bench_result *result)
{
    bool is_idle = result->count == 0 && result->contenders > 0;

    if (!cli->is_json) {
        if (is_idle) {
            say_idle(result);
        } else {
            say_times(result, scenario);
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

/* --- the command --------------------------------------------------------- */

static bool take_count(const char *option, const char *text, size_t *count)
{
    char *end = NULL;
    long value = strtol(text, &end, 10);

    if (end == text || *end != '\0' || value < 1 || value > 1000000) {
        simba__say("%s: '%s' is no number from 1 to 1000000", option, text);
        return false;
    }
    *count = (size_t)value;
    return true;
}

static bool take(void *user, int choice, char *value)
{
    struct simba__bench_job *job = user;
    size_t seconds;

    switch (choice) {
    case 'n':
        return take_count("-n", value, &job->plan.most);
    case OPT_CONTENDERS:
        return take_count("--contenders", value, &job->contenders);
    case OPT_PROCESSES:
        return take_count("--processes", value, &job->processes);
    default:
        if (!take_count("--seconds", value, &seconds)) {
            return false;
        }
        job->plan.length_ms = (int64_t)seconds * 1000;
        return true;
    }
}

/* What was not chosen, and what cannot be chosen here. */
static bool complete(struct simba__bench_job *job,
                     const struct scenario *scenario)
{
    const char *odd =
        job->contenders != 0 && scenario->contenders == 0 ? "--contenders"
        : job->processes != 0 && scenario->processes == 0 ? "--processes"
        : job->plan.most != 0 && scenario->has_no_count   ? "-n"
                                                          : NULL;

    if (odd != NULL) {
        simba__say("%s says nothing to %s; see 'simba bench --help'", odd,
                   scenario->name);
        return false;
    }
    if (job->contenders == 0) {
        job->contenders = scenario->contenders;
    }
    if (job->processes == 0) {
        job->processes = scenario->processes;
    }
    job->plan.is_slow = scenario->is_slow;
    if (job->plan.length_ms == 0) {
        job->plan.length_ms = scenario->is_slow ? FOR_EVER_MS : SECONDS * 1000;
    }
    return true;
}

static int measure(const struct simba__cli *cli,
                   const struct scenario *scenario,
                   const struct simba__bench_job *job)
{
    struct simba__bench_result result;
    simba_error error = {0, 0, ""};
    int rc;

    if ((scenario->is_shared || job->processes > 1) &&
        simba__opt_is_private(job->url)) {
        (void)simba_error_set(&error, SIMBA_EINVAL, 0,
                              "a memory: store is not shared with other "
                              "processes");
        return simba__command_fail(cli, "bench", &error);
    }
    simba__interrupt_catch();
    rc = scenario->run(job, &result, &error);
    if (rc == SIMBA_ECANCELED) {
        (void)simba_error_set(&error, rc, 0,
                              "interrupted: nothing is left in the store");
        return simba__command_fail_with(
            cli, "bench", &error, SIMBA__EXIT_SIGNAL + simba__interrupt());
    }
    if (rc != SIMBA_OK) {
        return simba__command_fail(cli, "bench", &error);
    }
    print_result(cli, scenario->name, &result);
    return simba__command_end();
}

static int run(int argc, char **argv)
{
    struct simba__bench_job job = {.url = NULL};
    const struct simba__command command = {.name = "bench",
                                           .help = help,
                                           .options = options,
                                           .letters = "n:",
                                           .take = take,
                                           .user = &job,
                                           .least = 1,
                                           .most = 1,
                                           .wanted = "one SCENARIO"};
    struct simba__words words = {.count = argc, .words = argv};
    const struct scenario *scenario = NULL;
    int code;

    simba__command_begin(&words.cli);
    code = simba__command_read(&command, &words);
    if (code != SIMBA__COMMAND_GO_ON) {
        return code;
    }
    for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
        if (strcmp(scenarios[i].name, words.words[0]) == 0) {
            scenario = &scenarios[i];
        }
    }
    if (scenario == NULL) {
        simba__say("there is no scenario '%s'; 'simba bench --help' lists them",
                   words.words[0]);
        return SIMBA__EXIT_USAGE;
    }
    if (!complete(&job, scenario)) {
        return SIMBA__EXIT_USAGE;
    }
    job.url = words.cli.store;
    job.plan.progress = isatty(STDERR_FILENO) && words.cli.verbosity >= 0
                            ? show_progress
                            : hide_progress;
    (void)snprintf(job.mutex, sizeof(job.mutex), "simba-bench-%d-%" PRId64,
                   (int)getpid(), simba__bench_now_ns());
    return measure(&words.cli, scenario, &job);
}

/* Everything is written by now, so nothing is left to do at exit. */
int main(int argc, char **argv)
{
    _exit(run(argc, argv));
}
