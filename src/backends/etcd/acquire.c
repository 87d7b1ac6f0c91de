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
 *            | held, or somebody waits
 *            +--> JOIN --> watches are set --> LOOK --> BEHIND
 *   look:  LOOK, or as the first in the queue GRANT */
#define _GNU_SOURCE
#include "backends/etcd/etcd.h"

#include "core/mutex_model.h"
#include "util/container.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS_MOST = 24, /* transactions for one step */
    REMOVE_MS = 5000, /* of a removal that nobody asked for */
    LONG = 64,        /* queues are not counted each time */
    NOT_FOUND = 5,    /* gRPC's status for a lease that is over */
    NO_SPACE = 8,     /* and for a quota that is full */
};

/* What an entry does next: transactions, and what ends a step. */
enum action {
    GRANT,   /* take it: free, or of a silent owner; first, or nobody waits */
    REFRESH, /* it is ours: write it again, so that the lease runs from now */
    JOIN,    /* to the end of the queue */
    LOOK,    /* who owns, and where we are in the queue */
    EVICT,   /* the first had its time: it begins anew, if it lives */
    KEEP,    /* what who only tries has seen */
    REMOVE,  /* what we own, or what else may be there */
    WAIT,
    REFUSE,
    VANISH,
    FAIL
};

typedef simba__etcd_entry entry_t;

static void go_on(entry_t *e, enum action action);

static simba__etcd *store_of(const entry_t *e)
{
    return SIMBA__ETCD(e->base.store);
}

static simba__etcd_mutex *mutex_of(const entry_t *e)
{
    return (simba__etcd_mutex *)e->base.mutex;
}

static void wake(const entry_t *e)
{
    simba_wake(e->base.store->base.loop,
               simba_session_mutex_name(e->base.mutex));
}

static bool is_mine(const entry_t *e, const simba__etcd_owner *owner)
{
    return owner->is_there &&
           simba__attempt_equal(owner->attempt, e->base.attempt);
}

/* --- how a step ends ----------------------------------------------------- */

static void clear_watches(entry_t *e)
{
    if (e->is_settling) {
        e->is_settling = false;
        simba_entry_drop(&e->base);
    }
    simba_timer_clear(e->base.store->base.loop, &e->evicting);
    for (int i = 0; i < SIMBA__ETCD_WATCHES; i++) {
        (void)simba__etcd_watch_set(store_of(e), &e->watches[i], NULL);
    }
}

/* Not in the queue any more. */
static void clear_waiter(entry_t *e)
{
    clear_watches(e);
    e->txn.number = e->base.is_doubted ? e->txn.number : 0;
    e->txn.create = e->before_create = e->ahead = e->free_ms = 0;
    e->txn.before[0] = '\0';
    e->has_order = e->is_second = e->base.is_head = false;
    e->base.position = 0;
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
    e->base.owner = simba__etcd_owner_told(&e->mine);
    simba_entry_done(&e->base, SIMBA_OK, NULL, SIMBA_STANDS_FIRST);
}

/* What earlier transactions of the step have left is there, even if this one
 * surely had no effect. */
static void fail(entry_t *e, const simba_error *error)
{
    simba_error why = *error;
    bool is_refused = why.code == SIMBA_EDENIED || why.code == SIMBA_EMISCONFIG;
    bool is_left = e->base.step == SIMBA_STEP_REMOVE
                       ? !is_refused
                       : e->base.state != SIMBA_KEY_PRESENT &&
                             (e->txn.number != 0 || is_mine(e, &e->owner));

    why.code = is_left ? SIMBA_EUNKNOWN : why.code;
    simba_entry_done(&e->base, why.code, &why, SIMBA_STANDS_NOWHERE);
}

/* --- waiting ------------------------------------------------------------- */

/* Are the watches that it needs confirmed, so that a look now misses nothing?
 * Else it goes on when they are. That on the heartbeat is not waited for: what
 * it missed is seen by the look that comes when the lease seems over. */
static bool is_watching(const entry_t *e)
{
    const simba__etcd_watch *before = &e->watches[SIMBA__ETCD_BEFORE];
    const simba__etcd_watch *owner = &e->watches[SIMBA__ETCD_OWNER];

    return (before->key == NULL || before->is_sure) &&
           (owner->key == NULL || owner->is_sure);
}

