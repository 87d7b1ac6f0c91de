/* Session stores that misjudge several owners: preloaded, these take the place
 * of the kit's functions, by which ZooKeeper and etcd judge positions. Each is
 * a mistake that an author could make, named by SIMBA_CROWD_FAULT, and caught
 * by a test of the contract (broken_crowd_test.sh). */
#include <simba/sys/session_store.h>

#include <stdlib.h>
#include <string.h>

static bool is(const char *name)
{
    const char *fault = getenv("SIMBA_CROWD_FAULT");

    return fault != NULL && strcmp(fault, name) == 0;
}

void simba_crowd_add(simba_crowd *crowd, uint32_t slots)
{
    uint32_t limit = slots == 0 ? 1 : slots;
    bool is_counted =
        crowd->count == 0 || limit <= crowd->least || is("limit_mine_only");

    if (is("limit_ignored") && limit > 1) {
        limit = UINT32_MAX;
    }
    if (is("shared_passes") && crowd->count > 0 && limit == 1) {
        is_counted = false;
    }
    if (is_counted) {
        crowd->least = limit;
        crowd->least_at = crowd->count;
    }
    crowd->count++;
    if (crowd->count <= crowd->least &&
        !(is("shared_passes") && slots == 0 && crowd->count > 1)) {
        crowd->owned = crowd->count;
        crowd->slots = crowd->least > 1 ? crowd->least : 0;
    }
}

void simba_crowd_watch(const simba_crowd *crowd, simba_crowd_watched *watched)
{
    uint32_t last = crowd->count - 1;
    bool is_one = is("watches_the_one_before") || crowd->least > last;

    watched->other = is_one ? last - 1 : last - crowd->least;
    watched->begin = is_one ? last : watched->other + 1;
    watched->end = last;
    if (crowd->least_at < watched->other && !is_one) {
        watched->other = crowd->least_at;
    }
}
