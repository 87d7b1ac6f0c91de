#include "runtime/notify.h"

#include "runtime/thread.h"

#include <stdlib.h>

/* How long a callback waits before the pool grows. */
enum { PATIENCE_MS = 5 };

/* The strands that this thread is inside. More than one where a callback gives
 * way to the program's own executor, and that goes on with others. */
struct frame {
    const struct simba__strand *strand;
    const struct frame *outer;
};

static _Thread_local const struct frame *running;
static _Thread_local const struct simba__pool *runs_for;

bool simba__strand_is_mine(const struct simba__strand *strand)
{
    const struct frame *frame = running;

    while (frame != NULL && frame->strand != strand) {
        frame = frame->outer;
    }
    return frame != NULL;
}

void simba__strand_init(struct simba__strand *strand)
{
    *strand = (struct simba__strand){0};
    strand->last = &strand->first;
}

/* --- with the lock held -------------------------------------------------- */

static void make_ready(struct simba__pool *pool, struct simba__strand *strand)
{
    strand->is_scheduled = true;
    strand->ready_ms = simba_loop_now_ms();
    strand->next = NULL;
    *pool->last = strand;
    pool->last = &strand->next;
    pool->ready_count++;
}

static struct simba__strand *take_ready(struct simba__pool *pool)
{
    struct simba__strand *strand = pool->first;

    pool->first = strand->next;
    if (pool->first == NULL) {
        pool->last = &pool->first;
    }
    pool->ready_count--;
    return strand;
}

static void run_one(struct simba__pool *pool, struct simba__strand *strand)
{
    struct simba__task *task = strand->first;
    struct frame frame = {strand, running};

    strand->first = task->next;
    if (strand->first == NULL) {
        strand->last = &strand->first;
    }
    pthread_mutex_unlock(&pool->lock); /* S9: never under a lock of ours */
    running = &frame;
    task->run(task);
    running = frame.outer;
    pthread_mutex_lock(&pool->lock);
    if (strand->first != NULL) {
        make_ready(pool, strand);
    } else {
        strand->is_scheduled = false;
        pthread_cond_broadcast(&pool->settled);
    }
}

/* --- the user's executor ------------------------------------------------- */

/* On whatever thread. Nothing of the pool is touched after its lock is let go:
 * who waited for the strand may free it all. */
static void run_handed(void *argument)
{
    struct simba__strand *strand = argument;
    struct simba__pool *pool = strand->pool;

    pthread_mutex_lock(&pool->lock);
    run_one(pool, strand);
    if (strand->is_scheduled) { /* it has more: to be handed over again */
        pthread_cond_signal(&pool->wake);
    }
    pthread_mutex_unlock(&pool->lock);
}

static void tell_refusal(struct simba__pool *pool)
{
    if (!pool->is_refusal_told) {
        pool->is_refusal_told = true;
        pool->log(pool->log_user, SIMBA_LOG_WARN, "notify",
                  "the executor refuses callbacks: they run on notifier "
                  "threads");
    }
}

/* With the lock held; the strand is gone when it was accepted. */
static void hand_over(struct simba__pool *pool, struct simba__strand *strand)
{
    bool is_accepted;

    pthread_mutex_unlock(&pool->lock);
    is_accepted = pool->executor(pool->executor_user, run_handed, strand);
    pthread_mutex_lock(&pool->lock);
    if (!is_accepted) {
        tell_refusal(pool);
        run_one(pool, strand);
    }
}

/* --- threads ------------------------------------------------------------- */

