#define _GNU_SOURCE
#include "api/contender.h"

#include "core/name.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* --- what users give ----------------------------------------------------- */

int simba__given_take(const simba_store *store,
                      const struct simba__given *given,
                      simba_error *error)
{
    const uint32_t *known = given->from; /* the first member of them all */
    int rc = store == NULL ? SIMBA_OK : simba__store_check(store, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    if (known == NULL || *known == 0) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "what is given must be set up by %s",
                               given->init);
    }
    memcpy(given->to, given->from, *known < given->size ? *known : given->size);
    return SIMBA_OK;
}

int simba__config_mutex(const char *mutex, simba_error *error)
{
    enum simba__name_problem problem;

    if (mutex == NULL) {
        return simba_error_set(error, SIMBA_EINVAL, 0, "a mutex needs a name");
    }
    problem = simba__name_check_mutex(mutex, strlen(mutex));
    if (problem != SIMBA__NAME_FINE) {
        return simba_error_set(error, SIMBA_EINVAL, 0, "the mutex name %s",
                               simba__name_problem_texts[problem]);
    }
    return SIMBA_OK;
}

int simba__config_id(const char *given, char *id, simba_error *error)
{
    enum simba__name_problem problem;

    if (given == NULL) {
        simba_id_host(id);
        return SIMBA_OK;
    }
    problem = simba__name_check_id(given, strlen(given));
    if (problem != SIMBA__NAME_FINE) {
        return simba_error_set(error, SIMBA_EINVAL, 0, "the contender id %s",
                               simba__name_problem_texts[problem]);
    }
    memcpy(id, given, strlen(given) + 1);
    return SIMBA_OK;
}

/* Else the arithmetic of leases would overflow. */
static bool is_in_range(const struct simba__lease *lease)
{
    return lease->ttl_ms > 0 && lease->ttl_ms <= SIMBA__LEASE_MOST_MS &&
           lease->transition_ms <= SIMBA__LEASE_MOST_MS;
}

int64_t simba_times_budget_most_ms(int64_t ttl_ms, int64_t transition_ms)
{
    const struct simba__lease lease = {ttl_ms, transition_ms, 0};

    return transition_ms >= 0 && is_in_range(&lease)
               ? simba__lease_budget_most_ms(&lease)
               : 0;
}

static int invalid(simba_error *error, const char *what, int64_t value)
{
    return simba_error_set(error, SIMBA_EINVAL, 0, "%s: %" PRId64 " ms", what,
                           value);
}

static int check_lease(const struct simba__lease *lease,
                       int64_t least_lease_ms,
                       simba_error *error)
{
    int64_t length_ms;

    switch (simba__lease_check(lease)) {
    case SIMBA__LEASE_FINE:
        break;
    case SIMBA__LEASE_TTL_SHORT:
        return invalid(error, "ttl is shorter than 100 ms", lease->ttl_ms);
    case SIMBA__LEASE_TTL_LONG:
        return invalid(error, "ttl is longer than ten years", lease->ttl_ms);
    case SIMBA__LEASE_TRANSITION_NEGATIVE:
    case SIMBA__LEASE_TRANSITION_LONG:
        return invalid(error, "transition is longer than ten years",
                       lease->transition_ms);
    case SIMBA__LEASE_BUDGET_SHORT:
        return invalid(error, "budget_ms is below 1 ms", lease->budget_ms);
    case SIMBA__LEASE_BUDGET_LONG:
        return simba_error_set(
            error, SIMBA_EINVAL, 0,
            "budget_ms is %" PRId64 ", but a lease of %" PRId64 " ms leaves "
            "at most %" PRId64 " ms; give less, or a longer transition_ms",
            lease->budget_ms, simba__lease_length_ms(lease),
            simba__lease_budget_most_ms(lease));
    }
    length_ms = simba__lease_length_ms(lease);
    if (length_ms < least_lease_ms) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "ttl + transition is %" PRId64 " ms: this store "
                               "needs %" PRId64 " ms or more",
                               length_ms, least_lease_ms);
    }
    return SIMBA_OK;
}

