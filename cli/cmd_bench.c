/* simba bench: how far from what the store allows. */
#define _GNU_SOURCE
#include "cmd_bench.h"
#include "bench_print.h"
#include "command.h"
#include "exit.h"
#include "interrupt.h"
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

    switch (choice) {
    case 'n':
        return take_count("-n", optarg, &job->plan.most);
    case OPT_CONTENDERS:
        return take_count("--contenders", optarg, &job->contenders);
    case OPT_PROCESSES:
        return take_count("--processes", optarg, &job->processes);
    default:
        if (!take_count("--seconds", optarg, &seconds)) {
            return false;
        }
        job->plan.length_ms = (int64_t)seconds * 1000;
        return true;
    }
}

static bool is_own(int choice)
{
    return choice == 'n' || choice == OPT_SECONDS || choice == OPT_CONTENDERS ||
           choice == OPT_PROCESSES;
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
            return simba__command_end();
        }
        if (is_own(choice)) {
            if (!take_option(job, choice)) {
                return SIMBA__EXIT_USAGE;
            }
        } else if (!simba__opt_take_shared(cli, choice, optarg)) {
            simba__opt_complain("bench", options, choice, argv);
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
    simba__bench_print(cli, scenario->name, &result);
    return simba__command_end();
}

int simba__cmd_bench(struct simba__cli *cli, int argc, char **argv)
{
    struct simba__bench_job job = {.url = NULL};
    const struct scenario *scenario;
    int code = read_options(cli, &job, argc, argv);

    if (code >= 0) {
        return code;
    }
    scenario = find_scenario(argv[optind]);
    if (scenario == NULL || !complete(&job, scenario)) {
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
