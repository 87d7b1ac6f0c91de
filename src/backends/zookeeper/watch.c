/* Watches: a node that vanished, a mutex that is observed. Wake-ups only: what
 * is true is asked for. */
#define _GNU_SOURCE
#include "backends/zookeeper/instance.h"

#include <stdlib.h>
#include <string.h>

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
