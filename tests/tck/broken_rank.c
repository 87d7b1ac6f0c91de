/* Session stores that are broken on purpose: `brokenrank://HOST:PORT/FAULT`.
 * Each is examples/backend/simba-rank.c with one mistake that an author of a
 * session store could make, and each is caught by a test of the contract
 * (test_broken.c). Some functions that the example calls have other names
 * there, so that what it sends and answers comes by here. */
#define _GNU_SOURCE
#include <simba/sys/connection.h>
#include <simba/sys/session_store.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const simba_backend_ops rank_module;
static const char *fault = "";

static bool is(const char *name)
{
    return strcmp(fault, name) == 0;
}

static void broken_wake(simba_loop *loop, const char *mutex)
{
    if (!is(mutex == NULL ? "no_wake_when_back" : "deaf")) {
        simba_wake(loop, mutex);
    }
}

static void broken_done(simba_entry *entry,
                        int status,
                        const simba_error *error,
                        enum simba_standing standing);
static bool broken_write(const void *store,
                         simba_connection *connection,
                         const char *text);

#define simba_module                       rank_module
#define simba_wake                         broken_wake
#define simba_entry_done                   broken_done
#define simba_connection_write(c, text, n) broken_write(ask->store, c, text)
// NOLINTNEXTLINE(bugprone-suspicious-include)
#include "../../examples/backend/simba-rank.c"
#undef simba_module
#undef simba_entry_done
#undef simba_connection_write

static bool write_text(simba_connection *connection, const char *text)
{
    return simba_connection_write(connection, text, strlen(text));
}

/* A step's line has the watch before it. */
static bool broken_write(const void *store,
                         simba_connection *connection,
                         const char *text)
{
    const struct store *self = store;
    bool is_back = strcmp(self->hello.line, "hello\t0\n") != 0;
    const char *step =
        strncmp(text, "watch\t", 6) == 0 ? strchr(text, '\n') + 1 : text;
    char line[LINE_ROOM];

    if (is("watch_after_refusal") || (is("watches_not_set_again") && is_back)) {
        text = step;
    }
    if (strncmp(text, "hello\t", 6) == 0 && is("session_not_resumed")) {
        text = "hello\t0\n";
    }
    snprintf(line, sizeof line, "%s", text);
    if (strncmp(step, "look\t", 5) == 0 && is("head_never_evicted")) {
        line[strlen(line) - 2] = '0';
    }
    return write_text(connection, line);
}

static void broken_done(simba_entry *entry,
                        int status,
                        const simba_error *error,
                        enum simba_standing standing)
{
    const struct entry *e = (const struct entry *)entry;

    if (status == SIMBA_EUNKNOWN && is("failed_for_unknown")) {
        status = SIMBA_EUNAVAIL;
    }
    if (status == SIMBA_OK && standing == SIMBA_STANDS_BEHIND &&
        is("watch_after_refusal")) {
        char watch[LINE_ROOM];

        snprintf(watch, sizeof watch, "%s", e->ask.line);
        *(strchr(watch, '\n') + 1) = '\0';
        (void)write_text(e->ask.store->connection, watch);
    }
    entry->is_head |= is("everybody_is_head");
    simba_entry_done(entry, status, error, standing);
}

/* --- other functions in the tables --------------------------------------- */

static int64_t claim_all(const simba_entry *entry,
                         int64_t since_ms,
                         int64_t *wait_ms)
{
    (void)since_ms;
    *wait_ms = 1;
    return entry->lease_ms;
}

/* We have it, as far as we know. */
static void renew_from_memory(simba_session_store *store,
                              simba_entry *const *entries,
                              int count)
{
    struct store *self = (struct store *)store;

    (void)count;
    simba_certainty_answered(&self->certainty, simba_loop_now_ms(),
                             simba_loop_now_ms());
    simba_entry_renewed(entries[0], SIMBA_OK, NULL, true);
    simba_session_renewed(store);
}

static void read_nothing(simba_session_store *store, simba_request *request)
{
    (void)store;
    simba_request_done(request, SIMBA_OK, NULL);
}

static int open_broken(const simba_backend_config *config,
                       simba_backend **backend,
                       simba_error *error);

const simba_backend_ops simba_module = {
    .abi = SIMBA_BACKEND_ABI,
    .scheme = "brokenrank",
    .least_lease_ms = 500,
    .open = open_broken,
    .submit = simba_session_submit,
    .close = close_rank,
    .detach = detach,
    .forked = forked,
    .capabilities = SIMBA_CAN_PUSH | SIMBA_HAS_SESSION_LEASE,
    .subscription = simba_session_subscription,
};

static int open_broken(const simba_backend_config *config,
                       simba_backend **backend,
                       simba_error *error)
{
    static char chosen[64];
    static simba_session_ops ops;
    static simba_backend_ops table;
    const char *slash = strrchr(config->rest, '/');
    int rc = open_rank(config, backend, error);

    snprintf(chosen, sizeof chosen, "%s", slash + 1);
    fault = chosen;
    ops = session_ops;
    ops.lease_ms = is("lease_never_filled") ? claim_all : ops.lease_ms;
    ops.renew = is("renews_from_memory") ? renew_from_memory : ops.renew;
    ops.admin = is("reads_nothing") ? read_nothing : ops.admin;
    ops.close_session = is("session_left") ? NULL : ops.close_session;
    table = simba_module;
    table.forked = is("no_forked") ? NULL : table.forked;
    if (rc == SIMBA_OK) {
        ((struct store *)*backend)->base.ops = &ops;
        (*backend)->ops = &table;
    }
    return rc;
}
