/* A whole backend for a server that keeps values and has a clock, to begin
 * one's own with: `slate://HOST:PORT` keeps its mutexes in slate-server.c,
 * which has the protocol, each as one value with a version. Nothing blocks: a
 * request is sent, and what comes back goes on with it. docs/backends.md says
 * what each part must do; it keeps the contract that `simba tck` runs. */
#define _GNU_SOURCE
#include <simba/sys/connection.h>
#include <simba/sys/mutex_value.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { VALUE_MOST = 1 << 22 }; /* bytes: what a server may make us keep */

struct handle {
    simba_backend base; /* first: the runtime looks at it */
    simba_connection *connection;
    uint64_t number; /* by which others reach it */
    simba_exchange hello;
    char greeting[40];
};

/* A request on its way: it reads, decides, writes, and if somebody else has
 * written meanwhile decides anew. Its one exchange is the step it is at. */
struct ask {
    simba_exchange exchange; /* first */
    struct handle *handle;
    simba_request *request;
    simba_value_change change; /* bytes NULL: nothing was written yet */
    uint64_t version;          /* of the value that it was decided by */
};

/* --- asking -------------------------------------------------------------- */

static bool send_ask(simba_exchange *exchange, simba_connection *c)
{
    const struct ask *ask = (const struct ask *)exchange;
    const simba_value_change *change = &ask->change;
    const char *mutex = ask->request->mutex;
    char head[SIMBA_MUTEX_MAX_BYTES + 120];
    int size;

    if (change->bytes != NULL) {
        size = snprintf(head, sizeof head,
                        "put\t%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%zu\n",
                        mutex, ask->version, change->wake[0], change->wake[1],
                        change->size);
    } else if (mutex[0] != '\0') {
        size = snprintf(head, sizeof head, "get\t%s\n", mutex);
    } else {
        size = snprintf(head, sizeof head, "ping\n");
    }
    return simba_connection_write(c, head, (size_t)size) &&
           (change->bytes == NULL ||
            simba_connection_write(c, change->bytes, change->size));
}

/* The ask is gone before the request is done: what hears of that may submit the
 * next one from within. */
static void finish(struct ask *ask, int status, const simba_error *error)
{
    simba_request *request = ask->request;

    free(ask->change.bytes);
    free(ask);
    simba_request_done(request, status, status == SIMBA_OK ? NULL : error);
}

/* Only what was to be written can have had an effect (S8). */
static void failed(simba_exchange *exchange, int status, const simba_error *e)
{
    struct ask *ask = (struct ask *)exchange;
    simba_error error = *e;

    if (status == SIMBA_EUNKNOWN && ask->change.bytes == NULL) {
        error.code = SIMBA_EUNAVAIL;
    }
    finish(ask, error.code, &error);
}

static void submit(simba_backend *self, simba_request *request)
{
    struct handle *h = (struct handle *)self;
    bool is_known = request->kind <= SIMBA_REACH &&
                    request->kind != SIMBA_LIST && request->kind != SIMBA_INIT;
    struct ask *ask = is_known ? calloc(1, sizeof *ask) : NULL;

    if (ask == NULL) {
        simba_request_done(request, is_known ? SIMBA_ENOMEM : SIMBA_EINVAL,
                           NULL);
        return;
    }
    ask->handle = h;
    ask->request = request;
    ask->exchange = (simba_exchange){.send = send_ask,
                                     .failed = failed,
                                     .deadline_ms = request->deadline_ms};
    simba_connection_submit(h->connection, &ask->exchange);
}

/* --- being answered ------------------------------------------------------ */

/* The numbers of those who are there came with the value. */
static bool is_connected(void *self, uint64_t number)
{
    char text[24];

    snprintf(text, sizeof text, "\t%" PRIu64 "\t", number);
    return strstr(self, text) != NULL;
}

/* A value has come: the first one, or one that has changed since. */
static void decide(struct ask *ask, const simba_value_host *host)
{
    simba_error error;
    int rc;

    free(ask->change.bytes);
    rc = simba_value_serve(host, ask->request, &ask->change, &error);
    if (rc == SIMBA_OK && ask->change.bytes != NULL) {
        simba_connection_submit(ask->handle->connection, &ask->exchange);
    } else {
        finish(ask, rc, &error);
    }
}

/* False: that is not what was asked for. */
static bool take_answer(struct handle *h,
                        const simba_value_host *host,
                        uint64_t version)
{
    bool is_value = host->value != NULL;
    simba_exchange *e;
    bool is_due = simba_connection_take(h->connection, &e);
    struct ask *ask = (struct ask *)e;

    if (e == NULL) {
        return is_due; /* too late for it, or nobody has asked */
    }
    if (e == &h->hello) {
        simba_connection_ready(h->connection);
    } else if (is_value && ask->request->mutex[0] != '\0') {
        ask->version = version;
        decide(ask, host);
    } else if (!is_value &&
               (ask->change.bytes != NULL || ask->request->mutex[0] == '\0')) {
        if (ask->request->kind == SIMBA_DOCTOR) {
            simba_request_add_finding(
                ask->request, SIMBA_FINDING_SERIOUS, "persistence",
                "a restart of the server forgets all owners");
        }
        finish(ask, SIMBA_OK, NULL);
    } else { /* and nothing was written */
        finish(ask, SIMBA_EMISCONFIG, NULL);
        return false;
    }
    return true;
}

