#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include <stdlib.h>
#include <string.h>

/* Watches: a node that vanished, a mutex that is observed. Wake-ups only: what
 * is true is asked for. */

/* A request to watch the children of a mutex. */
struct observing {
    struct simba__zk *self;
    uint64_t generation;
    char path[];
};

static void observe(struct simba__zk *self, struct simba__zk_room *room);

/* --- nodes --------------------------------------------------------------- */

static bool is_same(const char *a, const char *b)
{
    return a != NULL && b != NULL && strcmp(a, b) == 0;
}

/* A latch of ours, or the one before it. */
static bool touches(struct simba__zk_latch *latch, const char *node, int type)
{
    bool is_own =
        latch->position == SIMBA__ZK_STANDING && is_same(latch->node, node);
    bool is_before = is_same(latch->before, node);

    latch->is_blind |= is_before;
    if (is_own) {
        latch->is_watched = false;
    }
    if (is_own && type == ZOO_DELETED_EVENT && !latch->is_doomed) {
        latch->position = SIMBA__ZK_ABSENT;
    }
    return (is_own && !latch->is_doomed) || is_before;
}

static void node_changed(struct simba__zk *self,
                         struct simba__zk_room *room,
                         const char *node,
                         int type)
{
    bool is_touched = false;

    for (struct simba__zk_latch *l = room->latches; l != NULL; l = l->next) {
        is_touched |= touches(l, node, type);
    }
    if (is_touched) {
        simba_wake(self->base.loop, room->mutex);
    }
}

/* A wake-up makes only the foremost of this process look. Who stands behind
 * them and lost the one it watched is woken when they have left. */
void simba__zk_look_behind(struct simba__zk *self, struct simba__zk_room *room)
{
    for (struct simba__zk_latch *l = room->latches; l != NULL; l = l->next) {
        if (l->is_blind && l->position == SIMBA__ZK_STANDING) {
            simba_wake(self->base.loop, room->mutex);
            return;
        }
    }
}

static void room_changed(struct simba__zk *self,
                         struct simba__zk_room *room,
                         int type)
{
    simba__zk_turns_stir(&room->turns, type == ZOO_DELETED_EVENT);
    room->is_watched = false;
    observe(self, room);
    simba_wake(self->base.loop, room->mutex);
}

static void changed(struct simba__zk *self, const char *path, int type)
{
    struct simba__zk_room *room = simba__zk_room_at(self, path);
    const char *node = strrchr(path, '/');
    char *parent;

    if (room != NULL && room->is_observed) {
        room_changed(self, room, type);
        return;
    }
    parent = node == NULL ? NULL : strndup(path, (size_t)(node - path));
    room = parent == NULL ? NULL : simba__zk_room_at(self, parent);
    free(parent);
    if (room != NULL) {
        node_changed(self, room, node + 1, type);
    }
}

/* NOLINTNEXTLINE(readability-function-size): the client library's signature */
void simba__zk_on_node(zhandle_t *handle,
                       int type,
                       int state,
                       const char *path,
                       void *context)
{
    struct simba__zk *self = context;

    (void)state;
    if (type == ZOO_SESSION_EVENT) {
        return; /* told to every watch; the session has an ear of its own */
    }
    simba_loop_enter(self->base.loop);
    if (handle == self->handle && !self->is_closing) {
        changed(self, path, type);
    }
    simba_loop_leave(self->base.loop);
}

/* --- observing ----------------------------------------------------------- */

static const struct simba__zk_look nothing;

/* The room an answer is about; NULL: it is of no use any more. */
static struct simba__zk_room *room_of(const struct observing *o, int rc)
{
    if (o->generation != o->self->generation ||
        !simba__zk_session_lives(o->self, rc)) {
        return NULL;
    }
    return simba__zk_room_at(o->self, o->path);
}

