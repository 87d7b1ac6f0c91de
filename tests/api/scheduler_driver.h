/* Work for schedulers to do, and what it saw. */
#ifndef TESTS_API_SCHEDULER_DRIVER_H
#define TESTS_API_SCHEDULER_DRIVER_H

#include "fixtures/api_harness.h"

#include <dirent.h>
#include <poll.h>
#include <string.h>

/* What several schedulers of one mutex share: nobody is inside with another,
 * and tokens never go back. May lie in memory that processes share. */
struct shared {
    _Atomic int inside;
    _Atomic bool is_broken;
    _Atomic uint64_t newest; /* token */
    _Atomic int64_t beat_ms; /* last one run */
};

struct job {
    struct shared *shared;
    int64_t lasts_ms;         /* how long a run takes */
    bool until_told;          /* or: until it is told to end */
    _Atomic(int) holds;       /* ignores everything while this is set */
    _Atomic int begun, ended; /* runs */
    _Atomic int told;         /* of them, those that saw their end */
    _Atomic int rc;           /* to return */
    _Atomic uint64_t token, skipped;
    _Atomic int64_t began_ms, ended_ms, beat_ms;
};

static inline void rest_ms(int64_t ms)
{
    nanosleep(&(struct timespec){.tv_sec = (time_t)(ms / 1000),
                                 .tv_nsec = (long)(ms % 1000) * 1000000},
              NULL);
}

static inline void enter_job(struct job *job, const simba_run *run)
{
    struct shared *shared = job->shared;

    if (atomic_fetch_add(&shared->inside, 1) != 0 ||
        run->token < atomic_load(&shared->newest) || run->token == 0) {
        atomic_store(&shared->is_broken, true);
    }
    atomic_store(&shared->newest, run->token);
    atomic_store(&job->token, run->token);
    atomic_store(&job->beat_ms, run->beat_ms);
    atomic_store(&job->skipped, run->skipped);
    atomic_store(&job->began_ms, now_ms());
    atomic_fetch_add(&job->begun, 1);
}

static inline void stay(struct job *job, const simba_run *run)
{
    struct pollfd told = {.fd = run->stop_fd, .events = POLLIN};
    int64_t most = job->until_told ? PATIENCE_MS : job->lasts_ms;

    if (most > 0 && poll(&told, 1, (int)most) > 0) {
        atomic_fetch_add(&job->told, simba_run_is_stopped(run) ? 1 : 0);
    }
    while (atomic_load(&job->holds)) {
        rest_ms(1);
    }
}

static inline int work(void *user, const simba_run *run, simba_error *error)
{
    struct job *job = user;
    int rc = atomic_load(&job->rc);

    enter_job(job, run);
    stay(job, run);
    atomic_store(&job->ended_ms, now_ms());
    atomic_fetch_sub(&job->shared->inside, 1);
    atomic_fetch_add(&job->ended, 1);
    if (rc != SIMBA_OK) {
        simba_error_set(error, rc, 0, "the tea is out");
    }
    return rc;
}

static inline simba_scheduler_options options_of(const char *mutex,
                                                 struct job *job)
{
    simba_scheduler_options options = SIMBA_SCHEDULER_OPTIONS_INIT;

    options.mutex = mutex;
    options.schedule = SIMBA_FIXED_DELAY;
    options.period_ms = 5;
    options.work = work;
    options.user = job;
    return options;
}

static inline simba_scheduler *open_scheduler(
    simba_store *store,
    const simba_scheduler_options *options)
{
    simba_scheduler *scheduler;
    simba_error error;

    if (simba_scheduler_open(store, options, &scheduler, &error) != SIMBA_OK) {
        fail_msg("%s", error.message);
    }
    return scheduler;
}

static inline simba_scheduler *start_scheduler(
    simba_store *store,
    const simba_scheduler_options *options)
{
    simba_scheduler *scheduler = open_scheduler(store, options);

    assert_int_equal(simba_scheduler_start(scheduler, NULL), SIMBA_OK);
    return scheduler;
}

static inline simba_scheduler_counts counts_of(simba_scheduler *scheduler)
{
    simba_scheduler_counts counts = SIMBA_SCHEDULER_COUNTS_INIT;

    assert_int_equal(simba_scheduler_count(scheduler, &counts), SIMBA_OK);
    return counts;
}

/* Threads of this process that run the work of schedulers. */
static inline int count_work_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    int count = 0;

    while ((task = readdir(tasks)) != NULL) {
        char path[300], name[32] = "";
        FILE *comm;

        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        comm = fopen(path, "r");
        if (comm != NULL) {
            if (fgets(name, sizeof name, comm) != NULL &&
                strcmp(name, "simba-schedule\n") == 0) {
                count++;
            }
            fclose(comm);
        }
    }
    closedir(tasks);
    return count;
}

#endif
