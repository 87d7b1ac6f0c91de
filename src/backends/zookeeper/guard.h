/* How long a session is certain: the deadline arithmetic of guards. Pure.
 *
 * A guard is an answered quorum write. It proves that the leader had not ended
 * the session when it was served, and no more: a follower passes on that it
 * heard from us only with its next answer to the leader's ping, every half
 * tick, and a session's timeout T is two ticks at least. So
 *
 *   - a session made at c is certain until c + T: its maker, the leader, began
 *     to count after c;
 *   - two guards, the second sent T/4 or more after the first was answered,
 *     make it certain until T after the first was *sent*: by the second one the
 *     leader has heard of the first.
 *
 *   s1      answered          s2     answered                     s1 + T
 *   |----------|--- T/4 or more ---|-----|---- certain --------------|
 */
#ifndef SIMBA_ZOOKEEPER_GUARD_H
#define SIMBA_ZOOKEEPER_GUARD_H

#include <stdbool.h>
#include <stdint.h>

enum { SIMBA__ZK_MARKS = 16 };

struct simba__zk_guard {
    int64_t timeout_ms; /* T */
    int64_t since_ms;   /* the session is certain until T after this */
    struct simba__zk_mark {
        int64_t sent_ms, heard_ms;
    } marks[SIMBA__ZK_MARKS]; /* answered guards, T/16 apart, newest last */
    int count;
};

/** A session with timeout T was asked for at `born_ms`, and there is one. */
void simba__zk_guard_init(struct simba__zk_guard *guard,
                          int64_t timeout_ms,
                          int64_t born_ms);

/** Whether an answer is the leader's, and was agreed upon by a quorum. Others
 * are given by the server we speak to, such as that it has too much to do. */
bool simba__zk_guard_counts(int rc);

/** A guard was answered, so that it counts. */
void simba__zk_guard_heard(struct simba__zk_guard *guard,
                           int64_t sent_ms,
                           int64_t heard_ms);

/**
 * The lease an operation sent at `sent_ms` is granted, counted from there: what
 * is left of T, less what two clocks at +-1 % can have disagreed about so far.
 * 1 when nothing is left.
 */
int64_t simba__zk_guard_lease(const struct simba__zk_guard *guard,
                              int64_t sent_ms);

/** When another guard would make the session certain for longer. */
int64_t simba__zk_guard_next(const struct simba__zk_guard *guard);

#endif