static void *run_notifier(void *argument)
{
    struct simba__pool *pool = argument;

    simba__thread_name("simba-notify");
    runs_for = pool;
    pthread_mutex_lock(&pool->lock);
    while (!pool->is_closing) {
        if (pool->first != NULL && pool->executor != NULL) {
            hand_over(pool, take_ready(pool));
        } else if (pool->first != NULL) {
            run_one(pool, take_ready(pool));
        } else {
            pool->idle_count++;
            pthread_cond_wait(&pool->wake, &pool->lock);
            pool->idle_count--;
        }
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static bool has_room(struct simba__pool *pool)
{
    int room = pool->thread_room * 2;
    pthread_t *threads;

    if (pool->thread_count < pool->thread_room) {
        return true;
    }
    threads = realloc(pool->threads, (size_t)room * sizeof *threads);
    if (threads == NULL) {
        return false;
    }
    pool->threads = threads;
    pool->thread_room = room;
    return true;
}

static bool may_grow(const struct simba__pool *pool)
{
    return pool->thread_count - pool->blocked_count < pool->most;
}

static void grow(struct simba__pool *pool)
{
    if (has_room(pool) &&
        simba__thread_start(&pool->threads[pool->thread_count], run_notifier,
                            pool)) {
        pool->thread_count++;
    } else if (!pool->is_starved_told) {
        pool->is_starved_told = true;
        pool->log(pool->log_user, SIMBA_LOG_ERROR, "notify",
                  "the system gives no thread for callbacks; it is tried "
                  "again");
    }
}

static void tell_overrun(struct simba__pool *pool)
{
    atomic_fetch_add(&pool->loop->tallies.callback_waits, 1);
    if (!pool->is_overrun_told) {
        pool->is_overrun_told = true;
        pool->log(pool->log_user, SIMBA_LOG_WARN, "notify",
                  "callbacks wait: all notifier threads are busy");
    }
}

/* Looks after those who wait: on the loop, 5 ms after something had to. */
static void look_after(simba_timer *timer)
{
    struct simba__pool *pool =
        (struct simba__pool *)((char *)timer -
                               offsetof(struct simba__pool, timer));
    int64_t now = simba_loop_now_ms();

    pthread_mutex_lock(&pool->lock);
    if (pool->first != NULL && now - pool->first->ready_ms >= PATIENCE_MS) {
        if (may_grow(pool)) {
            grow(pool);
        } else {
            tell_overrun(pool);
        }
    }
    if (pool->first != NULL && may_grow(pool)) {
        simba_timer_set(pool->loop, &pool->timer, now + PATIENCE_MS);
    }
    pthread_mutex_unlock(&pool->lock);
}

void simba__strand_push(struct simba__pool *pool,
                        struct simba__strand *strand,
                        struct simba__task *task)
{
    task->next = NULL;
    pthread_mutex_lock(&pool->lock);
    if (strand->pool == NULL) { /* who was handed it reads this unlocked */
        strand->pool = pool;
    }
    *strand->last = task;
    strand->last = &task->next;
    if (!strand->is_scheduled) {
        make_ready(pool, strand);
    }
    if (pool->thread_count == 0) {
        grow(pool);
    } else {
        pthread_cond_signal(&pool->wake);
    }
    if (pool->ready_count > pool->idle_count) {
        simba_timer_set(pool->loop, &pool->timer,
                        simba_loop_now_ms() + PATIENCE_MS);
    }
    pthread_mutex_unlock(&pool->lock);
}

void simba__pool_block(struct simba__pool *pool)
{
    if (runs_for != pool) {
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->blocked_count++;
    if (pool->idle_count == 0) {
        grow(pool);
    }
    pthread_mutex_unlock(&pool->lock);
}

void simba__pool_unblock(struct simba__pool *pool)
{
    if (runs_for != pool) {
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->blocked_count--;
    pthread_mutex_unlock(&pool->lock);
}

void simba__strand_wait(struct simba__pool *pool,
                        const struct simba__strand *strand)
{
    pthread_mutex_lock(&pool->lock);
    while (strand->is_scheduled) {
        pthread_cond_wait(&pool->settled, &pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
}

bool simba__pool_init(struct simba__pool *pool, simba_loop *loop, int most)
{
    *pool =
        (struct simba__pool){.loop = loop, .most = most, .thread_room = most};
    pool->threads = calloc((size_t)most, sizeof *pool->threads);
    if (pool->threads == NULL) {
        return false;
    }
    pool->timer.fire = look_after;
    pool->last = &pool->first;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->settled, NULL);
    return true;
}

void simba__pool_fini(struct simba__pool *pool)
{
    simba_loop_enter(pool->loop);
    simba_timer_clear(pool->loop, &pool->timer);
    simba_loop_leave(pool->loop);
    pthread_mutex_lock(&pool->lock);
    pool->is_closing = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->thread_count; i++) {
        pthread_join(pool->threads[i], NULL);
    }
    pthread_cond_destroy(&pool->settled);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    free(pool->threads);
}
