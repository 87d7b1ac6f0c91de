/* Owner snapshots: the value that says who owns a mutex, and the questions one
 * can ask of it.
 *
 * Everything here goes by the store's time, which the caller gives. What
 * this process may do at this instant goes by the local clock, and is not
 * decided here. */
#include <simba/owner.h>

#include <assert.h>
#include <string.h>

simba_owner simba_owner_none(void)
{
    simba_owner none;

    /* The padding is cleared too: snapshots travel through memcmp in tests. */
    memset(&none, 0, sizeof none);
    return none;
}

bool simba_owner_set_id(simba_owner *owner, const char *id)
{
    size_t len;

    assert(owner != NULL && id != NULL);
    len = strlen(id);
    if (len > SIMBA_ID_MAX) {
        return false;
    }
    /* The tail is cleared, so that no byte of a longer id shows through when a
     * snapshot is copied out of the process. */
    memset(owner->id, 0, sizeof owner->id);
    memcpy(owner->id, id, len);
    return true;
}

bool simba_owner_is_owner(const simba_owner *owner, const char *id)
{
    assert(owner != NULL && id != NULL);
    return strcmp(owner->id, id) == 0;
}

bool simba_owner_is_in_ttl(const simba_owner *owner, int64_t now_ms)
{
    assert(owner != NULL);
    return owner->ttl_at_ms > now_ms;
}

bool simba_owner_is_in_ttl_of(const simba_owner *owner,
                              const char *id,
                              int64_t now_ms)
{
    return simba_owner_is_owner(owner, id) &&
           simba_owner_is_in_ttl(owner, now_ms);
}

bool simba_owner_is_in_transition(const simba_owner *owner, int64_t now_ms)
{
    assert(owner != NULL);
    return owner->transition_at_ms >= now_ms;
}

bool simba_owner_is_in_transition_of(const simba_owner *owner,
                                     const char *id,
                                     int64_t now_ms)
{
    return simba_owner_is_owner(owner, id) &&
           simba_owner_is_in_transition(owner, now_ms);
}

bool simba_owner_has_owner(const simba_owner *owner, int64_t now_ms)
{
    return simba_owner_is_in_transition(owner, now_ms);
}