static bool settles(entry_t *e)
{
    if (!is_watching(e)) {
        e->is_settling = true;
        simba_entry_hold(&e->base);
    }
    return e->is_settling;
}

static void on_evicting(simba_timer *timer)
{
    wake(container_of(timer, entry_t, evicting));
}

/* The first, or who may become it by a look under way, asks when the mutex
 * becomes free. The second lets it go first, and asks when that has not come in
 * its time (S10). */
static void on_owner(entry_t *e, bool is_freed)
{
    if (!e->is_second || e->base.step != SIMBA_STEP_NONE) {
        wake(e);
    }
    e->free_ms = is_freed && e->is_second ? simba_loop_now_ms() : 0;
    e->evicting.fire = on_evicting;
    simba_timer_set(e->base.store->base.loop, &e->evicting,
                    e->free_ms != 0 ? e->free_ms + SIMBA__OFFER_MS : INT64_MAX);
}

static void note_sighting(entry_t *e, int64_t beat)
{
    simba_sighting_note(&mutex_of(e)->sighting, e->owner.mod,
                        e->owner.is_broken ? 0 : beat, simba_loop_now_ms());
}

/* A watch that was set lets the entry go on, or if it was set again after a
 * gap, ask. */
static void on_change(simba__etcd_watch *watch,
                      const simba__etcd_kv *kv,
                      bool is_gone)
{
    entry_t *e = watch->user;
    bool is_beat = watch == &e->watches[SIMBA__ETCD_BEAT];

    if (kv == NULL && !is_beat) {
        e->free_ms = 0;
        if (!e->is_settling) {
            wake(e);
        } else if (is_watching(e)) {
            e->is_settling = false;
            go_on(e, LOOK);
            simba_entry_drop(&e->base);
        }
    } else if (is_beat && kv != NULL) {
        note_sighting(e, is_gone ? 0 : kv->mod);
    } else if (watch == &e->watches[SIMBA__ETCD_OWNER]) {
        on_owner(e, is_gone);
    } else if (is_gone && kv != NULL) {
        e->base.is_unwatched = true;
        e->before_gone = kv->mod;
        wake(e);
    }
}

/* How long until the owner may be taken over from, as far as was seen. */
static int64_t silent_in_ms(const entry_t *e)
{
    return !e->owner.is_there
               ? 0
               : simba_sighting_left_ms(&mutex_of(e)->sighting,
                                        e->is_sighted ? e->owner.mod : -1,
                                        e->owner.lease_ms, simba_loop_now_ms());
}

/* In the queue, and not to be granted now: watch what has to be watched, look
 * once more when that is sure, and wait. */
