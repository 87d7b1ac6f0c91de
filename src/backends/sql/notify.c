/* Wake-ups: the notify session of a process, and who is told when a wake-up
 * comes. What it waits for in the server is the dialect's. */
#define _GNU_SOURCE
#include "backends/sql/waiters.h"

#include "util/container.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

void simba__sql_name_process(struct simba__sql *self)
{
    unsigned char bytes[SIMBA__SQL_HEX / 2];
    char account[SIMBA__SQL_ACCOUNT + 1];

    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        abort();
    }
    for (size_t i = 0; i < sizeof bytes; i++) {
        snprintf(self->process + 2 * i, 3, "%02x", bytes[i]);
    }
    if (self->account != 0) {
        snprintf(account, sizeof account, "%08" PRIx32, self->account);
        memcpy(self->process, account, SIMBA__SQL_ACCOUNT);
    }
}

/* Under a new name each time: the server may not have noticed yet that the last
 * connection is gone, and keep its lock. The dialect gives that name to all who
 * wait here in one go: one by one, each would be passed until it has asked
 * (S11). */
void simba__sql_notify_start(struct simba__sql *self)
{
    if (self->notify != SIMBA__SQL_NOTIFY_NONE) {
        return;
    }
    simba__sql_name_process(self);
    if (self->notify_session == NULL) {
        self->notify_session = simba__sql_session_make(self);
    }
    if (self->notify_session == NULL) {
        simba__sql_end_all(&self->parked, SIMBA_ENOMEM, NULL);
        return;
    }
    self->notify = SIMBA__SQL_NOTIFY_STARTING;
    self->notify_session->is_notify = true;
    simba__sql_session_connect(self->notify_session);
}

void simba__sql_notify_retry(simba_timer *timer)
{
    simba__sql_notify_start(
        container_of(timer, struct simba__sql, notify_timer));
}

/* S11: without it our waiters count as dead, so it is connected again soon,
 * even though nobody has asked. */
void simba__sql_notify_lost(struct simba__sql *self, const simba_error *error)
{
    bool was_ready = self->notify == SIMBA__SQL_NOTIFY_READY;

    self->notify = SIMBA__SQL_NOTIFY_NONE;
    if (self->was_notified) {
        simba_timer_set(self->base.loop, &self->notify_timer,
                        simba__backoff_until(&self->notify_backoff));
    }
    simba__sql_end_all(&self->parked, error->code, error);
    if (was_ready) { /* who waits shall hear if the server is gone, too */
        simba__sql_wake(self, NULL);
    }
}

/* Wake-ups that were sent while nobody listened are lost, so all are to ask. */
void simba__sql_notify_settled(struct simba__sql *self,
                               enum simba__sql_notify notify)
{
    bool is_again = self->was_notified;

    assert(self->notify == SIMBA__SQL_NOTIFY_STARTING);
    self->notify = notify;
    if (notify == SIMBA__SQL_NOTIFY_READY) {
        self->was_notified = true;
        simba__backoff_reset(&self->notify_backoff);
        memcpy(self->notify_name, self->process, sizeof self->notify_name);
    }
    simba__sql_unpark(self);
    simba__sql_heartbeat_plan(self);
    if (is_again) {
        simba__sql_wake(self, NULL);
    }
}

/* Who is asking just now, will ask again. */
static void wake_asking(struct simba__sql *self, const char *mutex)
{
    for (int i = 0; i < self->session_count; i++) {
        struct simba__sql_request *request = self->sessions[i]->request;

        if (request != NULL &&
            (mutex == NULL || strcmp(request->asked->mutex, mutex) == 0)) {
            request->is_woken = true;
        }
    }
}

static void wake_all(struct simba__sql *self)
{
    struct simba__sql_subscription *at = NULL;

    while ((at = simba__sql_subscription_next(self, at)) != NULL) {
        for (uint32_t i = 0; i < at->waiter_count; i++) {
            simba__sql_waiters(at)[i].must_ask = true;
        }
    }
}

/* The runtime passes it on to the first two of this process. */
static void pass_on(struct simba__sql *self,
                    const char *mutex,
                    int64_t offered_ms)
{
    const char *before = self->waking;

    self->waking = mutex;
    self->waking_ms = offered_ms;
    simba_wake(self->base.loop, mutex);
    self->waking = before;
    self->waking_ms = 0;
}

void simba__sql_wake_until(struct simba__sql *self,
                           const char *mutex,
                           int64_t offered_ms)
{
    struct simba__sql_subscription *at =
        simba__sql_subscription_find(self, mutex);

    wake_asking(self, mutex);
    if (at != NULL && at->waiter_count > 0) {
        simba__sql_waiters(at)[0].must_ask = true;
    }
    pass_on(self, mutex, offered_ms);
}

void simba__sql_wake(struct simba__sql *self, const char *mutex)
{
    if (mutex != NULL) {
        simba__sql_wake_until(self, mutex, 0);
        return;
    }
    wake_asking(self, NULL);
    wake_all(self);
    simba_wake(self->base.loop, NULL);
}

void simba__sql_wake_offered(struct simba__sql *self,
                             const char *mutex,
                             simba_attempt attempt)
{
    bool is_here = simba__sql_waiter_call(self, mutex, attempt);

    for (int i = 0; i < self->session_count; i++) {
        struct simba__sql_request *request = self->sessions[i]->request;

        if (request != NULL &&
            simba__attempt_equal(request->asked->attempt, attempt)) {
            request->is_woken = is_here = true;
        }
    }
    if (is_here) {
        pass_on(self, mutex, 0);
    }
}
