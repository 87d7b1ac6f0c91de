/* The page of a report: facts, figures and tables in one file that needs no
 * other, and no script. */
#define _GNU_SOURCE
#include "bench/report.h"
#include "cli/output.h"
#include "markup.h"

#include <simba/version.h>

#include <inttypes.h>
#include <string.h>

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n"
    "<meta name=\"viewport\" content=\"width=device-width\"/>\n"
    "<meta name=\"color-scheme\" content=\"light dark\"/>\n"
    "<title>simba bench report</title>\n<style>\n"
    ":root{--back:#f4f5f6;--ground:#fff;--ink:#1d2733;--faint:#5d6975;"
    "--line:#e3e6e9}\n"
    "@media(prefers-color-scheme:dark){:root{--back:#0f1317;--ground:#171c22;"
    "--ink:#e8ebee;--faint:#a3adb7;--line:#303841}}\n"
    "body{margin:0;background:var(--back);color:var(--ink);"
    "font:15px/1.5 system-ui,sans-serif}\n"
    "main{max-width:1180px;margin:0 auto;padding:20px 16px 48px}\n"
    "h1{font-size:24px;margin:4px 0 12px}h2{font-size:18px;margin:32px 0 10px;"
    "overflow-wrap:anywhere}\n"
    "p{margin:8px 0;color:var(--faint)}\n"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:4px 16px;"
    "margin:0;overflow-wrap:anywhere}\n"
    "dt{color:var(--faint)}dd{margin:0}\n"
    "code{font:13px ui-monospace,monospace}\n"
    ".plots{display:grid;gap:16px;"
    "grid-template-columns:repeat(auto-fit,minmax(min(100%,480px),1fr))}\n"
    ".card,.wide{background:var(--ground);border:1px solid var(--line);"
    "border-radius:10px;padding:12px}\n"
    ".card svg{display:block;width:100%;height:auto}\n"
    ".wide{overflow-x:auto;margin-bottom:12px}\n"
    "table{border-collapse:collapse;width:100%;"
    "font-variant-numeric:tabular-nums}\n"
    "th,td{padding:5px 8px;text-align:right;white-space:nowrap;"
    "border-bottom:1px solid var(--line)}\n"
    "tr:last-child td{border-bottom:0}\n"
    "th{color:var(--faint);font-weight:500}"
    "th:first-child,td:first-child{text-align:left}\n"
    "@media(max-width:600px){dl{display:block}dd{margin-bottom:8px}"
    "h1{font-size:21px}.card{padding:8px}}\n"
    "</style></head>\n<body><main>\n<h1>simba bench report</h1>\n";

/* --- facts --------------------------------------------------------------- */

static void put_quoted(struct simba__text *text, const char *word)
{
    bool is_plain =
        word[0] != '\0' &&
        word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN"
                          "OPQRSTUVWXYZ0123456789/:._,@%+=-")] == '\0';

    simba__text_put(text, is_plain ? "" : "'");
    for (; *word != '\0'; word++) {
        if (*word == '\'') {
            simba__text_put(text, "'\\''");
        } else {
            simba__text_add(text, word, 1);
        }
    }
    simba__text_put(text, is_plain ? "" : "'");
}

void simba__report_write_command(const struct simba__report *report,
                                 struct simba__text *text)
{
    simba__text_printf(
        text, "simba bench report --seconds %" PRId64 " --contenders %zu",
        report->seconds, report->contenders);
    for (size_t i = 0; i < report->store_count; i++) {
        simba__text_put(text, " --store ");
        put_quoted(text, report->stores[i]->shown);
    }
}

static void put_fact(FILE *file, const char *name, const char *value)
{
    fprintf(file, "<dt>%s</dt><dd>", name);
    simba__markup_escape(file, value);
    fputs("</dd>\n", file);
}

