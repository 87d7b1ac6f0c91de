/* Acquire, look and remove: which transaction is sent, and what then follows.
 *
 * Ownership rests on writes that a quorum agrees to, and on the boot clock of
 * who waits: a lease of etcd only clears away waiters whose process is gone. An
 * owner's key has none. Who finds it, and the heartbeat of its session,
 * unchanged for the owner's whole lease since an answer that showed them may
 * take over. README.md has the argument and the keys.
 *
 *   put:   grant ---------------------------------> FIRST
 *            | held, or somebody waits
 *            +-- join --+
 *   look:  -------------+--> look --> settle ------> BEHIND
 *                              ^         | watches are set
 *                              +---------+
 *                              | first, and it is free or its owner is silent
 *                              +--> grant ---------> FIRST */
#define _GNU_SOURCE
#include "backends/etcd/etcd.h"

#include "core/mutex_model.h"
#include "util/container.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS_MOST = 24, /* transactions for one step */
    REMOVE_MS = 5000, /* of a removal that nobody asked for */
    NOT_FOUND = 5,    /* gRPC's status for a lease that is over */
    NO_SPACE = 8,     /* and for a quota that is full */
};

#define THEN SIMBA__ETCD_THEN
#define ELSE SIMBA__ETCD_ELSE

typedef struct simba__etcd_entry entry_t;

static entry_t *of(simba_entry *entry)
{
    return (entry_t *)entry;
}

static struct simba__etcd *store_of(const entry_t *e)
{
    return SIMBA__ETCD(e->base.store);
}

static struct simba__etcd_mutex *mutex_of(const entry_t *e)
{
    return (struct simba__etcd_mutex *)e->base.mutex;
}

static void wake(const entry_t *e)
{
    simba_wake(e->base.store->base.loop,
               simba_session_mutex_name(e->base.mutex));
}

static bool is_mine(const entry_t *e, const struct simba__etcd_owner *owner)
{
    return owner->is_there &&
           simba__attempt_equal(owner->attempt, e->base.attempt);
}

/* --- sending ------------------------------------------------------------- */

static void send_full(entry_t *e);

static void finish(entry_t *e, int standing)
{
    simba_entry_done(&e->base, SIMBA_OK, NULL, (enum simba_standing)standing);
}

/* What earlier transactions of the step have left is there, even if this one
 * surely had no effect. */
static void fail(entry_t *e, int status, const simba_error *error)
{
    bool is_refused = status == SIMBA_EDENIED || status == SIMBA_EMISCONFIG;
    bool is_something_left =
        e->base.step == SIMBA_STEP_REMOVE
            ? !is_refused
            : e->base.state != SIMBA_KEY_PRESENT &&
                  (e->txn.waiter != 0 || is_mine(e, &e->owner));

    simba_error why = *error;

    e->is_doubted |= status == SIMBA_EUNKNOWN;
    why.code = is_something_left ? SIMBA_EUNKNOWN : status;
    simba_entry_done(&e->base, why.code, &why, SIMBA_STANDS_NOWHERE);
}

/* What every reply may tell. False: our session is over, and all begin anew. */
static bool take_view(entry_t *e)
{
    struct simba__etcd_transaction *txn = &e->txn;
    const char *asked = txn->asked[txn->reply.succeeded ? 0 : 1];

    if (strchr(asked, 's') != NULL &&
        simba__etcd_got(txn, 's')->create_revision != store_of(e)->create) {
        simba__etcd_session_end(store_of(e), "its lease has ended");
        return false;
    }
    if (strchr(asked, 'o') != NULL) {
        e->owner = simba__etcd_owner_read(simba__etcd_got(txn, 'o'));
    }
    if (strchr(asked, 't') != NULL) {
        e->has_no_token = simba__etcd_got(txn, 't')->mod_revision == 0;
        e->last_token = simba__etcd_token_read(simba__etcd_got(txn, 't'));
    }
    if (strchr(asked, 'w') != NULL) {
        e->waiting_mod = simba__etcd_got(txn, 'w')->mod_revision;
        e->is_queue_empty = txn->ranges[0].count == 0;
    }
    return true;
}

