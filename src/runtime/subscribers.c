/* Who of this handle has subscribed to which mutex: there may be 100,000. */
#include "runtime/loop.h"

#include "util/container.h"

static struct simba__subscriber *subscriber_of(struct simba__hash_link *link)
{
    return container_of(link, struct simba__subscriber, link);
}

bool simba__subscriber_add(simba_loop *loop,
                           struct simba__subscriber *subscriber,
                           const char *mutex)
{
    return simba__hash_add(&loop->subscribers, &subscriber->link, mutex);
}

/* The most that anybody here wants to hear about a mutex. */
static enum simba_subscription most_wanted(const simba_loop *loop,
                                           const char *mutex)
{
    enum simba_subscription most = SIMBA_SUBSCRIBE_NONE;

    for (struct simba__hash_link *l =
             simba__hash_find(&loop->subscribers, mutex);
         l != NULL; l = simba__hash_find_next(l)) {
        if (subscriber_of(l)->subscription > most) {
            most = subscriber_of(l)->subscription;
        }
    }
    return most;
}

void simba__subscriber_want(simba_loop *loop,
                            struct simba__subscriber *subscriber,
                            enum simba_subscription subscription)
{
    const char *mutex = subscriber->link.key;
    enum simba_subscription before, after;

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

void simba__subscriber_remove(simba_loop *loop,
                              struct simba__subscriber *subscriber)
{
    simba__subscriber_want(loop, subscriber, SIMBA_SUBSCRIBE_NONE);
    simba__hash_remove(&loop->subscribers, &subscriber->link);
}

/* Of those who wait for this mutex only the first two are woken: up to the
 * second lowest position. Who has none watches, and is woken always. */
static void wake_mutex(struct simba__hash_link *first)
{
    uint64_t lowest = UINT64_MAX, second = UINT64_MAX;
    struct simba__hash_link *next;

    for (struct simba__hash_link *l = first; l != NULL;
         l = simba__hash_find_next(l)) {
        uint64_t position = subscriber_of(l)->position(subscriber_of(l));

        if (position == 0 || position >= second) {
            continue;
        }
        if (position < lowest) {
            second = lowest;
            lowest = position;
        } else {
            second = position;
        }
    }
    for (struct simba__hash_link *l = first; l != NULL; l = next) {
        next = simba__hash_find_next(l);
        if (subscriber_of(l)->position(subscriber_of(l)) <= second) {
            subscriber_of(l)->wake(subscriber_of(l));
        }
    }
}

static void wake_subscribers(simba_loop *loop, const char *mutex)
{
    struct simba__hash_link *next;

    if (mutex != NULL) {
        wake_mutex(simba__hash_find(&loop->subscribers, mutex));
        return;
    }
    for (struct simba__hash_link *l =
             simba__hash_next(&loop->subscribers, NULL);
         l != NULL; l = next) {
        next = simba__hash_next(&loop->subscribers, l);
        subscriber_of(l)->wake(subscriber_of(l));
    }
}

/* --- filters ------------------------------------------------------------- */

void simba_wake(simba_loop *loop, const char *mutex)
{
    if (loop->filters != NULL) {
        loop->filters->wake(loop->filters, mutex);
    } else {
        wake_subscribers(loop, mutex);
    }
}

void simba_observed(simba_loop *loop,
                    const char *mutex,
                    const simba_owner *owner,
                    uint64_t ended)
{
    struct simba__hash_link *next;

    if (loop->filters != NULL) { /* who meddles with wake-ups gets a wake-up */
        loop->filters->wake(loop->filters, mutex);
        return;
    }
    for (struct simba__hash_link *l =
             simba__hash_find(&loop->subscribers, mutex);
         l != NULL; l = next) {
        struct simba__subscriber *subscriber = subscriber_of(l);

        next = simba__hash_find_next(l);
        if (subscriber->observed != NULL &&
            subscriber->subscription == SIMBA_SUBSCRIBE_OBSERVE) {
            subscriber->observed(subscriber, owner, ended);
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
        wake_subscribers(loop, mutex);
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
