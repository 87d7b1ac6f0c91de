/* Timers: a pairing heap whose nodes live in their users' memory, so that
 * setting one cannot fail, and 100,000 of them cost nothing here. */
#include "runtime/loop.h"

/* The earlier of two heaps, with the other below it. */
static simba_timer *meld(simba_timer *a, simba_timer *b)
{
    if (a == NULL || b == NULL) {
        return a != NULL ? a : b;
    }
    if (b->at_ms < a->at_ms) {
        simba_timer *earlier = b;
        b = a;
        a = earlier;
    }
    b->before = a;
    b->sibling = a->child;
    if (a->child != NULL) {
        a->child->before = b;
    }
    a->child = b;
    return a;
}

/* Siblings become one heap: melded in pairs from the left, then the pairs from
 * the right. Without recursion: there may be very many. */
static simba_timer *meld_siblings(simba_timer *first)
{
    simba_timer *pairs = NULL, *heap = NULL, *next;

    while (first != NULL) {
        simba_timer *second = first->sibling;

        next = second == NULL ? NULL : second->sibling;
        first->sibling = NULL;
        if (second != NULL) {
            second->sibling = NULL;
        }
        first = meld(first, second);
        first->sibling = pairs;
        pairs = first;
        first = next;
    }
    for (; pairs != NULL; pairs = next) {
        next = pairs->sibling;
        pairs->sibling = NULL;
        heap = meld(heap, pairs);
    }
    return heap;
}

static void unlink_timer(simba_timer *timer)
{
    if (timer->before->child == timer) {
        timer->before->child = timer->sibling;
    } else {
        timer->before->sibling = timer->sibling;
    }
    if (timer->sibling != NULL) {
        timer->sibling->before = timer->before;
    }
}

void simba_timer_clear(simba_loop *loop, simba_timer *timer)
{
    simba_timer *below;

    if (!timer->is_set) {
        return;
    }
    below = meld_siblings(timer->child);
    if (loop->timers == timer) {
        loop->timers = below;
    } else {
        unlink_timer(timer);
        loop->timers = meld(loop->timers, below);
    }
    timer->child = timer->sibling = timer->before = NULL;
    timer->is_set = false;
}

void simba_timer_set(simba_loop *loop, simba_timer *timer, int64_t at_ms)
{
    if (timer->is_set && timer->at_ms == at_ms) {
        return;
    }
    simba_timer_clear(loop, timer);
    if (at_ms == INT64_MAX) {
        return;
    }
    timer->at_ms = at_ms;
    timer->is_set = true;
    loop->timers = meld(loop->timers, timer);
}

int64_t simba__timers_next(const simba_loop *loop)
{
    return loop->timers == NULL ? INT64_MAX : loop->timers->at_ms;
}

void simba__timers_fire(simba_loop *loop, int64_t now_ms)
{
    while (simba__timers_next(loop) <= now_ms) {
        simba_timer *timer = loop->timers;

        simba_timer_clear(loop, timer);
        timer->fire(timer);
    }
}