static void on_reply(struct simba__rpc *rpc,
                     int status,
                     const simba_error *error)
{
    entry_t *e = container_of(rpc, entry_t, txn.rpc);

    if (status == SIMBA_OK) {
        simba__etcd_take(&e->txn);
        if (take_view(e)) {
            e->taken(e);
        }
    } else if (error->native == NOT_FOUND) {
        simba__etcd_session_end(store_of(e), "its lease is not found");
    } else if (error->native == NO_SPACE && !e->is_full) {
        e->is_full = true;
        send_full(e);
    } else {
        fail(e, status, error);
    }
    simba_entry_drop(&e->base);
}

static struct simba__etcd_transaction *begin(entry_t *e)
{
    e->txn.self = store_of(e);
    e->txn.mutex = simba_session_mutex_name(e->base.mutex);
    e->txn.attempt = e->base.attempt;
    e->txn.before = e->before;
    simba__etcd_begin(&e->txn);
    return &e->txn;
}

/* Sends what was written: the next transaction of this step, whose reply is
 * `taken`. */
static void send(entry_t *e, void (*taken)(entry_t *e))
{
    simba_error error;

    assert(e->base.mutex != NULL);
    if (++e->rounds > ROUNDS_MOST) {
        simba_error_set(&error, SIMBA_EUNAVAIL, 0,
                        "etcd: the mutex changes faster than it can be asked");
        fail(e, SIMBA_EUNAVAIL, &error);
        return;
    }
    e->taken = taken;
    e->sent_ms = simba_loop_now_ms();
    simba_entry_hold(&e->base);
    simba__etcd_submit(
        &e->txn, e->base.acquire != NULL ? e->base.acquire : e->base.release,
        REMOVE_MS, on_reply);
}

/* --- what was seen of an owner ------------------------------------------- */

static void note_sighting(entry_t *e, int64_t beat_mod)
{
    simba__etcd_sighting_note(&mutex_of(e)->sighting, &e->owner, beat_mod);
}

/* --- granting ------------------------------------------------------------ */

static void decide(entry_t *e);
static void send_look(entry_t *e);

static void clear_watches(entry_t *e)
{
    struct simba__etcd *self = store_of(e);

    if (e->is_settling) {
        e->is_settling = false;
        simba_entry_drop(&e->base);
    }
    simba_timer_clear(self->base.base.loop, &e->evicting);
    for (int i = 0; i < SIMBA__ETCD_WATCHES; i++) {
        simba__etcd_watch_clear(self, &e->watches[i]);
    }
}

/* Not in the queue any more. A number that may come late stays taken. */
static void clear_waiter(entry_t *e)
{
    clear_watches(e);
    free(e->before);
    e->before = NULL;
    e->txn.waiter = e->is_doubted ? e->txn.waiter : 0;
    e->txn.create = e->before_create = e->free_ms = 0;
    e->is_second = e->base.is_head = false;
    e->base.position = 0;
}

/* Neither in the queue nor an owner. */
static void stands(entry_t *e, int standing)
{
    clear_waiter(e);
    e->base.token = 0;
    e->is_owner = false;
    finish(e, standing);
}

static void refuse(entry_t *e, int64_t wait_ms)
{
    e->base.owner = simba__etcd_owner_told(&e->owner);
    e->base.wait_ms = wait_ms < e->owner.lease_ms || !e->owner.is_there
                          ? wait_ms
                          : e->owner.lease_ms;
    stands(e, SIMBA_STANDS_NOWHERE);
}

/* Certain from since_ms on, when the key was sent. */
static void owns(entry_t *e)
{
    clear_waiter(e);
    e->is_owner = true;
    e->base.token = e->mine.token;
    e->base.owner = simba__etcd_owner_told(&e->mine);
    finish(e, SIMBA_STANDS_FIRST);
}

/* The conditions that all writes of an attempt share: it was not undone, and
 * our session is the one that it began with. */
static void if_alive(entry_t *e)
{
    simba__etcd_if(&e->txn, 'x', SIMBA__ETCD_CREATE, 0);
    simba__etcd_if(&e->txn, 's', SIMBA__ETCD_CREATE, store_of(e)->create);
}

static void take_refresh(entry_t *e)
{
    if (e->txn.reply.succeeded) {
        e->since_ms = e->sent_ms;
        owns(e);
    } else {
        stands(e, SIMBA_STANDS_VANISHED);
    }
}

