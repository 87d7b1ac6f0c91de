/* Clock stores that are broken on purpose: `brokenshelf:FAULT`. Each is
 * examples/backend/simba-shelf.c with one mistake that an author can make who
 * has the model from simba/sys/mutex_value.h: each is caught by a test of the
 * contract (test_broken.c). */
#define _GNU_SOURCE
#include <simba/sys/backend.h>
#include <simba/sys/mutex_value.h>

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const simba_backend_ops shelf_module;

enum { ROOM = 300, APART_MS = 300 };

struct handle;
static int broken_serve(const struct handle *h,
                        const simba_value_host *given,
                        simba_request *request,
                        simba_value_change *change,
                        simba_error *error);

#define simba_module shelf_module
#define simba_value_serve(host, request, change, error)                        \
    broken_serve(h, host, request, change, error)
// NOLINTNEXTLINE(bugprone-suspicious-include)
#include "../../examples/backend/simba-shelf.c"
#undef simba_module
#undef simba_value_serve

static void drop(simba_value_change *change)
{
    free(change->bytes);
    change->bytes = NULL;
    change->size = 0;
}

/* Whatever its version is by now. */
static void write_blindly(const struct handle *h,
                          const char *mutex,
                          simba_value_change *change)
{
    struct value *v;

    (void)usleep(200); /* as a server far away */
    pthread_mutex_lock(&lock);
    v = find_value(h->shelf, mutex);
    free(v->bytes);
    v->bytes = change->bytes;
    v->size = change->size;
    v->version++;
    pthread_mutex_unlock(&lock);
    change->bytes = NULL;
}

static int broken_serve(const struct handle *h,
                        const simba_value_host *given,
                        simba_request *request,
                        simba_value_change *change,
                        simba_error *error)
{
    const char *fault = h->shelf;
    simba_value_host host = *given;
    int rc;

    if (strcmp(fault, "clocks_differ") == 0) { /* the machines', not one */
        host.now_ms += host.connection % 2 != 0 ? APART_MS : 0;
    } else if (strcmp(fault, "clock_stands") == 0) { /* read once, at first */
        host.now_ms = 1;
    } else if (strcmp(fault, "one_number_for_all") == 0) {
        host.connection = 1;
    } else if (strcmp(fault, "tries_join") == 0) {
        request->join = true;
    }
    rc = simba_value_serve(&host, request, change, error);
    if (strcmp(fault, "ids_folded") == 0) { /* as a column compares them */
        for (char *c = request->reply.owner.id; *c != '\0'; c++) {
            *c = (char)tolower((unsigned char)*c);
        }
    }
    if (rc != SIMBA_OK || change->bytes == NULL) {
        return rc;
    }
    if (strcmp(fault, "value_cut") == 0 && change->size > ROOM) {
        change->size = ROOM; /* what fits into the column */
    } else if (strcmp(fault, "renewal_unwritten") == 0 &&
               request->kind == SIMBA_RENEW) {
        drop(change);
    } else if (strcmp(fault, "leave_unwritten") == 0 &&
               request->kind == SIMBA_LEAVE) {
        drop(change);
    } else if (strcmp(fault, "break_unwritten") == 0 &&
               request->kind == SIMBA_BREAK) {
        drop(change);
    } else if (strcmp(fault, "waiter_not_released") == 0 &&
               request->kind == SIMBA_RELEASE && request->token == 0) {
        drop(change);
    } else if (strcmp(fault, "free_is_deleted") == 0 &&
               request->kind == SIMBA_RELEASE) {
        change->size = 0; /* with those who wait */
    } else if (strcmp(fault, "written_blindly") == 0) {
        write_blindly(h, request->mutex, change);
    } else if (strcmp(fault, "nobody_notified") == 0) {
        change->wake_count = 0;
    }
    return rc;
}

const simba_backend_ops simba_module = {
    .abi = SIMBA_BACKEND_ABI,
    .scheme = "brokenshelf",
    .least_lease_ms = 100,
    .open = open_shelf,
    .submit = submit,
    .close = close_shelf,
    .detach = detach,
    .forked = forked,
    .capabilities = SIMBA_CAN_PUSH | SIMBA_HAS_STEADY_CLOCK |
                    SIMBA_IN_ONE_PROCESS | SIMBA_CAN_BREAK | SIMBA_TELLS_ENDED,
};
