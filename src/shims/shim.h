/* A shim is a backend that wraps a backend: `SHIM:OPTIONS:INNER-URL`.
 *
 * What the runtime submits to a shim goes on as a request of the shim's own, so
 * that the shim hears of its end; wake-ups come by through a filter of the
 * loop. What a kind of shim does not care about is passed on here. */
#ifndef SIMBA_SHIMS_SHIM_H
#define SIMBA_SHIMS_SHIM_H

#include <simba/sys/stat.h>

#include "runtime/loop.h"
#include "runtime/request.h"
#include "util/container.h"

/* How they are opened: fault, trace, stat. */
enum { SIMBA__SHIMS = 3 };
extern const simba_backend_ops simba__shim_ops[SIMBA__SHIMS];

struct simba__shim_kind;

struct simba__shim {
    simba_backend base;
    simba_backend_ops ops; /* the inner one's, with ours in their place */
    simba_backend *inner;
    const struct simba__shim_kind *kind;
    struct simba__wake_filter filter;
    simba_log_fn log;
    void *log_user;
    uint64_t passed; /* requests that were passed on as they are */
};

/* A request that is passed on as it is. */
struct simba__shim_request {
    struct simba__caller caller;
    struct simba__shim *shim;
    simba_request *request;
    uint64_t number; /* from 1 */
    int64_t begun_us;
};

/** What a kind of shim does itself; NULL: nothing. */
struct simba__shim_kind {
    const char *scheme;
    size_t size; /* of its instance, which begins with a struct simba__shim */
    /** Take the options, before the inner store is opened. MUST. */
    int (*open)(struct simba__shim *shim, char *options, simba_error *error);
    /** A wake-up on its way out; pass it on with simba__wake_pass(). MUST. */
    void (*wake)(struct simba__wake_filter *filter, const char *mutex);
    /** As of simba_backend_ops; NULL: the request is passed on as it is. */
    void (*submit)(simba_backend *self, simba_request *request);
    /** It is closed; or it was never opened, and so is NULL. MUST. */
    void (*closed)(struct simba__shim *shim, bool was_open);
    void (*detach)(simba_backend *self); /* before the inner one's */
    void (*forked)(simba_backend *self); /* likewise */
    /** A request that is passed on goes to the inner store. */
    void (*sent)(const struct simba__shim_request *passing);
    /** It was answered, and who asked hears next. MUST without `submit`. */
    void (*answered)(const struct simba__shim_request *passing,
                     const simba_reply *reply,
                     int status);
};

extern const struct simba__shim_kind simba__fault_kind;
extern const struct simba__shim_kind simba__trace_kind;
extern const struct simba__shim_kind simba__stat_kind;

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

/** Put into a request what its copy was answered. */
void simba__shim_fill(simba_request *request,
                      const struct simba__pending *copy);

/** Fail a request that could not be copied. */
void simba__shim_no_memory(simba_request *request);

/** The short name of a kind of request, static. */
const char *simba__shim_request_name(enum simba_request_kind kind);

/** The boot clock in microseconds. */
int64_t simba__shim_now_us(void);

/* --- stat.c, for simba_stat_read() --------------------------------------- */

/** The outermost stat shim at or behind this backend; NULL: there is none. */
simba_backend *simba__stat_find(simba_backend *backend);

/** Its figures of a kind; false: no such kind. Inside the loop. */
bool simba__stat_figures(simba_backend *shim,
                         const char *kind,
                         simba_stat *stat);

#endif
