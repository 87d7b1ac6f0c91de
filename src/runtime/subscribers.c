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

static void put(struct simba__subscriber_list *list,
                struct simba__subscriber *one)
{
    one->next = NULL;
    one->link = list->last;
    *list->last = one;
    list->last = &one->next;
}

static void take_out(struct simba__subscriber_list *list,
                     struct simba__subscriber *one)
{
    *one->link = one->next;
    *(one->next == NULL ? &list->last : &one->next->link) = one->link;
}

static struct simba__subscriber_list *list_of(
    const struct simba__subscriber *one)
{
    return one->queued.is_set ? &one->of->waiting : &one->of->others;
}

bool simba__subscriber_add(simba_loop *loop,
                           struct simba__subscriber *subscriber,
                           const char *mutex)
{
    struct simba__mutex_subscribers *of = find(loop, mutex);

    assert(simba__loop_is_inside(loop));
    assert(subscriber->wake != NULL);
    if (of == NULL) {
        of = simba__hash_new(&loop->subscribers, sizeof *of, mutex);
        if (of == NULL) {
            return false;
        }
        of->waiting.last = &of->waiting.first;
        of->others.last = &of->others.first;
    }
    subscriber->of = of;
    put(&of->others, subscriber);
    of->wants[SIMBA_SUBSCRIBE_NONE]++;
    return true;
}

void simba__subscriber_remove(simba_loop *loop,
                              struct simba__subscriber *subscriber)
{
    struct simba__mutex_subscribers *of = subscriber->of;

    simba__subscribe(loop, subscriber, SIMBA_SUBSCRIBE_NONE);
    simba__subscriber_move(subscriber, 0);
    take_out(&of->others, subscriber);
    of->wants[SIMBA_SUBSCRIBE_NONE]--;
    if (of->waiting.first == NULL && of->others.first == NULL) {
        simba__hash_remove(&loop->subscribers, &of->link);
        free(of);
    }
}

void simba__subscriber_move(struct simba__subscriber *subscriber,
                            uint64_t position)
{
    struct simba__mutex_subscribers *of = subscriber->of;
    simba_timer *queued = &subscriber->queued;
    int64_t at = position > INT64_MAX ? INT64_MAX : (int64_t)position;

    if (queued->is_set ? queued->at_ms == at : at == 0) {
        return;
    }
    take_out(list_of(subscriber), subscriber);
    simba__heap_remove(&of->queue, queued);
    queued->at_ms = at;
    if (at != 0) {
        simba__heap_add(&of->queue, queued);
    }
    put(list_of(subscriber), subscriber);
}

/* The most that anybody here wants to hear about a mutex. */
static enum simba_subscription most_wanted(
    const struct simba__mutex_subscribers *of)
{
    enum simba_subscription most = SIMBA_SUBSCRIBE_OBSERVE;

    while (most > SIMBA_SUBSCRIBE_NONE && of->wants[most] == 0) {
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
    of->wants[subscriber->subscription]--;
    of->wants[subscription]++;
    subscriber->subscription = subscription;
    after = most_wanted(of);
    if (before != after && loop->on_subscription != NULL) {
        loop->on_subscription(loop->on_subscription_self, of->link.key, after);
    }
}

/* --- waking -------------------------------------------------------------- */

static void wake_queued(simba_timer *queued)
{
    struct simba__subscriber *one =
        container_of(queued, struct simba__subscriber, queued);

    one->wake(one);
}

/* All of a list, each once, also when waking one moves others between the lists
 * or wakes them all itself. */
static void wake_list(struct simba__subscriber_list *list, uint64_t round)
{
    struct simba__subscriber *one;

    while ((one = list->first) != NULL && one->round < round) {
        one->round = round;
        take_out(list, one);
        put(list, one);
        one->wake(one);
    }
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
        wake_queued(first);
        if (most > 1 && second != NULL && second->is_set) {
            wake_queued(second);
        }
    }
    wake_list(&of->others, ++loop->wake_round);
}

/* --- filters ------------------------------------------------------------- */

/* To this filter, or from the last of them to the subscribers; NULL: to all. */
static void pass_on(simba_loop *loop,
                    struct simba__wake_filter *filter,
                    const char *mutex)
{
    struct simba__hash_link *link, *next;
    uint64_t round;

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
        struct simba__mutex_subscribers *of =
            (struct simba__mutex_subscribers *)link;

        next = simba__hash_next(&loop->subscribers, link);
        wake_list(&of->others, round);
        wake_list(&of->waiting, round);
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
    if (loop->filters == NULL && first != NULL && position <= INT64_MAX &&
        first->at_ms == (int64_t)position) {
        wake_queued(first);
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
    const struct simba__mutex_subscribers *of = find(loop, mutex);
    struct simba__subscriber *one, *next;

    if (loop->filters != NULL) { /* who meddles with wake-ups gets a wake-up */
        pass_on(loop, loop->filters, mutex);
        return;
    }
    for (one = of == NULL ? NULL : of->others.first; one != NULL; one = next) {
        next = one->next;
        if (one->observed != NULL &&
            one->subscription == SIMBA_SUBSCRIBE_OBSERVE) {
            one->observed(one, owner, ended);
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
