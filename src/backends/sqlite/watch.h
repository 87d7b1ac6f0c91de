/* Wake-ups: our bell, and the death of those we wait for, by inotify.
 *
 * Nothing is set up before somebody really waits: a descriptor of inotify that
 * had a watch takes the kernel up to 18 ms to close.
 *
 * The worker says who waits for whom, inside the transaction in which it was
 * refused: so nobody can ring, and no owner can be told dead, in between. The
 * loop reads what inotify says. A lock guards what both of them see; no call
 * out of this file is made while it is held. */
#ifndef SIMBA_SQLITE_WATCH_H
#define SIMBA_SQLITE_WATCH_H

#include "backends/sqlite/presence.h"

#include <simba/sys/backend.h>

#include <pthread.h>

/* Somebody of this handle who was refused. */
struct simba__sqlite_waiting {
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
    simba_attempt attempt;
    char process[SIMBA__SQLITE_PROCESS + 1]; /* who is in the way, or "" */
    int64_t lapses_ms; /* by our clock: forgotten when not heard of since */
    int wd;            /* the watch on that process's file, or -1 */
    int looks;         /* left, to see whether the process is really dead */
    bool is_head;      /* of the line */
    bool is_due;       /* for a wake-up */
};

struct simba__sqlite_watch {
    const struct simba__sqlite_presence *presence;
    simba_loop *loop;
    pthread_mutex_t lock;

    /* Under the lock. Entries come and go by the worker's hand only. */
    struct simba__sqlite_waiting *waiting;
    size_t count, room;
    int fd; /* inotify; -1 until somebody waits */
    int bell_fd;
    int bell_wd;
    int64_t bell_read; /* how much of it */
    bool is_deaf;      /* no descriptor or watch was to be had */
    bool is_polling;   /* and therefore the loop makes up wake-ups */
    bool is_unheard;   /* the loop does not listen yet; the worker's alone */

    /* The loop's alone. */
    simba_io readable;
    simba_timer again;
    simba_timer poll;
    bool is_detached;
};

void simba__sqlite_watch_init(struct simba__sqlite_watch *watch,
                              const struct simba__sqlite_presence *presence,
                              simba_loop *loop);

/** After the loop has ended. */
void simba__sqlite_watch_fini(struct simba__sqlite_watch *watch);

/** Inside the loop: no wake-up after this. */
void simba__sqlite_watch_detach(struct simba__sqlite_watch *watch);

/** In a forked child: close the descriptors and nothing else. */
void simba__sqlite_watch_forked(struct simba__sqlite_watch *watch);

/**
 * The worker: this operation was refused because of that process; is_head:
 * nobody alive stands before it in the queue.
 *
 * @return false when wake-ups are not to be had, and it must poll
 */
bool simba__sqlite_watch_wait(struct simba__sqlite_watch *watch,
                              const simba_request *request,
                              const char *process,
                              bool is_head);

/** The worker: somebody of this handle wants to be rung.
 *
 * @return false when it cannot be */
bool simba__sqlite_watch_attend(struct simba__sqlite_watch *watch);

/** The worker: this attempt waits no more. */
void simba__sqlite_watch_forget(struct simba__sqlite_watch *watch,
                                const simba_request *request);

/** The worker: the directory was made anew. */
void simba__sqlite_watch_renew(struct simba__sqlite_watch *watch);

/* --- between watch.c and watch_events.c ---------------------------------- */

/** Inside the loop: start to listen. When somebody waits first. */
void simba__sqlite_watch_listen(struct simba__sqlite_watch *watch);

/** Inside the loop: look whether those under suspicion are dead. Posted. */
void simba__sqlite_watch_look(void *watch);

/** Inside the loop: make up wake-ups. Posted when wake-ups cannot be had: a
 * user has but 128 descriptors of inotify on most machines. */
void simba__sqlite_watch_poll(void *watch);

/** How often a process that let go of its file is looked at: the kernel tells
 * of the closing before it takes the lock away, mostly at once. But on a busy
 * machine the dying one may lose the processor in between. */
enum { SIMBA__SQLITE_LOOKS = 150, SIMBA__SQLITE_LOOKS_QUICK = 50 };

#endif
