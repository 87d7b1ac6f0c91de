/* Single operations on a backend, for its authors and the contract's tests. */
#define _GNU_SOURCE
#include <simba/sys/probe.h>

#include "api/config.h"
#include "api/store.h"
#include "runtime/box.h"

#include <time.h>

/* How long an operation may take. */
enum { PROBE_MS = 10000 };

struct probe {
    struct simba__caller caller;
    simba_request *request;
    simba_error *error;
    pthread_cond_t changed;
    int status;
    bool is_done;
};

static void on_done(struct simba__caller *caller,
                    const struct simba__box *box,
                    int status,
                    const simba_error *error)
{
    struct probe *p = (struct probe *)caller;

    p->request->reply = box->request.reply;
    p->status = status;
    p->is_done = true;
    if (p->error != NULL && error != NULL) {
        *p->error = *error;
    }
    pthread_cond_signal(&p->changed);
}

/* Inside the loop. The condition variable counts on CLOCK_MONOTONIC; good
 * enough for a wait. */
static void wait_for(simba_store *store, struct probe *p)
{
    int64_t left =
        p->request->deadline_ms + SIMBA_PROBE_GRACE_MS - simba_loop_now_ms();
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(left / 1000 + 1);
    while (!p->is_done && simba__loop_wait(store->loop, &p->changed, &until)) {
    }
    if (!p->is_done) {
        simba__caller_leave(&p->caller);
        p->status = simba_error_set(p->error, SIMBA_EUNKNOWN, 0,
                                    "the backend did not complete an "
                                    "operation in time");
    }
}

static void send_and_wait(simba_store *store,
                          struct simba__box *box,
                          struct probe *p)
{
    pthread_condattr_t steady;

    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(&p->changed, &steady);
    pthread_condattr_destroy(&steady);
    simba_loop_enter(store->loop);
    simba__box_send(box, &p->caller, store->backend);
    wait_for(store, p);
    simba_loop_leave(store->loop);
    pthread_cond_destroy(&p->changed);
}

static int check(const simba_store *store,
                 const simba_request *request,
                 simba_error *error)
{
    char id[SIMBA_ID_MAX + 1];
    int rc = simba__store_check(store, error);

    if (rc == SIMBA_OK && request->id == NULL) {
        rc =
            simba_error_set(error, SIMBA_EINVAL, 0, "an operation needs an id");
    }
    if (rc == SIMBA_OK) {
        rc = simba__config_mutex(request->mutex, error);
    }
    return rc == SIMBA_OK ? simba__config_id(request->id, id, error) : rc;
}

int simba_probe(simba_store *store, simba_request *request, simba_error *error)
{
    struct probe p = {
        .caller.done = on_done, .request = request, .error = error};
    struct simba__box *box;
    int rc = check(store, request, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    if (request->deadline_ms == 0) {
        request->deadline_ms = simba_loop_now_ms() + PROBE_MS;
    }
    box = simba__box_make(request->mutex, request->id);
    if (box == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    box->request = *request;
    box->request.mutex = box->mutex;
    box->request.id = box->id;
    send_and_wait(store, box, &p);
    return p.status;
}

const simba_backend_ops *simba_probe_ops(const simba_store *store)
{
    return store->backend->ops;
}

void simba_probe_subscription(simba_store *store,
                              const char *mutex,
                              enum simba_subscription subscription)
{
    const simba_backend_ops *ops = store->backend->ops;

    if (ops->subscription != NULL &&
        simba__store_check(store, NULL) == SIMBA_OK) {
        simba_loop_enter(store->loop);
        ops->subscription(store->backend, mutex, subscription);
        simba_loop_leave(store->loop);
    }
}
