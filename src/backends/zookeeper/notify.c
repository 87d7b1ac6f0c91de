/* Watches: a node that vanished, a mutex that is observed; and the backstop for
 * lost wake-ups. A watch only wakes: what is true is asked for. */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void observe(struct simba__zk *self, struct simba__zk_mutex *mutex);

/* --- events -------------------------------------------------------------- */

static bool is_same(const char *a, const char *b)
{
    return a != NULL && strcmp(a, b) == 0;
}

/* NOLINTNEXTLINE(readability-function-size): the client library's signature */
void simba__zk_on_node(zhandle_t *handle,
                       int type,
                       int state,
                       const char *path,
                       void *context)
{
    struct simba__zk *self = context;
    struct simba__zk_latch *latch;
    struct simba__zk_mutex *mutex;
    bool is_news = false;
    const char *node;

    (void)state;
    if (type == ZOO_SESSION_EVENT) {
        return; /* told to every watch; connection.c has one of its own */
    }
    node = strrchr(path, '/');
    simba_loop_enter(self->base.loop);
    if (handle == self->handle && !self->is_closing) {
        mutex = simba__zk_mutex_at(self, path, strlen(path));
        if (mutex != NULL && mutex->is_observed) {
            simba__zk_serials_changed(&mutex->serials,
                                      type == ZOO_DELETED_EVENT);
            mutex->is_watched = false;
            observe(self, mutex);
            simba_wake(self->base.loop, mutex->name);
        } else if (node != NULL) {
            /* It may be a latch of ours, or the one before it. */
            mutex = simba__zk_mutex_at(self, path, (size_t)(node - path));
            latch = mutex == NULL ? NULL : mutex->latches;
            for (; latch != NULL; latch = latch->next) {
                bool is_own = latch->state == SIMBA__ZK_PRESENT &&
                              is_same(latch->node, node + 1);
                bool is_before = is_same(latch->before, node + 1);

                latch->is_unwatched |= is_before;
                if (is_own) {
                    latch->is_watched = false;
                }
                if (is_own && type == ZOO_DELETED_EVENT && !latch->is_leaving) {
                    latch->state = SIMBA__ZK_ABSENT;
                }
                is_news |= (is_own && !latch->is_leaving) || is_before;
            }
            if (is_news) {
                simba_wake(self->base.loop, mutex->name);
            }
        }
    }
    simba_loop_leave(self->base.loop);
}

/* A wake-up makes only the foremost of this process look. Who stands behind
 * them and lost the one it watched is woken when they have left. */
void simba__zk_wake_next(struct simba__zk *self, struct simba__zk_mutex *mutex)
{
    for (struct simba__zk_latch *l = mutex->latches; l != NULL; l = l->next) {
        if (l->is_unwatched && l->state == SIMBA__ZK_PRESENT) {
            simba_wake(self->base.loop, mutex->name);
            return;
        }
    }
}

/* --- observers ----------------------------------------------------------- */

/* A request to watch a mutex. */
struct observing {
    struct simba__zk *self;
    uint64_t generation;
    char path[];
};

/* Enters the loop with a reply. NULL: it is of no use any more. */
static struct simba__zk_mutex *arrive(const struct observing *o, int rc)
{
    simba_loop_enter(o->self->base.loop);
    if (o->generation != o->self->generation ||
        !simba__zk_session_lives(o->self, rc)) {
        return NULL;
    }
    return simba__zk_mutex_at(o->self, o->path, strlen(o->path));
}

static void on_exists(int rc, const struct Stat *stat, const void *data)
{
    static const struct simba__zk_view nothing;
    struct observing *o = (struct observing *)data;
    struct simba__zk_mutex *mutex = arrive(o, rc);

    (void)stat;
    if (mutex != NULL) {
        mutex->is_watched = rc == ZNONODE;
        if (rc == ZNONODE) {
            simba__zk_serials_watched(&mutex->serials, &nothing);
        } else if (rc == ZOK) { /* made meanwhile */
            observe(o->self, mutex);
        }
    }
    simba_loop_leave(o->self->base.loop);
    free(o);
}

static void on_children(int rc,
                        const struct String_vector *children,
                        const struct Stat *stat,
                        const void *data)
{
    struct observing *o = (struct observing *)data;
    struct simba__zk *self = o->self;
    struct simba__zk_mutex *mutex = arrive(o, rc);
    bool is_kept = false;

    (void)children;
    if (mutex != NULL && rc == ZOK) {
        struct simba__zk_view found = {.czxid = stat->czxid,
                                       .latches_made =
                                           simba__zk_children_made(stat)};

        simba__zk_serials_watched(&mutex->serials, &found);
    } else if (mutex != NULL) {
        /* Nobody has used it, or it was reaped: watch for its making. */
        is_kept = rc == ZNONODE &&
                  zoo_awexists(self->handle, o->path, simba__zk_on_node, self,
                               on_exists, o) == ZOK;
        mutex->is_watched = is_kept;
    }
    simba_loop_leave(self->base.loop);
    if (!is_kept) {
        free(o);
    }
}

