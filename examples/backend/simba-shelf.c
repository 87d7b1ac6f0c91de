/* A whole backend in one file, to begin one's own with: `shelf:NAME` keeps its
 * mutexes on a list in this process. docs/backends.md says how it is compiled
 * and what each part must do; it keeps the contract that `simba tck` runs.
 *
 * What a real store does in one transaction happens here under one lock. */
#define _GNU_SOURCE
#include <simba/sys/backend.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    OFFER_MS = 300
}; /* how long a free mutex is kept for the first waiter */

struct handle {
    simba_backend base; /* first: the runtime looks at it */
    char name[64];
};

struct waiter {
    struct waiter *next;
    simba_attempt attempt;
    struct handle *handle; /* NULL: it was closed */
    uint64_t position;
    int64_t lapses_ms; /* when it has not asked again by then */
    char id[SIMBA_ID_MAX + 1];
};

struct tomb {
    struct tomb *next;
    simba_attempt attempt;
    int64_t until_ms;
};

struct mutex {
    struct mutex *next;
    char shelf[64], name[SIMBA_MUTEX_MAX_BYTES + 1];
    simba_owner owner;     /* may have lapsed */
    simba_attempt attempt; /* of its tenure */
    uint64_t last_token, last_position;
    struct waiter *queue;   /* by position */
    struct waiter *offered; /* one of the queue, or NULL */
    int64_t offered_until_ms;
    struct tomb *tombs;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mutex *mutexes;

static bool is_same(simba_attempt a, simba_attempt b)
{
    return a.high == b.high && a.low == b.low;
}

static bool is_held(const struct mutex *m, int64_t now_ms)
{
    return m->owner.id[0] != '\0' && m->owner.transition_at_ms >= now_ms;
}

/* max(last + 1, the clock in microseconds), for tokens and positions (S4). */
static uint64_t next_number(uint64_t *last, int64_t now_ms)
{
    uint64_t micros = (uint64_t)now_ms * 1000;

    *last = *last >= micros ? *last + 1 : micros;
    return *last;
}

static struct mutex *find_mutex(const struct handle *h, const char *name)
{
    struct mutex *m = mutexes;

    while (m != NULL &&
           (strcmp(m->shelf, h->name) != 0 || strcmp(m->name, name) != 0)) {
        m = m->next;
    }
    if (m == NULL && (m = calloc(1, sizeof *m)) != NULL) {
        memcpy(m->shelf, h->name, sizeof m->shelf);
        memcpy(m->name, name, strlen(name) + 1);
        m->next = mutexes;
        mutexes = m;
    }
    return m;
}

/* --- wake-ups: ask again ------------------------------------------------- */

struct wake {
    simba_loop *loop;
    char name[SIMBA_MUTEX_MAX_BYTES + 1];
};

static void run_wake(void *argument)
{
    struct wake *wake = argument;

    simba_wake(wake->loop, wake->name);
    free(wake);
}

/* Into the loop of the waiter's own handle. A lost wake-up does no harm (S7).
 */
static void wake_waiter(const struct mutex *m, const struct waiter *w)
{
    struct wake *wake = w == NULL ? NULL : calloc(1, sizeof *wake);

    if (wake != NULL) {
        wake->loop = w->handle->base.loop;
        memcpy(wake->name, m->name, sizeof wake->name);
        simba_loop_post(wake->loop, run_wake, wake);
    }
}

/* --- the queue: first come, first served, among the living (S11) --------- */

static bool is_alive(const struct waiter *w, int64_t now_ms)
{
    return w->handle != NULL && w->lapses_ms >= now_ms;
}

static struct waiter *first_alive(struct waiter *w, int64_t now_ms)
{
    while (w != NULL && !is_alive(w, now_ms)) {
        w = w->next;
    }
    return w;
}

static struct waiter **find_in_queue(struct mutex *m, simba_attempt attempt)
{
    struct waiter **w = &m->queue;

