/* Backends that are broken on purpose: `broken:FAULT`. Each is the memory store
 * with one mistake that an author of a backend could make, and each is caught
 * by a test of the contract (test_broken.c).
 *
 * The memory store is compiled into this module once more; what it is asked,
 * what it answers and whom it wakes comes by here. The mistakes are in
 * broken_tenure.c and broken_queue.c; those in the model itself are the ones
 * that the simulator plants (src/core/plant.h). */
#define _GNU_SOURCE
#include <simba/sys/backend.h>

static void broken_wake(simba_loop *loop, const char *mutex);
static void broken_post(simba_loop *loop, void (*run)(void *), void *argument);
static void broken_add_mutex(simba_request *request,
                             const char *mutex,
                             const simba_owner *owner,
                             int waiting);

#define simba_wake              broken_wake
#define simba_loop_post         broken_post
#define simba_request_add_mutex broken_add_mutex
#include "backends/memory/memory.c"
#undef simba_wake
#undef simba_loop_post
#undef simba_request_add_mutex

#include "broken.h"

#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum simba__plant simba__plant;

static const struct fault *fault;

/* --- between the runtime and the memory store ---------------------------- */

enum { WOKEN_MOST = 64 };

/* Mutexes that a handle has been woken for, when it takes wake-ups for grants.
 */
static struct woken {
    simba_loop *loop;
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
} woken[WOKEN_MOST];
static size_t woken_count;
static pthread_mutex_t woken_lock = PTHREAD_MUTEX_INITIALIZER;

static void broken_wake(simba_loop *loop, const char *mutex)
{
    if (fault->no_wakes) {
        return;
    }
    pthread_mutex_lock(&woken_lock);
    if (fault->wake_grants && woken_count < WOKEN_MOST) {
        woken[woken_count].loop = loop;
        snprintf(woken[woken_count++].mutex, sizeof woken[0].mutex, "%s",
                 mutex);
    }
    pthread_mutex_unlock(&woken_lock);
    simba_wake(loop, mutex);
}

/* How many were woken, or listed, by the request in hand; with the space
 * locked. */
static int woken_by_this, listed;

static void broken_post(simba_loop *loop, void (*run)(void *), void *argument)
{
    if (fault->one_wake && woken_by_this++ > 0) {
        free(argument);
        return;
    }
    simba_loop_post(loop, run, argument);
}

static void broken_add_mutex(simba_request *request,
                             const char *mutex,
                             const simba_owner *owner,
                             int waiting)
{
    static simba_owner first;

    if (listed++ == 0) {
        first = *owner;
    }
    if (!fault->list_ends_early || listed <= 2) {
        simba_request_add_mutex(
            request, mutex, fault->list_mixes_owners ? &first : owner, waiting);
    }
}

static bool is_woken(const simba_backend *self, const simba_request *request)
{
    bool is_found = false;

    pthread_mutex_lock(&woken_lock);
    for (size_t i = 0; i < woken_count; i++) {
        is_found |= woken[i].loop == self->loop &&
                    strcmp(woken[i].mutex, request->mutex) == 0;
    }
    pthread_mutex_unlock(&woken_lock);
    return is_found;
}

static int serve_broken(struct memory *m, simba_request *request)
{
    struct mutex *entry = find_mutex(m->space, request->mutex);
    int rc;

    if (entry == NULL) {
        return SIMBA_ENOMEM;
    }
    if (fault->before != NULL) {
        fault->before(&entry->record, request);
    }
    rc = serve(m, request);
    if (fault->after != NULL) {
        fault->after(&entry->record, request);
    }
    return rc;
}

/* Refusals that are not told yet; inside the loop of one handle. */
static simba_request *kept_requests;
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_kept_back(simba_request *request, int rc)
{
    if (!fault->late_refusals || request->kind != SIMBA_ACQUIRE ||
        request->reply.mine || rc != SIMBA_OK) {
        return false;
    }
    pthread_mutex_lock(&kept_lock);
    request->next = kept_requests;
    kept_requests = request;
    pthread_mutex_unlock(&kept_lock);
    return true;
}

