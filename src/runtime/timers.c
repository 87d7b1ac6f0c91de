/* A binary heap of timers and a hash of listeners: what the loop keeps for the
 * contenders it serves. Small and intrusive, because there may be 100,000. */
#include "runtime/loop.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* --- timers -------------------------------------------------------------- */

bool simba__timer_reserve(simba_loop *loop, size_t count)
{
    size_t room = loop->heap_room == 0 ? 16 : loop->heap_room;
    struct simba__timer **heap;

    if (count <= loop->heap_room) {
        return true;
    }
    while (room < count) {
        room *= 2;
    }
    heap = realloc(loop->heap, room * sizeof(struct simba__timer *));
    if (heap == NULL) {
        return false;
    }
    loop->heap = heap;
    loop->heap_room = room;
    return true;
}

static void put(simba_loop *loop, size_t index, struct simba__timer *timer)
{
    loop->heap[index - 1] = timer;
    timer->index = index;
}

static int64_t time_at(const simba_loop *loop, size_t index)
{
    return loop->heap[index - 1]->at_ms;
}

static void sift_up(simba_loop *loop, size_t i, struct simba__timer *timer)
{
    while (i > 1 && time_at(loop, i / 2) > timer->at_ms) {
        put(loop, i, loop->heap[i / 2 - 1]);
        i /= 2;
    }
    put(loop, i, timer);
}

static void sift_down(simba_loop *loop, size_t i, struct simba__timer *timer)
{
    for (;;) {
        size_t child = 2 * i;
        if (child < loop->heap_count &&
            time_at(loop, child + 1) < time_at(loop, child)) {
            child++;
        }
        if (child > loop->heap_count || time_at(loop, child) >= timer->at_ms) {
            break;
        }
        put(loop, i, loop->heap[child - 1]);
        i = child;
    }
    put(loop, i, timer);
}

void simba__timer_clear(simba_loop *loop, struct simba__timer *timer)
{
    size_t i = timer->index;
    struct simba__timer *moved;

    if (i == 0) {
        return;
    }
    timer->index = 0;
    moved = loop->heap[--loop->heap_count];
    if (moved != timer) {
        if (i > 1 && time_at(loop, i / 2) > moved->at_ms) {
            sift_up(loop, i, moved);
        } else {
            sift_down(loop, i, moved);
        }
    }
}

void simba__timer_set(simba_loop *loop,
                      struct simba__timer *timer,
                      int64_t at_ms)
{
    if (timer->index != 0 && timer->at_ms == at_ms) {
        return;
    }
    simba__timer_clear(loop, timer);
    if (at_ms == INT64_MAX) {
        return;
    }
    assert(loop->heap_count < loop->heap_room);
    timer->at_ms = at_ms;
    sift_up(loop, ++loop->heap_count, timer);
}

int64_t simba__timers_next(const simba_loop *loop)
{
    return loop->heap_count == 0 ? INT64_MAX : time_at(loop, 1);
}

void simba__timers_fire(simba_loop *loop, int64_t now_ms)
{
    while (simba__timers_next(loop) <= now_ms) {
        struct simba__timer *timer = loop->heap[0];
        simba__timer_clear(loop, timer);
        timer->fire(timer);
    }
}

/* --- listeners ----------------------------------------------------------- */

static size_t bucket_of(const simba_loop *loop, const char *mutex)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */

    for (; *mutex != '\0'; mutex++) {
        hash = (hash ^ (unsigned char)*mutex) * UINT64_C(1099511628211);
    }
    return (size_t)(hash & (loop->bucket_count - 1));
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
    size_t after = before == 0 ? SIMBA__LISTENER_BUCKETS_LEAST : before * 2;
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

void simba__listener_remove(simba_loop *loop, struct simba__listener *listener)
{
    struct simba__listener **l =
        &loop->buckets[bucket_of(loop, listener->mutex)];

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

void simba_hint(simba_loop *loop, const char *mutex)
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
