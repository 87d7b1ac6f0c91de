/* Who of this handle hears wake-ups for which mutex. There may be 100,000. */
#include "runtime/loop.h"

#include <assert.h>

bool simba__subscriber_add(simba_loop *loop,
                           struct simba__subscriber *subscriber,
                           const char *mutex)
{
    assert(simba__loop_is_inside(loop));
    assert(subscriber->wake != NULL && subscriber->position != NULL);
    return simba__hash_add(&loop->subscribers, &subscriber->link, mutex);
}

void simba__subscriber_remove(simba_loop *loop,
                              struct simba__subscriber *subscriber)
{
    simba__subscribe(loop, subscriber, SIMBA_SUBSCRIBE_NONE);
    simba__hash_remove(&loop->subscribers, &subscriber->link);
}

static struct simba__subscriber *first_of(const simba_loop *loop,
                                          const char *mutex)
{
    return (struct simba__subscriber *)simba__hash_find(&loop->subscribers,
                                                        mutex);
}

static struct simba__subscriber *next_of(const struct simba__subscriber *one)
{
    return (struct simba__subscriber *)simba__hash_find_next(&one->link);
}

/* The most that anybody here wants to hear about a mutex. */
static enum simba_subscription most_wanted(const simba_loop *loop,
                                           const char *mutex)
{
    enum simba_subscription most = SIMBA_SUBSCRIBE_NONE;

    for (const struct simba__subscriber *one = first_of(loop, mutex);
         one != NULL; one = next_of(one)) {
        most = one->subscription > most ? one->subscription : most;
    }
    return most;
}

void simba__subscribe(simba_loop *loop,
                      struct simba__subscriber *subscriber,
                      enum simba_subscription subscription)
{
    const char *mutex = subscriber->link.key;
    enum simba_subscription before, after;

    assert(simba__loop_is_inside(loop));
    if (subscriber->subscription == subscription) {
        return;
    }
    before = most_wanted(loop, mutex);
    subscriber->subscription = subscription;
    after = most_wanted(loop, mutex);
    if (before != after && loop->on_subscription != NULL) {
        loop->on_subscription(loop->on_subscription_self, mutex, after);
    }
}

/* Of those who wait, the two with the lowest positions are woken; and all who
 * have none. */
static void wake_mutex(const simba_loop *loop, const char *mutex)
{
    uint64_t first = UINT64_MAX, second = UINT64_MAX;
    struct simba__subscriber *one, *next;

    for (one = first_of(loop, mutex); one != NULL; one = next_of(one)) {
        uint64_t position = one->position(one);

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
    for (one = first_of(loop, mutex); one != NULL; one = next) {
        next = next_of(one);
        if (one->position(one) <= second) {
            one->wake(one);
        }
    }
}

/* --- filters ------------------------------------------------------------- */

/* To this filter, or from the last of them to the subscribers; NULL: to all. */
static void pass_on(simba_loop *loop,
                    struct simba__wake_filter *filter,
                    const char *mutex)
{
    struct simba__hash_link *link, *next;

    assert(simba__loop_is_inside(loop));
    if (filter != NULL) {
        filter->wake(filter, mutex);
        return;
    }
    if (mutex != NULL) {
        wake_mutex(loop, mutex);
        return;
    }
    link = simba__hash_next(&loop->subscribers, NULL);
    for (; link != NULL; link = next) {
        struct simba__subscriber *one = (struct simba__subscriber *)link;

        next = simba__hash_next(&loop->subscribers, link);
        one->wake(one);
    }
}

void simba_wake(simba_loop *loop, const char *mutex)
{
    pass_on(loop, loop->filters, mutex);
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
    struct simba__subscriber *one, *next;

    if (loop->filters != NULL) { /* who meddles with wake-ups gets a wake-up */
        pass_on(loop, loop->filters, mutex);
        return;
    }
    for (one = first_of(loop, mutex); one != NULL; one = next) {
        next = next_of(one);
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
