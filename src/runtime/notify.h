/* Notifier threads: where users' callbacks run.
 *
 * A strand is a queue of tasks that run one after the other; strands run side
 * by side. The pool has no thread before the first callback, and grows when one
 * has waited for 5 ms because others are slow (S9). With an executor of the
 * user's its threads only hand strands over to that. */
#ifndef SIMBA_RUNTIME_NOTIFY_H
#define SIMBA_RUNTIME_NOTIFY_H

#include "runtime/loop.h"

struct simba__task {
    void (*run)(struct simba__task *self);
    struct simba__task *next;
};

struct simba__pool;

struct simba__strand {
    struct simba__pool *pool; /* that it was pushed to */
    struct simba__task *first, **last;
    bool is_scheduled; /* in the ready list, or running */
    int64_t ready_ms;
    struct simba__strand *next;
};

struct simba__pool {
    simba_loop *loop;
    simba_timer timer; /* looks after those who wait */
    simba_log_fn log;
    void *log_user;
    int most;
    bool (*executor)(void *user, void (*run)(void *argument), void *argument);
    void *executor_user;

    pthread_mutex_t lock;   /* guards what follows and the strands */
    pthread_cond_t wake;    /* there is work, or the end */
    pthread_cond_t settled; /* a strand came to rest */
    struct simba__strand *first, **last; /* ready */
    int ready_count;
    pthread_t *threads;
    int thread_count, thread_room;
    int idle_count;    /* wait for a strand, or are on their way to one */
    int blocked_count; /* wait in a callback for other callbacks */
    bool is_closing;
    bool is_overrun_told, is_starved_told, is_refusal_told; /* logged once */
};

bool simba__pool_init(struct simba__pool *pool, simba_loop *loop, int most);
/** Wait for running callbacks, drop the others, end the threads. */
void simba__pool_fini(struct simba__pool *pool);

void simba__strand_init(struct simba__strand *strand);
/** Queue a task. Inside the loop. */
void simba__strand_push(struct simba__pool *pool,
                        struct simba__strand *strand,
                        struct simba__task *task);
/** A callback is about to wait for what other callbacks may have to bring
 * about; until simba__pool_unblock() its thread does not count. No-ops on
 * threads that are no notifiers of this pool. */
void simba__pool_block(struct simba__pool *pool);
void simba__pool_unblock(struct simba__pool *pool);

/** Wait until nothing of it is queued or running. Any thread but its own. */
void simba__strand_wait(struct simba__pool *pool,
                        const struct simba__strand *strand);
/** Is the calling thread inside a task of this strand? Any thread. */
bool simba__strand_is_mine(const struct simba__strand *strand);

#endif
