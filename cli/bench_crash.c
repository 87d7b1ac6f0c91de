/* simba bench crash: the owner is killed, this process waits for the mutex.
 *
 * Times count from the end of the lease that the dead owner had; on a store
 * that sees crashes from the kill. The floor is a bare exchange, as soon as the
 * system's own clock says that the lease is over, or the system itself that the
 * process is dead.
 *
 * Owners are made by a child that has no store open, one for each exchange: a
 * process with threads is not one to fork. */
#define _GNU_SOURCE
#include "bench_child.h"
#include "interrupt.h"

#include <simba/admin.h>
#include <simba/locker.h>
#include <simba/sys/bench.h>
#include <simba/sys/probe.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LEASE_LEAST_MS = 1000, LEASES_MOST = 5, FLOOR_LEAD_MS = 5 };

/* An owner of the mutex, and when it asked for it. */
struct owner {
    int rc;
    pid_t pid;
    int64_t asked_ns;
    simba_error error;
};

/* What the owners' maker is told: the lease they shall have. */
struct order {
    int64_t lease_ms;
};

struct scene {
    const struct simba__bench_job *job;
    struct simba__bench_child maker;
    simba_store *store;
    simba_locker *locker;
    simba_bench *bench;
    int64_t lease_ms;
    bool sees_crash;
    /* The killer's. */
    struct owner owner;
    int64_t killed_ns;
    _Atomic bool is_given_up;
};

static simba_locker_options locker_options(const struct simba__bench_job *job,
                                           int64_t lease_ms)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;

    options.mutex = job->mutex;
    options.times.ttl_ms = lease_ms * 2 / 3;
    options.times.transition_ms = lease_ms - options.times.ttl_ms;
    return options;
}

/* --- owners, and who makes them ------------------------------------------- */

static _Noreturn void own(const struct simba__bench_job *job,
                          const struct order *order,
                          int out)
{
    simba_locker_options options = locker_options(job, order->lease_ms);
    struct owner self = {.pid = getpid()};
    simba_store *store;
    simba_locker *locker;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    self.rc = simba_store_open(job->url, NULL, &store, &self.error);
    if (self.rc == SIMBA_OK) {
        self.rc = simba_locker_open(store, &options, &locker, &self.error);
    }
    if (self.rc == SIMBA_OK) {
        self.asked_ns = simba__bench_now_ns();
        self.rc = simba_locker_acquire(locker, -1, NULL, &self.error);
    }
    (void)simba__bench_tell(out, &self, sizeof(self));
    for (;;) {
        (void)pause();
    }
}

static void make_owners(const struct simba__bench_job *job,
                        struct simba__bench_child *self)
{
    struct order order;
    pid_t pid = 0;

    while (simba__bench_hear(self->in, &order, sizeof(order), NULL) ==
           SIMBA_OK) {
        if (pid > 0) { /* dead by now */
            (void)waitpid(pid, NULL, 0);
        }
        pid = fork();
        if (pid == 0) {
            own(job, &order, self->out);
        }
    }
    if (pid > 0) {
        (void)kill(pid, SIGKILL);
    }
}

/* --- waiting, and killing ------------------------------------------------- */

static bool is_awaited(struct scene *s)
{
    simba_report *report;
    bool is_so = false;

    if (simba_admin_show(s->store, s->job->mutex, &report, NULL) == SIMBA_OK) {
        is_so = simba_report_waiter_count(report) > 0;
        simba_report_close(report);
    }
    return is_so;
}

/* As soon as we stand in the queue, and long before the owner would renew. */
static void *kill_owner(void *argument)
{
    struct scene *s = argument;
    struct timespec pause = {0, 1000000};

    while (!is_awaited(s) && !atomic_load(&s->is_given_up)) {
        (void)nanosleep(&pause, NULL);
    }
    s->killed_ns = simba__bench_now_ns();
    (void)kill(s->owner.pid, SIGKILL);
    return NULL;
}

static int make_owner(struct scene *s, simba_error *error)
{
    struct order order = {.lease_ms = s->lease_ms};
    int rc;

    (void)simba__bench_tell(s->maker.out, &order, sizeof(order));
    rc = simba__bench_hear(s->maker.in, &s->owner, sizeof(s->owner), error);
    if (rc == SIMBA_OK && s->owner.rc != SIMBA_OK) {
        *error = s->owner.error;
        rc = s->owner.rc;
    }
    return rc;
}

