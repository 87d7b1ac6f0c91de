/* Session stores that are broken on purpose: `brokenrank://HOST:PORT/FAULT`.
 * Each is examples/backend/simba-rank.c with one mistake that an author of a
 * session store could make, and each is caught by a test of the contract
 * (test_broken.c). Some functions that the example calls have other names
 * there, so that what it sends and answers comes by here. */
#define _GNU_SOURCE
#include <simba/sys/session_store.h>

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

extern const simba_backend_ops rank_module;
static const char *fault = "";

static bool is(const char *name)
{
    return strcmp(fault, name) == 0;
}

/* A watch that is set once, and used up by the first that it tells. */
static bool was_told(const simba_loop *loop, const char *mutex)
{
    static char told[64][SIMBA_MUTEX_MAX_BYTES + 32];
    static _Atomic unsigned count;
    char what[sizeof told[0]];

    snprintf(what, sizeof what, "%p %s", (const void *)loop, mutex);
    for (int i = 0; i < 64; i++) {
        if (strcmp(told[i], what) == 0) {
            return true;
        }
    }
    memcpy(told[count++ % 64], what, sizeof what);
    return false;
}

static void broken_wake(simba_loop *loop, const char *mutex)
{
    char name[SIMBA_MUTEX_MAX_BYTES + 1];

    snprintf(name, sizeof name, "%s", mutex);
    for (char *c = name; is("wakes_by_key") && *c != '\0'; c++) {
        *c = *c == '/' ? ':' : *c;
    }
    if (!is("deaf") && !is("polls") &&
        (!is("watches_once") || !was_told(loop, mutex))) {
        simba_wake(loop, name);
    }
}

/* The reply that nobody awaits any more is for who asked next. */
static bool broken_take(simba_connection *connection, simba_exchange **exchange)
{
    bool is_due = simba_connection_take(connection, exchange);

    while (is_due && *exchange == NULL && is("late_reply_for_the_next")) {
        is_due = simba_connection_take(connection, exchange);
    }
    return is_due;
}

/* No answer is taken for a no. */
static void broken_renewed(simba_entry *entry,
                           int status,
                           const simba_error *error,
                           bool is_mine)
{
    bool is_lost = status != SIMBA_OK && is("renewal_unknown_is_lost");

    simba_entry_renewed(entry, is_lost ? SIMBA_OK : status, error, is_mine);
}

static void broken_done(simba_entry *entry,
                        int status,
                        const simba_error *error,
                        enum simba_standing standing);
static void broken_submit(simba_connection *connection,
                          simba_exchange *exchange);

#define simba_module            rank_module
#define simba_wake              broken_wake
#define simba_connection_take   broken_take
#define simba_entry_done        broken_done
#define simba_connection_submit broken_submit
#define simba_entry_renewed     broken_renewed
// NOLINTNEXTLINE(bugprone-suspicious-include)
#include "../../examples/backend/simba-rank.c"
#undef simba_module
#undef simba_wake
#undef simba_connection_take
#undef simba_entry_done
#undef simba_connection_submit
#undef simba_entry_renewed

/* A step's line has the watch before it. */
static void broken_submit(simba_connection *connection,
                          simba_exchange *exchange)
{
    struct ask *ask = (struct ask *)exchange;
    bool is_back = strcmp(ask->store->hello.line, "hello\t0\n") != 0;
    char *step = strncmp(ask->line, "watch\t", 6) == 0
                     ? strchr(ask->line, '\n') + 1
                     : ask->line;

    if (is("watch_after_refusal") || (is("watches_not_set_again") && is_back)) {
        exchange->text = step;
    }
    if (strncmp(step, "hello\t", 6) == 0 && is("session_not_resumed")) {
        strcpy(step, "hello\t0\n");
    }
    simba_connection_submit(connection, exchange);
}

/* The last grant of all, and over which session. */
static struct {
    uint64_t session, token;
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
} was_granted;

/* Whoever has this session owns what the session does. */
static bool is_of_owner(const simba_entry *entry)
{
    const simba_entry *e = entry->mutex->entries;

    while (e != NULL && !e->was_granted) {
        e = e->next;
    }
    return e != NULL;
}

/* As it was when it was seen first. */
static void remember_owner(simba_entry *entry)
{
    static simba_owner seen;
    static char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
    const char *name = simba_session_mutex_name(entry->mutex);

    if (seen.id[0] == '\0' || strcmp(mutex, name) != 0) {
        seen = simba_told_owner_read(entry->owner);
        snprintf(mutex, sizeof mutex, "%s", name);
    }
    simba_entry_owner(entry, &seen);
}

