/* The memory store: `memory:name`. Handles with one name share its mutexes.
 *
 * It answers at once, from within submit, inside the loop of the handle that
 * asks; the space is locked meanwhile. A waiter is woken through the loop of
 * its own handle. The logic is in row.c. */
#define _GNU_SOURCE
#include "backends/memory/memory.h"

#include "backends/memory/row_tell.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    struct simba__row row;
    struct entry *next;
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
};

struct space {
    char *name;
    pthread_mutex_t lock; /* guards the entries and the list of handles */
    struct entry *entries;
    struct memory *handles;
    struct space *next;
    uint64_t token_floor; /* no tenure of it has a smaller token */
    int users;            /* guarded by spaces_lock */
};

/* A mutex that a handle observes. */
struct eye {
    struct eye *next;
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
};

/* A new owner, as observers are told of it. */
struct change {
    bool is_seen; /* one of the handle that made it observes it */
    simba_owner owner;
    uint64_t ended;
};

struct memory {
    simba_backend base;
    struct space *space;
    struct memory *next;
    struct eye *eyes;     /* guarded by the space's lock */
    struct change change; /* by the operation in hand; likewise */
    uint64_t connection;
};

static pthread_mutex_t spaces_lock = PTHREAD_MUTEX_INITIALIZER;
static struct space *spaces;
static uint64_t connections; /* guarded by spaces_lock */

/* S4: the greatest token of a space that was forgotten. The clock alone would
 * not do: within one millisecond it can be closed and opened again. */
static uint64_t greatest_token; /* guarded by spaces_lock */

/* --- spaces -------------------------------------------------------------- */

static struct space *make_space(const char *name)
{
    struct space *space = calloc(1, sizeof *space);

    if (space == NULL || (space->name = strdup(name)) == NULL) {
        free(space);
        return NULL;
    }
    pthread_mutex_init(&space->lock, NULL);
    space->token_floor = greatest_token;
    space->next = spaces;
    spaces = space;
    return space;
}

static void free_space(struct space *space)
{
    for (struct entry *e = space->entries, *next; e != NULL; e = next) {
        next = e->next;
        if (e->row.last_token > greatest_token) {
            greatest_token = e->row.last_token;
        }
        simba__row_fini(&e->row);
        free(e);
    }
    pthread_mutex_destroy(&space->lock);
    free(space->name);
    free(space);
}

static struct space *enter_space(const char *name, struct memory *memory)
{
    struct space *space;

    pthread_mutex_lock(&spaces_lock);
    for (space = spaces; space != NULL; space = space->next) {
        if (strcmp(space->name, name) == 0) {
            break;
        }
    }
    if (space == NULL) {
        space = make_space(name);
    }
    if (space != NULL) {
        space->users++;
        memory->connection = ++connections;
    }
    pthread_mutex_unlock(&spaces_lock);
    return space;
}

static void leave_space(struct space *space)
{
    pthread_mutex_lock(&spaces_lock);
    if (--space->users == 0) {
        struct space **s = &spaces;
        while (*s != space) {
            s = &(*s)->next;
        }
        *s = space->next;
        free_space(space);
    }
    pthread_mutex_unlock(&spaces_lock);
}

/* --- rows, with the space locked ----------------------------------------- */

static struct memory *handle_of(struct space *space, uint64_t connection)
{
    struct memory *m = space->handles;

    while (m != NULL && m->connection != connection) {
        m = m->next;
    }
    return m;
}

static bool is_connected(void *self, uint64_t connection)
{
    return handle_of(self, connection) != NULL;
}

struct ring {
    simba_loop *loop;
    bool is_change; /* for observers */
    struct change change;
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
};

static void run_ring(void *argument)
{
    struct ring *ring = argument;

    if (ring->is_change) {
        simba_observed(ring->loop, ring->mutex, &ring->change.owner,
                       ring->change.ended);
    } else {
        simba_hint(ring->loop, ring->mutex);
    }
    free(ring);
}

/* A lost hint does no harm (S7). `change` is for observers; NULL: a waiter is
 * called. */
static void ring(const struct memory *m,
                 const char *mutex,
                 const struct change *change)
{
    struct ring *ring = calloc(1, sizeof *ring);

    if (ring == NULL) {
        return;
    }
    ring->loop = m->base.loop;
    memcpy(ring->mutex, mutex, strlen(mutex) + 1);
    if (change != NULL) {
        ring->is_change = true;
        ring->change = *change;
    }
    simba_loop_post(m->base.loop, run_ring, ring);
}

static struct eye **find_eye(struct memory *m, const char *mutex)
{
    struct eye **eye = &m->eyes;

    while (*eye != NULL && strcmp((*eye)->mutex, mutex) != 0) {
        eye = &(*eye)->next;
    }
    return eye;
}

