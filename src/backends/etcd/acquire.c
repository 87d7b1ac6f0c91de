/* Acquire, look and remove: which transaction is sent, and what then follows.
 *
 * Ownership rests on writes that a quorum agrees to, and on the boot clock of
 * who waits: a lease of etcd only clears away waiters whose process is gone. An
 * owner's key has none. Who finds it, and the heartbeat of its session,
 * unchanged for the owner's whole lease since an answer that showed them may
 * take over. README.md has the argument and the keys.
 *
 * Every reply is noted in the entry, as what was seen; decide() looks at that
 * alone, and says what is done next.
 *
 *   put:   GRANT ------------------------------------> FIRST
 *            | held, or somebody waits, or others were faster twice
 *            +--> JOIN --> watches are set --> LOOK --> BEHIND
 *   look:  LOOK, or as the first in the queue GRANT */
#define _GNU_SOURCE
#include "backends/etcd/etcd.h"

#include "util/container.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS_MOST = 24, /* transactions for one step */
    REMOVE_MS = 5000, /* of a removal that nobody asked for */
    NEAR = 8,         /* so many watch the owner, and evict who is silent */
    NOT_FOUND = 5,    /* gRPC's status for a lease that is over */
    NO_SPACE = 8,     /* and for a quota that is full */
};

typedef simba__etcd_entry entry_t;

static void go_on(entry_t *e, enum simba__etcd_action action);

static void wake(const simba__etcd_mutex *mutex)
{
    simba_wake(mutex->base.store->base.loop,
               simba_session_mutex_name(&mutex->base));
}

/* It is free for longer than the first has time to come (S10). */
static bool is_overdue(const simba__etcd_mutex *mutex)
{
    return mutex->free_ms != 0 &&
           simba_loop_now_ms() - mutex->free_ms >= SIMBA__OFFER_MS;
}

static void set_create(entry_t *e, int64_t create)
{
    simba__etcd_mutex_of(e)->waiting += (create != 0) - (e->txn.create != 0);
    e->txn.create = create;
}

static void set_head(entry_t *e, bool is_head)
{
    simba__etcd_mutex *mutex = simba__etcd_mutex_of(e);

    e->base.is_head = is_head;
    if (is_head || mutex->head == e) {
        mutex->head = is_head ? e : NULL;
    }
}

/* --- how a step ends ----------------------------------------------------- */

/* Not in the queue any more. */
static void clear_waiter(entry_t *e)
{
    simba__etcd_mutex *mutex = simba__etcd_mutex_of(e);

    (void)simba__etcd_watch_set(simba__etcd_of(e), &e->before, NULL);
    e->txn.number = e->base.is_doubted ? e->txn.number : 0;
    set_create(e, 0);
    set_head(e, false);
    e->before_create = e->first_create = e->ahead = 0;
    e->txn.before[0] = '\0';
    e->has_order = false;
    e->base.position = 0;
    if (mutex->waiting == 0) {
        (void)simba__etcd_watch_set(simba__etcd_of(e), &mutex->owner, NULL);
        (void)simba__etcd_watch_set(simba__etcd_of(e), &mutex->beat, NULL);
        simba_timer_clear(e->base.store->base.loop, &mutex->evicting);
        mutex->free_ms = mutex->freed_mod = 0;
    }
}

/* Neither in the queue nor an owner. */
static void stands(entry_t *e, enum simba_standing standing)
{
    clear_waiter(e);
    e->base.token = 0;
    e->is_owner = false;
    simba_entry_done(&e->base, SIMBA_OK, NULL, standing);
}

/* Certain from since_ms on, when the key was sent. */
static void owns(entry_t *e)
{
    clear_waiter(e);
    e->is_owner = true;
    e->owner.is_there = false;
    e->base.token = e->mine.token;
    simba__etcd_tell_owners(e);
    simba_entry_done(&e->base, SIMBA_OK, NULL, SIMBA_STANDS_FIRST);
}

/* What earlier transactions of the step have left is there, even if this one
 * surely had no effect. */
