/* simba bench idle: what contenders cost that only wait, through one handle:
 * each for a mutex of its own, or many for each of a few.
 *
 * The mutexes are owned through another handle, by leases so long that nobody
 * needs to renew them meanwhile.
 *
 * simba bench start: how long it takes until they all wait. */
#define _GNU_SOURCE
#include "bench/bench.h"
#include "cli/cli.h"

#include <simba/metrics.h>
#include <simba/service.h>
#include <simba/sys/probe.h>

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { LEASE_MS = 3600000, SETTLE_MS = 1000, START_MOST_MS = 600000 };

struct crowd {
    const struct simba__bench_job *job;
    bool is_start;        /* only how long they take to wait is asked for */
    simba_store *owners;  /* the handle through which they are owned */
    simba_store *waiters; /* and the one that is measured */
    simba_service **services;
    size_t owned, open;
    uint64_t attempt; /* of no other run */
};

/* What has been used so far. */
struct usage {
    int64_t at_ns, cpu_us;
    uint64_t requests;
};

/* --- the mutexes --------------------------------------------------------- */

static void name_mutex(const struct crowd *crowd, size_t i, char mutex[128])
{
    (void)snprintf(mutex, 128, "%s#%zu", crowd->job->mutex, i);
}

static int ask(struct crowd *crowd,
               enum simba_request_kind kind,
               size_t i,
               simba_error *error)
{
    char mutex[128];
    simba_request request = {.size = sizeof request,
                             .kind = kind,
                             .mutex = mutex,
                             .id = crowd->job->mutex,
                             .attempt = {.high = crowd->attempt, .low = i},
                             .ttl_ms = LEASE_MS,
                             .transition_ms = LEASE_MS,
                             .reply = SIMBA_REPLY_INIT};
    int rc;

    name_mutex(crowd, i, mutex);
    rc = simba_probe(crowd->owners, &request, error);
    if (rc == SIMBA_OK && kind == SIMBA_ACQUIRE && !request.reply.mine) {
        rc = simba_error_set(error, SIMBA_EBUSY, 0,
                             "a fresh mutex is owned already");
    }
    return rc;
}

static int own_all(struct crowd *crowd, simba_error *error)
{
    int rc = simba_store_open(crowd->job->url, NULL, &crowd->owners, error);

    while (rc == SIMBA_OK && crowd->owned < crowd->job->mutexes) {
        rc = ask(crowd, SIMBA_ACQUIRE, crowd->owned, error);
        crowd->owned += rc == SIMBA_OK ? 1 : 0;
        rc = simba__interrupt() == 0 ? rc : simba__bench_cancel(error);
    }
    return rc;
}

/* --- the contenders ------------------------------------------------------ */

static int start_one(struct crowd *crowd, size_t i, simba_error *error)
{
    simba_contender contender = SIMBA_CONTENDER_INIT;
    char mutex[128];
    int rc;

    name_mutex(crowd, i % crowd->job->mutexes, mutex);
    contender.mutex = mutex;
    rc = simba_service_open(crowd->waiters, &contender, &crowd->services[i],
                            error);
    crowd->open += rc == SIMBA_OK ? 1 : 0;
    return rc == SIMBA_OK ? simba_service_start(crowd->services[i], error) : rc;
}

static void rest(int64_t ms)
{
    struct timespec length = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

    (void)nanosleep(&length, NULL); /* a signal may end it */
}

/* Until each has been refused. */
static int await_all(const struct crowd *crowd, simba_error *error)
{
    int64_t until_ns = simba__bench_now_ns() + START_MOST_MS * INT64_C(1000000);

    for (size_t i = 0; i < crowd->open; i++) {
        while (simba_service_status(crowd->services[i]) != SIMBA_RUNNING) {
            if (simba__interrupt() != 0) {
                return simba__bench_cancel(error);
            }
            if (simba__bench_now_ns() > until_ns) {
                return simba_error_set(error, SIMBA_ETIMEDOUT, 0,
                                       "the contenders did not come to wait");
            }
            rest(1);
        }
    }
    return SIMBA_OK;
}

static int start_all(struct crowd *crowd, simba_error *error)
{
    int rc = SIMBA_OK;

    for (size_t i = 0; i < crowd->job->contenders && rc == SIMBA_OK; i++) {
        rc = start_one(crowd, i, error);
        rc = simba__interrupt() == 0 ? rc : simba__bench_cancel(error);
    }
    return rc == SIMBA_OK ? await_all(crowd, error) : rc;
}

/* --- measuring ----------------------------------------------------------- */

static size_t heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

