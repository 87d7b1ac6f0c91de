/* Callback threads: where users' callbacks run.
 *
 * The tasks of one serial queue run one after the other; several queues run
 * side by side. The pool has no thread before the first callback, and grows
 * when one has waited for 5 ms because others are slow (S9). With an executor
 * of the user's its threads only hand queues over to that. A pool with a
 * descriptor has no threads at all: the user runs what is ready. */
#ifndef SIMBA_RUNTIME_CALLBACK_POOL_H
#define SIMBA_RUNTIME_CALLBACK_POOL_H

#include "runtime/loop.h"

struct simba__task {
    void (*run)(struct simba__task *self);
    struct simba__task *next;
};

struct simba__callback_pool;

struct simba__serial_queue {
    struct simba__callback_pool *pool; /* that it was pushed to */
    struct simba__task *last;          /* and after it comes the first */
    int64_t ready_ms; /* since when it is in the ready list, or was before it
                         ran; 0: neither */
    struct simba__serial_queue *next;
};

struct simba__callback_pool {
    simba_loop *loop;
    simba_timer timer; /* looks after those who wait */
    simba_log_fn log;
    void *log_user;
    int most;
    bool (*executor)(void *user, void (*run)(void *argument), void *argument);
    void *executor_user;
    /* Of the loop's lock: somebody's contender has come to rest; or a queue can
     * be run by who waits for it, by simba__serial_queue_run(). */
    pthread_cond_t changed;

    pthread_mutex_t lock;   /* guards what follows and the queues */
    pthread_cond_t wake;    /* there is work, or the end */
    pthread_cond_t settled; /* a queue came to rest; or is ready, if nobody but
                               who waits for it may run it */
    struct simba__serial_queue *first, **last; /* ready */
    int ready_count;
    pthread_t *threads;
    int thread_count;
    size_t thread_room;
    int idle_count;    /* wait for a queue, or are on their way to one */
    int blocked_count; /* wait in a callback for other callbacks */
    bool is_closing;
    int ready_fd; /* -1, or: readable while there is something to be run */
    bool is_overrun_told, is_starved_told, is_refusal_told; /* logged once */
};

bool simba__callback_pool_init(struct simba__callback_pool *pool,
                               simba_loop *loop,
                               int most);
/** Have no threads from now on, but a descriptor. False: errno says why not. */
bool simba__callback_pool_open_fd(struct simba__callback_pool *pool);
/** Run what is ready by now, on this thread. Returns how many callbacks. */
int simba__callback_pool_dispatch(struct simba__callback_pool *pool);
/** Run a callback of this queue on this thread, if one is ready and the pool
 * has no thread for it. Inside the loop, which is left meanwhile. */
bool simba__serial_queue_run(struct simba__callback_pool *pool,
                             struct simba__serial_queue *queue);
/** Wait for running callbacks, drop the others, end the threads. */
void simba__callback_pool_fini(struct simba__callback_pool *pool);

void simba__serial_queue_init(struct simba__serial_queue *queue);
/** Queue a task. Inside the loop. */
void simba__serial_queue_push(struct simba__callback_pool *pool,
                              struct simba__serial_queue *queue,
                              struct simba__task *task);
/** A callback is about to wait for what other callbacks may have to bring
 * about; until simba__callback_pool_unblock() its thread does not count. No-ops
 * on threads that are not of this pool. */
void simba__callback_pool_block(struct simba__callback_pool *pool);
void simba__callback_pool_unblock(struct simba__callback_pool *pool);

/** Wait until nothing of it is queued or running, and run it if need be. Any
 * thread but its own. */
void simba__serial_queue_wait(struct simba__callback_pool *pool,
                              struct simba__serial_queue *queue);
/** Is the calling thread inside a task of this queue? Any thread. */
bool simba__serial_queue_is_mine(const struct simba__serial_queue *queue);

#endif
