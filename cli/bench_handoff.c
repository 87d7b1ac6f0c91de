/* simba bench handoff: this process releases, a child acquires. The child is
 * forked before a store is opened; orders and answers go through two pipes. */
#define _GNU_SOURCE
#include "bench.h"

#include <simba/bench.h>
#include <simba/locker.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* So long the waiting side has to get in line and to fall asleep, before the
 * clock runs. */
enum { SETTLE_MS = 10 };

enum order { ORDER_LOCK = 'l', ORDER_FLOOR = 'f' };

struct answer {
    int rc;
    int64_t at_ns; /* when it was acquired */
    simba_error error;
};

/* Either process's end. */
struct end {
    int in, out;
    simba_store *store;
    simba_locker *locker;
    simba_bench *bench; /* NULL: the store has no floor */
};

static int open_end(struct end *end,
                    const struct simba__bench_job *job,
                    simba_error *error)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    int rc = simba_store_open(job->url, NULL, &end->store, error);

    options.mutex = job->mutex;
    if (rc == SIMBA_OK) {
        rc = simba_locker_open(end->store, &options, &end->locker, error);
    }
    if (rc == SIMBA_OK) {
        rc = simba_bench_open(job->url, job->mutex, &end->bench, error);
        rc = rc == SIMBA_EINVAL ? SIMBA_OK : rc;
    }
    return rc;
}

static void close_end(struct end *end)
{
    simba_bench_close(end->bench);
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

static void wait_for_bell(struct end *end, struct answer *answer)
{
    answer->rc =
        simba_bench_step(end->bench, SIMBA_FLOOR_AWAIT, &answer->error);
    answer->at_ns = simba__bench_now_ns();
}

static bool say_ready(const struct end *end, struct answer *answer)
{
    answer->at_ns = 0;
    return write(end->out, answer, sizeof(*answer)) == sizeof(*answer);
}

static void obey(struct end *end)
{
    struct answer answer = {.rc = SIMBA_OK};
    char order;

    while (read(end->in, &order, 1) == 1) {
        if (order == ORDER_FLOOR) {
            answer.rc =
                simba_bench_step(end->bench, SIMBA_FLOOR_ARM, &answer.error);
        }
        if (!say_ready(end, &answer) || answer.rc != SIMBA_OK) {
            return;
        }
        if (order == ORDER_FLOOR) {
            wait_for_bell(end, &answer);
        } else {
            wait_for_mutex(end, &answer);
        }
        if (write(end->out, &answer, sizeof(answer)) != sizeof(answer)) {
            return;
        }
    }
}

static _Noreturn void run_child(const struct simba__bench_job *job,
                                struct end *end)
{
    struct answer answer = {.rc = SIMBA_OK};

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    answer.rc = open_end(end, job, &answer.error);
    if (say_ready(end, &answer) && answer.rc == SIMBA_OK) {
        obey(end);
    }
    close_end(end);
    _exit(0);
}

/* --- the parent ---------------------------------------------------------- */

static int hear(const struct end *end,
                struct answer *answer,
                simba_error *error)
{
    if (read(end->in, answer, sizeof(*answer)) != sizeof(*answer)) {
        return simba_error_set(error, SIMBA_EINTERNAL, 0,
                               "the other process of the bench has died");
    }
    if (answer->rc != SIMBA_OK) {
        *error = answer->error;
    }
    return answer->rc;
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

    if (write(end->out, &letter, 1) != 1) {
        return simba_error_set(error, SIMBA_EINTERNAL, errno,
                               "the other process of the bench has died");
    }
    rc = hear(end, &ready, error);
    (void)nanosleep(&settle, NULL);
    return rc;
}

static int hand_over(void *self, int64_t *ns, simba_error *error)
{
    struct end *end = self;
    struct answer answer = {.rc = SIMBA_OK};
    int64_t begun_ns = 0;
    int rc = simba_locker_acquire(end->locker, -1, NULL, error);

    if (rc == SIMBA_OK) {
        rc = send_to_wait(end, ORDER_LOCK, error);
    }
    if (rc == SIMBA_OK) {
        begun_ns = simba__bench_now_ns();
        rc = simba_locker_release(end->locker, error);
    }
    if (rc == SIMBA_OK) {
        rc = hear(end, &answer, error);
    }
    *ns = answer.at_ns - begun_ns;
    return rc;
}

static int ring_over(void *self, int64_t *ns, simba_error *error)
{
    struct end *end = self;
    struct answer answer = {.rc = SIMBA_OK};
    int64_t begun_ns = 0;
    int rc = send_to_wait(end, ORDER_FLOOR, error);

    if (rc == SIMBA_OK) {
        begun_ns = simba__bench_now_ns();
        rc = simba_bench_step(end->bench, SIMBA_FLOOR_RING, error);
    }
    if (rc == SIMBA_OK) {
        rc = hear(end, &answer, error);
    }
    *ns = answer.at_ns - begun_ns;
    return rc;
}

static int measure(const struct simba__bench_job *job,
                   struct end *end,
                   struct simba__bench_result *result,
                   simba_error *error)
{
    struct simba__bench_side sides[2] = {{hand_over, end}, {ring_over, NULL}};
    struct answer ready;
    int rc = hear(end, &ready, error);

    if (rc == SIMBA_OK) {
        rc = open_end(end, job, error);
    }
    if (rc == SIMBA_OK) {
        sides[1].self = end->bench == NULL ? NULL : end;
        rc = simba__bench_run(&job->plan, sides, result, error);
    }
    return rc;
}

int simba__bench_handoff(const struct simba__bench_job *job,
                         struct simba__bench_result *result,
                         simba_error *error)
{
    int down[2], up[2], rc;
    struct end end = {.in = -1};
    pid_t child;

    if (pipe2(down, O_CLOEXEC) != 0 || pipe2(up, O_CLOEXEC) != 0) {
        return simba_error_set(error, SIMBA_EINTERNAL, errno, "pipe: %s",
                               strerror(errno));
    }
    child = fork();
    if (child == 0) {
        (void)close(down[1]);
        (void)close(up[0]);
        run_child(job, &(struct end){.in = down[0], .out = up[1]});
    }
    (void)close(down[0]);
    (void)close(up[1]);
    end = (struct end){.in = up[0], .out = down[1]};
    rc = measure(job, &end, result, error);
    (void)close(end.out);
    if (rc != SIMBA_OK) {
        (void)kill(child, SIGKILL);
    }
    (void)waitpid(child, NULL, 0);
    close_end(&end);
    (void)close(end.in);
    return rc;
}
