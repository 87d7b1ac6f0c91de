/* TLS as a filter of bytes, for connections of simba/sys/connection.h. Linked
 * into the modules that want it: the library itself needs no OpenSSL. */
#ifndef SIMBA_KIT_TLS_H
#define SIMBA_KIT_TLS_H

#include "kit/parameters.h"

#include <simba/sys/connection.h>

typedef struct ssl_ctx_st simba__tls_context; /* OpenSSL's */

/**
 * The certificates of a store.
 *
 * @param store         begins messages
 * @param[out] context  NULL when TLS is off. Give it to
 *                      simba__tls_context_close(), also after a failure
 * @return SIMBA_OK, SIMBA_EMISCONFIG for a bad file, SIMBA_ENOMEM. Any thread
 */
int simba__tls_context_open(const struct simba__tls_settings *tls,
                            const char *store,
                            simba__tls_context **context,
                            simba_error *error);
void simba__tls_context_close(simba__tls_context *context);

/** Its context is a simba__tls_context. */
extern const simba_connection_filter simba__tls_filter;

#endif