    while (*w != NULL && !is_same((*w)->attempt, attempt)) {
        w = &(*w)->next;
    }
    return w;
}

static void put_in_queue(struct mutex *m,
                         struct waiter *waiter,
                         uint64_t position)
{
    struct waiter **w = &m->queue;

    while (*w != NULL && (*w)->position < position) {
        w = &(*w)->next;
    }
    waiter->position = position;
    waiter->next = *w;
    *w = waiter;
}

static void drop_from_queue(struct mutex *m, simba_attempt attempt)
{
    struct waiter **w = find_in_queue(m, attempt), *gone = *w;

    if (gone != NULL) {
        *w = gone->next;
        m->offered = m->offered == gone ? NULL : m->offered;
        free(gone);
    }
}

/* The mutex is kept for the first one alive; the second is told as well, so
 * that it need not wait for long if the first is silent (S10). */
static void offer_next(struct mutex *m, int64_t now_ms)
{
    m->offered = first_alive(m->queue, now_ms);
    if (m->offered != NULL) {
        m->offered_until_ms = now_ms + OFFER_MS;
        wake_waiter(m, m->offered);
        wake_waiter(m, first_alive(m->offered->next, now_ms));
    }
}

/* Who has not asked again in its time has given up its position. */
static void drop_lapsed(struct mutex *m, int64_t now_ms)
{
    struct waiter *next;

    for (struct waiter *w = m->queue; w != NULL; w = next) {
        next = w->next;
        if (w->lapses_ms < now_ms && w != m->offered) {
            drop_from_queue(m, w->attempt);
        }
    }
}

/* Who was offered it and did not come goes to the end of the queue. */
static void end_missed_turn(struct mutex *m, int64_t now_ms)
{
    struct waiter *missing = m->offered;

    if (missing != NULL && m->offered_until_ms < now_ms) {
        *find_in_queue(m, missing->attempt) = missing->next;
        put_in_queue(m, missing, next_number(&m->last_position, now_ms));
        m->offered = NULL;
    }
}

/* Not the one that it is offered to: that has left the queue already. */
static bool is_head(const struct mutex *m, const struct waiter *me, int64_t now)
{
    struct waiter *first = first_alive(m->queue, now);

    if (first != NULL && first == m->offered) {
        first = first_alive(first->next, now);
    }
    return first == me;
}

static int refuse(struct handle *h,
                  struct mutex *m,
                  simba_request *request,
                  int64_t now)
{
    struct waiter *me = *find_in_queue(m, request->attempt);

    if (!request->join) {
        return SIMBA_OK;
    }
    if (me == NULL) {
        me = calloc(1, sizeof *me);
        if (me == NULL) {
            return SIMBA_ENOMEM;
        }
        me->attempt = request->attempt;
        memcpy(me->id, request->id, strlen(request->id) + 1);
        /* Who had a position that we do not know any more gets it back. */
        put_in_queue(m, me,
                     request->position != 0
                         ? request->position
                         : next_number(&m->last_position, now));
    }
    me->handle = h;
    me->lapses_ms = now + request->waiter_ms;
    request->reply.is_queued = true;
    request->reply.position = me->position;
    request->reply.is_head = is_head(m, me, now);
    return SIMBA_OK;
}

/* --- tombstones: an attempt that was undone stays undone (S8) ------------ */

static bool is_entombed(struct mutex *m, simba_attempt attempt, int64_t now)
{
    struct tomb **t = &m->tombs;

    while (*t != NULL) {
        struct tomb *over = *t;

        if (over->until_ms >= now && is_same(over->attempt, attempt)) {
            return true;
        }
        if (over->until_ms < now) {
            *t = over->next;
            free(over);
        } else {
            t = &over->next;
        }
    }
    return false;
}

static int entomb(struct mutex *m, const simba_request *request, int64_t now_ms)
{
    struct tomb *tomb = calloc(1, sizeof *tomb);

    if (tomb == NULL) {
        return SIMBA_ENOMEM;
    }
    tomb->attempt = request->attempt;
    tomb->until_ms = now_ms + request->tombstone_ms;
    tomb->next = m->tombs;
    m->tombs = tomb;
    return SIMBA_OK;
}

/* --- requests ------------------------------------------------------------ */

static void extend(struct mutex *m, simba_request *request, int64_t now_ms)
{
    m->owner.ttl_at_ms = now_ms + request->ttl_ms;
    m->owner.transition_at_ms = m->owner.ttl_at_ms + request->transition_ms;
    request->reply.mine = true;
    request->reply.token = m->owner.token;
}

static void grant(struct mutex *m, simba_request *request, int64_t now_ms)
{
    drop_from_queue(m, request->attempt);
    m->attempt = request->attempt;
    memcpy(m->owner.id, request->id, strlen(request->id) + 1);
    if (m->last_token < request->token_above) {
        m->last_token = request->token_above;
    }
    m->owner.token = next_number(&m->last_token, now_ms);
    m->owner.acquired_at_ms = now_ms;
    extend(m, request, now_ms);
}

static int acquire(struct handle *h,
                   struct mutex *m,
                   simba_request *request,
                   int64_t now)
{
    struct waiter *first = first_alive(m->queue, now);

    if (is_entombed(m, request->attempt, now)) {
        return SIMBA_OK;
    }
    if (is_held(m, now)) {
        if (is_same(m->attempt, request->attempt)) { /* asked again (S5) */
            extend(m, request, now);
            return SIMBA_OK;
        }
        request->reply.wait_ms = m->owner.transition_at_ms - now;
        return refuse(h, m, request, now);
    }
    if (m->offered == NULL && first != NULL &&
        !is_same(first->attempt, request->attempt)) {
        offer_next(m, now); /* a lease has lapsed, and the queue comes first */
    }
    if (m->offered != NULL && !is_same(m->offered->attempt, request->attempt)) {
        request->reply.wait_ms = m->offered_until_ms - now;
        return refuse(h, m, request, now);
    }
    grant(m, request, now);
    return SIMBA_OK;
}

/* Ends this very attempt, whatever it has; for release and leave. */
static int end_attempt(struct mutex *m, simba_request *request, int64_t now_ms)
{
    bool was_offered =
        m->offered != NULL && is_same(m->offered->attempt, request->attempt);
    bool was_owner =
        m->owner.id[0] != '\0' && is_same(m->attempt, request->attempt);

    if (request->tombstone_ms > 0 && entomb(m, request, now_ms) != SIMBA_OK) {
        return SIMBA_ENOMEM;
    }
    drop_from_queue(m, request->attempt);
    if (was_owner) {
        memset(&m->owner, 0, sizeof m->owner);
    }
    if ((was_owner || was_offered) && m->offered == NULL) {
        offer_next(m, now_ms);
    }
    return SIMBA_OK;
}

static void tell_queue(const struct mutex *m,
                       simba_request *request,
                       int64_t now_ms)
{
    for (struct waiter *w = first_alive(m->queue, now_ms); w != NULL;
         w = first_alive(w->next, now_ms)) {
        simba_waiter told = {.position = w->position,
                             .joined_at_ms = (int64_t)(w->position / 1000),
                             .is_offered = w == m->offered};

        memcpy(told.id, w->id, sizeof told.id);
        simba_request_add_waiter(request, &told);
    }
}

static int serve(struct handle *h,
                 struct mutex *m,
                 simba_request *request,
                 int64_t now)
{
    int rc = SIMBA_OK;

    end_missed_turn(m, now);
    drop_lapsed(m, now);
    if (request->kind == SIMBA_ACQUIRE) {
        rc = acquire(h, m, request, now);
    } else if (request->kind == SIMBA_RENEW) {
        if (is_held(m, now) && is_same(m->attempt, request->attempt)) {
            extend(m, request, now);
        }
    } else if (request->kind != SIMBA_READ) {
        rc = end_attempt(m, request, now);
    } else if (request->want_queue) {
        tell_queue(m, request, now);
    }
    request->reply.store_ms = now;
    if (is_held(m, now)) {
        request->reply.owner = m->owner;
    }
    return rc;
}

/* --- the table ----------------------------------------------------------- */

static void submit(simba_backend *self, simba_request *request)
{
    struct handle *h = (struct handle *)self;
    struct mutex *m;
    int rc = SIMBA_ENOMEM;

    pthread_mutex_lock(&lock);
    m = find_mutex(h, request->mutex);
    if (m != NULL) { /* the clock is read when we have the lock, not before */
        rc = serve(h, m, request, simba_loop_now_ms());
    }
    pthread_mutex_unlock(&lock);
    simba_request_done(request, rc, NULL);
}

static int open_shelf(const simba_backend_config *config,
                      simba_backend **backend,
                      simba_error *error)
{
    struct handle *h = calloc(1, sizeof *h);

    *backend = NULL;
    if (h == NULL || strlen(config->rest) >= sizeof h->name) {
        free(h);
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "the name of a shelf has at most 63 bytes");
    }
    memcpy(h->name, config->rest, strlen(config->rest) + 1);
    h->base.ops = &simba_module;
    h->base.loop = config->loop;
    *backend = &h->base;
    return SIMBA_OK;
}

/* The loop is about to end: nobody may wake it any more. */
static void detach(simba_backend *self)
{
    struct handle *h = (struct handle *)self;

    pthread_mutex_lock(&lock);
    for (struct mutex *m = mutexes; m != NULL; m = m->next) {
        for (struct waiter *w = m->queue; w != NULL; w = w->next) {
            w->handle = w->handle == h ? NULL : w->handle;
        }
    }
    pthread_mutex_unlock(&lock);
}

/* A forked child has a shelf of its own (S12). */
static void forked(simba_backend *self)
{
    (void)self;
    pthread_mutex_init(&lock, NULL);
    mutexes = NULL;
}

static void close_shelf(simba_backend *self)
{
    free(self);
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
    .capabilities =
        SIMBA_CAN_PUSH | SIMBA_HAS_STEADY_CLOCK | SIMBA_IN_ONE_PROCESS,
};
