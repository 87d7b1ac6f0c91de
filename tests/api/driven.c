/* A store that grants everything at once, and takes note of what is submitted
 * for a thread that is leaving it. */
#define _GNU_SOURCE
#include <simba/sys/backend.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* For the test: hold up the next who leaves; it is leaving; how many requests
 * were left to it since, or to a thread that never drives; how many there
 * were. */
SIMBA_API _Atomic int driven_holds_up, driven_is_leaving, driven_orphans,
    driven_count;

static pthread_t opener; /* the one that drives */

extern const simba_backend_ops simba_module;

enum { HELD_UP_MS = 200 };

static int open_it(const simba_backend_config *config,
                   simba_backend **backend,
                   simba_error *error)
{
    (void)error;
    *backend = calloc(1, sizeof **backend);
    if (*backend == NULL) {
        return SIMBA_ENOMEM;
    }
    opener = pthread_self();
    (*backend)->ops = &simba_module;
    (*backend)->loop = config->loop;
    return SIMBA_OK;
}

static void submit(simba_backend *self, simba_request *request)
{
    static uint64_t token;

    (void)self;
    if (request->is_driven &&
        (driven_is_leaving || !pthread_equal(opener, pthread_self()))) {
        driven_orphans++;
    }
    driven_count++;
    if (request->kind == SIMBA_ACQUIRE) {
        request->reply.mine = true;
        request->reply.token = request->reply.owner.token = ++token;
        strcpy(request->reply.owner.id, request->id);
    }
    simba_request_done(request, SIMBA_OK, NULL);
}

/* Whoever leaves the loop sees to the messages that have come meanwhile. */
static bool drive(simba_backend *self, int64_t until_ms)
{
    struct timespec nap = {0, HELD_UP_MS * 1000000L};

    simba_loop_enter(self->loop);
    if (until_ms == 0 && driven_holds_up) {
        driven_is_leaving = 1;
        nanosleep(&nap, NULL);
    }
    simba_loop_leave(self->loop);
    return false;
}

static void close_it(simba_backend *self)
{
    free(self);
}

const simba_backend_ops simba_module = {
    .abi = SIMBA_BACKEND_ABI,
    .scheme = "driven",
    .open = open_it,
    .submit = submit,
    .close = close_it,
    .drive = drive,
};
