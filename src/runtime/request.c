#define _GNU_SOURCE
#include "runtime/request.h"

#include "core/told.h"
#include "runtime/loop.h"
#include "util/array.h"

#include <assert.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
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
    struct simba__pending *pending = calloc(1, sizeof *pending);

    if (pending == NULL) {
        return NULL;
    }
    /* All before the reply, which is in every version of a request. */
    memcpy(&pending->request, request, offsetof(simba_request, reply));
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
    pending->request.reply.size = sizeof pending->request.reply;
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

    assert(pending->caller == NULL && caller->done != NULL);
    pending->caller = caller;
    pending->next = caller->pending;
    caller->pending = pending;
    if (loop != NULL && loop->front == backend) {
        loop->metrics.requests++; /* not what a shim sends on */
        pending->loop = loop;
        atomic_fetch_add(&loop->due, 1);
        pending->is_in_window = pending->request.kind == SIMBA_ACQUIRE;
        if (pending->is_in_window) {
            simba__window_sent(&loop->window);
        }
        loop->submitted = pending;
    }
    backend->ops->submit(backend, &pending->request);
    if (loop != NULL) {
        loop->submitted = NULL;
    }
}

bool simba__request_is_full(const simba_loop *loop)
{
    return simba__window_is_full(&loop->window) ||
           (loop->held != NULL && !loop->is_letting);
}

void simba__request_hold(simba_loop *loop, simba_timer *held)
{
    if (!simba__ring_has(held)) {
        simba__ring_add(&loop->held, held);
    }
}

void simba__request_unhold(simba_loop *loop, simba_timer *held)
{
    if (simba__ring_has(held)) {
        simba__ring_remove(&loop->held, held);
    }
}

/* Some backends answer at once: who is let in then ends here again. */
static void let_in(simba_loop *loop)
{
    simba_timer *held;

    if (loop->is_letting) {
        return;
    }
    loop->is_letting = true;
    while ((held = loop->held) != NULL &&
           !simba__window_is_full(&loop->window)) {
        simba__request_unhold(loop, held);
        held->fire(held);
    }
    loop->is_letting = false;
}

/* An acquire that failed at once says nothing of how busy the store is. What is
 * answered from within submit has taken no time: a look at the clock costs more
 * than a store in memory. */
static void learn(simba_loop *loop,
                  const struct simba__pending *pending,
                  int status)
{
    if (pending->is_in_window) {
        simba__window_ended(&loop->window,
                            loop->submitted == pending
                                ? 0
                                : simba_loop_now_ms() - pending->sent_ms,
                            pending->request.deadline_ms - pending->sent_ms,
                            status == SIMBA_OK && loop->held != NULL);
    }
}

void simba_request_done(simba_request *request,
                        int status,
                        const simba_error *error)
{
    struct simba__pending *pending = (struct simba__pending *)request;
    struct simba__pending **p;
    simba_loop *loop;

    if (request->done != NULL) {
        request->done(request, status, error);
        return;
    }
    loop = pending->loop;
    if (loop != NULL) {
        atomic_fetch_sub(&loop->due, 1);
        learn(loop, pending, status);
    }
    if (pending->caller != NULL) {
        for (p = &pending->caller->pending; *p != pending; p = &(*p)->next) {
        }
        *p = pending->next;
        request->reply.size = sizeof request->reply; /* backends err */
        pending->caller->done(pending->caller, pending, status, error);
    }
    simba__request_free(pending);
    if (loop != NULL) {
        let_in(loop);
    }
}

struct simba__pending *simba__request_first(simba_request *request)
{
    while (request->original != NULL) {
        request = request->original;
    }
    return (struct simba__pending *)request;
}

