/* One request, and a wait for its reply: what admins and probes do. */
#ifndef SIMBA_API_ASK_H
#define SIMBA_API_ASK_H

#include "api/store.h"
#include "runtime/request.h"

struct simba__answer {
    int status;
    bool is_answered; /* else the store was silent, and the outcome unknown */
    simba_error error;
    simba_reply reply;
    simba_report *report; /* of a SIMBA_OK; NULL: no memory. The caller's */
};

/**
 * Send it, and wait for its end until so long after its deadline.
 *
 * @param pending  gone afterwards
 *
 * Outside the loop.
 */
void simba__ask(simba_store *store,
                struct simba__pending *pending,
                int64_t grace_ms,
                struct simba__answer *answer);

#endif