/* The same key again, so that the lease runs from now. */
static void send_refresh(entry_t *e)
{
    struct simba__etcd_transaction *txn = begin(e);
    char value[SIMBA__ETCD_KEY_SIZE];

    simba__etcd_owner_write(&e->mine, value);
    simba__etcd_if_value(txn, 'o', SIMBA__ETCD_EQUAL, value);
    if_alive(e);
    e->mine.session = (uint64_t)store_of(e)->lease;
    e->mine.lease_ms = e->base.lease_ms;
    simba__etcd_owner_write(&e->mine, value);
    simba__etcd_do_put(txn, THEN, 'o', value);
    simba__etcd_do_get(txn, ELSE, "s");
    send(e, take_refresh);
}

static void take_grant(entry_t *e)
{
    if (e->txn.reply.succeeded) {
        owns(e);
        return;
    }
    e->base.token = 0;
    if (is_mine(e, &e->owner) && !e->owner.is_broken) { /* and was not told */
        e->mine = e->owner;
        e->base.token = e->mine.token;
        e->since_ms = 0; /* nobody knows which one was carried out */
        send_refresh(e);
    } else if (simba__etcd_got(&e->txn, 'x')->mod_revision != 0) {
        refuse(e, 0);
    } else if (e->txn.create == 0) {
        e->was_tried = false;
        decide(e);
    } else if (simba__etcd_got(&e->txn, 'q')->create_revision !=
               e->txn.create) {
        stands(e, SIMBA_STANDS_VANISHED);
    } else {
        send_look(e); /* with the owner's heartbeat */
    }
}

/* The owner's key is as it was seen: absent, or of one that has been silent for
 * its lease. By its value too: after a restore revisions come again. */
static void if_silent(entry_t *e)
{
    struct simba__etcd_transaction *txn = &e->txn;
    char value[SIMBA__ETCD_KEY_SIZE];

    simba__etcd_if(txn, 'o', SIMBA__ETCD_MOD, e->owner.mod);
    if (e->owner.is_there && !e->owner.is_unreadable) {
        simba__etcd_owner_write(&e->owner, value);
        simba__etcd_if_value(txn, 'o', SIMBA__ETCD_EQUAL, value);
    }
    if (e->owner.is_there && !e->owner.is_broken) {
        txn->session = (int64_t)e->owner.session;
        simba__etcd_if(txn, 'S', SIMBA__ETCD_MOD,
                       mutex_of(e)->sighting.beat_mod);
    }
}

/* Take the mutex: free, or as it was seen of a silent owner; as the first of
 * the queue, or where nobody waits. */
static void send_grant(entry_t *e)
{
    struct simba__etcd_transaction *txn = begin(e);
    bool is_queued = txn->create != 0;
    char value[SIMBA__ETCD_KEY_SIZE], token[24];

    e->mine = (struct simba__etcd_owner){
        .is_there = true,
        .attempt = e->base.attempt,
        .token = simba__etcd_next_token(e->last_token, e->base.acquire),
        .session = (uint64_t)store_of(e)->lease,
        .lease_ms = e->base.lease_ms,
        .acquired_at_ms = simba__etcd_wall_us() / 1000};
    memcpy(e->mine.id, e->base.id, sizeof e->mine.id);
    e->base.token = e->mine.token; /* should the reply be lost */
    e->since_ms = simba_loop_now_ms();
    snprintf(token, sizeof token, "%016llx", (long long)e->mine.token);
    if_silent(e);
    if (is_queued) {
        simba__etcd_if(txn, 'q', SIMBA__ETCD_CREATE, txn->create);
    } else {
        simba__etcd_if(txn, 'w', SIMBA__ETCD_MOD, e->waiting_mod);
    }
    if_alive(e);
    if (e->has_no_token) {
        simba__etcd_if(txn, 't', SIMBA__ETCD_CREATE, 0);
    } else {
        simba__etcd_if_value(txn, 't', SIMBA__ETCD_LESS, token);
    }
    simba__etcd_owner_write(&e->mine, value);
    simba__etcd_do_put(txn, THEN, 'o', value);
    simba__etcd_do_put(txn, THEN, 't', token);
    if (is_queued || e->waiting_mod != 0) {
        simba__etcd_do_delete(txn, is_queued ? 'q' : 'w');
    }
    if (e->was_tried) { /* by what was kept of it */
        simba__etcd_do_delete(txn, 'v');
    }
    simba__etcd_do_get(txn, ELSE, is_queued ? "otxsq" : "otxswR");
    send(e, take_grant);
}

