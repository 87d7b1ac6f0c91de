/* A report: all scenarios on one store or several, as text, JSON and a page. */
#ifndef SIMBA_BENCH_REPORT_H
#define SIMBA_BENCH_REPORT_H

#include "bench/bench.h"
#include "cli/cli.h"
#include "util/json.h"

#include <stdio.h>

enum {
    SIMBA__REPORT_MOST = 100000, /* contenders */
    SIMBA__REPORT_ROOM = 40      /* measurements of one store */
};

struct simba__report_entry {
    const struct simba__bench_scenario *scenario;
    size_t contenders; /* 0: it has none to choose */
    struct simba__bench_result result;
};

/* What was measured of one store. */
struct simba__report_store {
    const char *url; /* NULL: the default store */
    char shown[256];
    char name[32];     /* of its backend: what a line in a plot is called */
    char version[256]; /* what the doctor says of it; may be empty */
    size_t count;
    struct simba__report_entry entries[SIMBA__REPORT_ROOM];
};

struct simba__report_machine {
    char cpu[128], system[256];
    long cpus;
    double memory_gib, load_before, load_after; /* load: of the last minute */
    int64_t begun_unix_ms, seconds;
};

struct simba__report {
    int64_t seconds; /* of each measurement */
    size_t contenders;
    struct simba__report_machine machine;
    struct simba__report_store *stores[SIMBA__STORES_MOST];
    size_t store_count;
};

/** Measure and tell; answers the exit code.
 *
 * @param job   what was chosen; 0 where nothing was
 * @param html  where the page goes; NULL: nowhere */
int simba__bench_report(const struct simba__cli *cli,
                        const struct simba__bench_job *job,
                        const char *html);

/** The members of one result. */
void simba__bench_put_members(struct simba__json *json,
                              const char *scenario,
                              const char *store,
                              const struct simba__bench_result *result);

/** Tell that it failed, or was interrupted; the exit code. */
int simba__bench_fail(const struct simba__cli *cli, simba_error *error);

/* --- report_page.c ------------------------------------------------------- */

void simba__report_write_page(const struct simba__report *report, FILE *file);

/** The command that does the same again, without secrets. */
void simba__report_write_command(const struct simba__report *report,
                                 struct simba__text *text);

/* --- plot.c: one figure, a drawing of its own that can be taken out ------ */

/** What numbers of an axis are; times are in nanoseconds. */
enum simba__plot_unit {
    SIMBA__PLOT_COUNT,
    SIMBA__PLOT_TIME,
    SIMBA__PLOT_BYTES,
    SIMBA__PLOT_PERCENT
};

enum { SIMBA__PLOT_ROOM = SIMBA__BENCH_STEPS + 1, SIMBA__PLOT_LINES = 32 };

struct simba__plot_line {
    char name[64];
    unsigned colour; /* 0 to 7 */
    bool is_dashed, has_dots;
    size_t count;
    double x[SIMBA__PLOT_ROOM], y[SIMBA__PLOT_ROOM];
};

struct simba__plot_axis {
    const char *label;
    enum simba__plot_unit unit;
    bool is_log;     /* else from 0, */
    double from, to; /* which simba__plot_write() finds */
};

struct simba__plot {
    char id[64], title[128];
    struct simba__plot_axis x, y;
    struct simba__plot_line *lines[SIMBA__PLOT_LINES];
    size_t count;
};

/** Add a line; NULL: no memory, or too many. */
struct simba__plot_line *simba__plot_add(struct simba__plot *plot,
                                         const char *name,
                                         unsigned colour);
/** Add a point; beyond its room none. Those that an axis of powers cannot show
 * are left out. */
void simba__plot_point(struct simba__plot_line *line, double x, double y);

/** Draw it, unless there is no point at all, and forget its lines. */
void simba__plot_write(struct simba__plot *plot, FILE *file);

/** A number with its unit, short: 442 µs, 1.6 ms, 22.7 k. */
void simba__plot_number(enum simba__plot_unit unit,
                        double number,
                        char text[32]);

#endif
