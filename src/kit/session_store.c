/* What a store with sessions and ordered keys does with requests: how they
 * come, how long they wait, and what follows from the replies of the servers.
 *
 *               PUT              first
 *   ABSENT ------------> PRESENT -----> mine
 *     ^  \                |  ^  \
 *     |   \ unanswered    |  |   \ behind somebody
 *     |    v              |  |    v
 *     |  DOUBTFUL --PUT---'  '-- LOOK, when woken or in case
 *     |                   |
 *     '------ REMOVE, vanished, session lost */
#define _GNU_SOURCE
#include <simba/sys/session_store.h>

#include "kit/deadline.h"
#include "kit/session_entries.h"
#include "util/container.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* So often a key does not vanish by accident; after an unanswered removal. */
enum { ROUNDS_MOST = 8, RETRY_MS = 500 };

/* --- replies to an acquire ----------------------------------------------- */

static void go(simba_entry *entry);
static void let_next_come(simba_session_mutex *mutex);
static void arm(simba_entry *entry);

static bool is_idle(const simba_entry *entry)
{
    return entry->acquire == NULL && entry->release == NULL &&
           entry->renewal == NULL;
}

/* An entry that is not there, of which nothing is asked, is forgotten; unless
 * its tenure was told, for then its end has to be told as well. */
static void tidy(simba_entry *entry)
{
    if (entry->mutex != NULL && is_idle(entry) &&
        entry->step == SIMBA_STEP_NONE && entry->state == SIMBA_KEY_ABSENT &&
        !entry->was_granted) {
        simba__session_forget(entry);
    }
}

static void complete(const simba_entry *entry,
                     simba_request **slot,
                     int status,
                     const char *why)
{
    simba_error error;

    simba_error_set(&error, status, 0, "%s: %s", entry->store->ops->name, why);
    simba__deadline_complete(slot, status, &error);
}

static void tell_owners(const simba_entry *entry, simba_reply *reply)
{
    reply->owner = simba_told_owner_read(entry->owner);
    reply->owned = entry->owned;
    reply->slots = entry->least;
    reply->slot = entry->slots != 0 ? SIMBA_NO_SLOT : 0;
}

static void refuse(simba_entry *entry, int64_t wait_ms)
{
    simba_reply *reply = &entry->acquire->reply;

    reply->is_queued = entry->state == SIMBA_KEY_PRESENT && !entry->is_leaving;
    reply->is_head = reply->is_queued && entry->is_head;
    reply->position = reply->is_queued ? entry->position : 0;
    reply->wait_ms = wait_ms > 0 ? wait_ms : entry->lease_ms;
    tell_owners(entry, reply);
    /* Thousands may wait: they keep no owner, and the mutex does only for those
     * whom a look of another will answer. */
    simba__session_tell(&entry->owner, NULL);
    if (entry->mutex->entries == entry->mutex->last) {
        simba__session_tell(&entry->mutex->owner, NULL);
    }
    simba__deadline_complete(&entry->acquire, SIMBA_OK, NULL);
}

static void answer_mine(simba_entry *entry,
                        simba_request **slot,
                        int64_t since_ms,
                        int64_t lease_ms)
{
    simba_reply *reply = &(*slot)->reply;

    entry->was_granted = true;
    entry->lapses_ms = since_ms + entry->lease_ms;
    reply->mine = true;
    reply->token = entry->token;
    reply->lease_ms = lease_ms;
    tell_owners(entry, reply);
    simba__deadline_complete(slot, SIMBA_OK, NULL);
}

