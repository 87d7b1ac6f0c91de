#define _GNU_SOURCE
#include "shims/shim.h"

#include "runtime/request.h"
#include "util/text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* --- the URL ------------------------------------------------------------- */

int simba__shim_split(const char *rest,
                      char **options,
                      const char **inner_url,
                      simba_error *error)
{
    const char *colon = strchr(rest, ':');

    *options = NULL;
    if (colon == NULL || colon[1] == '\0') {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "a shim needs a store behind it, as in "
                               "fault:seed=7:sqlite:path");
    }
    if (strncmp(colon + 1, "//", 2) == 0) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "a shim has options of its own before the "
                               "store, as in trace:/path:redis://host or "
                               "stat::redis://host");
    }
    *options = strndup(rest, (size_t)(colon - rest));
    *inner_url = colon + 1;
    if (*options == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    /* A colon must be written %3A, as it ends the options. */
    if (!simba__text_unescape(*options)) {
        free(*options);
        *options = NULL;
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "a broken %%-escape in the options of a shim");
    }
    return SIMBA_OK;
}

/* --- passing on ---------------------------------------------------------- */

static simba_backend *inner_of(simba_backend *self)
{
    return ((struct simba__shim *)self)->inner;
}

static int pass_life_fd(simba_backend *self)
{
    assert(inner_of(self)->ops->life_fd != NULL);
    return inner_of(self)->ops->life_fd(inner_of(self));
}

static void pass_subscription(simba_backend *self,
                              const char *mutex,
                              enum simba_subscription subscription)
{
    inner_of(self)->ops->subscription(inner_of(self), mutex, subscription);
}

static int64_t pass_certain_ms(simba_backend *self)
{
    return inner_of(self)->ops->certain_ms(inner_of(self));
}

static bool pass_drive(simba_backend *self, int64_t until_ms)
{
    return inner_of(self)->ops->drive(inner_of(self), until_ms);
}

static void pass_detach(simba_backend *self)
{
    struct simba__shim *shim = (struct simba__shim *)self;

    if (shim->kind->detach != NULL) {
        shim->kind->detach(self);
    }
    if (shim->inner->ops->detach != NULL) {
        shim->inner->ops->detach(shim->inner);
    }
}

static void pass_forked(simba_backend *self)
{
    struct simba__shim *shim = (struct simba__shim *)self;

    if (shim->kind->forked != NULL) {
        shim->kind->forked(self);
    }
    if (shim->inner->ops->forked != NULL) {
        shim->inner->ops->forked(shim->inner);
    }
}

/* --- requests ------------------------------------------------------------ */

void simba__shim_fill(simba_request *request, const struct simba__pending *copy)
{
    simba_report *report =
        copy->report == NULL ? NULL : simba__request_report(request);

    assert(request != &copy->request);
    simba_reply_copy(&request->reply, &copy->request.reply);
    if (report != NULL) {
        simba__report_add(report, copy->report);
    }
    simba__request_first(request)->is_report_short |= copy->is_report_short;
}

void simba__shim_no_memory(simba_request *request)
{
    simba_error error;

    simba_request_done(
        request, simba_error_set(&error, SIMBA_ENOMEM, 0, "out of memory"),
        &error);
}

static void on_done(struct simba__caller *caller,
                    const struct simba__pending *copy,
                    int status,
                    const simba_error *error)
{
    struct simba__shim_request *passing = (struct simba__shim_request *)caller;
    simba_request *request = passing->request;

    passing->shim->kind->answered(passing, &copy->request.reply, status);
    free(passing);
    simba__shim_fill(request, copy);
    simba_request_done(request, status, error);
}

static void pass_request(simba_backend *self, simba_request *request)
{
    struct simba__shim *shim = (struct simba__shim *)self;
    struct simba__shim_request *passing = calloc(1, sizeof *passing);
    struct simba__pending *copy =
        passing == NULL ? NULL : simba__request_make(request);

    assert(simba__loop_is_inside(self->loop));
    if (copy == NULL) {
        free(passing);
        simba__shim_no_memory(request);
        return;
    }
    passing->caller.done = on_done;
    passing->shim = shim;
    passing->request = request;
    passing->number = ++shim->passed;
    passing->begun_us = simba__shim_now_us();
    if (shim->kind->sent != NULL) {
        shim->kind->sent(passing);
    }
    simba__request_send(copy, &passing->caller, shim->inner);
}

/* --- life ---------------------------------------------------------------- */

