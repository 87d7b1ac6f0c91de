#define _GNU_SOURCE
#include "runtime/request.h"

#include "runtime/loop.h"
#include "runtime/report.h"

#include <stdlib.h>
#include <string.h>

/* False: there is a text, and no memory for it. */
static bool copy_text(const char *text, char **copy)
{
    *copy = text == NULL ? NULL : strdup(text);
    return text == NULL || *copy != NULL;
}

struct simba__pending *simba__request_make(const simba_request *request)
{
    struct simba__pending *pending = malloc(sizeof *pending);

    if (pending == NULL) {
        return NULL;
    }
    *pending = (struct simba__pending){.request = *request};
    if (!copy_text(request->reason, &pending->reason) ||
        !copy_text(request->to, &pending->to)) {
        simba__request_free(pending);
        return NULL;
    }
    memcpy(pending->mutex, request->mutex, strlen(request->mutex) + 1);
    if (request->id != NULL) {
        memcpy(pending->id, request->id, strlen(request->id) + 1);
    }
    pending->request.size = sizeof pending->request;
    pending->request.mutex = pending->mutex;
    pending->request.id = pending->id;
    pending->request.reason = pending->reason;
    pending->request.to = pending->to;
    pending->request.next = pending->request.original = NULL;
    pending->request.backend_data = NULL;
    pending->request.done = NULL;
    pending->request.reply =
        (simba_reply){.size = sizeof pending->request.reply};
    return pending;
}

void simba__request_free(struct simba__pending *pending)
{
    if (pending != NULL) {
        if (pending->report != NULL) {
            simba_report_close(pending->report);
        }
        free(pending->reason);
        free(pending->to);
        free(pending);
    }
}

void simba__request_send(struct simba__pending *pending,
                         struct simba__caller *caller,
                         simba_backend *backend)
{
    simba_loop *loop = backend->loop;

    pending->caller = caller;
    pending->next = caller->pending;
    caller->pending = pending;
    if (loop != NULL && loop->metrics.front == backend) {
        loop->metrics.requests++; /* not what a shim sends on */
    }
    backend->ops->submit(backend, &pending->request);
}

void simba_request_done(simba_request *request,
                        int status,
                        const simba_error *error)
{
    struct simba__pending *pending = (struct simba__pending *)request;
    struct simba__pending **p;

    if (request->done != NULL) {
        request->done(request, status, error);
        return;
    }
    if (pending->caller != NULL) {
        for (p = &pending->caller->pending; *p != pending; p = &(*p)->next) {
        }
        *p = pending->next;
        pending->caller->done(pending->caller, pending, status, error);
    }
    simba__request_free(pending);
}

simba_report *simba__request_report(simba_request *request)
{
    struct simba__pending *pending;

    while (request->original != NULL) {
        request = request->original;
    }
    pending = (struct simba__pending *)request;
    if (pending->report == NULL) {
        pending->report = simba__report_make();
        pending->is_report_short |= pending->report == NULL;
    }
    return pending->report;
}

void simba__caller_leave(struct simba__caller *caller)
{
    for (struct simba__pending *pending = caller->pending; pending != NULL;
         pending = pending->next) {
        pending->caller = NULL;
    }
    caller->pending = NULL;
}
