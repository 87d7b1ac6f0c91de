#include "kit/session_admin.h"

#include <stdlib.h>

void *simba__admin_begin(const simba_session_store *store,
                         simba_request *request,
                         size_t size)
{
    struct simba__admin *admin = calloc(1, size);
    simba_error error;

    if (admin == NULL) {
        simba_error_set(&error, SIMBA_ENOMEM, 0, "%s: no memory",
                        store->ops->name);
        simba_request_done(request, SIMBA_ENOMEM, &error);
    } else {
        admin->request = request;
    }
    return admin;
}

void simba__admin_end(struct simba__admin *admin,
                      int status,
                      const simba_error *error)
{
    simba_request *request = admin->request;
    simba_error why = {0};

    if (request->reply.mine) {
        status = SIMBA_OK;
    } else if (status != SIMBA_OK && admin->writes > 0) {
        status = SIMBA_EUNKNOWN;
    } else if (status == SIMBA_EUNKNOWN) {
        status = SIMBA_EUNAVAIL;
    }
    if (error != NULL) {
        why = *error;
    }
    why.code = status;
    free(admin);
    simba_request_done(request, status, status == SIMBA_OK ? NULL : &why);
}

void simba__admin_broke(const struct simba__admin *admin,
                        const struct simba__log *log)
{
    const char *reason = admin->request->reason;

    admin->request->reply.mine = true;
    simba__log(log, SIMBA_LOG_WARN, "broke the tenure %llu of \"%s\": %s",
               (unsigned long long)admin->request->token, admin->request->mutex,
               reason != NULL && reason[0] != '\0' ? reason
                                                   : "no reason given");
}