/* The first owns, if that is certain for long enough to work with. */
static void grant(simba_entry *entry)
{
    simba_session_mutex *mutex = entry->mutex; /* is held: simba_entry_done() */
    int64_t wait_ms = 1;
    int64_t lease_ms =
        entry->store->ops->lease_ms(entry, entry->asked_ms, &wait_ms);

    assert(entry->state == SIMBA_KEY_PRESENT && !entry->is_leaving);
    assert(entry->token != 0);
    entry->confirmed_ms = 0; /* nobody stands before it any more */
    if (lease_ms <= 0) {
        entry->is_head = true;
        /* nobody can have it but us */
        simba__session_tell(&entry->owner, NULL);
        refuse(entry, wait_ms > 1 ? wait_ms : 1);
    } else {
        entry->is_unwatched = false;
        answer_mine(entry, &entry->acquire, entry->asked_ms, lease_ms);
        if (entry->slots != 0) { /* there may be room for more */
            simba__session_wake_next(mutex);
        }
    }
}

/* The key is gone, whatever removed it; or the servers do not let us. */
static void has_left(simba_entry *entry, int status, const simba_error *error)
{
    simba_session_mutex *mutex = entry->mutex;

    entry->state = SIMBA_KEY_ABSENT;
    entry->was_granted = entry->is_doubted = false;
    mutex->holds++;
    if (entry->acquire != NULL) {
        refuse(entry, entry->wait_ms);
    }
    simba__deadline_complete(&entry->release, status, error);
    simba__session_wake_next(mutex);
    tidy(entry);
    let_next_come(mutex);
    mutex->holds--;
    simba_session_mutex_tidy(entry->store, mutex);
}

/* --- one look for all ---------------------------------------------------- */

/* Those in the queue ask now and then whether a wake-up was lost. One of them
 * looks, and while that is fresh, the others who stand as before are answered
 * by what it has seen: a thousand looks at a thousand keys each would be a
 * million. */
enum backstop { LOOKS, WAITS, IS_CONFIRMED };

static enum backstop backstop(simba_entry *entry)
{
    simba_session_mutex *mutex = entry->mutex;

    if (!entry->acquire->join || !simba__session_is_waiting(entry) ||
        (!entry->acquire->is_backstop &&
         !simba__session_is_behind_ours(entry))) {
        return LOOKS;
    }
    if (mutex->looker != NULL && mutex->looker != entry) {
        return WAITS;
    }
    if (entry->confirmed_ms != 0 && mutex->owner != NULL &&
        simba_loop_now_ms() - entry->confirmed_ms < entry->store->fresh_ms) {
        simba__session_tell(&entry->owner, mutex->owner);
        return IS_CONFIRMED;
    }
    mutex->looker = entry;
    return LOOKS;
}

static void end_look(simba_entry *entry, simba_session_mutex *mutex)
{
    if (mutex->looker == entry) {
        mutex->looker = NULL;
        simba__session_each(entry->store, mutex, go);
    }
}

void simba_session_confirm(simba_session_mutex *mutex,
                           bool (*stands)(const simba_entry *entry, void *with),
                           void *with)
{
    for (simba_entry *e = mutex->entries; e != NULL; e = e->next) {
        if (simba__session_is_waiting(e)) {
            bool is_there = stands(e, with);

            e->confirmed_ms = is_there ? simba_loop_now_ms() : 0;
            if (!is_there) { /* those who wait have lost none yet */
                simba_entry_unwatched(e);
            }
        }
    }
}

/* --- steps --------------------------------------------------------------- */

static void start(simba_entry *entry, enum simba_entry_step step)
{
    const simba_session_ops *ops = entry->store->ops;

    assert(entry->step == SIMBA_STEP_NONE);
    entry->step = step;
    entry->wait_ms = 0;
    (step == SIMBA_STEP_PUT    ? ops->put
     : step == SIMBA_STEP_LOOK ? ops->look
                               : ops->remove)(entry);
}

/* Without a session nobody can come, and so nobody is passed. */
static void let_next_come(simba_session_mutex *mutex)
{
    simba_session_store *self = mutex->store;
    simba_entry *next = self->ops->is_ready(self)
                            ? simba__session_first(mutex, SIMBA__ENTRY_COMING)
                            : NULL;
    const simba_entry *last = mutex->last;

    if (next != NULL && next != last && simba__session_is_coming(last) &&
        last->step == SIMBA_STEP_NONE && simba__session_come_together(mutex)) {
        simba__session_each(self, mutex, go);
    } else if (next != NULL) {
        go(next);
    }
}

