/* Eyes: who only watches a mutex, and is rung when its owner changes.
 *
 * For each mutex that somebody watches there is a directory beside the files of
 * presence.h, "<hash of the mutex>.eyes", and in it an empty file for each
 * process that watches. Whoever commits a change of owner looks for that
 * directory: where nobody watches that is all it costs. Two mutexes with one
 * hash ring each other's watchers, who look and see that nothing has changed.
 *
 * The loop says what is wanted; the worker, who may wait for a disk, does it,
 * before it reads the mutex for the watcher: so no change falls in between. */
#ifndef SIMBA_SQLITE_EYE_H
#define SIMBA_SQLITE_EYE_H

#include "backends/sqlite/watch.h"

#include <stdatomic.h>

struct simba__sqlite_eye {
    struct simba__sqlite_eye *next;
    bool is_wanted;
    bool is_due;  /* for a made-up wake-up; the loop's alone */
    bool is_open; /* our file is there; the worker's alone */
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
};

struct simba__sqlite_eyes {
    const struct simba__sqlite_presence *presence;
    struct simba__sqlite_watch *watch;
    _Atomic bool is_stirred; /* what is wanted and what is there differ */
    pthread_mutex_t lock;    /* guards the list */
    struct simba__sqlite_eye *first;
    bool is_deaf; /* no bell was to be had; the worker's alone */

    /* The loop's alone. */
    simba_timer again;
    bool is_detached;
};

void simba__sqlite_eyes_init(struct simba__sqlite_eyes *eyes,
                             const struct simba__sqlite_presence *presence,
                             struct simba__sqlite_watch *watch);

/** Inside the loop: no wake-up after this. */
void simba__sqlite_eyes_detach(struct simba__sqlite_eyes *eyes);

/** Close all eyes. While the directory is still open, after the worker. */
void simba__sqlite_eyes_fini(struct simba__sqlite_eyes *eyes);

/** The loop: watch this mutex, or no more. */
void simba__sqlite_eyes_want(struct simba__sqlite_eyes *eyes,
                             const char *mutex,
                             bool is_wanted);

/** The worker, before each operation: open and close eyes as wanted. */
void simba__sqlite_eyes_settle(struct simba__sqlite_eyes *eyes);

/** The worker: the directory was made anew, and all eyes are closed. */
void simba__sqlite_eyes_renew(struct simba__sqlite_eyes *eyes);

/** The worker: by this operation, as its reply says, the owner has changed.
 * Tells who watches, and takes away the eyes of the dead. */
void simba__sqlite_eyes_ring(const struct simba__sqlite_eyes *eyes,
                             const simba_request *request);

/** The loop: a line of the bell about a change, without the first tab, which is
 * taken apart. */
void simba__sqlite_eyes_tell(simba_loop *loop, char *line);

#endif