static void tell_kept(void)
{
    simba_request *request;

    pthread_mutex_lock(&kept_lock); /* the handles have loops of their own */
    request = kept_requests;
    kept_requests = NULL;
    pthread_mutex_unlock(&kept_lock);
    while (request != NULL) {
        simba_request *next = request->next;

        simba_request_done(request, SIMBA_OK, NULL);
        request = next;
    }
}

/* Requests that are never completed; here, so that they are not lost. */
static simba_request *forgotten;

static bool is_forgotten(simba_request *request)
{
    if (fault->never_done != request->kind && (int)fault->never_done != MUTE) {
        return false;
    }
    pthread_mutex_lock(&kept_lock);
    request->next = forgotten;
    forgotten = request;
    pthread_mutex_unlock(&kept_lock);
    return true;
}

/* The tenth is one of a test: the contract looks at a store by five. */
static bool is_given_up(simba_request *request)
{
    static _Atomic int count;
    simba_error error;

    if (fault->gives_up_ms == 0 || ++count != 10) {
        return false;
    }
    nanosleep(&(struct timespec){.tv_sec = fault->gives_up_ms / 1000,
                                 .tv_nsec = fault->gives_up_ms % 1000 *
                                            INT64_C(1000000)},
              NULL);
    simba_request_done(
        request, SIMBA_EUNAVAIL,
        (simba_error_set(&error, SIMBA_EUNAVAIL, 0, "it was not done"),
         &error));
    return true;
}

static void submit_broken(simba_backend *self, simba_request *request)
{
    bool is_acquire = request->kind == SIMBA_ACQUIRE;
    const char *given = request->mutex;
    struct memory *m = (struct memory *)self;
    char name[SIMBA_MUTEX_MAX_BYTES + 1];
    int rc = SIMBA_OK;

    if (is_forgotten(request) || is_given_up(request)) {
        return;
    }
    snprintf(name, sizeof name, "%s", request->mutex);
    if (fault->rename != NULL) {
        fault->rename(name);
    }
    request->mutex = name;
    pthread_mutex_lock(&m->space->lock);
    woken_by_this = listed = 0;
    if (request->kind == SIMBA_ACQUIRE && is_woken(self, request)) {
        request->reply.mine = true;
        request->reply.token = (uint64_t)simba_loop_now_ms() * 1000;
    } else if (request->mutex[0] == '\0') {
        rc = serve_any(m, request); /* a list, or what the doctor says */
    } else {
        rc = serve_broken(m, request);
    }
    pthread_mutex_unlock(&m->space->lock);
    request->mutex = given;
    if (is_kept_back(request, rc)) {
        return;
    }
    simba_request_done(request, rc, NULL);
    if (is_acquire) {
        tell_kept();
    }
}

static simba_backend_ops own_ops; /* the memory store's, with our submit */

static const struct fault *find_fault(const char *name)
{
    const struct fault *const tables[] = {broken_tenures, broken_others};

    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        for (const struct fault *f = tables[i]; f->name != NULL; f++) {
            if (strcmp(f->name, name) == 0) {
                return f;
            }
        }
    }
    return NULL;
}

static int open_broken(const simba_backend_config *config,
                       simba_backend **backend,
                       simba_error *error)
{
    int rc;

    fault = find_fault(config->rest);
    if (fault == NULL) {
        return simba_error_set(error, SIMBA_EINVAL, 0, "no fault \"%s\"",
                               config->rest);
    }
    simba__plant = fault->plant;
    woken_count = 0;
    rc = simba__memory_ops.open(config, backend, error);
    if (rc == SIMBA_OK) {
        own_ops = simba__memory_ops;
        own_ops.submit = submit_broken;
        (*backend)->ops = &own_ops;
    }
    return rc;
}

const simba_backend_ops simba_module = {
    .abi = SIMBA_BACKEND_ABI,
    .scheme = "broken",
    .least_lease_ms = 100,
    .open = open_broken,
    .submit = submit_broken,
    .close = close_memory,
};
