/* A whole backend for a server with sessions and ordered keys, to begin one's
 * own with: `rank://HOST:PORT`, for rank-server.c, which has the protocol. It
 * keeps the contract of `simba tck`; docs/backends.md names each part. */
#define _GNU_SOURCE
#include <simba/sys/session_store.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The fields of a reply; more may follow. */
enum { STANDS, TOKEN, POSITION, AHEAD, SINCE, OWNER_TOKEN, OWNER, FIELDS };

/* A request of the server, and who is told what came of it: SIMBA_OK and the
 * fields of the reply, or why there is none. */
struct ask {
    simba_exchange exchange; /* first */
    struct store *store;
    void *who;
    void (*done)(struct ask *ask, int rc, const simba_error *e, char **reply);
    char line[1000];
};

struct entry {
    simba_entry base; /* first */
    struct ask ask;   /* its step */
};

struct store {
    simba_session_store base; /* first */
    uint64_t session;         /* 0: none */
    struct ask hello, pinging, renewal;
};

/* --- asking and being answered ------------------------------------------- */

static void failed(simba_exchange *exchange, int rc, const simba_error *error)
{
    ((struct ask *)exchange)->done((struct ask *)exchange, rc, error, NULL);
}

/* Its line is written, `who` and `done` are set. */
static void submit(struct ask *ask, void *store, int64_t until_ms)
{
    ask->store = store;
    ask->exchange.text = ask->line;
    ask->exchange.failed = failed;
    ask->exchange.deadline_ms = until_ms;
    simba_connection_submit(ask->store->base.connection, &ask->exchange);
}

/* "=" begins a reply, in the order of requests, and "=x" says that the session
 * is over; "!" says which mutex to ask for. */
static size_t received(void *store,
                       simba_connection *connection,
                       const char *bytes,
                       size_t size)
{
    simba_session_store *self = store;
    const char *end = memchr(bytes, '\n', size);
    char *line = end == NULL ? NULL : strndup(bytes, (size_t)(end - bytes));
    char *rest = line == NULL ? NULL : line + 2, *reply[FIELDS + 1] = {NULL};
    simba_exchange *e = NULL;

    if (line == NULL) {
        return 0;
    }
    if (*line == '!') {
        simba_wake(self->base.loop, rest);
    } else if (*rest == 'x' || !simba_connection_take(connection, &e)) {
        simba_connection_break(connection, SIMBA_EUNAVAIL, 0, "begin anew");
    } else if (e != NULL) { /* NULL: too late for it */
        for (int i = 0; i < FIELDS && rest != NULL; i++) {
            reply[i] = strsep(&rest, "\t");
        }
        reply[FIELDS] = rest;
        /* It counts from what it heard last: not before this was sent. */
        simba_certainty_answered(&self->certainty, e->sent_ms,
                                 simba_loop_now_ms());
        ((struct ask *)e)->done((struct ask *)e, SIMBA_OK, NULL, reply);
    }
    free(line);
    return (size_t)(end + 1 - bytes);
}

/* --- steps of an entry --------------------------------------------------- */

static uint64_t number(const char *field)
{
    return strtoull(field, NULL, 10);
}

static simba_owner read_owner(char **reply)
{
    return simba_session_owner(reply[OWNER], number(reply[OWNER_TOKEN]),
                               (int64_t)number(reply[SINCE]));
}

static void stepped(struct ask *ask, int rc, const simba_error *e, char **reply)
{
    simba_entry *entry = ask->who;
    char stands = rc == SIMBA_OK ? *reply[STANDS] : 'n';
    simba_owner owner;

    if (rc == SIMBA_OK) {
        entry->token = number(reply[TOKEN]);
        entry->position = number(reply[POSITION]);
        entry->is_head = number(reply[AHEAD]) == 0;
        owner = read_owner(reply);
        simba_entry_owner(entry, &owner);
    }
    simba_entry_done(entry, rc, e,
                     stands == 'f'                    ? SIMBA_STANDS_FIRST
                     : stands == 'b'                  ? SIMBA_STANDS_BEHIND
                     : entry->step == SIMBA_STEP_LOOK ? SIMBA_STANDS_VANISHED
                                                      : SIMBA_STANDS_NOWHERE);
}

/* The watch comes first, and the server reads in order: who is refused can hear
 * before (S10). */
static void write_step(struct ask *ask,
                       simba_entry *e,
                       const char *verb,
                       int how)
{
    const char *mutex = simba_session_mutex_name(e->mutex);

    ask->who = e;
    snprintf(ask->line, sizeof ask->line,
             "watch\t%s\n%s\t%s\t%016llx%016llx\t%d\t%lld\t%s\n", mutex, verb,
             mutex, (unsigned long long)e->attempt.high,
             (unsigned long long)e->attempt.low, how,
             (long long)e->store->certainty.timeout_ms,
             e->acquire == NULL ? "-" : e->acquire->id);
}

static void step(simba_entry *entry, const char *verb, int how)
{
    struct ask *ask = &((struct entry *)entry)->ask;

    write_step(ask, entry, verb, how);
    ask->done = stepped;
    entry->exchange = &ask->exchange;
    submit(ask, entry->store, simba_entry_until_ms(entry));
}

