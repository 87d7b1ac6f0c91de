/* Who of this handle listens for which mutex: a hash, small and intrusive,
 * because there may be 100,000. */
#include "runtime/loop.h"
#include "util/text.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS_LEAST = 16 };

static size_t bucket_of(const simba_loop *loop, const char *mutex)
{
    return (size_t)(simba__text_hash(mutex) & (loop->bucket_count - 1));
}

static void link_subscriber(simba_loop *loop,
                            struct simba__subscriber *subscriber)
{
    size_t bucket = bucket_of(loop, subscriber->mutex);

    subscriber->next = loop->buckets[bucket];
    loop->buckets[bucket] = subscriber;
}

static bool grow_buckets(simba_loop *loop)
{
    size_t before = loop->bucket_count;
    size_t after = before == 0 ? BUCKETS_LEAST : before * 2;
    struct simba__subscriber **old = loop->buckets;
    struct simba__subscriber **buckets =
        calloc(after, sizeof(struct simba__subscriber *));

    if (buckets == NULL) {
        return before != 0; /* slower, but it works */
    }
    loop->buckets = buckets;
    loop->bucket_count = after;
    for (size_t i = 0; i < before; i++) {
        for (struct simba__subscriber *l = old[i], *next; l != NULL; l = next) {
            next = l->next;
            link_subscriber(loop, l);
        }
    }
    free(old);
    return true;
}

bool simba__subscriber_add(simba_loop *loop,
                           struct simba__subscriber *subscriber)
{
    if (loop->subscriber_count >= loop->bucket_count && !grow_buckets(loop)) {
        return false;
    }
    link_subscriber(loop, subscriber);
    loop->subscriber_count++;
    return true;
}

/* The most that anybody here wants to hear about a mutex. */
static enum simba_subscription subscription_in(const simba_loop *loop,
                                               const char *mutex)
{
    const struct simba__subscriber *l = loop->buckets[bucket_of(loop, mutex)];
    enum simba_subscription most = SIMBA_SUBSCRIBE_NONE;

    for (; l != NULL; l = l->next) {
        if (l->subscription > most && strcmp(l->mutex, mutex) == 0) {
            most = l->subscription;
        }
    }
    return most;
}

void simba__subscriber_interest(simba_loop *loop,
                                struct simba__subscriber *subscriber,
                                enum simba_subscription subscription)
{
    enum simba_subscription before, after;

    if (subscriber->subscription == subscription) {
        return;
    }
    before = subscription_in(loop, subscriber->mutex);
    subscriber->subscription = subscription;
    after = subscription_in(loop, subscriber->mutex);
    if (before != after && loop->on_subscription != NULL) {
        loop->on_subscription(loop->on_subscription_self, subscriber->mutex,
                              after);
    }
}

void simba__subscriber_remove(simba_loop *loop,
                              struct simba__subscriber *subscriber)
{
    struct simba__subscriber **l =
        &loop->buckets[bucket_of(loop, subscriber->mutex)];

    simba__subscriber_interest(loop, subscriber, SIMBA_SUBSCRIBE_NONE);
    while (*l != subscriber) {
        l = &(*l)->next;
    }
    *l = subscriber->next;
    loop->subscriber_count--;
}

/* The second lowest place of those who wait for this mutex, so that those up to
 * it are told; UINT64_MAX when there is none. */
static uint64_t second_place(const struct simba__subscriber *l,
                             const char *mutex)
{
    uint64_t first = UINT64_MAX, second = UINT64_MAX;

    for (; l != NULL; l = l->next) {
        uint64_t position = strcmp(l->mutex, mutex) == 0 ? l->position(l) : 0;
        if (position == 0 || position >= second) {
            continue;
        }
        if (position < first) {
            second = first;
            first = position;
        } else {
            second = position;
        }
    }
    return second;
}

static void wake_mutex(struct simba__subscriber *bucket, const char *mutex)
{
    uint64_t last = second_place(bucket, mutex);
    struct simba__subscriber *next;

    for (struct simba__subscriber *l = bucket; l != NULL; l = next) {
        next = l->next;
        if (strcmp(l->mutex, mutex) == 0 && l->position(l) <= last) {
            l->wake(l);
        }
    }
}

static void wake_all(struct simba__subscriber *bucket)
{
    struct simba__subscriber *next;

    for (; bucket != NULL; bucket = next) {
        next = bucket->next;
        bucket->wake(bucket);
    }
}

static void wake_listeners(simba_loop *loop, const char *mutex)
{
    if (loop->bucket_count == 0) {
        return;
    }
    if (mutex != NULL) {
        wake_mutex(loop->buckets[bucket_of(loop, mutex)], mutex);
        return;
    }
    for (size_t i = 0; i < loop->bucket_count; i++) {
        wake_all(loop->buckets[i]);
    }
}

/* --- filters ------------------------------------------------------------- */

void simba_wake(simba_loop *loop, const char *mutex)
{
    if (loop->filters != NULL) {
        loop->filters->wake(loop->filters, mutex);
    } else {
        wake_listeners(loop, mutex);
    }
}

void simba_observed(simba_loop *loop,
                    const char *mutex,
                    const simba_owner *owner,
                    uint64_t ended)
{
    struct simba__subscriber *l, *next;

    if (loop->filters != NULL) { /* who meddles with wake-ups gets a wake-up */
        loop->filters->wake(loop->filters, mutex);
        return;
    }
    if (loop->bucket_count == 0) {
        return;
    }
    for (l = loop->buckets[bucket_of(loop, mutex)]; l != NULL; l = next) {
        next = l->next;
        if (l->observed != NULL && l->subscription == SIMBA_SUBSCRIBE_OBSERVE &&
            strcmp(l->mutex, mutex) == 0) {
            l->observed(l, owner, ended);
        }
    }
}

void simba__wake_pass(simba_loop *loop,
                      const struct simba__wake_filter *filter,
                      const char *mutex)
{
    if (filter->next != NULL) {
        filter->next->wake(filter->next, mutex);
    } else {
        wake_listeners(loop, mutex);
    }
}

void simba__wake_filter_add(simba_loop *loop, struct simba__wake_filter *filter)
{
    struct simba__wake_filter **f = &loop->filters;

    while (*f != NULL) {
        f = &(*f)->next;
    }
    filter->next = NULL;
    *f = filter;
}

void simba__wake_filter_remove(simba_loop *loop,
                               struct simba__wake_filter *filter)
{
    struct simba__wake_filter **f = &loop->filters;

    while (*f != filter) {
        f = &(*f)->next;
    }
    *f = filter->next;
}
