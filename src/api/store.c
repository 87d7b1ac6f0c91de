#define _GNU_SOURCE
#include "api/store.h"

#include "api/ask.h"
#include "api/contender.h"
#include "api/settings.h"
#include "core/saturate.h"
#include "kit/backoff.h"
#include "kit/lookup.h"
#include "runtime/fork.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS_MOST = 16, THREADS_LIMIT = 1024 };

/* How long closing waits for a session to end. */
enum { CLOSE_MS = 500 };

_Static_assert(THREADS_MOST == 16 && THREADS_LIMIT == 1024,
               "check_options() names these numbers");

/* How long a server may take to let us in. */
enum { TRY_MS = 4500, TRY_LEAST_MS = 500 };

/* What a contender gets that sets no times, where nothing is configured. */
enum { DEFAULT_TTL_MS = 10000, DEFAULT_TRANSITION_MS = 6000 };

int simba__store_check(const simba_store *store, simba_error *error)
{
    if (simba__is_forked(store->mark)) {
        return simba_error_set(error, SIMBA_EFORKED, 0,
                               "this handle belongs to the parent process; "
                               "open a store of your own after fork");
    }
    return SIMBA_OK;
}

int simba__fail_memory(simba_error *error)
{
    return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
}

const char *simba__error_text(int status, const simba_error *error)
{
    return error != NULL && error->message[0] != '\0' ? error->message
                                                      : simba_strerror(status);
}

/* --- the log ------------------------------------------------------------- */

enum { FIELDS_MOST = 5 };

void simba__log_nothing(void *user,
                        enum simba_log_level level,
                        const char *component,
                        const char *message)
{
    (void)user;
    (void)level;
    (void)component;
    (void)message;
}

const char *simba_log_level_name(enum simba_log_level level)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    int index = (int)level;

    return index >= 0 && index <= (int)SIMBA_LOG_DEBUG ? names[index] : "warn";
}

static void add(simba_log_event *event, const char *key, const char *value)
{
    /* The array is the caller's, and has room for all. */
    simba_log_field *fields = (simba_log_field *)event->fields;

    if (value != NULL) {
        assert(event->field_count < FIELDS_MOST);
        fields[event->field_count++] = (simba_log_field){key, value};
    }
}

static void write_entry(const simba_store *store,
                        const struct simba__log_entry *entry,
                        const char *message)
{
    simba_log_field fields[FIELDS_MOST];
    simba_log_event event = {.size = sizeof event,
                             .level = entry->level,
                             .component = entry->component,
                             .message = message,
                             .fields = fields};
    char token[24];

    if (entry->level > store->log_level) {
        return;
    }
    if (store->log_event == NULL) {
        store->log(store->log_user, entry->level, entry->component, message);
        return;
    }
    (void)snprintf(token, sizeof token, "%" PRIu64, entry->token);
    add(&event, "mutex", entry->mutex);
    add(&event, "id", entry->id);
    add(&event, "token", entry->token == 0 ? NULL : token);
    add(&event, "cause", entry->cause);
    add(&event, "status",
        entry->status == SIMBA_OK ? NULL : simba_status_name(entry->status));
    store->log_event(store->log_user, &event);
}

void simba__store_vlog(const simba_store *store,
                       const struct simba__log_entry *entry,
                       const char *format,
                       va_list args)
{
    char message[640];
    int length = 0;

    if (entry->level > store->log_level) {
        return;
    }
    if (entry->mutex != NULL) {
        length = snprintf(message, sizeof message, "%s: ", entry->mutex);
    }
    assert((size_t)length < sizeof message); /* names are short */
    (void)vsnprintf(message + length, sizeof message - (size_t)length, format,
                    args);
    write_entry(store, entry, message);
}

void simba__store_log(const simba_store *store,
                      enum simba_log_level level,
                      const char *component,
                      const char *format,
                      ...)
{
    struct simba__log_entry entry = {.level = level, .component = component};
    va_list args;

    va_start(args, format);
    simba__store_vlog(store, &entry, format, args);
    va_end(args);
}

