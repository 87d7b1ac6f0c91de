/* A process of the test's own: forked, with handles it opens itself. Parent and
 * child talk through a shared page. */
#ifndef SIMBA_TCK_CHILD_H
#define SIMBA_TCK_CHILD_H

#include "kit.h"

#include <sys/types.h>

enum { TCK_CHILD_NUMBERS = 8 };

struct tck_child {
    pid_t pid;
    struct tck *parent;
    _Atomic unsigned backstops; /* of its handles, once it has ended */
    _Atomic int step;           /* how far the child has come */
    _Atomic int order;          /* what the parent wants */
    _Atomic uint64_t numbers[TCK_CHILD_NUMBERS]; /* whatever they agree on */
    _Atomic bool is_unwanted; /* it shall give back what it has, and end */
    _Atomic bool is_failed;
    char message[640]; /* when failed */
};

/**
 * Start a process; while no handle is open, if it is to open one. It ends when
 * `live` returns, or fails the test's expectations; it is killed when the test
 * ends.
 *
 * @param live  runs in the child, with a context of its own: handles opened
 *              there are closed when it returns
 */
struct tck_child *tck_child(struct tck *t,
                            void (*live)(struct tck *t,
                                         struct tck_child *self));

/** Wait until the child has come so far; fail as it failed, if it did. */
void tck_child_await(struct tck *t, struct tck_child *child, int step);

/** In the child: wait until the parent wants this. */
void tck_child_obey(struct tck *t, struct tck_child *self, int order);

/** Wait for its end, and fail as it failed, if it did. */
void tck_child_join(struct tck *t, struct tck_child *child);

/** Stop it, let it go on, or kill it (and then wait until it is gone). */
void tck_child_signal(struct tck *t, struct tck_child *child, int signal);

/** In the child: end, orderly, if the parent has no use for it any more. */
void tck_child_check_wanted(struct tck *t);

/** In the child: tell the parent, and end. */
_Noreturn void tck_child_fail(struct tck_child *self, const char *message);

#endif