/* Goes on, if there is something to do and nothing under way. */
static void go(simba_entry *entry)
{
    const simba_session_ops *ops = entry->store->ops;

    if (entry->step != SIMBA_STEP_NONE) {
        return;
    }
    if (entry->is_leaving && entry->state == SIMBA_KEY_ABSENT) {
        has_left(entry, SIMBA_OK, NULL);
        return;
    }
    /* Somebody comes back to it: simba_session_ready(), let_next_come(). */
    if (!ops->is_ready(entry->store) ||
        (!entry->is_leaving &&
         (entry->acquire == NULL || simba__session_has_to_let_come(entry)))) {
        return;
    }
    if (entry->is_leaving) {
        start(entry, SIMBA_STEP_REMOVE);
    } else if (++entry->rounds > ROUNDS_MOST) {
        complete(entry, &entry->acquire, SIMBA_EUNAVAIL,
                 "its key vanishes again and again");
        tidy(entry);
    } else if (entry->state != SIMBA_KEY_PRESENT) {
        start(entry, SIMBA_STEP_PUT);
    } else {
        enum backstop answer = backstop(entry);

        if (answer == LOOKS) {
            start(entry, SIMBA_STEP_LOOK);
        } else if (answer == IS_CONFIRMED) {
            refuse(entry, 0);
        }
    }
}

/* There is no key now; what was not answered may yet put one. */
static void set_absent(simba_entry *entry)
{
    entry->state = entry->is_doubted ? SIMBA_KEY_DOUBTFUL : SIMBA_KEY_ABSENT;
}

/* What follows from a put or a look that was answered. */
static void take_standing(simba_entry *entry, enum simba_standing standing)
{
    set_absent(entry);
    if (standing == SIMBA_STANDS_FIRST || standing == SIMBA_STANDS_BEHIND) {
        entry->state = SIMBA_KEY_PRESENT;
    }
    if (entry->state == SIMBA_KEY_PRESENT) {
        simba__session_place(entry);
    }
    entry->was_granted &= standing == SIMBA_STANDS_FIRST;
    if (entry->is_leaving) {
        go(entry);
        return;
    }
    if (entry->acquire == NULL) {
        tidy(entry);
        return;
    }
    switch (standing) {
    case SIMBA_STANDS_FIRST:
        grant(entry);
        break;
    case SIMBA_STANDS_BEHIND:
        entry->confirmed_ms =
            simba__session_is_behind_ours(entry) ? simba_loop_now_ms() : 0;
        if (entry->acquire->join) {
            refuse(entry, entry->wait_ms);
        } else {
            entry->is_leaving = true; /* answered when the key is gone */
            go(entry);
        }
        break;
    case SIMBA_STANDS_NOWHERE:
        refuse(entry, entry->wait_ms);
        tidy(entry);
        break;
    case SIMBA_STANDS_VANISHED:
        go(entry);
        break;
    }
}

/* One that surely failed left no key, unless it says otherwise; what is unknown
 * stays in doubt until the next step. */
static void take_failure(simba_entry *entry,
                         enum simba_entry_step step,
                         int status,
                         const simba_error *error)
{
    if (status == SIMBA_EUNKNOWN) {
        entry->is_doubted = true;
        if (step == SIMBA_STEP_PUT && entry->state == SIMBA_KEY_ABSENT) {
            entry->state = SIMBA_KEY_DOUBTFUL;
        }
        simba__deadline_complete(&entry->acquire, status, error);
        if (entry->is_leaving && step == SIMBA_STEP_REMOVE) {
            arm(entry);
        } else if (entry->is_leaving) {
            go(entry);
        }
    } else if (step == SIMBA_STEP_REMOVE &&
               (status == SIMBA_EUNAVAIL || status == SIMBA_ENOMEM)) {
        simba__deadline_complete(&entry->acquire, status, error);
        simba__deadline_complete(&entry->release, status, error);
        arm(entry); /* it is still there */
    } else if (step == SIMBA_STEP_REMOVE) {
        has_left(entry, status, error);
    } else {
        simba__deadline_complete(&entry->acquire, status, error);
        if (entry->is_leaving) {
            go(entry);
        } else {
            tidy(entry);
        }
    }
}

