#include "kit/backoff.h"

#include <simba/sys/backend.h>

#include <assert.h>

int64_t simba__backoff_until(struct simba__backoff *backoff)
{
    int64_t ms = backoff->last_ms * 2;

    assert(backoff->first_ms > 0 && backoff->first_ms <= backoff->most_ms);
    ms = ms == 0 ? backoff->first_ms : ms;
    backoff->last_ms = ms < backoff->most_ms ? ms : backoff->most_ms;
    return simba_loop_now_ms() + backoff->last_ms;
}

void simba__backoff_reset(struct simba__backoff *backoff)
{
    backoff->last_ms = 0;
}