/* --- waiting ------------------------------------------------------------- */

static void send_join(entry_t *e);

static void take_join(entry_t *e)
{
    const simba__etcd_kv *waiter = simba__etcd_got(&e->txn, 'q');
    struct simba__etcd_owner who = simba__etcd_owner_read(waiter);

    if (e->txn.reply.succeeded) {
        e->txn.create = e->txn.reply.header.revision;
        send_look(e);
    } else if (simba__etcd_got(&e->txn, 'x')->mod_revision != 0) {
        refuse(e, 0);
    } else if (is_mine(e, &who)) { /* and we were not told */
        e->txn.create = waiter->create_revision;
        send_look(e);
    } else { /* one that came late has our number */
        e->txn.waiter = simba__etcd_free_number(&e->base);
        send_join(e);
    }
}

/* Under the number of an earlier join that was not answered. */
static void send_join(entry_t *e)
{
    struct simba__etcd_transaction *txn = begin(e);
    struct simba__etcd_owner waiter = {.attempt = e->base.attempt,
                                       .acquired_at_ms =
                                           simba__etcd_wall_us() / 1000};
    char value[SIMBA__ETCD_KEY_SIZE];

    memcpy(waiter.id, e->base.id, sizeof waiter.id);
    simba__etcd_owner_write(&waiter, value);
    txn->waiter =
        txn->waiter != 0 ? txn->waiter : simba__etcd_free_number(&e->base);
    simba__etcd_if(txn, 'q', SIMBA__ETCD_CREATE, 0);
    if_alive(e);
    simba__etcd_do_put(txn, THEN, 'q', value);
    simba__etcd_do_put(txn, THEN, 'w', "");
    simba__etcd_do_get(txn, ELSE, "qxs");
    send(e, take_join);
}

/* Where we stand, by the keys made up to ours, the newest first. False: ours is
 * not there. */
static bool take_order(entry_t *e)
{
    simba__etcd_kv mine, before = {0}, first;
    simba__etcd_list *order = &e->txn.ranges[0];

    if (!simba__etcd_next(order, &mine) ||
        mine.create_revision != e->txn.create) {
        return false;
    }
    e->base.is_head = !simba__etcd_next(order, &before);
    e->is_second = !e->base.is_head && !simba__etcd_next(order, &first);
    e->before_create = before.create_revision;
    e->before_attempt = simba__etcd_owner_read(&before).attempt;
    e->base.position = (uint64_t)e->txn.create;
    free(e->before);
    e->before =
        e->base.is_head ? NULL : strndup(before.key.at, before.key.length);
    return e->base.is_head || e->before != NULL;
}

/* A key of a living session that is not the first stays, and who goes from
 * before it is told. The foremost of this process looks for itself. */
static bool is_confirmed(const simba_entry *entry, void *foremost)
{
    return entry != foremost && !entry->is_head &&
           ((const entry_t *)entry)->watches[SIMBA__ETCD_BEFORE].is_sure;
}

/* It is in the queue, and knows where. */
static void take_owner(entry_t *e)
{
    simba_entry *foremost = e->base.mutex->entries;

    while (of(foremost)->txn.create == 0) { /* ours is not 0 */
        foremost = foremost->next;
    }
    simba_session_confirm(e->base.mutex, is_confirmed, foremost);
    e->base.is_unwatched = e->is_before_gone;
    if (e->owner.is_there) {
        note_sighting(e, (int64_t)e->owner.session == e->txn.session
                             ? simba__etcd_got(&e->txn, 'S')->mod_revision
                             : -1);
    }
    decide(e);
}

static void take_look(entry_t *e)
{
    if (take_order(e)) {
        take_owner(e);
    } else {
        stands(e, SIMBA_STANDS_VANISHED);
    }
}

/* By the whole queue, which a server reads from end to end. Who goes from
 * before us while this is under way makes us look again. */
static void send_look(entry_t *e)
{
    struct simba__etcd_transaction *txn = begin(e);

    e->base.is_unwatched = e->is_before_gone = false;
    txn->session = (int64_t)e->owner.session;
    simba__etcd_do_get(txn, THEN, "RsoS");
    send(e, take_look);
}