static int read_usage(const struct crowd *crowd,
                      struct usage *usage,
                      simba_error *error)
{
    simba_metrics *metrics;
    struct rusage self;
    int rc = simba_metrics_read(crowd->waiters, &metrics, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    (void)getrusage(RUSAGE_SELF, &self);
    usage->at_ns = simba__bench_now_ns();
    usage->cpu_us =
        (int64_t)(self.ru_utime.tv_sec + self.ru_stime.tv_sec) * 1000000 +
        self.ru_utime.tv_usec + self.ru_stime.tv_usec;
    usage->requests = simba_metrics_store(metrics)->requests;
    simba_metrics_free(metrics);
    return SIMBA_OK;
}

static int watch(const struct crowd *crowd,
                 struct simba__bench_result *result,
                 simba_error *error)
{
    const struct simba__bench_plan *plan = &crowd->job->plan;
    struct usage before, after;
    double seconds;
    int rc = read_usage(crowd, &before, error);

    for (int64_t ms = 0; ms < plan->length_ms && rc == SIMBA_OK; ms += 100) {
        rest(100);
        plan->progress(plan->user, (int)(ms * 100 / plan->length_ms));
        rc = simba__interrupt() == 0 ? rc : simba__bench_cancel(error);
    }
    plan->progress(plan->user, 100);
    if (rc == SIMBA_OK) {
        rc = read_usage(crowd, &after, error);
    }
    if (rc != SIMBA_OK) {
        return rc;
    }
    seconds = (double)(after.at_ns - before.at_ns) / 1e9;
    result->seconds = seconds;
    result->cpu_percent =
        (double)(after.cpu_us - before.cpu_us) / 1e4 / seconds;
    result->requests_per_second =
        (double)(after.requests - before.requests) / seconds;
    return SIMBA_OK;
}

static int measure(struct crowd *crowd,
                   struct simba__bench_result *result,
                   simba_error *error)
{
    size_t contenders = crowd->job->contenders, bytes;
    int64_t begun_ns;
    int rc = simba_store_open(crowd->job->url, NULL, &crowd->waiters, error);

    memset(result, 0, sizeof *result);
    result->contenders = contenders;
    result->mutexes = crowd->job->mutexes;
    crowd->services = calloc(contenders, sizeof(simba_service *));
    if (crowd->services == NULL) {
        (void)simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
        return SIMBA_ENOMEM;
    }
    if (rc != SIMBA_OK) {
        return rc;
    }
    bytes = heap_bytes();
    begun_ns = simba__bench_now_ns();
    rc = start_all(crowd, error);
    result->seconds = (double)(simba__bench_now_ns() - begun_ns) / 1e9;
    result->start_seconds = result->seconds;
    if (rc == SIMBA_OK) {
        rest(SETTLE_MS);
        result->bytes_each =
            (double)(heap_bytes() - bytes) / (double)contenders;
        rc = crowd->is_start ? rc : watch(crowd, result, error);
    }
    return rc;
}

/* All are told to stop before the first is waited for. */
static void stop_all(struct crowd *crowd)
{
    for (size_t i = 0; i < crowd->open; i++) {
        if (simba_service_stop_async(crowd->services[i], NULL, NULL, NULL) !=
            SIMBA_OK) {
            break; /* closing stops the others one by one */
        }
    }
    for (size_t i = 0; i < crowd->open; i++) {
        simba_service_close(crowd->services[i]);
    }
}

static int run(const struct simba__bench_job *given,
               bool is_start,
               struct simba__bench_result *result,
               simba_error *error)
{
    struct simba__bench_job job = *given;
    struct crowd crowd = {.job = &job,
                          .is_start = is_start,
                          .attempt = (uint64_t)simba__bench_now_ns()};
    int rc;

    if (job.mutexes == 0 || job.mutexes > job.contenders) {
        job.mutexes = job.contenders;
    }
    rc = own_all(&crowd, error);

    if (rc == SIMBA_OK) {
        rc = measure(&crowd, result, error);
    }
    stop_all(&crowd);
    for (size_t i = 0; i < crowd.owned; i++) {
        (void)ask(&crowd, SIMBA_RELEASE, i, NULL);
    }
    free(crowd.services);
    simba_store_close(crowd.waiters);
    simba_store_close(crowd.owners);
    return rc;
}

int simba__bench_idle(const struct simba__bench_job *job,
                      struct simba__bench_result *result,
                      simba_error *error)
{
    return run(job, false, result, error);
}

int simba__bench_start(const struct simba__bench_job *job,
                       struct simba__bench_result *result,
                       simba_error *error)
{
    return run(job, true, result, error);
}
