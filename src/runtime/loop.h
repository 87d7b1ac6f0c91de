/* The loop: what happens inside a store, one thread at a time. A thread of its
 * own waits for descriptors and the clock; callers enter for themselves, which
 * spares them the way to another thread and back. */
#ifndef SIMBA_RUNTIME_LOOP_H
#define SIMBA_RUNTIME_LOOP_H

#include <simba/sys/backend.h>

#include "core/rng.h"
#include "core/window.h"
#include "runtime/fork.h"
#include "runtime/metrics.h"
#include "runtime/poll.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Something to be done inside; lives in the poster's memory until it ran. */
struct simba__message {
    void (*run)(struct simba__message *self);
    struct simba__message *next;
};

/* What simba_loop_post() sends. A few are there from the beginning, so that
 * running out of memory for a moment ends nobody. */
struct simba__call {
    struct simba__message message;
    void (*run)(void *argument);
    void *argument;
    simba_loop *reserve_of; /* NULL: from malloc(), or not in use */
};

enum { SIMBA__RESERVE = 8 };

/* Who hears wake-ups for a mutex. Of those who wait for it only the first two
 * are woken: a store offers it to nobody else, and a thousand waiters that ask
 * at once would keep it busy for nothing. */
struct simba__subscriber {
    /* It is woken by `fire`. The rest is the loop's: among those who wait, by
     * position; else in the ring of the others. */
    simba_timer place;

    /* The loop's. */
    struct simba__mutex_subscribers *of;
    uint32_t round; /* it was last woken in */
    enum simba_subscription subscription;
};

/* Who only watches; nobody else subscribes by SIMBA_SUBSCRIBE_OBSERVE. */
struct simba__observer {
    struct simba__subscriber subscriber; /* first */
    /* See simba_observed(). */
    void (*observed)(struct simba__observer *self,
                     const simba_owner *owner,
                     uint64_t ended);
};

/* All of one mutex, its key: there may be 100,000, so nothing that happens to
 * one of them looks at the others. */
struct simba__mutex_subscribers {
    struct simba__hash_link link;
    simba_timer *queue;                      /* a heap of those who wait */
    simba_timer *others;                     /* a ring */
    uint32_t wants[SIMBA_SUBSCRIBE_OBSERVE]; /* so many want that, and not
                                              * nothing */
};

/* Who hears wake-ups before the subscribers do, and decides whether these
 * hear them: a shim. The shim next to the store is the first. */
struct simba__wake_filter {
    void (*wake)(struct simba__wake_filter *self, const char *mutex);
    struct simba__wake_filter *next;
};

struct epoll_event;

struct simba_loop {
    pthread_mutex_t lock; /* whoever holds it is inside */
    pthread_t thread;
    int epoll_fd, mail_fd, clock_fd, nudge_fd;
    simba_io mail_io, clock_io;
    struct epoll_event *ready; /* the batch in hand, while there is one */
    int ready_count;
    int64_t armed_ms; /* what clock_fd is set to; INT64_MAX: nothing */
    bool is_ended;
    simba__fork_mark mark; /* of the process that opened it; NULL: not yet */
    simba_backend *front;  /* what contenders ask; NULL: not yet */

    bool is_driven;  /* a caller lends its thread to the backend */
    bool is_parting; /* but takes on nothing more */
    bool is_nudged;  /* and is to look up */
    bool is_settled; /* the same, by the driver's own doing; its alone */
    pthread_t driver;
    _Atomic bool is_led; /* by the driver, which has nothing else to do */

    _Atomic int due;             /* requests whose replies are awaited */
    struct simba__window window; /* of acquires among them */
    simba_timer *held; /* a ring: fire when there is room for an acquire */
    bool is_letting;   /* them in */
    const struct simba__pending *submitted;   /* is being, just now */
    struct simba__poll driver_poll, own_poll; /* of the driver, of the thread */

    pthread_mutex_t mail_lock; /* guards the mailbox */
    struct simba__message *first, **last;
    struct simba__call reserve[SIMBA__RESERVE];

    simba_timer *timers; /* a pairing heap, the earliest on top */

    struct simba__heard *heard; /* of contention.c: the answers in hand */
    struct simba__wheel *wheel; /* of looks.c; NULL: nobody looks for many */

    struct simba__rng rng;                    /* of its contenders */
    struct simba__shared_config *last_config; /* of them; NULL: none */

    struct simba__hash subscribers; /* by mutex */
    uint32_t wake_round;
    void (*on_subscription)(void *self,
                            const char *mutex,
                            enum simba_subscription subscription);
    void *on_subscription_self;
    struct simba__wake_filter *filters;

    struct simba__loop_metrics metrics; /* what happened to its contenders */

    struct simba__fork_entry fork_entry;
};

int simba__loop_open(simba_loop **loop, simba_error *error);

