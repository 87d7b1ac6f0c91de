/* Who of this handle hears wake-ups for which mutex. There may be 100,000. */
#include "runtime/loop.h"

#include "util/container.h"

#include <assert.h>
#include <stdlib.h>

static struct simba__mutex_subscribers *find(const simba_loop *loop,
                                             const char *mutex)
{
    return (struct simba__mutex_subscribers *)simba__hash_find(
        &loop->subscribers, mutex);
}

/* --- who is there -------------------------------------------------------- */

static struct simba__subscriber *subscriber_at(simba_timer *place)
{
    return container_of(place, struct simba__subscriber, place);
}

bool simba__subscriber_add(simba_loop *loop,
                           struct simba__subscriber *subscriber,
                           const char *mutex)
{
    struct simba__mutex_subscribers *of = find(loop, mutex);

    assert(simba__loop_is_inside(loop));
    assert(subscriber->place.fire != NULL);
    if (of == NULL) {
        of = simba__hash_new(&loop->subscribers, sizeof *of, mutex);
        if (of == NULL) {
            return false;
        }
    }
    subscriber->of = of;
    simba__ring_add(&of->others, &subscriber->place);
    return true;
}

void simba__subscriber_remove(simba_loop *loop,
                              struct simba__subscriber *subscriber)
{
    struct simba__mutex_subscribers *of = subscriber->of;

    simba__subscribe(loop, subscriber, SIMBA_SUBSCRIBE_NONE);
    simba__subscriber_move(subscriber, 0);
    simba__ring_remove(&of->others, &subscriber->place);
    if (of->queue == NULL && of->others == NULL) {
        simba__hash_remove(&loop->subscribers, &of->link);
        free(of);
    }
}

void simba__subscriber_move(struct simba__subscriber *subscriber,
                            uint64_t position)
{
    struct simba__mutex_subscribers *of = subscriber->of;
    simba_timer *place = &subscriber->place;
    int64_t at = position > INT64_MAX / 2 ? INT64_MAX / 2 : (int64_t)position;

    if (place->is_set ? place->at_ms == at : at == 0) {
        return;
    }
    if (place->is_set) {
        simba__heap_remove(&of->queue, place);
    } else {
        simba__ring_remove(&of->others, place);
    }
    simba__timer_at(place, at);
    if (at != 0) {
        simba__heap_add(&of->queue, place);
    } else {
        simba__ring_add(&of->others, place);
    }
}

/* The most that anybody here wants to hear about a mutex. */
static enum simba_subscription most_wanted(
    const struct simba__mutex_subscribers *of)
{
    enum simba_subscription most = SIMBA_SUBSCRIBE_OBSERVE;

    while (most > SIMBA_SUBSCRIBE_NONE && of->wants[most - 1] == 0) {
        most--;
    }
    return most;
}

void simba__subscribe(simba_loop *loop,
                      struct simba__subscriber *subscriber,
                      enum simba_subscription subscription)
{
    struct simba__mutex_subscribers *of = subscriber->of;
    enum simba_subscription before = most_wanted(of), after;

    assert(simba__loop_is_inside(loop));
    if (subscriber->subscription != SIMBA_SUBSCRIBE_NONE) {
        of->wants[subscriber->subscription - 1]--;
    }
    if (subscription != SIMBA_SUBSCRIBE_NONE) {
        of->wants[subscription - 1]++;
    }
    subscriber->subscription = subscription;
    after = most_wanted(of);
    if (before != after && loop->on_subscription != NULL) {
        loop->on_subscription(loop->on_subscription_self, of->link.key, after);
    }
}

/* --- waking -------------------------------------------------------------- */

/* All who have no position, each once, also when what is done with one moves
 * others to the queue or from there, or begins a round itself. NULL: no more.
 */
static struct simba__subscriber *next_of(struct simba__mutex_subscribers *of,
                                         uint32_t round)
{
    struct simba__subscriber *one =
        of->others == NULL ? NULL : subscriber_at(of->others);

    if (one == NULL || one->round == round) {
        return NULL;
    }
    one->round = round;
    of->others = of->others->sibling;
    return one;
}

static void wake_others(struct simba__mutex_subscribers *of, uint32_t round)
{
    struct simba__subscriber *one;

    while ((one = next_of(of, round)) != NULL) {
        one->place.fire(&one->place);
    }
}

/* Whoever waits and was not woken in this round comes to the front of the
 * others, in the order of the queue: awake, it finds its place again. False:
 * there is nobody. */
