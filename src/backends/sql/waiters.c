/* Which mutexes this process waits for or watches, and who waits. The core asks
 * for each waiter once a lease, in case a wake-up was lost. What it asks then
 * we know already: the heartbeat of the process (heartbeat.c) renews the leases
 * of all its waiters and looks for all of them at once. So the server is asked
 * only by who was woken, and by whom the heartbeat could not answer for. */
#include "backends/sql/sql.h"

#include "core/saturate.h"

#include <stdlib.h>
#include <string.h>

/* While the heartbeat is late, ask again so soon. */
enum { LATE_MS = 100 };

/* --- subscriptions ------------------------------------------------------- */

struct simba__sql_subscription *simba__sql_subscription_find(
    const struct simba__sql *self,
    const char *mutex)
{
    return (struct simba__sql_subscription *)simba__hash_find(
        &self->subscriptions, mutex);
}

struct simba__sql_subscription *simba__sql_subscription_next(
    const struct simba__sql *self,
    const struct simba__sql_subscription *after)
{
    return (struct simba__sql_subscription *)simba__hash_next(
        &self->subscriptions, after == NULL ? NULL : &after->link);
}

/* Finds it or makes it; NULL: no memory. */
static struct simba__sql_subscription *get(struct simba__sql *self,
                                           const char *mutex)
{
    struct simba__sql_subscription *at =
        simba__sql_subscription_find(self, mutex);

    return at != NULL
               ? at
               : simba__hash_new(&self->subscriptions, sizeof *at, mutex);
}

/* In as many bytes as its id has, for there may be 100,000. */
enum { REST_AT = offsetof(simba_owner, is_broken) }; /* behind the id */

struct simba__sql_owner {
    char rest[sizeof(simba_owner) - REST_AT];
    char id[];
};

bool simba__sql_keep_owner(struct simba__sql_subscription *at,
                           const simba_owner *owner)
{
    size_t size = strlen(owner->id) + 1;
    struct simba__sql_owner *kept = at->owner;

    if (kept == NULL || strlen(kept->id) + 1 != size) {
        kept = realloc(kept, sizeof *kept + size);
        if (kept == NULL) {
            for (struct simba__sql_waiter *w = at->waiters; w != NULL;
                 w = w->next) {
                w->must_ask = true;
            }
            return false;
        }
        at->owner = kept;
    }
    memcpy(kept->rest, (const char *)owner + REST_AT, sizeof kept->rest);
    memcpy(kept->id, owner->id, size);
    return true;
}

static simba_owner kept_owner(const struct simba__sql_subscription *at)
{
    simba_owner owner = simba_owner_none();

    if (at->owner != NULL) {
        memcpy((char *)&owner + REST_AT, at->owner->rest,
               sizeof at->owner->rest);
        memcpy(owner.id, at->owner->id, strlen(at->owner->id) + 1);
    }
    return owner;
}

/* Unless somebody still needs it. */
static void drop(struct simba__sql *self, struct simba__sql_subscription *at)
{
    if (at->subscription == SIMBA_SUBSCRIBE_NONE && at->waiters == NULL) {
        simba__hash_remove(&self->subscriptions, &at->link);
        free(at->owner);
        free(at);
    }
}

void simba__sql_subscribe(simba_backend *backend,
                          const char *mutex,
                          enum simba_subscription subscription)
{
    struct simba__sql *self = (struct simba__sql *)backend;
    struct simba__sql_subscription *at =
        subscription == SIMBA_SUBSCRIBE_NONE
            ? simba__sql_subscription_find(self, mutex)
            : get(self, mutex);

    if (at != NULL) {
        at->subscription = subscription;
        drop(self, at);
    }
    simba__sql_heartbeat_plan(self);
}

void simba__sql_subscriptions_fini(struct simba__sql *self)
{
    struct simba__sql_subscription *at = NULL;

    while ((at = simba__sql_subscription_next(self, at)) != NULL) {
        free(at->owner);
        while (at->waiters != NULL) {
            struct simba__sql_waiter *waiter = at->waiters;

            at->waiters = waiter->next;
            free(waiter);
        }
    }
    simba__hash_free(&self->subscriptions);
}

