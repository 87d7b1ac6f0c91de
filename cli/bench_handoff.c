/* simba bench handoff: this process releases, a child acquires. */
#define _GNU_SOURCE
#include "bench_child.h"

#include <simba/locker.h>
#include <simba/sys/bench.h>

#include <time.h>
#include <unistd.h>

/* So long the waiting side has to get in the queue and to fall asleep, before
 * the clock runs. */
enum { SETTLE_MS = 10, LOOK_UP_MS = 5000 };

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

static bool tell(const struct end *end, const struct answer *answer)
{
    return simba__bench_tell(end->pipes.out, answer, sizeof(*answer));
}

static void obey(struct end *end)
{
    struct answer answer = {.rc = SIMBA_OK};
    char order;

    while (read(end->pipes.in, &order, 1) == 1) {
        if (order == ORDER_FLOOR) {
            answer.rc =
                simba_bench_step(end->bench, SIMBA_FLOOR_ARM, &answer.error);
        }
        if (!tell(end, &answer) || answer.rc != SIMBA_OK) {
            return;
        }
        if (order == ORDER_FLOOR) {
            wait_for_bell(end, &answer);
        } else {
            wait_for_mutex(end, &answer);
        }
        if (!tell(end, &answer)) {
            return;
        }
    }
}

static void live(const struct simba__bench_job *job,
                 struct simba__bench_child *self)
{
    struct end end = {.pipes = *self};
    struct answer answer = {.rc = SIMBA_OK};

    answer.rc = open_end(&end, job, &answer.error);
    if (tell(&end, &answer) && answer.rc == SIMBA_OK) {
        obey(&end);
    }
    close_end(&end);
}

/* --- the parent ---------------------------------------------------------- */

static int hear(const struct end *end,
                struct answer *answer,
                simba_error *error)
{
    int rc = simba__bench_hear(end->pipes.in, answer, sizeof(*answer), error);

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

static int hand_over(void *self, int64_t *ns, simba_error *error)
{
    struct end *end = self;
    struct answer answer = {.rc = SIMBA_OK};
    int64_t begun_ns = 0;
    int rc = simba__bench_acquire(end->locker, LOOK_UP_MS, error);

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
    struct end end = {.store = NULL};
    int rc = simba__bench_child_start(&end.pipes, live, job, error);

    if (rc == SIMBA_OK) {
        rc = measure(job, &end, result, error);
    }
    close_end(&end); /* what it waits for is free by this */
    simba__bench_child_end(&end.pipes);
    return rc;
}
