/* simba bench report: all scenarios, one after the other, on one store or
 * several; how far it is, and what came of it. */
#define _GNU_SOURCE
#include "bench/report.h"
#include "cli/output.h"

#include <simba/admin.h>
#include <simba/report.h>
#include <simba/version.h>

#include "util/file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum {
    SECONDS = 2,
    SECONDS_MOST = 60,
    CONTENDERS = 1000,
    CONTENDERS_LEAST = 2,
    CRASHES_MOST = 15,
    /* What starting and ending takes beside what is measured, about: of each
     * measurement, and of each contender. */
    EACH_MS = 700,
    CONTENDER_MS = 1
};

/* --- what is to be done -------------------------------------------------- */

/* The next size after this one; 0: there is none. */
static size_t next_size(const struct simba__bench_scenario *scenario,
                        size_t size,
                        size_t contenders)
{
    size_t most =
        contenders < scenario->report_most ? contenders : scenario->report_most;
    size_t next = 1;

    while (next <= size) {
        next *= 10;
    }
    return size >= most ? 0 : next < most ? next : most;
}

static void add_entry(struct simba__report_store *store,
                      const struct simba__bench_scenario *scenario,
                      size_t contenders)
{
    struct simba__report_entry *entry = &store->entries[store->count++];

    entry->scenario = scenario;
    entry->contenders = contenders;
}

/* What it can do, which no server is asked for; one that cannot be opened is
 * told of when it is measured. */
static uint32_t capabilities_of(const char *url)
{
    simba_store *handle;
    uint32_t capabilities = 0;

    if (simba_store_open(url, NULL, &handle, NULL) == SIMBA_OK) {
        capabilities = simba_store_capabilities(handle);
        simba_store_close(handle);
    }
    return capabilities;
}

/* A store is measured as far as it goes: one of this process alone, or one
 * where nobody is handed a mutex by name. */
static void plan(struct simba__report *report,
                 struct simba__report_store *store)
{
    uint32_t can = capabilities_of(store->url);
    bool is_private = (can & SIMBA_IN_ONE_PROCESS) != 0;

    for (const struct simba__bench_scenario *s = simba__bench_scenarios;
         s->name != NULL; s++) {
        if (!s->is_in_report || (is_private && s->is_shared) ||
            (s->needs & ~can) != 0) {
            continue;
        }
        if (s->report_from == 0) {
            add_entry(store, s, 0);
        }
        for (size_t size = s->report_from; size != 0;
             size = next_size(s, size, report->contenders)) {
            add_entry(store, s, size);
        }
    }
}

static int64_t about_ms(const struct simba__report *report)
{
    int64_t ms = 0;

    for (size_t i = 0; i < report->store_count; i++) {
        for (size_t j = 0; j < report->stores[i]->count; j++) {
            ms += report->seconds * 1000 + EACH_MS +
                  (int64_t)report->stores[i]->entries[j].contenders *
                      CONTENDER_MS;
        }
    }
    return ms;
}

/* --- how far it is ------------------------------------------------------- */

struct run {
    const struct simba__cli *cli;
    struct simba__report *report;
    bool is_told, is_live; /* on stderr; with a line that is drawn anew */
    size_t done, total;
    int64_t begun_ns, about_ms;
    const struct simba__report_store *store;
    const struct simba__report_entry *entry;
};

static void describe(const struct run *run, char text[128])
{
    const struct simba__report_entry *entry = run->entry;
    int length =
        snprintf(text, 128, "%s: %s", run->store->name, entry->scenario->name);

    if (entry->contenders > 0) {
        (void)snprintf(text + length, 128 - (size_t)length, ", %zu contender%s",
                       entry->contenders, entry->contenders == 1 ? "" : "s");
    }
}

static void on_progress(void *user, int percent)
{
    const struct run *run = user;
    char text[128];
    int64_t left_ms =
        run->about_ms - (simba__bench_now_ns() - run->begun_ns) / 1000000;

    if (!run->is_live) {
        return;
    }
    describe(run, text);
    (void)fprintf(stderr, "\r\033[K%zu of %zu: %s, %d %%", run->done + 1,
                  run->total, text, percent < 100 ? percent : 100);
    if (left_ms >= 1000) {
        (void)fprintf(stderr, "; about %" PRId64 " s left", left_ms / 1000);
    }
    (void)fflush(stderr);
}

/* The figure that matters most. */
static void tell_entry(const struct run *run)
{
    const struct simba__bench_result *r = &run->entry->result;
    char text[128], number[32];

    describe(run, text);
    simba__plot_number(r->count > 0 ? SIMBA__PLOT_TIME : SIMBA__PLOT_BYTES,
                       r->count > 0 ? (double)r->p50 : r->bytes_each, number);
    (void)fprintf(stderr, "%s%zu of %zu: %s: %s%s%s\n",
                  run->is_live ? "\r\033[K" : "", run->done, run->total, text,
                  r->count > 0 ? "p50 " : "", number,
                  r->count > 0 ? "" : " each");
}

