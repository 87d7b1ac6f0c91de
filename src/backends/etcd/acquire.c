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
    NOT_FOUND = 5,    /* gRPC's status for a lease that is over */
    NO_SPACE = 8,     /* and for a quota that is full */
};

typedef simba__etcd_entry entry_t;

static void go_on(entry_t *e, enum simba__etcd_action action);

/* --- how a step ends ----------------------------------------------------- */

/* What it owns, or may own after a lost reply, is kept. */
static void end_step(entry_t *e)
{
    simba__etcd_step *step = e->step;

    if (step != NULL) {
        e->is_owned = step->owner.is_there;
        simba__rpc_fini(&step->txn.rpc);
        if (!e->is_owner && e->base.token == 0) {
            free(step);
            e->step = NULL;
        }
    }
}

static void end(entry_t *e,
                int status,
                const simba_error *error,
                enum simba_standing standing)
{
    end_step(e);
    simba_entry_done(&e->base, status, error, standing);
}

/* Neither in the queue nor an owner. */
static void stands(entry_t *e, enum simba_standing standing)
{
    simba__etcd_leave_queue(e);
    e->base.token = 0;
    e->is_owner = false;
    end(e, SIMBA_OK, NULL, standing);
}

/* Certain from since_ms on, when the key was sent. */
static void owns(entry_t *e)
{
    simba__etcd_leave_queue(e);
    e->is_owner = true;
    e->step->owner.is_there = false;
    e->base.token = e->step->mine.token;
    simba__etcd_tell_owners(e);
    end(e, SIMBA_OK, NULL, SIMBA_STANDS_FIRST);
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
                  (e->is_joined || (e->step != NULL &&
                                    simba__etcd_is_mine(e, &e->step->owner)));

    why.code = is_left ? SIMBA_EUNKNOWN : why.code;
    if (simba__etcd_create_of(e) !=
        0) { /* who was to be looked for may have gone */
        simba_entry_unwatched(&e->base);
    }
    end(e, why.code, &why, SIMBA_STANDS_NOWHERE);
}

/* --- waiting ------------------------------------------------------------- */

/* How long until the owner may be taken over from, as far as was seen. */
static int64_t silent_in_ms(const entry_t *e)
{
    const simba__etcd_step *step = e->step;

    return !step->owner.is_there
               ? 0
               : simba_sighting_left_ms(&simba__etcd_mutex_of(e)->sighting,
                                        step->is_sighted ? step->owner.mod : -1,
                                        step->owner.lease_ms,
                                        simba_loop_now_ms());
}

/* In the queue, and not to be granted now: watch what has to be watched, look
 * once more behind what is watched only now, and wait. */
static void wait(entry_t *e)
{
    simba__etcd_mutex *mutex = simba__etcd_mutex_of(e);
    const simba__etcd_step *step = e->step;
    const simba__etcd_owner *seen = &step->owner;
    int64_t wait_ms = silent_in_ms(e);
    enum simba__etcd_set set = simba__etcd_watch_queue(e);

    wait_ms = wait_ms <= 0           ? SIMBA__OFFER_MS
              : !e->base.is_head     ? e->base.lease_ms
              : step->crowd_mod != 0 ? e->base.lease_ms / 4 /* has no beat */
                                     : wait_ms - SIMBA_SIGHTING_MARGIN_MS;
    if (e->base.is_head && mutex->freed_mod > e->revision) {
        go_on(e, GRANT); /* since it looked */
    } else if (set == IS_SET ||
               (e->base.is_head && seen->is_there && !step->is_sighted)) {
        go_on(e, LOOK);
    } else {
        simba__etcd_tell_owners(e);
        /* One of ours may be meant, whom no wake-up has reached. */
        if (simba__etcd_is_offer(seen) && e->base.acquire != NULL) {
            memcpy(e->base.acquire->reply.to, seen->id, sizeof seen->id);
        }
        wait_ms = set == NOT_SET ? SIMBA__OFFER_MS : wait_ms; /* no memory */
        e->base.wait_ms = wait_ms > 0 ? wait_ms : 1;
        end(e, SIMBA_OK, NULL, SIMBA_STANDS_BEHIND);
    }
}