static void broken_done(simba_entry *entry,
                        int status,
                        const simba_error *error,
                        enum simba_standing standing)
{
    const struct ask *ask = &((const struct entry *)entry)->ask;
    simba_owner owner = simba_told_owner_read(entry->owner);

    if ((status == SIMBA_EUNKNOWN && is("unknown_is_refused")) ||
        (status != SIMBA_OK && entry->step == SIMBA_STEP_REMOVE &&
         is("failed_removal_is_done"))) {
        status = SIMBA_OK;
        standing = SIMBA_STANDS_NOWHERE;
    }
    if (status == SIMBA_EUNKNOWN && is("failed_for_unknown")) {
        status = SIMBA_EUNAVAIL;
    }
    if (status == SIMBA_OK && standing == SIMBA_STANDS_BEHIND &&
        is("watch_after_refusal")) {
        (void)simba_connection_write(
            ask->store->base.connection, ask->line,
            (size_t)(strchr(ask->line, '\n') + 1 - ask->line));
    }
    if (status == SIMBA_OK && standing == SIMBA_STANDS_BEHIND &&
        is("session_owns") && is_of_owner(entry)) {
        standing = SIMBA_STANDS_FIRST;
        entry->token = owner.token;
    }
    if (is("token_of_the_session") && standing == SIMBA_STANDS_FIRST) {
        entry->token = owner.token = ask->store->session;
        simba_entry_owner(entry, &owner);
    }
    if (is("positions_of_the_handle") && entry->position != 0) {
        entry->position = entry->number;
    }
    if (status == SIMBA_OK && standing == SIMBA_STANDS_FIRST) {
        was_granted.session = ask->store->session;
        was_granted.token = entry->token;
        snprintf(was_granted.mutex, sizeof was_granted.mutex, "%s",
                 simba_session_mutex_name(entry->mutex));
    }
    if (status == SIMBA_OK && is("owner_remembered")) {
        remember_owner(entry);
    }
    entry->is_head |= is("everybody_is_head");
    entry->wait_ms = is("asks_all_the_time") ? 1 : entry->wait_ms;
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

static void look_only(simba_entry *entry)
{
    step(entry, "look", 0);
}

static void remove_without_tombstone(simba_entry *entry)
{
    step(entry, "del", 0);
}

/* Its session's end will do. */
static void remove_owned_only(simba_entry *entry)
{
    if (entry->release != NULL && entry->release->kind == SIMBA_LEAVE) {
        simba_entry_done(entry, SIMBA_OK, NULL, SIMBA_STANDS_NOWHERE);
    } else {
        remove_key(entry);
    }
}

/* It will arrive. */
static void remove_unanswered(simba_entry *entry)
{
    struct ask *ask = &((struct store *)entry->store)->pinging;

    if (ask->exchange.connection == NULL) {
        write_step(ask, entry, "del", 0);
        ask->done = ignore;
        submit(ask, entry->store, 0);
    }
    simba_entry_done(entry, SIMBA_OK, NULL, SIMBA_STANDS_NOWHERE);
}

/* What this handle owned last it gets again without asking. */
static void put_from_memory(simba_entry *entry)
{
    const struct store *store = (const struct store *)entry->store;
    const char *mutex = simba_session_mutex_name(entry->mutex);

    if (was_granted.session != 0 && was_granted.session == store->session &&
        strcmp(was_granted.mutex, mutex) == 0) {
        entry->token = ++was_granted.token;
        entry->position = 1;
        simba_entry_done(entry, SIMBA_OK, NULL, SIMBA_STANDS_FIRST);
    } else {
        put(entry);
    }
}

/* In doubt, another key: the first is not known to be there. */
static void put_another(simba_entry *entry)
{
    bool is_doubtful = entry->state == SIMBA_KEY_DOUBTFUL;

    entry->attempt.low ^= is_doubtful ? 1 : 0;
    put(entry);
    entry->attempt.low ^= is_doubtful ? 1 : 0;
}

/* The same of who leaves only. */
static void leave_unanswered(simba_entry *entry)
{
    if (entry->release != NULL && entry->release->kind == SIMBA_LEAVE) {
        remove_unanswered(entry);
    } else {
        remove_key(entry);
    }
}

static void ping_nobody(simba_session_store *store)
{
    (void)store;
}

/* Of several mutexes that are waited for. */
static void wake_one(void *store, simba_connection *connection)
{
    simba_session_store *self = store;
    simba_session_mutex *mutex = simba_session_mutex_next(self, NULL);

    (void)connection;
    simba_session_ready(self);
    if (mutex != NULL) {
        simba_wake(self->base.loop, simba_session_mutex_name(mutex));
    }
}

/* A child ends what it does not want to have. */
static void say_bye(simba_backend *self)
{
    struct stat what;

    for (int fd = 3; fd < 64; fd++) {
        if (fstat(fd, &what) == 0 && S_ISSOCK(what.st_mode)) {
            (void)send(fd, "bye\n", 4, MSG_NOSIGNAL | MSG_DONTWAIT);
        }
    }
    simba_session_forked(self);
}

/* We have it, as far as we know. */
static void renew_from_memory(simba_session_store *store,
                              simba_entry *const *entries,
                              int count)
{
    (void)count;
    simba_certainty_answered(&store->certainty, simba_loop_now_ms(),
                             simba_loop_now_ms());
    simba_entry_renewed(entries[0], SIMBA_OK, NULL, true);
    simba_session_renewed(store);
}

static void read_nothing(simba_session_store *store, simba_request *request)
{
    (void)store;
    simba_request_done(request, SIMBA_OK, NULL);
}

static void ready_and_silent(void *store, simba_connection *connection)
{
    (void)connection;
    simba_session_ready(store);
}

enum { POLL_MS = 300 };

/* Asks now and then instead of being told. */
static void poll_all(simba_timer *timer)
{
    simba_session_store *self =
        (simba_session_store *)((char *)timer -
                                offsetof(simba_session_store, pinging));

    ping(self);
    simba_wake(self->base.loop, NULL);
    simba_timer_set(self->base.loop, timer, simba_loop_now_ms() + POLL_MS);
}

/* Of the descriptors that a connection has one is left to children that run
 * another program, or to nobody. */
static void mind_descriptors(void *store, simba_connection *connection)
{
    struct stat what;

    for (int fd = 3; fd < 64; fd++) {
        if (fstat(fd, &what) != 0 || !S_ISSOCK(what.st_mode)) {
            continue;
        }
        if (is("open_over_exec")) {
            (void)fcntl(fd, F_SETFD, 0);
        } else if (is("leaks_a_descriptor")) {
            (void)fcntl(fd, F_DUPFD_CLOEXEC, 3);
            break;
        }
    }
    connected(store, connection);
}

static int open_broken(const simba_backend_config *config,
                       simba_backend **backend,
                       simba_error *error);

const simba_backend_ops simba_module = {
    SIMBA_SESSION_TABLE,
    .scheme = "brokenrank",
    .least_lease_ms = 500,
    .open = open_broken,
    .capabilities = SIMBA_CAN_PUSH | SIMBA_HAS_SESSION_LEASE,
};

static int open_broken(const simba_backend_config *config,
                       simba_backend **backend,
                       simba_error *error)
{
    static char chosen[64];
    static simba_backend_ops table;
    static simba_connection_config with;
    simba_session_ops ops = session_ops;
    int rc;

    snprintf(chosen, sizeof chosen, "%s", strrchr(config->rest, '/') + 1);
    fault = chosen;
    ops.lease_ms = is("lease_never_filled") ? claim_all : ops.lease_ms;
    ops.look = is("head_never_evicted") ? look_only : ops.look;
    ops.put = is("second_key_in_doubt")  ? put_another
              : is("grants_from_memory") ? put_from_memory
                                         : ops.put;
    ops.remove = is("tombstone_ignored")     ? remove_without_tombstone
                 : is("release_unanswered")  ? remove_unanswered
                 : is("leave_unanswered")    ? leave_unanswered
                 : is("leaves_with_session") ? remove_owned_only
                                             : ops.remove;
    ops.renew = is("renews_from_memory") ? renew_from_memory : ops.renew;
    ops.admin = is("reads_nothing") ? read_nothing : ops.admin;
    ops.close_session = is("session_left") ? NULL : ops.close_session;
    with = hooks;
    with.connected = mind_descriptors;
    with.ready = is("no_wake_when_back")     ? ready_and_silent
                 : is("one_woken_when_back") ? wake_one
                                             : NULL;
    ops.ping = is("never_pings") ? ping_nobody : ops.ping;
    table = simba_module;
    table.forked = is("no_forked")            ? NULL
                   : is("child_ends_session") ? say_bye
                                              : table.forked;
    ops.table = &table;
    ops.connection = &with;
    rc = simba_session_open(config, &ops, backend, error);
    if (rc == SIMBA_OK && is("polls")) {
        ((simba_session_store *)*backend)->pinging.fire = poll_all;
    }
    return rc;
}
