/* TLS as a filter: bytes of the wire go in and come out, sockets are not its
 * business. */
#ifndef SIMBA_REDIS_TLS_H
#define SIMBA_REDIS_TLS_H

#include "backends/redis/buffer.h"
#include "backends/redis/settings.h"

typedef struct simba__redis_tls simba__redis_tls;
typedef struct simba__redis_tls_context simba__redis_tls_context;

/** The certificates of a store; NULL context when it does not use TLS. */
int simba__redis_tls_context_open(const struct simba__redis_settings *settings,
                                  simba__redis_tls_context **context,
                                  simba_error *error);
void simba__redis_tls_context_close(simba__redis_tls_context *context);

/** One connection to this host; NULL: no memory. */
simba__redis_tls *simba__redis_tls_open(simba__redis_tls_context *context,
                                        const char *host);
void simba__redis_tls_close(simba__redis_tls *tls);

/** Go on with the handshake, writing what it wants to say to `wire`.
 *
 * @return 1: done, 0: more must be heard, negative: a code with `error` */
int simba__redis_tls_shake(simba__redis_tls *tls,
                           struct simba__redis_buffer *wire,
                           simba_error *error);

/** Take in bytes that came over the wire. False: no memory. */
bool simba__redis_tls_feed(simba__redis_tls *tls,
                           const char *bytes,
                           size_t count);

/** Plain bytes: how many, 0: none yet, negative: a code with `error`. */
int simba__redis_tls_read(simba__redis_tls *tls,
                          char *bytes,
                          int room,
                          simba_error *error);

/** Encrypt all of `plain` into `wire`. False: it failed. */
bool simba__redis_tls_write(simba__redis_tls *tls,
                            struct simba__redis_buffer *plain,
                            struct simba__redis_buffer *wire);

#endif