void simba_entry_done(simba_entry *entry,
                      int status,
                      const simba_error *error,
                      enum simba_standing standing)
{
    enum simba_entry_step step = entry->step;
    simba_session_mutex *mutex = entry->mutex;
    bool was_looker;

    assert(step != SIMBA_STEP_NONE || mutex == NULL);
    entry->step = SIMBA_STEP_NONE;
    if (mutex == NULL) {
        return;
    }
    simba_entry_hold(entry);
    mutex->holds++; /* the entry may be forgotten while others wait in there */
    was_looker = mutex->looker == entry && step == SIMBA_STEP_LOOK;
    if (status == SIMBA_OK && step == SIMBA_STEP_REMOVE) {
        has_left(entry, SIMBA_OK, NULL);
    } else if (status == SIMBA_OK) {
        take_standing(entry, standing);
    } else {
        if (standing == SIMBA_STANDS_BEHIND && status != SIMBA_EUNKNOWN) {
            entry->is_leaving = true;
        }
        take_failure(entry, step, status, error);
    }
    if (was_looker) {
        end_look(entry, mutex);
    }
    let_next_come(mutex);
    mutex->holds--;
    simba_session_mutex_tidy(entry->store, mutex);
    simba_entry_drop(entry);
}

void simba_entry_vanished(simba_entry *entry)
{
    if (entry->mutex != NULL && !entry->is_leaving &&
        entry->state == SIMBA_KEY_PRESENT) {
        set_absent(entry);
        simba_wake(entry->store->base.loop,
                   simba_session_mutex_name(entry->mutex));
    }
}

/* --- renewals ------------------------------------------------------------ */

static void queue_renewal(simba_entry *entry)
{
    simba_session_store *self = entry->store;

    if (!entry->is_renewal_queued) {
        if (self->renewals == NULL) {
            self->last_renewal = &self->renewals;
        }
        entry->is_renewal_queued = true;
        simba_entry_hold(entry);
        entry->next_renewal = NULL;
        *self->last_renewal = entry;
        self->last_renewal = &entry->next_renewal;
    }
}

static void end_renewing(simba_session_store *self)
{
    for (int i = 0; i < self->renewing_count; i++) {
        simba_entry_drop(self->renewing[i]);
    }
    free(self->renewing);
    self->renewing = NULL;
    self->renewing_count = 0;
    simba__session_cancel(&self->exchange);
}

/* One write for all renewals that have come since the last. */
static void send_renewals(simba_session_store *self)
{
    int room = self->ops->renew_most, count = 0;
    simba_entry *entry;

    if (self->renewing != NULL || self->renewals == NULL ||
        !self->ops->is_ready(self)) {
        return;
    }
    self->renewing = calloc((size_t)room, sizeof(simba_entry *));
    while (self->renewing != NULL && count < room &&
           (entry = self->renewals) != NULL) {
        self->renewals = entry->next_renewal;
        entry->is_renewal_queued = false;
        if (entry->renewal != NULL && entry->mutex != NULL) {
            self->renewing[count++] = entry; /* with its hold */
        } else {
            simba_entry_drop(entry);
        }
    }
    self->renewing_count = count;
    if (count > 0) {
        self->ops->renew(self, self->renewing, count);
    } else {
        end_renewing(self);
    }
}