static void fail(entry_t *e, const simba_error *error)
{
    simba_error why = *error;
    bool is_refused = why.code == SIMBA_EDENIED || why.code == SIMBA_EMISCONFIG;
    bool is_left =
        e->base.step == SIMBA_STEP_REMOVE
            ? !is_refused
            : e->base.state != SIMBA_KEY_PRESENT &&
                  (e->txn.number != 0 || simba__etcd_is_mine(e, &e->owner));

    why.code = is_left ? SIMBA_EUNKNOWN : why.code;
    if (e->txn.create != 0) { /* who was to be looked for may have gone */
        simba_entry_unwatched(&e->base);
    }
    simba_entry_done(&e->base, why.code, &why, SIMBA_STANDS_NOWHERE);
}

/* --- waiting ------------------------------------------------------------- */

/* Has something happened since its last reply, before it was watched? What
 * happens after a watch is confirmed is told, and what is not confirmed yet
 * comes back to this. On the heartbeat it does not matter: what was missed is
 * seen by the look that comes when the lease seems over. */
static bool has_missed(const entry_t *e)
{
    return e->before.sure_revision > e->txn.revision ||
           simba__etcd_mutex_of(e)->owner.sure_revision > e->txn.revision;
}

static bool is_waiting(const entry_t *e)
{
    return e->txn.create != 0 && e->base.step == SIMBA_STEP_NONE;
}

static void on_before(simba__etcd_watch *watch, const simba__etcd_kv *kv)
{
    entry_t *e = container_of(watch, entry_t, before);

    if (kv->is_gone || (kv->mod == 0 && is_waiting(e) && has_missed(e))) {
        simba_entry_unwatched(&e->base); /* or it is set again after a gap */
        e->before_gone = kv->mod;
        wake(simba__etcd_mutex_of(e));
    } else if (kv->mod != 0) { /* it is we who are offered the mutex */
        simba_entry_unwatched(&e->base);
        wake(simba__etcd_mutex_of(e));
    }
}

static void on_evicting(simba_timer *timer)
{
    wake(container_of(timer, simba__etcd_mutex, evicting));
}

/* A free mutex is the first's for its time, and then somebody near looks
 * whether that has come (S10). It is evicted by whoever has seen it there so
 * long. */
static void await_first(simba__etcd_mutex *mutex)
{
    int64_t now_ms = simba_loop_now_ms(), at_ms = mutex->free_ms;

    at_ms = (mutex->first_ms > at_ms ? mutex->first_ms : at_ms);
    at_ms = at_ms + SIMBA__OFFER_MS > now_ms ? at_ms + SIMBA__OFFER_MS
                                             : now_ms + SIMBA__OFFER_MS;
    mutex->evicting.fire = on_evicting;
    simba_timer_set(mutex->base.store->base.loop, &mutex->evicting,
                    mutex->free_ms != 0 ? at_ms : INT64_MAX);
}

/* Who is named takes what it was told of, without a look. */
static bool note_offer(const simba__etcd_mutex *mutex,
                       const simba__etcd_owner *owner)
{
    simba_entry *one = simba__etcd_is_offer(owner) ? mutex->base.entries : NULL;

    while (one != NULL && !(is_waiting((entry_t *)one) &&
                            simba__etcd_is_offered((entry_t *)one, owner))) {
        one = one->next;
    }
    if (one != NULL) {
        ((entry_t *)one)->owner = *owner;
        simba_entry_unwatched(one);
    }
    return one != NULL;
}

/* The first asks, or when its step is done: wait(). */
static void on_owner(simba__etcd_watch *watch, const simba__etcd_kv *kv)
{
    simba__etcd_mutex *mutex = container_of(watch, simba__etcd_mutex, owner);
    bool is_missed = kv->is_gone;

    if (kv->mod != 0) {
        simba__etcd_owner owner = simba__etcd_owner_read(kv);

        /* Free, or an offer, or there may be room: who looked before that is
         * told by wait(). */
        mutex->free_ms = kv->is_gone ? simba_loop_now_ms() : 0;
        mutex->freed_mod =
            kv->is_gone || owner.is_crowd || owner.is_broken ? kv->mod : 0;
        await_first(mutex);
        is_missed = note_offer(mutex, &owner) ||
                    (mutex->head != NULL && is_waiting(mutex->head));
    } else {
        mutex->free_ms = mutex->freed_mod = 0;
        for (simba_entry *e = mutex->base.entries; e != NULL; e = e->next) {
            is_missed |=
                is_waiting((entry_t *)e) &&
                (has_missed((entry_t *)e) || !((entry_t *)e)->owner.is_there);
        }
    }
    if (is_missed) {
        wake(mutex);
    }
}