/* --- the machine --------------------------------------------------------- */

static double load_now(void)
{
    double load = 0;

    return getloadavg(&load, 1) == 1 ? load : 0;
}

/* The value of the first line that begins so: what follows the separators,
 * without quotes. */
static void read_line_of(const char *path,
                         const char *begins,
                         char *value,
                         size_t room)
{
    FILE *file = fopen(path, "re");
    char line[512];

    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char *at = line + strlen(begins);

        if (strncmp(line, begins, strlen(begins)) == 0) {
            at += strspn(at, " \t:=\"");
            at[strcspn(at, "\"\n")] = '\0';
            (void)snprintf(value, room, "%s", at);
            break;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

static void look_at_machine(struct simba__report_machine *machine)
{
    struct utsname kernel = {.sysname = ""};
    char system[128] = "";

    (void)uname(&kernel);
    read_line_of("/etc/os-release", "PRETTY_NAME", system, sizeof system);
    (void)snprintf(machine->system, sizeof machine->system, "%s%s%s %.60s",
                   system, system[0] == '\0' ? "" : ", ", kernel.sysname,
                   kernel.release);
    (void)snprintf(machine->cpu, sizeof machine->cpu, "%s", kernel.machine);
    read_line_of("/proc/cpuinfo", "model name", machine->cpu,
                 sizeof machine->cpu);
    machine->cpus = sysconf(_SC_NPROCESSORS_ONLN);
    machine->memory_gib = (double)sysconf(_SC_PHYS_PAGES) *
                          (double)sysconf(_SC_PAGESIZE) / 1073741824;
    machine->load_before = load_now();
    machine->begun_unix_ms = simba__unix_ms();
}

/* What the doctor says of its version; nothing where there is no doctor. */
static void ask_version(struct simba__report_store *store)
{
    simba_store *handle = NULL;
    simba_report *report = NULL;

    if (simba_store_open(store->url, NULL, &handle, NULL) == SIMBA_OK &&
        simba_admin_doctor(handle, &report, NULL) == SIMBA_OK) {
        for (size_t i = 0; i < simba_report_finding_count(report); i++) {
            const simba_finding *finding = simba_report_finding(report, i);

            if (strcmp(finding->name, "version") == 0) {
                (void)snprintf(store->version, sizeof store->version, "%s",
                               finding->text);
            }
        }
    }
    simba_report_close(report);
    simba_store_close(handle);
}

/* --- measuring ----------------------------------------------------------- */

static int measure_entry(struct run *run,
                         const struct simba__report_store *store,
                         struct simba__report_entry *entry,
                         simba_error *error)
{
    struct simba__bench_job job = {
        .url = store->url,
        .contenders = entry->contenders,
        .processes = entry->scenario->processes,
        .plan = {.length_ms = run->report->seconds * 1000,
                 .is_slow = entry->scenario->is_slow,
                 .most = entry->scenario->is_slow ? CRASHES_MOST : 0,
                 .progress = on_progress,
                 .user = run}};
    int rc;

    run->store = store;
    run->entry = entry;
    on_progress(run, 0);
    simba__bench_name(&job);
    rc = entry->scenario->run(&job, &entry->result, error);
    run->done++;
    if (rc == SIMBA_OK && run->is_told) {
        tell_entry(run);
    } else if (run->is_live) {
        (void)fputs("\r\033[K", stderr);
    }
    return rc;
}

static int measure_store(struct run *run,
                         struct simba__report_store *store,
                         simba_error *error)
{
    struct simba__cli cli = *run->cli;
    int rc = simba__bench_reach(store->url, error);

    if (rc == SIMBA_OK) {
        cli.store = store->url;
        simba__command_await_grants(&cli);
        ask_version(store);
    }
    for (size_t i = 0; i < store->count && rc == SIMBA_OK; i++) {
        rc = measure_entry(run, store, &store->entries[i], error);
    }
    return rc;
}

static int measure_all(struct run *run, simba_error *error)
{
    struct simba__report *report = run->report;
    int rc = SIMBA_OK;

    run->about_ms = about_ms(report);
    for (size_t i = 0; i < report->store_count; i++) {
        run->total += report->stores[i]->count;
    }
    if (run->is_told) {
        simba__say("%zu measurements of about %" PRId64 " s, with up to %zu "
                   "contenders: about %" PRId64 " s in all",
                   run->total, report->seconds, report->contenders,
                   run->about_ms / 1000);
    }
    look_at_machine(&report->machine);
    run->begun_ns = simba__bench_now_ns();
    for (size_t i = 0; i < report->store_count && rc == SIMBA_OK; i++) {
        rc = measure_store(run, report->stores[i], error);
    }
    report->machine.seconds =
        (simba__bench_now_ns() - run->begun_ns) / 1000000000;
    report->machine.load_after = load_now();
    return rc;
}

/* --- what came of it ----------------------------------------------------- */

static void format_us(int64_t ns, char text[32])
{
    text[0] = '\0';
    if (ns != 0) {
        (void)snprintf(text, 32, "%.1f", (double)ns / 1000);
    }
}

static void add_row(struct simba__table *table,
                    const struct simba__report_entry *entry)
{
    const struct simba__bench_result *r = &entry->result;
    char contenders[32] = "", p50[32], p99[32], floor[32], ratio[32] = "",
         rate[32] = "", note[160] = "";

    format_us(r->p50, p50);
    format_us(r->p99, p99);
    format_us(r->floor_p50, floor);
    if (entry->contenders > 0) {
        (void)snprintf(contenders, sizeof contenders, "%zu", entry->contenders);
    }
    if (r->floor_p50 != 0) {
        (void)snprintf(ratio, sizeof ratio, "%.2f", r->ratio_p50);
    }
    if (r->count > 0) {
        (void)snprintf(rate, sizeof rate, "%.*f", r->per_second < 10 ? 1 : 0,
                       r->per_second);
    } else {
        (void)snprintf(note, sizeof note,
                       "%.0f bytes each, wait after %.2f s, %.2f %% of a CPU, "
                       "%.1f requests/s",
                       r->bytes_each, r->start_seconds, r->cpu_percent,
                       r->requests_per_second);
    }
    if (r->since != NULL) {
        (void)snprintf(note, sizeof note, "since the %s",
                       r->since[0] == 'k' ? "kill" : "end of the lease");
    }
    if (r->spinning_p50 != 0) {
        (void)snprintf(note, sizeof note, "a floor that looks: %.1f µs",
                       (double)r->spinning_p50 / 1000);
    }
    simba__table_add(table, SIMBA__TINT_NONE,
                     (const char *[]){entry->scenario->name, contenders, p50,
                                      p99, floor, ratio, rate, note});
}

static void print_tables(const struct simba__report *report)
{
    for (size_t i = 0; i < report->store_count; i++) {
        const struct simba__report_store *store = report->stores[i];
        struct simba__table table = {.columns = 8, .right = 0x7e};

        (void)printf("%sstore: ", i == 0 ? "" : "\n");
        simba__print_calm(stdout, store->shown);
        (void)fputs("\n", stdout);
        simba__table_add(&table, SIMBA__TINT_BOLD,
                         (const char *[]){"SCENARIO", "CONTENDERS", "P50 µs",
                                          "P99 µs", "FLOOR µs", "RATIO",
                                          "PER SECOND", ""});
        for (size_t j = 0; j < store->count; j++) {
            add_row(&table, &store->entries[j]);
        }
        simba__table_print(&table, stdout, table.count);
        simba__table_fini(&table);
    }
}

static void print_object(const struct simba__report *report)
{
    const struct simba__report_machine *m = &report->machine;
    struct simba__text command = {.bytes = NULL};
    struct simba__json json, item;

    simba__report_write_command(report, &command);
    simba__json_print(&json, stdout);
    simba__json_text(&json, "scenario", "report");
    simba__json_text(&json, "version", SIMBA_VERSION_STRING);
    simba__json_text(&json, "command", command.bytes);
    simba__json_number(&json, "unix_ms", m->begun_unix_ms);
    simba__json_number(&json, "seconds", m->seconds);
    simba__json_number(&json, "seconds_each", report->seconds);
    simba__json_unsigned(&json, "contenders_most", report->contenders);
    simba__json_text(&json, "cpu", m->cpu);
    simba__json_number(&json, "cpus", m->cpus);
    simba__json_real(&json, "memory_gib", m->memory_gib, 1);
    simba__json_text(&json, "system", m->system);
    simba__json_real(&json, "load_before", m->load_before, 2);
    simba__json_real(&json, "load_after", m->load_after, 2);
    simba__json_list(&json, "stores");
    for (size_t i = 0; i < report->store_count; i++) {
        simba__json_item(&item, &json);
        simba__json_text(&item, "store", report->stores[i]->shown);
        simba__json_text(&item, "version", report->stores[i]->version);
        simba__json_end(&item);
    }
    simba__json_list_end(&json);
    simba__json_list(&json, "results");
    for (size_t i = 0; i < report->store_count; i++) {
        for (size_t j = 0; j < report->stores[i]->count; j++) {
            const struct simba__report_entry *entry =
                &report->stores[i]->entries[j];

            simba__json_item(&item, &json);
            simba__bench_put_members(&item, entry->scenario->name,
                                     report->stores[i]->shown, &entry->result);
            simba__json_end(&item);
        }
    }
    simba__json_list_end(&json);
    simba__json_line(&json);
    simba__text_fini(&command);
}

/* --- the command --------------------------------------------------------- */

static bool is_refused(const struct simba__bench_job *job)
{
    const char *odd = job->plan.most != 0   ? "-n"
                      : job->processes != 0 ? "--processes"
                                            : NULL;

    if (odd != NULL) {
        simba__say("%s says nothing to report; see 'simba bench --help'", odd);
    } else if (job->plan.length_ms / 1000 > SECONDS_MOST) {
        simba__say("--seconds: a report takes at most %d for each measurement",
                   SECONDS_MOST);
    } else if (job->contenders != 0 && (job->contenders < CONTENDERS_LEAST ||
                                        job->contenders > SIMBA__REPORT_MOST)) {
        simba__say("--contenders: a report takes %d to %d", CONTENDERS_LEAST,
                   SIMBA__REPORT_MOST);
    } else {
        return false;
    }
    return true;
}

/* The scheme before any other name of it: "redis" of redis+cluster://. */
static void name_store(struct simba__report_store *store)
{
    char *url = NULL;
    const char *backend = "";
    const char *shape;

    if (simba_bench_bare_url(store->url, &url, &backend, NULL) != SIMBA_OK) {
        return; /* which is told when it is opened */
    }
    shape = strstr(url, "://");
    if (shape != NULL && memchr(url, '+', (size_t)(shape - url)) != NULL) {
        (void)snprintf(store->name, sizeof store->name, "%.*s",
                       (int)(shape - url), url);
    } else {
        (void)snprintf(store->name, sizeof store->name, "%s", backend);
    }
    simba__secret_free(url);
}

static bool add_store(struct simba__report *report, const char *url)
{
    struct simba__report_store *store = calloc(1, sizeof *store);

    if (store == NULL) {
        return false;
    }
    report->stores[report->store_count++] = store;
    store->url = url;
    simba__show_url(url, store->shown, sizeof store->shown);
    name_store(store);
    plan(report, store);
    return true;
}

static bool add_stores(struct simba__report *report,
                       const struct simba__cli *cli)
{
    const char *const *urls = simba__options_stores();
    bool is_done = true;

    if (urls[0] == NULL) {
        return add_store(report, cli->store);
    }
    for (size_t i = 0; urls[i] != NULL && is_done; i++) {
        is_done = add_store(report, urls[i]);
    }
    return is_done;
}

/* Measured, told, and the page written; the exit code. */
static int produce(struct run *run, const char *html)
{
    simba_error error = {0, 0, ""};
    char *temporary = NULL;
    FILE *page = NULL;
    int rc = SIMBA_OK, problem = 0;

    if (html != NULL) { /* before, not after a minute of measuring */
        problem = simba__file_begin(html, &temporary, &page);
    }
    if (problem == 0) {
        rc = measure_all(run, &error);
    }
    if (page != NULL && problem == 0 && rc == SIMBA_OK) {
        simba__report_write_page(run->report, page);
    }
    if (html != NULL) {
        int given_up = rc == SIMBA_OK ? problem : -1;

        given_up = simba__file_end(html, temporary, page, given_up);
        problem = rc == SIMBA_OK ? given_up : 0;
    }
    if (problem != 0) {
        (void)simba_error_set(&error, SIMBA_EINTERNAL, problem,
                              "--html: '%.120s' cannot be written: %s", html,
                              simba__file_problem(problem));
        return simba__command_fail_with(run->cli, "bench", &error,
                                        SIMBA__EXIT_OUTPUT);
    }
    if (rc != SIMBA_OK) {
        error.code = rc;
        return simba__bench_fail(run->cli, &error);
    }
    (run->cli->is_json ? print_object : print_tables)(run->report);
    return simba__command_end();
}

int simba__bench_report(const struct simba__cli *cli,
                        const struct simba__bench_job *job,
                        const char *html)
{
    struct simba__report report = {
        .seconds =
            job->plan.length_ms == 0 ? SECONDS : job->plan.length_ms / 1000,
        .contenders = job->contenders == 0 ? CONTENDERS : job->contenders};
    struct run run = {.cli = cli,
                      .report = &report,
                      .is_told = cli->verbosity >= 0,
                      .is_live =
                          cli->verbosity >= 0 && simba__is_live(STDERR_FILENO)};
    int code = SIMBA__EXIT_FAULT;

    if (is_refused(job)) {
        return SIMBA__EXIT_USAGE;
    }
    simba__interrupt_catch();
    if (add_stores(&report, cli)) {
        code = produce(&run, html);
    } else {
        simba__say("out of memory");
    }
    while (report.store_count > 0) {
        free(report.stores[--report.store_count]);
    }
    return code;
}