static void put(simba_entry *entry)
{
    step(entry, "put", entry->acquire->join);
}

/* 1: and if we are the second, remove the first that has not come (S10). */
static void look(simba_entry *entry)
{
    step(entry, "look", 1);
}

/* 1: and should its put be still on the way, let it fail (S8). */
static void remove_key(simba_entry *entry)
{
    step(entry, "del",
         entry->release == NULL || entry->release->tombstone_ms > 0);
}

static void renewed(struct ask *ask, int rc, const simba_error *e, char **reply)
{
    simba_entry_renewed(ask->who, rc, e,
                        rc == SIMBA_OK && *reply[STANDS] == 'f');
    simba_session_renewed(&ask->store->base);
}

static void renew(simba_session_store *store, simba_entry *const *all, int n)
{
    struct ask *ask = &((struct store *)store)->renewal;

    (void)n; /* renew_most */
    write_step(ask, all[0], "renew", 0);
    ask->done = renewed;
    store->exchange = &ask->exchange;
    submit(ask, store, all[0]->renewal->deadline_ms);
}

/* --- the session --------------------------------------------------------- */

static void ignore(struct ask *ask, int rc, const simba_error *e, char **reply)
{
    (void)ask, (void)rc, (void)e, (void)reply;
}

static void ping(simba_session_store *store)
{
    struct ask *ask = &((struct store *)store)->pinging;

    if (ask->exchange.connection == NULL) { /* the last was answered */
        strcpy(ask->line, "ping\n");
        ask->done = ignore;
        submit(ask, store, 0);
    }
}

/* If it is another, the keys went with the one before: all begin anew. */
static void greeted(struct ask *ask, int rc, const simba_error *e, char **reply)
{
    struct store *self = ask->store;
    uint64_t before = self->session;

    (void)e;
    if (rc == SIMBA_OK) {
        self->session = number(reply[0]);
        if (before != 0 && before != self->session) {
            simba_session_lost(&self->base);
        }
        simba_connection_ready(self->base.connection);
    }
}

static void connected(void *store, simba_connection *connection)
{
    struct ask *ask = &((struct store *)store)->hello;

    (void)connection;
    snprintf(ask->line, sizeof ask->line, "hello\t%llu\n",
             (unsigned long long)((struct store *)store)->session);
    ask->done = greeted;
    ask->exchange.is_greeting = true;
    submit(ask, store, 0);
}

/* Of a read; a bye is answered with less. */
static void told(struct ask *ask, int rc, const simba_error *e, char **reply)
{
    simba_request *request = ask->who;
    char *rest = rc == SIMBA_OK ? reply[FIELDS] : NULL;

    if (rc == SIMBA_OK && reply[OWNER] != NULL) {
        request->reply.owner = read_owner(reply);
    }
    while (rest != NULL) { /* those who wait */
        simba_waiter waiter = {.position = number(strsep(&rest, "\t"))};

        snprintf(waiter.id, sizeof waiter.id, "%s", strsep(&rest, "\t"));
        simba_request_add_waiter(request, &waiter);
    }
    free(ask);
    simba_request_done(request, rc == SIMBA_EUNKNOWN ? SIMBA_EUNAVAIL : rc, e);
}

/* The bye: whoever waits behind us need not wait until the session runs out. */
static void ask_alone(simba_session_store *store, simba_request *request)
{
    struct ask *ask = calloc(1, sizeof *ask);

    if (ask == NULL) {
        simba_request_done(request, SIMBA_ENOMEM, NULL);
        return;
    }
    snprintf(ask->line, sizeof ask->line, "%s%s\n",
             request->kind == SIMBA_CLOSE ? "bye" : "read\t", request->mutex);
    ask->who = request;
    ask->done = told;
    submit(ask, store, request->deadline_ms);
}

static const simba_connection_config hooks = {.size = sizeof hooks,
                                              .connected = connected,
                                              .received = received,
                                              .has_pushes = true,
                                              .fails_unsent = true};

static const simba_session_ops session_ops = {
    .size = sizeof session_ops,
    .store_size = sizeof(struct store),
    .entry_size = sizeof(struct entry),
    .mutex_size = sizeof(simba_session_mutex),
    .name = "rank",
    .url = "rank://host:7265",
    .table = &simba_module,
    .connection = &hooks,
    .put = put,
    .look = look,
    .remove = remove_key,
    .renew = renew,
    .renew_most = 1,
    .ping = ping,
    .admin = ask_alone,
    .close_session = ask_alone,
};

static int open_rank(const simba_backend_config *config,
                     simba_backend **backend,
                     simba_error *error)
{
    return simba_session_open(config, &session_ops, backend, error);
}

const simba_backend_ops simba_module = {
    SIMBA_SESSION_TABLE,
    .scheme = "rank",
    .least_lease_ms = 500,
    .open = open_rank,
    .capabilities = SIMBA_CAN_PUSH | SIMBA_HAS_SESSION_LEASE | SIMBA_HAS_SERVER,
};