static void on_beat(simba__etcd_watch *watch, const simba__etcd_kv *kv)
{
    simba_sighting *sighting =
        &container_of(watch, simba__etcd_mutex, beat)->sighting;

    if (kv->mod != 0) {
        simba_sighting_note(sighting, sighting->owner,
                            kv->is_gone ? 0 : kv->mod, simba_loop_now_ms());
    }
}

static enum simba__etcd_set watch_owner(entry_t *e)
{
    simba__etcd_mutex_of(e)->owner.changed = on_owner;
    return simba__etcd_watch_set(simba__etcd_of(e),
                                 &simba__etcd_mutex_of(e)->owner,
                                 simba__etcd_key(&e->txn, 'o'));
}

static void note_sighting(entry_t *e, int64_t beat)
{
    simba_sighting_note(&simba__etcd_mutex_of(e)->sighting, e->owner.mod,
                        e->owner.is_broken ? 0 : beat, simba_loop_now_ms());
}

/* How long until the owner may be taken over from, as far as was seen. */
static int64_t silent_in_ms(const entry_t *e)
{
    return !e->owner.is_there
               ? 0
               : simba_sighting_left_ms(&simba__etcd_mutex_of(e)->sighting,
                                        e->is_sighted ? e->owner.mod : -1,
                                        e->owner.lease_ms, simba_loop_now_ms());
}

/* In the queue, and not to be granted now: watch what has to be watched, look
 * once more behind what is watched only now, and wait. */
static void wait(entry_t *e)
{
    simba__etcd *self = simba__etcd_of(e);
    simba__etcd_mutex *mutex = simba__etcd_mutex_of(e);
    bool has_beat = e->base.is_head && e->owner.is_there &&
                    !e->owner.is_broken && e->crowd_mod == 0;
    int64_t wait_ms = silent_in_ms(e);
    enum simba__etcd_set before, owner = WAS_SET, beat = WAS_SET;

    wait_ms = wait_ms <= 0        ? SIMBA__OFFER_MS
              : !e->base.is_head  ? e->base.lease_ms
              : e->crowd_mod != 0 ? e->base.lease_ms / 4 /* no beat to watch */
                                  : wait_ms - SIMBA_SIGHTING_MARGIN_MS;
    e->txn.session = (int64_t)e->owner.session;
    e->before.changed = on_before;
    before = simba__etcd_watch_set(
        self, &e->before,
        e->txn.before[0] != '\0' ? simba__etcd_key(&e->txn, 'p') : NULL);
    if (e->ahead < NEAR || e->base.is_head || !e->owner.is_there) {
        owner = watch_owner(e);
    }
    if (e->base.is_head) {
        mutex->beat.changed = on_beat;
        beat = simba__etcd_watch_set(self, &mutex->beat,
                                     has_beat ? simba__etcd_key(&e->txn, 'S')
                                              : NULL);
    } else {
        await_first(mutex);
    }
    if (e->base.is_head && mutex->freed_mod > e->txn.revision) {
        go_on(e, GRANT); /* since it looked */
    } else if (before == IS_SET || owner == IS_SET || has_missed(e) ||
               (e->base.is_head && e->owner.is_there && !e->is_sighted)) {
        go_on(e, LOOK);
    } else {
        if (before == NOT_SET || owner == NOT_SET || beat == NOT_SET) {
            wait_ms = SIMBA__OFFER_MS; /* no memory: by looking */
        }
        simba__etcd_tell_owners(e);
        /* One of ours may be meant, whom no wake-up has reached. */
        if (simba__etcd_is_offer(&e->owner) && e->base.acquire != NULL) {
            memcpy(e->base.acquire->reply.to, e->owner.id, sizeof e->owner.id);
        }
        e->base.wait_ms = wait_ms > 0 ? wait_ms : 1;
        simba_entry_done(&e->base, SIMBA_OK, NULL, SIMBA_STANDS_BEHIND);
    }
}