static void close_shim(simba_backend *self)
{
    struct simba__shim *shim = (struct simba__shim *)self;

    simba_loop_enter(self->loop);
    simba__wake_filter_remove(self->loop, &shim->filter);
    simba_loop_leave(self->loop);
    shim->inner->ops->close(shim->inner); /* its requests end by this */
    shim->kind->closed(shim, true);
    free(shim);
}

/* Of which kind, the URL says. The table of functions is the inner store's,
 * with ours in their place. */
static int open_shim(const simba_backend_config *config,
                     simba_backend **backend,
                     simba_error *error)
{
    static const struct simba__shim_kind *const kinds[SIMBA__SHIMS] = {
        &simba__fault_kind, &simba__trace_kind, &simba__stat_kind};
    const struct simba__shim_kind *kind = kinds[0];
    simba_backend_config inner = *config;
    const simba_backend_ops *ops;
    struct simba__shim *shim;
    char *options = NULL;
    int rc;

    for (size_t i = 1; i < SIMBA__SHIMS; i++) {
        if (strncasecmp(config->url, kinds[i]->scheme,
                        strlen(kinds[i]->scheme)) == 0) {
            kind = kinds[i];
        }
    }
    assert(kind->submit != NULL || kind->answered != NULL);
    shim = calloc(1, kind->size);
    *backend = NULL;
    if (shim == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    shim->kind = kind;
    shim->log = config->log;
    shim->log_user = config->log_user;
    rc = simba__shim_split(config->rest, &options, &inner.url, error);
    if (rc == SIMBA_OK) { /* who forgot the options makes nothing by it */
        rc = config->find(inner.url, &ops, &inner.rest, error);
    }
    if (rc == SIMBA_OK) {
        rc = kind->open(shim, options, error);
        if (rc == SIMBA_OK) {
            rc = ops->open(&inner, &shim->inner, error);
        }
        if (rc != SIMBA_OK) {
            kind->closed(shim, false);
        }
    }
    free(options);
    if (rc != SIMBA_OK) {
        free(shim);
        return rc;
    }
    ops = shim->inner->ops;
    shim->ops = *ops;
    shim->ops.scheme = kind->scheme;
    shim->ops.open = open_shim;
    shim->ops.submit = kind->submit == NULL ? pass_request : kind->submit;
    shim->ops.close = close_shim;
    shim->ops.detach = pass_detach;
    shim->ops.forked = pass_forked;
    shim->ops.life_fd = ops->life_fd == NULL ? NULL : pass_life_fd;
    shim->ops.subscription =
        ops->subscription == NULL ? NULL : pass_subscription;
    shim->ops.drive = ops->drive == NULL ? NULL : pass_drive;
    shim->ops.certain_ms = ops->certain_ms == NULL ? NULL : pass_certain_ms;
    shim->base.ops = &shim->ops;
    shim->base.loop = config->loop;
    shim->filter.wake = kind->wake;
    simba_loop_enter(config->loop);
    simba__wake_filter_add(config->loop, &shim->filter);
    simba_loop_leave(config->loop);
    *backend = &shim->base;
    return SIMBA_OK;
}

/* What else a table needs is taken from the inner store's. */
#define SHIM_OPS(name)                                                         \
    {                                                                          \
        .abi = SIMBA_BACKEND_ABI, .scheme = (name), .open = open_shim,         \
        .submit = pass_request, .close = close_shim                            \
    }

const simba_backend_ops simba__shim_ops[SIMBA__SHIMS] = {
    SHIM_OPS("fault"), SHIM_OPS("trace"), SHIM_OPS("stat")};

bool simba__shim_is_one(const simba_backend_ops *ops)
{
    return ops->open == open_shim;
}

/* --- for the kinds ------------------------------------------------------- */

const char *simba__shim_request_name(enum simba_request_kind kind)
{
    static const char *const names[] = {
        "none",      "acquire", "renew",  "release", "leave", "read",
        "list",      "break",   "doctor", "init",    "reach", "close",
        "hand-over", "tell",    "told",   "breaks"};

    return (size_t)kind < sizeof names / sizeof *names ? names[kind] : "none";
}

int64_t simba__shim_now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

simba_backend *simba__stat_find(simba_backend *backend)
{
    while (strcmp(backend->ops->scheme, simba__stat_kind.scheme) != 0) {
        if (!simba__shim_is_one(backend->ops)) {
            return NULL;
        }
        backend = inner_of(backend);
    }
    return backend;
}