static void wait(entry_t *e)
{
    static const char letters[] = {'p', 'o', 'S'};
    bool is_near = e->base.is_head || e->is_second || e->ahead == 1;
    const bool wanted[] = {[SIMBA__ETCD_BEFORE] = e->txn.before[0] != '\0',
                           [SIMBA__ETCD_OWNER] = is_near,
                           [SIMBA__ETCD_BEAT] = e->base.is_head &&
                                                e->owner.is_there &&
                                                !e->owner.is_broken};
    int64_t wait_ms = silent_in_ms(e);

    wait_ms = wait_ms <= 0      ? SIMBA__OFFER_MS
              : e->base.is_head ? wait_ms - SIMBA_SIGHTING_MARGIN_MS
                                : e->base.lease_ms;
    e->txn.session = (int64_t)e->owner.session;
    for (int i = 0; i < SIMBA__ETCD_WATCHES; i++) {
        e->watches[i].changed = on_change;
        e->watches[i].user = e;
        if (!simba__etcd_watch_set(
                store_of(e), &e->watches[i],
                wanted[i] ? simba__etcd_key(&e->txn, letters[i]) : NULL)) {
            wait_ms = SIMBA__OFFER_MS; /* no memory: by looking, then */
        }
    }
    if (settles(e)) {
        /* on_change() comes back to it */
    } else if (e->base.is_head && e->owner.is_there && !e->is_sighted) {
        go_on(e, LOOK);
    } else {
        e->base.owner = simba__etcd_owner_told(&e->owner);
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
    e->base.owner = simba__etcd_owner_told(&e->owner);
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

/* Where we are, by the keys made up to ours, the newest first. */
static void note_order(entry_t *e, simba__pb_bytes all)
{
    size_t skip = strlen(simba__etcd_key(&e->txn, 'R'));
    simba__etcd_kv mine = {0}, before, first;
    char name[SIMBA__ETCD_WAITER] = "";
    simba__etcd_owner who;

    (void)simba__etcd_next_kv(&all, &mine);
    e->is_vanished |= mine.create != e->txn.create;
    e->has_order = true;
    e->base.is_head = !simba__etcd_next_kv(&all, &before);
    e->is_second = !e->base.is_head && !simba__etcd_next_kv(&all, &first);
    e->txn.before[0] = '\0';
    if (!e->base.is_head && before.key.length > skip &&
        before.key.length - skip < sizeof name) {
        memcpy(name, before.key.at + skip, before.key.length - skip);
        who = simba__etcd_owner_read(&before);
        set_before(e, name, &who, before.create);
    }
}

/* The one before has gone. Who was granted stood first, and nobody comes before
 * those who wait: so we are, if it owns the mutex, or if the token was written
 * when its key went. */
static void note_before_gone(entry_t *e)
{
    bool was_granted = e->before_gone != 0 && e->before_gone == e->granted_mod;
    bool is_owner = e->owner.is_there &&
                    simba__attempt_equal(e->owner.attempt, e->before_attempt);

    e->base.is_head = e->is_second || was_granted || is_owner;
    e->has_order = e->base.is_head;
    e->is_second = false;
    e->txn.before[0] = '\0';
}

/* Our own key in the queue; after a lost reply we may not know of it. */
static void note_waiter(entry_t *e, const simba__etcd_kv *kv)
{
    simba__etcd_owner who = simba__etcd_owner_read(kv);

    if (e->txn.create != 0) {
        e->is_vanished = kv->create != e->txn.create;
    } else if (is_mine(e, &who)) {
        e->txn.create = kv->create;
    } else {
        e->is_vanished = who.is_there;
    }
}

/* We are the last: w tells who was it before, and may have left since. */
static void note_joined(entry_t *e)
{
    const simba__etcd_kv *w = &simba__etcd_got_of(&e->txn, 'w')->kv;
    int64_t count = simba__etcd_got_of(&e->txn, 'N')->count;
    int64_t *ahead = &mutex_of(e)->ahead;
    simba__etcd_owner last = simba__etcd_owner_read(w);

    *ahead = count >= 0 ? count : last.is_there ? *ahead - *ahead / 16 : 0;
    e->ahead = *ahead;
    e->txn.create = e->txn.revision;
    e->base.is_head = e->ahead == 0;
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
           ((const entry_t *)entry)->watches[SIMBA__ETCD_BEFORE].is_sure;
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
            if (kv->create != store_of(e)->create) {
                simba__etcd_session_end(store_of(e), "its lease has ended");
                return false;
            }
            break;
        case 'o':
            e->owner = simba__etcd_owner_read(kv);
            e->is_sighted = false;
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
            } else {
                e->is_second |= e->ahead == 1;
            }
            break;
        case 'v':
            e->is_kept = simba_sighting_read(&mutex_of(e)->sighting,
                                             kv->value.at, kv->value.length);
            break;
        case 'R': /* after p */
            e->is_queue_empty = got->count == 0;
            if (create != 0) {
                note_order(e, got->all);
            }
            break;
        default:
            break;
        }
    }
    return true;
}

/* What follows from what was seen. */
static enum action decide(const entry_t *e)
{
    bool is_queued = e->txn.create != 0;
    bool is_next =
        is_queued ? e->base.is_head : e->waiting_mod == 0 || e->is_queue_empty;

