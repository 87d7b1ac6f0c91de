/* The memory store: `memory:name`. Handles with one name share its mutexes, for
 * as long as there is one.
 *
 * It answers at once, from within submit, inside the loop of the handle that
 * asks; the space is locked meanwhile. A waiter or an observer is woken through
 * the loop of its own handle. The rules are in core/mutex_model.c. */
#define _GNU_SOURCE
#include "backends/memory/memory.h"

#include "core/mutex_record.h"
#include "util/hash.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What handles of one name share. */
struct space {
    char *name;
    struct space *next;
    int users;            /* guarded by spaces_lock */
    pthread_mutex_t lock; /* guards the mutexes and the list of handles */
    struct simba__hash mutexes;
    struct memory *handles;
    uint64_t token_floor; /* no tenure of it has a smaller token */
};

/* What an owner tells about itself. */
struct told {
    struct told *next;
    uint64_t token;
    int64_t until_ms;
    char text[];
};

/* A tenure that was ended by force. */
struct broken {
    struct broken *next;
    simba_broken broken;
};

struct mutex {
    struct simba__hash_link link;
    struct simba__mutex_record record;
    struct told *told;
    struct broken *broken;
};

/* A new owner, as observers are told of it. */
struct change {
    bool is_shared; /* one of several: they look for themselves */
    simba_owner owner;
    uint64_t ended;
};

static struct change change_of(const simba_reply *reply, bool is_shared)
{
    return (struct change){is_shared, reply->owner, reply->ended};
}

struct memory {
    simba_backend base;
    struct space *space;
    struct memory *next;
    uint64_t connection;
    struct simba__hash observed; /* mutexes; guarded by the space's lock */
    /* Of the request in hand, likewise: observers of this handle are to be told
     * of a change. */
    bool is_observed, is_shared;
};

static pthread_mutex_t spaces_lock = PTHREAD_MUTEX_INITIALIZER;
static struct space *spaces;
static uint64_t connections; /* guarded by spaces_lock */

/* S4: the greatest token of a space that was forgotten. The clock alone would
 * not do: within one millisecond it can be closed and opened again. */
static uint64_t greatest_token; /* guarded by spaces_lock */

/* --- spaces, with spaces_lock held --------------------------------------- */

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

static void drop_told(struct told **at)
{
    struct told *told = *at;

    *at = told->next;
    free(told);
}

static void free_space(struct space *space)
{
    struct simba__hash_link *link = NULL;

    while ((link = simba__hash_next(&space->mutexes, link)) != NULL) {
        struct mutex *mutex = (struct mutex *)link;

        if (mutex->record.last_token > greatest_token) {
            greatest_token = mutex->record.last_token;
        }
        simba__mutex_fini(&mutex->record);
        while (mutex->told != NULL) {
            drop_told(&mutex->told);
        }
        while (mutex->broken != NULL) {
            struct broken *broken = mutex->broken;

            mutex->broken = broken->next;
            free(broken);
        }
    }
    simba__hash_free(&space->mutexes);
    pthread_mutex_destroy(&space->lock);
    free(space->name);
    free(space);
}

/* --- waking others, with the space locked -------------------------------- */

static void tell_observers(simba_loop *loop,
                           const char *mutex,
                           const struct change *change)
{
    simba_observed(loop, mutex, change->is_shared ? NULL : &change->owner,
                   change->ended);
}

struct wake {
    simba_loop *loop;
    bool is_change; /* for observers; else a waiter is offered the mutex */
    struct change change;
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
};

static void run_wake(void *argument)
{
    struct wake *wake = argument;

    if (wake->is_change) {
        tell_observers(wake->loop, wake->mutex, &wake->change);
    } else {
        simba_wake(wake->loop, wake->mutex);
    }
    free(wake);
}

/* A lost wake-up does no harm (S7). */
static void notify(const struct memory *m,
                   const char *mutex,
                   const struct change *change)
{
    struct wake *wake = calloc(1, sizeof *wake);

    if (wake == NULL) {
        return;
    }
    wake->loop = m->base.loop;
    memcpy(wake->mutex, mutex, strlen(mutex) + 1);
    if (change != NULL) {
        wake->is_change = true;
        wake->change = *change;
    }
    simba_loop_post(m->base.loop, run_wake, wake);
}

