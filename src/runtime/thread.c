#define _GNU_SOURCE
#include "runtime/thread.h"

#include <errno.h>
#include <signal.h>

bool simba__thread_start(pthread_t *thread,
                         const char *name,
                         void *(*run)(void *),
                         void *argument)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0) {
        pthread_setname_np(*thread, name); /* for ps -L, gdb and perf */
    } else {
        errno = rc;
    }
    return rc == 0;
}
