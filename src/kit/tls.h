/* TLS as a filter of bytes, for connections of simba/sys/connection.h. OpenSSL
 * takes longer to load than a lock to be taken, and most speak without TLS: so
 * it is a module of its own, which is loaded when it is first wanted. */
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
 * @return SIMBA_OK, SIMBA_EMISCONFIG for a bad file or where the module is not
 *         installed, SIMBA_ENOMEM. Any thread
 */
int simba__tls_context_open(const struct simba__tls_settings *tls,
                            const char *store,
                            simba__tls_context **context,
                            simba_error *error);
void simba__tls_context_close(simba__tls_context *context);

/** Its context is a simba__tls_context. Filled in by the first context. */
extern simba_connection_filter simba__tls_filter;

/* Raised with any change of what follows, or of what it is given. */
enum { SIMBA__TLS_VERSION = 1 };

/* What simba_tls.so has: tls_openssl.c. One of another version is refused. */
struct simba__tls_module {
    unsigned version; /* SIMBA__TLS_VERSION; first for ever */
    int (*open)(const struct simba__tls_settings *tls,
                const char *store,
                simba__tls_context **context,
                simba_error *error);
    void (*close)(simba__tls_context *context);
    simba_connection_filter filter;
};

/** Weak: in a program that has it anyway nothing is loaded. */
extern SIMBA_API const struct simba__tls_module simba_tls_module
    __attribute__((weak));

#endif
