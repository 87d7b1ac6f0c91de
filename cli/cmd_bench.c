/* simba bench: how far from what the store allows. */
#define _GNU_SOURCE
#include "cmd_bench.h"
#include "bench.h"
#include "exit.h"
#include "interrupt.h"
#include "json.h"
#include "say.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char help[] =
    "usage: simba bench SCENARIO [OPTION…]\n"
    "\n"
    "Measure this store, and in turns with it the floor: the same exchange by\n"
    "nothing but the bare client library. The ratio is the median of at least\n"
    "15 rounds, unless -n allows fewer exchanges.\n"
    "\n"
    "  pair     acquire and release by one locker, uncontended\n"
    "  handoff  release in one process until acquired in another\n"
    "\n"
    "  -n N            exchanges at most, besides a few to warm up\n"
    "      --seconds S take about so long; default: 5\n"
    "      --store URL, --json, -v, -q, --help\n"
    "                  see 'simba --help'\n"
    "\n"
    "exit codes: 0 measured; 64 usage; 69 store unreachable; 70 a fault of\n"
    "simba; 77 access denied; 78 wrong configuration or URL; 128 + N ended by\n"
    "signal N\n";

enum { OPT_SECONDS = SIMBA__OPT_OWN };

static const struct option options[] = {
    {"seconds", required_argument, NULL, OPT_SECONDS},
    SIMBA__OPT_SHARED_LONG,
    {NULL, 0, NULL, 0}};

static const struct scenario {
    const char *name;
    int (*run)(const struct simba__bench_job *job,
               struct simba__bench_result *result,
               simba_error *error);
    bool is_shared; /* between processes */
} scenarios[] = {{"pair", simba__bench_pair, false},
                 {"handoff", simba__bench_handoff, true}};

/* ── Progress ────────────────────────────────────────────────────────────── */

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

/* ── Results ─────────────────────────────────────────────────────────────── */

static double in_us(int64_t ns)
{
    return (double)ns / 1000;
}

static void print_json(const struct simba__bench_result *r,
                       const char *name,
                       const char *url)
{
    char shown[256];

    simba__opt_show_url(url, shown, sizeof(shown));
    (void)printf("{\"scenario\":");
    simba__json_string(stdout, name);
    (void)printf(",\"store\":");
    simba__json_string(stdout, shown);
    (void)printf(",\"n\":%zu,\"seconds\":%.3f,\"p50_us\":%.1f,\"p99_us\":%.1f,"
                 "\"p999_us\":%.1f,\"per_second\":%.0f",
                 r->count, r->seconds, in_us(r->p50), in_us(r->p99),
                 in_us(r->p999), (double)r->count / r->seconds);
    if (r->floor_p50 > 0) {
        (void)printf(",\"floor_p50_us\":%.1f,\"ratio_p50\":%.3f,\"rounds\":%zu",
                     in_us(r->floor_p50), r->ratio_p50, r->rounds);
    } else {
        (void)printf(",\"floor_p50_us\":null,\"ratio_p50\":null");
    }
    (void)printf("}\n");
}

static void print_text(const struct simba__bench_result *r, const char *name)
{
    (void)printf("%s: %zu in %.1f s, p50 %.0f µs, p99 %.0f µs, p99.9 %.0f µs, "
                 "%.0f per second\n",
                 name, r->count, r->seconds, in_us(r->p50), in_us(r->p99),
                 in_us(r->p999), (double)r->count / r->seconds);
    if (r->floor_p50 > 0) {
        (void)printf("floor: p50 %.0f µs; ratio %.2f, the median of %zu rounds "
                     "(most between %.2f and %.2f)\n",
                     in_us(r->floor_p50), r->ratio_p50, r->rounds, r->ratio_low,
                     r->ratio_high);
    } else {
        (void)printf("floor: none for this store\n");
    }
}

/* ── The command ─────────────────────────────────────────────────────────── */

static const struct scenario *find_scenario(const char *name)
{
    for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
        if (strcmp(scenarios[i].name, name) == 0) {
            return &scenarios[i];
        }
    }
    simba__say("there is no scenario '%s'; 'simba bench --help' lists them",
               name);
    return NULL;
}

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

static bool take_option(struct simba__bench_job *job, int choice)
{
    size_t seconds;

    if (choice == 'n') {
        return take_count("-n", optarg, &job->plan.most);
    }
    if (!take_count("--seconds", optarg, &seconds)) {
        return false;
    }
    job->plan.length_ms = (int64_t)seconds * 1000;
    return true;
}

/* The exit code, or -1 to go on. */
static int read_options(struct simba__cli *cli,
                        struct simba__bench_job *job,
                        int argc,
                        char **argv)
{
    int choice;

    optind = 0;
    while ((choice = getopt_long(argc, argv, ":n:" SIMBA__OPT_SHARED_SHORT,
                                 options, NULL)) != -1) {
        if (choice == 'h') {
            (void)fputs(help, stdout);
            return fflush(stdout) == 0 ? 0 : SIMBA__EXIT_FAULT;
        }
        if (choice == 'n' || choice == OPT_SECONDS) {
            if (!take_option(job, choice)) {
                return SIMBA__EXIT_USAGE;
            }
        } else if (!simba__opt_take_shared(cli, choice, optarg)) {
            simba__opt_complain("bench", choice, argv);
            return SIMBA__EXIT_USAGE;
        }
    }
    if (argc - optind != 1) {
        simba__say("which scenario? 'simba bench --help' lists them");
        return SIMBA__EXIT_USAGE;
    }
    return -1;
}

static int measure(const struct simba__cli *cli,
                   const struct scenario *scenario,
                   const struct simba__bench_job *job)
{
    struct simba__bench_result result;
    simba_error error = {0, 0, ""};
    int rc;

    if (scenario->is_shared && simba__opt_is_private(job->url)) {
        simba__say("a memory: store is not shared with other processes");
        return SIMBA__EXIT_CONFIG;
    }
    simba__interrupt_catch();
    rc = scenario->run(job, &result, &error);
    if (rc == SIMBA_ECANCELED) {
        simba__say("interrupted: nothing is left in the store");
        return 128 + simba__interrupt();
    }
    if (rc != SIMBA_OK) {
        simba__say("%s", error.message);
        return simba__exit_of_status(rc);
    }
    if (cli->is_json) {
        print_json(&result, scenario->name, job->url);
    } else {
        print_text(&result, scenario->name);
    }
    return fflush(stdout) == 0 ? 0 : SIMBA__EXIT_FAULT;
}

int simba__cmd_bench(struct simba__cli *cli, int argc, char **argv)
{
    struct simba__bench_job job = {.plan = {.length_ms = 5000}};
    const struct scenario *scenario;
    int code = read_options(cli, &job, argc, argv);

    if (code >= 0) {
        return code;
    }
    scenario = find_scenario(argv[optind]);
    if (scenario == NULL) {
        return SIMBA__EXIT_USAGE;
    }
    job.url = cli->store;
    job.plan.progress = isatty(STDERR_FILENO) && cli->verbosity >= 0
                            ? show_progress
                            : hide_progress;
    (void)snprintf(job.mutex, sizeof(job.mutex), "simba-bench-%d-%" PRId64,
                   (int)getpid(), simba__bench_now_ns());
    return measure(cli, scenario, &job);
}
