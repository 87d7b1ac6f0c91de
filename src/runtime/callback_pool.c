#include "runtime/callback_pool.h"

#include "runtime/fork.h"
#include "util/array.h"
#include "util/container.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* How long a callback waits before the pool grows. */
enum { PATIENCE_MS = 5 };

/* The queues that this thread is inside. More than one where a callback
 * gives way to the program's own executor, and that goes on with others. */
struct frame {
    const struct simba__serial_queue *queue;
    const struct frame *outer;
};

static _Thread_local const struct frame *running;
static _Thread_local const struct simba__callback_pool *runs_for;

bool simba__serial_queue_is_mine(const struct simba__serial_queue *queue)
{
    const struct frame *frame = running;

    while (frame != NULL && frame->queue != queue) {
        frame = frame->outer;
    }
    return frame != NULL;
}

void simba__serial_queue_init(struct simba__serial_queue *queue)
{
    *queue = (struct simba__serial_queue){0};
}

/* --- with the lock held -------------------------------------------------- */

/* Its descriptor, if there is one, is readable while something is ready. */
static void show_ready(struct simba__callback_pool *pool)
{
    eventfd_t count;

    if (pool->ready_fd >= 0 && pool->first == NULL) {
        (void)eventfd_read(pool->ready_fd, &count);
    } else if (pool->ready_fd >= 0) {
        (void)eventfd_write(pool->ready_fd, 1);
    }
}

static void make_ready(struct simba__callback_pool *pool,
                       struct simba__serial_queue *queue)
{
    assert(queue->last != NULL);
    queue->ready_ms = simba_loop_now_ms();
    queue->next = NULL;
    *pool->last = queue;
    pool->last = &queue->next;
    pool->ready_count++;
    if (pool->ready_fd >= 0) { /* who waits for it may run it */
        show_ready(pool);
        pthread_cond_broadcast(&pool->settled);
    }
}

/* The first one, or this very one; NULL: it is not ready. */
static struct simba__serial_queue *take_ready(
    struct simba__callback_pool *pool,
    const struct simba__serial_queue *wanted)
{
    struct simba__serial_queue **at = &pool->first, *queue;

    while (wanted != NULL && *at != NULL && *at != wanted) {
        at = &(*at)->next;
    }
    queue = *at;
    if (queue == NULL) {
        return NULL;
    }
    assert(pool->ready_count > 0);
    *at = queue->next;
    if (*at == NULL) {
        pool->last = at;
    }
    pool->ready_count--;
    show_ready(pool);
    return queue;
}

static void run_one(struct simba__callback_pool *pool,
                    struct simba__serial_queue *queue)
{
    struct simba__task *last = queue->last, *task = last->next;
    struct frame frame = {queue, running};

    assert(queue->ready_ms != 0);
    last->next = task->next;
    if (task == last) {
        queue->last = NULL;
    }
    pthread_mutex_unlock(&pool->lock); /* S9: never under a lock of ours */
    running = &frame;
    task->run(task);
    running = frame.outer;
    pthread_mutex_lock(&pool->lock);
    if (queue->last != NULL) {
        make_ready(pool, queue);
    } else {
        queue->ready_ms = 0;
        pthread_cond_broadcast(&pool->settled);
    }
}

/* --- the user's executor ------------------------------------------------- */

/* On whatever thread. Nothing of the pool is touched after its lock is let go:
 * who waited for the queue may free it all. */
static void run_handed(void *argument)
{
    struct simba__serial_queue *queue = argument;
    struct simba__callback_pool *pool = queue->pool;

    pthread_mutex_lock(&pool->lock);
    run_one(pool, queue);
    if (queue->ready_ms != 0) { /* it has more: to be handed over again */
        pthread_cond_signal(&pool->wake);
    }
    pthread_mutex_unlock(&pool->lock);
}

