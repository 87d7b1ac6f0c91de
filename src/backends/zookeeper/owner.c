/* Whose a latch is. */
#include "backends/zookeeper/instance.h"
#include "core/name.h"

#include <string.h>

static simba_owner owner_since(int64_t ctime_ms, int64_t czxid, const char *id)
{
    simba_owner owner = {.acquired_at_ms = ctime_ms,
                         .ttl_at_ms = INT64_MAX,
                         .transition_at_ms = INT64_MAX,
                         .token = (uint64_t)czxid};

    return simba_owner_set_id(&owner, id) ? owner : simba_owner_none();
}

simba_owner simba__zk_owner_self(const struct simba__zk_latch *latch)
{
    return owner_since(latch->ctime_ms, latch->czxid, latch->id);
}

/* Curator's latches need no id, and an admin writes what he likes: a latch has
 * an owner all the same. */
simba_owner simba__zk_owner_of(const char *data,
                               int length,
                               const struct Stat *stat)
{
    char id[SIMBA_ID_MAX + 1] = "(unnamed)";
    size_t size = length > 0 ? (size_t)length : 0;

    if (size > SIMBA_ID_MAX ||
        (size > 0 && simba__name_check_id(data, size) != SIMBA__NAME_FINE)) {
        return owner_since(stat->ctime, stat->czxid, "(unreadable)");
    }
    if (size > 0) {
        memcpy(id, data, size);
        id[size] = '\0';
    }
    return owner_since(stat->ctime, stat->czxid, id);
}
