/* The file with figures for Prometheus. */
#define _GNU_SOURCE
#include "cli/clock.h"
#include "cli/guardian.h"
#include "util/file.h"

#include <simba/metrics.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

/* More often than anybody scrapes. */
enum { BETWEEN_MS = 5000 };

struct figure {
    const char *name, *type, *help;
    int64_t value;
};

/* Up to the quote behind the name of the mutex. */
static void put_head(FILE *out,
                     const struct simba__metrics_file *file,
                     const struct figure *figure)
{
    (void)fprintf(out, "# HELP %s %s\n# TYPE %s %s\n%s{mutex=\"", figure->name,
                  figure->help, figure->name, figure->type, figure->name);
    for (const char *c = file->mutex; *c != '\0'; c++) {
        /* As Prometheus wants it; names of mutexes have no newlines. */
        (void)fprintf(out, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
    }
}

static void put_runs(FILE *out, const struct simba__metrics_file *file)
{
    const struct simba__run_metrics *runs = &file->runs;
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
        {"simba_run_started_timestamp_seconds", "gauge",
         "When the last run began; 0: none has.",
         atomic_load(&runs->started_unix)},
        {"simba_run_ended_timestamp_seconds", "gauge",
         "When the last run ended; 0: none has.",
         atomic_load(&runs->ended_unix)}};
    int64_t waited_ms = atomic_load(&runs->waited_ms);
    const char *result = file->result;
    static const struct figure waited = {
        "simba_run_waited_seconds", "gauge",
        "How long the mutex was waited for, the last time.", 0};
    static const struct figure became = {
        "simba_run_result", "gauge",
        "What became of it: ok, failed, lost, not_acquired, cancelled, error.",
        1};

    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        put_head(out, file, &figures[i]);
        (void)fprintf(out, "\"} %" PRId64 "\n", figures[i].value);
    }
    put_head(out, file, &waited);
    (void)fprintf(out, "\"} %" PRId64 ".%03d\n", waited_ms / 1000,
                  (int)(waited_ms % 1000));
    /* Of a run among many: what its command said. */
    if (result == NULL && atomic_load(&runs->ended_unix) != 0) {
        result = atomic_load(&runs->exit_code) == 0 ? "ok" : "failed";
    }
    if (result != NULL) {
        put_head(out, file, &became);
        (void)fprintf(out, "\",result=\"%s\"} 1\n", result);
    }
}

/* The file appears whole or not at all, and is not missing meanwhile. */
void simba__metrics_file_save(struct simba__metrics_file *file)
{
    simba_metrics *metrics = NULL;
    simba_error error;
    char *temporary;
    FILE *out;
    int cause, rc = file->store == NULL
                        ? SIMBA_OK
                        : simba_metrics_read(file->store, &metrics, &error);

    assert(file->path != NULL && file->complain != NULL);
    if (rc == SIMBA_OK) {
        cause = simba__file_begin(file->path, &temporary, &out);
        if (cause == 0 && metrics != NULL) {
            (void)simba_metrics_print(metrics, out);
        }
        if (cause == 0) {
            put_runs(out, file);
        }
        cause = simba__file_end(file->path, temporary, out, cause);
        if (cause != 0) {
            rc = simba_error_set(&error, SIMBA_EDENIED, cause, "%s: %s",
                                 file->path, simba__file_problem(cause));
        }
    }
    simba_metrics_free(metrics);
    if (rc != SIMBA_OK) {
        file->complain(file->user, &error);
    }
}

static void *keep(void *argument)
{
    struct simba__metrics_file *file = argument;

    do {
        simba__metrics_file_save(file);
    } while (!simba__flag_wait(&file->is_over, &file->lock, &file->told,
                               BETWEEN_MS));
    return NULL;
}

void simba__metrics_file_start(struct simba__metrics_file *file)
{
    assert(!file->is_running);
    (void)pthread_mutex_init(&file->lock, NULL);
    (void)pthread_cond_init(&file->told, NULL);
    file->is_over = false;
    file->is_running = pthread_create(&file->thread, NULL, keep, file) == 0;
}

void simba__metrics_file_stop(struct simba__metrics_file *file)
{
    if (file->is_running) {
        simba__flag_set(&file->is_over, &file->lock, &file->told);
        (void)pthread_join(file->thread, NULL);
        file->is_running = false;
    }
}
