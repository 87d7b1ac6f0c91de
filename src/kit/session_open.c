/* A session store with one connection: what is alike in all of them. */
#define _GNU_SOURCE
#include <simba/sys/session_store.h>

#include "kit/url.h"
#include "util/container.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_MS = 2500 }; /* without an answer for so long, from the start */

/* --- what an author may leave out ---------------------------------------- */

static void on_ping(simba_timer *timer)
{
    simba_session_store *self =
        container_of(timer, simba_session_store, pinging);

    self->ops->ping(self);
    simba_timer_set(self->base.loop, timer,
                    simba_loop_now_ms() + self->certainty.timeout_ms / 4);
}

static int want(simba_session_store *self,
                const simba_request *request,
                simba_error *error)
{
    (void)error;
    if (self->certainty.timeout_ms == 0) {
        self->certainty.timeout_ms = request->ttl_ms + request->transition_ms;
        if (self->ops->ping != NULL) {
            on_ping(&self->pinging);
        }
    }
    return SIMBA_OK;
}

static bool is_ready(const simba_session_store *self)
{
    return simba_connection_is_ready(self->connection);
}

static int unready(const simba_session_store *self, simba_error *error)
{
    *error = simba_connection_is_ready(self->connection)
                 ? self->failure
                 : *simba_connection_why(self->connection);
    return error->code != SIMBA_OK
               ? error->code
               : simba_error_set(error, SIMBA_EUNAVAIL, 0,
                                 "%s: no answer in time", self->ops->name);
}

static int64_t lease_ms(const simba_entry *entry,
                        int64_t since_ms,
                        int64_t *wait_ms)
{
    int64_t certain_ms =
        simba_certainty_lease(&entry->store->certainty, since_ms);

    *wait_ms = 1;
    return certain_ms < entry->lease_ms ? certain_ms : entry->lease_ms;
}

static void on_ready(void *store, simba_connection *connection)
{
    simba_session_store *self = store;

    (void)connection;
    simba_session_ready(self);
    simba_wake(self->base.loop, NULL);
}

simba_owner simba_session_owner(const char *id,
                                uint64_t token,
                                int64_t acquired_at_ms)
{
    simba_owner owner = {.acquired_at_ms = acquired_at_ms,
                         .ttl_at_ms = INT64_MAX,
                         .transition_at_ms = INT64_MAX,
                         .token = token};

    return id[0] != '\0' && simba_owner_set_id(&owner, id) ? owner
                                                           : simba_owner_none();
}

/* --- the table ----------------------------------------------------------- */

static int connect(simba_session_store *self,
                   const simba_backend_config *config,
                   simba_error *error)
{
    static const struct simba__parameter none[] = {{0}};
    struct simba__url_form form = {
        .store = self->ops->name,
        .example = self->ops->url,
        .parameters = none,
        .is_networked = true,
        .port = (int)strtol(strrchr(self->ops->url, ':') + 1, NULL, 10)};
    simba_connection_config with = *self->ops->connection;
    struct simba__url url;
    int rc = simba__url_read(&url, &form, config->rest, error);

    with.store = form.store;
    with.loop = config->loop;
    with.log = config->log;
    with.log_user = config->log_user;
    with.self = self;
    with.ready = with.ready == NULL ? on_ready : with.ready;
    with.hosts = url.hosts;
    with.host_count = url.host_count;
    if (rc == SIMBA_OK && url.host_count == 0) {
        rc = simba__url_refuse(&form, "the URL names no host", error);
    }
    if (rc == SIMBA_OK) {
        simba_loop_enter(config->loop);
        rc = simba_connection_open(&with, &self->connection, error);
        simba_loop_leave(config->loop);
    }
    simba__url_fini(&url);
    return rc;
}

int simba_session_open(const simba_backend_config *config,
                       const simba_session_ops *given,
                       simba_backend **backend,
                       simba_error *error)
{
    simba_session_store *self = calloc(1, given->store_size);
    simba_session_ops *ops;
    int rc;

    *backend = NULL;
    if (self == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "%s: no memory",
                               given->name);
    }
    ops = &self->own_ops;
    *ops = *given;
    ops->want = ops->want == NULL ? want : ops->want;
    ops->is_ready = ops->is_ready == NULL ? is_ready : ops->is_ready;
    ops->unready = ops->unready == NULL ? unready : ops->unready;
    ops->lease_ms = ops->lease_ms == NULL ? lease_ms : ops->lease_ms;
    self->ops = ops;
    self->base = (simba_backend){ops->table, config->loop};
    self->first_ms = FIRST_MS;
    self->pinging.fire = on_ping;
    rc = ops->connection == NULL ? SIMBA_OK : connect(self, config, error);
    if (rc == SIMBA_OK) {
        *backend = &self->base;
    } else {
        free(self);
    }
    return rc;
}

void simba_session_detach(simba_backend *base)
{
    simba_session_store *self = (simba_session_store *)base;

    simba_timer_clear(base->loop, &self->pinging);
    simba_session_fini(self);
    simba_connection_close(self->connection);
}

void simba_session_close(simba_backend *base)
{
    free(base);
}

void simba_session_forked(simba_backend *base)
{
    simba_connection_forked(((simba_session_store *)base)->connection);
}

bool simba_session_drive(simba_backend *base, int64_t until_ms)
{
    const simba_session_store *self = (const simba_session_store *)base;
    bool is_driving;

    simba_loop_enter(base->loop);
    is_driving = self->connection != NULL &&
                 simba_connection_drive(self->connection, NULL, until_ms);
    simba_loop_leave(base->loop);
    return is_driving;
}