static void refuse(entry_t *e)
{
    int64_t most_ms = e->owner.is_there ? e->owner.lease_ms : INT64_MAX;
    int64_t wait_ms = silent_in_ms(e);

    wait_ms = wait_ms > 0 ? wait_ms : SIMBA__OFFER_MS;
    wait_ms = wait_ms < most_ms ? wait_ms : most_ms;
    simba__etcd_tell_owners(e);
    e->base.wait_ms = e->is_undone ? 0 : wait_ms;
    stands(e, SIMBA_STANDS_NOWHERE);
}

/* --- what was seen ------------------------------------------------------- */

static void set_before(entry_t *e,
                       const char *name,
                       const simba__etcd_owner *who,
                       int64_t create)
{
    snprintf(e->txn.before, sizeof e->txn.before, "%.31s", name);
    e->before_create = create;
    e->before_gone = 0;
    e->before_attempt = who->attempt;
}

/* Whom nobody has seen there yet has its time from now on. */
static void set_first(entry_t *e, const char *name, int64_t create)
{
    simba__etcd_mutex *mutex = simba__etcd_mutex_of(e);

    snprintf(e->txn.first, sizeof e->txn.first, "%.31s", name);
    e->first_create = create;
    if (mutex->first != create) {
        mutex->first = create;
        mutex->first_ms = simba_loop_now_ms();
    }
}

/* Where we are, by the keys made up to ours, the newest first; the last of them
 * is the first in the queue, if all were told. */
static void note_order(entry_t *e, const simba__etcd_got *got)
{
    size_t skip = strlen(simba__etcd_key(&e->txn, 'R'));
    char name[SIMBA__ETCD_WAITER] = "";
    simba__pb_bytes all = got->all;
    simba__etcd_kv kv = {0};
    int64_t ahead = 0;

    (void)simba__etcd_next_kv(&all, &kv);
    e->is_vanished |= kv.create != e->txn.create;
    e->has_order = true;
    e->txn.before[0] = '\0';
    for (; simba__etcd_next_kv(&all, &kv); ahead++) {
        simba__etcd_owner who = simba__etcd_owner_read(&kv);

        (void)simba__etcd_key_rest(&kv, skip, name, sizeof name);
        if (ahead == 0) {
            set_before(e, name, &who, kv.create);
        }
    }
    set_head(e, ahead == 0);
    e->first_create = 0;
    if (ahead == 1 || (ahead > 0 && e->txn.is_whole)) {
        set_first(e, name, kv.create);
    }
    e->ahead = ahead < 2 || e->txn.is_whole ? ahead
               : e->ahead < got->count      ? e->ahead
                                            : got->count - 1;
}

/* The one before has gone. Who was granted stood first, and nobody comes before
 * those who wait: so we are, if it owns the mutex, or if the token was written
 * when its key went. */
static void note_before_gone(entry_t *e)
{
    bool was_granted = e->before_gone != 0 && e->before_gone == e->granted_mod;
    bool is_owner = e->owner.is_there && e->owner.token != 0 &&
                    simba__attempt_equal(e->owner.attempt, e->before_attempt);
    bool was_second =
        e->first_create != 0 && e->first_create == e->before_create;

    set_head(e, was_second || (!e->was_named && (was_granted || is_owner)));
    e->has_order = e->base.is_head;
    e->first_create = 0;
    e->txn.before[0] = '\0';
}

/* Our own key in the queue; after a lost reply we may not know of it. */
static void note_waiter(entry_t *e, const simba__etcd_kv *kv)
{
    simba__etcd_owner who = simba__etcd_owner_read(kv);

    if (e->txn.create != 0) {
        e->is_vanished = kv->create != e->txn.create;
    } else if (simba__etcd_is_mine(e, &who)) {
        set_create(e, kv->create);
    } else {
        e->is_vanished = who.is_there;
    }
}

