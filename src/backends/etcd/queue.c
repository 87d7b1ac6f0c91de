/* Who waits: where it stands in the queue, and what it watches. Each watches
 * the one before it, those near the first the owner, and the first the owner's
 * heartbeat; README.md tells why. Observers watch the owner, too. */
#define _GNU_SOURCE
#include "backends/etcd/etcd.h"

#include "util/container.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NEAR = 8 }; /* so many watch the owner, and evict who is silent */

typedef simba__etcd_entry entry_t;

static void wake(const simba__etcd_mutex *mutex)
{
    simba_wake(mutex->base.store->base.loop,
               simba_session_mutex_name(&mutex->base));
}

/* It is free for longer than the first has time to come (S10). */
bool simba__etcd_is_overdue(const simba__etcd_mutex *mutex)
{
    return mutex->free_ms != 0 &&
           simba_loop_now_ms() - mutex->free_ms >= SIMBA__OFFER_MS;
}

static void set_create(entry_t *e, int64_t create)
{
    simba__etcd_mutex_of(e)->waiting +=
        (create != 0) - (simba__etcd_create_of(e) != 0);
    e->base.position = (uint64_t)create;
}

static void set_head(entry_t *e, bool is_head)
{
    simba__etcd_mutex *mutex = simba__etcd_mutex_of(e);

    e->base.is_head = is_head;
    if (is_head || mutex->head == e) {
        mutex->head = is_head ? e : NULL;
    }
}

/* --- heartbeats ---------------------------------------------------------- */

static void on_beat(simba__etcd_watch *watch, const simba__etcd_kv *kv)
{
    simba__etcd_beat *beat = container_of(watch, simba__etcd_beat, watch);

    if (kv->mod != 0) {
        beat->beat = kv->is_gone ? 0 : kv->mod;
        beat->told_ms = simba_loop_now_ms();
    }
}

static simba__etcd_txn beat_names(const simba__etcd_watch *watch)
{
    const simba__etcd_beat *beat = container_of(watch, simba__etcd_beat, watch);

    return (simba__etcd_txn){.self = beat->self, .session = beat->session};
}

static const simba__etcd_watch_kind beats = {on_beat, beat_names, 'S'};

static simba__etcd_beat *beat_of(simba__etcd *self, int64_t session)
{
    simba__etcd_beat *beat;
    char name[24];

    snprintf(name, sizeof name, "%" PRIx64, (uint64_t)session);
    beat = (simba__etcd_beat *)simba__hash_find(&self->beats, name);
    if (beat == NULL) {
        beat = simba__hash_new(&self->beats, sizeof *beat, name);
    }
    if (beat != NULL) {
        beat->self = self;
        beat->session = session;
    }
    return beat;
}

/* Watch the heartbeat of this session for a mutex; 0: none. False: no memory.
 */
static bool watch_beat(simba__etcd_mutex *mutex, int64_t session)
{
    simba__etcd *self = SIMBA__ETCD(mutex->base.store);
    simba__etcd_beat *former = mutex->beat;

    mutex->beat = session == 0 ? NULL : beat_of(self, session);
    if (mutex->beat != NULL) {
        mutex->beat->users++;
    }
    if (former != NULL && --former->users == 0) {
        simba__etcd_watch_clear(self, &former->watch);
        simba__hash_remove(&self->beats, &former->by_session);
        free(former);
    }
    return session == 0 || (mutex->beat != NULL &&
                            simba__etcd_watch_set(self, &mutex->beat->watch,
                                                  &beats) != NOT_SET);
}

/* Its heartbeat is as it was told since then, if nothing was seen later. */
void simba__etcd_note_sighting(entry_t *e, int64_t mod)
{
    const simba__etcd_owner *owner = &e->step->owner;
    simba__etcd_mutex *mutex = simba__etcd_mutex_of(e);
    simba_sighting *sighting = &mutex->sighting;
    const simba__etcd_beat *beat = mutex->beat;

    if (beat != NULL && beat->session == (int64_t)owner->session &&
        beat->told_ms > sighting->since_ms) {
        simba_sighting_note(sighting, sighting->owner, beat->beat,
                            beat->told_ms);
    }
    simba_sighting_note(sighting, owner->mod, owner->is_broken ? 0 : mod,
                        simba_loop_now_ms());
}

