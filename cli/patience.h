/* Says that something is being waited for, when that takes longer than a
 * second; of a store only on a terminal. */
#ifndef SIMBA_CLI_PATIENCE_H
#define SIMBA_CLI_PATIENCE_H

#include "opt.h"

#include <pthread.h>

/** What is done after a second, on a thread of its own. */
struct simba__patience_plan {
    void (*look)(void *user); /* what is there to say? May block, may be NULL */
    void (*say)(void *user);  /* not called once it is over; must not block */
    void *user;
};

struct simba__patience {
    struct simba__patience_plan plan;
    char shown[512]; /* the store */
    bool is_running;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t told;
    bool is_over;
};

/** A store is waited for. @param cli  NULL: there is nothing to say */
void simba__patience_begin(struct simba__patience *patience,
                           const struct simba__cli *cli);

/** Something else is. */
void simba__patience_start(struct simba__patience *patience,
                           const struct simba__patience_plan *plan);

/** Nothing is waited for any more: nothing is said from now on. */
void simba__patience_over(struct simba__patience *patience);

/** The same, and wait for the thread; all are free to do it again. */
void simba__patience_end(struct simba__patience *patience);

#endif