static void refuse(entry_t *e)
{
    const simba__etcd_owner *owner = &e->step->owner;
    int64_t most_ms = owner->is_there ? owner->lease_ms : INT64_MAX;
    int64_t wait_ms = silent_in_ms(e);

    wait_ms = wait_ms > 0 ? wait_ms : SIMBA__OFFER_MS;
    wait_ms = wait_ms < most_ms ? wait_ms : most_ms;
    simba__etcd_tell_owners(e);
    e->base.wait_ms = e->step->is_undone ? 0 : wait_ms;
    stands(e, SIMBA_STANDS_NOWHERE);
}

/* --- what was seen ------------------------------------------------------- */

/* What a reply has told. False: our session is over, and all begin anew. */
static bool note(entry_t *e)
{
    simba__etcd_mutex *mutex = simba__etcd_mutex_of(e);
    simba__etcd_step *step = e->step;
    const simba__etcd_txn *txn = &step->txn;
    const char *asked = txn->asked[txn->is_done ? 0 : 1];
    simba__pb_bytes rest = txn->rpc.reply;
    simba__etcd_got got;

    while (*asked != '\0' && simba__etcd_next_got(&rest, &got)) {
        const simba__etcd_kv *kv = &got.kv;

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
            step->owner = simba__etcd_owner_read(kv);
            step->crowd_mod = step->owner.is_crowd ? kv->mod : 0;
            step->is_sighted = step->has_members = step->has_room = false;
            if (step->owner.is_there) {
                mutex->session = step->owner.session;
            }
            break;
        case 'M': /* after o */
            simba__etcd_note_members(e, &got);
            break;
        case 'S': /* after o */
            if (step->owner.is_there &&
                (step->owner.is_broken ||
                 (int64_t)step->owner.session == txn->session)) {
                simba__etcd_note_sighting(e, kv->mod);
                step->is_sighted = true;
            }
            break;
        case 't':
            step->granted_mod = kv->mod;
            step->was_named = kv->value.length > 16;
            mutex->has_no_token = kv->mod == 0;
            mutex->last_token = 0;
            for (size_t i = 0; i < kv->value.length && i < 16; i++) {
                mutex->last_token = mutex->last_token << 4 |
                                    (simba__text_hex(kv->value.at[i]) & 15);
            }
            break;
        case 'w':
            step->waiting_mod = kv->mod;
            break;
        case 'x':
            step->is_undone = kv->mod != 0;
            break;
        case 'q':
            simba__etcd_note_waiter(e, kv);
            break;
        case 'p':
            simba__etcd_note_before(e, kv);
            break;
        case 'v':
            step->is_kept = simba_sighting_read(&mutex->sighting, kv->value.at,
                                                kv->value.length);
            break;
        case 'R': /* after p */
            step->is_queue_empty = got.count == 0;
            if (txn->create != 0) { /* it was up to this */
                simba__etcd_note_order(e, &got);
            }
            break;
        default:
            break;
        }
    }
    return true;
}

/* What follows from what was seen. */
static enum simba__etcd_action decide(const entry_t *e)
{
    const simba__etcd_step *step = e->step;
    bool is_queued = simba__etcd_create_of(e) != 0;
    bool joins = !is_queued && e->base.acquire != NULL && e->base.acquire->join;
    bool is_next = is_queued ? e->base.is_head
                             : step->waiting_mod == 0 || step->is_queue_empty;

    if (step->is_undone) {
        return REFUSE;
    }
    if (simba__etcd_is_mine(e, &step->owner) && !step->owner.is_broken &&
        step->owner.token != 0) {
        return REFRESH;
    }
    if (step->is_vanished || (step->is_full && !is_queued)) {
        return step->is_vanished ? VANISH : FAIL;
    }
    if ((is_queued && !e->has_order) ||
        (step->crowd_mod != 0 && !step->has_members)) {
        return LOOK;
    }
    if (is_queued && simba__etcd_is_offered(e, &step->owner)) {
        return GRANT;
    }
    if (step->crowd_mod != 0 && !(is_next && step->has_room) &&
        silent_in_ms(e) <= 0) { /* the first may know of one owner only */
        return OUST;
    }
    if (is_next && (step->has_room || silent_in_ms(e) <= 0)) {
        return step->sent != GRANT || step->refusals < 2 ? GRANT
               : joins ? JOIN /* lest others pass it for ever */
                       : LOOK;
    }
    if (is_queued) {
        return simba__etcd_is_first_silent(e) ? EVICT : WAIT;
    }
    if (joins) {
        return JOIN;
    }
    if (!step->has_looked) {
        return LOOK;
    }
    return step->is_sighted && !step->is_kept &&
                   simba__etcd_of(e)->clock_id[0] != '\0'
               ? KEEP
               : REFUSE;
}