simba_report *simba__request_report(simba_request *request)
{
    struct simba__pending *pending = simba__request_first(request);

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

/* --- reports ------------------------------------------------------------- */

/* No store that anybody can look through has more; a backend gone wild must
 * not take all memory. */
enum { ITEMS_MOST = 1000000 };

simba_report *simba__report_make(void)
{
    simba_report *report = calloc(1, sizeof *report);

    if (report != NULL) {
        report->mutexes.size = sizeof(simba_listed);
        report->owners.size = sizeof(simba_owner);
        report->waiters.size = sizeof(simba_waiter);
        report->findings.size = sizeof(simba_finding);
        report->told.size = sizeof(simba_told);
        report->broken.size = sizeof(simba_broken);
    }
    return report;
}

void simba_report_close(simba_report *report)
{
    if (report != NULL) {
        free(report->mutexes.first);
        free(report->owners.first);
        free(report->waiters.first);
        free(report->findings.first);
        free(report->told.first);
        free(report->broken.first);
        free(report);
    }
}

/* --- filling ------------------------------------------------------------- */

static void *item_at(const struct simba__items *items, size_t index)
{
    return index < items->count ? (char *)items->first + index * items->size
                                : NULL;
}

static void append(simba_report *report,
                   struct simba__items *items,
                   const void *item)
{
    if (items->count == ITEMS_MOST ||
        !simba__array_reserve(&items->first, &items->room, items->count + 1,
                              items->size)) {
        report->is_short = true;
        return;
    }
    items->count++;
    memcpy(item_at(items, items->count - 1), item, items->size);
}

void simba__report_add(simba_report *to, const simba_report *from)
{
    const struct simba__items *parts[] = {&from->mutexes, &from->owners,
                                          &from->waiters, &from->findings,
                                          &from->told,    &from->broken};
    struct simba__items *into[] = {&to->mutexes,  &to->owners, &to->waiters,
                                   &to->findings, &to->told,   &to->broken};

    size_t mutexes = to->mutexes.count, owners = to->owners.count;
    simba_listed *listed;

    for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++) {
        for (size_t i = 0; i < parts[k]->count; i++) {
            append(to, into[k], item_at(parts[k], i));
        }
    }
    while ((listed = item_at(&to->mutexes, mutexes++)) != NULL) {
        listed->first += owners;
    }
    to->is_short |= from->is_short;
}

void simba_request_add_mutex(simba_request *request,
                             const char *mutex,
                             const simba_owner *owner,
                             int waiting)
{
    simba_report *report = simba__request_report(request);
    simba_listed listed = {
        .owner = *owner, .waiting = waiting, .owned = owner->id[0] != '\0'};

    if (report != NULL) {
        listed.first = report->owners.count;
        snprintf(listed.mutex, sizeof listed.mutex, "%s", mutex);
        append(report, &report->mutexes, &listed);
    }
}

void simba_request_add_owner(simba_request *request, const simba_owner *owner)
{
    simba_report *report = simba__request_report(request);

    if (report == NULL) {
        return;
    }
    append(report, &report->owners, owner);
    if (report->mutexes.count > 0) {
        simba_listed *listed =
            item_at(&report->mutexes, report->mutexes.count - 1);

        listed->owned = (uint32_t)(report->owners.count - listed->first);
    }
}

void simba_request_add_waiter(simba_request *request,
                              const simba_waiter *waiter)
{
    simba_report *report = simba__request_report(request);

    if (report != NULL) {
        append(report, &report->waiters, waiter);
    }
}

void simba_request_add_told(simba_request *request,
                            const char *mutex,
                            uint64_t token,
                            const char *text)
{
    simba_report *report = simba__request_report(request);
    simba_told told = {.token = token};

    if (report != NULL) {
        snprintf(told.mutex, sizeof told.mutex, "%s", mutex);
        simba__told_read(&told, text);
        append(report, &report->told, &told);
    }
}

void simba_request_add_broken(simba_request *request,
                              const simba_broken *broken)
{
    simba_report *report = simba__request_report(request);

    if (report != NULL) {
        append(report, &report->broken, broken);
    }
}

void simba_request_add_finding(simba_request *request,
                               enum simba_gravity gravity,
                               const char *name,
                               const char *format,
                               ...)
{
    simba_report *report = simba__request_report(request);
    simba_finding finding = {.gravity = gravity};
    va_list args;

    if (report == NULL) {
        return;
    }
    snprintf(finding.name, sizeof finding.name, "%s", name);
    va_start(args, format);
    vsnprintf(finding.text, sizeof finding.text, format, args);
    va_end(args);
    append(report, &report->findings, &finding);
}

