/* The servers of a session store, as its URL names them: where they are, who we
 * are to them, TLS; and what the doctors of such stores find alike. */
#ifndef SIMBA_KIT_SERVERS_H
#define SIMBA_KIT_SERVERS_H

#include "kit/tls.h"
#include "kit/url.h"

#include <simba/sys/session_store.h>

/* The settings of a store begin with it, zeroed. */
struct simba__servers {
    struct simba__url url; /* its path has no slash at the end */
    struct simba__tls_settings tls;
    simba__tls_context *tls_context; /* NULL: no TLS, or not opened yet */
};

/** Where a form has its TLS. */
#define SIMBA__SERVERS_TLS offsetof(struct simba__servers, tls)

/** Read a URL, which names one host at least. Give it to simba__servers_fini(),
 * also after a failure. */
int simba__servers_read(struct simba__servers *servers,
                        const struct simba__url_form *form,
                        const char *rest,
                        simba_error *error);
void simba__servers_fini(struct simba__servers *servers);

/** What a connection to any of them is opened with, as far as they tell; and
 * that servers push, and nothing is kept for one that is not there. */
simba_connection_config simba__servers_connection(
    const struct simba__servers *servers,
    const simba_session_store *store);

/* --- findings of a doctor ------------------------------------------------ */

/** Who reads along. */
void simba__servers_find_tls(const struct simba__servers *servers,
                             simba_request *request);
/** How many of them may fail; `alone`: the gravity of a single one. */
void simba__servers_find_quorum(simba_request *request,
                                const char *name,
                                int voters,
                                enum simba_gravity alone);

#endif
