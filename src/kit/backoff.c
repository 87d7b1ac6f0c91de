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

int64_t simba__outage_news(struct simba__outage *outage, int64_t now_ms)
{
    enum { AGAIN_MS = 60000 };

    assert(now_ms > 0);
    if (outage->since_ms == 0) {
        outage->since_ms = now_ms;
    } else if (now_ms - outage->told_ms < AGAIN_MS) {
        return -1;
    }
    outage->told_ms = now_ms;
    return (now_ms - outage->since_ms) / 1000;
}

void simba__backoff_reset(struct simba__backoff *backoff)
{
    backoff->last_ms = 0;
}
