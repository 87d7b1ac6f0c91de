/* The blocking adapter: operations are carried out one by one with plain
 * blocking calls, by a thread of the worker or by a caller that lends its own,
 * so that nobody waits inside the loop for a disk or a lock. */
#include <simba/sys/backend.h>

#include "runtime/loop.h"
#include "runtime/thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct simba_worker {
    simba_loop *loop;
    int (*serve)(void *self, simba_op *op, simba_error *error);
    void *self;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t wake;
    struct queue {
        simba_op *first, **last;
    } urgent, other;
    pthread_t thread;
    bool has_thread; /* begun when it is first needed */
    bool is_busy;    /* an operation is being carried out */
    bool is_closing;
};

/* --- the queues, with the lock held -------------------------------------- */

static void init_queue(struct queue *queue)
{
    queue->first = NULL;
    queue->last = &queue->first;
}

static void put(struct queue *queue, simba_op *op)
{
    op->next = NULL;
    *queue->last = op;
    queue->last = &op->next;
}

static simba_op *take(struct queue *queue)
{
    simba_op *op = queue->first;

    if (op != NULL) {
        queue->first = op->next;
        if (queue->first == NULL) {
            queue->last = &queue->first;
        }
    }
    return op;
}

/* A renewal that queues behind a thousand acquires of its own process could
 * lose its lease, and a release keeps others waiting. */
static struct queue *queue_of(simba_worker *worker, const simba_op *op)
{
    return op->kind == SIMBA_OP_RENEW || op->kind == SIMBA_OP_RELEASE
               ? &worker->urgent
               : &worker->other;
}

/* The next operation, if there is one and nobody is at work. */
static simba_op *take_next(simba_worker *worker)
{
    simba_op *op = NULL;

    if (!worker->is_busy) {
        op = take(&worker->urgent);
        op = op != NULL ? op : take(&worker->other);
    }
    worker->is_busy |= op != NULL;
    return op;
}

static bool has_work(const simba_worker *worker)
{
    return worker->urgent.first != NULL || worker->other.first != NULL;
}

/* --- carrying out -------------------------------------------------------- */

static void finish(simba_worker *worker,
                   simba_op *op,
                   int status,
                   const simba_error *error)
{
    simba_loop_enter(worker->loop);
    simba_op_done(op, status, error);
    simba_loop_leave(worker->loop);
}

static int serve(simba_worker *worker, simba_op *op, simba_error *error)
{
    if (simba_loop_now_ms() >= op->deadline_ms) {
        return simba_error_set(error, SIMBA_EUNAVAIL, 0,
                               "store too slow: not even tried");
    }
    return worker->serve(worker->self, op, error);
}

static void *run_worker(void *argument)
{
    simba_worker *worker = argument;

    simba__thread_name("simba-work-0");
    pthread_mutex_lock(&worker->lock);
    while (!worker->is_closing) {
        simba_op *op = take_next(worker);
        simba_error error = {0, 0, ""};
        int status;

        if (op == NULL) {
            pthread_cond_wait(&worker->wake, &worker->lock);
            continue;
        }
        pthread_mutex_unlock(&worker->lock);
        status = serve(worker, op, &error);
        finish(worker, op, status, &error);
        pthread_mutex_lock(&worker->lock);
        worker->is_busy = false;
    }
    pthread_mutex_unlock(&worker->lock);
    return NULL;
}

/* With the lock held: have the worker's own thread look. */
static bool wake_thread(simba_worker *worker)
{
    if (!worker->has_thread) {
        worker->has_thread =
            simba__thread_start(&worker->thread, run_worker, worker);
    }
    pthread_cond_signal(&worker->wake);
    return worker->has_thread;
}

void simba_worker_submit(simba_worker *worker, simba_op *op)
{
    bool is_taken;

    op->is_driven = false; /* until its caller takes it */
    pthread_mutex_lock(&worker->lock);
    is_taken = simba__loop_is_driver(worker->loop) || wake_thread(worker);
    if (is_taken) {
        put(queue_of(worker, op), op);
    }
    pthread_mutex_unlock(&worker->lock);
    if (!is_taken) {
        simba_error error;

        simba_error_set(&error, SIMBA_ENOMEM, EAGAIN,
                        "the system gives no thread");
        simba_op_done(op, SIMBA_ENOMEM, &error);
    }
}

/* On a caller's thread. What would have to wait for others is put off for the
 * worker's own thread, so that the caller can be called off; true then. */
static bool serve_driven(simba_worker *worker, simba_op *op)
{
    simba_error error = {0, 0, ""};
    int status;

    op->is_driven = true;
    status = serve(worker, op, &error);
    op->is_driven = false;
    if (status != SIMBA_EBUSY) {
        finish(worker, op, status, &error);
        return false;
    }
    op->reply = (simba_op_reply){0};
    return true;
}

/* With the lock held: what the driver leaves behind. */
static void hand_over(simba_worker *worker)
{
    if (has_work(worker)) {
        wake_thread(worker); /* if it fails, the operations time out */
    }
}

bool simba_worker_drive(simba_worker *worker, int64_t until_ms)
{
    simba_op *op;
    bool is_put_off = true;

    pthread_mutex_lock(&worker->lock);
    op = until_ms == 0 ? NULL : take_next(worker);
    if (op != NULL) {
        pthread_mutex_unlock(&worker->lock);
        is_put_off = serve_driven(worker, op);
        pthread_mutex_lock(&worker->lock);
        worker->is_busy = false;
        if (is_put_off) {
            put(queue_of(worker, op), op);
        }
    }
    if (is_put_off) {
        hand_over(worker);
    }
    pthread_mutex_unlock(&worker->lock);
    return !is_put_off;
}

/* --- life ---------------------------------------------------------------- */

int simba_worker_open(simba_loop *loop,
                      int (*serve_op)(void *self,
                                      simba_op *op,
                                      simba_error *error),
                      void *self,
                      simba_worker **out)
{
    simba_worker *worker = calloc(1, sizeof *worker);

    *out = NULL;
    if (worker == NULL) {
        return SIMBA_ENOMEM;
    }
    worker->loop = loop;
    worker->serve = serve_op;
    worker->self = self;
    init_queue(&worker->urgent);
    init_queue(&worker->other);
    pthread_mutex_init(&worker->lock, NULL);
    pthread_cond_init(&worker->wake, NULL);
    *out = worker;
    return SIMBA_OK;
}

static void drop_all(struct queue *queue)
{
    simba_op *op;

    while ((op = take(queue)) != NULL) {
        simba_op_done(op, SIMBA_ECANCELED, NULL);
    }
}

void simba_worker_close(simba_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    worker->is_closing = true;
    pthread_cond_signal(&worker->wake);
    pthread_mutex_unlock(&worker->lock);
    if (worker->has_thread) {
        pthread_join(worker->thread, NULL);
    }
    simba_loop_enter(worker->loop);
    drop_all(&worker->urgent);
    drop_all(&worker->other);
    simba_loop_leave(worker->loop);
    pthread_cond_destroy(&worker->wake);
    pthread_mutex_destroy(&worker->lock);
    free(worker);
}
