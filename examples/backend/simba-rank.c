/* A whole backend for a server with sessions and ordered keys, to begin one's
 * own with: `rank://HOST:PORT` keeps its mutexes in rank-server.c, which has
 * the protocol. docs/backends.md says what each part must do; it keeps the
 * contract that `simba tck` runs. */
#define _GNU_SOURCE
#include <simba/sys/connection.h>
#include <simba/sys/session_store.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_ROOM = 1000, FIRST_MS = 2500, STEP_MS = 5000 };
enum field {
    LETTER,
    TOKEN,
    POSITION,
    AHEAD,
    SINCE,
    OWNER_TOKEN,
    OWNER,
    FIELDS
};

/* A request of the server, and who is told what came of it: SIMBA_OK and the
 * fields of the reply, with what is behind them, or why there is none. */
struct ask {
    simba_exchange exchange; /* first */
    struct store *store;
    void *who;
    void (*done)(struct ask *ask, int rc, const simba_error *e, char **fields);
    int64_t sent_ms;
    char line[LINE_ROOM];
};

struct entry {
    simba_entry base; /* first */
    struct ask ask;   /* its step */
};

struct store {
    simba_session_store base; /* first */
    simba_connection *connection;
    char host[256];
    uint64_t session;          /* 0: none */
    simba_certainty certainty; /* of the session */
    simba_timer ping;
    struct ask hello, pinging, renewal;
};

/* --- asking and being answered ------------------------------------------- */

static bool send_ask(simba_exchange *exchange, simba_connection *connection)
{
    struct ask *ask = (struct ask *)exchange;

    ask->sent_ms = simba_loop_now_ms();
    return simba_connection_write(connection, ask->line, strlen(ask->line));
}

static void failed(simba_exchange *exchange, int rc, const simba_error *error)
{
    ((struct ask *)exchange)->done((struct ask *)exchange, rc, error, NULL);
}

/* Its line has been written. */
static void submit(struct ask *ask, simba_session_store *store, int64_t until)
{
    ask->store = (struct store *)store;
    ask->exchange.send = send_ask;
    ask->exchange.failed = failed;
    ask->exchange.deadline_ms = until;
    simba_connection_submit(ask->store->connection, &ask->exchange);
}

static void take_reply(struct store *self, struct ask *ask, char *line)
{
    char *fields[FIELDS + 1] = {NULL};

    for (int i = 0; i < FIELDS && line != NULL; i++) {
        fields[i] = strsep(&line, "\t");
    }
    fields[FIELDS] = line;
    if (*fields[LETTER] == 'x') { /* no such session any more: begin another */
        failed(&ask->exchange, SIMBA_EUNAVAIL,
               simba_connection_why(self->connection));
        simba_connection_break(self->connection, SIMBA_EUNAVAIL, 0,
                               "the session has ended");
        return;
    }
    /* The server counts from what it heard last: not before this was sent. */
    simba_certainty_answered(&self->certainty, ask->sent_ms,
                             simba_loop_now_ms());
    ask->done(ask, SIMBA_OK, NULL, fields);
}

/* "=" begins a reply, in the order of requests; "!" says which mutex to ask
 * for. */
static size_t received(void *store,
                       simba_connection *connection,
                       const char *bytes,
                       size_t size)
{
    const char *end = memchr(bytes, '\n', size);
    simba_exchange *exchange = NULL;
    char *line = end == NULL ? NULL : strndup(bytes, (size_t)(end - bytes));

    if (line == NULL) {
        return 0;
    }
    if (*line == '!') {
        simba_wake(((struct store *)store)->base.base.loop, line + 2);
    } else if (!simba_connection_take(connection, &exchange)) {
        simba_connection_break(connection, SIMBA_EUNAVAIL, 0, "nobody asked");
    } else if (exchange != NULL) { /* NULL: too late for it */
        take_reply(store, (struct ask *)exchange, line + 2);
    }
    free(line);
    return (size_t)(end + 1 - bytes);
}

/* --- steps of an entry --------------------------------------------------- */

