/* The heartbeat of a process: one statement for all who wait through it. It
 * renews their waiter leases, and tells what may have been missed: who owns
 * each mutex until when, and which are worth asking for.
 *
 * It comes every 15 s, and right after the end of the first lease that we know
 * of: its owner has renewed it meanwhile, or is dead. Where nobody can notify
 * us, a poll ten times a second takes the place of wake-ups; every 3 ms at
 * first, when one has come who may soon be gone again. */
#define _GNU_SOURCE
#include "backends/sql/waiters.h"

#include "core/saturate.h"

#include "util/container.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { HEARTBEAT_MS = 15000, POLL_MS = 100, DEADLINE_MS = 2000 };

/* The first poll, and by which part of the time since then the next is later.
 */
enum { POLL_FIRST_MS = 3, POLL_SLOWER = 16 };

/* A statement must go out in one piece: in two, a process that is stopped in
 * between would keep locks. The rest has to wait for the next one. */
enum { KEPT_MOST = 1500 };

/* The columns of `heartbeat`, after those of a summary. */
enum column {
    IS_WORTH_ASKING = SIMBA__SQL_MUTEX_MORE,
    IS_FOREIGN /* somebody there cannot notify us */
};

/* Is there anything that nobody will notify us of? */
static bool must_poll(const struct simba__sql *self)
{
    return self->notify == SIMBA__SQL_NOTIFY_REFUSED || self->has_foreign;
}

/* --- when ---------------------------------------------------------------- */

/* A JVM contender that owns the mutex again and again is away for but a few
 * milliseconds in between, and keeps others of its kind off all that time. */
static int64_t next_poll_ms(const struct simba__sql *self)
{
    int64_t now_ms = simba_loop_now_ms();
    int64_t wait_ms = (now_ms - self->foreign_since_ms) / POLL_SLOWER;

    wait_ms = wait_ms < POLL_FIRST_MS ? POLL_FIRST_MS : wait_ms;
    return now_ms + (wait_ms > POLL_MS ? POLL_MS : wait_ms);
}

void simba__sql_heartbeat_plan(struct simba__sql *self)
{
    int64_t at_ms = self->heartbeat_due_ms;

    if (self->is_beating || self->is_detached) {
        return;
    }
    if (must_poll(self) && self->poll_due_ms < at_ms) {
        at_ms = self->poll_due_ms;
    }
    simba_timer_set(self->base.loop, &self->heartbeat_timer,
                    self->waiter_count == 0 ? INT64_MAX : at_ms);
}

/* The heartbeat must come before a waiter lease runs out that is to be renewed,
 * and when the owner's lease does. */
static void hurry(struct simba__sql *self,
                  const struct simba__sql_waiter *waiter,
                  const struct simba__sql_subscription *at)
{
    int64_t soonest_ms = self->heartbeat_sent_ms + POLL_MS;
    int64_t due_ms = at->held_until_ms + 1;
    int64_t keep_ms = waiter->lapses_ms - waiter->life_ms / 8;

    if (waiter->life_ms > self->life_ms) {
        self->life_ms = waiter->life_ms;
    }
    if (waiter->has_asked && due_ms > keep_ms) {
        due_ms = keep_ms;
    }
    if (due_ms < soonest_ms) {
        due_ms = soonest_ms;
    }
    if (due_ms < self->heartbeat_due_ms) {
        self->heartbeat_due_ms = due_ms;
    }
}

void simba__sql_heartbeat_asked(struct simba__sql *self,
                                const struct simba__sql_waiter *waiter,
                                const struct simba__sql_subscription *at)
{
    int64_t now_ms = simba_loop_now_ms();

    if (self->waiter_count == 1 && !waiter->has_asked) { /* the first */
        self->heartbeat_due_ms = now_ms + HEARTBEAT_MS;
        self->poll_due_ms = INT64_MAX;
        self->life_ms = 0;
    }
    if (self->poll_due_ms > next_poll_ms(self)) {
        self->poll_due_ms = next_poll_ms(self);
    }
    hurry(self, waiter, at);
    simba__sql_heartbeat_plan(self);
}

/* --- asking -------------------------------------------------------------- */

static void send_heartbeat(struct simba__sql *self)
{
    int64_t now_ms = simba_loop_now_ms();

    assert(!self->is_beating);
    self->heartbeat = (simba_request){.kind = SIMBA_READ,
                                      .mutex = "",
                                      .id = "",
                                      .waiter_ms = self->life_ms,
                                      .deadline_ms = now_ms + DEADLINE_MS};
    self->is_beating = true;
    self->is_poll = must_poll(self) && now_ms < self->heartbeat_due_ms;
    if (!self->is_poll) {
        self->heartbeat_sent_ms = now_ms;
        self->heartbeat_due_ms = /* if it fails */
            simba__backoff_until(&self->heartbeat_backoff);
    }
    simba__sql_submit(&self->base, &self->heartbeat);
}

void simba__sql_heartbeat_now(struct simba__sql *self)
{
    if (!self->is_beating && !self->is_detached) {
        self->heartbeat_due_ms = 0;
        send_heartbeat(self);
    }
}

void simba__sql_heartbeat_fired(simba_timer *timer)
{
    struct simba__sql *self =
        container_of(timer, struct simba__sql, heartbeat_timer);

    if (self->waiter_count > 0 && !self->is_beating) {
        send_heartbeat(self);
    }
}

