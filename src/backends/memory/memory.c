/* The memory store: `memory:name`. Handles with one name share its mutexes.
 *
 * It answers at once, from within submit, inside the loop of the handle that
 * asks; the space is locked meanwhile. A waiter is woken through the loop of
 * its own handle. The logic is in row.c, the names in space.c. */
#define _GNU_SOURCE
#include "backends/memory/instance.h"

#include <stdlib.h>

/* --- rows, with the space locked ----------------------------------------- */

/* A call and the mutex it is about. */
struct serving {
    struct simba__memory_space *space;
    const char *mutex;
};

static bool is_waiter_connected(void *self, uint64_t connection)
{
    return simba__memory_handle(((struct serving *)self)->space, connection) !=
           NULL;
}

static void wake(void *self, const struct simba__waiter *waiter)
{
    struct serving *serving = self;
    struct simba__memory *m =
        simba__memory_handle(serving->space, waiter->connection);

    if (m != NULL) {
        simba__memory_ring(m, serving->mutex, NULL);
    }
}

static int serve_list(struct simba__memory *m, simba_request *request)
{
    struct serving serving = {.space = m->space};
    struct simba__mutex_host host = {
        .self = &serving, .is_connected = is_waiter_connected, .wake = wake};
    int64_t now_ms = simba_loop_now_ms();

    for (struct simba__memory_row *e = m->space->entries; e != NULL;
         e = e->next) {
        bool is_held = simba__mutex_is_held(&e->row, now_ms);
        simba_owner owner = is_held ? e->row.owner : simba_owner_none();
        int waiting = 0;
        size_t i = 0;

        while (simba__mutex_next_waiter(&e->row, &host, now_ms, &i, NULL)) {
            waiting++;
        }

        if (is_held || waiting > 0) {
            simba_request_add_mutex(request, e->mutex, &owner, waiting);
        }
    }
    request->reply.store_ms = now_ms;
    return SIMBA_OK;
}

static int serve_doctor(simba_request *request)
{
    simba_request_add_finding(request, SIMBA_FINDING_NOTE, "sharing",
                              "only this process sees its mutexes");
    simba_request_add_finding(request, SIMBA_FINDING_NOTE, "persistence",
                              "gone with the last handle of this name");
    simba_request_add_finding(request, SIMBA_FINDING_OK, "clock",
                              "the boot clock, which makes no steps");
    simba_request_add_finding(request, SIMBA_FINDING_OK, "line",
                              "first come, first served; waiters are woken");
    return SIMBA_OK;
}

static int serve(struct simba__memory *m, simba_request *request)
{
    struct serving serving = {.space = m->space, .mutex = request->mutex};
    struct simba__mutex_host host = {
        .self = &serving, .is_connected = is_waiter_connected, .wake = wake};
    struct simba__mutex_call call = {.request = request,
                                     .connection = m->connection,
                                     .now_ms = simba_loop_now_ms()};
    struct simba__memory_row *entry =
        simba__memory_find(m->space, request->mutex);
    uint64_t owner = entry == NULL ? 0 : entry->row.owner.token;
    simba_waiter waiter;
    size_t i = 0;

    if (entry == NULL ||
        !simba__mutex_serve(&entry->row, &host, &call, &request->reply)) {
        return SIMBA_ENOMEM;
    }
    while (request->want_queue &&
           simba__mutex_next_waiter(&entry->row, &host, call.now_ms, &i,
                                    &waiter)) {
        simba_request_add_waiter(request, &waiter);
    }
    if (entry->row.owner.token != owner) {
        m->change.owner = request->reply.owner;
        m->change.ended = request->reply.ended;
        simba__memory_tell(m, request->mutex);
    }
    return SIMBA_OK;
}

static int serve_any(struct simba__memory *m, simba_request *request)
{
    switch (request->kind) {
    case SIMBA_LIST:
        return serve_list(m, request);
    case SIMBA_DOCTOR:
        return serve_doctor(request);
    default:
        return serve(m, request);
    }
}

/* --- the backend --------------------------------------------------------- */

static void submit(simba_backend *self, simba_request *request)
{
    struct simba__memory *m = (struct simba__memory *)self;
    struct simba__memory_change change;
    int rc;

    pthread_mutex_lock(&m->space->lock);
    m->change.is_seen = false;
    rc = serve_any(m, request);
    change = m->change;
    pthread_mutex_unlock(&m->space->lock);
    if (change.is_seen) { /* before whoever asked can change it again */
        simba_observed(m->base.loop, request->mutex, &change.owner,
                       change.ended);
    }
    simba_request_done(request, rc, NULL);
}

static int open_memory(const simba_backend_config *config,
                       simba_backend **out,
                       simba_error *error)
{
    struct simba__memory *m = calloc(1, sizeof *m);

    *out = NULL;
    if (m == NULL ||
        (m->space = simba__memory_enter(config->rest, m)) == NULL) {
        free(m);
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    m->base.ops = &simba__memory_ops;
    m->base.loop = config->loop;
    pthread_mutex_lock(&m->space->lock);
    m->next = m->space->handles;
    m->space->handles = m;
    pthread_mutex_unlock(&m->space->lock);
    *out = &m->base;
    return SIMBA_OK;
}

/* Off the list before the loop ends: nobody rings a loop that is gone. */
static void detach(simba_backend *self)
{
    struct simba__memory *m = (struct simba__memory *)self;
    struct simba__memory **h;

    pthread_mutex_lock(&m->space->lock);
    for (h = &m->space->handles; *h != m; h = &(*h)->next) {
    }
    *h = m->next;
    pthread_mutex_unlock(&m->space->lock);
}

static void forked(simba_backend *self)
{
    (void)self;
    simba__memory_forget_all();
}

static void close_memory(simba_backend *self)
{
    struct simba__memory *m = (struct simba__memory *)self;

    simba__memory_leave(m->space);
    free(m);
}

const simba_backend_ops simba__memory_ops = {
    .abi = SIMBA_BACKEND_ABI,
    .scheme = "memory",
    .least_lease_ms = 100,
    .open = open_memory,
    .submit = submit,
    .close = close_memory,
    .detach = detach,
    .forked = forked,
    .subscription = simba__memory_subscription,
    .capabilities = SIMBA_CAN_PUSH | SIMBA_CAN_LIST | SIMBA_CAN_BREAK |
                    SIMBA_CAN_DOCTOR | SIMBA_HAS_STEADY_CLOCK |
                    SIMBA_IN_ONE_PROCESS | SIMBA_CAN_OBSERVE |
                    SIMBA_TELLS_ENDED,
};