static uint64_t number(const char *field)
{
    return strtoull(field, NULL, 10);
}

static simba_owner read_owner(char **fields)
{
    simba_owner owner = {.acquired_at_ms = (int64_t)number(fields[SINCE]),
                         .ttl_at_ms = INT64_MAX,
                         .transition_at_ms = INT64_MAX,
                         .token = number(fields[OWNER_TOKEN])};

    return *fields[OWNER] != '\0' && simba_owner_set_id(&owner, fields[OWNER])
               ? owner
               : simba_owner_none();
}

static void step_done(struct ask *ask,
                      int rc,
                      const simba_error *error,
                      char **fields)
{
    simba_entry *entry = ask->who;
    const char *letter = rc == SIMBA_OK ? fields[LETTER] : "n";

    if (rc == SIMBA_OK) {
        entry->token = number(fields[TOKEN]);
        entry->position = number(fields[POSITION]);
        entry->is_head = number(fields[AHEAD]) == 0;
        entry->owner = read_owner(fields);
    }
    simba_entry_done(entry, rc, error,
                     *letter == 'f'                   ? SIMBA_STANDS_FIRST
                     : *letter == 'b'                 ? SIMBA_STANDS_BEHIND
                     : entry->step == SIMBA_STEP_LOOK ? SIMBA_STANDS_VANISHED
                                                      : SIMBA_STANDS_NOWHERE);
    simba_entry_drop(entry);
}

/* The watch comes first, and the server reads in order: who is refused can hear
 * before (S10). */
static void step(simba_entry *entry, const char *verb, const char *rest)
{
    struct ask *ask = &((struct entry *)entry)->ask;
    const char *mutex = simba_session_mutex_name(entry->mutex);
    const simba_request *request =
        entry->acquire != NULL ? entry->acquire : entry->release;

    snprintf(ask->line, sizeof ask->line,
             "watch\t%s\n%s\t%s\t%016llx%016llx\t%s\n", mutex, verb, mutex,
             (unsigned long long)entry->attempt.high,
             (unsigned long long)entry->attempt.low, rest);
    ask->who = entry;
    ask->done = step_done;
    simba_entry_hold(entry);
    submit(ask, entry->store,
           request != NULL ? request->deadline_ms
                           : simba_loop_now_ms() + STEP_MS);
}

static void put(simba_entry *entry)
{
    const struct store *self = (const struct store *)entry->store;
    char rest[SIMBA_ID_MAX + 32];

    snprintf(rest, sizeof rest, "%d\t%lld\t%s", entry->acquire->join,
             (long long)self->certainty.timeout_ms, entry->id);
    step(entry, "put", rest);
}

/* "1": and if we are the second, remove the first that has not come (S10). */
static void look(simba_entry *entry)
{
    step(entry, "look", "1");
}

static void remove_key(simba_entry *entry)
{
    const simba_request *release = entry->release;

    step(entry, "del",
         release != NULL && release->tombstone_ms > 0 ? "1" : "0");
}

/* Nobody awaits what it asked any more. */
static void forget(simba_entry *entry)
{
    simba_exchange *exchange = &((struct entry *)entry)->ask.exchange;

    if (exchange->connection != NULL) {
        simba_exchange_cancel(exchange);
        simba_entry_drop(entry);
    }
}

static void renewed(struct ask *ask,
                    int rc,
                    const simba_error *error,
                    char **fields)
{
    simba_entry_renewed(ask->who, rc, error,
                        rc == SIMBA_OK && *fields[LETTER] == 'f');
    simba_session_renewed(&ask->store->base);
}

static void renew(simba_session_store *store,
                  simba_entry *const *all,
                  int count)
{
    struct ask *ask = &((struct store *)store)->renewal;

    (void)count; /* renew_most */
    snprintf(ask->line, sizeof ask->line, "renew\t%s\t%016llx%016llx\n",
             simba_session_mutex_name(all[0]->mutex),
             (unsigned long long)all[0]->attempt.high,
             (unsigned long long)all[0]->attempt.low);
    ask->who = all[0];
    ask->done = renewed;
    submit(ask, store, all[0]->renewal->deadline_ms);
}