    if (e->is_undone) {
        return REFUSE;
    }
    if (is_mine(e, &e->owner) && !e->owner.is_broken && e->owner.token != 0) {
        return REFRESH;
    }
    if (e->is_vanished || (e->is_full && !is_queued)) {
        return e->is_vanished ? VANISH : FAIL;
    }
    if (is_queued && !e->has_order) {
        return LOOK;
    }
    if (is_next && silent_in_ms(e) <= 0) {
        return e->sent == GRANT && e->refusals > 1 ? LOOK : GRANT;
    }
    if (is_queued) {
        return e->free_ms != 0 &&
                       simba_loop_now_ms() - e->free_ms >= SIMBA__OFFER_MS
                   ? EVICT
                   : WAIT;
    }
    if (e->base.acquire != NULL && e->base.acquire->join) {
        return JOIN;
    }
    if (!e->has_looked) {
        return LOOK;
    }
    return e->is_sighted && !e->is_kept && store_of(e)->clock_id[0] != '\0'
               ? KEEP
               : REFUSE;
}

/* --- transactions -------------------------------------------------------- */

/* What all writes of an attempt depend on: it was not undone, and our session
 * is the one that it began with. */
static void if_alive(entry_t *e)
{
    simba__etcd_if(&e->txn, 'x', CREATE, 0, NULL);
    simba__etcd_if(&e->txn, 's', CREATE, store_of(e)->create, NULL);
}

/* Of a silent owner also by its value: after a restore revisions come again.
 * S4: the token is above every one that was ever granted, as far as the clocks
 * of those who are granted did not go back over a restore. */
static void write_grant(entry_t *e)
{
    simba__etcd_txn *txn = &e->txn;
    const simba__etcd_owner *seen = &e->owner;
    uint64_t above = e->base.acquire == NULL ? 0 : e->base.acquire->token_above;
    uint64_t now_us = (uint64_t)simba__etcd_wall_us();
    bool is_queued = txn->create != 0;
    char token[24];

    above = above > e->last_token ? above : e->last_token;
    e->mine = (simba__etcd_owner){.is_there = true,
                                  .attempt = e->base.attempt,
                                  .token = now_us > above ? now_us : above + 1,
                                  .session = (uint64_t)store_of(e)->lease,
                                  .lease_ms = e->base.lease_ms,
                                  .acquired_at_ms = (int64_t)now_us / 1000};
    memcpy(e->mine.id, e->base.id, sizeof e->mine.id);
    e->base.token = e->mine.token; /* should the reply be lost */
    snprintf(token, sizeof token, "%016" PRIx64, e->mine.token);
    simba__etcd_if(txn, 'o', MOD, seen->mod, NULL);
    if (seen->is_there && !seen->is_unreadable) {
        simba__etcd_if(txn, 'o', VALUE, 0, seen->text);
    }
    if (seen->is_there && !seen->is_broken) {
        txn->session = (int64_t)seen->session;
        simba__etcd_if(txn, 'S', MOD, mutex_of(e)->sighting.beat, NULL);
    }
    simba__etcd_if(txn, is_queued ? 'q' : 'w', is_queued ? CREATE : MOD,
                   is_queued ? txn->create : e->waiting_mod, NULL);
    if_alive(e);
    simba__etcd_if(txn, 't', e->has_no_token ? CREATE : BELOW, 0,
                   e->has_no_token ? NULL : token);
    simba__etcd_put(txn, THEN, 'o', simba__etcd_owner_write(&e->mine));
    simba__etcd_put(txn, THEN, 't', token);
    if (is_queued) {
        simba__etcd_delete(txn, 'q');
        simba__etcd_delete_w(txn);
    } else if (e->waiting_mod != 0) {
        simba__etcd_delete(txn, 'w');
    }
    if (e->has_looked && !is_queued) { /* by what was kept of it */
        simba__etcd_delete(txn, 'v');
    }
    simba__etcd_get(txn, ELSE, "otw"); /* short; a look tells the rest */
}

static void write_refresh(entry_t *e)
{
    if (is_mine(e, &e->owner)) { /* and was not told */
        e->mine = e->owner;
        e->base.token = e->mine.token;
    }
    simba__etcd_if(&e->txn, 'o', VALUE, 0, e->mine.text);
    if_alive(e);
    e->mine.session = (uint64_t)store_of(e)->lease;
    e->mine.lease_ms = e->base.lease_ms;
    simba__etcd_put(&e->txn, THEN, 'o', simba__etcd_owner_write(&e->mine));
    simba__etcd_get(&e->txn, ELSE, "s");
}