/* We are the last: w tells who was it before, and may have left since. */
static void note_joined(entry_t *e)
{
    const simba__etcd_kv *w = &simba__etcd_got_of(&e->txn, 'w')->kv;
    int64_t count = simba__etcd_got_of(&e->txn, 'N')->count;
    int64_t *ahead = &simba__etcd_mutex_of(e)->ahead;
    simba__etcd_owner last = simba__etcd_owner_read(w);

    *ahead = count >= 0 ? count : last.is_there ? *ahead - *ahead / 16 : 0;
    e->ahead = *ahead;
    set_create(e, e->txn.revision);
    set_head(e, e->ahead == 0);
    e->has_order = e->base.is_head;
    if (!e->base.is_head && last.is_there && !last.is_unreadable) {
        e->has_order = true;
        set_before(e, last.id, &last, w->mod);
    }
}

/* A key of a living session that is not the first stays, and who goes from
 * before it is told. The foremost of this process looks for itself. */
static bool is_confirmed(const simba_entry *entry, void *foremost)
{
    return entry != foremost && !entry->is_head &&
           ((const entry_t *)entry)->before.sure_revision != 0;
}

static void confirm(entry_t *e)
{
    simba_entry *foremost = e->base.mutex->entries;
    bool is_unwatched = e->base.is_unwatched, was_unwatched;

    while (((entry_t *)foremost)->txn.create == 0) { /* ours is not 0 */
        foremost = foremost->next;
    }
    was_unwatched = foremost->is_unwatched;
    simba_session_confirm(e->base.mutex, is_confirmed, foremost);
    foremost->is_unwatched = was_unwatched;
    e->base.is_unwatched = is_unwatched; /* since the look was sent */
}

/* What a reply has told. False: our session is over, and all begin anew. */
static bool note(entry_t *e)
{
    simba__etcd_txn *txn = &e->txn;
    const char *asked = txn->asked[txn->is_done ? 0 : 1];
    int64_t create = txn->create; /* R was up to this */

    for (const simba__etcd_got *got = txn->got; *asked != '\0'; got++) {
        const simba__etcd_kv *kv = &got->kv;

        switch (*asked++) {
        case 's':
            if (kv->create != simba__etcd_of(e)->create) {
                simba__etcd_session_end(simba__etcd_of(e),
                                        "its lease has ended");
                return false;
            }
            break;
        case 'o':
        case 'm': /* ours */
            e->owner = simba__etcd_owner_read(kv);
            e->crowd_mod = e->owner.is_crowd ? kv->mod : 0;
            e->is_sighted = e->has_members = e->has_room = false;
            break;
        case 'M': /* after o */
            simba__etcd_note_members(e, got);
            break;
        case 'S': /* after o */
            if (e->owner.is_there &&
                (e->owner.is_broken ||
                 (int64_t)e->owner.session == txn->session)) {
                note_sighting(e, kv->mod);
                e->is_sighted = true;
            }
            break;
        case 't':
            e->granted_mod = kv->mod;
            e->was_named = kv->value.length > 16;
            e->has_no_token = kv->mod == 0;
            e->last_token = 0;
            for (size_t i = 0; i < kv->value.length && i < 16; i++) {
                e->last_token = e->last_token << 4 |
                                (simba__text_hex(kv->value.at[i]) & 15);
            }
            break;
        case 'w':
            e->waiting_mod = kv->mod;
            break;
        case 'x':
            e->is_undone = kv->mod != 0;
            break;
        case 'q':
            note_waiter(e, kv);
            break;
        case 'p':
            if (kv->create != e->before_create) {
                note_before_gone(e);
            } else if (e->ahead == 1) {
                set_first(e, txn->before, e->before_create);
            }
            break;
        case 'v':
            e->is_kept = simba_sighting_read(&simba__etcd_mutex_of(e)->sighting,
                                             kv->value.at, kv->value.length);
            break;
        case 'R': /* after p */
            e->is_queue_empty = got->count == 0;
            if (create != 0) {
                note_order(e, got);
            }
            break;
        default:
            break;
        }
    }
    return true;
}

static bool knows_first(const entry_t *e)
{
    return e->first_create != 0 &&
           e->first_create == simba__etcd_mutex_of(e)->first;
}

/* The mutex is free, and the first has had its time. */
static bool is_first_silent(const entry_t *e)
{
    const simba__etcd_mutex *mutex = simba__etcd_mutex_of(e);

    return is_overdue(mutex) && !e->owner.is_there && knows_first(e) &&
           simba_loop_now_ms() - mutex->first_ms >= SIMBA__OFFER_MS;
}

