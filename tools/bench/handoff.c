/* simba bench handoff: this process releases, a child acquires.
 *
 * simba bench successor: the same where this process names the child, in turns
 * with where it does not.
 *
 * simba bench crash: the owner is killed, this process waits for the mutex.
 *
 * Times count from the end of the lease that the dead owner had; on a store
 * that sees crashes from the kill. The floor is a bare exchange, as soon as the
 * system's own clock says that the lease is over, or the system itself that the
 * process is dead.
 *
 * Owners are made by a child that has no store open, one for each exchange: a
 * process with threads is not one to fork. */
#define _GNU_SOURCE
#include "bench/bench.h"
#include "cli/cli.h"

#include <simba/admin.h>
#include <simba/sys/probe.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* So long the waiting side has to get in the queue and to fall asleep, before
 * the clock runs. */
enum { SETTLE_MS = 10, LOOK_UP_MS = 5000 };

enum { LEASE_LEAST_MS = 1000, LEASES_MOST = 5, FLOOR_LEAD_MS = 5 };

enum order { ORDER_LOCK = 'l', ORDER_FLOOR = 'f' };

struct answer {
    int rc;
    int64_t at_ns; /* when it was acquired */
    simba_error error;
};

/* Either process's end. */
struct end {
    struct simba__bench_child pipes;
    simba_store *store;
    simba_locker *locker;
    struct simba__floor *floor; /* NULL: the store has no floor */
};

/* Who waits, by which it can be named. */
static const char successor[] = "bench-successor";

static int open_end(struct end *end,
                    const struct simba__bench_job *job,
                    const char *id,
                    simba_error *error)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    int rc = simba_store_open(job->url, NULL, &end->store, error);

    options.mutex = job->mutex;
    options.id = id;
    if (rc == SIMBA_OK) {
        rc = simba_locker_open(end->store, &options, &end->locker, error);
    }
    if (rc == SIMBA_OK) {
        rc = simba__floor_open(job->url, job->mutex, &end->floor, error);
    }
    return rc;
}

static void close_end(struct end *end)
{
    simba__floor_close(end->floor);
    simba_locker_close(end->locker);
    simba_store_close(end->store);
}

/* --- the child ----------------------------------------------------------- */

static void wait_for_mutex(struct end *end, struct answer *answer)
{
    answer->rc = simba_locker_acquire(end->locker, -1, NULL, &answer->error);
    answer->at_ns = simba__bench_now_ns();
    if (answer->rc == SIMBA_OK) {
        answer->rc = simba_locker_release(end->locker, &answer->error);
    }
}

static void wait_for_floor(struct end *end, struct answer *answer)
{
    answer->rc =
        simba__floor_step(end->floor, SIMBA_FLOOR_AWAIT, &answer->error);
    answer->at_ns = simba__bench_now_ns();
}

static bool answer_to(const struct end *end, const struct answer *answer)
{
    return simba__bench_tell(end->pipes.out, answer, sizeof *answer);
}

static void obey(struct end *end)
{
    struct answer answer = {.rc = SIMBA_OK};
    char order;

    while (read(end->pipes.in, &order, 1) == 1) {
        if (order == ORDER_FLOOR) {
            answer.rc =
                simba__floor_step(end->floor, SIMBA_FLOOR_ARM, &answer.error);
        }
        if (!answer_to(end, &answer) || answer.rc != SIMBA_OK) {
            return;
        }
        if (order == ORDER_FLOOR) {
            wait_for_floor(end, &answer);
        } else {
            wait_for_mutex(end, &answer);
        }
        if (!answer_to(end, &answer)) {
            return;
        }
    }
}

static void live(const struct simba__bench_job *job,
                 struct simba__bench_child *self)
{
    struct end end = {.pipes = *self};
    struct answer answer = {.rc = SIMBA_OK};

    answer.rc = open_end(&end, job, successor, &answer.error);
    if (answer_to(&end, &answer) && answer.rc == SIMBA_OK) {
        obey(&end);
    }
    close_end(&end);
}

