/* A stand-in for the runtime; see double.h. */
#define _GNU_SOURCE
#include "double.h"

#include <event2/event.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { HINTS_KEPT = 64 };

struct letter {
    void (*run)(void *argument);
    void *argument;
    struct letter *next;
};

struct simba_loop {
    struct event_base *base;
    struct event *wake;
    int wake_fd;
    pthread_mutex_t lock;
    struct letter *first, **last;
    char hints[HINTS_KEPT][SIMBA_MUTEX_MAX_BYTES + 1]; /* "" is any mutex */
    int kept, hint_count;
};

struct simba_worker {
    simba_loop *loop;
    int (*serve)(void *self, simba_op *op, simba_error *error);
    void *self;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    simba_op *op;
    bool is_closing;
};

/* What became of an operation; hangs at the operation as backend_data. */
struct outcome {
    simba_op *op;
    bool is_done;
    int status;
    simba_error error;
};

/* --- the loop ------------------------------------------------------------ */

struct event_base *simba_loop_base(simba_loop *loop)
{
    return loop->base;
}

int64_t simba_loop_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void simba_loop_post(simba_loop *loop,
                     void (*run)(void *argument),
                     void *argument)
{
    struct letter *letter = calloc(1, sizeof *letter);
    uint64_t one = 1;

    letter->run = run;
    letter->argument = argument;
    pthread_mutex_lock(&loop->lock);
    *loop->last = letter;
    loop->last = &letter->next;
    pthread_mutex_unlock(&loop->lock);
    if (write(loop->wake_fd, &one, sizeof one) != (ssize_t)sizeof one) {
        abort();
    }
}

static void drain(evutil_socket_t fd, short what, void *argument)
{
    simba_loop *loop = argument;
    struct letter *letter, *next;
    uint64_t count;

    (void)what;
    if (read((int)fd, &count, sizeof count) < 0) {
        return;
    }
    pthread_mutex_lock(&loop->lock);
    letter = loop->first;
    loop->first = NULL;
    loop->last = &loop->first;
    pthread_mutex_unlock(&loop->lock);
    for (; letter != NULL; letter = next) {
        next = letter->next;
        letter->run(letter->argument);
        free(letter);
    }
}

void simba_hint(simba_loop *loop, const char *mutex)
{
    loop->hint_count++;
    if (loop->kept < HINTS_KEPT) {
        snprintf(loop->hints[loop->kept++], sizeof loop->hints[0], "%s",
                 mutex == NULL ? "" : mutex);
    }
}

static simba_loop *loop_open(void)
{
    simba_loop *loop = calloc(1, sizeof *loop);

    loop->base = event_base_new();
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    loop->last = &loop->first;
    pthread_mutex_init(&loop->lock, NULL);
    loop->wake =
        event_new(loop->base, loop->wake_fd, EV_READ | EV_PERSIST, drain, loop);
    event_add(loop->wake, NULL);
    return loop;
}

static void loop_close(simba_loop *loop)
{
    struct letter *next;

    event_free(loop->wake);
    event_base_free(loop->base);
    close(loop->wake_fd);
    for (struct letter *letter = loop->first; letter != NULL; letter = next) {
        next = letter->next;
        free(letter);
    }
    pthread_mutex_destroy(&loop->lock);
    free(loop);
}

/* One round; waits for at most so long. */
static void turn(simba_loop *loop, int64_t wait_ms)
{
    struct timeval most = {wait_ms / 1000, (wait_ms % 1000) * 1000};

    event_base_loopexit(loop->base, &most);
    event_base_loop(loop->base, EVLOOP_ONCE);
}

/* --- the worker ---------------------------------------------------------- */

void simba_op_done(simba_op *op, int status, const simba_error *error)
{
    struct outcome *outcome = op->backend_data;

    outcome->is_done = true;
    outcome->status = status;
    if (error != NULL) {
        outcome->error = *error;
    }
}

static void deliver(void *argument)
{
    struct outcome *outcome = argument;

    simba_op_done(outcome->op, outcome->status, NULL);
}