/* Who was granted stood first, and nobody comes before those who wait. */
static void take_glance(entry_t *e)
{
    if (simba__etcd_got(&e->txn, 'q')->create_revision != e->txn.create) {
        stands(e, SIMBA_STANDS_VANISHED);
    } else if (e->before == NULL ||
               e->before_create ==
                   simba__etcd_got(&e->txn, 'p')->create_revision) {
        take_owner(e);
    } else if (e->owner.is_there &&
               simba__attempt_equal(e->owner.attempt, e->before_attempt)) {
        e->base.is_head = true;
        e->is_second = false;
        free(e->before);
        e->before = NULL;
        take_owner(e);
    } else {
        send_look(e);
    }
}

/* By the keys that matter to us alone. */
static void send_glance(entry_t *e)
{
    struct simba__etcd_transaction *txn = begin(e);

    e->base.is_unwatched = e->is_before_gone = false;
    txn->session = (int64_t)e->owner.session;
    simba__etcd_do_get(txn, THEN, e->before == NULL ? "qsoS" : "qpsoS");
    send(e, take_glance);
}

/* All watches that it needs are confirmed: a look now misses nothing. */
static bool is_watching(const entry_t *e)
{
    bool is_sure = true;

    for (int i = 0; i < SIMBA__ETCD_WATCHES; i++) {
        is_sure &= e->watches[i].key == NULL || e->watches[i].is_sure;
    }
    return is_sure;
}

/* A watch was set: go on, or if it was set again after a gap, ask. */
static void on_sure(entry_t *e)
{
    if (!e->is_settling) {
        wake(e);
    } else if (is_watching(e)) {
        e->is_settling = false;
        send_glance(e);
        simba_entry_drop(&e->base);
    }
}

static void on_evicting(simba_timer *timer)
{
    wake(container_of(timer, entry_t, evicting));
}

/* The first asks when the mutex becomes free. The second lets it go first, and
 * asks when that has not come in its time (S10). */
static void on_owner(entry_t *e, bool is_freed)
{
    if (e->base.is_head) {
        wake(e);
    } else {
        e->free_ms = is_freed ? simba_loop_now_ms() : 0;
        e->evicting.fire = on_evicting;
        simba_timer_set(e->base.store->base.loop, &e->evicting,
                        is_freed ? e->free_ms + SIMBA__OFFER_MS : INT64_MAX);
    }
}

static void on_change(struct simba__etcd_watched *watch,
                      const simba__etcd_event *event)
{
    entry_t *e = watch->user;
    bool is_gone = event != NULL && event->type == 1;

    if (event == NULL) {
        e->free_ms = 0;
        on_sure(e);
    } else if (watch == &e->watches[SIMBA__ETCD_BEAT]) {
        note_sighting(e, is_gone ? 0 : event->kv.mod_revision);
    } else if (watch == &e->watches[SIMBA__ETCD_OWNER]) {
        on_owner(e, is_gone);
    } else if (is_gone) {
        e->base.is_unwatched = e->is_before_gone = true;
        wake(e);
    }
}

/* In the queue, and not to be granted now: watch what has to be watched, look
 * once more when that is sure, and wait. */
static void settle(entry_t *e, int64_t wait_ms)
{
    bool is_near = e->base.is_head || e->is_second;
    bool has_beat = e->base.is_head && e->owner.is_there && !e->owner.is_broken;
    char owner[SIMBA__ETCD_KEY_SIZE], beat[SIMBA__ETCD_KEY_SIZE];
    const char *const keys[] = {
        [SIMBA__ETCD_BEFORE] = e->before,
        [SIMBA__ETCD_OWNER] = is_near ? owner : NULL,
        [SIMBA__ETCD_BEAT] = has_beat ? beat : NULL,
    };

    e->txn.session = (int64_t)e->owner.session;
    simba__etcd_key(&e->txn, 'o', owner);
    simba__etcd_key(&e->txn, 'S', beat);
    for (int i = 0; i < SIMBA__ETCD_WATCHES; i++) {
        e->watches[i].changed = on_change;
        e->watches[i].user = e;
        if (!simba__etcd_watch_set(store_of(e), &e->watches[i], keys[i])) {
            wait_ms = SIMBA__OFFER_MS; /* no memory: by looking, then */
        }
    }
    if (!is_watching(e)) {
        e->is_settling = true;
        simba_entry_hold(&e->base);
    } else {
        e->base.owner = simba__etcd_owner_told(&e->owner);
        e->base.wait_ms = wait_ms > 0 ? wait_ms : 1;
        finish(e, SIMBA_STANDS_BEHIND);
    }
}

