#include "api/enlist.h"

#include "api/config.h"

/* Times that the contender leaves open are the store's. */
static simba_contender with_defaults(const simba_store *store,
                                     const simba_contender *given)
{
    simba_contender contender = *given;

    if (contender.times.ttl_ms == 0) {
        contender.times.ttl_ms = store->ttl_ms;
    }
    if (contender.times.transition_ms < 0) {
        contender.times.transition_ms = store->transition_ms;
    }
    return contender;
}

int simba__enlist(simba_store *store,
                  struct simba__contention *contention,
                  const simba_contender *given,
                  simba_error *error)
{
    simba_contender contender = with_defaults(store, given);
    struct simba__contend_config config;
    int rc = simba__config_make(&contender, store->backend->ops->least_lease_ms,
                                &config, error);

    if (rc == SIMBA_OK) {
        rc = simba__config_id(contender.id, contention->id, error);
    }
    if (rc == SIMBA_OK) {
        contention->loop = store->loop;
        contention->backend = store->backend;
        contention->mark = store->mark;
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

void simba__delist(simba_store *store, struct simba__contention *contention)
{
    simba_loop_enter(store->loop);
    simba__contention_close(contention);
    simba_loop_leave(store->loop);
    atomic_fetch_sub(&store->handles, 1);
}

struct simba__log_entry simba__about(const struct simba__contention *contention,
                                     enum simba_log_level level,
                                     const char *component)
{
    return (struct simba__log_entry){.level = level,
                                     .component = component,
                                     .mutex = contention->mutex,
                                     .id = contention->id};
}

const char *simba__cause_name(enum simba__cause cause)
{
    static const char *const names[] = {"stopped", "expired", "gone",
                                        "max_hold", "stalled"};

    return names[cause];
}
