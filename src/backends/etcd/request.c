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
#include "backends/etcd/step.h"

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

/* --- sending ------------------------------------------------------------- */

static void send_full(entry_t *e);

void simba__etcd_step_finish(entry_t *e, int standing)
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

struct simba__etcd_transaction *simba__etcd_step_begin_txn(entry_t *e)
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
void simba__etcd_step_send(entry_t *e, void (*taken)(entry_t *e))
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

/* --- granting ------------------------------------------------------------ */

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
void simba__etcd_step_stands(entry_t *e, int standing)
{
    clear_waiter(e);
    e->base.token = 0;
    e->is_owner = false;
    simba__etcd_step_finish(e, standing);
}

void simba__etcd_step_refuse(entry_t *e, int64_t wait_ms)
{
    e->base.owner = simba__etcd_owner_told(&e->owner);
    e->base.wait_ms = wait_ms < e->owner.lease_ms || !e->owner.is_there
                          ? wait_ms
                          : e->owner.lease_ms;
    simba__etcd_step_stands(e, SIMBA_STANDS_NOWHERE);
}

/* Certain from since_ms on, when the key was sent. */
static void owns(entry_t *e)
{
    clear_waiter(e);
    e->is_owner = true;
    e->base.token = e->mine.token;
    e->base.owner = simba__etcd_owner_told(&e->mine);
    simba__etcd_step_finish(e, SIMBA_STANDS_FIRST);
}

/* The conditions that all writes of an attempt share: it was not undone, and
 * our session is the one that it began with. */
void simba__etcd_step_if_alive(entry_t *e)
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
        simba__etcd_step_stands(e, SIMBA_STANDS_VANISHED);
    }
}

/* The same key again, so that the lease runs from now. */
static void send_refresh(entry_t *e)
{
    struct simba__etcd_transaction *txn = simba__etcd_step_begin_txn(e);
    char value[SIMBA__ETCD_KEY_SIZE];

    simba__etcd_owner_write(&e->mine, value);
    simba__etcd_if_value(txn, 'o', SIMBA__ETCD_EQUAL, value);
    simba__etcd_step_if_alive(e);
    e->mine.session = (uint64_t)store_of(e)->lease;
    e->mine.lease_ms = e->base.lease_ms;
    simba__etcd_owner_write(&e->mine, value);
    simba__etcd_do_put(txn, THEN, 'o', value);
    simba__etcd_do_get(txn, ELSE, "s");
    simba__etcd_step_send(e, take_refresh);
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
        simba__etcd_step_refuse(e, 0);
    } else if (e->txn.create == 0) {
        e->was_tried = false;
        simba__etcd_step_decide(e);
    } else if (simba__etcd_got(&e->txn, 'q')->create_revision !=
               e->txn.create) {
        simba__etcd_step_stands(e, SIMBA_STANDS_VANISHED);
    } else {
        simba__etcd_step_look(e); /* with the owner's heartbeat */
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
    struct simba__etcd_transaction *txn = simba__etcd_step_begin_txn(e);
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
    simba__etcd_step_if_alive(e);
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
    simba__etcd_step_send(e, take_grant);
}

/* --- deciding ------------------------------------------------------------ */

/* The first in the queue has left the mutex free for the time of an offer: its
 * key is removed, and it begins anew if it lives. */
static void send_eviction(entry_t *e)
{
    struct simba__etcd_transaction *txn = simba__etcd_step_begin_txn(e);

    simba__etcd_if(txn, 'o', SIMBA__ETCD_CREATE, 0);
    simba__etcd_if(txn, 'p', SIMBA__ETCD_CREATE, e->before_create);
    simba__etcd_do_delete(txn, 'p');
    simba__etcd_step_send(e, simba__etcd_step_look);
}

/* By what was seen last: take it, join the queue, wait, or be refused. */
void simba__etcd_step_decide(entry_t *e)
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
        simba__etcd_step_settle(e, silent_ms <= 0 ? SIMBA__OFFER_MS
                                   : e->base.is_head
                                       ? silent_ms - SIMBA__ETCD_MARGIN_MS
                                       : e->base.lease_ms);
    } else if (e->base.acquire != NULL && e->base.acquire->join) {
        simba__etcd_step_join(e);
    } else if (e->owner.is_there && !e->was_tried) {
        simba__etcd_step_try(e);
    } else if (e->owner.is_there && !e->is_sighting_kept) {
        simba__etcd_step_keep_sighting(e);
    } else {
        simba__etcd_step_refuse(e,
                                silent_ms <= 0 ? SIMBA__OFFER_MS : silent_ms);
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
    (e->txn.create != 0 ? simba__etcd_step_look
                        : send_grant)(e); /* it may wait already */
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
        simba__etcd_step_glance(e);
    } else {
        simba__etcd_step_look(e);
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
        simba__etcd_step_stands(e, SIMBA_STANDS_NOWHERE);
    }
}

static void send_free(entry_t *e)
{
    struct simba__etcd_transaction *txn = simba__etcd_step_begin_txn(e);
    char value[SIMBA__ETCD_KEY_SIZE];

    e->owner = (struct simba__etcd_owner){0};
    simba__etcd_owner_write(&e->mine, value);
    simba__etcd_if_value(txn, 'o', SIMBA__ETCD_EQUAL, value);
    simba__etcd_do_delete(txn, 'o');
    do_tombstone(e, THEN);
    do_tombstone(e, ELSE);
    simba__etcd_do_get(txn, ELSE, "o");
    simba__etcd_step_send(e, take_removed);
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
    simba__etcd_step_begin_txn(e);
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
    simba__etcd_step_send(e, take_removed);
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
        simba__etcd_step_look(e);
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
        simba__etcd_do_get(simba__etcd_step_begin_txn(e), THEN, "oq");
        simba__etcd_step_send(e, take_full);
    }
}
