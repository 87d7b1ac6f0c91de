/* Asking again when a reservation is over.
 *
 * Who asks and finds that one who had been called did not come has called the
 * next. If that one is stopped as well, nobody is told when its time is over: a
 * line of stopped waiters would be passed at the pace of backstops. So whoever
 * found one missing is woken then, until the mutex has an owner. Where all who
 * are called come, this costs nothing. */
#include "backends/redis/instance.h"
#include "backends/redis/turn.h"

#include <stddef.h>
#include <string.h>

static struct simba__redis_topic *first_topic(struct simba__redis *store)
{
    return (struct simba__redis_topic *)simba__redis_hash_next(
        &store->ears.topics, NULL);
}

static struct simba__redis_topic *next_topic(struct simba__redis *store,
                                             struct simba__redis_topic *topic)
{
    return (struct simba__redis_topic *)simba__redis_hash_next(
        &store->ears.topics, &topic->link);
}

static void watch(struct simba__redis *store, int64_t at_ms)
{
    if (!store->again.is_set || at_ms < store->again.at_ms) {
        simba_timer_set(store->base.loop, &store->again, at_ms);
    }
}

void simba__redis_again_later(struct simba__redis *store,
                              const char *mutex,
                              int64_t wait_ms)
{
    struct simba__redis_topic *topic =
        (struct simba__redis_topic *)simba__redis_hash_find(
            &store->ears.topics, mutex, strlen(mutex));

    if (topic != NULL) {
        topic->again_ms = simba_loop_now_ms() + wait_ms;
        watch(store, topic->again_ms);
    }
}

void simba__redis_again(simba_timer *timer)
{
    struct simba__redis *store =
        (struct simba__redis *)((char *)timer -
                                offsetof(struct simba__redis, again));
    int64_t now_ms = simba_loop_now_ms();

    simba__redis_turn_begin(&store->env);
    for (struct simba__redis_topic *t = first_topic(store); t != NULL;
         t = next_topic(store, t)) {
        if (t->again_ms != 0 && t->again_ms <= now_ms) {
            t->again_ms = 0;
            simba_wake(store->base.loop, t->mutex);
        } else if (t->again_ms != 0) {
            watch(store, t->again_ms);
        }
    }
    simba__redis_turn_end(&store->env);
}