static void observe(struct simba__zk *self, struct simba__zk_mutex *mutex)
{
    size_t size = strlen(mutex->path) + 1;
    struct observing *o;

    if (!mutex->is_observed || mutex->is_watched || !self->is_connected ||
        self->is_closing) {
        return;
    }
    o = malloc(sizeof *o + size);
    if (o == NULL) {
        return;
    }
    o->self = self;
    o->generation = self->generation;
    memcpy(o->path, mutex->path, size);
    mutex->is_watched =
        zoo_awget_children2(self->handle, o->path, simba__zk_on_node, self,
                            on_children, o) == ZOK;
    if (!mutex->is_watched) {
        free(o);
    }
}

void simba__zk_observe_all(struct simba__zk *self)
{
    struct simba__zk_mutex *mutex = NULL;
    bool is_news = false;

    while ((mutex = simba__zk_mutex_next(self, mutex)) != NULL) {
        is_news |= mutex->is_observed && !mutex->is_watched;
        observe(self, mutex);
    }
    if (is_news) { /* what happened meanwhile was told to nobody */
        simba_wake(self->base.loop, NULL);
    }
}

void simba__zk_watches_lost(struct simba__zk *self, bool is_session_lost)
{
    struct simba__zk_mutex *mutex = NULL;

    while ((mutex = simba__zk_mutex_next(self, mutex)) != NULL) {
        simba__zk_serials_changed(&mutex->serials, false);
        mutex->is_watched = false; /* to be set anew */
        if (is_session_lost) {
            mutex->is_made = mutex->is_making = false;
            mutex->looker = NULL;
        }
    }
}

void simba__zk_subscription(simba_backend *base,
                            const char *name,
                            enum simba_subscription subscription)
{
    struct simba__zk *self = (struct simba__zk *)base;
    struct simba__zk_mutex *mutex = simba__zk_mutex_get(self, name, true);

    if (mutex == NULL) {
        return;
    }
    if (!mutex->is_observed) {
        mutex->serials = (struct simba__zk_serials){0};
    }
    mutex->is_observed = subscription == SIMBA_SUBSCRIBE_OBSERVE;
    observe(self, mutex);
    simba__zk_mutex_tidy(self, mutex);
}

/* --- the backstop -------------------------------------------------------- */

/* Those in the queue ask now and then whether a wake-up was lost. One of them
 * looks, and what it finds answers all who wait for the same mutex here: a
 * thousand looks at a thousand children each would be a million names. */

static bool is_waiting(const struct simba__zk_latch *latch)
{
    return latch->state == SIMBA__ZK_PRESENT && latch->before != NULL &&
           !latch->is_unwatched && !latch->is_leaving && !latch->was_granted;
}

enum simba__zk_backstop simba__zk_backstop(struct simba__zk_latch *latch)
{
    struct simba__zk_mutex *mutex = latch->mutex;
    int64_t fresh_ms = latch->self->certainty.timeout_ms / 4;

    if (latch->acquire == NULL || !latch->acquire->is_backstop ||
        !latch->acquire->join || !is_waiting(latch)) {
        return SIMBA__ZK_LOOKS;
    }
    if (mutex->looker != NULL && mutex->looker != latch) {
        return SIMBA__ZK_WAITS;
    }
    /* Another's look is good for as long as a quorum write, no longer. */
    if (latch->confirmed_ms != 0 &&
        simba_loop_now_ms() - latch->confirmed_ms < fresh_ms) {
        latch->owner = mutex->owner;
        return SIMBA__ZK_CONFIRMED;
    }
    mutex->looker = latch;
    return SIMBA__ZK_LOOKS;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool has(char *const *names, int count, const char *name)
{
    return bsearch(&name, names, (size_t)count, sizeof names[0], by_name) !=
           NULL;
}

void simba__zk_backstop_heard(struct simba__zk_latch *latch,
                              const struct String_vector *children)
{
    struct simba__zk_mutex *mutex = latch->mutex;
    int count = children->count;
    char **names;

    assert(mutex != NULL && mutex->looker == latch);
    names = calloc((size_t)count + 1, sizeof names[0]);
    if (names == NULL) {
        return; /* each looks for itself */
    }
    memcpy(names, children->data, sizeof(char *) * (size_t)count);
    qsort(names, (size_t)count, sizeof names[0], by_name);
    for (struct simba__zk_latch *l = mutex->latches; l != NULL; l = l->next) {
        /* Who is still there, behind the same one, waits on. Who is not has
         * missed something, and looks for itself. */
        if (is_waiting(l)) {
            if (has(names, count, l->node) && has(names, count, l->before)) {
                l->confirmed_ms = simba_loop_now_ms();
            } else {
                l->is_unwatched = true;
            }
        }
        l->is_second = l->before != NULL && is_same(latch->lowest, l->before);
    }
    free(names);
}

void simba__zk_backstop_end(struct simba__zk_latch *latch,
                            struct simba__zk_mutex *mutex)
{
    if (latch->mutex != NULL &&
        (latch->batch == SIMBA__ZK_CHECK || latch->batch == SIMBA__ZK_QUEUE)) {
        return; /* it still looks */
    }
    if (mutex->looker == latch) {
        mutex->looker = NULL;
    }
    if (latch->owner.id[0] != '\0') {
        mutex->owner = latch->owner;
    }
    simba__zk_latches_each(latch->self, mutex, simba__zk_latch_go);
}
