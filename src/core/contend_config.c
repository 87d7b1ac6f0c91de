/* What a contender may be told: see contend.h. */
#include "core/contend.h"

enum simba__contend_problem simba__contend_config_check(
    const struct simba__contend_config *config)
{
    const struct {
        int64_t ms;
        enum simba__contend_problem problem;
    } spans[] = {{config->initial_delay_ms, SIMBA__CONTEND_INITIAL_DELAY},
                 {config->max_hold_ms, SIMBA__CONTEND_MAX_HOLD},
                 {config->min_hold_ms, SIMBA__CONTEND_MIN_HOLD},
                 {config->progress_ms, SIMBA__CONTEND_PROGRESS}};

    if (simba__lease_check(&config->lease) != SIMBA__LEASE_FINE) {
        return SIMBA__CONTEND_LEASE;
    }
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
        if (spans[i].ms < 0 || spans[i].ms > SIMBA__LEASE_MOST_MS) {
            return spans[i].problem;
        }
    }
    return config->max_hold_ms > 0 && config->min_hold_ms > config->max_hold_ms
               ? SIMBA__CONTEND_HOLD_ORDER
               : SIMBA__CONTEND_FINE;
}

bool simba__contend_config_is_same(const struct simba__contend_config *a,
                                   const struct simba__contend_config *b)
{
    return a->lease.ttl_ms == b->lease.ttl_ms &&
           a->lease.transition_ms == b->lease.transition_ms &&
           a->lease.budget_ms == b->lease.budget_ms &&
           a->initial_delay_ms == b->initial_delay_ms &&
           a->max_hold_ms == b->max_hold_ms &&
           a->min_hold_ms == b->min_hold_ms &&
           a->progress_ms == b->progress_ms && a->join == b->join &&
           a->slots == b->slots;
}
