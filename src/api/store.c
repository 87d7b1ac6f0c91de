#define _GNU_SOURCE
#include "api/store.h"

#include "api/config.h"
#include "api/given.h"
#include "api/settings.h"
#include "runtime/fork.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOTIFIERS_MOST = 16, NOTIFIERS_LIMIT = 1024 };

int simba__store_check(const simba_store *store, simba_error *error)
{
    if (simba__is_forked(store->mark)) {
        return simba_error_set(error, SIMBA_EFORKED, 0,
                               "this handle belongs to the parent process; "
                               "open a store of your own after fork");
    }
    return SIMBA_OK;
}

/* --- life ---------------------------------------------------------------- */

static int check_options(const simba_store_options *options, simba_error *error)
{
    if (options->notifier_most < 0 ||
        options->notifier_most > NOTIFIERS_LIMIT) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "notifier_most is %d: it must be 0 (for %d) to "
                               "%d",
                               options->notifier_most, NOTIFIERS_MOST,
                               NOTIFIERS_LIMIT);
    }
    if (options->executor != NULL && options->notifier_most != 0) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "notifier_most is %d, but callbacks run on the "
                               "executor: give one of the two",
                               options->notifier_most);
    }
    if ((int)options->config < SIMBA_CONFIG_WHEN_ASKED ||
        options->config > SIMBA_CONFIG_NEVER) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "config is %d: it must be one of enum "
                               "simba_config_use",
                               (int)options->config);
    }
    if ((int)options->log_level < SIMBA_LOG_DEFAULT ||
        options->log_level > SIMBA_LOG_DEBUG) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "log_level is %d: it must be one of enum "
                               "simba_log_level",
                               (int)options->log_level);
    }
    return SIMBA_OK;
}

static int find_options(const simba_store_options *given,
                        simba_store_options *options,
                        simba_error *error)
{
    int rc;

    *options = (simba_store_options)SIMBA_STORE_OPTIONS_INIT;
    if (given == NULL) {
        return SIMBA_OK;
    }
    rc = simba__given_take(
        &(struct simba__given){given, "SIMBA_STORE_OPTIONS_INIT"}, options,
        sizeof *options, error);
    return rc == SIMBA_OK ? check_options(options, error) : rc;
}

static void take_options(simba_store *store,
                         const simba_store_options *options,
                         const struct simba__settings *settings)
{
    store->log = options->log != NULL ? options->log : simba__log_nothing;
    store->log_event = options->log_event;
    store->log_user = options->log_user;
    store->log_level = options->log_level == SIMBA_LOG_DEFAULT
                           ? settings->log_level
                           : options->log_level;
    store->ttl_ms = settings->ttl_ms;
    store->transition_ms = settings->transition_ms;
}

static void close_in_child(void *self)
{
    simba_store *store = self;

    if (store->backend->ops->forked != NULL) {
        store->backend->ops->forked(store->backend);
    }
}

static void detach(void *argument)
{
    simba_store *store = argument;

    if (store->backend != NULL && store->backend->ops->detach != NULL) {
        store->backend->ops->detach(store->backend);
    }
}

static void pass_subscription(void *self,
                              const char *mutex,
                              enum simba_subscription subscription)
{
    simba_backend *backend = self;

    backend->ops->subscription(backend, mutex, subscription);
}

static void listen_for_subscription(simba_store *store)
{
    if (store->backend->ops->subscription != NULL) {
        simba_loop_enter(store->loop);
        store->loop->on_subscription = pass_subscription;
        store->loop->on_subscription_self = store->backend;
        simba_loop_leave(store->loop);
    }
}

static int open_backend(simba_store *store,
                        const char *url,
                        const simba_store_options *options,
                        simba_error *error)
{
    struct simba__found found;
    simba_backend_config config = {.url = url,
                                   .loop = store->loop,
                                   .log = simba__store_log_plain,
                                   .log_user = store,
                                   .look = options->look};
    int rc = simba__registry_find(url, &found, error);

    if (rc == SIMBA_OK) {
        config.rest = found.rest;
        store->module = found.module;
        rc = found.ops->open(&config, &store->backend, error);
    }
    return rc;
}

