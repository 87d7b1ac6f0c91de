#include "backends/zookeeper/guard.h"

#include <string.h>
#include <zookeeper/zookeeper.h>

void simba__zk_guard_init(struct simba__zk_guard *guard,
                          int64_t timeout_ms,
                          int64_t born_ms)
{
    *guard =
        (struct simba__zk_guard){.timeout_ms = timeout_ms, .since_ms = born_ms};
}

/* Of a create or a multi of checks. What fails for want of a node is agreed
 * upon like what succeeds. */
bool simba__zk_guard_counts(int rc)
{
    return rc == ZOK || rc == ZNONODE;
}

/* Rounded up: a quarter is what a late ping may take. */
static int64_t apart_ms(const struct simba__zk_guard *guard)
{
    return (guard->timeout_ms + 3) / 4;
}

static void remember(struct simba__zk_guard *guard, struct simba__zk_mark mark)
{
    int last = guard->count - 1;

    if (last >= 0 && mark.sent_ms - guard->marks[last].sent_ms <
                         guard->timeout_ms / SIMBA__ZK_MARKS) {
        return; /* as good as the last one */
    }
    if (guard->count == SIMBA__ZK_MARKS) {
        memmove(guard->marks, guard->marks + 1,
                sizeof guard->marks - sizeof guard->marks[0]);
        guard->count--;
    }
    guard->marks[guard->count++] = mark;
}

void simba__zk_guard_heard(struct simba__zk_guard *guard,
                           int64_t sent_ms,
                           int64_t heard_ms)
{
    struct simba__zk_mark mark = {sent_ms, heard_ms};

    for (int i = guard->count - 1; i >= 0; i--) {
        if (sent_ms - guard->marks[i].heard_ms >= apart_ms(guard)) {
            if (guard->marks[i].sent_ms > guard->since_ms) {
                guard->since_ms = guard->marks[i].sent_ms;
            }
            break;
        }
    }
    remember(guard, mark);
}

int64_t simba__zk_guard_lease(const struct simba__zk_guard *guard,
                              int64_t sent_ms)
{
    /* An operation may be older than the session it waited for. */
    int64_t elapsed = sent_ms > guard->since_ms ? sent_ms - guard->since_ms : 0;
    int64_t drift = (elapsed * 21 + 999) / 1000;
    int64_t lease = guard->timeout_ms - elapsed - drift;

    return lease > 1 ? lease : 1;
}

int64_t simba__zk_guard_next(const struct simba__zk_guard *guard)
{
    int64_t newest = guard->count > 0 ? guard->marks[guard->count - 1].heard_ms
                                      : guard->since_ms;

    return newest + apart_ms(guard);
}
