/* simba bench: how far from what the store allows. The options, and what is
 * printed. */
#define _GNU_SOURCE
#include "bench/report.h"
#include "cli/cli.h"
#include "cli/output.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: simba bench SCENARIO [OPTION…]\n"
    "       simba bench report [--html FILE] [OPTION…]\n"
    "\n"
    "Measure this store, and in turns with it the floor: the same exchange by\n"
    "nothing but the bare client library. The ratio is the median of at least\n"
    "15 rounds, unless -n allows fewer exchanges.\n"
    "\n"
    "  pair        acquire and release by one locker, uncontended\n"
    "  throughput  many mutexes at once through one handle; the ratio is that\n"
    "              of the rates, the floor's to ours\n"
    "  handoff     release in one process until acquired in another\n"
    "  successor   the same to a successor by name; its floor is handoff\n"
    "  waiters     the same among many who wait for one mutex, from the call\n"
    "              that releases to the next one's callback; it has no floor\n"
    "  crash       the owner is killed, until acquired in another process:\n"
    "              beyond the end of its lease, or since the kill where the\n"
    "              store sees crashes; each takes as long as a lease\n"
    "  idle        what contenders cost that only wait: bytes, CPU,\n"
    "              requests; it has no floor\n"
    "  start       how long it takes until they wait; it has no floor\n"
    "  report      all that the store can, one after the other: a table of\n"
    "              figures, and a page with plots; of several stores by "
    "--store\n"
    "              each\n"
    "  bare        nothing is measured: the bare client connects, exchanges "
    "once\n"
    "              and leaves, for who measures whole commands "
    "(scripts/speed)\n"
    "\n"
    "  -n N             exchanges at most, besides a few to warm up\n"
    "      --seconds S  take about so long; default: 5, for crash 15 "
    "exchanges;\n"
    "                   report: for each measurement, 60 at most; default: 2\n"
    "      --contenders N\n"
    "                   throughput: at once, in each process; default: 64\n"
    "                   idle, start, waiters: that wait; default: 1000\n"
    "                   report: the greatest number of any of these, from 2\n"
    "                   to 100000; default: 1000\n"
    "      --mutexes N  idle, start: that they wait for; default: each for "
    "one\n"
    "                   of its own\n"
    "      --processes N\n"
    "                   throughput: so many, each with a handle; default: 1\n"
    "      --html FILE  report: the page, which needs nothing else\n"
    "      --store URL, --json, -v, -q, --help\n"
    "                   see 'simba --help'\n"
    "\n"
    "exit codes: 0 measured; 64 usage; 69 store unreachable; 70 a fault of\n"
    "simba; 74 the page cannot be written; 77 access denied; 78 wrong\n"
    "configuration or URL; 128 + N ended by signal N\n";

enum { SECONDS = 5, FOR_EVER_MS = 86400000, COUNT_MOST = 1000000 };

const struct simba__bench_scenario simba__bench_scenarios[] = {
    {.name = "pair", .run = simba__bench_pair, .is_in_report = true},
    {.name = "throughput",
     .run = simba__bench_throughput,
     .contenders = 64,
     .processes = 1,
     .is_in_report = true,
     .report_from = 1,
     .report_most = 10000},
    {.name = "handoff",
     .run = simba__bench_handoff,
     .is_shared = true,
     .is_in_report = true},
    {.name = "successor",
     .run = simba__bench_successor,
     .is_shared = true,
     .needs = SIMBA_CAN_HAND_OVER,
     .is_in_report = true},
    {.name = "waiters",
     .run = simba__bench_waiters,
     .contenders = 1000,
     .is_in_report = true,
     .report_from = 2,
     .report_most = SIMBA__REPORT_MOST},
    {.name = "crash",
     .run = simba__bench_crash,
     .is_shared = true,
     .is_slow = true,
     .is_in_report = true},
    {.name = "idle",
     .run = simba__bench_idle,
     .has_no_count = true,
     .contenders = 1000,
     .has_mutexes = true,
     .is_in_report = true,
     .report_from = 1,
     .report_most = SIMBA__REPORT_MOST},
    {.name = "start",
     .run = simba__bench_start,
     .has_no_count = true,
     .contenders = 1000,
     .has_mutexes = true},
    {.name = NULL}};

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

