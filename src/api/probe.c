/* For authors of backends, tests and benchmarks: single requests on a backend,
 * what the shim `stat` has counted, and the store behind names and shims. */
#define _GNU_SOURCE
#include <simba/sys/bench.h>
#include <simba/sys/probe.h>
#include <simba/sys/stat.h>

#include "api/ask.h"
#include "api/contender.h"
#include "api/settings.h"
#include "shims/shim.h"

#include <inttypes.h>
#include <string.h>

/* How long a request may take. */
enum { PROBE_MS = 10000 };

/* Is it of a version of the structs, this one or a later one included? */
static int check_sizes(const simba_request *request, simba_error *error)
{
    const size_t head = offsetof(simba_request, reply);

    if (request->size < head + SIMBA_REPLY_SIZE_LEAST ||
        request->reply.size < SIMBA_REPLY_SIZE_LEAST ||
        request->size - head < request->reply.size) {
        return simba_error_set(error, SIMBA_EMISUSE, 0,
                               "a request is set up by SIMBA_REQUEST_INIT; no "
                               "version has a size of %" PRIu32,
                               request->size);
    }
    return SIMBA_OK;
}

int simba_probe(simba_store *store, simba_request *request, simba_error *error)
{
    struct simba__answer answer;
    struct simba__pending *pending;
    char id[SIMBA_ID_MAX + 1];
    int rc = simba__store_check(store, error);

    if (rc == SIMBA_OK) {
        rc = check_sizes(request, error);
    }
    if (rc == SIMBA_OK && request->id == NULL) {
        rc = simba_error_set(error, SIMBA_EINVAL, 0, "a request needs an id");
    }
    if (rc == SIMBA_OK && request->token_above >= (uint64_t)INT64_MAX) {
        rc = simba_error_set(error, SIMBA_EINVAL, 0,
                             "no token is greater than token_above");
    }
    if (rc == SIMBA_OK) {
        rc = simba__config_slots(store, request->slots, error);
    }
    if (rc == SIMBA_OK &&
        (request->kind == SIMBA_HAND_OVER || request->to != NULL) &&
        !(store->backend->ops->capabilities & SIMBA_CAN_HAND_OVER)) {
        rc = simba_error_set(error, SIMBA_EINVAL, 0,
                             "hand-over is not offered by this store");
    }
    if (rc == SIMBA_OK) {
        rc = simba__config_mutex(request->mutex, error);
    }
    if (rc == SIMBA_OK) {
        rc = simba__config_id(request->id, id, error);
    }
    if (rc != SIMBA_OK) {
        return rc;
    }
    if (request->deadline_ms == 0) {
        request->deadline_ms = simba_loop_now_ms() + PROBE_MS;
    }
    pending = simba__request_make(request);
    if (pending == NULL) {
        return simba__fail_memory(error);
    }
    simba__ask(store, pending, SIMBA_PROBE_GRACE_MS, &answer);
    simba_report_close(answer.report);
    if (!answer.is_answered) {
        return simba_error_set(error, SIMBA_EUNKNOWN, 0,
                               "the backend did not complete a request in "
                               "time");
    }
    simba_reply_copy(&request->reply, &answer.reply);
    if (error != NULL && answer.error.code != SIMBA_OK) {
        *error = answer.error;
    }
    return answer.status;
}

const simba_backend_ops *simba_probe_ops(const simba_store *store)
{
    return store->backend->ops;
}

void simba_probe_subscription(simba_store *store,
                              const char *mutex,
                              enum simba_subscription subscription)
{
    const simba_backend_ops *ops = store->backend->ops;

    if (ops->subscription != NULL &&
        simba__store_check(store, NULL) == SIMBA_OK) {
        simba_loop_enter(store->loop);
        ops->subscription(store->backend, mutex, subscription);
        simba_loop_leave(store->loop);
    }
}

int simba_stat_read(simba_store *store,
                    const char *kind,
                    simba_stat *stat,
                    simba_error *error)
{
    int rc = simba__store_check(store, error);
    simba_backend *shim;

    memset(stat, 0, sizeof *stat);
    if (rc != SIMBA_OK) {
        return rc;
    }
    shim = simba__stat_find(store->backend);
    if (shim == NULL) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "this store is not opened as stat::URL");
    }
    simba_loop_enter(store->loop);
    if (!simba__stat_figures(shim, kind, stat)) {
        rc = simba_error_set(error, SIMBA_EINVAL, 0,
                             "no kind of request is called '%.32s'", kind);
    }
    simba_loop_leave(store->loop);
    return rc;
}

int simba_bench_bare_url(const char *store,
                         char **out,
                         const char **backend,
                         simba_error *error)
{
    struct simba__settings settings;
    const simba_backend_ops *ops;
    const char *url, *rest;
    int rc =
        simba__settings_find(&settings, store, SIMBA_CONFIG_WHEN_ASKED, error);

    *out = NULL;
    if (rc == SIMBA_OK) {
        url = settings.url;
        rc = simba__settings_blame(
            &settings, simba__backend_find_bare(&url, &ops, &rest, error),
            error);
    }
    if (rc == SIMBA_OK) {
        *backend = ops->scheme;
        *out = strdup(url);
        rc = *out != NULL ? SIMBA_OK : simba__fail_memory(error);
    }
    simba__settings_free(&settings);
    return rc;
}