/* For backends, as a simba_log_fn; `user` is the store. */
static void log_plain(void *user,
                      enum simba_log_level level,
                      const char *component,
                      const char *message)
{
    struct simba__log_entry entry = {.level = level, .component = component};

    write_entry(user, &entry, message);
}

/* --- life ---------------------------------------------------------------- */

static int check_options(const simba_store_options *options, simba_error *error)
{
    const struct {
        const char *name;
        int value, least, most;
        const char *wanted;
    } numbers[] = {
        {"callback_threads", options->callback_threads, 0, THREADS_LIMIT,
         "0 (for 16) to 1024"},
        {"config", (int)options->config, SIMBA_CONFIG_WHEN_ASKED,
         SIMBA_CONFIG_NEVER, "one of enum simba_config_use"},
        {"log_level", (int)options->log_level, SIMBA_LOG_DEFAULT,
         SIMBA_LOG_DEBUG, "one of enum simba_log_level"},
    };

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (numbers[i].value < numbers[i].least ||
            numbers[i].value > numbers[i].most) {
            return simba_error_set(error, SIMBA_EINVAL, 0,
                                   "%s is %d: it must be %s", numbers[i].name,
                                   numbers[i].value, numbers[i].wanted);
        }
    }
    if (options->executor != NULL && options->callback_threads != 0) {
        return simba_error_set(
            error, SIMBA_EINVAL, 0,
            "callback_threads is %d, but callbacks run on the "
            "executor: give one of the two",
            options->callback_threads);
    }
    if (options->dispatch &&
        (options->executor != NULL || options->callback_threads != 0)) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "callbacks run in simba_store_dispatch(): give "
                               "no executor and no callback_threads");
    }
    return SIMBA_OK;
}