/* --- serving, with the space locked -------------------------------------- */

/* A request and the mutex it is about. */
struct serving {
    struct space *space;
    const char *mutex;
};

static struct memory *find_handle(void *self, uint64_t connection)
{
    struct memory *m = ((struct serving *)self)->space->handles;

    while (m != NULL && m->connection != connection) {
        m = m->next;
    }
    return m;
}

static bool is_connected(void *self, uint64_t connection)
{
    return find_handle(self, connection) != NULL;
}

static void wake_waiter(void *self, const struct simba__waiter *waiter)
{
    struct memory *m = find_handle(self, waiter->connection);

    if (m != NULL) {
        notify(m, ((struct serving *)self)->mutex, NULL);
    }
}

/* Made when there is none; NULL: out of memory. */
static struct mutex *find_mutex(struct space *space, const char *name)
{
    struct mutex *mutex =
        (struct mutex *)simba__hash_find(&space->mutexes, name);

    if (mutex == NULL) {
        mutex = simba__hash_new(&space->mutexes, sizeof *mutex, name);
        if (mutex != NULL) {
            mutex->record.last_token = space->token_floor;
        }
    }
    return mutex;
}

static void add_owners(simba_request *request,
                       const struct simba__mutex_record *record,
                       int64_t now_ms)
{
    const simba_owner *owner;
    size_t i = 0;

    while ((owner = simba__mutex_next_owner(record, now_ms, &i)) != NULL) {
        simba_request_add_owner(request, owner);
    }
}

static void log_break(struct mutex *mutex,
                      const simba_request *request,
                      const char *id)
{
    struct broken *entry = calloc(1, sizeof *entry);
    struct timespec now;

    if (entry != NULL) { /* as a book in memory may */
        clock_gettime(CLOCK_REALTIME, &now);
        entry->broken = (simba_broken){.token = request->token,
                                       .unix_ms = (int64_t)now.tv_sec * 1000 +
                                                  now.tv_nsec / 1000000,
                                       .now = request->now};
        snprintf(entry->broken.mutex, sizeof entry->broken.mutex, "%s",
                 request->mutex);
        snprintf(entry->broken.id, sizeof entry->broken.id, "%s", id);
        snprintf(entry->broken.reason, sizeof entry->broken.reason, "%s",
                 request->reason == NULL ? "" : request->reason);
        entry->next = mutex->broken;
        mutex->broken = entry;
    }
}

/* Whose tenure has this token. */
static void name_owner(const struct simba__mutex_record *record,
                       uint64_t token,
                       char id[SIMBA_ID_MAX + 1])
{
    const struct simba__tenure *tenure;

    id[0] = '\0';
    for (size_t i = 0; (tenure = simba__mutex_tenure(record, i)) != NULL; i++) {
        if (tenure->owner.token == token) {
            memcpy(id, tenure->owner.id, sizeof tenure->owner.id);
        }
    }
}

static int serve_tell(struct memory *m, const simba_request *request)
{
    struct mutex *mutex = find_mutex(m->space, request->mutex);
    int64_t now_ms = simba_loop_now_ms();
    size_t room = request->reason == NULL ? 0 : strlen(request->reason) + 1;
    struct told *told = NULL;

    if (mutex == NULL ||
        (room > 0 && (told = malloc(sizeof *told + room)) == NULL)) {
        return SIMBA_ENOMEM;
    }
    for (struct told **at = &mutex->told; *at != NULL;) {
        if ((*at)->token == request->token || (*at)->until_ms < now_ms) {
            drop_told(at);
        } else {
            at = &(*at)->next;
        }
    }
    if (told != NULL) {
        told->token = request->token;
        told->until_ms = now_ms + request->ttl_ms + request->transition_ms;
        memcpy(told->text, request->reason, room);
        told->next = mutex->told;
        mutex->told = told;
    }
    return SIMBA_OK;
}

