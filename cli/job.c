/* What front and guardian must agree upon. */
#define _GNU_SOURCE
#include "job.h"

/* A lock that waits ends as any other program would. Who leads is a daemon, to
 * whom USR1 and the like are messages for its CMD, and so is HUP where no
 * terminal can hang up. */
bool simba__job_is_ended_by(const struct simba__job *job, int number)
{
    switch (number) {
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
    case SIGCONT:
    case SIGURG:
    case SIGWINCH:
        return false;
    case SIGINT:
    case SIGQUIT:
    case SIGTERM:
        return true;
    case SIGHUP:
        return job->kind == SIMBA__JOB_LOCK || job->tty >= 0;
    default:
        return job->kind == SIMBA__JOB_LOCK;
    }
}
