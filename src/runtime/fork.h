/* S12: a handle used in a forked child must say so instead of sharing sockets
 * and locks with its parent. getpid() would be too slow for is_owner (S3), so
 * a page that the kernel wipes on fork tells. */
#ifndef SIMBA_RUNTIME_FORK_H
#define SIMBA_RUNTIME_FORK_H

#include <stdbool.h>

/* Where a handle looks: 1 in the process that opened it, 0 in its children. A
 * child that opens a store of its own gets a mark of its own. */
typedef const volatile unsigned char *simba__fork_mark;

/* Something with descriptors that a forked child must not keep. */
struct simba__fork_entry {
    void (*forked)(void *self); /* in the child: close descriptors only */
    void *self;
    struct simba__fork_entry *next;
};

/** This process's mark; NULL when the kernel gives none. Any thread. */
simba__fork_mark simba__fork_guard(void);

/** Has the process been forked since the mark was made? Wait-free,
 * signal-safe. */
static inline bool simba__is_forked(simba__fork_mark mark)
{
    return *mark == 0;
}

/** No fork between the two, on any thread: for the time in which descriptors
 * are there and nobody knows of them. */
void simba__fork_hold_off(void);
void simba__fork_let_go(void);

/** Have `entry->forked` called in every child forked from now on. */
void simba__fork_add(struct simba__fork_entry *entry);
void simba__fork_remove(struct simba__fork_entry *entry);

#endif