void simba__sql_held_until(struct simba__sql_subscription *at, int64_t left_ms)
{
    const struct simba__sql_sighting *seen = &at->sighting;

    at->held_until_ms = simba__add_saturating(simba_loop_now_ms(), left_ms);
    if (seen->token != 0 && seen->until_ms < at->held_until_ms) {
        at->held_until_ms = seen->until_ms;
    }
}

void simba__sql_waiter_look(const struct simba__sql_request *request,
                            struct simba__sql_subscription *at)
{
    const struct simba__sql_record *record = &request->record;
    const simba_request *asked = request->asked;
    simba_owner owner = record->row;
    int64_t lease_ms = asked->ttl_ms + asked->transition_ms;

    if (record->was.attempt.high == 0 && record->was.attempt.low == 0) {
        owner.token = 0;
    }
    if (lease_ms > at->sighting.lease_ms) {
        at->sighting.lease_ms = lease_ms;
    }
    simba__sql_sight(&at->sighting, &owner, record->now_us / 1000);
}

/* --- waiters ------------------------------------------------------------- */

/* Where a waiter hangs, and at which mutex; NULL: nowhere. */
static struct simba__sql_waiter **find(const struct simba__sql *self,
                                       const char *mutex,
                                       simba_attempt attempt,
                                       struct simba__sql_subscription **at)
{
    *at = simba__sql_subscription_find(self, mutex);
    if (*at == NULL) {
        return NULL;
    }
    for (struct simba__sql_waiter **w = &(*at)->waiters; *w != NULL;
         w = &(*w)->next) {
        if (simba__attempt_equal((*w)->attempt, attempt)) {
            return w;
        }
    }
    return NULL;
}

void simba__sql_waiter_forget(struct simba__sql *self,
                              const simba_request *asked)
{
    struct simba__sql_subscription *at;
    struct simba__sql_waiter **where =
        find(self, asked->mutex, asked->attempt, &at);

    if (where != NULL) {
        struct simba__sql_waiter *waiter = *where;

        *where = waiter->next;
        free(waiter);
        self->waiter_count--;
        drop(self, at);
    }
}

bool simba__sql_waiter_call(struct simba__sql *self,
                            const char *mutex,
                            simba_attempt attempt)
{
    struct simba__sql_subscription *at;
    struct simba__sql_waiter **where = find(self, mutex, attempt, &at);

    if (where != NULL) {
        (*where)->must_ask = true;
    }
    return where != NULL;
}

/* Of who asks because a wake-up was passed on to it just now, only the first of
 * this process need ask the server: if that is not granted, nobody behind it is
 * either. Nor need it, if another was offered the mutex: it would be told for
 * how long, which we know, and asks when that is over. */
static bool answer_woken(const struct simba__sql *self,
                         const struct simba__sql_subscription *at,
                         const struct simba__sql_waiter *waiter,
                         simba_request *asked)
{
    int64_t wait_ms = at->held_until_ms - simba_loop_now_ms();

    /* Each of those who share it asks for itself. */
    if (self->waking == NULL || strcmp(self->waking, asked->mutex) != 0 ||
        asked->slots > 1 || (waiter->must_ask && self->waking_ms <= 0)) {
        return false;
    }
    if (waiter->must_ask) {
        asked->reply.is_head = true;
        asked->reply.wait_ms = self->waking_ms;
    } else {
        asked->reply.is_head = waiter->is_head;
        asked->reply.wait_ms =
            wait_ms > SIMBA__OFFER_MS ? wait_ms : SIMBA__OFFER_MS;
    }
    asked->reply.is_queued = true;
    asked->reply.position = waiter->position;
    asked->reply.owner = kept_owner(at);
    return true;
}

bool simba__sql_is_early(const struct simba__sql *self, simba_request *asked)
{
    int64_t wait_ms = self->late_until_ms - simba_loop_now_ms();

    if (wait_ms <= 0 || !asked->join || asked->position != 0 ||
        simba__fnv64(asked->mutex, strlen(asked->mutex)) != self->late_for) {
        return false;
    }
    asked->reply.owner = simba_owner_none();
    asked->reply.wait_ms = wait_ms;
    return true;
}