static void close_in_child(void *self)
{
    simba_store *store = self;

    if (store->backend->ops->forked != NULL) {
        store->backend->ops->forked(store->backend);
    }
    if (store->pool.ready_fd >= 0) {
        close(store->pool.ready_fd);
        store->pool.ready_fd = -1;
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

static int give_up(simba_store *store, int rc)
{
    simba__loop_end(store->loop, detach, store);
    if (store->backend != NULL) {
        store->backend->ops->close(store->backend);
    }
    simba__loop_close(store->loop);
    return rc;
}

static int open_store(simba_store *store,
                      const char *url,
                      const simba_store_options *options,
                      simba_error *error)
{
    simba_backend_config config = {.url = url,
                                   .log = log_plain,
                                   .log_user = store,
                                   .look = options->look,
                                   .examine = options->examine,
                                   .find = simba__backend_find};
    const simba_backend_ops *ops;
    int most = options->callback_threads == 0 ? THREADS_MOST
                                              : options->callback_threads;
    int rc = simba__loop_open(&store->loop, error);

    assert(store->log != NULL && store->mark != NULL);
    if (rc != SIMBA_OK) {
        return rc;
    }
    config.loop = store->loop;
    simba__loop_spin(store->loop, store->spin_us);
    rc = simba__backend_find(url, &ops, &config.rest, error);
    if (rc == SIMBA_OK) {
        rc = ops->open(&config, &store->backend, error);
    }
    if (rc == SIMBA_OK &&
        !simba__callback_pool_init(&store->pool, store->loop, most)) {
        rc = simba__fail_memory(error);
    }
    if (rc != SIMBA_OK) {
        return give_up(store, rc);
    }
    store->pool.log = log_plain;
    store->pool.log_user = store;
    store->pool.executor = options->executor;
    store->pool.executor_user = options->executor_user;
    if (options->dispatch && !simba__callback_pool_open_fd(&store->pool)) {
        rc = simba_error_set(error, SIMBA_EINTERNAL, errno,
                             "the system gives no descriptor: %s",
                             strerror(errno));
        simba__callback_pool_fini(&store->pool);
        return give_up(store, rc);
    }
    simba_loop_enter(store->loop);
    if (store->backend->ops->subscription != NULL) {
        store->loop->on_subscription = pass_subscription;
        store->loop->on_subscription_self = store->backend;
    }
    store->loop->front = store->backend;
    store->loop->mark = store->mark;
    simba_loop_leave(store->loop);
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

/* Nothing is left but the handle's memory. */
/* A server that is silent is not waited for: its session runs out. */
static void end_session(simba_store *store)
{
    struct simba__pending *pending = NULL;
    struct simba__answer answer;

    if ((store->backend->ops->capabilities & SIMBA_HAS_SESSION_LEASE) != 0) {
        pending = simba__request_make(
            &(simba_request){.kind = SIMBA_CLOSE, .mutex = ""});
    }
    if (pending != NULL) {
        pending->request.deadline_ms = simba_loop_now_ms() + CLOSE_MS;
        simba__ask(store, pending, 0, &answer);
        simba_report_close(answer.report);
    }
}

static void close_store(simba_store *store)
{
    simba__callback_pool_fini(&store->pool);
    end_session(store);
    simba__loop_end(store->loop, detach, store);
    simba__fork_hold_off();
    simba__fork_remove(&store->fork_entry);
    store->backend->ops->close(store->backend);
    simba__loop_metrics_fini(&store->loop->metrics);
    simba__loop_close(store->loop);
    simba__fork_let_go();
}

/* One try to reach the server. A backend that does not answer in time is not
 * there. */
static int reach(simba_store *store, int64_t most_ms, simba_error *error)
{
    enum { REACH_GRACE_MS = 500 };
    simba_request request = SIMBA_REQUEST_INIT;
    struct simba__pending *pending;
    struct simba__answer answer;

    request.kind = SIMBA_REACH;
    request.mutex = request.id = "";
    request.deadline_ms = simba_loop_now_ms() + most_ms;
    pending = simba__request_make(&request);
    if (pending == NULL) {
        return simba__fail_memory(error);
    }
    simba__ask(store, pending, REACH_GRACE_MS, &answer);
    simba_report_close(answer.report);
    if (answer.status == SIMBA_EUNKNOWN) {
        return simba_error_set(
            error, SIMBA_EUNAVAIL, 0, "%s",
            simba__error_text(SIMBA_EUNAVAIL, &answer.error));
    }
    *error = answer.error;
    return answer.status;
}

/* Opens it and, if the options say so, waits for it. */
static int open_patiently(simba_store *store,
                          const char *url,
                          const simba_store_options *options,
                          simba_error *error)
{
    struct simba__backoff pause = {.first_ms = 20, .most_ms = 500};
    struct simba__outage outage = {0};
    int64_t until_ms =
        options->wait_ms < 0
            ? INT64_MAX
            : simba__add_saturating(simba_loop_now_ms(), options->wait_ms);
    int64_t most_ms = TRY_MS;
    bool is_open = false;

    for (;;) {
        int64_t now_ms, next_ms, seconds;
        struct timespec nap;
        int rc = SIMBA_OK;

        if (!is_open) {
            simba__fork_hold_off();
            rc = open_store(store, url, options, error);
            simba__fork_let_go();
            is_open = rc == SIMBA_OK;
        }
        if (is_open && options->wait_ms != 0 &&
            (store->backend->ops->capabilities & SIMBA_HAS_SERVER) != 0) {
            rc = reach(store, most_ms, error);
        }
        now_ms = simba_loop_now_ms();
        if (rc != SIMBA_EUNAVAIL || error->native == SIMBA__UNKNOWN_HOST ||
            now_ms >= until_ms) {
            if (is_open && rc != SIMBA_OK) {
                close_store(store);
            }
            return rc;
        }
        seconds = simba__outage_news(&outage, now_ms);
        if (seconds == 0) {
            simba__store_log(store, SIMBA_LOG_WARN, "store",
                             "%s; waiting for it", error->message);
        } else if (seconds > 0) {
            simba__store_log(store, SIMBA_LOG_WARN, "store",
                             "unreachable for %" PRId64 " s: %s", seconds,
                             error->message);
        }
        next_ms = simba__backoff_until(&pause);
        next_ms = next_ms < until_ms ? next_ms : until_ms;
        /* The first try has its time, the last one what is left, but enough
         * to learn why it is in vain. */
        most_ms = until_ms - next_ms < TRY_MS ? until_ms - next_ms : TRY_MS;
        most_ms = most_ms > TRY_LEAST_MS ? most_ms : TRY_LEAST_MS;
        nap = (struct timespec){(next_ms - now_ms) / 1000,
                                (next_ms - now_ms) % 1000 * 1000000};
        (void)nanosleep(&nap, NULL);
    }
}

int simba_store_open(const char *url,
                     const simba_store_options *given,
                     simba_store **out,
                     simba_error *error)
{
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;
    struct simba__settings settings;
    simba_store *store;
    simba_error why = {0};
    int rc = SIMBA_OK;

    *out = NULL;
    if (given != NULL) {
        const struct simba__given take = {
            given, "SIMBA_STORE_OPTIONS_INIT", &options, sizeof options,
            offsetof(simba_store_options, reserved)};

        rc = simba__given_take(NULL, &take, error);
    }
    if (rc == SIMBA_OK) {
        rc = check_options(&options, error);
    }
    if (rc != SIMBA_OK) {
        return rc;
    }
    rc = simba__settings_find(&settings, url, options.config, error);
    store = rc == SIMBA_OK ? calloc(1, sizeof *store) : NULL;
    if (store != NULL) {
        store->mark = simba__fork_guard();
        store->name = strdup(settings.url);
    }
    if (rc == SIMBA_OK &&
        (store == NULL || store->mark == NULL || store->name == NULL)) {
        rc = simba__fail_memory(error);
    } else if (store != NULL) {
        simba_url_hide_secrets(store->name);
        store->log = options.log != NULL ? options.log : simba__log_nothing;
        store->log_event = options.log_event;
        store->log_user = options.log_user;
        store->log_level = options.log_level == SIMBA_LOG_DEFAULT
                               ? settings.log_level
                               : options.log_level;
        store->ttl_ms = settings.ttl_ms;
        store->transition_ms = settings.transition_ms;
        store->spin_us = settings.spin_us;
        simba__store_log(store, SIMBA_LOG_INFO, "store", "store %s, %s",
                         store->name, settings.origin);
        rc = simba__settings_blame(
            &settings, open_patiently(store, settings.url, &options, &why),
            &why);
        if (rc != SIMBA_OK && error != NULL) {
            *error = why;
        }
    }
    simba__settings_free(&settings);
    if (rc == SIMBA_OK) {
        *out = store;
    } else {
        free_store(store);
    }
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
    close_store(store);
    free_store(store);
}

int simba_store_life_fd(const simba_store *store)
{
    simba_backend *backend = store->backend;

    return backend->ops->life_fd == NULL ? -1 : backend->ops->life_fd(backend);
}

int simba_store_fd(const simba_store *store)
{
    return store->pool.ready_fd;
}

int simba_store_dispatch(simba_store *store, simba_error *error)
{
    int rc = simba__store_check(store, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    if (store->pool.ready_fd < 0) {
        return simba_error_set(error, SIMBA_EMISUSE, 0,
                               "the store was opened without dispatch");
    }
    return simba__callback_pool_dispatch(&store->pool);
}

void simba_store_lease(const simba_store *store,
                       int64_t *ttl_ms,
                       int64_t *transition_ms)
{
    *ttl_ms = store->ttl_ms > 0 ? store->ttl_ms : DEFAULT_TTL_MS;
    *transition_ms = store->transition_ms >= 0 ? store->transition_ms
                                               : DEFAULT_TRANSITION_MS;
}

uint32_t simba_store_capabilities(const simba_store *store)
{
    return store->backend->ops->capabilities;
}
