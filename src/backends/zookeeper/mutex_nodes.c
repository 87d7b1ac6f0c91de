#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include "util/text.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Mutexes, and the latches of this process in them. */

char *simba__zk_join(const char *path, const char *node)
{
    char *joined = NULL;

    return asprintf(&joined, "%s/%s", path, node) < 0 ? NULL : joined;
}

/* --- rooms --------------------------------------------------------------- */

static struct simba__zk_room **bucket_of(struct simba__zk *self,
                                         const char *path)
{
    return &self->rooms[simba__text_hash(path) % SIMBA__ZK_BUCKETS];
}

struct simba__zk_room *simba__zk_room_at(struct simba__zk *self,
                                         const char *path)
{
    struct simba__zk_room *room = *bucket_of(self, path);

    while (room != NULL && strcmp(room->path, path) != 0) {
        room = room->next;
    }
    return room;
}

static void free_room(struct simba__zk_room *room)
{
    free(room->mutex);
    free(room->path);
    free(room);
}

static struct simba__zk_room *make_room(struct simba__zk *self,
                                        const char *mutex,
                                        char *path)
{
    struct simba__zk_room *room = calloc(1, sizeof *room);
    struct simba__zk_room **bucket = bucket_of(self, path);

    if (room == NULL) {
        free(path);
        return NULL;
    }
    room->path = path;
    room->mutex = strdup(mutex);
    if (room->mutex == NULL) {
        free_room(room);
        return NULL;
    }
    room->next = *bucket;
    *bucket = room;
    return room;
}

struct simba__zk_room *simba__zk_room(struct simba__zk *self, const char *mutex)
{
    char escaped[SIMBA__ZK_ESCAPED_SIZE];
    struct simba__zk_room *room;
    char *path;

    simba__zk_escape(mutex, escaped);
    path = simba__zk_join(self->settings.base, escaped);
    if (path == NULL) {
        return NULL;
    }
    room = simba__zk_room_at(self, path);
    if (room == NULL) {
        return make_room(self, mutex, path);
    }
    free(path);
    return room;
}

void simba__zk_room_tidy(struct simba__zk *self, struct simba__zk_room *room)
{
    struct simba__zk_room **at = bucket_of(self, room->path);

    if (room->latches != NULL || room->is_observed || room->holds > 0) {
        return;
    }
    while (*at != room) {
        at = &(*at)->next;
    }
    *at = room->next;
    free_room(room);
}

/* --- latches ------------------------------------------------------------- */

struct simba__zk_latch *simba__zk_latch_find(const struct simba__zk_room *room,
                                             simba_attempt attempt)
{
    struct simba__zk_latch *latch = room->latches;

    while (latch != NULL && (latch->attempt.high != attempt.high ||
                             latch->attempt.low != attempt.low)) {
        latch = latch->next;
    }
    return latch;
}

struct simba__zk_latch *simba__zk_latch_make(struct simba__zk *self,
                                             struct simba__zk_room *room,
                                             const simba_request *request)
{
    struct simba__zk_latch *latch = calloc(1, sizeof *latch);
    struct simba__zk_latch **last = &room->latches;

    if (latch == NULL) {
        return NULL;
    }
    while (*last != NULL) { /* in the order they came, for S11 */
        last = &(*last)->next;
    }
    latch->self = self;
    latch->room = room;
    latch->references = 1;
    latch->attempt = request->attempt;
    snprintf(latch->id, sizeof latch->id, "%s", request->id);
    simba__zk_prefix(request->attempt, latch->prefix);
    *last = latch;
    self->latch_count++;
    return latch;
}

void simba__zk_latch_unref(struct simba__zk_latch *latch)
{
    if (--latch->references > 0) {
        return;
    }
    assert(latch->room == NULL);
    free(latch->before);
    free(latch->lowest);
    free(latch);
}

void simba__zk_latch_forget(struct simba__zk_latch *latch)
{
    struct simba__zk *self = latch->self;
    struct simba__zk_room *room = latch->room;
    struct simba__zk_latch **at;

    if (room == NULL) {
        return;
    }
    assert(latch->asking == NULL && latch->parting == NULL &&
           latch->renewing == NULL);
    for (at = &room->latches; *at != latch; at = &(*at)->next) {
    }
    *at = latch->next;
    if (room->looker == latch) {
        room->looker = NULL;
    }
    latch->room = NULL;
    self->latch_count--;
    simba_timer_clear(self->base.loop, &latch->deadline);
    simba_timer_clear(self->base.loop, &latch->watching);
    simba__zk_room_tidy(self, room);
    simba__zk_latch_unref(latch);
}

/* Visitors answer operations, and who hears the answer may come with the next
 * operation: so first all are taken hold of, then each is visited. Without
 * memory for that, the deadlines of the operations will do. */
struct crowd {
    struct simba__zk_latch **all;
    int count;
};

static struct crowd crowd_of(const struct simba__zk *self)
{
    size_t most = (size_t)self->latch_count + 1;

    return (struct crowd){calloc(most, sizeof(struct simba__zk_latch *)), 0};
}

static void gather(struct crowd *crowd, const struct simba__zk_room *room)
{
    struct simba__zk_latch *latch = room->latches;

    for (; crowd->all != NULL && latch != NULL; latch = latch->next) {
        latch->references++;
        crowd->all[crowd->count++] = latch;
    }
}

static void visit_all(struct crowd *crowd,
                      void (*visit)(struct simba__zk_latch *latch))
{
    for (int i = 0; i < crowd->count; i++) {
        if (crowd->all[i]->room != NULL) {
            visit(crowd->all[i]);
        }
        simba__zk_latch_unref(crowd->all[i]);
    }
    free(crowd->all);
}

void simba__zk_latches_each(struct simba__zk *self,
                            void (*visit)(struct simba__zk_latch *latch))
{
    struct crowd crowd = crowd_of(self);

    for (int i = 0; i < SIMBA__ZK_BUCKETS; i++) {
        for (struct simba__zk_room *r = self->rooms[i]; r != NULL;
             r = r->next) {
            gather(&crowd, r);
        }
    }
    visit_all(&crowd, visit);
}

void simba__zk_room_each(struct simba__zk *self,
                         const struct simba__zk_room *room,
                         void (*visit)(struct simba__zk_latch *latch))
{
    struct crowd crowd = crowd_of(self);

    gather(&crowd, room);
    visit_all(&crowd, visit);
}
