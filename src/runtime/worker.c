/* The blocking adapter: a thread that carries out operations one by one with
 * plain blocking calls, so that the loop never waits for a disk or a lock. */
#include <simba/backend.h>

#include "runtime/loop.h"
#include "runtime/thread.h"

#include <pthread.h>
#include <stdlib.h>

struct simba_worker {
    simba_loop *loop;
    int (*serve)(void *self, simba_op *op, simba_error *error);
    void *self;
    pthread_t thread;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t wake;
    struct queue {
        simba_op *first, **last;
    } urgent, other;
    bool is_closing;
};

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
static bool is_urgent(const simba_op *op)
{
    return op->kind == SIMBA_OP_RENEW || op->kind == SIMBA_OP_RELEASE;
}

/* An operation that came to its end, on its way to the loop. */
struct result {
    struct simba__letter letter;
    simba_op *op;
    int status;
    simba_error error;
};

static void deliver(struct simba__letter *letter)
{
    struct result *result = (struct result *)letter;

    simba_op_done(result->op, result->status, &result->error);
    free(result);
}

static void serve(simba_worker *worker, simba_op *op)
{
    struct result *result = calloc(1, sizeof *result);

    if (result == NULL) {
        abort(); /* an operation that never ends would hang its owner */
    }
    result->letter.run = deliver;
    result->op = op;
    if (simba_loop_now_ms() >= op->deadline_ms) {
        result->status = simba_error_set(&result->error, SIMBA_EUNAVAIL, 0,
                                         "store too slow: not even tried");
    } else {
        result->status = worker->serve(worker->self, op, &result->error);
    }
    simba__loop_send(worker->loop, &result->letter);
}

static simba_op *next_op(simba_worker *worker)
{
    simba_op *op = NULL;

    pthread_mutex_lock(&worker->lock);
    while (worker->urgent.first == NULL && worker->other.first == NULL &&
           !worker->is_closing) {
        pthread_cond_wait(&worker->wake, &worker->lock);
    }
    if (!worker->is_closing) {
        op = take(&worker->urgent);
        op = op != NULL ? op : take(&worker->other);
    }
    pthread_mutex_unlock(&worker->lock);
    return op;
}

static void *run_worker(void *argument)
{
    simba_worker *worker = argument;
    simba_op *op;

    while ((op = next_op(worker)) != NULL) {
        serve(worker, op);
    }
    return NULL;
}

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
    if (!simba__thread_start(&worker->thread, "simba-work-0", run_worker,
                             worker)) {
        free(worker);
        return SIMBA_ENOMEM;
    }
    *out = worker;
    return SIMBA_OK;
}

void simba_worker_submit(simba_worker *worker, simba_op *op)
{
    pthread_mutex_lock(&worker->lock);
    put(is_urgent(op) ? &worker->urgent : &worker->other, op);
    pthread_cond_signal(&worker->wake);
    pthread_mutex_unlock(&worker->lock);
}

static void drop(struct queue *queue)
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
    pthread_join(worker->thread, NULL);
    drop(&worker->urgent);
    drop(&worker->other);
    pthread_cond_destroy(&worker->wake);
    pthread_mutex_destroy(&worker->lock);
    free(worker);
}
