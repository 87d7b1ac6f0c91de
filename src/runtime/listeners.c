/* Who of this handle listens for which mutex: a hash, small and intrusive,
 * because there may be 100,000. */
#include "core/text.h"
#include "runtime/loop.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS_LEAST = 16 };

static size_t bucket_of(const simba_loop *loop, const char *mutex)
{
    return (size_t)(simba__text_hash(mutex) & (loop->bucket_count - 1));
}

static void link_listener(simba_loop *loop, struct simba__listener *listener)
{
    size_t bucket = bucket_of(loop, listener->mutex);

    listener->next = loop->buckets[bucket];
    loop->buckets[bucket] = listener;
}

static bool grow_buckets(simba_loop *loop)
{
    size_t before = loop->bucket_count;
    size_t after = before == 0 ? BUCKETS_LEAST : before * 2;
    struct simba__listener **old = loop->buckets;
    struct simba__listener **buckets =
        calloc(after, sizeof(struct simba__listener *));

    if (buckets == NULL) {
        return before != 0; /* slower, but it works */
    }
    loop->buckets = buckets;
    loop->bucket_count = after;
    for (size_t i = 0; i < before; i++) {
        for (struct simba__listener *l = old[i], *next; l != NULL; l = next) {
            next = l->next;
            link_listener(loop, l);
        }
    }
    free(old);
    return true;
}

bool simba__listener_add(simba_loop *loop, struct simba__listener *listener)
{
    if (loop->listener_count >= loop->bucket_count && !grow_buckets(loop)) {
        return false;
    }
    link_listener(loop, listener);
    loop->listener_count++;
    return true;
}

/* The most that anybody here wants to hear about a mutex. */
static enum simba_interest interest_in(const simba_loop *loop,
                                       const char *mutex)
{
    const struct simba__listener *l = loop->buckets[bucket_of(loop, mutex)];
    enum simba_interest most = SIMBA_INTEREST_NONE;

    for (; l != NULL; l = l->next) {
        if (l->interest > most && strcmp(l->mutex, mutex) == 0) {
            most = l->interest;
        }
    }
    return most;
}

void simba__listener_interest(simba_loop *loop,
                              struct simba__listener *listener,
                              enum simba_interest interest)
{
    enum simba_interest before, after;

    if (listener->interest == interest) {
        return;
    }
    before = interest_in(loop, listener->mutex);
    listener->interest = interest;
    after = interest_in(loop, listener->mutex);
    if (before != after && loop->on_interest != NULL) {
        loop->on_interest(loop->on_interest_self, listener->mutex, after);
    }
}

void simba__listener_remove(simba_loop *loop, struct simba__listener *listener)
{
    struct simba__listener **l =
        &loop->buckets[bucket_of(loop, listener->mutex)];

    simba__listener_interest(loop, listener, SIMBA_INTEREST_NONE);
    while (*l != listener) {
        l = &(*l)->next;
    }
    *l = listener->next;
    loop->listener_count--;
}

/* The second lowest place of those who wait for this mutex, so that those up to
 * it are told; UINT64_MAX when there is none. */
static uint64_t second_place(const struct simba__listener *l, const char *mutex)
{
    uint64_t first = UINT64_MAX, second = UINT64_MAX;

    for (; l != NULL; l = l->next) {
        uint64_t place = strcmp(l->mutex, mutex) == 0 ? l->place(l) : 0;
        if (place == 0 || place >= second) {
            continue;
        }
        if (place < first) {
            second = first;
            first = place;
        } else {
            second = place;
        }
    }
    return second;
}

static void hint_mutex(struct simba__listener *bucket, const char *mutex)
{
    uint64_t last = second_place(bucket, mutex);
    struct simba__listener *next;

    for (struct simba__listener *l = bucket; l != NULL; l = next) {
        next = l->next;
        if (strcmp(l->mutex, mutex) == 0 && l->place(l) <= last) {
            l->hint(l);
        }
    }
}

static void hint_all(struct simba__listener *bucket)
{
    struct simba__listener *next;

    for (; bucket != NULL; bucket = next) {
        next = bucket->next;
        bucket->hint(bucket);
    }
}

static void hint_listeners(simba_loop *loop, const char *mutex)
{
    if (loop->bucket_count == 0) {
        return;
    }
    if (mutex != NULL) {
        hint_mutex(loop->buckets[bucket_of(loop, mutex)], mutex);
        return;
    }
    for (size_t i = 0; i < loop->bucket_count; i++) {
        hint_all(loop->buckets[i]);
    }
}

/* --- filters ------------------------------------------------------------- */

void simba_hint(simba_loop *loop, const char *mutex)
{
    if (loop->filters != NULL) {
        loop->filters->hint(loop->filters, mutex);
    } else {
        hint_listeners(loop, mutex);
    }
}

void simba_observed(simba_loop *loop,
                    const char *mutex,
                    const simba_owner *owner,
                    uint64_t ended)
{
    struct simba__listener *l, *next;

    if (loop->filters != NULL) { /* who meddles with hints gets a hint */
        loop->filters->hint(loop->filters, mutex);
        return;
    }
    if (loop->bucket_count == 0) {
        return;
    }
    for (l = loop->buckets[bucket_of(loop, mutex)]; l != NULL; l = next) {
        next = l->next;
        if (l->observed != NULL && l->interest == SIMBA_INTEREST_OBSERVE &&
            strcmp(l->mutex, mutex) == 0) {
            l->observed(l, owner, ended);
        }
    }
}

void simba__hint_pass(simba_loop *loop,
                      const struct simba__hint_filter *filter,
                      const char *mutex)
{
    if (filter->next != NULL) {
        filter->next->hint(filter->next, mutex);
    } else {
        hint_listeners(loop, mutex);
    }
}

void simba__hint_filter_add(simba_loop *loop, struct simba__hint_filter *filter)
{
    struct simba__hint_filter **f = &loop->filters;

    while (*f != NULL) {
        f = &(*f)->next;
    }
    filter->next = NULL;
    *f = filter;
}

void simba__hint_filter_remove(simba_loop *loop,
                               struct simba__hint_filter *filter)
{
    struct simba__hint_filter **f = &loop->filters;

    while (*f != filter) {
        f = &(*f)->next;
    }
    *f = filter->next;
}
