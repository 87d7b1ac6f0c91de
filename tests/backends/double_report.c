/* What a backend lists, kept for the test to look at; see double.h. */
#include "double.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct told told;

void simba_request_add_mutex(simba_request *request,
                             const char *mutex,
                             const simba_owner *owner,
                             int waiting)
{
    simba_listed *listed = &told.mutexes[told.mutex_count % TOLD_MOST];

    (void)request;
    told.mutex_count++;
    listed->owner = *owner;
    listed->waiting = waiting;
    snprintf(listed->mutex, sizeof listed->mutex, "%s", mutex);
}

void simba_request_add_waiter(simba_request *request,
                              const simba_waiter *waiter)
{
    (void)request;
    told.waiters[told.waiter_count++ % TOLD_MOST] = *waiter;
}

void simba_request_add_finding(simba_request *request,
                               enum simba_gravity gravity,
                               const char *name,
                               const char *format,
                               ...)
{
    simba_finding *finding = &told.findings[told.finding_count % TOLD_MOST];
    va_list args;

    (void)request;
    told.finding_count++;
    finding->gravity = gravity;
    snprintf(finding->name, sizeof finding->name, "%s", name);
    va_start(args, format);
    vsnprintf(finding->text, sizeof finding->text, format, args);
    va_end(args);
}
