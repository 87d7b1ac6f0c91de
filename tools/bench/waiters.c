/* simba bench waiters: a mutex goes from one to the next of many who wait for
 * it, and who had it waits again behind them all.
 *
 * Neighbours in the queue are of two handles, so that every hand-over goes
 * through the store. It has no floor: with two contenders it is its own. That
 * it is one then, too, takes that who had it stands in the queue before the
 * next begins: else the mutex is free when it comes, and nobody waits for it.
 */
#define _GNU_SOURCE
#include "bench/bench.h"
#include "cli/cli.h"

#include <simba/service.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PATIENCE_MS = 60000, TIMES_MOST = 1 << 20, LOOK_US = 200 };

struct member {
    struct crowd *crowd;
    simba_service *service;
};

struct crowd {
    const struct simba__bench_job *job;
    simba_store *stores[2];
    struct member *members;
    size_t open;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    struct member *owner; /* NULL: the next has not come yet */
    int64_t at_ns;        /* when it came */
};

static void on_acquired(void *user, const simba_state *state)
{
    struct member *member = user;
    struct crowd *crowd = member->crowd;

    (void)state;
    pthread_mutex_lock(&crowd->lock);
    crowd->at_ns = simba__bench_now_ns();
    crowd->owner = member;
    pthread_cond_signal(&crowd->changed);
    pthread_mutex_unlock(&crowd->lock);
}

/* Until the store has answered it: it owns the mutex, or stands in the queue.
 */
static int await_answer(const struct member *member, simba_error *error)
{
    struct timespec pause = {0, LOOK_US * 1000L};
    int rc = SIMBA_OK;

    while (rc == SIMBA_OK &&
           simba_service_status(member->service) != SIMBA_RUNNING) {
        (void)nanosleep(&pause, NULL);
        rc = simba__interrupt() == 0 ? rc : simba__bench_cancel(error);
    }
    return rc;
}

static int start_all(struct crowd *crowd, simba_error *error)
{
    size_t count = crowd->job->contenders;
    simba_contender contender = SIMBA_CONTENDER_INIT;
    int rc = SIMBA_OK;

    contender.mutex = crowd->job->mutex;
    contender.on_acquired = on_acquired;
    for (size_t i = 0; i < 2 && rc == SIMBA_OK; i++) {
        rc = simba_store_open(crowd->job->url, NULL, &crowd->stores[i], error);
    }
    while (rc == SIMBA_OK && crowd->open < count) {
        struct member *member = &crowd->members[crowd->open];

        member->crowd = crowd;
        contender.user = member;
        rc = simba_service_open(crowd->stores[crowd->open % 2], &contender,
                                &member->service, error);
        crowd->open += rc == SIMBA_OK ? 1 : 0;
        if (rc == SIMBA_OK) {
            rc = simba_service_start(member->service, error);
        }
        if (rc == SIMBA_OK) { /* else those of one handle come together */
            rc = await_answer(member, error);
        }
    }
    return rc;
}

/* Who owns it now; NULL: nobody has come. */
static struct member *await_owner(struct crowd *crowd, int64_t *at_ns)
{
    struct timespec until;
    struct member *owner;
    int rc = 0;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += PATIENCE_MS / 1000;
    pthread_mutex_lock(&crowd->lock);
    while (crowd->owner == NULL && rc == 0) {
        rc = pthread_cond_clockwait(&crowd->changed, &crowd->lock,
                                    CLOCK_MONOTONIC, &until);
    }
    owner = crowd->owner;
    crowd->owner = NULL;
    *at_ns = crowd->at_ns;
    pthread_mutex_unlock(&crowd->lock);
    return owner;
}

static int hand_on(struct crowd *crowd,
                   struct member **owner,
                   int64_t *ns,
                   simba_error *error)
{
    struct member *former = *owner;
    int64_t begun_ns = simba__bench_now_ns(), at_ns;
    int rc = simba_service_stop(former->service, error);

    if (rc == SIMBA_OK) {
        *owner = await_owner(crowd, &at_ns);
        *ns = at_ns - begun_ns;
        rc = *owner != NULL
                 ? simba_service_start(former->service, error)
                 : simba_error_set(error, SIMBA_ETIMEDOUT, 0,
                                   "the next in the queue did not come");
    }
    return rc == SIMBA_OK ? await_answer(former, error) : rc;
}

static int measure(struct crowd *crowd,
                   int64_t *times,
                   struct simba__bench_result *result,
                   simba_error *error)
{
    const struct simba__bench_plan *plan = &crowd->job->plan;
    size_t most = plan->most == 0 ? TIMES_MOST : plan->most;
    int64_t begun_ns, until_ns, at_ns, now_ns = 0;
    struct member *owner;
    int rc = start_all(crowd, error);

    owner = rc == SIMBA_OK ? await_owner(crowd, &at_ns) : NULL;
    begun_ns = simba__bench_now_ns();
    until_ns = begun_ns + plan->length_ms * 1000000;
    while (rc == SIMBA_OK && owner != NULL && result->count < most &&
           now_ns < until_ns) {
        rc = hand_on(crowd, &owner, &times[result->count], error);
        result->count += rc == SIMBA_OK ? 1 : 0;
        now_ns = simba__bench_now_ns();
        plan->progress(plan->user, (int)((now_ns - begun_ns) / 10000 /
                                         (plan->length_ms + 1)));
        rc = simba__interrupt() == 0 ? rc : simba__bench_cancel(error);
    }
    plan->progress(plan->user, 100);
    result->seconds = (double)(now_ns - begun_ns) / 1e9;
    result->per_second = (double)result->count / result->seconds;
    simba__bench_put_times(result, times, result->count);
    return rc == SIMBA_OK && owner == NULL
               ? simba_error_set(error, SIMBA_ETIMEDOUT, 0,
                                 "nobody came to own the mutex")
               : rc;
}

int simba__bench_waiters(const struct simba__bench_job *job,
                         struct simba__bench_result *result,
                         simba_error *error)
{
    struct crowd crowd = {.job = job};
    int64_t *times = calloc(TIMES_MOST, sizeof *times);
    int rc;

    memset(result, 0, sizeof *result);
    result->contenders = job->contenders;
    crowd.members = calloc(job->contenders, sizeof *crowd.members);
    pthread_mutex_init(&crowd.lock, NULL);
    pthread_cond_init(&crowd.changed, NULL);
    rc = crowd.members == NULL || times == NULL
             ? simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory")
             : measure(&crowd, times, result, error);
    /* The last first: who waits before the owner leaves is granted nothing. */
    while (crowd.members != NULL && crowd.open > 0) {
        simba_service_close(crowd.members[--crowd.open].service);
    }
    simba_store_close(crowd.stores[0]);
    simba_store_close(crowd.stores[1]);
    pthread_cond_destroy(&crowd.changed);
    pthread_mutex_destroy(&crowd.lock);
    free(crowd.members);
    free(times);
    return rc;
}