static void on_exists(int rc, const struct Stat *stat, const void *data)
{
    struct observing *o = (struct observing *)data;
    struct simba__zk *self = o->self;
    struct simba__zk_room *room;

    (void)stat;
    simba_loop_enter(self->base.loop);
    room = room_of(o, rc);
    if (room != NULL) {
        room->is_watched = rc == ZNONODE;
        if (rc == ZNONODE) {
            simba__zk_turns_watch(&room->turns, &nothing);
        } else if (rc == ZOK) { /* made meanwhile */
            observe(self, room);
        }
    }
    simba_loop_leave(self->base.loop);
    free(o);
}

/* Nobody has used this mutex, or it was reaped: watch for its making. */
static bool await_making(struct observing *o, struct simba__zk_room *room)
{
    room->is_watched = zoo_awexists(o->self->handle, o->path, simba__zk_on_node,
                                    o->self, on_exists, o) == ZOK;
    return room->is_watched;
}

static void watch_is_set(struct simba__zk_room *room, const struct Stat *stat)
{
    struct simba__zk_look found = {
        .life = stat->czxid,
        .made = simba__zk_ever(stat->cversion, stat->numChildren)};

    simba__zk_turns_watch(&room->turns, &found);
}

static void on_children(int rc,
                        const struct String_vector *children,
                        const struct Stat *stat,
                        const void *data)
{
    struct observing *o = (struct observing *)data;
    struct simba__zk *self = o->self;
    struct simba__zk_room *room;
    bool is_kept = false;

    (void)children;
    simba_loop_enter(self->base.loop);
    room = room_of(o, rc);
    if (room != NULL && rc == ZOK) {
        watch_is_set(room, stat);
    } else if (room != NULL) {
        room->is_watched = false;
        is_kept = rc == ZNONODE && await_making(o, room);
    }
    simba_loop_leave(self->base.loop);
    if (!is_kept) {
        free(o);
    }
}

static void observe(struct simba__zk *self, struct simba__zk_room *room)
{
    size_t length = strlen(room->path) + 1;
    struct observing *o;

    if (!room->is_observed || room->is_watched || !self->is_connected ||
        self->is_closing) {
        return;
    }
    o = malloc(sizeof *o + length);
    if (o == NULL) {
        return;
    }
    o->self = self;
    o->generation = self->generation;
    memcpy(o->path, room->path, length);
    room->is_watched =
        zoo_awget_children2(self->handle, room->path, simba__zk_on_node, self,
                            on_children, o) == ZOK;
    if (!room->is_watched) {
        free(o);
    }
}

void simba__zk_observe_all(struct simba__zk *self)
{
    bool is_news = false;

    for (int i = 0; i < SIMBA__ZK_BUCKETS; i++) {
        for (struct simba__zk_room *r = self->rooms[i]; r != NULL;
             r = r->next) {
            is_news |= r->is_observed && !r->is_watched;
            observe(self, r);
        }
    }
    if (is_news) { /* what happened meanwhile was told to nobody */
        simba_wake(self->base.loop, NULL);
    }
}

void simba__zk_doubt_watches(struct simba__zk *self)
{
    for (int i = 0; i < SIMBA__ZK_BUCKETS; i++) {
        for (struct simba__zk_room *r = self->rooms[i]; r != NULL;
             r = r->next) {
            simba__zk_turns_stir(&r->turns, false);
            r->is_watched = false; /* to be set anew */
        }
    }
}

void simba__zk_unwatch_all(struct simba__zk *self)
{
    simba__zk_doubt_watches(self);
    for (int i = 0; i < SIMBA__ZK_BUCKETS; i++) {
        for (struct simba__zk_room *r = self->rooms[i]; r != NULL;
             r = r->next) {
            r->is_made = false;
            r->is_making = false;
            r->looker = NULL;
        }
    }
}

void simba__zk_subscription(simba_backend *base,
                            const char *mutex,
                            enum simba_subscription subscription)
{
    struct simba__zk *self = (struct simba__zk *)base;
    struct simba__zk_room *room = simba__zk_room(self, mutex);

    if (room == NULL) {
        return;
    }
    if (!room->is_observed) {
        room->turns = (struct simba__zk_turns){0};
    }
    room->is_observed = subscription == SIMBA_SUBSCRIBE_OBSERVE;
    observe(self, room);
    simba__zk_room_tidy(self, room);
}