/* --- leaving the queue --------------------------------------------------- */

void simba__etcd_clear_before(entry_t *e)
{
    if (e->before != NULL) {
        simba__etcd_watch_clear(simba__etcd_of(e), &e->before->watch);
        free(e->before);
        e->before = NULL;
    }
}

static void clear_first(simba__etcd_mutex *mutex)
{
    if (mutex->first != NULL) {
        simba_timer_clear(mutex->base.store->base.loop,
                          &mutex->first->evicting);
        free(mutex->first);
        mutex->first = NULL;
    }
}

/* Not in the queue any more. */
void simba__etcd_leave_queue(entry_t *e)
{
    simba__etcd_mutex *mutex = simba__etcd_mutex_of(e);

    simba__etcd_clear_before(e);
    e->is_joined &= e->base.is_doubted;
    set_create(e, 0);
    set_head(e, false);
    e->ahead = 0;
    e->has_order = false;
    if (mutex->waiting == 0) {
        if (!mutex->base.is_observed) {
            simba__etcd_watch_clear(simba__etcd_of(e), &mutex->owner);
        }
        watch_beat(mutex, 0);
        clear_first(mutex);
        mutex->free_ms = mutex->freed_mod = 0;
    }
}

/* --- watching ------------------------------------------------------------ */

/* Has something happened since its last reply, before it was watched? What
 * happens after a watch is confirmed is told, and what is not confirmed yet
 * comes back to this. On the heartbeat it does not matter: what was missed is
 * seen by the look that comes when the lease seems over. */
static bool has_missed(const entry_t *e)
{
    return (e->before != NULL &&
            e->before->watch.sure_revision > e->revision) ||
           simba__etcd_mutex_of(e)->owner.sure_revision > e->revision;
}

static bool is_waiting(const entry_t *e)
{
    return simba__etcd_create_of(e) != 0 && e->base.step == SIMBA_STEP_NONE;
}

static void on_before(simba__etcd_watch *watch, const simba__etcd_kv *kv)
{
    simba__etcd_before *before = container_of(watch, simba__etcd_before, watch);
    entry_t *e = before->entry;

    if (kv->is_gone) { /* or it is set again after a gap */
        before->gone = kv->mod;
    }
    /* If it has changed only, it is we who are offered the mutex. */
    if (kv->is_gone || kv->mod != 0 || (is_waiting(e) && has_missed(e))) {
        simba_entry_unwatched(&e->base);
        wake(simba__etcd_mutex_of(e));
    }
}

static simba__etcd_txn before_names(const simba__etcd_watch *watch)
{
    const simba__etcd_before *before =
        container_of(watch, simba__etcd_before, watch);
    simba__etcd_txn names =
        simba__etcd_names(simba__etcd_mutex_of(before->entry));

    names.before = before->who;
    return names;
}

static const simba__etcd_watch_kind befores = {on_before, before_names, 'p'};

static void on_evicting(simba_timer *timer)
{
    wake(container_of(timer, simba__etcd_first, evicting)->mutex);
}

/* NULL: no memory, and nobody is evicted. */
static simba__etcd_first *first_of(simba__etcd_mutex *mutex)
{
    if (mutex->first == NULL) {
        mutex->first = calloc(1, sizeof *mutex->first);
    }
    if (mutex->first != NULL) {
        mutex->first->mutex = mutex;
        mutex->first->evicting.fire = on_evicting;
    }
    return mutex->first;
}

/* A free mutex is the first's for its time, and then somebody near looks
 * whether that has come (S10). It is evicted by whoever has seen it there so
 * long. */
static void await_first(simba__etcd_mutex *mutex)
{
    simba__etcd_first *first =
        mutex->free_ms != 0 ? first_of(mutex) : mutex->first;
    int64_t now_ms = simba_loop_now_ms(), at_ms = mutex->free_ms;

    if (first == NULL) {
        return;
    }
    at_ms = (first->since_ms > at_ms ? first->since_ms : at_ms);
    at_ms = at_ms + SIMBA__OFFER_MS > now_ms ? at_ms + SIMBA__OFFER_MS
                                             : now_ms + SIMBA__OFFER_MS;
    simba_timer_set(mutex->base.store->base.loop, &first->evicting,
                    mutex->free_ms != 0 ? at_ms : INT64_MAX);
}

