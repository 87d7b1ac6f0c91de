/* Which mutexes this process waits for or watches, and who waits. The core asks
 * for each waiter once a lease, in case a wake-up was lost. What it asks then
 * we know already: the heartbeat of the process (heartbeat.c) renews the leases
 * of all its waiters and looks for all of them at once. So the server is asked
 * only by who was woken, and by whom the heartbeat could not answer for. */
#include "backends/sql/waiters.h"

#include "core/saturate.h"

#include <stdlib.h>
#include <string.h>

/* While the heartbeat is late, ask again so soon. */
enum { LATE_MS = 100 };

/* --- mutexes ------------------------------------------------------------- */

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

/* --- owners -------------------------------------------------------------- */

/* An id, once for all mutexes of whoever bears it. */
struct simba__sql_name {
    struct simba__hash_link link; /* first; by the id */
    size_t uses;
};

static void drop_name(struct simba__sql *self, struct simba__sql_name *name)
{
    if (name != NULL && --name->uses == 0) {
        simba__hash_remove(&self->names, &name->link);
        free(name);
    }
}

/* NULL: no memory. */
static struct simba__sql_name *use_name(struct simba__sql *self, const char *id)
{
    struct simba__sql_name *name =
        (struct simba__sql_name *)simba__hash_find(&self->names, id);

    if (name == NULL) {
        name = simba__hash_new(&self->names, sizeof *name, id);
    }
    if (name != NULL) {
        name->uses++;
    }
    return name;
}

/* Does it bear this id, or is it as little anybody's? */
static bool is_kept(const struct simba__sql_subscription *at, const char *id)
{
    return strcmp(at->owner == NULL ? "" : at->owner->link.key, id) == 0;
}

bool simba__sql_keep_owner(struct simba__sql *self,
                           struct simba__sql_subscription *at,
                           const simba_owner *owner)
{
    struct simba__sql_name *name = at->owner;

    if (!is_kept(at, owner->id)) {
        name = owner->id[0] == '\0' ? NULL : use_name(self, owner->id);
        if (name == NULL && owner->id[0] != '\0') {
            for (uint32_t i = 0; i < at->waiter_count; i++) {
                simba__sql_waiters(at)[i].must_ask = true;
            }
            return false;
        }
        drop_name(self, at->owner);
    }
    at->owner = name;
    at->token = owner->token;
    at->former = owner->former;
    at->acquired_at_ms = owner->acquired_at_ms;
    at->ttl_at_ms = owner->ttl_at_ms;
    at->transition_at_ms = owner->transition_at_ms;
    at->slots = owner->slots;
    at->slot = owner->slot;
    at->is_broken = owner->is_broken;
    at->is_asked = owner->is_asked;
    return true;
}

static simba_owner kept_owner(const struct simba__sql_subscription *at)
{
    simba_owner owner = {.is_broken = at->is_broken,
                         .is_asked = at->is_asked,
                         .slots = at->slots,
                         .acquired_at_ms = at->acquired_at_ms,
                         .ttl_at_ms = at->ttl_at_ms,
                         .transition_at_ms = at->transition_at_ms,
                         .token = at->token,
                         .slot = at->slot,
                         .former = at->former};

    if (at->owner != NULL) {
        memcpy(owner.id, at->owner->link.key, strlen(at->owner->link.key) + 1);
    }
    return owner;
}

/* --- subscriptions ------------------------------------------------------- */

/* Unless somebody still needs it. */
static void drop(struct simba__sql *self, struct simba__sql_subscription *at)
{
    if (at->subscription == SIMBA_SUBSCRIBE_NONE && at->waiter_count == 0) {
        simba__hash_remove(&self->subscriptions, &at->link);
        drop_name(self, at->owner);
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
        at->subscription = (uint8_t)subscription;
        drop(self, at);
    }
    simba__sql_heartbeat_plan(self);
}

