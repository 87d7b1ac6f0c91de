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

bool simba__etcd_next_member(simba__pb_bytes *all, simba__etcd_owner *who)
{
    simba__etcd_kv kv = {0};
    bool is_there = simba__etcd_next_kv(all, &kv);

    *who = simba__etcd_member_read(&kv);
    return is_there;
}

/* Since when a member is as it is, by what we have seen before. */
static int64_t since_ms(const simba__etcd_mutex *mutex, int64_t mod)
{
    for (size_t i = 0; i < mutex->seen_count; i++) {
        if (mutex->seen[i].owner == mod) {
            return mutex->seen[i].since_ms;
        }
    }
    return simba_loop_now_ms();
}

/* Of several the oldest was told when they were read. */
void simba__etcd_tell_owners(simba__etcd_entry *e)
{
    const simba__etcd_step *step = e->step;
    uint32_t slots = e->base.slots;
    simba_owner told =
        simba__etcd_owner_told(e->is_owner ? &step->mine : &step->owner);

    if (e->is_owner || step->crowd_mod == 0) {
        simba_entry_owner(&e->base, &told);
    }
    if (step->crowd_mod == 0) {
        e->base.owned = told.id[0] != '\0';
        e->base.least = e->is_owner ? slots : 0;
    } else if (e->is_owner && step->sent == GRANT) { /* beside those */
        e->base.owned++;
        e->base.least = slots < e->base.least ? slots : e->base.least;
    }
}

/* The owner that is in our way is the one that may be ousted first. */
void simba__etcd_note_members(simba__etcd_entry *e, const simba__etcd_got *got)
{
    simba__etcd_mutex *mutex = simba__etcd_mutex_of(e);
    simba__etcd_step *step = e->step;
    simba_sighting *seen, one;
    simba__pb_bytes all = got->all;
    int64_t least_ms = INT64_MAX, left_ms;
    simba_crowd crowd = {0};
    simba__etcd_owner who;
    simba_owner told;

    if (step->crowd_mod == 0) {
        return;
    }
    seen = calloc(got->here + 1, sizeof *seen);
    for (; simba__etcd_next_member(&all, &who);
         simba_crowd_add(&crowd, who.slots)) {
        if (crowd.count == 0) {
            told = simba__etcd_owner_told(&who);
            simba_entry_owner(&e->base, &told);
        }
        one = (simba_sighting){who.mod, 0, since_ms(mutex, who.mod)};
        if (seen != NULL) {
            seen[crowd.count] = one;
        }
        left_ms = simba__etcd_is_mine(e, &who) && !who.is_broken
                      ? INT64_MIN
                      : simba_sighting_left_ms(&one, who.mod, who.lease_ms,
                                               simba_loop_now_ms());
        if (left_ms < least_ms) {
            least_ms = left_ms;
            step->owner = who;
            mutex->sighting = one;
        }
    }
    free(mutex->seen);
    mutex->seen = seen;
    mutex->seen_count = seen == NULL ? 0 : crowd.count;
    step->is_sighted = step->has_members = true;
    e->base.owned = crowd.owned;
    e->base.least = crowd.slots;
    simba_crowd_add(&crowd, e->base.slots);
    step->has_room = crowd.owned == crowd.count;
}