static bool make_pool(simba_store *store, const simba_store_options *options)
{
    int most = options->notifier_most;

    if (!simba__pool_init(&store->pool, store->loop,
                          most == 0 ? NOTIFIERS_MOST : most)) {
        return false;
    }
    store->pool.log = simba__store_log_plain;
    store->pool.log_user = store;
    store->pool.executor = options->executor;
    store->pool.executor_user = options->executor_user;
    return true;
}

static int open_store(simba_store *store,
                      const char *url,
                      const simba_store_options *options,
                      simba_error *error)
{
    int rc = simba__loop_open(&store->loop, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    rc = open_backend(store, url, options, error);
    if (rc == SIMBA_OK && !make_pool(store, options)) {
        rc = simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    if (rc != SIMBA_OK) {
        simba__loop_end(store->loop, detach, store);
        if (store->backend != NULL) {
            store->backend->ops->close(store->backend);
        }
        simba__loop_close(store->loop);
        return rc;
    }
    listen_for_subscription(store);
    store->loop->tallies.front = store->backend;
    store->fork_entry.forked = close_in_child;
    store->fork_entry.self = store;
    simba__fork_add(&store->fork_entry);
    return SIMBA_OK;
}

static void free_store(simba_store *store)
{
    if (store != NULL) {
        free(store->name);
        free(store);
    }
}

static simba_store *make_store(const char *url, simba_error *error)
{
    simba_store *store = calloc(1, sizeof *store);

    if (store != NULL) {
        store->mark = simba__fork_guard();
        store->name = strdup(url);
    }
    if (store == NULL || store->mark == NULL || store->name == NULL) {
        simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
        free_store(store);
        return NULL;
    }
    simba_url_hide_secrets(store->name);
    return store;
}

static int open_as_set(const struct simba__settings *settings,
                       const simba_store_options *options,
                       simba_store **out,
                       simba_error *error)
{
    simba_store *store = make_store(settings->url, error);
    int rc;

    if (store == NULL) {
        return SIMBA_ENOMEM;
    }
    take_options(store, options, settings);
    simba__fork_hold_off();
    rc = open_store(store, settings->url, options, error);
    simba__fork_let_go();
    if (rc != SIMBA_OK) {
        free_store(store);
        return rc;
    }
    *out = store;
    return SIMBA_OK;
}

int simba_store_open(const char *url,
                     const simba_store_options *given,
                     simba_store **out,
                     simba_error *error)
{
    simba_store_options options;
    struct simba__settings settings;
    int rc = find_options(given, &options, error);

    *out = NULL;
    if (rc != SIMBA_OK) {
        return rc;
    }
    rc = simba__settings_find(&settings, url, options.config, error);
    if (rc == SIMBA_OK) {
        rc = open_as_set(&settings, &options, out, error);
    }
    simba__settings_free(&settings);
    return rc;
}

void simba_store_close(simba_store *store)
{
    if (store == NULL) {
        return;
    }
    if (simba__is_forked(store->mark)) {
        free_store(store); /* the rest belongs to the parent's threads */
        return;
    }
    if (atomic_load(&store->handles) != 0) {
        fprintf(stderr,
                "simba: a store was closed with %d services or "
                "lockers still open\n",
                atomic_load(&store->handles));
        abort();
    }
    simba__pool_fini(&store->pool);
    simba__loop_end(store->loop, detach, store);
    simba__fork_hold_off();
    simba__fork_remove(&store->fork_entry);
    store->backend->ops->close(store->backend);
    simba__tallies_free(&store->loop->tallies);
    simba__loop_close(store->loop);
    simba__fork_let_go();
    /* A module stays loaded: its client library may have threads of its own. */
    free_store(store);
}

int simba_store_life_fd(const simba_store *store)
{
    simba_backend *backend = store->backend;

    return backend->ops->life_fd == NULL ? -1 : backend->ops->life_fd(backend);
}

void simba_store_lease(const simba_store *store,
                       int64_t *ttl_ms,
                       int64_t *transition_ms)
{
    *ttl_ms = store->ttl_ms > 0 ? store->ttl_ms : SIMBA__DEFAULT_TTL_MS;
    *transition_ms = store->transition_ms >= 0 ? store->transition_ms
                                               : SIMBA__DEFAULT_TRANSITION_MS;
}