/* --- what follows ------------------------------------------------------- */

/* A server that says there is no space may have carried it out, but will not
 * any more: look what has come of it. What only deletes is carried out. */
static void on_reply(simba__etcd_txn *txn, int status, const simba_error *error)
{
    simba__etcd_step *step = container_of(txn, simba__etcd_step, txn);
    entry_t *e = step->entry;
    simba__etcd_mutex *mutex = simba__etcd_mutex_of(e);
    enum simba__etcd_action sent = (enum simba__etcd_action)step->sent;
    int native = status == SIMBA_OK ? 0 : error->native;

    e->revision = status == SIMBA_OK ? txn->revision : e->revision;
    if (native == NOT_FOUND && !simba__etcd_of(e)->is_closing) {
        simba__etcd_session_end(simba__etcd_of(e), "its lease is not found");
    } else if ((native == NO_SPACE && !step->is_full) ||
               (native == NOT_FOUND && sent == REMOVE)) {
        step->is_full |= native == NO_SPACE;
        go_on(e, sent == REMOVE ? sent : LOOK);
    } else if (status != SIMBA_OK) {
        fail(e, error);
    } else if (!note(e)) {
        /* forgotten */
    } else if (txn->is_done && (sent == GRANT || sent == REFRESH)) {
        step->since_ms = txn->rpc.exchange.sent_ms;
        owns(e);
    } else if (sent == REFRESH) {
        stands(e, SIMBA_STANDS_VANISHED);
    } else if (sent == REMOVE && txn->is_done &&
               simba__etcd_heir_of(e) != NULL && simba__etcd_name_heir(e)) {
        go_on(e, NAME);
    } else if (sent == NAME ||
               (sent == REMOVE && !simba__etcd_is_mine(e, &step->owner))) {
        stands(e, SIMBA_STANDS_NOWHERE);
    } else if (sent == REMOVE) { /* written otherwise, or broken */
        step->mine = step->owner;
        e->is_owner = true;
        go_on(e, REMOVE);
    } else if (sent == OUST) {
        go_on(e, LOOK);
    } else {
        if (sent == GRANT) {
            e->base.token = 0;
            step->refusals++;
        } else if (sent == JOIN && txn->is_done) {
            simba__etcd_note_joined(e);
        } else if (sent == LOOK && simba__etcd_create_of(e) != 0 &&
                   e->base.mutex->looker == &e->base) {
            simba__etcd_confirm(e); /* for all who ask in case */
        }
        step->has_looked = sent == LOOK || (step->has_looked && sent != GRANT);
        e->has_order &= sent != EVICT;
        step->is_kept |= sent == KEEP;
        if (step->owner.is_there || mutex->owner.sure_revision == 0) {
            mutex->free_ms = 0;
        } else if (mutex->free_ms == 0) {
            mutex->free_ms = simba_loop_now_ms();
        }
        go_on(e, decide(e));
    }
    simba_entry_drop(&e->base);
}

/* What its next transaction is about, but for a successor, which was found. */
static void set_names(entry_t *e)
{
    const simba__etcd_mutex *mutex = simba__etcd_mutex_of(e);
    simba__etcd_txn *txn = &e->step->txn;

    txn->self = simba__etcd_of(e);
    txn->mutex = simba_session_mutex_name(&mutex->base);
    txn->attempt = e->base.attempt;
    txn->member = e->step->mine.name;
    txn->number = e->is_joined ? e->base.number : 0;
    txn->create = simba__etcd_create_of(e);
    txn->is_whole = simba__etcd_is_overdue(mutex);
    if (e->before != NULL) {
        txn->before = e->before->who;
    }
    if (mutex->first != NULL) {
        txn->first = mutex->first->who;
    }
}