/* --- ordering ------------------------------------------------------------ */

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const simba_listed *)a)->mutex,
                  ((const simba_listed *)b)->mutex);
}

void simba__report_sort(simba_report *report, const char *glob)
{
    struct simba__items *items = &report->mutexes;
    simba_listed *all = items->first;
    size_t kept = 0;

    for (size_t i = 0; i < items->count; i++) {
        if (glob == NULL || fnmatch(glob, all[i].mutex, 0) == 0) {
            all[kept++] = all[i];
        }
    }
    items->count = kept;
    if (kept > 0) {
        qsort(all, kept, sizeof *all, compare_names);
    }
}

static int compare_breaks(const void *a, const void *b)
{
    const simba_broken *one = a, *other = b;

    return one->unix_ms != other->unix_ms
               ? (one->unix_ms > other->unix_ms) * 2 - 1
               : (one->token > other->token) - (one->token < other->token);
}

static int compare_told(const void *a, const void *b)
{
    const simba_told *one = a, *other = b;
    int order = strcmp(one->mutex, other->mutex);

    return order != 0
               ? order
               : (one->token > other->token) - (one->token < other->token);
}

void simba__report_sort_told(simba_report *report)
{
    if (report->told.count > 0) {
        qsort(report->told.first, report->told.count, report->told.size,
              compare_told);
    }
}

void simba__report_sort_breaks(simba_report *report)
{
    if (report->broken.count > 0) {
        qsort(report->broken.first, report->broken.count, report->broken.size,
              compare_breaks);
    }
}

/* --- reading ------------------------------------------------------------- */

size_t simba_report_mutex_count(const simba_report *report)
{
    return report->mutexes.count;
}

size_t simba_report_waiter_count(const simba_report *report)
{
    return report->waiters.count;
}

size_t simba_report_finding_count(const simba_report *report)
{
    return report->findings.count;
}

size_t simba_report_told_count(const simba_report *report)
{
    return report->told.count;
}

size_t simba_report_broken_count(const simba_report *report)
{
    return report->broken.count;
}

const simba_listed *simba_report_mutex(const simba_report *report, size_t index)
{
    return item_at(&report->mutexes, index);
}

const simba_owner *simba_report_mutex_owner(const simba_report *report,
                                            size_t index,
                                            size_t owner)
{
    const simba_listed *listed = item_at(&report->mutexes, index);

    if (listed == NULL || owner >= listed->owned) {
        return NULL;
    }
    return listed->owned == 1 ? &listed->owner
                              : item_at(&report->owners, listed->first + owner);
}

const simba_waiter *simba_report_waiter(const simba_report *report,
                                        size_t index)
{
    return item_at(&report->waiters, index);
}

const simba_finding *simba_report_finding(const simba_report *report,
                                          size_t index)
{
    return item_at(&report->findings, index);
}

const simba_told *simba_report_told(const simba_report *report, size_t index)
{
    return item_at(&report->told, index);
}

const simba_broken *simba_report_broken(const simba_report *report,
                                        size_t index)
{
    return item_at(&report->broken, index);
}

const simba_owner *simba_report_owner(const simba_report *report)
{
    return &report->owner;
}

/* A store with one owner at most tells it by the reply alone. */
size_t simba_report_owner_count(const simba_report *report)
{
    return report->owners.count > 0 ? report->owners.count
                                    : report->owner.id[0] != '\0';
}

const simba_owner *simba_report_owner_at(const simba_report *report,
                                         size_t index)
{
    if (report->owners.count == 0) {
        return index < simba_report_owner_count(report) ? &report->owner : NULL;
    }
    return item_at(&report->owners, index);
}

int64_t simba_report_store_ms(const simba_report *report)
{
    return report->store_ms;
}

enum simba_gravity simba_report_gravity(const simba_report *report)
{
    enum simba_gravity gravest = SIMBA_FINDING_OK;

    for (size_t i = 0; i < report->findings.count; i++) {
        const simba_finding *finding = item_at(&report->findings, i);
        gravest = finding->gravity > gravest ? finding->gravity : gravest;
    }
    return gravest;
}
