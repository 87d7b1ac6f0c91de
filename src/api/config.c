#include "api/config.h"

#include "core/name.h"

#include <inttypes.h>
#include <string.h>

static int invalid(simba_error *error, const char *what, int64_t value)
{
    return simba_error_set(error, SIMBA_EINVAL, 0, "%s: %" PRId64 " ms", what,
                           value);
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
                               simba__name_problem_text(problem));
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
                               simba__name_problem_text(problem));
    }
    memcpy(id, given, strlen(given) + 1);
    return SIMBA_OK;
}

static int check_lease(const struct simba__lease *lease, simba_error *error)
{
    switch (simba__lease_check(lease)) {
    case SIMBA__LEASE_FINE:
        return SIMBA_OK;
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
        break;
    }
    return simba_error_set(
        error, SIMBA_EINVAL, 0,
        "budget_ms is %" PRId64 ", but a lease of %" PRId64 " ms leaves at "
        "most %" PRId64 " ms; give less, or a longer transition_ms",
        lease->budget_ms, simba__lease_length_ms(lease),
        simba__lease_budget_most_ms(lease));
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

static int check_rest(const struct simba__contend_config *config,
                      simba_error *error)
{
    switch (simba__contend_config_check(config)) {
    case SIMBA__CONTEND_FINE:
    case SIMBA__CONTEND_LEASE:
        return SIMBA_OK;
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
        break;
    }
    return invalid(error, "progress_ms is negative or too long",
                   config->progress_ms);
}

int simba__config_make(const simba_contender *given,
                       int64_t least_lease_ms,
                       struct simba__contend_config *config,
                       simba_error *error)
{
    struct simba__lease *lease = &config->lease;
    int rc = simba__config_mutex(given->mutex, error);

    if (rc != SIMBA_OK) {
        return rc;
    }
    memset(config, 0, sizeof *config);
    config->join = true;
    lease->ttl_ms =
        given->times.ttl_ms == 0 ? SIMBA__DEFAULT_TTL_MS : given->times.ttl_ms;
    lease->transition_ms = given->times.transition_ms < 0
                               ? SIMBA__DEFAULT_TRANSITION_MS
                               : given->times.transition_ms;
    lease->budget_ms = given->times.budget_ms;
    if (given->times.budget_ms == 0 && is_in_range(lease)) {
        lease->budget_ms = simba__lease_budget_default_ms(lease);
    }
    config->initial_delay_ms = given->initial_delay_ms;
    config->max_hold_ms = given->times.max_hold_ms;
    config->min_hold_ms = given->times.min_hold_ms;
    config->progress_ms = given->times.progress_ms;
    rc = check_lease(lease, error);
    if (rc == SIMBA_OK && simba__lease_length_ms(lease) < least_lease_ms) {
        rc = simba_error_set(error, SIMBA_EINVAL, 0,
                             "ttl + transition is %" PRId64 " ms: this store "
                             "needs %" PRId64 " ms or more",
                             simba__lease_length_ms(lease), least_lease_ms);
    }
    return rc == SIMBA_OK ? check_rest(config, error) : rc;
}
