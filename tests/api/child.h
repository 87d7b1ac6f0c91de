/* Waiting for a child that may hang. */
#ifndef SIMBA_TESTS_API_CHILD_H
#define SIMBA_TESTS_API_CHILD_H

#include "fixtures/api_harness.h"

#include <signal.h>
#include <sys/wait.h>

/* What a child found: 0 when all was fine. Killed when it hangs. */
static inline int status_of(pid_t child)
{
    int64_t until = now_ms() + PATIENCE_MS;
    int status;

    while (waitpid(child, &status, WNOHANG) == 0) {
        if (now_ms() > until) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            fail_msg("%s", "the child hangs");
        }
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    }
    return status;
}

#endif