/* --- the session --------------------------------------------------------- */

static void ignore(struct ask *ask, int rc, const simba_error *e, char **fields)
{
    (void)ask, (void)rc, (void)e, (void)fields;
}

static void ping(simba_timer *timer)
{
    struct store *self =
        (struct store *)((char *)timer - offsetof(struct store, ping));

    if (self->pinging.exchange.connection == NULL) {
        strcpy(self->pinging.line, "ping\n");
        self->pinging.done = ignore;
        submit(&self->pinging, &self->base, 0);
    }
    simba_timer_set(self->base.base.loop, timer,
                    simba_loop_now_ms() + self->certainty.timeout_ms / 4);
}

/* If it is another, the keys went with the one before: all begin anew. */
static void greeted(struct ask *ask,
                    int rc,
                    const simba_error *e,
                    char **fields)
{
    struct store *self = ask->store;
    simba_session_mutex *m = NULL;
    bool is_other;

    (void)e;
    if (rc != SIMBA_OK) {
        return;
    }
    is_other = self->session != 0 && self->session != number(fields[LETTER]);
    self->session = number(fields[LETTER]);
    while (is_other && (m = simba_session_mutex_next(&self->base, m)) != NULL) {
        for (simba_entry *entry = m->entries; entry != NULL;
             entry = entry->next) {
            forget(entry);
        }
    }
    if (is_other) {
        simba_session_lost(&self->base);
    }
    simba_connection_ready(self->connection);
}

static void connected(void *store, simba_connection *connection)
{
    struct store *self = store;

    (void)connection;
    snprintf(self->hello.line, sizeof self->hello.line, "hello\t%llu\n",
             (unsigned long long)self->session);
    self->hello.done = greeted;
    self->hello.exchange.is_greeting = true;
    submit(&self->hello, &self->base, 0);
}

/* Much may have happened meanwhile: all who wait ask, and so watch again. */
static void ready(void *store, simba_connection *connection)
{
    struct store *self = store;

    (void)connection;
    simba_session_ready(&self->base);
    simba_wake(self->base.base.loop, NULL);
}

/* The session lasts as long as the first lease that is asked for. */
static int want(simba_session_store *store,
                const simba_request *request,
                simba_error *error)
{
    struct store *self = (struct store *)store;

    (void)error;
    if (self->certainty.timeout_ms == 0) {
        self->certainty.timeout_ms = request->ttl_ms + request->transition_ms;
        self->ping.fire = ping;
        ping(&self->ping);
    }
    return SIMBA_OK;
}

static bool is_ready(const simba_session_store *store)
{
    return simba_connection_is_ready(((const struct store *)store)->connection);
}

static int unready(const simba_session_store *store, simba_error *error)
{
    *error = *simba_connection_why(((const struct store *)store)->connection);
    return error->code != SIMBA_OK
               ? error->code
               : simba_error_set(error, SIMBA_EUNAVAIL, 0, "rank: no answer");
}

static int64_t lease_ms(const simba_entry *entry,
                        int64_t since_ms,
                        int64_t *wait_ms)
{
    const struct store *self = (const struct store *)entry->store;
    int64_t certain_ms = simba_certainty_lease(&self->certainty, since_ms);

    *wait_ms = 1;
    return certain_ms < entry->lease_ms ? certain_ms : entry->lease_ms;
}

/* --- requests without an entry ------------------------------------------- */

/* Of a read; a bye is answered with less. */
static void told(struct ask *ask, int rc, const simba_error *e, char **fields)
{
    simba_request *request = ask->who;

    if (rc == SIMBA_OK && fields[OWNER] != NULL) {
        request->reply.owner = read_owner(fields);
    }
    while (rc == SIMBA_OK && fields[FIELDS] != NULL) {
        simba_waiter waiter = {.position =
                                   number(strsep(&fields[FIELDS], "\t"))};

        snprintf(waiter.id, sizeof waiter.id, "%s",
                 strsep(&fields[FIELDS], "\t"));
        simba_request_add_waiter(request, &waiter);
    }
    free(ask);
    simba_request_done(request, rc == SIMBA_EUNKNOWN ? SIMBA_EUNAVAIL : rc, e);
}

