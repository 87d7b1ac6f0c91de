/* The transactions of an entry: their conditions, what they write, and what
 * they read for the next step. README.md has them in a table. */
#define _GNU_SOURCE
#include "backends/etcd/etcd.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONG = 64 }; /* queues are not counted each time */

typedef simba__etcd_entry entry_t;

/* What all writes of an attempt depend on: it was not undone, and our session
 * is the one that it began with. */
static void if_alive(entry_t *e)
{
    simba__etcd_if(&e->txn, 'x', CREATE, 0, NULL);
    simba__etcd_if(&e->txn, 's', CREATE, simba__etcd_of(e)->create, NULL);
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
                                  .session = (uint64_t)simba__etcd_of(e)->lease,
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
        simba__etcd_if(txn, 'S', MOD, simba__etcd_mutex_of(e)->sighting.beat,
                       NULL);
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
    if (simba__etcd_is_mine(e, &e->owner)) { /* and was not told */
        e->mine = e->owner;
        e->base.token = e->mine.token;
    }
    simba__etcd_if(&e->txn, 'o', VALUE, 0, e->mine.text);
    if_alive(e);
    e->mine.session = (uint64_t)simba__etcd_of(e)->lease;
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
                    simba__etcd_mutex_of(e)->ahead > LONG ? "w" : "wN");
    memcpy(waiter.id, e->base.id, sizeof waiter.id);
    simba__etcd_put(&e->txn, THEN, 'q', simba__etcd_owner_write(&waiter));
    snprintf(waiter.id, sizeof waiter.id, "%" PRIx64 "-%u",
             (uint64_t)simba__etcd_of(e)->lease, e->txn.number);
    simba__etcd_put(&e->txn, THEN, 'w', simba__etcd_owner_write(&waiter));
    simba__etcd_get(&e->txn, ELSE, "qxs");
}

/* By the keys that matter to us, and if these do not tell by the whole queue,
 * which a server reads from end to end. */
static void write_look(entry_t *e)
{
    char letters[SIMBA__ETCD_ASKED + 1];

    e->txn.is_whole = simba__etcd_is_overdue(simba__etcd_mutex_of(e));
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
        !e->is_full && !simba__etcd_of(e)->is_closing &&
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
    simba__etcd_if(&e->txn, 'f', CREATE, e->first_create, NULL);
    simba__etcd_delete(&e->txn, 'f');
}

static void write_kept(entry_t *e)
{
    char text[SIMBA_SIGHTING_TEXT];

    simba_sighting_write(&simba__etcd_mutex_of(e)->sighting, text);
    simba__etcd_put(&e->txn, THEN, 'v', text);
}

void simba__etcd_write(simba__etcd_entry *e, enum simba__etcd_action action)
{
    static void (*const write[])(entry_t *) = {
        [GRANT] = write_grant,  [REFRESH] = write_refresh, [JOIN] = write_join,
        [LOOK] = write_look,    [EVICT] = write_eviction,  [KEEP] = write_kept,
        [REMOVE] = write_remove};

    write[action](e);
}