/* What follows from what was seen. */
static enum simba__etcd_action decide(const entry_t *e)
{
    bool is_queued = e->txn.create != 0;
    bool joins = !is_queued && e->base.acquire != NULL && e->base.acquire->join;
    bool is_next =
        is_queued ? e->base.is_head : e->waiting_mod == 0 || e->is_queue_empty;

    if (e->is_undone) {
        return REFUSE;
    }
    if (simba__etcd_is_mine(e, &e->owner) && !e->owner.is_broken &&
        e->owner.token != 0) {
        return REFRESH;
    }
    if (e->is_vanished || (e->is_full && !is_queued)) {
        return e->is_vanished ? VANISH : FAIL;
    }
    if ((is_queued && !e->has_order) ||
        (e->crowd_mod != 0 && !e->has_members)) {
        return LOOK;
    }
    if (is_queued && simba__etcd_is_offered(e, &e->owner)) {
        return GRANT;
    }
    if (e->crowd_mod != 0 && !(is_next && e->has_room) &&
        silent_in_ms(e) <= 0) { /* the first may know of one owner only */
        return OUST;
    }
    if (is_next && (e->has_room || silent_in_ms(e) <= 0)) {
        return e->sent != GRANT || e->refusals < 2 ? GRANT
               : joins ? JOIN /* lest others pass it for ever */
                       : LOOK;
    }
    if (is_queued) {
        return is_first_silent(e) ? EVICT : WAIT;
    }
    if (joins) {
        return JOIN;
    }
    if (!e->has_looked) {
        return LOOK;
    }
    return e->is_sighted && !e->is_kept &&
                   simba__etcd_of(e)->clock_id[0] != '\0'
               ? KEEP
               : REFUSE;
}

/* --- what follows ------------------------------------------------------- */

/* A server that says there is no space may have carried it out, but will not
 * any more: look what has come of it. What only deletes is carried out. */
static void on_reply(simba__etcd_txn *txn, int status, const simba_error *error)
{
    entry_t *e = container_of(txn, entry_t, txn);
    enum simba__etcd_action sent = (enum simba__etcd_action)e->sent;
    int native = status == SIMBA_OK ? 0 : error->native;

    if (native == NOT_FOUND && !simba__etcd_of(e)->is_closing) {
        simba__etcd_session_end(simba__etcd_of(e), "its lease is not found");
    } else if ((native == NO_SPACE && !e->is_full) ||
               (native == NOT_FOUND && sent == REMOVE)) {
        e->is_full |= native == NO_SPACE;
        go_on(e, sent == REMOVE ? sent : LOOK);
    } else if (status != SIMBA_OK) {
        fail(e, error);
    } else if (!note(e)) {
        /* forgotten */
    } else if (txn->is_done && (sent == GRANT || sent == REFRESH)) {
        e->since_ms = txn->rpc.exchange.sent_ms;
        owns(e);
    } else if (sent == REFRESH) {
        stands(e, SIMBA_STANDS_VANISHED);
    } else if (sent == REMOVE && txn->is_done && simba__etcd_names_heir(e) &&
               simba__etcd_name_heir(e)) {
        go_on(e, NAME);
    } else if (sent == NAME ||
               (sent == REMOVE && !simba__etcd_is_mine(e, &e->owner))) {
        stands(e, SIMBA_STANDS_NOWHERE);
    } else if (sent == REMOVE) { /* written otherwise, or broken */
        e->mine = e->owner;
        e->is_owner = true;
        go_on(e, REMOVE);
    } else if (sent == OUST) {
        go_on(e, LOOK);
    } else {
        if (sent == GRANT) {
            e->base.token = 0;
            e->refusals++;
        } else if (sent == JOIN && txn->is_done) {
            note_joined(e);
        } else if (sent == LOOK && txn->create != 0 &&
                   e->base.mutex->looker == &e->base) {
            confirm(e); /* for all who ask in case */
        }
        e->has_looked = sent == LOOK || (e->has_looked && sent != GRANT);
        e->has_order &= sent != EVICT;
        e->is_kept |= sent == KEEP;
        if (e->owner.is_there ||
            simba__etcd_mutex_of(e)->owner.sure_revision == 0) {
            simba__etcd_mutex_of(e)->free_ms = 0;
        } else if (simba__etcd_mutex_of(e)->free_ms == 0) {
            simba__etcd_mutex_of(e)->free_ms = simba_loop_now_ms();
        }
        e->base.position = (uint64_t)txn->create;
        go_on(e, decide(e));
    }
    simba_entry_drop(&e->base);
}

