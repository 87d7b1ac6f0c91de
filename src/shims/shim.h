/* A shim is a backend that wraps a backend: `SHIM:OPTIONS:INNER-URL`.
 *
 * What the runtime submits to a shim goes on as an operation of the shim's own,
 * so that the shim hears of its end; wake-ups come by through a filter of the
 * loop. What a kind of shim does not care about is passed on here. */
#ifndef SIMBA_SHIMS_SHIM_H
#define SIMBA_SHIMS_SHIM_H

#include "runtime/box.h"
#include "runtime/loop.h"

struct simba__shim_kind;

struct simba__shim {
    simba_backend base;
    simba_backend_ops ops; /* the inner one's, with ours in their place */
    simba_backend *inner;
    const struct simba__shim_kind *kind;
    struct simba__wake_filter filter;
};

/** What a kind of shim does itself. */
struct simba__shim_kind {
    const simba_backend_ops *ops; /* scheme, submit, close; rest unused */
    /** A wake-up on its way out; pass it on with simba__wake_pass(). */
    void (*wake)(struct simba__wake_filter *filter, const char *mutex);
    void (*detach)(simba_backend *self); /* before the inner one's; NULL */
    void (*forked)(simba_backend *self); /* likewise */
};

/**
 * Take OPTIONS and INNER-URL apart.
 *
 * @param rest          what follows "SHIM:"
 * @param[out] options  percent-decoded, to be freed; NULL on failure
 * @return SIMBA_OK, SIMBA_EINVAL or SIMBA_ENOMEM
 */
int simba__shim_split(const char *rest,
                      char **options,
                      const char **inner_url,
                      simba_error *error);

/** Is it the table of a shim? */
bool simba__shim_is_one(const simba_backend_ops *ops);

/** What the inner store needs; as simba_backend_ops has it. */
char *simba__shim_schema(const simba_backend_config *config,
                         bool upgrade,
                         simba_error *error);

/** Open the inner store, and stand before it. */
int simba__shim_open(struct simba__shim *shim,
                     const struct simba__shim_kind *kind,
                     const simba_backend_config *config,
                     simba_error *error);

/** Close the inner store. Its operations end by this. */
void simba__shim_close(struct simba__shim *shim);

/** The backend behind a shim; NULL for one that is no shim. */
simba_backend *simba__shim_inner(simba_backend *backend);

/** A copy of an operation, to be sent to the inner store; NULL: no memory. */
struct simba__box *simba__shim_copy(const simba_request *request);

/** Put into an operation what its copy was answered. */
void simba__shim_fill(simba_request *request, const struct simba__box *copy);

/** Answer an operation as its copy was answered. */
void simba__shim_answer(simba_request *request,
                        const struct simba__box *copy,
                        int status,
                        const simba_error *error);

/** Fail an operation that could not be copied. */
void simba__shim_no_memory(simba_request *request);

/** The short name of a kind of operation, static. */
const char *simba__shim_request_name(enum simba_request_kind kind);

/** The boot clock in microseconds. */
int64_t simba__shim_now_us(void);

#endif