static void put_facts(const struct simba__report *report, FILE *file)
{
    const struct simba__report_machine *m = &report->machine;
    struct simba__text command = {.bytes = NULL};
    char time[SIMBA__FORMAT_ROOM];
    char text[sizeof report->stores[0]->shown +
              sizeof report->stores[0]->version + 8];

    fputs("<dl class=\"card\">\n", file);
    for (size_t i = 0; i < report->store_count; i++) {
        const struct simba__report_store *store = report->stores[i];

        (void)snprintf(text, sizeof text, "%s%s%s", store->shown,
                       store->version[0] == '\0' ? "" : " · ", store->version);
        put_fact(file, i == 0 ? "store" : "", text);
    }
    simba__format_time(m->begun_unix_ms, false, time);
    (void)snprintf(text, sizeof text, "%s, for %" PRId64 " s", time,
                   m->seconds);
    put_fact(file, "measured", text);
    (void)snprintf(text, sizeof text, "%s, %ld CPU%s, %.1f GiB", m->cpu,
                   m->cpus, m->cpus == 1 ? "" : "s", m->memory_gib);
    put_fact(file, "machine", text);
    (void)snprintf(text, sizeof text, "%s; simba %s", m->system,
                   SIMBA_VERSION_STRING);
    put_fact(file, "versions", text);
    (void)snprintf(text, sizeof text, "%.2f before, %.2f after, on %ld CPU%s",
                   m->load_before, m->load_after, m->cpus,
                   m->cpus == 1 ? "" : "s");
    put_fact(file, "load", text);
    simba__report_write_command(report, &command);
    fputs("<dt>command</dt><dd><code>", file);
    simba__markup_escape(file, command.bytes == NULL ? "" : command.bytes);
    fputs("</code></dd>\n</dl>\n", file);
    simba__text_fini(&command);
}

/* --- figures ------------------------------------------------------------- */

static const char *const side_names[SIMBA__BENCH_SIDES] = {
    "simba", "bare client", "bare client that looks before it sleeps"};

static void put_card(struct simba__plot *plot, FILE *file)
{
    fputs("<div class=\"card\">\n", file);
    simba__plot_write(plot, file);
    fputs("</div>\n", file);
}

/* How many took no longer than that. */
static void put_spread(const struct simba__report *report,
                       size_t which,
                       const struct simba__report_entry *entry,
                       FILE *file)
{
    const struct simba__report_store *store = report->stores[which];
    struct simba__plot plot = {
        .x = {.label = "took at most", .unit = SIMBA__PLOT_TIME},
        .y = {.label = "of all", .unit = SIMBA__PLOT_PERCENT}};

    (void)snprintf(plot.id, sizeof plot.id, "%s-%zu", entry->scenario->name,
                   which);
    (void)snprintf(plot.title, sizeof plot.title, "%s: %s",
                   strcmp(entry->scenario->name, "pair") == 0
                       ? "Acquire and release"
                       : "Hand-over to another process",
                   store->name);
    for (int i = 0; i < SIMBA__BENCH_SIDES; i++) {
        const struct simba__bench_spread *spread = &entry->result.spreads[i];
        struct simba__plot_line *line;

        if (spread->count == 0) {
            continue;
        }
        line = simba__plot_add(&plot, side_names[i], (unsigned)i);
        if (line != NULL) {
            line->is_dashed = i == 2;
        }
        /* The last is the greatest: one outlier would stretch the figure. */
        for (size_t at = 0; at < SIMBA__BENCH_STEPS; at++) {
            simba__plot_point(line, (double)spread->at[at],
                              (double)at * 100 / SIMBA__BENCH_STEPS);
        }
    }
    put_card(&plot, file);
}

static void put_spreads(const struct simba__report *report,
                        const char *scenario,
                        FILE *file)
{
    for (size_t i = 0; i < report->store_count; i++) {
        for (size_t j = 0; j < report->stores[i]->count; j++) {
            const struct simba__report_entry *entry =
                &report->stores[i]->entries[j];

            if (strcmp(entry->scenario->name, scenario) == 0) {
                put_spread(report, i, entry, file);
            }
        }
    }
}

