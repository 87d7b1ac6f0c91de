/* On a terminal: says that a store is being waited for, when that takes longer
 * than a second. */
#ifndef SIMBA_CLI_PATIENCE_H
#define SIMBA_CLI_PATIENCE_H

#include "opt.h"

#include <pthread.h>

struct simba__patience {
    char shown[512]; /* the store */
    bool is_running;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t told;
    bool is_over;
};

/** @param cli  NULL: there is nothing to say this time */
void simba__patience_begin(struct simba__patience *patience,
                           const struct simba__cli *cli);
void simba__patience_end(struct simba__patience *patience);

#endif
