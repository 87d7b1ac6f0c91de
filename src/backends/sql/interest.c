/* Which mutexes somebody of this process waits for or watches: a set, hashed,
 * for there may be many. Who waits hangs at his mutex (waiters.c). */
#include "backends/sql/engine.h"

#include "util/text.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS_LEAST = 16 };

static struct simba__sql_wish **bucket_of(const struct simba__sql_wishes *all,
                                          const char *mutex)
{
    return &all->buckets[simba__text_hash(mutex) & (all->bucket_count - 1)];
}

static struct simba__sql_wish **find(const struct simba__sql_wishes *all,
                                     const char *mutex)
{
    struct simba__sql_wish **at = bucket_of(all, mutex);

    while (*at != NULL && strcmp((*at)->mutex, mutex) != 0) {
        at = &(*at)->next;
    }
    return at;
}

static bool grow(struct simba__sql_wishes *all)
{
    struct simba__sql_wishes old = *all;
    size_t wanted =
        old.bucket_count == 0 ? BUCKETS_LEAST : 2 * all->bucket_count;
    struct simba__sql_wish **buckets =
        calloc(wanted, sizeof(struct simba__sql_wish *));

    if (buckets == NULL) {
        return old.bucket_count != 0; /* slower, but it works */
    }
    all->buckets = buckets;
    all->bucket_count = wanted;
    for (size_t i = 0; i < old.bucket_count; i++) {
        for (struct simba__sql_wish *w = old.buckets[i], *next; w != NULL;
             w = next) {
            struct simba__sql_wish **at = bucket_of(all, w->mutex);

            next = w->next;
            w->next = *at;
            *at = w;
        }
    }
    free(old.buckets);
    return true;
}

struct simba__sql_wish *simba__sql_wish_find(
    const struct simba__sql_wishes *all,
    const char *mutex)
{
    return all->count == 0 ? NULL : *find(all, mutex);
}

struct simba__sql_wish *simba__sql_wish_add(struct simba__sql_wishes *all,
                                            const char *mutex)
{
    size_t room = strlen(mutex) + 1;
    struct simba__sql_wish *wish = simba__sql_wish_find(all, mutex);
    struct simba__sql_wish **at;

    if (wish != NULL || (all->count >= all->bucket_count && !grow(all)) ||
        (wish = calloc(1, sizeof *wish + room)) == NULL) {
        return wish;
    }
    memcpy(wish->mutex, mutex, room);
    at = bucket_of(all, mutex);
    wish->next = *at;
    *at = wish;
    all->count++;
    return wish;
}

void simba__sql_wish_drop(struct simba__sql_wishes *all,
                          struct simba__sql_wish *wish)
{
    struct simba__sql_wish **at;

    if (wish->subscription == SIMBA_SUBSCRIBE_NONE && wish->waiters == NULL) {
        at = find(all, wish->mutex);
        *at = wish->next;
        free(wish);
        all->count--;
    }
}

void simba__sql_wish_each(const struct simba__sql *self,
                          void (*visit)(void *context,
                                        struct simba__sql_wish *wish),
                          void *context)
{
    const struct simba__sql_wishes *all = &self->wishes;

    for (size_t i = 0; i < all->bucket_count; i++) {
        for (struct simba__sql_wish *w = all->buckets[i], *next; w != NULL;
             w = next) {
            next = w->next;
            visit(context, w);
        }
    }
}

void simba__sql_subscription(simba_backend *backend,
                             const char *mutex,
                             enum simba_subscription subscription)
{
    struct simba__sql *self = (struct simba__sql *)backend;
    struct simba__sql_wish *wish =
        subscription == SIMBA_SUBSCRIBE_NONE
            ? simba__sql_wish_find(&self->wishes, mutex)
            : simba__sql_wish_add(&self->wishes, mutex);

    if (wish != NULL) {
        wish->subscription = subscription;
        simba__sql_wish_drop(&self->wishes, wish);
    }
    simba__sql_beat_plan(self);
}

const char *simba__sql_only_wish(const struct simba__sql *self)
{
    const struct simba__sql_wishes *all = &self->wishes;

    if (all->count != 1) {
        return NULL;
    }
    for (size_t i = 0; i < all->bucket_count; i++) {
        if (all->buckets[i] != NULL) {
            return all->buckets[i]->mutex;
        }
    }
    return NULL;
}

static void free_wish(void *context, struct simba__sql_wish *wish)
{
    (void)context;
    while (wish->waiters != NULL) {
        struct simba__sql_waiter *next = wish->waiters->next;

        free(wish->waiters);
        wish->waiters = next;
    }
    free(wish);
}

void simba__sql_wishes_fini(struct simba__sql *self)
{
    simba__sql_wish_each(self, free_wish, NULL);
    free(self->wishes.buckets);
}