/* A figure over the number of contenders: of which scenario, and what of it. */
struct growth {
    const char *scenario, *id, *title, *x, *y;
    enum simba__plot_unit unit;
    double (*of)(const struct simba__bench_result *result);
    const char *lone; /* what the line of a lone store is called, */
    const char *also; /* and a second one that it has */
    double (*of_also)(const struct simba__bench_result *result);
};

static double p50_of(const struct simba__bench_result *result)
{
    return (double)result->p50;
}

static double p99_of(const struct simba__bench_result *result)
{
    return (double)result->p99;
}

static double rate_of(const struct simba__bench_result *result)
{
    return result->per_second;
}

static double floor_rate_of(const struct simba__bench_result *result)
{
    return result->floor_per_second;
}

static double bytes_of(const struct simba__bench_result *result)
{
    return result->bytes_each;
}

static double start_of(const struct simba__bench_result *result)
{
    return result->start_seconds * 1e9;
}

static const struct growth growths[] = {
    {"waiters", "waiters", "Hand-over, by the number of waiters",
     "contenders of one mutex", "from the release to the next one's callback",
     SIMBA__PLOT_TIME, p50_of, "p50", "p99", p99_of},
    {"throughput", "throughput", "Throughput, by the number of mutexes",
     "mutexes at once, through one handle", "pairs in a second",
     SIMBA__PLOT_COUNT, rate_of, "simba", "bare client", floor_rate_of},
    {"idle", "memory", "Memory, by the number of contenders",
     "contenders that wait, through one handle", "heap of each",
     SIMBA__PLOT_BYTES, bytes_of, "simba", NULL, NULL},
    {"idle", "start", "Starting, by the number of contenders",
     "contenders, each with a mutex of its own", "until all of them wait",
     SIMBA__PLOT_TIME, start_of, "simba", NULL, NULL},
};

/* One store's line, or the second one that a lone store has. */
static void add_line(struct simba__plot *plot,
                     const struct growth *growth,
                     const struct simba__report_store *store,
                     const char *name)
{
    bool is_also = name == growth->also;
    struct simba__plot_line *line = NULL;

    for (size_t i = 0; i < store->count; i++) {
        const struct simba__report_entry *entry = &store->entries[i];
        double y = (is_also ? growth->of_also : growth->of)(&entry->result);

        if (strcmp(entry->scenario->name, growth->scenario) != 0 || y <= 0) {
            continue;
        }
        if (line == NULL) {
            line = simba__plot_add(plot, name, (unsigned)plot->count);
        }
        simba__plot_point(line, (double)entry->contenders, y);
    }
    if (line != NULL) {
        line->has_dots = true;
        line->is_dashed = is_also;
    }
}

static void put_growth(const struct simba__report *report,
                       const struct growth *growth,
                       FILE *file)
{
    struct simba__plot plot = {
        .x = {.label = growth->x, .unit = SIMBA__PLOT_COUNT},
        .y = {.label = growth->y, .unit = growth->unit}};
    bool is_lone = report->store_count == 1;

    (void)snprintf(plot.id, sizeof plot.id, "%s", growth->id);
    (void)snprintf(plot.title, sizeof plot.title, "%s", growth->title);
    for (size_t i = 0; i < report->store_count; i++) {
        add_line(&plot, growth, report->stores[i],
                 is_lone ? growth->lone : report->stores[i]->name);
    }
    if (is_lone && growth->also != NULL) {
        add_line(&plot, growth, report->stores[0], growth->also);
    }
    put_card(&plot, file);
}

/* --- tables -------------------------------------------------------------- */

static void put_cell(FILE *file, double number, int digits)
{
    if (number == 0) {
        fputs("<td></td>", file);
    } else {
        fprintf(file, "<td>%.*f</td>", digits, number);
    }
}