/* --- who only tries ------------------------------------------------------ */

static void take_tried(entry_t *e)
{
    e->was_tried = true;
    note_sighting(e, simba__etcd_got(&e->txn, 'S')->mod_revision);
    e->is_sighting_kept = simba__etcd_sighting_read(
        &mutex_of(e)->sighting, simba__etcd_got(&e->txn, 'v'));
    decide(e);
}

/* Nobody must be held up by the dead: look whether the owner lives. */
static void send_tried(entry_t *e)
{
    struct simba__etcd_transaction *txn = begin(e);

    txn->session = (int64_t)e->owner.session;
    simba__etcd_do_get(txn, THEN, "Sv");
    send(e, take_tried);
}

static void take_kept(entry_t *e)
{
    e->is_sighting_kept = true;
    decide(e);
}

static void send_sighting(entry_t *e)
{
    char value[SIMBA__ETCD_SIGHTING];

    simba__etcd_sighting_write(&mutex_of(e)->sighting, value);
    simba__etcd_do_put(begin(e), THEN, 'v', value);
    send(e, take_kept);
}

/* --- deciding ------------------------------------------------------------ */

/* The first in the queue has left the mutex free for the time of an offer: its
 * key is removed, and it begins anew if it lives. */
static void send_eviction(entry_t *e)
{
    struct simba__etcd_transaction *txn = begin(e);

    simba__etcd_if(txn, 'o', SIMBA__ETCD_CREATE, 0);
    simba__etcd_if(txn, 'p', SIMBA__ETCD_CREATE, e->before_create);
    simba__etcd_do_delete(txn, 'p');
    send(e, send_look);
}

/* By what was seen last: take it, join the queue, wait, or be refused. */
static void decide(entry_t *e)
{
    int64_t now_ms = simba_loop_now_ms();
    int64_t silent_ms =
        simba__etcd_silent_in_ms(&mutex_of(e)->sighting, &e->owner);
    bool is_queued = e->txn.create != 0;
    bool is_next =
        is_queued ? e->base.is_head : e->waiting_mod == 0 || e->is_queue_empty;

    if (!e->is_second || e->owner.is_there ||
        !e->watches[SIMBA__ETCD_OWNER].is_sure) {
        e->free_ms = 0;
    } else if (e->free_ms == 0) {
        e->free_ms = now_ms;
    }
    if (silent_ms <= 0 && is_next) {
        send_grant(e);
    } else if (e->free_ms != 0 && now_ms - e->free_ms >= SIMBA__OFFER_MS) {
        send_eviction(e);
    } else if (is_queued) {
        settle(e, silent_ms <= 0    ? SIMBA__OFFER_MS
                  : e->base.is_head ? silent_ms - SIMBA__ETCD_MARGIN_MS
                                    : e->base.lease_ms);
    } else if (e->base.acquire != NULL && e->base.acquire->join) {
        send_join(e);
    } else if (e->owner.is_there && !e->was_tried) {
        send_tried(e);
    } else if (e->owner.is_there && !e->is_sighting_kept) {
        send_sighting(e);
    } else {
        refuse(e, silent_ms <= 0 ? SIMBA__OFFER_MS : silent_ms);
    }
}

/* --- steps --------------------------------------------------------------- */

static entry_t *begin_step(simba_entry *entry)
{
    of(entry)->rounds = 0;
    of(entry)->is_full = false;
    return of(entry);
}

void simba__etcd_entry_put(simba_entry *entry)
{
    entry_t *e = begin_step(entry);

    e->was_tried = e->is_sighting_kept = e->is_queue_empty = false;
    e->waiting_mod = 0;
    e->owner = (struct simba__etcd_owner){0};
    (e->txn.create != 0 ? send_look : send_grant)(e); /* it may wait already */
}