/* Under the number of an earlier join that was not answered. */
static void write_join(entry_t *e)
{
    simba__etcd_owner waiter = {.attempt = e->base.attempt,
                                .acquired_at_ms = simba__etcd_wall_us() / 1000};

    e->txn.number = e->base.number;
    simba__etcd_if(&e->txn, 'q', CREATE, 0, NULL);
    if_alive(e);
    simba__etcd_get(&e->txn, THEN, /* before they change */
                    mutex_of(e)->ahead > LONG ? "w" : "wN");
    memcpy(waiter.id, e->base.id, sizeof waiter.id);
    simba__etcd_put(&e->txn, THEN, 'q', simba__etcd_owner_write(&waiter));
    snprintf(waiter.id, sizeof waiter.id, "%" PRIx64 "-%u",
             (uint64_t)store_of(e)->lease, e->txn.number);
    simba__etcd_put(&e->txn, THEN, 'w', simba__etcd_owner_write(&waiter));
    simba__etcd_get(&e->txn, ELSE, "qxs");
}

/* By the keys that matter to us, and if these do not tell by the whole queue,
 * which a server reads from end to end. */
static void write_look(entry_t *e)
{
    char letters[SIMBA__ETCD_ASKED + 1];

    snprintf(letters, sizeof letters, "sotxS%s%s%s",
             e->txn.number != 0 ? "q" : "vw",
             e->txn.before[0] != '\0' ? "p" : "", e->has_order ? "" : "R");
    e->txn.session = (int64_t)e->owner.session;
    if (e->base.is_unwatched) { /* most likely the one before owns it now */
        e->txn.session = (int64_t)strtoull(e->txn.before, NULL, 16);
    }
    e->base.is_unwatched = false;
    simba__etcd_get(&e->txn, THEN, letters);
}

/* Of an owner by what it wrote; of a waiter, or of one that may be anything
 * after a lost reply, by looking. A tombstone is also for what may come late
 * and was never asked to be undone. */
static void write_remove(entry_t *e)
{
    bool is_free = e->is_owner;
    bool is_entombed =
        !e->is_full && !store_of(e)->is_closing &&
        (e->base.is_doubted ||
         (e->base.release != NULL && e->base.release->tombstone_ms > 0));

    e->owner.is_there = false;
    if (is_free) {
        simba__etcd_if(&e->txn, 'o', VALUE, 0, e->mine.text);
        simba__etcd_delete(&e->txn, 'o');
    } else if (e->txn.create != 0) {
        simba__etcd_if(&e->txn, 'q', CREATE, e->txn.create, NULL);
        if (e->base.is_head) {
            simba__etcd_delete_w(&e->txn);
        }
    }
    if (!is_free && e->txn.number != 0) {
        simba__etcd_delete(&e->txn, 'q');
    }
    for (int branch = THEN; branch <= ELSE; branch++) {
        if (is_entombed) {
            simba__etcd_put(&e->txn, branch, 'x', "");
        }
        if (!is_free || branch == ELSE) {
            simba__etcd_get(&e->txn, branch, "o");
        }
    }
}

static void write_eviction(entry_t *e)
{
    simba__etcd_if(&e->txn, 'o', CREATE, 0, NULL);
    simba__etcd_if(&e->txn, 'p', CREATE, e->before_create, NULL);
    simba__etcd_delete(&e->txn, 'p');
}

static void write_kept(entry_t *e)
{
    char text[SIMBA_SIGHTING_TEXT];

    simba_sighting_write(&mutex_of(e)->sighting, text);
    simba__etcd_put(&e->txn, THEN, 'v', text);
}

/* A server that says there is no space may have carried it out, but will not
 * any more: look what has come of it. What only deletes is carried out. */