/* Who is named takes what it was told of, without a look; or with one, if there
 * is no memory to keep it. */
static bool note_offer(const simba__etcd_mutex *mutex,
                       const simba__etcd_owner *owner)
{
    entry_t *one = (entry_t *)mutex->base.entries;

    while (one != NULL &&
           !(is_waiting(one) && simba__etcd_is_offered(one, owner))) {
        one = (entry_t *)one->base.next;
    }
    if (one != NULL && one->step == NULL) {
        one->step = calloc(1, sizeof *one->step);
    }
    if (one != NULL && one->step != NULL) {
        one->step->owner = *owner;
    }
    if (one != NULL) {
        simba_entry_unwatched(&one->base);
    }
    return one != NULL;
}

/* Each change of owner comes by itself, in order; after a gap they look. */
static void tell_observers(simba__etcd_mutex *mutex,
                           const simba__etcd_kv *kv,
                           const simba__etcd_owner *owner)
{
    bool is_known = kv->mod != 0 && mutex->observed != 0 && !owner->is_crowd;
    simba_owner told = simba__etcd_owner_told(owner);

    if (owner->is_there && owner->token == mutex->observed &&
        !owner->is_crowd) {
        return; /* asked again, or broken */
    }
    simba_observed(mutex->base.store->base.loop,
                   simba_session_mutex_name(&mutex->base),
                   is_known ? &told : NULL, is_known ? mutex->observed : 0);
    if (owner->is_there) {
        mutex->observed = owner->token;
    }
}

/* The first asks, or when its step is done: wait(). */
static void wake_waiters(simba__etcd_mutex *mutex,
                         const simba__etcd_kv *kv,
                         const simba__etcd_owner *owner)
{
    bool is_missed = kv->is_gone;

    if (kv->mod != 0) {
        /* Free, or an offer, or there may be room: who looked before that is
         * told by wait(). */
        mutex->free_ms = kv->is_gone ? simba_loop_now_ms() : 0;
        mutex->freed_mod =
            kv->is_gone || owner->is_crowd || owner->is_broken ? kv->mod : 0;
        if (!kv->is_gone) {
            mutex->session = owner->session;
        }
        await_first(mutex);
        is_missed = (simba__etcd_is_offer(owner) && note_offer(mutex, owner)) ||
                    (mutex->head != NULL && is_waiting(mutex->head));
    } else {
        mutex->free_ms = mutex->freed_mod = 0;
        for (simba_entry *e = mutex->base.entries; e != NULL; e = e->next) {
            is_missed |=
                is_waiting((entry_t *)e) &&
                (has_missed((entry_t *)e) || !((entry_t *)e)->is_owned);
        }
    }
    if (is_missed) {
        wake(mutex);
    }
}

static void on_owner(simba__etcd_watch *watch, const simba__etcd_kv *kv)
{
    simba__etcd_mutex *mutex = container_of(watch, simba__etcd_mutex, owner);
    simba__etcd_owner owner = {0};

    if (!kv->is_gone) {
        owner = simba__etcd_owner_read(kv);
    }
    if (mutex->waiting > 0) {
        wake_waiters(mutex, kv, &owner);
    }
    if (mutex->base.is_observed) {
        tell_observers(mutex, kv, &owner);
    }
}

static simba__etcd_txn owner_names(const simba__etcd_watch *watch)
{
    return simba__etcd_names(container_of(watch, simba__etcd_mutex, owner));
}

static const simba__etcd_watch_kind owners = {on_owner, owner_names, 'o'};

enum simba__etcd_set simba__etcd_watch_owner(entry_t *e)
{
    return simba__etcd_watch_set(simba__etcd_of(e),
                                 &simba__etcd_mutex_of(e)->owner, &owners);
}

