/* S12: a handle used in a forked child must say so instead of sharing sockets
 * and locks with its parent. getpid() would be too slow for is_owner (S3), so
 * a page that the kernel wipes on fork tells. */
#ifndef SIMBA_RUNTIME_FORK_H
#define SIMBA_RUNTIME_FORK_H

#include <stdbool.h>

/* Something with descriptors that a forked child must not keep. */
struct simba__fork_entry {
    void (*forked)(void *self); /* in the child: close descriptors only */
    void *self;
    struct simba__fork_entry *next;
};

/** Prepare the page, once; false when the kernel gives none. Any thread. */
bool simba__fork_guard(void);

/** Are we a child of the process that called simba__fork_guard()? Wait-free,
 * signal-safe. */
bool simba__is_forked(void);

/** Have `entry->forked` called in every child forked from now on. */
void simba__fork_add(struct simba__fork_entry *entry);
void simba__fork_remove(struct simba__fork_entry *entry);

#endif
