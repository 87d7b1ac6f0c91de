/* The mutexes this process has latches in or observes, and their latches. */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include "core/mutex_model.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- mutexes ------------------------------------------------------------- */

struct simba__zk_mutex *simba__zk_mutex_at(const struct simba__zk *self,
                                           const char *path,
                                           size_t length)
{
    return (struct simba__zk_mutex *)simba__hash_find_bytes(&self->mutexes,
                                                            path, length);
}

struct simba__zk_mutex *simba__zk_mutex_next(
    const struct simba__zk *self,
    const struct simba__zk_mutex *mutex)
{
    return (struct simba__zk_mutex *)simba__hash_next(
        &self->mutexes, mutex == NULL ? NULL : &mutex->by_path);
}

struct simba__zk_mutex *simba__zk_mutex_get(struct simba__zk *self,
                                            const char *name,
                                            bool is_wanted)
{
    size_t size = strlen(name) + 1;
    char escaped[SIMBA__ZK_ESCAPED_SIZE];
    struct simba__zk_mutex *mutex;
    char *path;

    simba__zk_escape(name, escaped);
    path = simba__zk_join(self->settings.base, escaped);
    if (path == NULL) {
        return NULL;
    }
    mutex = simba__zk_mutex_at(self, path, strlen(path));
    if (mutex == NULL && is_wanted) {
        mutex = calloc(1, sizeof *mutex + size);
        if (mutex != NULL &&
            simba__hash_add(&self->mutexes, &mutex->by_path, path)) {
            memcpy(mutex->name, name, size);
            mutex->path = path;
            return mutex;
        }
        free(mutex);
        mutex = NULL;
    }
    free(path);
    return mutex;
}

void simba__zk_mutex_tidy(struct simba__zk *self, struct simba__zk_mutex *mutex)
{
    if (mutex->latches == NULL && !mutex->is_observed && mutex->holds == 0) {
        simba__hash_remove(&self->mutexes, &mutex->by_path);
        free(mutex->path);
        free(mutex);
    }
}

/* --- latches ------------------------------------------------------------- */

static struct simba__zk_latch *find_latch(const struct simba__zk_mutex *mutex,
                                          simba_attempt attempt)
{
    struct simba__zk_latch *latch = mutex == NULL ? NULL : mutex->latches;

    while (latch != NULL && !simba__attempt_equal(latch->attempt, attempt)) {
        latch = latch->next;
    }
    return latch;
}

struct simba__zk_latch *simba__zk_latch_find(struct simba__zk *self,
                                             const simba_request *request)
{
    return find_latch(simba__zk_mutex_get(self, request->mutex, false),
                      request->attempt);
}

struct simba__zk_latch *simba__zk_latch_get(struct simba__zk *self,
                                            const simba_request *request)
{
    struct simba__zk_mutex *mutex =
        simba__zk_mutex_get(self, request->mutex, true);
    struct simba__zk_latch *latch = find_latch(mutex, request->attempt);
    struct simba__zk_latch **last;

    if (mutex == NULL || latch != NULL) {
        return latch;
    }
    latch = calloc(1, sizeof *latch);
    if (latch == NULL) {
        simba__zk_mutex_tidy(self, mutex);
        return NULL;
    }
    latch->self = self;
    latch->mutex = mutex;
    latch->references = 1;
    latch->attempt = request->attempt;
    snprintf(latch->id, sizeof latch->id, "%s", request->id);
    simba__zk_prefix(request->attempt, latch->prefix);
    for (last = &mutex->latches; *last != NULL; last = &(*last)->next) {
    }
    *last = latch;
    self->latch_count++;
    return latch;
}

void simba__zk_latch_unref(struct simba__zk_latch *latch)
{
    assert(latch->references > 0);
    if (--latch->references > 0) {
        return;
    }
    assert(latch->mutex == NULL);
    free(latch->before);
    free(latch->lowest);
    free(latch);
}

void simba__zk_latch_forget(struct simba__zk_latch *latch)
{
    struct simba__zk *self = latch->self;
    struct simba__zk_mutex *mutex = latch->mutex;
    struct simba__zk_latch **at;

    if (mutex == NULL) {
        return;
    }
    assert(latch->acquire == NULL && latch->release == NULL &&
           latch->renewal == NULL);
    for (at = &mutex->latches; *at != latch; at = &(*at)->next) {
    }
    *at = latch->next;
    if (mutex->looker == latch) {
        mutex->looker = NULL;
    }
    latch->mutex = NULL;
    self->latch_count--;
    simba_timer_clear(self->base.loop, &latch->deadline);
    simba_timer_clear(self->base.loop, &latch->watching);
    simba__zk_mutex_tidy(self, mutex);
    simba__zk_latch_unref(latch);
}

/* The function may answer requests, and who hears the reply may come with the
 * next request: so first all latches are taken hold of, then it is called for
 * each. Without memory for that, the deadlines of the requests will do. */
void simba__zk_latches_each(struct simba__zk *self,
                            const struct simba__zk_mutex *mutex,
                            void (*each)(struct simba__zk_latch *latch))
{
    struct simba__zk_latch **all =
        calloc((size_t)self->latch_count + 1, sizeof(struct simba__zk_latch *));
    const struct simba__zk_mutex *from =
        mutex == NULL ? simba__zk_mutex_next(self, NULL) : mutex;
    int count = 0;

    while (all != NULL && from != NULL) {
        for (struct simba__zk_latch *l = from->latches; l != NULL;
             l = l->next) {
            l->references++;
            assert(count < self->latch_count);
            all[count++] = l;
        }
        from = mutex != NULL ? NULL : simba__zk_mutex_next(self, from);
    }
    for (int i = 0; i < count; i++) {
        if (all[i]->mutex != NULL) {
            each(all[i]);
        }
        simba__zk_latch_unref(all[i]);
    }
    free(all);
}
