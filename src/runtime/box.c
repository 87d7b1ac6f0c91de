#include "runtime/box.h"

#include "runtime/loop.h"

#include "runtime/report.h"

#include <stdlib.h>
#include <string.h>

struct simba__box *simba__box_make(const char *mutex, const char *id)
{
    struct simba__box *box = calloc(1, sizeof *box);

    if (box != NULL) {
        memcpy(box->id, id, strlen(id) + 1);
        memcpy(box->mutex, mutex, strlen(mutex) + 1);
        box->request.mutex = box->mutex;
        box->request.id = box->id;
    }
    return box;
}

void simba__box_free(struct simba__box *box)
{
    if (box != NULL) {
        simba_report_close(box->report);
        free(box->text);
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

    if (box->caller != NULL) {
        unlink_box(box);
        box->caller->done(box->caller, box, status, error);
    }
    simba__box_free(box);
}

simba_report *simba__box_report(simba_request *request)
{
    struct simba__box *box = (struct simba__box *)request;

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
