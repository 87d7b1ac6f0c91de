/* The process that becomes CMD. It is forked in the user's session, and waits
 * at the gate until the mutex is held and CMD may run. */
#define _GNU_SOURCE
#include "clock.h"
#include "exit.h"
#include "job.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

/* One byte opens the gate. End of file means that the guardian is gone or the
 * mutex was not got: then CMD must not run. */
static void wait_at(int gate)
{
    char word;
    ssize_t length;

    do {
        length = read(gate, &word, sizeof(word));
    } while (length < 0 && errno == EINTR);
    if (length != 1) {
        _exit(SIMBA__EXIT_FAULT);
    }
}

/* Done here and not by the front: CMD must not read from the terminal before.
 * SIGTTOU is blocked, so a process group in the background may do it. */
static void take_terminal(const struct simba__job *job)
{
    if (job->is_tty_for_cmd && tcgetpgrp(job->tty) == job->front_group &&
        tcsetpgrp(job->tty, getpid()) == 0) {
        atomic_store(&job->share->is_tty_lent, true);
    }
}

static void tell_command(const struct simba__job *job)
{
    char token[24];

    (void)snprintf(token, sizeof(token), "%" PRIu64, job->share->token);
    (void)setenv("SIMBA_MUTEX", job->mutex, 1);
    (void)setenv("SIMBA_TOKEN", token, 1);
    (void)setenv("SIMBA_OWNER_ID", job->share->id, 1);
    if (job->kind != SIMBA__JOB_LOCK) { /* systemd speaks to simba */
        (void)unsetenv("NOTIFY_SOCKET");
        (void)unsetenv("WATCHDOG_USEC");
        (void)unsetenv("WATCHDOG_PID");
    }
}

/* The guardian may have been stopped between its look at the clock and the
 * opening of the gate. */
static bool is_too_late(const struct simba__share *share)
{
    return simba__clock_ms() >= atomic_load(&share->use_until_ms);
}

_Noreturn void simba__child_run(struct simba__job *job, int gate)
{
    (void)setpgid(0, 0);
    wait_at(gate);
    /* Not relied upon: front and guardian end CMD and what is below it. But
     * when both are killed in one stroke, this ends CMD at least. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != atomic_load(&job->share->guardian)) {
        _exit(SIMBA__EXIT_FAULT);
    }
    if (is_too_late(job->share)) {
        atomic_store(&job->share->exec_errno, SIMBA__TOO_LATE);
        _exit(SIMBA__EXIT_LOST);
    }
    take_terminal(job);
    tell_command(job);
    (void)sigaction(SIGCHLD, &job->old_sigchld, NULL);
    (void)sigprocmask(SIG_SETMASK, &job->mask, NULL);
    (void)execvp(job->argv[0], job->argv);
    atomic_store(&job->share->exec_errno, errno);
    _exit(simba__exit_of_exec(errno));
}