static void put_times(const struct simba__report_entry *entry, FILE *file)
{
    const struct simba__bench_result *r = &entry->result;

    fprintf(file, "<tr><td>%s%s</td>", entry->scenario->name,
            r->since == NULL     ? ""
            : r->since[0] == 'k' ? ", since the kill"
                                 : ", since the lease’s end");
    put_cell(file, (double)entry->contenders, 0);
    put_cell(file, (double)r->count, 0);
    put_cell(file, (double)r->p50 / 1000, 1);
    put_cell(file, (double)r->p99 / 1000, 1);
    put_cell(file, (double)r->p999 / 1000, 1);
    put_cell(file, r->per_second, r->per_second < 10 ? 3 : 0);
    put_cell(file, (double)r->floor_p50 / 1000, 1);
    put_cell(file, (double)r->spinning_p50 / 1000, 1);
    put_cell(file, r->floor_per_second, 0);
    put_cell(file, r->floor_p50 == 0 ? 0 : r->ratio_p50, 3);
    fputs("</tr>\n", file);
}

static void put_idle(const struct simba__report_entry *entry, FILE *file)
{
    const struct simba__bench_result *r = &entry->result;

    fprintf(file,
            "<tr><td>%s</td><td>%zu</td><td>%.0f</td><td>%.3f</td>"
            "<td>%.3f</td><td>%.3f</td></tr>\n",
            entry->scenario->name, entry->contenders, r->bytes_each,
            r->start_seconds, r->cpu_percent, r->requests_per_second);
}

static void put_tables(const struct simba__report_store *store, FILE *file)
{
    fputs("<h2>", file);
    simba__markup_escape(file, store->shown);
    fputs("</h2>\n<div class=\"wide\"><table>\n<tr><th>scenario</th>"
          "<th>contenders</th><th>measured</th><th>p50 µs</th><th>p99 µs</th>"
          "<th>p99.9 µs</th><th>per second</th><th>bare p50 µs</th>"
          "<th>looking µs</th><th>bare per second</th><th>ratio</th></tr>\n",
          file);
    for (size_t i = 0; i < store->count; i++) {
        if (store->entries[i].result.count > 0) {
            put_times(&store->entries[i], file);
        }
    }
    fputs("</table></div>\n<div class=\"wide\"><table>\n<tr>"
          "<th>scenario</th><th>contenders</th><th>bytes each</th>"
          "<th>all wait after s</th><th>% of a CPU</th>"
          "<th>requests per second</th></tr>\n",
          file);
    for (size_t i = 0; i < store->count; i++) {
        if (store->entries[i].result.count == 0) {
            put_idle(&store->entries[i], file);
        }
    }
    fputs("</table></div>\n", file);
}

void simba__report_write_page(const struct simba__report *report, FILE *file)
{
    fputs(head, file);
    put_facts(report, file);
    fputs("<h2>How long it takes</h2>\n<p>Bare client: the same exchange by "
          "nothing but the store's client library, in turns with ours. A line "
          "further left is faster.</p>\n<div class=\"plots\">\n",
          file);
    put_spreads(report, "pair", file);
    put_spreads(report, "handoff", file);
    fputs("</div>\n<h2>How it grows</h2>\n<div class=\"plots\">\n", file);
    for (size_t i = 0; i < sizeof growths / sizeof growths[0]; i++) {
        put_growth(report, &growths[i], file);
    }
    fputs("</div>\n", file);
    for (size_t i = 0; i < report->store_count; i++) {
        put_tables(report->stores[i], file);
    }
    fputs(
        "<p>The ratio is the median of the rounds’ ratios, ours to the bare "
        "client’s; of throughput, the bare client’s rate to ours. Looking: a "
        "bare client that looks for replies for 100 µs before it sleeps.</p>\n"
        "</main></body></html>\n",
        file);
}
