/* Requests of a session store without an entry: read, list, break, doctor. */
#ifndef SIMBA_KIT_SESSION_ADMIN_H
#define SIMBA_KIT_SESSION_ADMIN_H

#include "kit/log.h"

#include <simba/sys/session_store.h>

/* One of them under way: begins the store's own struct. */
struct simba__admin {
    simba_request *request;
    int writes; /* of a break, that may have taken effect */
};

/** Begin one, zeroed; NULL: no memory, and the request is completed. */
void *simba__admin_begin(const simba_session_store *store,
                         simba_request *request,
                         size_t size);
/** Complete its request and free it. What only read has no outcome to be in
 * doubt about, and what has broken a tenure has done so. */
void simba__admin_end(struct simba__admin *admin,
                      int status,
                      const simba_error *error);
/** The tenure was ended by our doing: for the reply, and for the log. */
void simba__admin_broke(const struct simba__admin *admin,
                        const struct simba__log *log);

#endif