void simba__bench_put_members(struct simba__json *json,
                              const char *scenario,
                              const char *store,
                              const struct simba__bench_result *r)
{
    simba__json_text(json, "scenario", scenario);
    simba__json_text(json, "store", store);
    if (r->count == 0 && r->contenders > 0) { /* idle, start */
        simba__json_unsigned(json, "contenders", r->contenders);
        simba__json_unsigned(json, "mutexes", r->mutexes);
        simba__json_real(json, "seconds", r->seconds, 3);
        simba__json_real(json, "bytes_per_contender", r->bytes_each, 0);
        if (strcmp(scenario, "start") == 0) {
            return;
        }
        simba__json_real(json, "cpu_percent", r->cpu_percent, 3);
        simba__json_real(json, "requests_per_second", r->requests_per_second,
                         3);
        simba__json_real(json, "start_seconds", r->start_seconds, 3);
        return;
    }
    simba__json_unsigned(json, "n", r->count);
    simba__json_real(json, "seconds", r->seconds, 3);
    simba__json_real(json, "p50_us", in_us(r->p50), 1);
    simba__json_real(json, "p99_us", in_us(r->p99), 1);
    simba__json_real(json, "p999_us", in_us(r->p999), 1);
    simba__json_real(json, "per_second", r->per_second,
                     r->per_second < 10 ? 3 : 0);
    if (r->floor_p50 == 0) {
        simba__json_text(json, "floor_p50_us", NULL);
        simba__json_text(json, "ratio_p50", NULL);
    } else {
        simba__json_real(json, "floor_p50_us", in_us(r->floor_p50), 1);
        simba__json_real(json, "ratio_p50", r->ratio_p50, 3);
        simba__json_unsigned(json, "rounds", r->rounds);
    }
    if (r->spinning_p50 != 0) {
        simba__json_real(json, "spinning_floor_p50_us", in_us(r->spinning_p50),
                         1);
        simba__json_real(json, "spinning_ratio_p50", r->spinning_ratio_p50, 3);
        simba__json_real(json, "cpu_us", in_us(r->cpu_each), 1);
    }
    if (r->floor_p50 != 0 && r->floor_per_second > 0) {
        simba__json_real(json, "floor_per_second", r->floor_per_second, 0);
    }
    if (r->contenders > 0 && r->processes == 0) { /* waiters */
        simba__json_unsigned(json, "contenders", r->contenders);
    }
    if (r->processes > 0) {
        simba__json_unsigned(json, "contenders", r->contenders);
        simba__json_unsigned(json, "processes", r->processes);
    }
    if (r->since != NULL) {
        simba__json_text(json, "since", r->since);
    }
}

static void print_object(const struct simba__cli *cli,
                         const char *scenario,
                         const struct simba__bench_result *r)
{
    struct simba__json json;
    char shown[256];

    simba__show_url(cli->store, shown, sizeof shown);
    simba__json_print(&json, stdout);
    simba__bench_put_members(&json, scenario, shown, r);
    simba__json_line(&json);
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
    if (r->spinning_p50 != 0) {
        (void)printf(
            "a floor that looks for replies before it sleeps: p50 %.0f "
            "µs; ratio %.2f\nCPU time of ours: %.0f µs each\n",
            in_us(r->spinning_p50), r->spinning_ratio_p50, in_us(r->cpu_each));
    }
}

static void say_idle(const struct simba__bench_result *r)
{
    (void)printf(
        "idle: %zu contender%s for %.1f s, %.0f bytes each, %.2f %% of "
        "a CPU, %.1f requests per second\n",
        r->contenders, r->contenders == 1 ? "" : "s", r->seconds, r->bytes_each,
        r->cpu_percent, r->requests_per_second);
}

/* --- the command --------------------------------------------------------- */