void simba__sql_subscriptions_fini(struct simba__sql *self)
{
    struct simba__sql_subscription *at = NULL;

    while ((at = simba__sql_subscription_next(self, at)) != NULL) {
        if (at->waiter_count > 1) {
            free(at->waiters.all);
        }
    }
    simba__hash_free(&self->subscriptions);
    simba__hash_free(&self->names);
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

struct simba__sql_waiter *simba__sql_waiters(struct simba__sql_subscription *at)
{
    return at->waiter_count > 1 ? at->waiters.all : &at->waiters.one;
}

/* How many of them stand before a position. */
static uint32_t count_before(struct simba__sql_subscription *at,
                             uint64_t position)
{
    const struct simba__sql_waiter *waiters = simba__sql_waiters(at);
    uint32_t low = 0, high = at->waiter_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (waiters[middle].position < position) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Room for a power of two. False: no memory. */
static bool put_in(struct simba__sql_subscription *at,
                   const struct simba__sql_waiter *waiter)
{
    uint32_t count = at->waiter_count;
    uint32_t before = count_before(at, waiter->position);
    struct simba__sql_waiter *waiters = simba__sql_waiters(at);

    if (count > 0 && (count & (count - 1)) == 0) {
        waiters = realloc(count == 1 ? NULL : at->waiters.all,
                          (size_t)count * 2 * sizeof *waiters);
        if (waiters == NULL) {
            return false;
        }
        if (count == 1) {
            waiters[0] = at->waiters.one;
        }
        at->waiters.all = waiters;
    }
    memmove(&waiters[before + 1], &waiters[before],
            (count - before) * sizeof *waiters);
    waiters[before] = *waiter;
    at->waiter_count++;
    return true;
}

static void take_out(struct simba__sql_subscription *at,
                     struct simba__sql_waiter *waiter)
{
    struct simba__sql_waiter *waiters = simba__sql_waiters(at);
    struct simba__sql_waiter *end = waiters + at->waiter_count--;

    memmove(waiter, waiter + 1, (size_t)((char *)end - (char *)(waiter + 1)));
    if (at->waiter_count == 1) {
        at->waiters.one = waiters[0];
        free(waiters);
    }
}

/* Finds it, by the position that it believes to have; NULL: it does not wait.
 */
static struct simba__sql_waiter *find(struct simba__sql_subscription *at,
                                      simba_attempt attempt,
                                      uint64_t position)
{
    struct simba__sql_waiter *waiters;
    uint32_t i;

    if (at == NULL || at->waiter_count == 0) {
        return NULL;
    }
    waiters = simba__sql_waiters(at);
    i = count_before(at, position);
    if (i < at->waiter_count &&
        simba__attempt_equal(waiters[i].attempt, attempt)) {
        return &waiters[i];
    }
    for (i = 0; i < at->waiter_count; i++) { /* who leaves need not know it */
        if (simba__attempt_equal(waiters[i].attempt, attempt)) {
            return &waiters[i];
        }
    }
    return NULL;
}

void simba__sql_waiter_forget(struct simba__sql *self,
                              const simba_request *asked)
{
    struct simba__sql_subscription *at =
        simba__sql_subscription_find(self, asked->mutex);
    struct simba__sql_waiter *waiter =
        find(at, asked->attempt, asked->position);

    if (waiter != NULL) {
        take_out(at, waiter);
        self->waiter_count--;
        drop(self, at);
    }
}

bool simba__sql_waiter_call(struct simba__sql *self,
                            const char *mutex,
                            simba_attempt attempt)
{
    struct simba__sql_waiter *waiter =
        find(simba__sql_subscription_find(self, mutex), attempt, 0);

    if (waiter != NULL) {
        waiter->must_ask = true;
    }
    return waiter != NULL;
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
    struct simba__sql_subscription *at =
        simba__sql_subscription_find(self, asked->mutex);
    struct simba__sql_waiter *waiter =
        find(at, asked->attempt, asked->position);
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
    int64_t now_ms = simba_loop_now_ms();
    bool was_foreign = at != NULL && at->is_foreign;
    bool is_other = at != NULL && !is_kept(at, asked->reply.owner.id);
    /* Whether one that waits before it still lives, no heartbeat tells. */
    bool looks_again = asked->slots > 1 && !asked->reply.is_head &&
                       asked->reply.wait_ms <= SIMBA__LOOK_AGAIN_MS;
    struct simba__sql_waiter waiter = {
        .attempt = asked->attempt,
        .position = asked->reply.position,
        .life_ms = asked->waiter_ms < UINT32_MAX ? (uint32_t)asked->waiter_ms
                                                 : UINT32_MAX,
        .lapses_ms =
            now_ms + simba__sql_change_life(&request->change, asked, record),
        .is_head = asked->reply.is_head,
        .must_ask = request->is_woken || looks_again};

    if (at == NULL || !simba__sql_keep_owner(self, at, &asked->reply.owner) ||
        !put_in(at, &waiter)) {
        if (at != NULL) {
            drop(self, at);
        }
        return; /* it asks for itself */
    }
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
    simba__sql_heartbeat_asked(self, &waiter, at);
}
