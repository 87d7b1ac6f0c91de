/* A whole backend in one file, to begin one's own with: `shelf:NAME` keeps its
 * mutexes on a list in this process, each as one value with a version.
 * docs/backends.md says how it is compiled and what each part must do; it keeps
 * the contract that `simba tck` runs.
 *
 * load() and save() stand for a server that keeps values, writes one only if
 * its version is still the one that was read, and has a clock. */
#define _GNU_SOURCE
#include <simba/sys/backend.h>
#include <simba/sys/mutex_value.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* --- the server ---------------------------------------------------------- */

struct value {
    struct value *next;
    char shelf[64], mutex[SIMBA_MUTEX_MAX_BYTES + 1];
    char *bytes; /* NULL: nothing was ever saved */
    size_t size;
    uint64_t version;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct value *values;
static struct handle *handles;
static uint64_t connections;

struct handle {
    simba_backend base; /* first: the runtime looks at it */
    struct handle *next;
    uint64_t connection; /* its number */
    char shelf[64];
};

static struct value *find_value(const char *shelf, const char *mutex)
{
    struct value *v = values;

    while (v != NULL &&
           (strcmp(v->shelf, shelf) != 0 || strcmp(v->mutex, mutex) != 0)) {
        v = v->next;
    }
    if (v == NULL && (v = calloc(1, sizeof *v)) != NULL) {
        memcpy(v->shelf, shelf, strlen(shelf) + 1);
        memcpy(v->mutex, mutex, strlen(mutex) + 1);
        v->next = values;
        values = v;
    }
    return v;
}

/* What is there, its version, and the time. False: no memory. */
static bool load(const struct handle *h, const char *mutex, struct value *copy)
{
    struct value *v;
    bool is_loaded = false;

    pthread_mutex_lock(&lock);
    v = find_value(h->shelf, mutex);
    if (v != NULL) {
        *copy = *v;
        copy->bytes = malloc(v->size + 1);
        is_loaded = copy->bytes != NULL;
    }
    if (is_loaded && v->size > 0) {
        memcpy(copy->bytes, v->bytes, v->size);
    }
    pthread_mutex_unlock(&lock);
    return is_loaded;
}

/* False: somebody else has written meanwhile. */
static bool save(const struct handle *h,
                 const char *mutex,
                 uint64_t version,
                 simba_value_change *change)
{
    struct value *v;
    bool is_same;

    pthread_mutex_lock(&lock);
    v = find_value(h->shelf, mutex);
    is_same = v->version == version;
    if (is_same) {
        free(v->bytes);
        v->bytes = change->bytes;
        v->size = change->size;
        v->version++;
    } else {
        free(change->bytes);
    }
    pthread_mutex_unlock(&lock);
    return is_same;
}

/* --- wake-ups ------------------------------------------------------------ */

static bool is_connected(void *self, uint64_t connection)
{
    const struct handle *h;

    (void)self;
    pthread_mutex_lock(&lock);
    for (h = handles; h != NULL && h->connection != connection; h = h->next) {
    }
    pthread_mutex_unlock(&lock);
    return h != NULL;
}

struct wake {
    simba_loop *loop;
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
};

static void run_wake(void *argument)
{
    struct wake *wake = argument;

    simba_wake(wake->loop, wake->mutex);
    free(wake);
}

/* Into the loop of the waiter's own handle. A lost wake-up does no harm (S7).
 */
static void notify(uint64_t connection, const char *mutex)
{
    struct wake *wake = calloc(1, sizeof *wake);

    pthread_mutex_lock(&lock);
    for (const struct handle *h = handles; wake != NULL && h != NULL;
         h = h->next) {
        if (h->connection == connection) {
            wake->loop = h->base.loop;
            memcpy(wake->mutex, mutex, strlen(mutex) + 1);
            simba_loop_post(wake->loop, run_wake, wake);
            wake = NULL;
        }
    }
    pthread_mutex_unlock(&lock);
    free(wake);
}

/* --- requests ------------------------------------------------------------ */

/* Read, decide, write if nobody has written meanwhile; else begin again. */
static int serve(const struct handle *h,
                 simba_request *request,
                 simba_error *error)
{
    simba_value_host host = {.connection = h->connection,
                             .is_connected = is_connected};
    simba_value_change change = {0};
    struct value value;
    bool is_done = false;

    while (!is_done) {
        int rc;

        if (!load(h, request->mutex, &value)) {
            return simba_error_set(error, SIMBA_ENOMEM, 0, "shelf: no memory");
        }
        host.now_ms = simba_loop_now_ms();
        host.value = value.bytes;
        host.size = value.size;
        rc = simba_value_serve(&host, request, &change, error);
        free(value.bytes);
        if (rc != SIMBA_OK) {
            return rc;
        }
        is_done = change.bytes == NULL ||
                  save(h, request->mutex, value.version, &change);
    }
    for (int i = 0; i < change.wake_count; i++) {
        notify(change.wake[i], request->mutex);
    }
    return SIMBA_OK;
}

/* A server that has to be asked takes its time: then this only starts, and what
 * comes back completes the request. */
static void submit(simba_backend *self, simba_request *request)
{
    simba_error error;
    int rc = serve((struct handle *)self, request, &error);

    simba_request_done(request, rc, rc == SIMBA_OK ? NULL : &error);
}

/* --- the table ----------------------------------------------------------- */

static int open_shelf(const simba_backend_config *config,
                      simba_backend **backend,
                      simba_error *error)
{
    struct handle *h = calloc(1, sizeof *h);

    *backend = NULL;
    if (h == NULL || strlen(config->rest) >= sizeof h->shelf) {
        free(h);
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "the name of a shelf has at most 63 bytes");
    }
    memcpy(h->shelf, config->rest, strlen(config->rest) + 1);
    h->base.ops = &simba_module;
    h->base.loop = config->loop;
    pthread_mutex_lock(&lock);
    h->connection = ++connections;
    h->next = handles;
    handles = h;
    pthread_mutex_unlock(&lock);
    *backend = &h->base;
    return SIMBA_OK;
}

/* The loop is about to end: nobody may wake it any more. */
static void detach(simba_backend *self)
{
    struct handle **h = &handles;

    pthread_mutex_lock(&lock);
    while (*h != (struct handle *)self) {
        h = &(*h)->next;
    }
    *h = (*h)->next;
    pthread_mutex_unlock(&lock);
}

/* A forked child has shelves of its own (S12). */
static void forked(simba_backend *self)
{
    (void)self;
    pthread_mutex_init(&lock, NULL);
    values = NULL;
    handles = NULL;
}

static void close_shelf(simba_backend *self)
{
    free(self);
}

/* What `simba help stores` says of it. */
static char *help(void)
{
    return strdup("shelf:NAME\n");
}

const simba_backend_ops simba_module = {
    .abi = SIMBA_BACKEND_ABI,
    .scheme = "shelf",
    .least_lease_ms = 100,
    .open = open_shelf,
    .submit = submit,
    .close = close_shelf,
    .detach = detach,
    .forked = forked,
    .help = help,
    .capabilities = SIMBA_CAN_PUSH | SIMBA_HAS_STEADY_CLOCK |
                    SIMBA_IN_ONE_PROCESS | SIMBA_CAN_BREAK | SIMBA_TELLS_ENDED,
};
