/**
 * @file simba/sys/probe.h
 * For authors of backends, and for the contract's tests: single requests to
 * the backend of an open store, past the machine that usually decides when to
 * send which. Who only wants a mutex has no use for it.
 */
#ifndef SIMBA_SYS_PROBE_H
#define SIMBA_SYS_PROBE_H

#include <simba/store.h>
#include <simba/sys/backend.h>

SIMBA_BEGIN_DECLS

/**
 * The table of the backend that serves a store: its scheme, what it can do, the
 * shortest lease it keeps.
 *
 * @param store  not NULL
 * @return lives as long as the store
 *
 * Threads: any thread.
 */
SIMBA_API const simba_backend_ops *simba_probe_ops(const simba_store *store);

/** How long after its deadline a request must be completed. */
#define SIMBA_PROBE_GRACE_MS 5000

/**
 * Carry out one request and wait for its reply.
 *
 * The names are checked (S14), everything else is passed on as it is: who
 * probes can break what contenders rely on, and does it to mutexes of his own.
 *
 * @param store        not NULL
 * @param request      what is asked, set up by SIMBA_REQUEST_INIT; `reply` is
 *                     filled, as far as its size goes. Without a deadline it
 *                     gets one of ten seconds
 * @param[out] error   filled on failure; may be NULL
 * @return as the backend completes it; SIMBA_EINVAL for a bad name;
 *         SIMBA_EMISUSE for sizes that no version of the structs has;
 *         SIMBA_EUNKNOWN also when it was not completed by the deadline and
 *         SIMBA_PROBE_GRACE_MS;
 *         SIMBA_EFORKED; SIMBA_ENOMEM
 *
 * Threads: any thread, but not a callback.
 */
SIMBA_API SIMBA_MUST_USE int simba_probe(simba_store *store,
                                         simba_request *request,
                                         simba_error *error);

/**
 * Say how much this process wants to hear about a mutex, as contenders and
 * retrievals do by themselves. A store may tell who is alive by it.
 *
 * @param store         not NULL
 * @param mutex         a valid name
 * @param subscription  see simba/sys/backend.h
 *
 * Threads: any thread, but not a callback. Not for a mutex that has contenders
 * or retrievals on this handle.
 */
SIMBA_API void simba_probe_subscription(simba_store *store,
                                        const char *mutex,
                                        enum simba_subscription subscription);

SIMBA_END_DECLS

#endif