static bool call_queue(struct simba__mutex_subscribers *of, uint32_t round)
{
    simba_timer *place = of->queue, *woken = NULL, *first = NULL;

    while (place != NULL && subscriber_at(place)->round == round) {
        place = simba__heap_next(place);
    }
    if (place == NULL) {
        return false;
    }
    while ((place = of->queue) != NULL) {
        simba__heap_remove(&of->queue, place);
        if (subscriber_at(place)->round == round) {
            simba__heap_add(&woken, place);
        } else {
            simba__ring_add(&of->others, place);
            first = first == NULL ? place : first;
        }
    }
    of->queue = woken;
    of->others = first;
    return true;
}

static void wake_all(struct simba__mutex_subscribers *of, uint32_t round)
{
    do {
        wake_others(of, round);
    } while (call_queue(of, round));
}

/* Of those who wait, the one or two with the lowest positions are woken; and
 * all who have none. */
static void wake_mutex(simba_loop *loop, const char *mutex, int most)
{
    struct simba__mutex_subscribers *of = find(loop, mutex);
    simba_timer *first, *second;

    if (of == NULL) {
        return;
    }
    first = of->queue;
    if (first != NULL) {
        simba__heap_remove(&of->queue, first);
        second = of->queue;
        simba__heap_add(&of->queue, first);
        first->fire(first);
        if (most > 1 && second != NULL && second->is_set) {
            second->fire(second);
        }
    }
    wake_others(of, ++loop->wake_round);
}

/* --- filters ------------------------------------------------------------- */

/* To this filter, or from the last of them to the subscribers; NULL: to all. */
static void pass_on(simba_loop *loop,
                    struct simba__wake_filter *filter,
                    const char *mutex)
{
    struct simba__hash_link *link, *next;
    uint32_t round;

    assert(simba__loop_is_inside(loop));
    if (filter != NULL) {
        filter->wake(filter, mutex);
        return;
    }
    if (mutex != NULL) {
        wake_mutex(loop, mutex, 2);
        return;
    }
    link = simba__hash_next(&loop->subscribers, NULL);
    round = ++loop->wake_round;
    for (; link != NULL; link = next) {
        next = simba__hash_next(&loop->subscribers, link);
        wake_all((struct simba__mutex_subscribers *)link, round);
    }
}

void simba_wake(simba_loop *loop, const char *mutex)
{
    pass_on(loop, loop->filters, mutex);
}

/* Who meddles with wake-ups gets all of them. */
void simba_wake_waiter(simba_loop *loop, const char *mutex, uint64_t position)
{
    const struct simba__mutex_subscribers *of = find(loop, mutex);
    simba_timer *first = of == NULL ? NULL : of->queue;

    assert(simba__loop_is_inside(loop));
    if (loop->filters == NULL && first != NULL && position <= INT64_MAX / 2 &&
        first->at_ms == (int64_t)position) {
        first->fire(first);
    } else {
        simba_wake(loop, mutex);
    }
}

void simba_wake_first(simba_loop *loop, const char *mutex)
{
    assert(simba__loop_is_inside(loop));
    if (loop->filters == NULL) {
        wake_mutex(loop, mutex, 1);
    } else {
        simba_wake(loop, mutex);
    }
}

void simba__wake_pass(simba_loop *loop,
                      const struct simba__wake_filter *filter,
                      const char *mutex)
{
    pass_on(loop, filter->next, mutex);
}

void simba_observed(simba_loop *loop,
                    const char *mutex,
                    const simba_owner *owner,
                    uint64_t ended)
{
    struct simba__mutex_subscribers *of = find(loop, mutex);
    uint32_t round = ++loop->wake_round;
    struct simba__subscriber *one;

    if (loop->filters != NULL) { /* who meddles with wake-ups gets a wake-up */
        pass_on(loop, loop->filters, mutex);
        return;
    }
    while (of != NULL && (one = next_of(of, round)) != NULL) {
        if (one->subscription == SIMBA_SUBSCRIBE_OBSERVE) {
            struct simba__observer *observer = (struct simba__observer *)one;

            observer->observed(observer, owner, ended);
        }
    }
}

void simba__wake_filter_add(simba_loop *loop, struct simba__wake_filter *filter)
{
    struct simba__wake_filter **f = &loop->filters;

    assert(simba__loop_is_inside(loop) && filter->wake != NULL);
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
        assert(*f != NULL); /* it was added */
        f = &(*f)->next;
    }
    *f = filter->next;
}