/* One statement may be sent more than once. */
char *simba__sql_heartbeat_kept(const struct simba__sql *self)
{
    char *text = malloc(self->waiter_count * (SIMBA__SQL_HEX + 1) + 1);
    char *end = text;
    int count = 0;
    struct simba__sql_subscription *at = NULL;

    while (text != NULL &&
           (at = simba__sql_subscription_next(self, at)) != NULL) {
        struct simba__sql_waiter *w = simba__sql_waiters(at);

        for (uint32_t i = 0; i < at->waiter_count; i++, w++) {
            w->is_expected = true;
            if (w->has_asked && count < KEPT_MOST) {
                w->is_kept = true;
                w->has_asked = false;
            }
            if (w->is_kept) {
                count++;
                simba__sql_write_attempt(w->attempt, end);
                end += strlen(end);
                *end++ = ',';
            }
        }
    }
    if (text != NULL) {
        end[count == 0 ? 0 : -1] = '\0';
    }
    return text;
}

void simba__sql_heartbeat_done(struct simba__sql *self, int status)
{
    struct simba__sql_subscription *at = NULL;

    assert(self->is_beating);
    self->is_beating = false;
    while (status != SIMBA_OK &&
           (at = simba__sql_subscription_next(self, at)) != NULL) {
        struct simba__sql_waiter *w = simba__sql_waiters(at);

        for (uint32_t i = 0; i < at->waiter_count; i++, w++) {
            w->has_asked |= w->is_kept;
            w->is_kept = false;
        }
    }
    self->poll_due_ms = next_poll_ms(self);
    simba__sql_heartbeat_plan(self);
}

/* --- answers ------------------------------------------------------------- */

/* Who was answered for is sure of its position again. Where not all are in the
 * queue that were when we asked, all must ask. */
static void settle(struct simba__sql *self, struct simba__sql_subscription *at)
{
    struct simba__sql_waiter *waiters = simba__sql_waiters(at);
    uint32_t expected = 0;
    bool is_lost;

    for (uint32_t i = 0; i < at->waiter_count; i++) {
        expected += waiters[i].is_expected;
    }
    is_lost = at->seen_waiting < expected;
    at->seen_waiting = 0;
    self->has_lost_positions |= is_lost;
    self->has_foreign |= at->is_foreign && at->waiter_count > 0;
    for (uint32_t i = 0; i < at->waiter_count; i++) {
        struct simba__sql_waiter *w = &waiters[i];

        w->must_ask |= is_lost;
        if (w->is_kept) {
            w->lapses_ms = self->heartbeat_sent_ms + self->heartbeat.waiter_ms;
            w->is_kept = false;
        }
        hurry(self, w, at);
    }
}

void simba__sql_heartbeat_answered(struct simba__sql_request *request,
                                   const struct simba__sql_rows *rows)
{
    struct simba__sql *self = request->self;
    struct simba__sql_subscription *at = NULL;
    bool is_poll = request->statement == SIMBA__SQL_POLL;
    simba_owner owner;

    for (int i = 0; i < rows->count && !is_poll; i++) {
        int64_t left_ms = simba__subtract_saturating(
            simba__sql_number(rows, i, SIMBA__SQL_MUTEX_TRANSITION_AT),
            simba__sql_number(rows, i, SIMBA__SQL_MUTEX_NOW));
        const char *name = rows->cell(rows, i, SIMBA__SQL_MUTEX);

        at = name == NULL ? NULL : simba__sql_subscription_find(self, name);
        if (at != NULL) {
            at->seen_waiting =
                (uint32_t)simba__sql_number(rows, i, SIMBA__SQL_MUTEX_WAITING);
            at->is_foreign = simba__sql_number(rows, i, IS_FOREIGN) != 0;
            owner = simba__sql_read_owner(rows, i);
            at->is_crowd = strcmp(owner.id, SIMBA__CROWD_ID) == 0;
            if (!at->is_crowd) { /* who of several was told, is told on */
                (void)simba__sql_keep_owner(self, at, &owner);
            }
            /* Who cannot notify us may be none of ours. */
            if (!at->is_foreign) {
                simba__sql_sight(
                    &at->sighting, &owner,
                    simba__sql_number(rows, i, SIMBA__SQL_MUTEX_NOW));
            }
            simba__sql_held_until(at, left_ms < 0 ? 0 : left_ms);
        }
    }
    if (!is_poll) {
        simba__backoff_reset(&self->heartbeat_backoff);
        self->heartbeat_due_ms = self->heartbeat_sent_ms + HEARTBEAT_MS;
        self->life_ms = 0;
        self->has_lost_positions = self->has_foreign = false;
        at = NULL;
        while ((at = simba__sql_subscription_next(self, at)) != NULL) {
            settle(self, at);
        }
    }
    /* Who is woken may ask, and so change what we have gone through. Whether
     * one of several owners is dead is seen by asking only. */
    for (int i = 0; i < rows->count; i++) {
        const char *mutex = rows->cell(rows, i, SIMBA__SQL_MUTEX);

        at = simba__sql_subscription_find(self, mutex);
        if (is_poll || simba__sql_number(rows, i, IS_WORTH_ASKING) != 0 ||
            (at != NULL &&
             (at->is_crowd ||
              simba__sql_is_over(&at->sighting, simba_loop_now_ms())))) {
            simba__sql_wake(self, mutex);
        }
    }
    if (!is_poll && self->has_lost_positions) {
        simba_wake(self->base.loop, NULL);
    }
    simba__sql_end(request, SIMBA_OK, NULL);
}