static void refuse_renewal(simba_entry *entry)
{
    simba_request *request = entry->renewal;

    assert(request != NULL);
    entry->renewal = NULL;
    entry->was_granted = false;
    tidy(entry);
    simba_request_done(request, SIMBA_OK, NULL);
}

void simba_entry_renewed(simba_entry *entry,
                         int status,
                         const simba_error *error,
                         bool is_mine)
{
    int64_t wait_ms, lease_ms;

    if (entry->mutex == NULL || entry->renewal == NULL) {
        /* answered already, or given up */
    } else if (status == SIMBA_EBUSY) {
        queue_renewal(entry);
    } else if (status != SIMBA_OK) {
        simba__deadline_complete(&entry->renewal, status, error);
    } else if (!is_mine) {
        set_absent(entry);
        refuse_renewal(entry);
    } else {
        lease_ms =
            entry->store->ops->lease_ms(entry, entry->asked_ms, &wait_ms);
        answer_mine(entry, &entry->renewal, entry->asked_ms,
                    lease_ms > 0 ? lease_ms : 1);
    }
}

void simba_session_renewed(simba_session_store *self)
{
    end_renewing(self);
    send_renewals(self);
}

/* --- deadlines ----------------------------------------------------------- */

/* How long an acquire waits: to its deadline, but not so long for the first
 * answer of all. Who has never been answered most likely has the wrong address,
 * and who asks wants to know. */
static int64_t acquire_until_ms(const simba_entry *entry)
{
    const simba_session_store *self = entry->store;
    int64_t first_ms = entry->asked_ms + self->first_ms;

    if (entry->acquire == NULL) {
        return INT64_MAX;
    }
    return self->was_ready || self->first_ms == 0 ||
                   entry->acquire->deadline_ms < first_ms
               ? entry->acquire->deadline_ms
               : first_ms;
}

static void on_deadline(simba_timer *timer)
{
    simba_entry *entry = container_of(timer, simba_entry, deadline);
    bool is_unsent = entry->step == SIMBA_STEP_NONE &&
                     entry->state == SIMBA_KEY_ABSENT; /* had no effect */
    const char *name = entry->store->ops->name;
    simba_session_mutex *mutex = entry->mutex;
    simba_error error;

    simba_entry_hold(entry);
    mutex->holds++;
    if (is_unsent && acquire_until_ms(entry) <= simba_loop_now_ms()) {
        int status = entry->store->ops->unready(entry->store, &error);

        simba__deadline_complete(&entry->acquire, status, &error);
    }
    simba__deadline_expire(&entry->acquire, name, "");
    simba__deadline_expire(&entry->renewal, name, "");
    simba__deadline_expire(&entry->release, name, "");
    tidy(entry);
    /* The key of a living session does not vanish by itself: that of a tenure
     * which nobody renews, or of a waiter which nobody asks for, is removed. */
    entry->is_leaving |= entry->mutex != NULL && is_idle(entry) &&
                         entry->lapses_ms <= simba_loop_now_ms();
    if (entry->mutex != NULL && entry->is_leaving) {
        go(entry);
    }
    if (entry->mutex != NULL) {
        arm(entry);
    }
    let_next_come(mutex);
    mutex->holds--;
    simba_session_mutex_tidy(entry->store, mutex);
    simba_entry_drop(entry);
}

/* Sets the timer for the earliest deadline of its requests. */
static void arm(simba_entry *entry)
{
    bool lapses = is_idle(entry) && entry->state != SIMBA_KEY_ABSENT &&
                  !entry->is_leaving;
    int64_t at_ms = lapses ? entry->lapses_ms : acquire_until_ms(entry);

    if (entry->renewal != NULL && entry->renewal->deadline_ms < at_ms) {
        at_ms = entry->renewal->deadline_ms;
    }
    if (entry->release != NULL && entry->release->deadline_ms < at_ms) {
        at_ms = entry->release->deadline_ms;
    }
    if (entry->is_leaving && entry->step == SIMBA_STEP_NONE &&
        at_ms > simba_loop_now_ms() + RETRY_MS) {
        at_ms = simba_loop_now_ms() + RETRY_MS;
    }
    entry->deadline.fire = on_deadline;
    simba_timer_set(entry->store->base.loop, &entry->deadline, at_ms);
}

