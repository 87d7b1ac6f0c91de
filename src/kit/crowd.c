/* Several owners by their position among ordered keys. See
 * simba/sys/session_store.h. */
#include <simba/sys/session_store.h>

#include "core/mutex_model.h"

#include <assert.h>

void simba_crowd_add(simba_crowd *crowd, uint32_t slots)
{
    uint32_t limit = simba__slots_limit(slots);

    if (crowd->count == 0 || limit <= crowd->least) {
        crowd->least = limit;
        crowd->least_at = crowd->count;
    }
    crowd->count++;
    if (crowd->count <= crowd->least) {
        crowd->owned = crowd->count;
        crowd->slots = crowd->least > 1 ? crowd->least : 0;
    }
}

/* Let m be the least, and b the key that has it. While b is there, the last
 * owns it only when no more than m keys are left, so m - 1 before it. With m of
 * those before it watched, b among them unless it is the last itself, one of
 * them has gone by then. The nearest are watched, which most likely go last: if
 * all hold it equally long, each that goes wakes one. */
void simba_crowd_watch(const simba_crowd *crowd, simba_crowd_watched *watched)
{
    uint32_t last = crowd->count - 1;

    assert(crowd->owned < crowd->count && crowd->least <= last);
    watched->other = last - crowd->least;
    watched->begin = watched->other + 1;
    watched->end = last;
    if (crowd->least_at < watched->other) {
        watched->other = crowd->least_at;
    }
}