int simba__config_make(const simba_contender *given,
                       int64_t least_lease_ms,
                       struct simba__contend_config *config,
                       simba_error *error)
{
    const simba_times *times = &given->times;
    struct simba__lease *lease = &config->lease;
    int rc = simba__config_mutex(given->mutex, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    *config = (struct simba__contend_config){
        .lease = {.ttl_ms = times->ttl_ms == 0 ? SIMBA__DEFAULT_TTL_MS
                                               : times->ttl_ms,
                  .transition_ms = times->transition_ms < 0
                                       ? SIMBA__DEFAULT_TRANSITION_MS
                                       : times->transition_ms,
                  .budget_ms = times->budget_ms},
        .initial_delay_ms = given->initial_delay_ms,
        .max_hold_ms = times->max_hold_ms,
        .min_hold_ms = times->min_hold_ms,
        .progress_ms = times->progress_ms,
        .join = true};
    if (times->budget_ms == 0 && is_in_range(lease)) {
        lease->budget_ms = simba__lease_budget_default_ms(lease);
    }
    rc = check_lease(lease, least_lease_ms, error);
    if (rc != SIMBA_OK) {
        return rc;
    }
    switch (simba__contend_config_check(config)) {
    case SIMBA__CONTEND_FINE:
    case SIMBA__CONTEND_LEASE:
        break;
    case SIMBA__CONTEND_INITIAL_DELAY:
        return invalid(error, "initial_delay_ms is negative or too long",
                       config->initial_delay_ms);
    case SIMBA__CONTEND_MAX_HOLD:
        return invalid(error, "max_hold_ms is negative or too long",
                       config->max_hold_ms);
    case SIMBA__CONTEND_MIN_HOLD:
        return invalid(error, "min_hold_ms is negative or too long",
                       config->min_hold_ms);
    case SIMBA__CONTEND_HOLD_ORDER:
        return invalid(error, "min_hold_ms is longer than max_hold_ms",
                       config->min_hold_ms);
    case SIMBA__CONTEND_PROGRESS:
        return invalid(error, "progress_ms is negative or too long",
                       config->progress_ms);
    }
    return SIMBA_OK;
}

/* --- ids ----------------------------------------------------------------- */

static void random_hex(char *to, size_t bytes)
{
    unsigned char random[16];

    assert(bytes <= sizeof random);
    if (getrandom(random, bytes, 0) != (ssize_t)bytes) {
        abort(); /* ids that repeat would be worse than none */
    }
    for (size_t i = 0; i < bytes; i++) {
        snprintf(to + 2 * i, 3, "%02x", random[i]);
    }
}

/* Two containers may share pid and host name, so randomness follows. The id
 * must be valid by S14 whatever the host is called. */
void simba_id_host(char *id)
{
    static _Atomic unsigned long counter;
    char host[65] = ""; /* host names end at 64 bytes on Linux */
    char random[13];

    if (gethostname(host, sizeof host) != 0 || host[0] == '\0') {
        memcpy(host, "localhost", sizeof "localhost");
    }
    host[sizeof host - 1] = '\0';
    for (char *c = host; *c != '\0'; c++) {
        if (*c == '@' || *c < ' ' || *c > '~') {
            *c = '-';
        }
    }
    random_hex(random, 6);
    snprintf(id, SIMBA_ID_MAX + 1, "%lu:%ld@%s-%s",
             atomic_fetch_add(&counter, 1), (long)getpid(), host, random);
}

void simba_id_uuid(char *id)
{
    random_hex(id, 16);
}

/* --- a contender --------------------------------------------------------- */

int simba__contender_open(struct simba__contender *c,
                          simba_store *store,
                          const simba_contender *given,
                          simba_error *error)
{
    struct simba__contention *contention = &c->contention;
    simba_contender contender = *given;
    struct simba__contend_config config;
    int rc;

    assert(c->what != NULL && c->own != NULL && contention->hooks != NULL);
    if (contender.times.ttl_ms == 0) {
        contender.times.ttl_ms = store->ttl_ms;
    }
    if (contender.times.transition_ms < 0) {
        contender.times.transition_ms = store->transition_ms;
    }
    c->store = store;
    contention->loop = store->loop;
    contention->backend = store->backend;
    contention->mark = store->mark;
    rc = simba__config_make(&contender, store->backend->ops->least_lease_ms,
                            &config, error);
    if (rc == SIMBA_OK) {
        rc = simba__config_id(contender.id, contention->id, error);
    }
    if (rc == SIMBA_OK) {
        simba_loop_enter(store->loop);
        rc =
            simba__contention_open(contention, &config, contender.mutex, error);
        simba_loop_leave(store->loop);
    }
    if (rc == SIMBA_OK) {
        atomic_fetch_add(&store->handles, 1);
    }
    return rc;
}

void simba__contender_close(struct simba__contender *c)
{
    simba_loop_enter(c->store->loop);
    simba__contention_close(&c->contention);
    simba_loop_leave(c->store->loop);
    atomic_fetch_sub(&c->store->handles, 1);
}

bool simba__contender_may_close(struct simba__contender *c, bool is_own)
{
    if (simba__is_forked(c->store->mark)) {
        free(c->contention.mutex);
        return false;
    }
    if (is_own) {
        fprintf(stderr, "simba: a %s was closed by its own %s\n", c->what,
                c->own);
        abort();
    }
    return true;
}

void simba__contender_log(const struct simba__contender *c,
                          struct simba__log_entry entry,
                          const char *format,
                          ...)
{
    va_list args;

    entry.component = c->what;
    entry.mutex = c->contention.mutex;
    entry.id = c->contention.id;
    va_start(args, format);
    simba__store_vlog(c->store, &entry, format, args);
    va_end(args);
}

void simba__contender_log_failure(const struct simba__contender *c,
                                  enum simba_log_level level,
                                  int status,
                                  const simba_error *error)
{
    simba__contender_log(
        c, (struct simba__log_entry){.level = level, .status = status}, "%s",
        error != NULL && error->message[0] != '\0' ? error->message
                                                   : simba_strerror(status));
}

const char *simba__cause_name(enum simba__cause cause)
{
    static const char *const names[] = {"stopped", "expired", "gone",
                                        "max_hold", "stalled"};

    assert((size_t)cause < sizeof names / sizeof names[0]);
    return names[cause];
}

/* --- from start to stop -------------------------------------------------- */

enum wish { WISH_REST, WISH_STARTED, WISH_STOPPED };

void simba__lifecycle_init(struct simba__lifecycle *lifecycle,
                           struct simba__contender *contender)
{
    lifecycle->contender = contender;
    pthread_cond_init(&lifecycle->changed, NULL);
}

void simba__lifecycle_fini(struct simba__lifecycle *lifecycle)
{
    pthread_cond_destroy(&lifecycle->changed);
}

int simba__lifecycle_start(struct simba__lifecycle *lifecycle,
                           simba_error *error)
{
    struct simba__contender *c = lifecycle->contender;
    int rc = simba__store_check(c->store, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    simba_loop_enter(c->store->loop);
    if (atomic_load(&lifecycle->wish) != WISH_REST) {
        rc = simba_error_set(error, SIMBA_EMISUSE, 0,
                             "%s: the %s is started already",
                             c->contention.mutex, c->what);
    } else {
        atomic_store(&lifecycle->wish, WISH_STARTED);
        lifecycle->is_contending = true;
        lifecycle->is_unreleased = false;
        simba__contention_start(&c->contention, true);
    }
    simba_loop_leave(c->store->loop);
    return rc;
}

int simba__lifecycle_stop(struct simba__lifecycle *lifecycle,
                          bool is_own,
                          simba_error *error)
{
    struct simba__contender *c = lifecycle->contender;
    uint64_t rests;
    bool is_unreleased;
    int rc = simba__store_check(c->store, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    if (is_own) {
        return simba_error_set(error, SIMBA_EMISUSE, 0,
                               "%s: stop was called from its own %s",
                               c->contention.mutex, c->own);
    }
    simba__callback_pool_block(&c->store->pool);
    simba_loop_enter(c->store->loop);
    rests = lifecycle->rests;
    if (atomic_load(&lifecycle->wish) == WISH_STARTED) {
        atomic_store(&lifecycle->wish, WISH_STOPPED);
        simba__contention_stop(&c->contention);
    }
    while (atomic_load(&lifecycle->wish) != WISH_REST &&
           lifecycle->rests == rests) {
        simba__loop_wait(c->store->loop, &lifecycle->changed, NULL);
    }
    is_unreleased = lifecycle->is_unreleased;
    simba_loop_leave(c->store->loop);
    simba__callback_pool_unblock(&c->store->pool);
    if (is_unreleased) {
        return simba_error_set(error, SIMBA_EUNKNOWN, 0,
                               "%s: the store did not answer the release; "
                               "the lease lapses by itself",
                               c->contention.mutex);
    }
    return SIMBA_OK;
}

void simba__lifecycle_end(struct simba__lifecycle *lifecycle,
                          const struct simba__contend_update *update)
{
    assert(update->tell & SIMBA__TELL_STOPPED);
    lifecycle->is_contending = false;
    lifecycle->is_unreleased = (update->tell & SIMBA__TELL_UNRELEASED) != 0;
}

void simba__lifecycle_rest(struct simba__lifecycle *lifecycle)
{
    assert(!lifecycle->is_contending);
    atomic_store(&lifecycle->wish, WISH_REST);
    lifecycle->rests++;
    pthread_cond_broadcast(&lifecycle->changed);
}

enum simba_service_status simba__lifecycle_status(
    const struct simba__lifecycle *lifecycle)
{
    switch (atomic_load(&lifecycle->wish)) {
    case WISH_REST:
        return SIMBA_INITIAL;
    case WISH_STOPPED:
        return SIMBA_STOPPING;
    default:
        return atomic_load(&lifecycle->contender->contention.is_heard)
                   ? SIMBA_RUNNING
                   : SIMBA_STARTING;
    }
}
