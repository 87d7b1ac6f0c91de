/* An executor for tests: a queue, and whoever works it off. And contenders that
 * write down on which thread, and in which order, they are called back. */
#ifndef SIMBA_TESTS_API_EXECUTOR_QUEUE_H
#define SIMBA_TESTS_API_EXECUTOR_QUEUE_H

#include "fixtures/api_harness.h"

#include <pthread.h>
#include <string.h>

enum { WORKERS_MOST = 4 };

struct job {
    void (*run)(void *argument);
    void *argument;
};

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct job jobs[64]; /* more than there are contenders in a test */
    int first, count;
    _Atomic int taken;
    bool is_over;
    pthread_t workers[WORKERS_MOST];
    int worker_count;
};

static inline bool put(void *user, void (*run)(void *argument), void *argument)
{
    struct queue *queue = user;

    pthread_mutex_lock(&queue->lock);
    queue->jobs[(queue->first + queue->count++) % 64] =
        (struct job){.run = run, .argument = argument};
    atomic_fetch_add(&queue->taken, 1);
    pthread_cond_signal(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    return true;
}

/* False: there is nothing to do. With the lock held. */
static inline bool work_off_one(struct queue *queue)
{
    struct job job = queue->jobs[queue->first];

    if (queue->count == 0) {
        return false;
    }
    queue->first = (queue->first + 1) % 64;
    queue->count--;
    pthread_mutex_unlock(&queue->lock);
    job.run(job.argument);
    pthread_mutex_lock(&queue->lock);
    return true;
}

/* As an event loop does between other things. */
static inline void work_off(struct queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    while (work_off_one(queue)) {
    }
    pthread_mutex_unlock(&queue->lock);
}

static _Thread_local bool is_worker;

static inline void *work(void *argument)
{
    struct queue *queue = argument;

    is_worker = true;
    pthread_mutex_lock(&queue->lock);
    while (!queue->is_over) {
        if (!work_off_one(queue)) {
            pthread_cond_wait(&queue->changed, &queue->lock);
        }
    }
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

static inline void start_queue(struct queue *queue, int workers)
{
    *queue = (struct queue){.worker_count = workers};
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->changed, NULL);
    for (int i = 0; i < workers; i++) {
        pthread_create(&queue->workers[i], NULL, work, queue);
    }
}

static inline void end_queue(struct queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->is_over = true;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    for (int i = 0; i < queue->worker_count; i++) {
        pthread_join(queue->workers[i], NULL);
    }
    assert_int_equal(queue->count, 0); /* close has waited for all */
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
}

static inline simba_store *open_with(simba_executor_fn executor, void *user)
{
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;

    options.executor = executor;
    options.executor_user = user;
    return open_store_with(&options);
}

/* --- a contender that writes down what it hears -------------------------- */

struct heard {
    _Atomic int acquired, released;
    _Atomic bool is_broken;    /* not in turn, or two at once */
    _Atomic bool is_elsewhere; /* not on a worker */
    _Atomic int inside;
};

static inline void enter(struct heard *heard)
{
    if (atomic_fetch_add(&heard->inside, 1) != 0) {
        atomic_store(&heard->is_broken, true);
    }
    if (!is_worker) {
        atomic_store(&heard->is_elsewhere, true);
    }
}

static inline void on_acquired(void *user, const simba_state *state)
{
    struct heard *heard = user;

    (void)state;
    enter(heard);
    if (atomic_fetch_add(&heard->acquired, 1) !=
        atomic_load(&heard->released)) {
        atomic_store(&heard->is_broken, true);
    }
    atomic_fetch_sub(&heard->inside, 1);
}

static inline void on_released(void *user, const simba_state *state)
{
    struct heard *heard = user;

    (void)state;
    enter(heard);
    if (atomic_fetch_add(&heard->released, 1) + 1 !=
        atomic_load(&heard->acquired)) {
        atomic_store(&heard->is_broken, true);
    }
    atomic_fetch_sub(&heard->inside, 1);
}

static inline simba_service *open_service(simba_store *store,
                                          const char *mutex,
                                          struct heard *heard)
{
    simba_contender contender = SIMBA_CONTENDER_INIT;

    contender.mutex = mutex;
    contender.on_acquired = on_acquired;
    contender.on_released = on_released;
    contender.user = heard;
    return must_open_service(store, &contender);
}

static inline void start(simba_service *service)
{
    assert_int_equal(simba_service_start(service, NULL), SIMBA_OK);
}

static inline void stop(simba_service *service)
{
    assert_int_equal(simba_service_stop(service, NULL), SIMBA_OK);
}

#endif