/* --- the parent ---------------------------------------------------------- */

static int hear(const struct end *end,
                struct answer *answer,
                simba_error *error)
{
    int rc = simba__bench_hear(end->pipes.in, answer, sizeof *answer, error);

    if (rc == SIMBA_OK && answer->rc != SIMBA_OK) {
        *error = answer->error;
        rc = answer->rc;
    }
    return rc;
}

/* Has the other side wait, and lets it fall asleep. */
static int send_to_wait(const struct end *end,
                        enum order order,
                        simba_error *error)
{
    struct timespec settle = {0, SETTLE_MS * 1000000L};
    struct answer ready;
    char letter = (char)order;
    int rc;

    (void)simba__bench_tell(end->pipes.out, &letter, 1); /* else we hear it */
    rc = hear(end, &ready, error);
    (void)nanosleep(&settle, NULL);
    return rc;
}

static int hand_to(struct end *end,
                   const char *to,
                   int64_t *ns,
                   simba_error *error)
{
    struct answer answer = {.rc = SIMBA_OK};
    int64_t begun_ns = 0;
    int rc = simba__bench_acquire(end->locker, LOOK_UP_MS, error);

    if (rc == SIMBA_OK) {
        rc = send_to_wait(end, ORDER_LOCK, error);
    }
    if (rc == SIMBA_OK) {
        begun_ns = simba__bench_now_ns();
        rc = to == NULL ? simba_locker_release(end->locker, error)
                        : simba_locker_hand_over(end->locker, to, error);
    }
    if (rc == SIMBA_OK) {
        rc = hear(end, &answer, error);
    }
    *ns = answer.at_ns - begun_ns;
    return rc;
}

static int hand_off(void *self, int64_t *ns, simba_error *error)
{
    return hand_to(self, NULL, ns, error);
}

static int hand_to_named(void *self, int64_t *ns, simba_error *error)
{
    return hand_to(self, successor, ns, error);
}

static int notify_over(void *self, int64_t *ns, simba_error *error)
{
    struct end *end = self;
    struct answer answer = {.rc = SIMBA_OK};
    int64_t begun_ns = 0;
    int rc = send_to_wait(end, ORDER_FLOOR, error);

    if (rc == SIMBA_OK) {
        begun_ns = simba__bench_now_ns();
        rc = simba__floor_step(end->floor, SIMBA_FLOOR_NOTIFY, error);
    }
    if (rc == SIMBA_OK) {
        rc = hear(end, &answer, error);
    }
    *ns = answer.at_ns - begun_ns;
    return rc;
}

static int measure(const struct simba__bench_job *job,
                   bool is_named,
                   struct simba__bench_result *result,
                   simba_error *error)
{
    struct end end = {.store = NULL};
    struct simba__bench_side sides[SIMBA__BENCH_SIDES] = {
        {is_named ? hand_to_named : hand_off, &end},
        {is_named ? hand_off : notify_over, NULL}};
    struct answer ready;
    int rc = simba__bench_child_start(&end.pipes, live, job, error);

    if (rc == SIMBA_OK) {
        rc = hear(&end, &ready, error);
    }
    if (rc == SIMBA_OK) {
        rc = open_end(&end, job, NULL, error);
    }
    if (rc == SIMBA_OK) {
        sides[1].self = end.floor == NULL && !is_named ? NULL : &end;
        rc = simba__bench_run(&job->plan, sides, result, error);
    }
    close_end(&end); /* what it waits for is free by this */
    simba__bench_child_end(&end.pipes);
    return rc;
}

int simba__bench_handoff(const struct simba__bench_job *job,
                         struct simba__bench_result *result,
                         simba_error *error)
{
    return measure(job, false, result, error);
}

int simba__bench_successor(const struct simba__bench_job *job,
                           struct simba__bench_result *result,
                           simba_error *error)
{
    return measure(job, true, result, error);
}

/* --- crash: owners, and who makes them ----------------------------------- */

