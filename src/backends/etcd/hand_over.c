/* Handing over. An owner is asked by what is written in its key, which makes
 * its next renewal fail and read it. What it releases to a successor is not
 * deleted: it becomes an offer, an owner without a token whose lease is that of
 * an offer (300 ms) and is not renewed. It names the successor by its id, so
 * that nobody has to be looked for before: the queue is read by the same
 * transaction. Its contender takes it over at once, wherever it stands in the
 * queue, and the first in the queue when that time has passed. */
#define _GNU_SOURCE
#include "backends/etcd/etcd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool simba__etcd_is_asked(simba__etcd_entry *e, const simba__etcd_kv *kv)
{
    simba__etcd_owner owner = simba__etcd_owner_read(kv);
    bool is_asked = simba__etcd_is_mine(e, &owner) && !owner.is_broken &&
                    owner.token == e->step->mine.token &&
                    owner.asked[0] != '\0';

    if (is_asked) {
        e->step->mine = owner;
    }
    return is_asked;
}

bool simba__etcd_find_heir(simba__etcd_txn *txn,
                           const char *to,
                           simba__etcd_heir *heir)
{
    simba__pb_bytes all = simba__etcd_got_of(txn, 'Q').all;
    simba__etcd_owner before = {0};
    simba__etcd_kv kv;

    heir->first[0] = '\0';
    for (; simba__etcd_next_kv(&all, &kv); before = heir->who) {
        heir->who = simba__etcd_owner_read(&kv);
        if (before.mod == 0) {
            memcpy(heir->first, heir->who.id, sizeof heir->first);
        }
        if (to == NULL || strcmp(heir->who.id, to) == 0) {
            txn->before = simba__etcd_waiter_read(before.name);
            heir->before_create = before.create;
            return true;
        }
    }
    return false;
}

/* Nobody's attempt: those are random. Older versions name that of the successor
 * in its place. */
static const simba_attempt by_id = {0, 1};

bool simba__etcd_is_offer(const simba__etcd_owner *owner)
{
    return owner->is_there && owner->is_broken && owner->token == 0;
}

/* Who is at rest may have kept no more of its id than the hash. */
static bool has_id(const simba__etcd_entry *e, const char *id)
{
    const char *own = e->base.acquire != NULL ? e->base.acquire->id
                      : e->step != NULL       ? e->step->id
                                              : "";

    return simba__fnv32(id, strlen(id)) == e->base.id_hash &&
           (own[0] == '\0' || strcmp(id, own) == 0);
}

bool simba__etcd_is_offered(const simba__etcd_entry *e,
                            const simba__etcd_owner *owner)
{
    return simba__etcd_is_offer(owner) &&
           (simba__etcd_is_mine(e, owner) ||
            (simba__attempt_equal(owner->attempt, by_id) &&
             has_id(e, owner->id)));
}

simba__etcd_owner simba__etcd_offer(const char *to)
{
    simba__etcd_owner offer = {
        .attempt = by_id, .lease_ms = SIMBA__OFFER_MS, .is_broken = true};

    snprintf(offer.id, sizeof offer.id, "%s", to);
    return offer;
}

/* Of several owners none names one. */
const char *simba__etcd_heir_of(const simba__etcd_entry *e)
{
    return e->is_owner && e->base.slots == 0 && e->base.release != NULL
               ? e->base.release->to
               : NULL;
}

/* If it does not wait, the first is to follow: the offer goes. If it stands
 * behind others, it may watch only the one before it. */
bool simba__etcd_name_heir(simba__etcd_entry *e)
{
    simba_reply *reply = &e->base.release->reply;
    simba__etcd_heir heir = {.before_create = 0};
    bool is_found =
        simba__etcd_find_heir(&e->step->txn, e->base.release->to, &heir);

    memcpy(reply->to, is_found ? heir.who.id : heir.first, sizeof heir.first);
    e->step->heir_create = is_found ? heir.before_create : 0;
    return !is_found || heir.before_create != 0;
}
