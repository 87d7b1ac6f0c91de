#define _GNU_SOURCE
#include "runtime/thread.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>

bool simba__thread_start(pthread_t *thread,
                         void *(*run)(void *),
                         void *argument)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        errno = rc;
    }
    return rc == 0;
}

void simba__thread_name(const char *name)
{
    prctl(PR_SET_NAME, name);
}
