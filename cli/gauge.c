/* The file with figures for Prometheus. */
#define _GNU_SOURCE
#include "gauge.h"

#include <simba/metrics.h>

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* More often than anybody scrapes. */
enum { BETWEEN_S = 5 };

/* As Prometheus wants it: a backslash before quotes and backslashes. Names of
 * mutexes have no newlines. */
static void put_label(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            (void)fputc('\\', out);
        }
        (void)fputc(*text, out);
    }
}

struct figure {
    const char *name, *type, *help;
    int64_t value;
};

static void put_figure(FILE *out,
                       const char *mutex,
                       const struct figure *figure)
{
    (void)fprintf(out, "# HELP %s %s\n# TYPE %s %s\n%s{mutex=\"", figure->name,
                  figure->help, figure->name, figure->type, figure->name);
    put_label(out, mutex);
    (void)fprintf(out, "\"} %" PRId64 "\n", figure->value);
}

static void put_runs(FILE *out, const struct simba__gauge *gauge)
{
    const struct simba__gauge_runs *runs = &gauge->runs;
    const struct figure figures[] = {
        {"simba_runs_total", "counter", "Runs of the command that began.",
         (int64_t)atomic_load(&runs->started)},
        {"simba_run_failures_total", "counter",
         "Runs that ended with another exit code than 0.",
         (int64_t)atomic_load(&runs->failed)},
        {"simba_runs_skipped_total", "counter", "Runs that were skipped.",
         (int64_t)atomic_load(&runs->skipped)},
        {"simba_run_exit_code", "gauge", "Exit code of the last run.",
         atomic_load(&runs->exit_code)},
        {"simba_run_ended_timestamp_seconds", "gauge",
         "When the last run ended; 0: none has.",
         atomic_load(&runs->ended_unix)}};

    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
        put_figure(out, gauge->mutex, &figures[i]);
    }
}

static int print_all(const struct simba__gauge *gauge,
                     FILE *out,
                     simba_error *error)
{
    simba_metrics *metrics = NULL;
    int rc = simba_metrics_read(gauge->store, &metrics, error);

    if (rc == SIMBA_OK) {
        (void)simba_metrics_print(metrics, out);
        put_runs(out, gauge);
    }
    simba_metrics_free(metrics);
    return rc;
}

static int fail(const char *path, simba_error *error)
{
    return simba_error_set(error, SIMBA_EDENIED, errno, "%s: %s", path,
                           strerror(errno));
}

/* The file appears whole or not at all, and is not missing meanwhile. */
static int save_with_runs(const struct simba__gauge *gauge, simba_error *error)
{
    char path[PATH_MAX];
    bool is_written;
    FILE *out;
    int rc;

    if (snprintf(path, sizeof(path), "%s.%d.new", gauge->path, getpid()) >=
        (int)sizeof(path)) {
        errno = ENAMETOOLONG;
        return fail(gauge->path, error);
    }
    out = fopen(path, "we");
    if (out == NULL) {
        return fail(path, error);
    }
    rc = print_all(gauge, out, error);
    is_written = ferror(out) == 0;
    is_written = fclose(out) == 0 && is_written;
    if (rc == SIMBA_OK && (!is_written || rename(path, gauge->path) != 0)) {
        rc = fail(gauge->path, error);
    }
    if (rc != SIMBA_OK) {
        (void)unlink(path);
    }
    return rc;
}

void simba__gauge_save(struct simba__gauge *gauge)
{
    simba_error error;
    int rc = gauge->mutex == NULL
                 ? simba_metrics_save(gauge->store, gauge->path, &error)
                 : save_with_runs(gauge, &error);

    if (rc != SIMBA_OK) {
        gauge->complain(gauge->user, &error);
    }
}

/* False: it is over. */
static bool sleep_a_while(struct simba__gauge *gauge)
{
    struct timespec until;
    int rc = 0;
    bool is_over;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += BETWEEN_S;
    (void)pthread_mutex_lock(&gauge->lock);
    while (!gauge->is_over && rc == 0) {
        rc = pthread_cond_timedwait(&gauge->told, &gauge->lock, &until);
    }
    is_over = gauge->is_over;
    (void)pthread_mutex_unlock(&gauge->lock);
    return !is_over;
}

static void *keep(void *argument)
{
    struct simba__gauge *gauge = argument;

    do {
        simba__gauge_save(gauge);
    } while (sleep_a_while(gauge));
    return NULL;
}

void simba__gauge_start(struct simba__gauge *gauge)
{
    pthread_condattr_t attributes;

    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&gauge->lock, NULL);
    (void)pthread_cond_init(&gauge->told, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    gauge->is_over = false;
    gauge->is_running = pthread_create(&gauge->thread, NULL, keep, gauge) == 0;
}

void simba__gauge_stop(struct simba__gauge *gauge)
{
    if (!gauge->is_running) {
        return;
    }
    (void)pthread_mutex_lock(&gauge->lock);
    gauge->is_over = true;
    (void)pthread_cond_broadcast(&gauge->told);
    (void)pthread_mutex_unlock(&gauge->lock);
    (void)pthread_join(gauge->thread, NULL);
    gauge->is_running = false;
}