/* What was told, or broken, of one mutex or of all. */
static int serve_notes(struct memory *m, simba_request *request)
{
    struct simba__hash *mutexes = &m->space->mutexes;
    int64_t now_ms = simba_loop_now_ms();

    for (struct simba__hash_link *link = simba__hash_next(mutexes, NULL);
         link != NULL; link = simba__hash_next(mutexes, link)) {
        const struct mutex *mutex = (const struct mutex *)link;
        bool is_wanted =
            request->mutex[0] == '\0' || strcmp(request->mutex, link->key) == 0;

        for (const struct told *told = mutex->told;
             is_wanted && request->kind == SIMBA_TOLD && told != NULL;
             told = told->next) {
            if (told->until_ms >= now_ms) {
                simba_request_add_told(request, link->key, told->token,
                                       told->text);
            }
        }
        for (const struct broken *entry = mutex->broken;
             is_wanted && request->kind == SIMBA_BREAKS && entry != NULL;
             entry = entry->next) {
            simba_request_add_broken(request, &entry->broken);
        }
    }
    return SIMBA_OK;
}

/* Our own observers are told later, with the space unlocked: they may look. */
static void tell_handles(struct memory *m,
                         const simba_request *request,
                         bool is_shared)
{
    for (struct memory *h = m->space->handles; h != NULL; h = h->next) {
        if (simba__hash_find(&h->observed, request->mutex) == NULL) {
            continue;
        }
        if (h == m) {
            m->is_observed = true;
            m->is_shared = is_shared;
        } else {
            struct change change = change_of(&request->reply, is_shared);

            notify(h, request->mutex, &change);
        }
    }
}

static int serve(struct memory *m, simba_request *request)
{
    struct serving serving = {.space = m->space, .mutex = request->mutex};
    struct simba__mutex_host host = {&serving, is_connected, wake_waiter};
    struct simba__mutex_request given = {.request = request,
                                         .connection = m->connection,
                                         .now_ms = simba_loop_now_ms()};
    struct mutex *mutex = find_mutex(m->space, request->mutex);
    struct simba__mutex_owners before, after;
    struct simba__waiter_walk walk = {.host = &host, .now_ms = given.now_ms};
    simba_waiter waiter;
    char broken[SIMBA_ID_MAX + 1];

    if (mutex == NULL) {
        return SIMBA_ENOMEM;
    }
    before = simba__mutex_owners(&mutex->record);
    if (request->kind == SIMBA_BREAK) {
        name_owner(&mutex->record, request->token, broken);
    }
    if (!simba__mutex_serve(&mutex->record, &host, &given, &request->reply)) {
        return SIMBA_ENOMEM;
    }
    if (request->kind == SIMBA_BREAK && request->reply.mine) {
        log_break(mutex, request, broken);
    }
    if (request->kind == SIMBA_READ && request->reply.owned > 1) {
        add_owners(request, &mutex->record, given.now_ms);
    }
    walk.record = &mutex->record;
    while (request->want_queue && simba__mutex_next_waiter(&walk, &waiter)) {
        simba_request_add_waiter(request, &waiter);
    }
    after = simba__mutex_owners(&mutex->record);
    if (simba__mutex_is_other(before, after)) {
        tell_handles(m, request, before.is_shared || after.is_shared);
    }
    return SIMBA_OK;
}

static int serve_list(struct memory *m, simba_request *request)
{
    struct serving serving = {.space = m->space};
    struct simba__mutex_host host = {&serving, is_connected, wake_waiter};
    struct simba__hash *mutexes = &m->space->mutexes;
    int64_t now_ms = simba_loop_now_ms();

    for (struct simba__hash_link *link = simba__hash_next(mutexes, NULL);
         link != NULL; link = simba__hash_next(mutexes, link)) {
        const struct simba__mutex_record *record =
            &((struct mutex *)link)->record;
        simba_reply seen = SIMBA_REPLY_INIT;
        struct simba__waiter_walk walk = {record, &host, now_ms, 0};
        int waiting = 0;

        simba__mutex_read(record, now_ms, &seen);
        while (simba__mutex_next_waiter(&walk, NULL)) {
            waiting++;
        }
        if (seen.owned > 0 || waiting > 0) {
            simba_request_add_mutex(request, link->key, &seen.owner, waiting);
            if (seen.owned > 1) {
                add_owners(request, record, now_ms);
            }
        }
    }
    request->reply.store_ms = now_ms;
    return SIMBA_OK;
}