/* Watched anew, for observers are told when it is confirmed. */
void simba__etcd_observe(simba_session_mutex *base)
{
    simba__etcd_mutex *mutex = (simba__etcd_mutex *)base;
    simba__etcd *self = SIMBA__ETCD(base->store);

    simba__etcd_watch_clear(self, &mutex->owner);
    mutex->owner.is_history = base->is_observed;
    mutex->observed = 0;
    if ((base->is_observed || mutex->waiting > 0) &&
        simba__etcd_watch_set(self, &mutex->owner, &owners) == NOT_SET) {
        simba__log(&self->log, SIMBA_LOG_WARN,
                   "no memory to watch \"%s\": its observers look now and then",
                   simba_session_mutex_name(base));
    }
}

/* Watch what has to be watched. IS_SET: something is only now, or was missed,
 * so that it has to look once more. */
enum simba__etcd_set simba__etcd_watch_queue(entry_t *e)
{
    simba__etcd_mutex *mutex = simba__etcd_mutex_of(e);
    const simba__etcd_owner *seen = &e->step->owner;
    bool has_beat =
        seen->is_there && !seen->is_broken && e->step->crowd_mod == 0;
    enum simba__etcd_set before = WAS_SET, owner = WAS_SET;
    bool is_beat_watched = true;

    if (e->before != NULL) {
        before = simba__etcd_watch_set(simba__etcd_of(e), &e->before->watch,
                                       &befores);
    }
    if (e->ahead < NEAR || e->base.is_head || !seen->is_there) {
        owner = simba__etcd_watch_owner(e);
    }
    if (e->base.is_head) {
        is_beat_watched =
            watch_beat(mutex, has_beat ? (int64_t)seen->session : 0);
    } else {
        await_first(mutex);
    }
    return before == IS_SET || owner == IS_SET || has_missed(e) ? IS_SET
           : before == NOT_SET || owner == NOT_SET || !is_beat_watched
               ? NOT_SET
               : WAS_SET;
}

/* --- what was seen of it ------------------------------------------------- */

/* One whose name nobody can read is not watched. Without memory the order is
 * asked for again. */
static void set_before(entry_t *e,
                       const char *name,
                       const simba__etcd_owner *who,
                       int64_t create)
{
    simba__etcd_waiter waiter = simba__etcd_waiter_read(name);

    if (e->before != NULL && (e->before->who.session != waiter.session ||
                              e->before->who.number != waiter.number)) {
        simba__etcd_clear_before(e);
    }
    if (e->before == NULL && waiter.session != 0) {
        e->before = calloc(1, sizeof *e->before);
    }
    e->has_order = e->before != NULL || waiter.session == 0;
    if (e->before != NULL) {
        e->before->entry = e;
        e->before->who = waiter;
        e->before->create = create;
        e->before->attempt = who->attempt;
        e->before->gone = e->before->first_create = 0;
    }
}

/* Whom nobody has seen there yet has its time from now on. */
static void set_first(entry_t *e, simba__etcd_waiter who, int64_t create)
{
    simba__etcd_first *first = first_of(simba__etcd_mutex_of(e));

    if (first == NULL || e->before == NULL || who.session == 0) {
        return;
    }
    first->who = who;
    e->before->first_create = create;
    if (first->create != create) {
        first->create = create;
        first->since_ms = simba_loop_now_ms();
    }
}

/* Where we are, by the keys made up to ours, the newest first; the last of them
 * is the first in the queue, if all were told. */
void simba__etcd_note_order(entry_t *e, const simba__etcd_got *got)
{
    const simba__etcd_txn *txn = &e->step->txn;
    simba__pb_bytes all = got->all;
    simba__etcd_owner who = {0};
    simba__etcd_kv kv = {0};
    int64_t ahead = 0;

    (void)simba__etcd_next_kv(&all, &kv);
    e->step->is_vanished |= kv.create != simba__etcd_create_of(e);
    e->has_order = true;
    for (; simba__etcd_next_kv(&all, &kv); ahead++) {
        who = simba__etcd_owner_read(&kv);
        if (ahead == 0) {
            set_before(e, who.name, &who, who.create);
        }
    }
    set_head(e, ahead == 0);
    if (ahead == 0) {
        simba__etcd_clear_before(e);
    } else if (ahead == 1 || txn->is_whole) {
        set_first(e, simba__etcd_waiter_read(who.name), who.create);
    }
    e->ahead = (int)(ahead < 2 || txn->is_whole ? ahead
                     : e->ahead < got->count    ? e->ahead
                                                : got->count - 1);
}