static void go_on(entry_t *e, enum simba__etcd_action action)
{
    simba_error error;

    if (action == WAIT) {
        wait(e);
    } else if (action == REFUSE) {
        refuse(e);
    } else if (action == VANISH) {
        stands(e, SIMBA_STANDS_VANISHED);
    } else if (action == FAIL) {
        clear_waiter(e);
        simba_error_set(&error, SIMBA_EUNAVAIL, NO_SPACE,
                        "etcd: no space is left in the quota of the servers");
        fail(e, &error);
    } else if (++e->rounds > ROUNDS_MOST) {
        simba_error_set(&error, SIMBA_EUNAVAIL, 0,
                        "etcd: the mutex changes faster than it can be asked");
        fail(e, &error);
    } else {
        e->sent = (int)action;
        e->txn.self = simba__etcd_of(e);
        e->txn.mutex = simba_session_mutex_name(e->base.mutex);
        e->txn.attempt = e->base.attempt;
        e->txn.is_whole = is_overdue(simba__etcd_mutex_of(e));
        e->txn.done = on_reply;
        simba__etcd_write(e, action);
        simba_entry_hold(&e->base);
        simba__etcd_submit(&e->txn,
                           e->base.acquire != NULL ? e->base.acquire
                                                   : e->base.release,
                           REMOVE_MS);
    }
}

/* --- steps --------------------------------------------------------------- */

static entry_t *begin_step(simba_entry *entry)
{
    entry_t *e = (entry_t *)entry;

    e->rounds = e->refusals = 0;
    e->is_full = e->is_undone = e->is_vanished = e->is_sighted = false;
    e->is_queue_empty = e->has_looked = e->is_kept = false;
    e->has_members = e->has_room = false;
    e->waiting_mod = e->crowd_mod = 0;
    return e;
}

/* Who waits with others of this process need not try: somebody waits. */
void simba__etcd_entry_put(simba_entry *entry)
{
    entry_t *e = begin_step(entry);
    bool joins = simba__etcd_mutex_of(e)->waiting > 0 && entry->acquire->join;

    e->owner = (simba__etcd_owner){0};
    go_on(e, e->txn.create != 0 ? LOOK /* it waits */
             : joins            ? JOIN
                                : GRANT);
}

/* The first was woken: most likely the mutex is free. Who will be the first
 * watches the owner before it looks. */
void simba__etcd_entry_look(simba_entry *entry)
{
    entry_t *e = begin_step(entry);

    e->has_order &= entry->acquire == NULL || !entry->acquire->is_backstop;
    e->has_order &= knows_first(e) || !is_overdue(simba__etcd_mutex_of(e));
    if (e->is_owner) {
        go_on(e, REFRESH);
    } else if (simba__etcd_is_offered(e, &e->owner)) {
        go_on(e, GRANT);
    } else if (entry->is_head) {
        e->owner = (simba__etcd_owner){0};
        go_on(e, GRANT);
    } else {
        if (entry->is_unwatched) {
            (void)watch_owner(e);
        }
        go_on(e, LOOK);
    }
}

void simba__etcd_entry_remove(simba_entry *entry)
{
    entry_t *e = begin_step(entry);

    (void)simba__etcd_watch_set(simba__etcd_of(e), &e->before, NULL);
    e->is_owner &= entry->state == SIMBA_KEY_PRESENT && !entry->is_doubted;
    go_on(e, REMOVE);
}

void simba__etcd_entry_forget(simba_entry *entry)
{
    entry_t *e = (entry_t *)entry;
    bool was_open = e->txn.rpc.grpc != NULL;

    entry->is_doubted = false; /* what comes late finds the session over */
    clear_waiter(e);
    simba__rpc_fini(&e->txn.rpc);
    free(e->seen); /* no reply comes any more, or of another session */
    e->seen = NULL;
    e->seen_count = 0;
    if (was_open) {
        simba_entry_drop(entry);
    }
}
