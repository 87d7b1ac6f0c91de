/* The loop: one thread per store on which everything happens that is neither a
 * user's callback nor a blocking call. Others reach it through the mailbox. */
#ifndef SIMBA_RUNTIME_LOOP_H
#define SIMBA_RUNTIME_LOOP_H

#include <simba/backend.h>

#include "runtime/fork.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Something to be done on the loop thread; lives in the poster's memory until
 * it ran. */
struct simba__letter {
    void (*run)(struct simba__letter *self);
    struct simba__letter *next;
};

/* A wake-up on the boot clock; lives in its user's memory. */
struct simba__timer {
    void (*fire)(struct simba__timer *self);
    int64_t at_ms;
    size_t index; /* in the heap, from 1; 0: not set */
};

struct event;

/* Who hears hints for a mutex. Of those who stand in its line only the first
 * two are told: a store calls nobody else, and a thousand waiters that ask at
 * once would keep it busy for nothing. */
struct simba__listener {
    const char *mutex;
    void (*hint)(struct simba__listener *self);
    uint64_t (*place)(const struct simba__listener *self); /* 0: none */
    struct simba__listener *next;
};

enum { SIMBA__LISTENER_BUCKETS_LEAST = 16 };

struct simba_loop {
    pthread_t thread;
    struct event_base *base;
    struct event *mail_event, *clock_event;
    int mail_fd, clock_fd;
    int64_t armed_ms; /* what clock_fd is set to; INT64_MAX: nothing */
    bool is_ending;   /* loop thread only */
    void (*on_end)(void *argument);
    void *on_end_argument;

    pthread_mutex_t lock; /* guards the mailbox */
    struct simba__letter *first, **last;

    struct simba__timer **heap; /* heap[0] is heap index 1 */
    size_t heap_count, heap_room;

    struct simba__listener **buckets;
    size_t bucket_count, listener_count;

    struct simba__fork_entry fork_entry;
};

int simba__loop_open(simba_loop **loop, simba_error *error);

/** End the loop: `on_end` runs on its thread last, then the thread is joined.
 * Letters posted meanwhile are run here, on the caller's thread. */
void simba__loop_end(simba_loop *loop,
                     void (*on_end)(void *argument),
                     void *argument);

/** Run what is still in the mailbox; only after simba__loop_end(). */
void simba__loop_drain(simba_loop *loop);

/** Free it; only after simba__loop_end(). */
void simba__loop_close(simba_loop *loop);

/** Any thread. */
void simba__loop_send(simba_loop *loop, struct simba__letter *letter);

/* The rest: loop thread only. */
bool simba__loop_is_mine(const simba_loop *loop);
/** Make room for so many timers, so that setting one cannot fail. */
bool simba__timer_reserve(simba_loop *loop, size_t count);
void simba__timer_set(simba_loop *loop,
                      struct simba__timer *timer,
                      int64_t at_ms);
void simba__timer_clear(simba_loop *loop, struct simba__timer *timer);
void simba__timers_fire(simba_loop *loop, int64_t now_ms);
int64_t simba__timers_next(const simba_loop *loop);

bool simba__listener_add(simba_loop *loop, struct simba__listener *listener);
void simba__listener_remove(simba_loop *loop, struct simba__listener *listener);

#endif
