/* The table of exit codes: see the table in simba(1). */
#include "exit.h"

#include <simba/error.h>

#include <errno.h>
#include <sys/wait.h>

int simba__exit_of_status(int status)
{
    switch (status) {
    case SIMBA_OK:
        return 0;
    case SIMBA_EBUSY:
    case SIMBA_ETIMEDOUT:
        return SIMBA__EXIT_NOT_ACQUIRED;
    case SIMBA_EINVAL:
    case SIMBA_EMISCONFIG:
    case SIMBA_ENOTINIT:
        return SIMBA__EXIT_CONFIG;
    case SIMBA_EUNAVAIL:
        return SIMBA__EXIT_UNAVAILABLE;
    case SIMBA_EDENIED:
        return SIMBA__EXIT_DENIED;
    case SIMBA_ELOST:
        return SIMBA__EXIT_LOST;
    default:
        return SIMBA__EXIT_FAULT;
    }
}

/* As env(1) and the shells do: not there at all, or there but no program. */
int simba__exit_of_exec(int error_number)
{
    return error_number == ENOENT ? SIMBA__EXIT_NOT_FOUND
                                  : SIMBA__EXIT_CANNOT_RUN;
}

int simba__exit_of_wait(int wait_status)
{
    if (WIFSIGNALED(wait_status)) {
        return SIMBA__EXIT_SIGNAL + WTERMSIG(wait_status);
    }
    return WEXITSTATUS(wait_status);
}