static void *work(void *argument)
{
    simba_worker *worker = argument;

    pthread_mutex_lock(&worker->lock);
    while (!worker->is_closing) {
        struct outcome *outcome;

        if (worker->op == NULL) {
            pthread_cond_wait(&worker->wake, &worker->lock);
            continue;
        }
        outcome = worker->op->backend_data;
        outcome->status =
            worker->serve(worker->self, worker->op, &outcome->error);
        worker->op = NULL;
        simba_loop_post(worker->loop, deliver, outcome);
    }
    pthread_mutex_unlock(&worker->lock);
    return NULL;
}

int simba_worker_open(simba_loop *loop,
                      int (*serve)(void *self,
                                   simba_op *op,
                                   simba_error *error),
                      void *self,
                      simba_worker **out)
{
    simba_worker *worker = calloc(1, sizeof *worker);

    worker->loop = loop;
    worker->serve = serve;
    worker->self = self;
    pthread_mutex_init(&worker->lock, NULL);
    pthread_cond_init(&worker->wake, NULL);
    if (pthread_create(&worker->thread, NULL, work, worker) != 0) {
        abort();
    }
    *out = worker;
    return SIMBA_OK;
}

void simba_worker_submit(simba_worker *worker, simba_op *op)
{
    pthread_mutex_lock(&worker->lock);
    worker->op = op;
    pthread_cond_signal(&worker->wake);
    pthread_mutex_unlock(&worker->lock);
}

void simba_worker_close(simba_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    worker->is_closing = true;
    pthread_cond_signal(&worker->wake);
    pthread_mutex_unlock(&worker->lock);
    pthread_join(worker->thread, NULL);
    pthread_cond_destroy(&worker->wake);
    pthread_mutex_destroy(&worker->lock);
    free(worker);
}

/* --- stores -------------------------------------------------------------- */

static void log_nothing(void *user,
                        enum simba_log_level level,
                        const char *component,
                        const char *message)
{
    (void)user;
    (void)level;
    (void)component;
    (void)message;
}

int handle_open(struct handle *handle,
                const simba_backend_ops *ops,
                const char *rest,
                simba_error *error)
{
    simba_backend_config config = {
        .url = rest, .rest = rest, .log = log_nothing};
    int rc;

    handle->loop = loop_open();
    config.loop = handle->loop;
    rc = ops->open(&config, &handle->backend, error);
    if (rc != SIMBA_OK) {
        loop_close(handle->loop);
        handle->loop = NULL;
    }
    return rc;
}

void handle_close(struct handle *handle)
{
    if (handle->backend != NULL) {
        handle->backend->ops->detach(handle->backend);
        handle->backend->ops->close(handle->backend);
        loop_close(handle->loop);
    }
    *handle = (struct handle){NULL, NULL};
}

int handle_run(struct handle *handle, simba_op *op, simba_error *error)
{
    struct outcome outcome = {.op = op};

    op->backend_data = &outcome;
    handle->backend->ops->submit(handle->backend, op);
    while (!outcome.is_done) {
        turn(handle->loop, 1000);
    }
    *error = outcome.error;
    return outcome.status;
}

static bool take_hint(simba_loop *loop, const char *mutex)
{
    for (int i = 0; i < loop->kept; i++) {
        if (loop->hints[i][0] == '\0' || strcmp(loop->hints[i], mutex) == 0) {
            loop->kept = 0;
            return true;
        }
    }
    return false;
}

bool handle_hinted(struct handle *handle, const char *mutex, int timeout_ms)
{
    int64_t until_ms = simba_loop_now_ms() + timeout_ms;

    do {
        if (take_hint(handle->loop, mutex)) {
            return true;
        }
        turn(handle->loop, until_ms - simba_loop_now_ms() + 1);
    } while (simba_loop_now_ms() < until_ms);
    return take_hint(handle->loop, mutex);
}

int handle_hints(const struct handle *handle)
{
    return handle->loop->hint_count;
}