static int serve_doctor(simba_request *request)
{
    simba_request_add_finding(request, SIMBA_FINDING_NOTE, "sharing",
                              "only this process sees its mutexes");
    simba_request_add_finding(request, SIMBA_FINDING_NOTE, "persistence",
                              "gone with the last handle of this name");
    simba_request_add_finding(request, SIMBA_FINDING_OK, "clock",
                              "the boot clock, which makes no steps");
    simba_request_add_finding(request, SIMBA_FINDING_OK, "queue",
                              "first come, first served; waiters are woken");
    return SIMBA_OK;
}

static int serve_any(struct memory *m, simba_request *request)
{
    return request->kind == SIMBA_LIST     ? serve_list(m, request)
           : request->kind == SIMBA_DOCTOR ? serve_doctor(request)
           : request->kind == SIMBA_TELL   ? serve_tell(m, request)
           : request->kind == SIMBA_TOLD || request->kind == SIMBA_BREAKS
               ? serve_notes(m, request)
               : serve(m, request);
}

/* --- the backend --------------------------------------------------------- */

static void submit(simba_backend *self, simba_request *request)
{
    struct memory *m = (struct memory *)self;
    bool is_observed, is_shared;
    int rc;

    pthread_mutex_lock(&m->space->lock);
    m->is_observed = false;
    rc = serve_any(m, request);
    is_observed = m->is_observed;
    is_shared = m->is_shared;
    pthread_mutex_unlock(&m->space->lock);
    if (is_observed) { /* before whoever asked can change it again */
        struct change change = change_of(&request->reply, is_shared);

        tell_observers(m->base.loop, request->mutex, &change);
    }
    simba_request_done(request, rc, NULL);
}

static void subscribe(simba_backend *self,
                      const char *mutex,
                      enum simba_subscription subscription)
{
    struct memory *m = (struct memory *)self;
    struct simba__hash_link *found;

    pthread_mutex_lock(&m->space->lock);
    found = simba__hash_find(&m->observed, mutex);
    if (found != NULL && subscription != SIMBA_SUBSCRIBE_OBSERVE) {
        simba__hash_remove(&m->observed, found);
        free(found);
    } else if (found == NULL && subscription == SIMBA_SUBSCRIBE_OBSERVE) {
        /* Without memory it polls. */
        (void)simba__hash_new(&m->observed, sizeof *found, mutex);
    }
    pthread_mutex_unlock(&m->space->lock);
}

static int open_memory(const simba_backend_config *config,
                       simba_backend **out,
                       simba_error *error)
{
    struct memory *m = calloc(1, sizeof *m);
    struct space *space;

    *out = NULL;
    if (m == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    m->base.ops = &simba__memory_ops;
    m->base.loop = config->loop;
    pthread_mutex_lock(&spaces_lock);
    for (space = spaces;
         space != NULL && strcmp(space->name, config->rest) != 0;
         space = space->next) {
    }
    if (space == NULL) {
        space = make_space(config->rest);
    }
    if (space != NULL) {
        space->users++;
        m->space = space;
        m->connection = ++connections;
        pthread_mutex_lock(&space->lock);
        m->next = space->handles;
        space->handles = m;
        pthread_mutex_unlock(&space->lock);
    }
    pthread_mutex_unlock(&spaces_lock);
    if (space == NULL) {
        free(m);
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    *out = &m->base;
    return SIMBA_OK;
}

/* Off the list before the loop ends: nobody notifies a loop that is gone. */
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
    struct space **s;

    pthread_mutex_lock(&spaces_lock);
    if (--m->space->users == 0) {
        for (s = &spaces; *s != m->space; s = &(*s)->next) {
        }
        *s = m->space->next;
        free_space(m->space);
    }
    pthread_mutex_unlock(&spaces_lock);
    simba__hash_free(&m->observed);
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
    .capabilities = SIMBA_CAN_PUSH | SIMBA_CAN_LIST | SIMBA_CAN_BREAK |
                    SIMBA_CAN_DOCTOR | SIMBA_HAS_STEADY_CLOCK |
                    SIMBA_IN_ONE_PROCESS | SIMBA_CAN_OBSERVE |
                    SIMBA_TELLS_ENDED | SIMBA_CAN_SLOTS | SIMBA_NUMBERS_SLOTS |
                    SIMBA_CAN_HAND_OVER | SIMBA_CAN_TELL | SIMBA_TELLS_BREAKS,
    .subscription = subscribe,
};