/* If the one before has gone, who was granted stood first, and nobody comes
 * before those who wait: so we are the first, if it owns the mutex, or if the
 * token was written when its key went. */
void simba__etcd_note_before(entry_t *e, const simba__etcd_kv *kv)
{
    const simba__etcd_before *before = e->before;
    const simba__etcd_step *step = e->step;
    bool was_granted, is_owner, was_second;

    if (before == NULL) {
        return;
    }
    if (before->create == kv->create) {
        if (e->ahead == 1) {
            set_first(e, before->who, kv->create);
        }
        return;
    }
    was_granted = before->gone != 0 && before->gone == step->granted_mod;
    is_owner = step->owner.is_there && step->owner.token != 0 &&
               simba__attempt_equal(step->owner.attempt, before->attempt);
    was_second =
        before->first_create != 0 && before->first_create == before->create;
    set_head(e, was_second || (!step->was_named && (was_granted || is_owner)));
    e->has_order = e->base.is_head;
    simba__etcd_clear_before(e);
}

/* Our own key in the queue; after a lost reply we may not know of it. */
void simba__etcd_note_waiter(entry_t *e, const simba__etcd_kv *kv)
{
    simba__etcd_owner who = simba__etcd_owner_read(kv);

    if (simba__etcd_create_of(e) != 0) {
        e->step->is_vanished = kv->create != simba__etcd_create_of(e);
    } else if (simba__etcd_is_mine(e, &who)) {
        set_create(e, kv->create);
    } else {
        e->step->is_vanished = who.is_there;
    }
}

/* We are the last: w tells who was it before, and may have left since. */
void simba__etcd_note_joined(entry_t *e)
{
    const simba__etcd_txn *txn = &e->step->txn;
    simba__etcd_got w = simba__etcd_got_of(txn, 'w');
    int64_t count = simba__etcd_got_of(txn, 'N').count;
    int64_t *ahead = &simba__etcd_mutex_of(e)->ahead;
    simba__etcd_owner last = simba__etcd_owner_read(&w.kv);

    *ahead = count >= 0 ? count : last.is_there ? *ahead - *ahead / 16 : 0;
    e->ahead = (int)*ahead;
    set_create(e, txn->revision);
    set_head(e, e->ahead == 0);
    e->has_order = e->base.is_head;
    if (!e->base.is_head && last.is_there && !last.is_unreadable) {
        set_before(e, last.id, &last, w.kv.mod);
    }
}

/* A key of a living session that is not the first stays, and who goes from
 * before it is told. The foremost of this process looks for itself. */
static bool is_confirmed(const simba_entry *entry, void *foremost)
{
    return entry != foremost && !entry->is_head &&
           ((const entry_t *)entry)->before != NULL &&
           ((const entry_t *)entry)->before->watch.sure_revision != 0;
}

void simba__etcd_confirm(entry_t *e)
{
    simba_entry *foremost = e->base.mutex->entries;
    bool is_unwatched = e->base.is_unwatched, was_unwatched;

    while (simba__etcd_create_of((entry_t *)foremost) ==
           0) { /* ours is not 0 */
        foremost = foremost->next;
    }
    was_unwatched = foremost->is_unwatched;
    simba_session_confirm(e->base.mutex, is_confirmed, foremost);
    foremost->is_unwatched = was_unwatched;
    e->base.is_unwatched = is_unwatched; /* since the look was sent */
}

bool simba__etcd_knows_first(const entry_t *e)
{
    const simba__etcd_first *first = simba__etcd_mutex_of(e)->first;

    return first != NULL && e->before != NULL && e->before->first_create != 0 &&
           e->before->first_create == first->create;
}

/* The mutex is free, and the first has had its time. */
bool simba__etcd_is_first_silent(const entry_t *e)
{
    const simba__etcd_mutex *mutex = simba__etcd_mutex_of(e);

    return simba__etcd_is_overdue(mutex) && !e->step->owner.is_there &&
           simba__etcd_knows_first(e) &&
           simba_loop_now_ms() - mutex->first->since_ms >= SIMBA__OFFER_MS;
}