/* --- requests ------------------------------------------------------------ */

static void acquire(simba_session_store *self, simba_request *request)
{
    simba_entry *entry;
    simba_error error;
    int rc = self->ops->want(self, request, &error);

    if (rc != SIMBA_OK || simba__session_is_entombed(self, request->attempt)) {
        simba_request_done(request, rc, rc == SIMBA_OK ? NULL : &error);
        return;
    }
    entry = simba__session_entry(self, request);
    if (entry == NULL) {
        simba_error_set(&error, SIMBA_ENOMEM, 0, "%s: no memory",
                        self->ops->name);
        simba_request_done(request, SIMBA_ENOMEM, &error);
        return;
    }
    simba_entry_hold(entry);
    complete(entry, &entry->acquire, SIMBA_EUNKNOWN, "no answer in time");
    complete(entry, &entry->renewal, SIMBA_EUNKNOWN, "no answer in time");
    if (entry->is_leaving) {
        simba_request_done(request, SIMBA_OK, NULL); /* this attempt is over */
    } else if (entry->acquire != NULL) {
        /* Who was told came again from within: that one is the newer. */
        simba_request_done(request, SIMBA_EUNKNOWN, NULL);
    } else {
        int64_t lease_ms = request->ttl_ms + request->transition_ms;

        entry->acquire = request;
        entry->asked_ms = simba_loop_now_ms();
        entry->lease_ms = lease_ms;
        entry->lapses_ms =
            entry->asked_ms +
            (request->waiter_ms > lease_ms ? request->waiter_ms : lease_ms);
        entry->rounds = 0;
        simba__session_come(entry);
        arm(entry);
        go(entry);
        if (entry->mutex != NULL) {
            arm(entry);
        }
    }
    simba_entry_drop(entry);
}

static void renew(simba_session_store *self, simba_request *request)
{
    simba_entry *entry = simba__session_find(self, request);
    simba_request *earlier, *acquire;

    if (entry == NULL || entry->is_leaving || !entry->was_granted) {
        simba_request_done(request, SIMBA_OK, NULL);
        return;
    }
    earlier = entry->renewal;
    acquire = entry->acquire;
    entry->renewal = request;
    entry->acquire = NULL;
    entry->asked_ms = simba_loop_now_ms();
    /* In doubt it is when its session has ended: nobody watches that one. */
    if (entry->state != SIMBA_KEY_PRESENT) {
        refuse_renewal(entry);
    } else {
        arm(entry);
        queue_renewal(entry);
        send_renewals(self);
    }
    simba__deadline_complete(&earlier, SIMBA_EUNKNOWN, NULL);
    simba__deadline_complete(&acquire, SIMBA_EUNKNOWN, NULL);
}

/* The end of an attempt: of its position in the queue, and with a release also
 * of its tenure. Once it has begun it goes on until the key is gone, however
 * long the request waits: that of a living session does not vanish by itself.
 */
static void release(simba_session_store *self, simba_request *request)
{
    simba_entry *entry = simba__session_find(self, request);

    simba__session_entomb(self, request);
    if (entry == NULL || (request->kind == SIMBA_LEAVE && entry->was_granted)) {
        simba_request_done(request, SIMBA_OK, NULL);
        return;
    }
    simba_entry_hold(entry);
    entry->is_leaving = true;
    complete(entry, &entry->acquire, SIMBA_EUNKNOWN, "no answer in time");
    complete(entry, &entry->renewal, SIMBA_EUNKNOWN, "no answer in time");
    complete(entry, &entry->release, SIMBA_EUNKNOWN, "no answer in time");
    if (entry->release != NULL) {
        /* Who was told came again from within: that one is the newer. */
        simba_request_done(request, SIMBA_EUNKNOWN, NULL);
    } else {
        entry->release = request;
        arm(entry);
        go(entry);
    }
    simba_entry_drop(entry);
}