static void fill_change(struct change *change,
                        const struct simba__row *row,
                        int64_t now_ms)
{
    change->ended = simba__row_ended(row, now_ms);
    change->owner =
        simba__row_is_held(row, now_ms) ? row->owner : simba_owner_none();
}

/* Our own are told later, with the space unlocked: they may look. */
static void tell_observers(struct memory *self, const char *mutex)
{
    for (struct memory *m = self->space->handles; m != NULL; m = m->next) {
        if (m->eyes == NULL || *find_eye(m, mutex) == NULL) {
            continue;
        }
        if (m == self) {
            self->change.is_seen = true;
        } else {
            ring(m, mutex, &self->change);
        }
    }
}

/* A call and the mutex it is about. */
struct serving {
    struct space *space;
    const char *mutex;
};

static bool is_waiter_connected(void *self, uint64_t connection)
{
    return is_connected(((struct serving *)self)->space, connection);
}

static void hint(void *self, const struct simba__row_waiter *waiter)
{
    struct serving *serving = self;
    struct memory *m = handle_of(serving->space, waiter->connection);

    if (m != NULL) {
        ring(m, serving->mutex, NULL);
    }
}

static struct entry *find_entry(struct space *space, const char *mutex)
{
    struct entry *e = space->entries;

    while (e != NULL && strcmp(e->mutex, mutex) != 0) {
        e = e->next;
    }
    if (e == NULL && (e = calloc(1, sizeof *e)) != NULL) {
        simba__row_init(&e->row);
        e->row.last_token = space->token_floor;
        memcpy(e->mutex, mutex, strlen(mutex) + 1);
        e->next = space->entries;
        space->entries = e;
    }
    return e;
}

static struct simba__request request_of(const simba_op *op)
{
    struct simba__request request = {
        .kind = (enum simba__request_kind)op->kind,
        .attempt = {op->attempt.high, op->attempt.low},
        .token = op->token,
        .place = op->place,
        .waiter_ms = op->waiter_ms,
        .tombstone_ms = op->tombstone_ms,
        .join = op->join,
    };

    if (op->kind == SIMBA_OP_READ || op->kind == SIMBA_OP_BREAK) {
        request.kind = SIMBA__NOTHING;
    }
    return request;
}

static void fill_reply(simba_op *op,
                       const struct simba__reply *reply,
                       const struct simba__row *row)
{
    op->reply.mine = reply->mine;
    op->reply.token = reply->token;
    op->reply.in_line = reply->in_line;
    op->reply.is_head = reply->is_head;
    op->reply.place = reply->place;
    op->reply.wait_ms = reply->wait_ms;
    op->reply.store_ms = reply->store_ms;
    op->reply.ended = simba__row_ended(row, reply->store_ms);
    if (simba__row_is_held(row, reply->store_ms)) {
        op->reply.owner = row->owner;
    }
}

static int serve_list(struct memory *m, simba_op *op)
{
    struct serving serving = {.space = m->space};
    struct simba__row_host host = {
        .self = &serving, .is_connected = is_waiter_connected, .hint = hint};
    int64_t now_ms = simba_loop_now_ms();

    for (struct entry *e = m->space->entries; e != NULL; e = e->next) {
        bool is_held = simba__row_is_held(&e->row, now_ms);
        simba_owner owner = is_held ? e->row.owner : simba_owner_none();
        int waiting = simba__row_tell_line(&e->row, &host, now_ms, NULL);

        if (is_held || waiting > 0) {
            simba_op_add_mutex(op, e->mutex, &owner, waiting);
        }
    }
    op->reply.store_ms = now_ms;
    return SIMBA_OK;
}

static int serve_doctor(simba_op *op)
{
    simba_op_add_finding(op, SIMBA_FINDING_NOTE, "sharing",
                         "only this process sees its mutexes");
    simba_op_add_finding(op, SIMBA_FINDING_NOTE, "persistence",
                         "gone with the last handle of this name");
    simba_op_add_finding(op, SIMBA_FINDING_OK, "clock",
                         "the boot clock, which makes no steps");
    simba_op_add_finding(op, SIMBA_FINDING_OK, "line",
                         "first come, first served; waiters are woken");
    return SIMBA_OK;
}

static void serve_break(struct simba__row *row,
                        const struct simba__row_host *host,
                        simba_op *op)
{
    struct simba__row_break wish = {
        .token = op->token, .at_once = op->now, .now_ms = simba_loop_now_ms()};

    op->reply.mine = simba__row_break(row, host, &wish);
    op->reply.store_ms = wish.now_ms;
    if (simba__row_is_held(row, wish.now_ms)) {
        op->reply.owner = row->owner;
    }
}