static void go_on(entry_t *e, enum simba__etcd_action action)
{
    simba__etcd_step *step = e->step;
    simba_error error;

    if (action == WAIT) {
        wait(e);
    } else if (action == REFUSE) {
        refuse(e);
    } else if (action == VANISH) {
        stands(e, SIMBA_STANDS_VANISHED);
    } else if (action == FAIL) {
        simba__etcd_leave_queue(e);
        simba_error_set(&error, SIMBA_EUNAVAIL, NO_SPACE,
                        "etcd: no space is left in the quota of the servers");
        fail(e, &error);
    } else if (++step->rounds > ROUNDS_MOST) {
        simba_error_set(&error, SIMBA_EUNAVAIL, 0,
                        "etcd: the mutex changes faster than it can be asked");
        fail(e, &error);
    } else {
        step->sent = (int)action;
        step->txn.done = on_reply;
        set_names(e);
        simba__etcd_write(e, action);
        simba_entry_hold(&e->base);
        simba__etcd_submit(&step->txn,
                           e->base.acquire != NULL ? e->base.acquire
                                                   : e->base.release,
                           REMOVE_MS);
    }
}

/* --- steps --------------------------------------------------------------- */

/* NULL: no memory, and it has failed. */
static entry_t *begin_step(simba_entry *entry)
{
    entry_t *e = (entry_t *)entry;
    simba__etcd_step *step = e->step;
    simba_error error;

    if (step == NULL) {
        step = e->step = calloc(1, sizeof *step);
    }
    if (step == NULL) {
        simba_error_set(&error, SIMBA_ENOMEM, 0, "etcd: no memory");
        fail(e, &error);
        return NULL;
    }
    *step = (simba__etcd_step){.entry = e,
                               .owner = step->owner,
                               .mine = step->mine,
                               .since_ms = step->since_ms};
    if (entry->acquire != NULL) {
        memcpy(step->id, entry->acquire->id, strlen(entry->acquire->id) + 1);
    }
    return e;
}

/* Who waits with others of this process need not try: somebody waits. */
void simba__etcd_entry_put(simba_entry *entry)
{
    entry_t *e = begin_step(entry);

    if (e != NULL) {
        bool joins =
            simba__etcd_mutex_of(e)->waiting > 0 && entry->acquire->join;

        e->step->owner = (simba__etcd_owner){0};
        go_on(e, simba__etcd_create_of(e) != 0 ? LOOK /* it waits */
                 : joins                       ? JOIN
                                               : GRANT);
    }
}

/* The first was woken: most likely the mutex is free. Who will be the first
 * watches the owner before it looks. */
void simba__etcd_entry_look(simba_entry *entry)
{
    entry_t *e = begin_step(entry);

    if (e == NULL) {
        return;
    }
    e->has_order &= entry->acquire == NULL || !entry->acquire->is_backstop;
    e->has_order &= simba__etcd_knows_first(e) ||
                    !simba__etcd_is_overdue(simba__etcd_mutex_of(e));
    if (e->is_owner) {
        go_on(e, REFRESH);
    } else if (simba__etcd_is_offered(e, &e->step->owner)) {
        go_on(e, GRANT);
    } else if (entry->is_head) {
        e->step->owner = (simba__etcd_owner){0};
        go_on(e, GRANT);
    } else {
        if (entry->is_unwatched) {
            (void)simba__etcd_watch_owner(e);
        }
        go_on(e, LOOK);
    }
}

void simba__etcd_entry_remove(simba_entry *entry)
{
    entry_t *e = begin_step(entry);

    if (e != NULL) {
        simba__etcd_clear_before(e);
        e->is_owner &= entry->state == SIMBA_KEY_PRESENT && !entry->is_doubted;
        go_on(e, REMOVE);
    }
}

static void drop_step(entry_t *e)
{
    bool was_open = e->step != NULL && e->step->txn.rpc.grpc != NULL;

    e->base.is_doubted = false; /* what comes late finds the session over */
    simba__etcd_leave_queue(e);
    end_step(e);
    if (was_open) {
        simba_entry_drop(&e->base);
    }
}

static void forget_members(simba__etcd_mutex *mutex)
{
    free(mutex->seen);
    mutex->seen = NULL;
    mutex->seen_count = 0;
}

void simba__etcd_entry_lose(simba_entry *entry)
{
    forget_members((simba__etcd_mutex *)entry->mutex);
    drop_step((entry_t *)entry);
}

void simba__etcd_entry_forget(simba_entry *entry)
{
    if (entry->mutex->entries == entry && entry->next == NULL) { /* the last */
        forget_members((simba__etcd_mutex *)entry->mutex);
    }
    ((entry_t *)entry)->is_owner = false;
    entry->token = 0;
    drop_step((entry_t *)entry);
}
