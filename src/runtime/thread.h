/* Threads of ours: named, with every signal blocked, so that the program's
 * handlers run on the program's threads. */
#ifndef SIMBA_RUNTIME_THREAD_H
#define SIMBA_RUNTIME_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/** Start one; false: errno says why there is none. */
bool simba__thread_start(pthread_t *thread,
                         void *(*run)(void *),
                         void *argument);

/** Give the calling thread its name, for ps -L, gdb and perf. To name another
 * one takes the opening of a file. */
void simba__thread_name(const char *name);

#endif
