/* What operations added to their answers; see redis_noted.h. */
#include "redis_noted.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct noted noted;

void simba_op_add_waiter(simba_op *op, const simba_waiter *waiter)
{
    (void)op;
    if (noted.waiter_count < NOTED_MOST) {
        noted.waiters[noted.waiter_count++] = *waiter;
    }
}

void simba_op_add_mutex(simba_op *op,
                        const char *mutex,
                        const simba_owner *owner,
                        int waiting)
{
    (void)op;
    if (noted.mutex_count < NOTED_MOST) {
        int i = noted.mutex_count++;

        snprintf(noted.mutexes[i].mutex, sizeof noted.mutexes[i].mutex, "%s",
                 mutex);
        noted.mutexes[i].owner = *owner;
        noted.mutexes[i].waiting = waiting;
    }
}

void simba_op_add_finding(simba_op *op,
                          enum simba_gravity gravity,
                          const char *name,
                          const char *format,
                          ...)
{
    va_list arguments;

    (void)op;
    if (noted.finding_count < NOTED_MOST) {
        int i = noted.finding_count++;

        noted.findings[i].gravity = gravity;
        snprintf(noted.findings[i].name, sizeof noted.findings[i].name, "%s",
                 name);
        va_start(arguments, format);
        vsnprintf(noted.findings[i].text, sizeof noted.findings[i].text, format,
                  arguments);
        va_end(arguments);
    }
}
