#include "api/enlist.h"

#include "api/config.h"

struct opening {
    struct simba__contention *contention;
    struct simba__contend_config config;
    const char *mutex;
    simba_error *error;
    int rc;
};

static void open_on_loop(void *argument)
{
    struct opening *o = argument;

    o->rc =
        simba__contention_open(o->contention, &o->config, o->mutex, o->error);
}

static void close_on_loop(void *argument)
{
    simba__contention_close(argument);
}

int simba__enlist(simba_store *store,
                  struct simba__contention *contention,
                  const simba_contender *contender,
                  simba_error *error)
{
    struct opening o = {
        .contention = contention, .mutex = contender->mutex, .error = error};

    o.rc = simba__config_make(contender, store->backend->ops->least_lease_ms,
                              &o.config, error);
    if (o.rc == SIMBA_OK) {
        o.rc = simba__config_id(contender->id, contention->id, error);
    }
    if (o.rc == SIMBA_OK) {
        contention->loop = store->loop;
        contention->backend = store->backend;
        contention->mark = store->mark;
        simba__store_call(store, open_on_loop, &o);
    }
    if (o.rc == SIMBA_OK) {
        atomic_fetch_add(&store->handles, 1);
    }
    return o.rc;
}

void simba__delist(simba_store *store, struct simba__contention *contention)
{
    simba__store_call(store, close_on_loop, contention);
    atomic_fetch_sub(&store->handles, 1);
}
