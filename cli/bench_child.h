/* The other process of a measurement: forked before a store is opened, with a
 * pipe each way. It ends when it reads the end of its orders. */
#ifndef SIMBA_CLI_BENCH_CHILD_H
#define SIMBA_CLI_BENCH_CHILD_H

#include "bench.h"

#include <sys/types.h>

struct simba__bench_child {
    pid_t pid;
    int in, out; /* what it answers, what it is told; in it: the other way */
};

/** Start one; `live` runs in it, with its own ends of the pipes. */
int simba__bench_child_start(struct simba__bench_child *child,
                             void (*live)(const struct simba__bench_job *job,
                                          struct simba__bench_child *self),
                             const struct simba__bench_job *job,
                             simba_error *error);

/** Kill it, and wait until it is gone. */
void simba__bench_child_kill(struct simba__bench_child *child);

/** Tell it to end, wait for that, but not for ever. One that was never started
 * is all zero. */
void simba__bench_child_end(struct simba__bench_child *child);

/** Write all of it; false: nobody reads. */
bool simba__bench_tell(int fd, const void *what, size_t size);

/** Read all of it; SIMBA_ECANCELED when a signal came, else SIMBA_EINTERNAL
 * when the other process is gone. */
int simba__bench_hear(int fd, void *what, size_t size, simba_error *error);

#endif