void simba__etcd_entry_look(simba_entry *entry)
{
    entry_t *e = begin_step(entry);

    if (e->is_owner) {
        send_refresh(e);
        return;
    }
    if (e->is_before_gone && e->is_second) {
        e->base.is_head = true; /* who stood before us was the first */
        e->is_second = false;
    }
    if (e->base.is_head) { /* woken: most likely it is free */
        e->owner = (struct simba__etcd_owner){0};
        send_grant(e);
    } else if (e->is_before_gone) {
        send_glance(e);
    } else {
        send_look(e);
    }
}

/* --- removing ------------------------------------------------------------ */

static void send_free(entry_t *e);

/* Also of what may come late and was never asked to be undone. */
static void do_tombstone(entry_t *e, int branch)
{
    if (!e->is_full && (e->is_doubted || (e->base.release != NULL &&
                                          e->base.release->tombstone_ms > 0))) {
        simba__etcd_do_put(&e->txn, branch, 'x', "");
    }
}

/* As an owner it may have been written otherwise, or broken. */
static void take_removed(entry_t *e)
{
    if (is_mine(e, &e->owner)) {
        e->mine = e->owner;
        send_free(e);
    } else {
        stands(e, SIMBA_STANDS_NOWHERE);
    }
}

static void send_free(entry_t *e)
{
    struct simba__etcd_transaction *txn = begin(e);
    char value[SIMBA__ETCD_KEY_SIZE];

    e->owner = (struct simba__etcd_owner){0};
    simba__etcd_owner_write(&e->mine, value);
    simba__etcd_if_value(txn, 'o', SIMBA__ETCD_EQUAL, value);
    simba__etcd_do_delete(txn, 'o');
    do_tombstone(e, THEN);
    do_tombstone(e, ELSE);
    simba__etcd_do_get(txn, ELSE, "o");
    send(e, take_removed);
}

/* Of an owner by what it wrote; of a waiter, or of one that may be anything
 * after a lost reply, by looking. */
static void send_remove(entry_t *e)
{
    struct simba__etcd_transaction *txn = &e->txn;

    if (e->is_owner && e->base.state == SIMBA_KEY_PRESENT && !e->is_doubted) {
        send_free(e);
        return;
    }
    begin(e);
    if (txn->create != 0) {
        simba__etcd_if(txn, 'q', SIMBA__ETCD_CREATE, txn->create);
    }
    if (txn->waiter != 0) {
        simba__etcd_do_delete(txn, 'q');
    }
    for (int branch = THEN; branch <= ELSE; branch++) {
        do_tombstone(e, branch);
        simba__etcd_do_get(txn, branch, "o");
    }
    send(e, take_removed);
}

void simba__etcd_entry_remove(simba_entry *entry)
{
    clear_watches(begin_step(entry));
    send_remove(of(entry));
}

void simba__etcd_entry_forget(simba_entry *entry)
{
    entry_t *e = of(entry);
    bool was_open = e->txn.rpc.grpc != NULL;

    e->is_doubted = false; /* what comes late finds the session over */
    clear_waiter(e);
    simba__rpc_fini(&e->txn.rpc);
    if (was_open) {
        simba_entry_drop(entry);
    }
}

/* --- no space ------------------------------------------------------------ */

static void take_full(entry_t *e)
{
    const simba__etcd_kv *waiter = simba__etcd_got(&e->txn, 'q');
    struct simba__etcd_owner who = simba__etcd_owner_read(waiter);
    bool was_joining = e->txn.create == 0;
    simba_error error;

    if (is_mine(e, &e->owner) && e->owner.token == e->mine.token) {
        owns(e);
    } else if (was_joining && is_mine(e, &who)) {
        e->txn.create = waiter->create_revision;
        send_look(e);
    } else {
        if (was_joining) {
            clear_waiter(e);
        }
        simba_error_set(&error, SIMBA_EUNAVAIL, NO_SPACE,
                        "etcd: no space is left in the quota of the servers");
        fail(e, SIMBA_EUNAVAIL, &error);
    }
}

/* A server that answers so may have carried it out, but will not any more: look
 * what has come of it. What only deletes is carried out. */
static void send_full(entry_t *e)
{
    if (e->base.step == SIMBA_STEP_REMOVE) {
        send_remove(e); /* without tombstones */
    } else {
        simba__etcd_do_get(begin(e), THEN, "oq");
        send(e, take_full);
    }
}
