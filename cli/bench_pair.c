/* simba bench pair: one locker, alone. */
#include "bench.h"
#include "interrupt.h"

#include <simba/locker.h>
#include <simba/sys/bench.h>

enum { LOOK_UP_MS = 5000 };

int simba__bench_acquire(simba_locker *locker,
                         int64_t look_up_ms,
                         simba_error *error)
{
    int rc = simba_locker_acquire(locker, look_up_ms, NULL, error);

    while (rc == SIMBA_ETIMEDOUT && simba__interrupt() == 0) {
        rc = simba_locker_acquire(locker, look_up_ms, NULL, error);
    }
    return rc == SIMBA_ETIMEDOUT ? simba__bench_cancel(error) : rc;
}

int simba__bench_lock_once(void *self, int64_t *ns, simba_error *error)
{
    int64_t begun_ns = simba__bench_now_ns();
    int rc = simba__bench_acquire(self, LOOK_UP_MS, error);

    if (rc == SIMBA_OK) {
        rc = simba_locker_release(self, error);
    }
    *ns = simba__bench_now_ns() - begun_ns;
    return rc;
}

int simba__bench_floor_once(void *self, int64_t *ns, simba_error *error)
{
    int64_t begun_ns = simba__bench_now_ns();
    int rc = simba_bench_step(self, SIMBA_FLOOR_PAIR, error);

    *ns = simba__bench_now_ns() - begun_ns;
    return rc;
}

static int measure(const struct simba__bench_job *job,
                   simba_locker *locker,
                   struct simba__bench_result *result,
                   simba_error *error)
{
    struct simba__bench_side sides[2] = {{simba__bench_lock_once, locker},
                                         {simba__bench_floor_once, NULL}};
    simba_bench *bench = NULL;
    int rc = simba_bench_open(job->url, job->mutex, &bench, error);

    if (rc == SIMBA_EINVAL) {
        rc = SIMBA_OK; /* a store without a floor */
    }
    sides[1].self = bench;
    if (rc == SIMBA_OK) {
        rc = simba__bench_run(&job->plan, sides, result, error);
    }
    simba_bench_close(bench);
    return rc;
}

int simba__bench_pair(const struct simba__bench_job *job,
                      struct simba__bench_result *result,
                      simba_error *error)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_store *store = NULL;
    simba_locker *locker = NULL;
    int rc = simba_store_open(job->url, NULL, &store, error);

    options.mutex = job->mutex;
    if (rc == SIMBA_OK) {
        rc = simba_locker_open(store, &options, &locker, error);
    }
    if (rc == SIMBA_OK) {
        rc = measure(job, locker, result, error);
    }
    simba_locker_close(locker);
    simba_store_close(store);
    return rc;
}
