/* The blocking adapter: requests are carried out one by one with plain
 * blocking calls, by a thread of the worker or by a caller that lends its own,
 * so that nobody waits inside the loop for a disk or a lock. */
#include <simba/sys/backend.h>

#include "runtime/loop.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct simba_worker {
    simba_loop *loop;
    int (*serve)(void *self, simba_request *request, simba_error *error);
    void *self;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t wake;
    /* One queue: the urgent ones, then the others. Where each part ends. */
    simba_request *first, **urgent_end, **end;
    pthread_t thread;
    bool has_thread; /* begun when it is first needed */
    bool is_busy;    /* a request is being carried out */
    bool is_closing;
};

/* --- the queue, with the lock held --------------------------------------- */

/* A renewal that queues behind a thousand acquires of its own process could
 * lose its lease, and a release keeps others waiting: these are urgent. */
static void put(simba_worker *worker, simba_request *request)
{
    bool is_urgent =
        request->kind == SIMBA_RENEW || request->kind == SIMBA_RELEASE;
    simba_request **at = is_urgent ? worker->urgent_end : worker->end;

    request->next = *at;
    *at = request;
    if (worker->end == at) {
        worker->end = &request->next;
    }
    if (is_urgent) {
        worker->urgent_end = &request->next;
    }
}

static simba_request *take(simba_worker *worker)
{
    simba_request *request = worker->first;

    if (request != NULL) {
        worker->first = request->next;
        if (worker->urgent_end == &request->next) {
            worker->urgent_end = &worker->first;
        }
        if (worker->end == &request->next) {
            worker->end = &worker->first;
        }
    }
    return request;
}

/* The next request, if there is one and nobody is at work. */
static simba_request *take_next(simba_worker *worker)
{
    simba_request *request = worker->is_busy ? NULL : take(worker);

    worker->is_busy |= request != NULL;
    return request;
}

/* --- carrying out -------------------------------------------------------- */

static void finish(simba_worker *worker,
                   simba_request *request,
                   int status,
                   const simba_error *error)
{
    simba_loop_enter(worker->loop);
    simba_request_done(request, status, error);
    simba_loop_leave(worker->loop);
}

static int serve(simba_worker *worker,
                 simba_request *request,
                 simba_error *error)
{
    if (simba_loop_now_ms() >= request->deadline_ms) {
        return simba_error_set(error, SIMBA_EUNAVAIL, 0,
                               "store too slow: not even tried");
    }
    return worker->serve(worker->self, request, error);
}

static void *run_worker(void *argument)
{
    simba_worker *worker = argument;

    simba__thread_name("simba-work-0");
    pthread_mutex_lock(&worker->lock);
    while (!worker->is_closing) {
        simba_request *request = take_next(worker);
        simba_error error = {0, 0, ""};
        int status;

        if (request == NULL) {
            pthread_cond_wait(&worker->wake, &worker->lock);
            continue;
        }
        pthread_mutex_unlock(&worker->lock);
        status = serve(worker, request, &error);
        finish(worker, request, status, &error);
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

void simba_worker_submit(simba_worker *worker, simba_request *request)
{
    bool is_taken;

    assert(simba__loop_is_inside(worker->loop));
    request->is_driven = false; /* until its caller takes it */
    pthread_mutex_lock(&worker->lock);
    is_taken = simba__loop_is_driver(worker->loop) || wake_thread(worker);
    if (is_taken) {
        put(worker, request);
    }
    pthread_mutex_unlock(&worker->lock);
    if (!is_taken) {
        simba_error error;

        simba_error_set(&error, SIMBA_ENOMEM, EAGAIN,
                        "the system gives no thread");
        simba_request_done(request, SIMBA_ENOMEM, &error);
    }
}

/* On a caller's thread. What would have to wait for others is put off for the
 * worker's own thread, so that the caller can be called off. */
bool simba_worker_drive(simba_worker *worker, int64_t until_ms)
{
    simba_request *request;
    simba_error error = {0, 0, ""};
    bool is_put_off = true;
    int status;

    pthread_mutex_lock(&worker->lock);
    request = until_ms == 0 ? NULL : take_next(worker);
    if (request != NULL) {
        pthread_mutex_unlock(&worker->lock);
        request->is_driven = true;
        status = serve(worker, request, &error);
        request->is_driven = false;
        is_put_off = status == SIMBA_EBUSY;
        if (is_put_off) {
            simba_reply_copy(&request->reply, &(simba_reply)SIMBA_REPLY_INIT);
        } else {
            finish(worker, request, status, &error);
        }
        pthread_mutex_lock(&worker->lock);
        worker->is_busy = false;
        if (is_put_off) {
            put(worker, request);
        }
    }
    if (is_put_off && worker->first != NULL) {
        wake_thread(worker); /* if it fails, the requests time out */
    }
    pthread_mutex_unlock(&worker->lock);
    return !is_put_off;
}

/* --- life ---------------------------------------------------------------- */

int simba_worker_open(simba_loop *loop,
                      int (*serve_op)(void *self,
                                      simba_request *request,
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
    worker->urgent_end = worker->end = &worker->first;
    pthread_mutex_init(&worker->lock, NULL);
    pthread_cond_init(&worker->wake, NULL);
    *out = worker;
    return SIMBA_OK;
}

void simba_worker_close(simba_worker *worker)
{
    simba_request *request;

    pthread_mutex_lock(&worker->lock);
    worker->is_closing = true;
    pthread_cond_signal(&worker->wake);
    pthread_mutex_unlock(&worker->lock);
    if (worker->has_thread) {
        pthread_join(worker->thread, NULL);
    }
    assert(!worker->is_busy);
    simba_loop_enter(worker->loop);
    while ((request = take(worker)) != NULL) {
        simba_request_done(request, SIMBA_ECANCELED, NULL);
    }
    simba_loop_leave(worker->loop);
    pthread_cond_destroy(&worker->wake);
    pthread_mutex_destroy(&worker->lock);
    free(worker);
}