static int crash_once(void *self, int64_t *ns, simba_error *error)
{
    struct scene *s = self;
    pthread_t killer;
    int64_t acquired_ns;
    int rc = make_owner(s, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    atomic_store(&s->is_given_up, false);
    if (pthread_create(&killer, NULL, kill_owner, s) != 0) {
        return simba_error_set(error, SIMBA_EINTERNAL, 0, "no thread");
    }
    rc = simba__bench_acquire(s->locker, LEASES_MOST * s->lease_ms, error);
    acquired_ns = simba__bench_now_ns();
    atomic_store(&s->is_given_up, true);
    (void)pthread_join(killer, NULL);
    *ns = acquired_ns - (s->sees_crash
                             ? s->killed_ns
                             : s->owner.asked_ns + s->lease_ms * 1000000);
    return rc == SIMBA_OK ? simba_locker_release(s->locker, error) : rc;
}

/* --- the floor ------------------------------------------------------------ */

/* When the system's clock says so. */
static int64_t await_time(void)
{
    int64_t at_ns = simba__bench_now_ns() + FLOOR_LEAD_MS * INT64_C(1000000);
    struct timespec at = {.tv_sec = (time_t)(at_ns / 1000000000),
                          .tv_nsec = (long)(at_ns % 1000000000)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) ==
           EINTR) {
    }
    return at_ns;
}

/* When the system says that a process is dead. */
static int64_t await_death(void)
{
    pid_t pid = fork();
    int64_t killed_ns;
    int fd;

    if (pid == 0) {
        for (;;) {
            (void)pause();
        }
    }
    fd = (int)syscall(SYS_pidfd_open, pid, 0);
    killed_ns = simba__bench_now_ns();
    (void)kill(pid, SIGKILL);
    if (fd >= 0) {
        (void)poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1);
        (void)close(fd);
    }
    (void)waitpid(pid, NULL, 0);
    return killed_ns;
}

static int exchange_after(void *self, int64_t *ns, simba_error *error)
{
    struct scene *s = self;
    int64_t from_ns = s->sees_crash ? await_death() : await_time();
    int rc = simba_bench_step(s->bench, SIMBA_FLOOR_PAIR, error);

    *ns = simba__bench_now_ns() - from_ns;
    return rc;
}

/* --- the whole ------------------------------------------------------------ */

static int open_scene(struct scene *s, simba_error *error)
{
    const simba_backend_ops *ops;
    simba_locker_options options;
    int rc = simba_store_open(s->job->url, NULL, &s->store, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    ops = simba_probe_ops(s->store);
    s->sees_crash = (ops->capabilities & SIMBA_CAN_SEE_CRASH) != 0;
    s->lease_ms = ops->least_lease_ms > LEASE_LEAST_MS ? ops->least_lease_ms
                                                       : LEASE_LEAST_MS;
    options = locker_options(s->job, s->lease_ms);
    rc = simba_locker_open(s->store, &options, &s->locker, error);
    if (rc == SIMBA_OK) {
        rc = simba_bench_open(s->job->url, s->job->mutex, &s->bench, error);
        rc = rc == SIMBA_EINVAL ? SIMBA_OK : rc;
    }
    return rc;
}

static int measure(struct scene *s,
                   struct simba__bench_result *result,
                   simba_error *error)
{
    struct simba__bench_side sides[2] = {
        {crash_once, s}, {exchange_after, s->bench == NULL ? NULL : s}};
    int64_t begun_ns = simba__bench_now_ns();
    int rc = simba__bench_run(&s->job->plan, sides, result, error);

    if (rc == SIMBA_OK) {
        result->seconds = (double)(simba__bench_now_ns() - begun_ns) / 1e9;
        result->per_second = (double)result->count / result->seconds;
        result->since = s->sees_crash ? "kill" : "lease";
    }
    return rc;
}

int simba__bench_crash(const struct simba__bench_job *job,
                       struct simba__bench_result *result,
                       simba_error *error)
{
    struct scene scene = {.job = job};
    int rc = simba__bench_child_start(&scene.maker, make_owners, job, error);

    if (rc == SIMBA_OK) {
        rc = open_scene(&scene, error);
    }
    if (rc == SIMBA_OK) {
        rc = measure(&scene, result, error);
    }
    simba_bench_close(scene.bench);
    simba_locker_close(scene.locker);
    simba_store_close(scene.store);
    simba__bench_child_end(&scene.maker);
    return rc;
}
