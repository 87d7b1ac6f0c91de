/* Many who are measured at once, each on a thread of its own: they run together
 * for a slice of time, and then rest. */
#ifndef SIMBA_CLI_BENCH_CREW_H
#define SIMBA_CLI_BENCH_CREW_H

#include "bench.h"

#include <pthread.h>
#include <stdatomic.h>

struct simba__crew_slice {
    int64_t length_ns;
    size_t most;   /* exchanges of all together */
    size_t active; /* so many of them work */
};

/* What a slice came to. */
struct simba__crew_tally {
    size_t count;
    int64_t elapsed_ns;
    int rc;
    simba_error error; /* the first, when rc is not SIMBA_OK */
};

struct simba__crew_member;

struct simba__crew {
    /* The caller's. */
    const struct simba__bench_side *sides;
    size_t count;
    int64_t *ns; /* times, the newest of each; zero where there is none */
    size_t room;
    _Atomic int *is_cancelled; /* not 0: end the slice; may be NULL */

    /* Its own. */
    struct simba__crew_member *members;
    size_t started;
    pthread_mutex_t lock;
    pthread_cond_t begun, ended;
    uint64_t slices; /* so far */
    size_t working;
    bool is_over;
    struct simba__crew_slice slice;
    int64_t until_ns;
    _Atomic int64_t left; /* exchanges of this slice */
    struct simba__crew_tally tally;
};

int simba__crew_start(struct simba__crew *crew, simba_error *error);
void simba__crew_run(struct simba__crew *crew,
                     const struct simba__crew_slice *slice,
                     struct simba__crew_tally *tally);
void simba__crew_stop(struct simba__crew *crew);

/** Put the times that are there side by side; how many there are. */
size_t simba__crew_gather(int64_t *ns, size_t room);

#endif