/* With the lock held; the queue is gone when it was accepted. */
static void hand_over(struct simba__callback_pool *pool,
                      struct simba__serial_queue *queue)
{
    bool is_accepted;

    pthread_mutex_unlock(&pool->lock);
    is_accepted = pool->executor(pool->executor_user, run_handed, queue);
    pthread_mutex_lock(&pool->lock);
    if (is_accepted) {
        return;
    }
    if (!pool->is_refusal_told) {
        pool->is_refusal_told = true;
        pool->log(pool->log_user, SIMBA_LOG_WARN, "callback",
                  "the executor refuses callbacks: they run on callback "
                  "threads");
    }
    run_one(pool, queue);
}

/* --- threads ------------------------------------------------------------- */

static void *run_callbacks(void *argument)
{
    struct simba__callback_pool *pool = argument;

    simba__thread_name("simba-callback");
    runs_for = pool;
    pthread_mutex_lock(&pool->lock);
    while (!pool->is_closing) {
        if (pool->first != NULL && pool->executor != NULL) {
            hand_over(pool, take_ready(pool, NULL));
        } else if (pool->first != NULL) {
            run_one(pool, take_ready(pool, NULL));
        } else {
            pool->idle_count++;
            pthread_cond_wait(&pool->wake, &pool->lock);
            pool->idle_count--;
        }
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static bool may_grow(const struct simba__callback_pool *pool)
{
    return pool->thread_count - pool->blocked_count < pool->most;
}

static void grow(struct simba__callback_pool *pool)
{
    if (simba__array_reserve(&pool->threads, &pool->thread_room,
                             (size_t)pool->thread_count + 1,
                             sizeof *pool->threads) &&
        simba__thread_start(&pool->threads[pool->thread_count], run_callbacks,
                            pool)) {
        pool->thread_count++;
    } else if (!pool->is_starved_told) {
        pool->is_starved_told = true;
        pool->log(pool->log_user, SIMBA_LOG_ERROR, "callback",
                  "the system gives no thread for callbacks; it is tried "
                  "again");
    }
}

/* Looks after those who wait: on the loop, 5 ms after something had to. */
static void look_after(simba_timer *timer)
{
    struct simba__callback_pool *pool =
        container_of(timer, struct simba__callback_pool, timer);
    int64_t now = simba_loop_now_ms();

    pthread_mutex_lock(&pool->lock);
    if (pool->first != NULL && now - pool->first->ready_ms >= PATIENCE_MS) {
        if (may_grow(pool)) {
            grow(pool);
        } else {
            atomic_fetch_add(&pool->loop->metrics.callback_waits, 1);
            if (!pool->is_overrun_told) {
                pool->is_overrun_told = true;
                pool->log(pool->log_user, SIMBA_LOG_WARN, "callback",
                          "callbacks wait: all callback threads are busy");
            }
        }
    }
    if (pool->first != NULL && may_grow(pool)) {
        simba_timer_set(pool->loop, &pool->timer, now + PATIENCE_MS);
    }
    pthread_mutex_unlock(&pool->lock);
}

void simba__serial_queue_push(struct simba__callback_pool *pool,
                              struct simba__serial_queue *queue,
                              struct simba__task *task)
{
    assert(simba__loop_is_inside(pool->loop) && task->run != NULL);
    pthread_mutex_lock(&pool->lock);
    if (queue->pool == NULL) { /* who was handed it reads this unlocked */
        queue->pool = pool;
    }
    if (queue->last == NULL) {
        task->next = task;
    } else {
        task->next = queue->last->next;
        queue->last->next = task;
    }
    queue->last = task;
    if (queue->ready_ms == 0) {
        make_ready(pool, queue);
    }
    if (pool->ready_fd >= 0) {
        pthread_cond_broadcast(&pool->changed);
        pthread_mutex_unlock(&pool->lock);
        return;
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

void simba__callback_pool_block(struct simba__callback_pool *pool)
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

void simba__callback_pool_unblock(struct simba__callback_pool *pool)
{
    if (runs_for != pool) {
        return;
    }
    pthread_mutex_lock(&pool->lock);
    assert(pool->blocked_count > 0);
    pool->blocked_count--;
    pthread_mutex_unlock(&pool->lock);
}

void simba__serial_queue_wait(struct simba__callback_pool *pool,
                              struct simba__serial_queue *queue)
{
    assert(!simba__serial_queue_is_mine(queue));
    pthread_mutex_lock(&pool->lock);
    while (queue->ready_ms != 0) {
        if (pool->ready_fd >= 0 && take_ready(pool, queue) != NULL) {
            run_one(pool, queue);
        } else {
            pthread_cond_wait(&pool->settled, &pool->lock);
        }
    }
    pthread_mutex_unlock(&pool->lock);
}

bool simba__serial_queue_run(struct simba__callback_pool *pool,
                             struct simba__serial_queue *queue)
{
    bool is_taken;

    assert(simba__loop_is_inside(pool->loop));
    pthread_mutex_lock(&pool->lock);
    is_taken = pool->ready_fd >= 0 && take_ready(pool, queue) != NULL;
    pthread_mutex_unlock(&pool->lock);
    if (is_taken) {
        simba_loop_leave(pool->loop);
        pthread_mutex_lock(&pool->lock);
        run_one(pool, queue);
        pthread_mutex_unlock(&pool->lock);
        simba_loop_enter(pool->loop);
    }
    return is_taken;
}

/* Who dispatched may not come again, and what is left is awaited perhaps. */
static void tell_of_ready(struct simba__callback_pool *pool)
{
    simba_loop_enter(pool->loop);
    pthread_cond_broadcast(&pool->changed);
    simba_loop_leave(pool->loop);
}

int simba__callback_pool_dispatch(struct simba__callback_pool *pool)
{
    int count = 0, most;
    bool is_left;

    assert(pool->ready_fd >= 0);
    pthread_mutex_lock(&pool->lock);
    most = pool->ready_count; /* what comes meanwhile is for the next time */
    while (count < most && pool->first != NULL) {
        run_one(pool, take_ready(pool, NULL));
        count++;
    }
    is_left = pool->first != NULL;
    pthread_mutex_unlock(&pool->lock);
    if (is_left) {
        tell_of_ready(pool);
    }
    return count;
}

bool simba__callback_pool_open_fd(struct simba__callback_pool *pool)
{
    assert(pool->thread_count == 0 && pool->ready_fd < 0);
    pool->ready_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return pool->ready_fd >= 0;
}

bool simba__callback_pool_init(struct simba__callback_pool *pool,
                               simba_loop *loop,
                               int most)
{
    *pool = (struct simba__callback_pool){
        .loop = loop, .most = most, .ready_fd = -1};
    if (!simba__array_reserve(&pool->threads, &pool->thread_room, (size_t)most,
                              sizeof *pool->threads)) {
        return false;
    }
    pool->timer.fire = look_after;
    pool->last = &pool->first;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->settled, NULL);
    pthread_cond_init(&pool->changed, NULL);
    return true;
}

void simba__callback_pool_fini(struct simba__callback_pool *pool)
{
    simba_loop_enter(pool->loop);
    simba_timer_clear(pool->loop, &pool->timer);
    simba_loop_leave(pool->loop);
    pthread_mutex_lock(&pool->lock);
    assert(pool->first == NULL && pool->blocked_count == 0);
    pool->is_closing = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->thread_count; i++) {
        pthread_join(pool->threads[i], NULL);
    }
    pthread_cond_destroy(&pool->changed);
    pthread_cond_destroy(&pool->settled);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    free(pool->threads);
    if (pool->ready_fd >= 0) { /* a child must not close one of this number */
        simba__fork_hold_off();
        close(pool->ready_fd);
        pool->ready_fd = -1;
        simba__fork_let_go();
    }
}
