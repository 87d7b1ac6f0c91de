#include "kit/deadline.h"

#include <assert.h>

void simba__deadline_complete(simba_request **slot,
                              int status,
                              const simba_error *error)
{
    simba_request *request = *slot;

    if (request == NULL) {
        return;
    }
    assert(request->kind != SIMBA_NO_REQUEST);
    *slot = NULL; /* the next one may come from within */
    if (status == SIMBA_EUNKNOWN &&
        (request->kind == SIMBA_READ || request->kind == SIMBA_LIST ||
         request->kind == SIMBA_DOCTOR || request->kind == SIMBA_REACH)) {
        status = SIMBA_EUNAVAIL;
    }
    simba_request_done(request, status, status == SIMBA_OK ? NULL : error);
}

void simba__deadline_expire(simba_request **slot,
                            const char *store,
                            const char *server)
{
    simba_error error;

    if (*slot != NULL && (*slot)->deadline_ms <= simba_loop_now_ms()) {
        simba_error_set(&error, SIMBA_EUNKNOWN, 0,
                        "%s %.120s: no answer in time", store, server);
        simba__deadline_complete(slot, SIMBA_EUNKNOWN, &error);
    }
}