static void ask_alone(simba_session_store *store,
                      simba_request *request,
                      const char *verb)
{
    struct ask *ask = calloc(1, sizeof *ask);

    if (ask == NULL) {
        simba_request_done(request, SIMBA_ENOMEM, NULL);
        return;
    }
    ask->who = request;
    ask->done = told;
    snprintf(ask->line, sizeof ask->line, "%s%s\n", verb, request->mutex);
    submit(ask, store, request->deadline_ms);
}

static void admin(simba_session_store *store, simba_request *request)
{
    ask_alone(store, request, "read\t");
}

/* Whoever waits behind us should not have to wait until it runs out. */
static void close_session(simba_session_store *store, simba_request *request)
{
    ask_alone(store, request, "bye");
}

/* --- the tables ---------------------------------------------------------- */

static const simba_session_ops session_ops = {
    .size = sizeof session_ops,
    .entry_size = sizeof(struct entry),
    .mutex_size = sizeof(simba_session_mutex),
    .name = "rank",
    .want = want,
    .is_ready = is_ready,
    .unready = unready,
    .put = put,
    .look = look,
    .remove = remove_key,
    .renew = renew,
    .renew_most = 1,
    .lease_ms = lease_ms,
    .forget = forget,
    .admin = admin,
    .close_session = close_session,
};

static int open_rank(const simba_backend_config *config,
                     simba_backend **backend,
                     simba_error *error)
{
    struct store *self = calloc(1, sizeof *self);
    simba_connection_host host = {0};
    simba_connection_config with = {.size = sizeof with,
                                    .store = "rank",
                                    .loop = config->loop,
                                    .hosts = &host,
                                    .host_count = 1,
                                    .self = self,
                                    .connected = connected,
                                    .ready = ready,
                                    .received = received,
                                    .has_pushes = true};
    const char *colon = strrchr(config->rest, ':');
    int rc = SIMBA_EINVAL;

    if (self == NULL || strncmp(config->rest, "//", 2) != 0 || colon == NULL ||
        colon - config->rest - 2 >= (long)sizeof self->host) {
        simba_error_set(error, rc, 0, "rank://HOST:PORT");
    } else {
        memcpy(self->host, config->rest + 2,
               (size_t)(colon - config->rest - 2));
        host = (simba_connection_host){self->host,
                                       (int)strtol(colon + 1, NULL, 10)};
        self->base.base = (simba_backend){&simba_module, config->loop};
        self->base.ops = &session_ops;
        self->base.first_ms = FIRST_MS;
        simba_loop_enter(config->loop);
        rc = simba_connection_open(&with, &self->connection, error);
        simba_loop_leave(config->loop);
    }
    *backend = rc == SIMBA_OK ? &self->base.base : NULL;
    if (rc != SIMBA_OK) {
        free(self);
    }
    return rc;
}

static void detach(simba_backend *base)
{
    struct store *self = (struct store *)base;

    simba_timer_clear(base->loop, &self->ping);
    simba_session_fini(&self->base);
    simba_connection_close(self->connection);
}

static void close_rank(simba_backend *base)
{
    free(base);
}

static void forked(simba_backend *base)
{
    simba_connection_forked(((struct store *)base)->connection);
}

const simba_backend_ops simba_module = {
    .abi = SIMBA_BACKEND_ABI,
    .scheme = "rank",
    .least_lease_ms = 500,
    .open = open_rank,
    .submit = simba_session_submit,
    .close = close_rank,
    .detach = detach,
    .forked = forked,
    .capabilities = SIMBA_CAN_PUSH | SIMBA_HAS_SESSION_LEASE,
    .subscription = simba_session_subscription,
};
