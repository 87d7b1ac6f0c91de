/* The runtime's loop without what stands above it; see double.h. */
#define _GNU_SOURCE
#include "double.h"

#include "runtime/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAKES_KEPT = 64 };

/* What a handle has beside its loop; all of it is touched inside only. */
struct notes {
    pthread_cond_t changed;
    char wakes[WAKES_KEPT][SIMBA_MUTEX_MAX_BYTES + 1]; /* "" is any mutex */
    int kept, wake_count;
    simba_owner observed; /* as last told */
    uint64_t ended;
};

/* What became of an operation; hangs at the operation as backend_data. */
struct outcome {
    struct notes *notes;
    bool is_done;
    int status;
    simba_error error;
};

static struct notes *notes_of(const simba_loop *loop)
{
    return loop->on_subscription_self; /* no listener here that would use it */
}

/* --- what the runtime has above its loop --------------------------------- */

void simba_wake(simba_loop *loop, const char *mutex)
{
    struct notes *notes = notes_of(loop);

    notes->wake_count++;
    if (notes->kept < WAKES_KEPT) {
        snprintf(notes->wakes[notes->kept++], sizeof notes->wakes[0], "%s",
                 mutex == NULL ? "" : mutex);
    }
    pthread_cond_broadcast(&notes->changed);
}

void simba_observed(simba_loop *loop,
                    const char *mutex,
                    const simba_owner *owner,
                    uint64_t ended)
{
    char marked[SIMBA_MUTEX_MAX_BYTES + 2];

    snprintf(marked, sizeof marked, "\t%s", mutex);
    if (owner != NULL) {
        notes_of(loop)->observed = *owner;
        notes_of(loop)->ended = ended;
    }
    simba_wake(loop, marked);
}

void simba_request_done(simba_request *request,
                        int status,
                        const simba_error *error)
{
    struct outcome *outcome = request->backend_data;

    outcome->is_done = true;
    outcome->status = status;
    if (error != NULL) {
        outcome->error = *error;
    }
    pthread_cond_broadcast(&outcome->notes->changed);
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

static struct notes *make_notes(void)
{
    struct notes *notes = calloc(1, sizeof *notes);
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&notes->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    return notes;
}

static void detach(void *argument)
{
    const struct handle *handle = argument;

    if (handle->backend != NULL) {
        handle->backend->ops->detach(handle->backend);
    }
}

void handle_close(struct handle *handle)
{
    struct notes *notes;

    if (handle->loop != NULL) {
        notes = notes_of(handle->loop);
        simba__loop_end(handle->loop, detach, handle);
        if (handle->backend != NULL) {
            handle->backend->ops->close(handle->backend);
        }
        simba__loop_close(handle->loop);
        pthread_cond_destroy(&notes->changed);
        free(notes);
    }
    *handle = (struct handle){NULL, NULL};
}

int handle_open(struct handle *handle,
                const simba_backend_ops *ops,
                const char *rest,
                simba_error *error)
{
    simba_backend_config config = {
        .url = rest, .rest = rest, .log = log_nothing};
    int rc = simba__loop_open(&handle->loop, error);

    handle->backend = NULL;
    if (rc == SIMBA_OK) {
        handle->loop->on_subscription_self = make_notes();
        config.loop = handle->loop;
        rc = ops->open(&config, &handle->backend, error);
    }
    if (rc != SIMBA_OK) {
        handle_close(handle);
    }
    return rc;
}

void handle_start(struct handle *handle, simba_request *request)
{
    struct outcome *outcome = calloc(1, sizeof *outcome);

    outcome->notes = notes_of(handle->loop);
    request->backend_data = outcome;
    simba_loop_enter(handle->loop);
    handle->backend->ops->submit(handle->backend, request);
    simba_loop_leave(handle->loop);
}

int handle_join(struct handle *handle,
                simba_request *request,
                simba_error *error)
{
    struct outcome *outcome = request->backend_data;
    int status;

    simba_loop_enter(handle->loop);
    while (!outcome->is_done) {
        simba__loop_wait(handle->loop, &outcome->notes->changed, NULL);
    }
    simba_loop_leave(handle->loop);
    *error = outcome->error;
    status = outcome->status;
    free(outcome);
    return status;
}

int handle_run(struct handle *handle,
               simba_request *request,
               simba_error *error)
{
    handle_start(handle, request);
    return handle_join(handle, request, error);
}

static bool take_wake(struct notes *notes, const char *mutex)
{
    for (int i = 0; i < notes->kept; i++) {
        if (notes->wakes[i][0] == '\0' || strcmp(notes->wakes[i], mutex) == 0) {
            notes->kept = 0;
            return true;
        }
    }
    return false;
}

bool handle_woken(struct handle *handle, const char *mutex, int timeout_ms)
{
    struct notes *notes = notes_of(handle->loop);
    struct timespec until;
    bool is_woken, is_in_time = true;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += timeout_ms % 1000 * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    simba_loop_enter(handle->loop);
    while (!(is_woken = take_wake(notes, mutex)) && is_in_time) {
        is_in_time = simba__loop_wait(handle->loop, &notes->changed, &until);
    }
    simba_loop_leave(handle->loop);
    return is_woken;
}

uint64_t handle_observed(const struct handle *handle, simba_owner *owner)
{
    uint64_t ended;

    simba_loop_enter(handle->loop);
    *owner = notes_of(handle->loop)->observed;
    ended = notes_of(handle->loop)->ended;
    simba_loop_leave(handle->loop);
    return ended;
}

int handle_wakes(const struct handle *handle)
{
    int count;

    simba_loop_enter(handle->loop);
    count = notes_of(handle->loop)->wake_count;
    simba_loop_leave(handle->loop);
    return count;
}