/* An owner of the mutex, and when it asked for it. */
struct owner {
    int rc;
    pid_t pid;
    int64_t asked_ns;
    simba_error error;
};

struct handoff_scene {
    const struct simba__bench_job *job;
    struct simba__bench_child maker;
    simba_store *store;
    simba_locker *locker;
    struct simba__floor *floor;
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

static _Noreturn void own(const struct simba__bench_job *job,
                          int64_t lease_ms,
                          int out)
{
    simba_locker_options options = locker_options(job, lease_ms);
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
    (void)simba__bench_tell(out, &self, sizeof self);
    for (;;) {
        (void)pause();
    }
}

static void make_owners(const struct simba__bench_job *job,
                        struct simba__bench_child *self)
{
    int64_t lease_ms;
    pid_t pid = 0;

    while (simba__bench_hear(self->in, &lease_ms, sizeof lease_ms, NULL) ==
           SIMBA_OK) {
        if (pid > 0) { /* dead by now */
            (void)waitpid(pid, NULL, 0);
        }
        pid = fork();
        if (pid == 0) {
            own(job, lease_ms, self->out);
        }
    }
    if (pid > 0) {
        (void)kill(pid, SIGKILL);
    }
}

/* --- waiting, and killing ------------------------------------------------ */

static bool is_awaited(struct handoff_scene *s)
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
    struct handoff_scene *s = argument;
    struct timespec pause = {0, 1000000};

    while (!is_awaited(s) && !atomic_load(&s->is_given_up)) {
        (void)nanosleep(&pause, NULL);
    }
    s->killed_ns = simba__bench_now_ns();
    (void)kill(s->owner.pid, SIGKILL);
    return NULL;
}

static int make_owner(struct handoff_scene *s, simba_error *error)
{
    int rc;

    (void)simba__bench_tell(s->maker.out, &s->lease_ms, sizeof s->lease_ms);
    rc = simba__bench_hear(s->maker.in, &s->owner, sizeof s->owner, error);
    if (rc == SIMBA_OK && s->owner.rc != SIMBA_OK) {
        *error = s->owner.error;
        rc = s->owner.rc;
    }
    return rc;
}

static int crash_once(void *self, int64_t *ns, simba_error *error)
{
    struct handoff_scene *s = self;
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

/* --- the floor ----------------------------------------------------------- */

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
    struct handoff_scene *s = self;
    int64_t from_ns = s->sees_crash ? await_death() : await_time();
    int rc = simba__floor_step(s->floor, SIMBA_FLOOR_PAIR, error);

    *ns = simba__bench_now_ns() - from_ns;
    return rc;
}

/* --- the whole ----------------------------------------------------------- */

static int open_scene(struct handoff_scene *s, simba_error *error)
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
        rc = simba__floor_open(s->job->url, s->job->mutex, &s->floor, error);
    }
    return rc;
}

int simba__bench_crash(const struct simba__bench_job *job,
                       struct simba__bench_result *result,
                       simba_error *error)
{
    struct handoff_scene scene = {.job = job};
    struct simba__bench_side sides[SIMBA__BENCH_SIDES] = {
        {crash_once, &scene}, {exchange_after, NULL}};
    int64_t begun_ns;
    int rc = simba__bench_child_start(&scene.maker, make_owners, job, error);

    if (rc == SIMBA_OK) {
        rc = open_scene(&scene, error);
    }
    if (rc == SIMBA_OK) {
        begun_ns = simba__bench_now_ns();
        sides[1].self = scene.floor == NULL ? NULL : &scene;
        rc = simba__bench_run(&job->plan, sides, result, error);
    }
    if (rc == SIMBA_OK) {
        result->seconds = (double)(simba__bench_now_ns() - begun_ns) / 1e9;
        result->per_second = (double)result->count / result->seconds;
        result->since = scene.sees_crash ? "kill" : "lease";
    }
    simba__floor_close(scene.floor);
    simba_locker_close(scene.locker);
    simba_store_close(scene.store);
    simba__bench_child_end(&scene.maker);
    return rc;
}