/* What was not chosen, and what cannot be chosen here. */
static bool complete(struct simba__bench_job *job,
                     const struct simba__bench_scenario *scenario,
                     const char *html)
{
    const char *odd =
        job->contenders != 0 && scenario->contenders == 0 ? "--contenders"
        : job->processes != 0 && scenario->processes == 0 ? "--processes"
        : job->mutexes != 0 && !scenario->has_mutexes     ? "--mutexes"
        : job->plan.most != 0 && scenario->has_no_count   ? "-n"
        : html != NULL                                    ? "--html"
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

int simba__bench_reach(const char *url, simba_error *error)
{
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;
    simba_store *store = NULL;
    int rc;

    options.wait_ms = 1;
    rc = simba_store_open(url, &options, &store, error);
    simba_store_close(store);
    return simba__interrupt() == 0 ? rc : simba__bench_cancel(error);
}

int simba__bench_fail(const struct simba__cli *cli, simba_error *error)
{
    if (error->code != SIMBA_ECANCELED) {
        return simba__command_fail(cli, "bench", error);
    }
    (void)simba_error_set(error, SIMBA_ECANCELED, 0,
                          "interrupted: nothing is left in the store");
    return simba__command_fail_with(cli, "bench", error,
                                    SIMBA__EXIT_SIGNAL + simba__interrupt());
}

static int measure(const struct simba__cli *cli,
                   const struct simba__bench_scenario *scenario,
                   const struct simba__bench_job *job)
{
    struct simba__bench_result result;
    simba_error error = {0, 0, ""};
    int rc;

    if ((scenario->is_shared || job->processes > 1) &&
        simba__is_private(job->url)) {
        (void)simba_error_set(&error, SIMBA_EINVAL, 0,
                              "a memory: store is not shared with other "
                              "processes");
        return simba__command_fail(cli, "bench", &error);
    }
    simba__interrupt_catch();
    rc = simba__bench_reach(job->url, &error);
    if (rc == SIMBA_OK) {
        simba__command_await_grants(cli);
        rc = scenario->run(job, &result, &error);
    }
    if (rc != SIMBA_OK) {
        return simba__bench_fail(cli, &error);
    }
    if (cli->is_json) {
        print_object(cli, scenario->name, &result);
    } else if (scenario->run == simba__bench_start) {
        (void)printf("start: %zu contenders wait for %zu mutex%s after %.3g s, "
                     "%.0f bytes each\n",
                     result.contenders, result.mutexes,
                     result.mutexes == 1 ? "" : "es", result.seconds,
                     result.bytes_each);
    } else if (result.count == 0 && result.contenders > 0) {
        say_idle(&result);
    } else {
        say_times(&result, scenario->name);
    }
    return simba__command_end();
}

void simba__bench_name(struct simba__bench_job *job)
{
    (void)snprintf(job->mutex, sizeof job->mutex, "simba-bench-%d-%" PRId64,
                   (int)getpid(), simba__bench_now_ns());
}

static const struct simba__bench_scenario *find_scenario(const char *name)
{
    const struct simba__bench_scenario *at = simba__bench_scenarios;

    while (at->name != NULL && strcmp(at->name, name) != 0) {
        at++;
    }
    if (at->name == NULL) {
        simba__say("there is no scenario '%s'; 'simba bench --help' lists them",
                   name);
        return NULL;
    }
    return at;
}

/* Nothing of ours but what finds the module: it is timed from outside. */
static int run_bare(const struct simba__cli *cli)
{
    simba_error error = {0, 0, ""};

    return simba__bench_bare(cli->store, &error) == SIMBA_OK
               ? 0
               : simba__command_fail(cli, "bench", &error);
}

static int run(int argc, char **argv)
{
    struct simba__bench_job job = {.url = NULL};
    uint64_t most = 0, seconds = 0, contenders = 0, processes = 0, mutexes = 0;
    const char *html = NULL;
    const struct simba__option options[] = {
        {"exchanges", 'n', SIMBA__NUMBER, &most, .most = COUNT_MOST},
        {"seconds", 0, SIMBA__NUMBER, &seconds, .most = COUNT_MOST},
        {"contenders", 0, SIMBA__NUMBER, &contenders, .most = COUNT_MOST},
        {"processes", 0, SIMBA__NUMBER, &processes, .most = COUNT_MOST},
        {"mutexes", 0, SIMBA__NUMBER, &mutexes, .most = COUNT_MOST},
        {"html", 0, SIMBA__TEXT, &html, .most = 0},
        {.name = NULL}};
    const struct simba__command command = {.name = "bench",
                                           .help = help,
                                           .options = options,
                                           .least = 1,
                                           .most = 1,
                                           .wanted = "one SCENARIO"};
    struct simba__words words = {.count = argc, .words = argv};
    const struct simba__bench_scenario *scenario;
    int code;

    simba__command_begin(&words.cli);
    code = simba__command_read(&command, &words);
    if (code != SIMBA__GO_ON) {
        return code;
    }
    job.plan.most = most;
    job.plan.length_ms = (int64_t)seconds * 1000;
    job.contenders = contenders;
    job.processes = processes;
    job.mutexes = mutexes;
    job.url = words.cli.store;
    if (strcmp(words.words[0], "report") == 0) {
        return simba__bench_report(&words.cli, &job, html);
    }
    if (strcmp(words.words[0], "bare") == 0) {
        return run_bare(&words.cli);
    }
    scenario = find_scenario(words.words[0]);
    if (scenario == NULL || !complete(&job, scenario, html)) {
        return SIMBA__EXIT_USAGE;
    }
    job.plan.progress = isatty(STDERR_FILENO) && words.cli.verbosity >= 0
                            ? show_progress
                            : hide_progress;
    simba__bench_name(&job);
    return measure(&words.cli, scenario, &job);
}

/* Everything is written by now, so nothing is left to do at exit. */
int main(int argc, char **argv)
{
    _exit(run(argc, argv));
}