bool simba__sql_waiter_answer(struct simba__sql *self, simba_request *asked)
{
    struct simba__sql_subscription *at;
    struct simba__sql_waiter **where =
        find(self, asked->mutex, asked->attempt, &at);
    struct simba__sql_waiter *waiter = where == NULL ? NULL : *where;
    bool is_settled = self->notify == SIMBA__SQL_NOTIFY_READY ||
                      self->notify == SIMBA__SQL_NOTIFY_REFUSED;
    int64_t now_ms = simba_loop_now_ms();
    int64_t wait_ms;

    if (waiter == NULL) {
        return false;
    }
    /* The heartbeat must have time to renew its lease. */
    if (is_settled && now_ms < waiter->lapses_ms - waiter->life_ms / 4 &&
        answer_woken(self, at, waiter, asked)) {
        return true;
    }
    if (!asked->is_backstop || !is_settled || waiter->must_ask ||
        now_ms >= waiter->lapses_ms - waiter->life_ms / 4) {
        simba__sql_waiter_forget(self, asked); /* until the server answered */
        return false;
    }
    waiter->has_asked = true;
    simba__sql_heartbeat_asked(self, waiter, at);
    wait_ms = at->held_until_ms - simba_loop_now_ms();
    asked->reply.is_queued = true;
    asked->reply.is_head = waiter->is_head;
    asked->reply.position = waiter->position;
    asked->reply.wait_ms = wait_ms > LATE_MS ? wait_ms : LATE_MS;
    asked->reply.owner = kept_owner(at);
    return true;
}

void simba__sql_waiter_note(const struct simba__sql_request *request)
{
    struct simba__sql *self = request->self;
    const simba_request *asked = request->asked;
    const struct simba__sql_record *record = &request->record;
    struct simba__sql_subscription *at = get(self, asked->mutex);
    struct simba__sql_waiter *waiter =
        at == NULL ? NULL : calloc(1, sizeof *waiter);
    int64_t now_ms = simba_loop_now_ms();
    bool was_foreign = at != NULL && at->is_foreign;
    bool is_other =
        at != NULL && (at->owner == NULL ||
                       strcmp(at->owner->id, asked->reply.owner.id) != 0);
    /* Whether one that waits before it still lives, no heartbeat tells. */
    bool looks_again = asked->slots > 1 && !asked->reply.is_head &&
                       asked->reply.wait_ms <= SIMBA__LOOK_AGAIN_MS;

    if (waiter == NULL || !simba__sql_keep_owner(at, &asked->reply.owner)) {
        free(waiter);
        if (at != NULL) {
            drop(self, at);
        }
        return; /* it asks for itself */
    }
    *waiter = (struct simba__sql_waiter){
        .next = at->waiters,
        .attempt = asked->attempt,
        .position = asked->reply.position,
        .life_ms = asked->waiter_ms,
        .lapses_ms =
            now_ms + simba__sql_change_life(&request->change, asked, record),
        .since_heartbeat = self->heartbeat_number,
        .is_head = asked->reply.is_head,
        .must_ask = request->is_woken || looks_again};
    at->waiters = waiter;
    /* Of those who own it or wait for it, some cannot or will not notify us. */
    at->is_foreign = record->is_foreign;
    for (size_t i = 1; i < record->peer_count && self->account != 0; i++) {
        at->is_foreign |= strncmp(record->peers[i].process, self->process,
                                  SIMBA__SQL_ACCOUNT) != 0;
    }
    self->has_foreign |= at->is_foreign;
    if (at->is_foreign && (!was_foreign || is_other)) {
        self->foreign_since_ms = now_ms;
    }
    if (asked->reply.to[0] != '\0') { /* who was named to be the next */
        (void)simba__sql_waiter_call(self, asked->mutex,
                                     record->mutex.offered.attempt);
    }
    simba__sql_waiter_look(request, at);
    simba__sql_held_until(at, asked->reply.wait_ms);
    self->waiter_count++;
    simba__sql_heartbeat_asked(self, waiter, at);
}
