#define _GNU_SOURCE
#include "runtime/box.h"

#include "runtime/loop.h"

#include "runtime/report.h"

#include <stdlib.h>
#include <string.h>

struct simba__box *simba__box_make(const simba_request *request)
{
    struct simba__box *box = calloc(1, sizeof *box);

    if (box == NULL) {
        return NULL;
    }
    if (request->reason != NULL) {
        box->reason = strdup(request->reason);
        if (box->reason == NULL) {
            free(box);
            return NULL;
        }
    }
    if (request->id != NULL) {
        memcpy(box->id, request->id, strlen(request->id) + 1);
    }
    memcpy(box->mutex, request->mutex, strlen(request->mutex) + 1);
    box->request = *request;
    box->request.size = sizeof box->request;
    box->request.mutex = box->mutex;
    box->request.id = box->id;
    box->request.reason = box->reason;
    box->request.next = box->request.original = NULL;
    box->request.backend_data = NULL;
    box->request.done = NULL;
    box->request.reply = (simba_reply){.size = sizeof box->request.reply};
    return box;
}

void simba__box_free(struct simba__box *box)
{
    if (box != NULL) {
        simba_report_close(box->report);
        free(box->reason);
        free(box);
    }
}

void simba__box_send(struct simba__box *box,
                     struct simba__caller *caller,
                     simba_backend *backend)
{
    simba_loop *loop = backend->loop;

    box->caller = caller;
    box->next = caller->boxes;
    caller->boxes = box;
    if (loop != NULL && loop->tallies.front == backend) {
        loop->tallies.operations++; /* not what a shim sends on */
    }
    backend->ops->submit(backend, &box->request);
}

static void unlink_box(struct simba__box *box)
{
    struct simba__box **b = &box->caller->boxes;

    while (*b != box) {
        b = &(*b)->next;
    }
    *b = box->next;
}

void simba_request_done(simba_request *request,
                        int status,
                        const simba_error *error)
{
    struct simba__box *box = (struct simba__box *)request;

    if (request->done != NULL) {
        request->done(request, status, error);
        return;
    }
    if (box->caller != NULL) {
        unlink_box(box);
        box->caller->done(box->caller, box, status, error);
    }
    simba__box_free(box);
}

simba_report *simba__box_report(simba_request *request)
{
    struct simba__box *box;

    while (request->original != NULL) {
        request = request->original;
    }
    box = (struct simba__box *)request;
    if (box->report == NULL) {
        box->report = simba__report_make();
        box->is_report_short |= box->report == NULL;
    }
    return box->report;
}

void simba__caller_leave(struct simba__caller *caller)
{
    for (struct simba__box *box = caller->boxes; box != NULL; box = box->next) {
        box->caller = NULL;
    }
    caller->boxes = NULL;
}