/** End the loop: `on_end` runs inside it last, and nothing after it by the
 * loop's thread. It can still be entered afterwards. */
void simba__loop_end(simba_loop *loop,
                     void (*on_end)(void *argument),
                     void *argument);

/** Join its thread and free it; only after simba__loop_end(). */
void simba__loop_close(simba_loop *loop);

/** Have a message run inside, soon. Any thread. */
void simba__loop_send(simba_loop *loop, struct simba__message *message);

/* Threads of ours: named, with every signal blocked, so that the program's
 * handlers run on the program's threads. */

/** Start one; false: errno says why there is none. */
bool simba__thread_start(pthread_t *thread,
                         void *(*run)(void *),
                         void *argument);

/** Give the calling thread its name, for ps -L, gdb and perf. To name another
 * one takes the opening of a file. */
void simba__thread_name(const char *name);

/* --- inside -------------------------------------------------------------- */

/** The clock of simba_loop_now_ms(), finer. */
int64_t simba__loop_now_us(void);

/** Is the calling thread inside? For asserts. */
bool simba__loop_is_inside(const simba_loop *loop);

/** Leave until `change` is signalled, and come back in; false when `until` has
 * come first, by CLOCK_MONOTONIC, which is good enough for a wait. NULL:
 * however long it takes. */
bool simba__loop_wait(simba_loop *loop,
                      pthread_cond_t *change,
                      const struct timespec *until);

/* Callers who lend their thread to the backend, instead of waking another. */

/** Lend this thread to the backend, if nobody else does. */
void simba__loop_drive(simba_loop *loop);
/** Take on nothing more: what is submitted from now on is left to the loop. */
void simba__loop_part(simba_loop *loop);
void simba__loop_undrive(simba_loop *loop);

/** Who drives and finds nothing to do waits in the loop thread's place, until
 * something happens or `until_ms`, and sees to it. */
void simba__loop_lead(simba_loop *loop, int64_t until_ms);

/** True when the thread that is inside drives: it will see to what it submits
 * itself. */
bool simba__loop_is_driver(const simba_loop *loop);

/** Have the thread that drives look up, if it is another. */
void simba__loop_nudge(simba_loop *loop);

/** It has looked up. True: it was to. */
bool simba__loop_calm(simba_loop *loop);

/** Leave, for the driver. False: what it waits for may have been settled by the
 * messages that are run on leaving. */
bool simba__loop_step_out(simba_loop *loop);

/** How long may be looked for a reply before sleeping, in microseconds, as of
 * simba__spin_init(). Before the first request; off at first. */
void simba__loop_spin(simba_loop *loop, int most_us);

/** Fill in when a timer is due that is not set: before INT64_MAX / 2. */
static inline void simba__timer_at(simba_timer *timer, int64_t at_ms)
{
    assert(at_ms <= INT64_MAX / 2);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
    timer->at_ms = at_ms;
#pragma GCC diagnostic pop
}

/* Heaps of timers, the earliest on top; one is in one of them at a time. */
void simba__heap_add(simba_timer **heap, simba_timer *timer);
void simba__heap_remove(simba_timer **heap, simba_timer *timer);

/** The next of a heap, after the top one; in no order. NULL: no more. */
simba_timer *simba__heap_next(simba_timer *timer);

/* Rings of timers that are not set: its first is the first that came. */
void simba__ring_add(simba_timer **ring, simba_timer *timer);
void simba__ring_remove(simba_timer **ring, simba_timer *timer);

/** Is it in one? */
static inline bool simba__ring_has(const simba_timer *timer)
{
    return !timer->is_set && timer->sibling != NULL;
}

void simba__timers_fire(simba_loop *loop, int64_t now_ms);
int64_t simba__timers_next(const simba_loop *loop);

/* subscribers.c */

/** Put a filter behind those that are there; take it out. */
void simba__wake_filter_add(simba_loop *loop,
                            struct simba__wake_filter *filter);
void simba__wake_filter_remove(simba_loop *loop,
                               struct simba__wake_filter *filter);

/** Pass a wake-up on to the filter behind this one, or to the subscribers. */
void simba__wake_pass(simba_loop *loop,
                      const struct simba__wake_filter *filter,
                      const char *mutex);

/** Let it hear wake-ups for this mutex, of which it then has a copy of the name
 * (of->link.key); false: no memory. */
bool simba__subscriber_add(simba_loop *loop,
                           struct simba__subscriber *subscriber,
                           const char *mutex);
void simba__subscriber_remove(simba_loop *loop,
                              struct simba__subscriber *subscriber);
/** Where it waits; 0: it does not, and is always woken. */
void simba__subscriber_move(struct simba__subscriber *subscriber,
                            uint64_t position);
void simba__subscribe(simba_loop *loop,
                      struct simba__subscriber *subscriber,
                      enum simba_subscription subscription);

#endif
