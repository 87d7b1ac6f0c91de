/* What a store adds to its answers, for tests to look at. */
#define _GNU_SOURCE
#include "reported.h"

#include "fixtures/unit_test.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct noted noted;

void simba_request_add_waiter(simba_request *request,
                              const simba_waiter *waiter)
{
    (void)request;
    if (noted.waiters < NOTED_MOST) {
        noted.waiter[noted.waiters++] = *waiter;
    }
}

void simba_request_add_told(simba_request *request,
                            const char *mutex,
                            uint64_t token,
                            const char *text)
{
    (void)request;
    (void)mutex;
    (void)token;
    (void)text;
}

void simba_request_add_broken(simba_request *request,
                              const simba_broken *broken)
{
    (void)request;
    (void)broken;
}

void simba_request_add_owner(simba_request *request, const simba_owner *owner)
{
    (void)request;
    if (noted.owners < NOTED_MOST) {
        noted.owner[noted.owners++] = *owner;
    }
}

void simba_request_add_mutex(simba_request *request,
                             const char *mutex,
                             const simba_owner *owner,
                             int waiting)
{
    (void)request;
    if (noted.mutexes < NOTED_MOST) {
        struct noted_mutex *one = &noted.mutex[noted.mutexes++];

        snprintf(one->name, sizeof one->name, "%s", mutex);
        one->owner = *owner;
        one->waiting = waiting;
    }
}

void simba_request_add_finding(simba_request *request,
                               enum simba_gravity gravity,
                               const char *name,
                               const char *format,
                               ...)
{
    va_list arguments;

    (void)request;
    if (noted.findings < NOTED_MOST) {
        struct noted_finding *one = &noted.finding[noted.findings++];

        one->gravity = gravity;
        snprintf(one->name, sizeof one->name, "%s", name);
        va_start(arguments, format);
        vsnprintf(one->text, sizeof one->text, format, arguments);
        va_end(arguments);
    }
}

const struct noted_finding *finding(const char *name)
{
    for (int i = 0; i < noted.findings; i++) {
        if (strcmp(noted.finding[i].name, name) == 0) {
            return &noted.finding[i];
        }
    }
    fail_msg("the doctor says nothing about %s", name);
    return NULL;
}