/* The backstop: those in the queue ask now and then whether a wake-up was lost.
 * One of them looks, and what it finds answers all who wait for the same mutex
 * here: a thousand looks at a thousand children each would be a million names.
 */

static bool is_watching(const struct simba__zk_latch *latch)
{
    return latch->position == SIMBA__ZK_STANDING && latch->before != NULL &&
           !latch->is_blind && !latch->is_doomed && !latch->was_granted;
}

static bool is_in_case(const struct simba__zk_latch *latch)
{
    return latch->asking != NULL && latch->asking->is_backstop &&
           latch->asking->join && is_watching(latch);
}

/* As long as a guard is good for, no longer. */
static bool is_fresh(const struct simba__zk_latch *latch)
{
    return latch->confirmed_ms != 0 &&
           simba_loop_now_ms() - latch->confirmed_ms <
               latch->self->guard.timeout_ms / 4;
}

enum simba__zk_backstop simba__zk_backstop(struct simba__zk_latch *latch)
{
    struct simba__zk_room *room = latch->room;

    if (!is_in_case(latch)) {
        return SIMBA__ZK_LOOKS;
    }
    if (room->looker != NULL && room->looker != latch) {
        return SIMBA__ZK_WAITS;
    }
    if (is_fresh(latch)) {
        latch->owner = room->owner;
        return SIMBA__ZK_CONFIRMED;
    }
    room->looker = latch;
    return SIMBA__ZK_LOOKS;
}

/* --- what the look has found --------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool has(char *const *names, int count, const char *name)
{
    return bsearch(&name, names, (size_t)count, sizeof names[0], by_name) !=
           NULL;
}

/* Who is still there, behind the same one, waits on. Who is not has missed
 * something, and looks for itself. */
static void confirm(struct simba__zk_latch *latch,
                    char *const *names,
                    int count)
{
    if (!is_watching(latch)) {
        return;
    }
    if (has(names, count, latch->node) && has(names, count, latch->before)) {
        latch->confirmed_ms = simba_loop_now_ms();
    } else {
        latch->is_blind = true;
    }
}

void simba__zk_backstop_heard(struct simba__zk_latch *latch,
                              const struct String_vector *children)
{
    struct simba__zk_room *room = latch->room;
    size_t size = sizeof(char *) * (size_t)(children->count + 1);
    char **names;

    if (room == NULL || room->looker != latch || children->count == 0) {
        return;
    }
    names = malloc(size);
    if (names == NULL) {
        return; /* each looks for itself */
    }
    memcpy(names, children->data, size - sizeof(char *));
    qsort(names, (size_t)children->count, sizeof names[0], by_name);
    for (struct simba__zk_latch *l = room->latches; l != NULL; l = l->next) {
        confirm(l, names, children->count);
        l->is_second = l->before != NULL && latch->lowest != NULL &&
                       strcmp(l->before, latch->lowest) == 0;
    }
    free(names);
}

/* What it has found may be that it has to be forgotten, and with it the room;
 * not while others wait in there. */
struct simba__zk_room *simba__zk_backstop_hold(struct simba__zk_latch *latch)
{
    struct simba__zk_room *room = latch->room;

    if (room == NULL || room->looker != latch) {
        return NULL;
    }
    room->holds++;
    return room;
}

static bool is_looking(const struct simba__zk_latch *latch)
{
    return latch->room != NULL &&
           (latch->flight == SIMBA__ZK_LOOK || latch->flight == SIMBA__ZK_LINE);
}

void simba__zk_backstop_free(struct simba__zk_latch *latch,
                             struct simba__zk_room *room)
{
    if (room == NULL) {
        return;
    }
    if (!is_looking(latch)) {
        room->looker = room->looker == latch ? NULL : room->looker;
        if (latch->owner.id[0] != '\0') {
            room->owner = latch->owner;
        }
        simba__zk_room_each(latch->self, room, simba__zk_latch_go);
    }
    room->holds--;
    simba__zk_room_tidy(latch->self, room);
}