static size_t received(void *self,
                       simba_connection *c,
                       const char *bytes,
                       size_t size)
{
    struct handle *h = self;
    simba_value_host host = {.connection = h->number,
                             .is_connected = is_connected};
    const char *end = memchr(bytes, '\n', size);
    size_t length = end == NULL ? 0 : (size_t)(end + 1 - bytes);
    char *line = end == NULL ? NULL : strndup(bytes, length - 1);
    uint64_t version = 0;
    bool is_fine;
    int here = 0;

    if (line != NULL &&
        sscanf(line, "=\t%" SCNu64 "\t%" SCNd64 "\t%zu%n", &version,
               &host.now_ms, &host.size, &here) == 3) {
        host.value = bytes + length;
        host.self = line + here; /* who is there */
    }
    if (end == NULL || (size - length < host.size && host.size <= VALUE_MOST)) {
        free(line);
        return 0; /* come again with more */
    }
    is_fine = line != NULL && size - length >= host.size;
    if (is_fine && strncmp(line, "!\t", 2) == 0) {
        simba_wake(h->base.loop, line + 2);
    } else if (!is_fine || line[0] != '=' || !take_answer(h, &host, version)) {
        simba_connection_break(c, SIMBA_EMISCONFIG, 0, "this is no slate");
    }
    free(line);
    return length + host.size;
}

/* --- the connection ------------------------------------------------------ */

static void hello_failed(simba_exchange *e, int status, const simba_error *why)
{
    (void)e, (void)status, (void)why; /* the connection tries again */
}

/* Whoever asks can be reached by then. */
static void connected(void *self, simba_connection *c)
{
    struct handle *h = self;

    h->hello = (simba_exchange){
        .text = h->greeting, .failed = hello_failed, .is_greeting = true};
    simba_connection_submit(c, &h->hello);
}

/* What was told us meanwhile is lost. */
static void ready(void *self, simba_connection *c)
{
    (void)c;
    simba_wake(((struct handle *)self)->base.loop, NULL);
}

/* --- the table ----------------------------------------------------------- */

static int open_slate(const simba_backend_config *config,
                      simba_backend **backend,
                      simba_error *error)
{
    struct handle *h = calloc(1, sizeof *h);
    char name[256], end;
    simba_connection_host host = {.name = name};
    simba_connection_config way = {.size = sizeof way,
                                   .store = "slate",
                                   .loop = config->loop,
                                   .hosts = &host,
                                   .host_count = 1,
                                   .self = h,
                                   .connected = connected,
                                   .received = received,
                                   .ready = ready,
                                   .log = config->log,
                                   .log_user = config->log_user,
                                   .has_pushes = true,
                                   .fails_unsent = true};
    int rc;

    *backend = NULL;
    if (h == NULL ||
        getrandom(&h->number, sizeof h->number, 0) != sizeof h->number ||
        sscanf(config->rest, "//%255[^:/@]:%d%c", name, &host.port, &end) !=
            2) {
        free(h);
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "a slate is slate://HOST:PORT");
    }
    h->base = (simba_backend){&simba_module, config->loop};
    h->number |= 1; /* not 0 */
    snprintf(h->greeting, sizeof h->greeting, "hello\t%" PRIu64 "\n",
             h->number);
    simba_loop_enter(config->loop);
    rc = simba_connection_open(&way, &h->connection, error);
    simba_loop_leave(config->loop);
    if (rc != SIMBA_OK) {
        free(h);
        return rc;
    }
    *backend = &h->base;
    return SIMBA_OK;
}

static void detach(simba_backend *self)
{
    simba_connection_close(((struct handle *)self)->connection);
}

static void forked(simba_backend *self)
{
    simba_connection_forked(((struct handle *)self)->connection);
}

static void close_slate(simba_backend *self)
{
    free(self);
}

const simba_backend_ops simba_module = {
    .abi = SIMBA_BACKEND_ABI,
    .scheme = "slate",
    .least_lease_ms = 100,
    .open = open_slate,
    .submit = submit,
    .close = close_slate,
    .detach = detach,
    .forked = forked,
    .capabilities = SIMBA_CAN_PUSH | SIMBA_CAN_BREAK | SIMBA_CAN_DOCTOR |
                    SIMBA_HAS_STEADY_CLOCK | SIMBA_TELLS_ENDED |
                    SIMBA_HAS_SERVER,
};
