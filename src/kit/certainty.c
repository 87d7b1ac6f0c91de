/* How long a session is certain. See simba/sys/session_store.h. */
#include <simba/sys/session_store.h>

#include <assert.h>
#include <string.h>

/* Two writes, of which the second was sent `apart` or more after the first was
 * answered, make it certain since the first was sent; a single one does if they
 * need not be apart.
 *
 *   s1      answered          s2     answered                 s1 + timeout
 *   |----------|----- apart or more ---|-----|---- certain --------------| */
void simba_certainty_answered(simba_certainty *certainty,
                              int64_t sent_ms,
                              int64_t now_ms)
{
    int last = certainty->count - 1;

    assert(certainty->count <= SIMBA_CERTAINTY_WRITES && sent_ms <= now_ms);
    if (certainty->apart_ms == 0) {
        certainty->since_ms =
            sent_ms > certainty->since_ms ? sent_ms : certainty->since_ms;
        return;
    }
    for (int i = last; i >= 0; i--) {
        if (sent_ms - certainty->writes[i].answered_ms >= certainty->apart_ms) {
            if (certainty->writes[i].sent_ms > certainty->since_ms) {
                certainty->since_ms = certainty->writes[i].sent_ms;
            }
            break;
        }
    }
    if (last >= 0 && sent_ms - certainty->writes[last].sent_ms <
                         certainty->timeout_ms / SIMBA_CERTAINTY_WRITES) {
        return; /* as good as the last one */
    }
    if (certainty->count == SIMBA_CERTAINTY_WRITES) {
        memmove(certainty->writes, certainty->writes + 1,
                sizeof certainty->writes - sizeof certainty->writes[0]);
        certainty->count--;
    }
    certainty->writes[certainty->count].sent_ms = sent_ms;
    certainty->writes[certainty->count++].answered_ms = now_ms;
}

int64_t simba_certainty_lease(const simba_certainty *certainty,
                              int64_t since_ms)
{
    /* A request may be older than the session it waited for. */
    int64_t elapsed =
        since_ms > certainty->since_ms ? since_ms - certainty->since_ms : 0;
    int64_t drift = (elapsed * 21 + 999) / 1000;
    int64_t lease = certainty->timeout_ms - elapsed - drift;

    return lease > 1 ? lease : 1;
}

int64_t simba_certainty_next(const simba_certainty *certainty)
{
    int64_t newest = certainty->count > 0
                         ? certainty->writes[certainty->count - 1].answered_ms
                         : certainty->since_ms;

    return newest + certainty->apart_ms;
}
