/* Several owners of a mutex. Each has a key of its own, m/MUTEX/MEMBER, which
 * it writes anew to renew, and o/MUTEX says that there are several. That
 * changes with every one that comes or goes, so who comes does so on the
 * condition that it is as it was when they were counted; with the last of them
 * it goes. */
#define _GNU_SOURCE
#include "backends/etcd/etcd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool simba__etcd_next_member(simba__etcd_txn *txn,
                             simba__pb_bytes *all,
                             simba__etcd_owner *who,
                             char name[SIMBA__ETCD_MEMBER])
{
    size_t skip = strlen(simba__etcd_key(txn, 'M'));
    simba__etcd_kv kv = {0};

    if (!simba__etcd_next_kv(all, &kv)) {
        return false;
    }
    *who = simba__etcd_owner_read(&kv);
    (void)simba__etcd_key_rest(&kv, skip, name, SIMBA__ETCD_MEMBER);
    who->slots = (uint32_t)strtoul(name, NULL, 10);
    return true;
}

/* Since when a member is as it is, by what we have seen before. */
static int64_t since_ms(const simba__etcd_entry *e, int64_t mod)
{
    for (size_t i = 0; i < e->seen_count; i++) {
        if (e->seen[i].owner == mod) {
            return e->seen[i].since_ms;
        }
    }
    return simba_loop_now_ms();
}

/* Of several the oldest was told when they were read. */
void simba__etcd_tell_owners(simba__etcd_entry *e)
{
    uint32_t slots = e->base.slots;

    if (e->is_owner) {
        e->base.owner = simba__etcd_owner_told(&e->mine);
    } else if (e->crowd_mod == 0) {
        e->base.owner = simba__etcd_owner_told(&e->owner);
    }
    if (e->crowd_mod == 0) {
        e->base.owned = e->base.owner.id[0] != '\0';
        e->base.least = e->is_owner ? slots : 0;
    } else if (e->is_owner && e->sent == GRANT) { /* beside those */
        e->base.owned++;
        e->base.least = slots < e->base.least ? slots : e->base.least;
    }
}

/* The owner that is in our way is the one that may be ousted first. */
void simba__etcd_note_members(simba__etcd_entry *e, const simba__etcd_got *got)
{
    simba_sighting *seen, one;
    simba__pb_bytes all = got->all;
    int64_t least_ms = INT64_MAX, left_ms;
    char name[SIMBA__ETCD_MEMBER];
    simba_crowd crowd = {0};
    simba__etcd_owner who;

    if (e->crowd_mod == 0) {
        return;
    }
    seen = calloc(got->here + 1, sizeof *seen);
    for (; simba__etcd_next_member(&e->txn, &all, &who, name);
         simba_crowd_add(&crowd, who.slots)) {
        if (crowd.count == 0) {
            e->base.owner = simba__etcd_owner_told(&who);
        }
        one = (simba_sighting){who.mod, 0, since_ms(e, who.mod)};
        if (seen != NULL) {
            seen[crowd.count] = one;
        }
        left_ms = simba__etcd_is_mine(e, &who) && !who.is_broken
                      ? INT64_MIN
                      : simba_sighting_left_ms(&one, who.mod, who.lease_ms,
                                               simba_loop_now_ms());
        if (left_ms < least_ms) {
            least_ms = left_ms;
            e->owner = who;
            simba__etcd_mutex_of(e)->sighting = one;
            memcpy(e->txn.silent, name, sizeof name);
        }
    }
    if (least_ms == INT64_MIN) {
        memcpy(e->txn.member, e->txn.silent, sizeof e->txn.member);
    }
    free(e->seen);
    e->seen = seen;
    e->seen_count = seen == NULL ? 0 : crowd.count;
    e->is_sighted = e->has_members = true;
    e->base.owned = crowd.owned;
    e->base.least = crowd.slots;
    simba_crowd_add(&crowd, e->base.slots);
    e->has_room = crowd.owned == crowd.count;
}