static int serve(struct memory *m, simba_op *op)
{
    struct serving serving = {.space = m->space, .mutex = op->mutex};
    struct simba__row_host host = {
        .self = &serving, .is_connected = is_waiter_connected, .hint = hint};
    struct simba__request request = request_of(op);
    struct simba__row_call call = {.request = &request,
                                   .id = op->id,
                                   .ttl_ms = op->ttl_ms,
                                   .transition_ms = op->transition_ms,
                                   .connection = m->connection,
                                   .now_ms = simba_loop_now_ms()};
    struct simba__reply reply;
    struct entry *entry = find_entry(m->space, op->mutex);
    uint64_t owner = entry == NULL ? 0 : entry->row.owner.token;

    if (entry == NULL || !simba__row_serve(&entry->row, &host, &call, &reply)) {
        return SIMBA_ENOMEM;
    }
    fill_reply(op, &reply, &entry->row);
    if (op->kind == SIMBA_OP_BREAK) {
        serve_break(&entry->row, &host, op);
    }
    if (op->want_line) {
        (void)simba__row_tell_line(&entry->row, &host, call.now_ms, op);
    }
    if (entry->row.owner.token != owner) {
        fill_change(&m->change, &entry->row, call.now_ms);
        tell_observers(m, op->mutex);
    }
    return SIMBA_OK;
}

static int serve_any(struct memory *m, simba_op *op)
{
    switch (op->kind) {
    case SIMBA_OP_LIST:
        return serve_list(m, op);
    case SIMBA_OP_DOCTOR:
        return serve_doctor(op);
    default:
        return serve(m, op);
    }
}

/* --- the backend --------------------------------------------------------- */

static void submit(simba_backend *self, simba_op *op)
{
    struct memory *m = (struct memory *)self;
    struct change change;
    int rc;

    pthread_mutex_lock(&m->space->lock);
    m->change.is_seen = false;
    rc = serve_any(m, op);
    change = m->change;
    pthread_mutex_unlock(&m->space->lock);
    if (change.is_seen) { /* before whoever asked can change it again */
        simba_observed(m->base.loop, op->mutex, &change.owner, change.ended);
    }
    simba_op_done(op, rc, NULL);
}

static void interest(simba_backend *self,
                     const char *mutex,
                     enum simba_interest interest)
{
    struct memory *m = (struct memory *)self;
    struct eye **eye, *gone = NULL;

    pthread_mutex_lock(&m->space->lock);
    eye = find_eye(m, mutex);
    if (*eye != NULL && interest != SIMBA_INTEREST_OBSERVE) {
        gone = *eye;
        *eye = gone->next;
    } else if (*eye == NULL && interest == SIMBA_INTEREST_OBSERVE) {
        *eye = calloc(1, sizeof **eye); /* without it: it polls */
        if (*eye != NULL) {
            memcpy((*eye)->mutex, mutex, strlen(mutex) + 1);
        }
    }
    pthread_mutex_unlock(&m->space->lock);
    free(gone);
}

static int open_memory(const simba_backend_config *config,
                       simba_backend **out,
                       simba_error *error)
{
    struct memory *m = calloc(1, sizeof *m);

    *out = NULL;
    if (m == NULL || (m->space = enter_space(config->rest, m)) == NULL) {
        free(m);
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    m->base.ops = &simba__memory_ops;
    m->base.loop = config->loop;
    pthread_mutex_lock(&m->space->lock);
    m->next = m->space->handles;
    m->space->handles = m;
    pthread_mutex_unlock(&m->space->lock);
    *out = &m->base;
    return SIMBA_OK;
}

/* Off the list before the loop ends: nobody rings a loop that is gone. */
static void detach(simba_backend *self)
{
    struct memory *m = (struct memory *)self;
    struct memory **h;

    pthread_mutex_lock(&m->space->lock);
    for (h = &m->space->handles; *h != m; h = &(*h)->next) {
    }
    *h = m->next;
    pthread_mutex_unlock(&m->space->lock);
}

/* A child has no part in its parent's spaces: who waits there is not here. */
static void forked(simba_backend *self)
{
    (void)self;
    pthread_mutex_init(&spaces_lock, NULL);
    spaces = NULL;
}

static void close_memory(simba_backend *self)
{
    struct memory *m = (struct memory *)self;

    leave_space(m->space);
    free(m);
}

const simba_backend_ops simba__memory_ops = {
    .abi = SIMBA_BACKEND_ABI,
    .scheme = "memory",
    .least_lease_ms = 100,
    .open = open_memory,
    .submit = submit,
    .close = close_memory,
    .detach = detach,
    .forked = forked,
    .interest = interest,
    .capabilities = SIMBA_CAN_PUSH | SIMBA_CAN_LIST | SIMBA_CAN_BREAK |
                    SIMBA_CAN_DOCTOR | SIMBA_HAS_STEADY_CLOCK |
                    SIMBA_IN_ONE_PROCESS | SIMBA_CAN_OBSERVE |
                    SIMBA_TELLS_ENDED,
};