void simba_session_submit(simba_backend *base, simba_request *request)
{
    simba_session_store *self = (simba_session_store *)base;

    switch (request->kind) {
    case SIMBA_NO_REQUEST:
        break;
    case SIMBA_ACQUIRE:
        acquire(self, request);
        break;
    case SIMBA_RENEW:
        renew(self, request);
        break;
    case SIMBA_RELEASE:
    case SIMBA_LEAVE:
        release(self, request);
        break;
    case SIMBA_CLOSE:
        if (self->ops->close_session != NULL) {
            self->ops->close_session(self, request);
        } else {
            simba_request_done(request, SIMBA_OK, NULL);
        }
        break;
    default:
        self->ops->admin(self, request);
        break;
    }
}

/* --- the session --------------------------------------------------------- */

void simba_session_ready(simba_session_store *self)
{
    self->was_ready = true;
    simba__session_each(self, NULL, go);
    send_renewals(self);
}

static void fail_unsent(simba_entry *entry)
{
    simba_error error;

    if (entry->step == SIMBA_STEP_NONE && entry->state == SIMBA_KEY_ABSENT &&
        entry->acquire != NULL) {
        simba__deadline_complete(
            &entry->acquire, entry->store->ops->unready(entry->store, &error),
            &error);
        tidy(entry);
    }
}

void simba_session_failed(simba_session_store *self)
{
    simba__session_each(self, NULL, fail_unsent);
}

/* If it was to leave, it has left. Its step is the author's to forget. */
static void lose(simba_entry *entry)
{
    bool is_lasting = entry->store->ops->is_tenure_lasting &&
                      (entry->was_granted || entry->token != 0);

    simba__session_cancel(&entry->exchange);
    entry->step = SIMBA_STEP_NONE;
    entry->state = is_lasting ? SIMBA_KEY_DOUBTFUL : SIMBA_KEY_ABSENT;
    entry->confirmed_ms = 0;
    entry->is_doubted = false; /* what comes late finds the session over */
    if (entry->renewal != NULL) {
        refuse_renewal(entry);
    } else {
        go(entry);
    }
}

void simba_session_lost(simba_session_store *self)
{
    simba_session_mutex *mutex = NULL;

    while ((mutex = simba_session_mutex_next(self, mutex)) != NULL) {
        mutex->looker = NULL;
        simba__session_displace(mutex);
    }
    end_renewing(self);
    simba__session_each(self, NULL, lose);
    simba_wake(self->base.loop, NULL);
}

/* Requests that nobody waits for any more may still be open. */
static void give_up(simba_entry *entry)
{
    static const char why[] = "the store is closed";

    entry->step = SIMBA_STEP_NONE;
    complete(entry, &entry->acquire, SIMBA_EUNKNOWN, why);
    complete(entry, &entry->renewal, SIMBA_EUNKNOWN, why);
    complete(entry, &entry->release, SIMBA_EUNKNOWN, why);
    simba__session_forget(entry);
}

void simba_session_fini(simba_session_store *self)
{
    simba_session_mutex *mutex;
    simba_entry *entry;

    end_renewing(self);
    simba__session_each(self, NULL, give_up);
    while ((entry = self->renewals) != NULL) {
        self->renewals = entry->next_renewal;
        simba_entry_drop(entry);
    }
    while ((mutex = simba_session_mutex_next(self, NULL)) != NULL) {
        if (mutex->is_observed && self->ops->observe != NULL) {
            mutex->is_observed = false;
            self->ops->observe(mutex);
        }
        mutex->is_observed = false;
        mutex->holds = 0;
        simba_session_mutex_tidy(self, mutex);
    }
    simba__session_entries_fini(self);
}