static void on_reply(simba__etcd_txn *txn, int status, const simba_error *error)
{
    entry_t *e = container_of(txn, entry_t, txn);
    enum action sent = (enum action)e->sent;
    int native = status == SIMBA_OK ? 0 : error->native;

    if (native == NOT_FOUND && !store_of(e)->is_closing) {
        simba__etcd_session_end(store_of(e), "its lease is not found");
    } else if ((native == NO_SPACE && !e->is_full) ||
               (native == NOT_FOUND && sent == REMOVE)) {
        e->is_full |= native == NO_SPACE;
        go_on(e, sent == REMOVE ? sent : LOOK);
    } else if (status != SIMBA_OK) {
        fail(e, error);
    } else if (!note(e)) {
        /* forgotten */
    } else if (txn->is_done && (sent == GRANT || sent == REFRESH)) {
        e->since_ms = e->sent_ms;
        owns(e);
    } else if (sent == REFRESH) {
        stands(e, SIMBA_STANDS_VANISHED);
    } else if (sent == REMOVE && !is_mine(e, &e->owner)) {
        stands(e, SIMBA_STANDS_NOWHERE);
    } else if (sent == REMOVE) { /* written otherwise, or broken */
        e->mine = e->owner;
        e->is_owner = true;
        go_on(e, REMOVE);
    } else {
        if (sent == GRANT) {
            e->base.token = 0;
            e->refusals++;
        } else if (sent == JOIN && txn->is_done) {
            note_joined(e);
        } else if (sent == LOOK && txn->create != 0) {
            confirm(e);
        }
        e->has_looked = sent == LOOK || (e->has_looked && sent != GRANT);
        e->has_order &= sent != EVICT;
        e->is_kept |= sent == KEEP;
        if (!e->is_second || e->owner.is_there ||
            !e->watches[SIMBA__ETCD_OWNER].is_sure) {
            e->free_ms = 0;
        } else if (e->free_ms == 0) {
            e->free_ms = simba_loop_now_ms();
        }
        e->base.position = (uint64_t)txn->create;
        go_on(e, decide(e));
    }
    simba_entry_drop(&e->base);
}

static void go_on(entry_t *e, enum action action)
{
    static void (*const write[])(entry_t *) = {
        [GRANT] = write_grant,  [REFRESH] = write_refresh, [JOIN] = write_join,
        [LOOK] = write_look,    [EVICT] = write_eviction,  [KEEP] = write_kept,
        [REMOVE] = write_remove};
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
        e->sent_ms = simba_loop_now_ms();
        e->txn.self = store_of(e);
        e->txn.mutex = simba_session_mutex_name(e->base.mutex);
        e->txn.attempt = e->base.attempt;
        e->txn.done = on_reply;
        simba__etcd_begin(&e->txn);
        write[action](e);
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
    e->waiting_mod = 0;
    return e;
}

/* Who waits with others of this process need not try: somebody waits. */
void simba__etcd_entry_put(simba_entry *entry)
{
    entry_t *e = begin_step(entry);
    const simba_entry *other = entry->mutex->entries;

    while (other != NULL && ((const entry_t *)other)->txn.create == 0) {
        other = other->next;
    }
    e->owner = (simba__etcd_owner){0};
    go_on(e, e->txn.create != 0                      ? LOOK /* it waits */
             : other != NULL && entry->acquire->join ? JOIN
                                                     : GRANT);
}

/* The first was woken: most likely the mutex is free. Who will be the first
 * watches the owner before it looks. */
void simba__etcd_entry_look(simba_entry *entry)
{
    entry_t *e = begin_step(entry);

    e->has_order &= entry->acquire == NULL || !entry->acquire->is_backstop;
    if (e->is_owner) {
        go_on(e, REFRESH);
    } else if (entry->is_head) {
        e->owner = (simba__etcd_owner){0};
        go_on(e, GRANT);
    } else if (!entry->is_unwatched ||
               !simba__etcd_watch_set(store_of(e),
                                      &e->watches[SIMBA__ETCD_OWNER],
                                      simba__etcd_key(&e->txn, 'o')) ||
               !settles(e)) {
        go_on(e, LOOK);
    }
}

void simba__etcd_entry_remove(simba_entry *entry)
{
    entry_t *e = begin_step(entry);

    clear_watches(e);
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
    if (was_open) {
        simba_entry_drop(entry);
    }
}
