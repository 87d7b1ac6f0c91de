/* States: the pair of owners, before and after, that a callback is given, and
 * what the pair means for one contender.
 *
 * Which states are worth a callback is decided by the contention core. */
#include <simba/state.h>

#include <assert.h>
#include <string.h>

/* safety.md S5: identity is the tenure, not the id. A token of 0 is not a
 * token but the lack of one, and proves nothing. */
static bool is_other_tenure(const simba_owner *a, const simba_owner *b)
{
    return a->token != 0 && b->token != 0 && a->token != b->token;
}

bool simba_state_is_changed(const simba_state *state)
{
    assert(state != NULL);
    return strcmp(state->before.id, state->after.id) != 0 ||
           is_other_tenure(&state->before, &state->after);
}

bool simba_state_is_acquired(const simba_state *state, const char *id)
{
    return simba_state_is_changed(state) &&
           simba_owner_is_owner(&state->after, id);
}

bool simba_state_is_released(const simba_state *state, const char *id)
{
    return simba_state_is_changed(state) &&
           simba_owner_is_owner(&state->before, id);
}

bool simba_state_is_owner(const simba_state *state, const char *id)
{
    assert(state != NULL);
    return simba_owner_is_owner(&state->after, id);
}

bool simba_state_is_in_ttl(const simba_state *state,
                           const char *id,
                           int64_t now_ms)
{
    assert(state != NULL);
    return simba_owner_is_in_ttl_of(&state->after, id, now_ms);
}
