/* Handing over. An owner is asked by what is written in its key, which makes
 * its next renewal fail and read it. What it releases to a successor is not
 * deleted: it becomes an offer, an owner without a token whose lease is that of
 * an offer (300 ms) and is not renewed. Its contender takes it over at once,
 * wherever it stands in the queue, and the first in the queue when that time
 * has passed. */
#define _GNU_SOURCE
#include "backends/etcd/etcd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool simba__etcd_is_asked(simba__etcd_entry *e, const simba__etcd_kv *kv)
{
    simba__etcd_owner owner = simba__etcd_owner_read(kv);
    bool is_asked = simba__etcd_is_mine(e, &owner) && !owner.is_broken &&
                    owner.token == e->mine.token && owner.asked[0] != '\0';

    if (is_asked) {
        e->mine = owner;
    }
    return is_asked;
}

bool simba__etcd_find_heir(simba__etcd_txn *txn,
                           const char *to,
                           simba__etcd_heir *heir)
{
    size_t skip = strlen(simba__etcd_key(txn, 'Q'));
    simba__pb_bytes all = simba__etcd_got_of(txn, 'Q')->all;
    simba__etcd_kv kv, before = {0};

    heir->first[0] = '\0';
    for (; simba__etcd_next_kv(&all, &kv); before = kv) {
        heir->who = simba__etcd_owner_read(&kv);
        if (before.mod == 0) {
            memcpy(heir->first, heir->who.id, sizeof heir->first);
        }
        if (to == NULL || strcmp(heir->who.id, to) == 0) {
            (void)simba__etcd_key_rest(&before, skip, txn->before,
                                       sizeof txn->before);
            heir->create = kv.create;
            heir->before_create = before.create;
            return simba__etcd_key_rest(&kv, skip, txn->first,
                                        sizeof txn->first);
        }
    }
    return false;
}

bool simba__etcd_is_offered(const simba__etcd_entry *e)
{
    return simba__etcd_is_mine(e, &e->owner) && e->owner.is_broken &&
           e->owner.token == 0;
}

/* Of several owners none names one. */
bool simba__etcd_names_heir(const simba__etcd_entry *e)
{
    return e->is_owner && e->base.slots == 0 && e->base.release != NULL &&
           e->base.release->to != NULL;
}

/* If it does not wait, the first will follow. */
void simba__etcd_name_heir(simba__etcd_entry *e)
{
    simba_request *release = e->base.release; /* NULL: given up meanwhile */
    simba__etcd_heir *heir = calloc(1, sizeof *heir);
    bool is_found = heir != NULL && release != NULL &&
                    simba__etcd_find_heir(&e->txn, release->to, heir);

    if (heir != NULL && release != NULL) {
        memcpy(release->reply.to, is_found ? heir->who.id : heir->first,
               sizeof heir->first);
    }
    if (!is_found) {
        free(heir);
        heir = NULL;
    }
    free(e->heir);
    e->heir = heir;
}
