/* Job control. CMD has a process group of its own, and the terminal while it
 * is in the foreground; when it is stopped the front stops too, so that the
 * shell sees one job.
 *
 * The kernel lets a process group be stopped from the terminal only if one of
 * its members has a parent in the same session but another group: somebody who
 * could continue it. CMD's parent, the guardian, is of another session. So a
 * child of the front, the anchor, joins CMD's group and does nothing there. */
#define _GNU_SOURCE
#include "cli/front.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Is there nobody who could continue our own process group? Then CMD must not
 * be stopped either. Looks upwards until a parent is of another group. Within
 * another lock there is none, but that one's anchor is in our group. */
static bool is_orphaned(void)
{
    pid_t group = getpgrp();
    pid_t session = getsid(0);
    pid_t parent = getppid();

    while (parent > 1 && getsid(parent) == session) {
        if (getpgid(parent) != group) {
            return false;
        }
        parent = simba__reaper_parent(parent);
    }
    return !simba__reaper_is_anchored(group);
}

static bool is_pipe(int descriptor)
{
    struct stat status;

    return fstat(descriptor, &status) == 0 &&
           (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

/* In a pipeline the terminal may be wanted by another member of our group, as
 * in `simba lock x -- make | less`; CMD then gets it when it asks for it. */
void simba__terminal_find(struct simba__front *front)
{
    struct simba__job *job = front->job;

    job->front_group = getpgrp();
    job->tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
    if (job->tty < 0) {
        return;
    }
    job->is_tty_for_cmd = !is_pipe(STDIN_FILENO) && !is_pipe(STDOUT_FILENO);
    job->is_anchor_first = !is_orphaned();
    front->has_modes = tcgetattr(job->tty, &front->modes) == 0;
}

void simba__terminal_anchor(struct simba__front *front)
{
    pid_t cmd = atomic_load(&front->share->cmd);
    pid_t self = front->job->front;

    if (front->anchor != 0 || cmd == 0) {
        return;
    }
    front->anchor = fork();
    if (front->anchor == 0) {
        /* It lives as long as the front and answers to nothing. */
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)prctl(PR_SET_NAME, "simba-anchor");
        (void)close_range(0, ~0U, 0);
        while (getppid() == self) {
            (void)pause(); /* every signal is blocked */
        }
        _exit(0);
    }
    if (front->anchor < 0) {
        front->anchor = 0; /* without one CMD can't be stopped, that is all */
    } else {
        (void)setpgid(front->anchor, cmd);
    }
}

/* All signals are blocked, SIGTTOU too: we may do this from the background. */
static void take_back(struct simba__front *front)
{
    if (atomic_exchange(&front->share->is_tty_lent, false)) {
        (void)tcsetpgrp(front->job->tty, front->job->front_group);
    }
}

static bool is_foreground(const struct simba__front *front)
{
    return front->job->tty >= 0 &&
           tcgetpgrp(front->job->tty) == front->job->front_group;
}

static void discard(int number)
{
    static const struct timespec at_once = {0, 0};
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, number);
    (void)sigtimedwait(&set, NULL, &at_once);
}

/* By the signal that was meant, so that the shell can tell its user. Nothing
 * happens when our group is orphaned, as for any other program. It is sent
 * once: with a second one, a SIGCONT that comes in between would be lost. */
void simba__terminal_sleep(struct simba__front *front, pid_t whom, int number)
{
    sigset_t set;
    sigset_t old;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, number);
    discard(SIGCONT);
    atomic_store(&front->share->is_front_idle, true);
    (void)kill(whom, number);
    (void)sigprocmask(SIG_UNBLOCK, &set, &old); /* here we sleep */
    (void)sigprocmask(SIG_SETMASK, &old, NULL);
    atomic_store(&front->share->is_front_idle, false);
    discard(SIGCONT);
}

void simba__terminal_on_continued(struct simba__front *front)
{
    front->resumes++;
    if (front->job->is_tty_for_cmd && is_foreground(front) &&
        atomic_load(&front->share->phase) == SIMBA__RUNNING &&
        tcsetpgrp(front->job->tty, atomic_load(&front->share->cmd)) == 0) {
        atomic_store(&front->share->is_tty_lent, true);
    }
    simba__front_send_signal(front, SIGCONT);
}

void simba__terminal_on_stopped(struct simba__front *front, int number)
{
    bool is_about_tty = number == SIGTTIN || number == SIGTTOU;

    if (is_about_tty && is_foreground(front)) {
        /* CMD asks for the terminal, and it is ours to give. */
        front->job->is_tty_for_cmd = true;
        simba__terminal_on_continued(front);
        return;
    }
    if (front->job->tty < 0 && number == SIGSTOP) {
        return; /* somebody stopped CMD and only CMD: no job to stop with it */
    }
    take_back(front);
    /* A key stops the whole group in the foreground. That was CMD's, but to the
     * shell it is one job with ours, and with a script that started us. */
    simba__terminal_sleep(front, number == SIGSTOP ? front->job->front : 0,
                          number);
    simba__terminal_on_continued(front);
}

void simba__terminal_leave(struct simba__front *front, int code)
{
    if (atomic_load(&front->share->is_tty_lent)) {
        take_back(front);
        /* A CMD that was killed may leave the terminal raw. One that ended by
         * itself has set it as it wanted. */
        if (front->has_modes &&
            (code == SIMBA__EXIT_LOST || code > SIMBA__EXIT_SIGNAL)) {
            (void)tcsetattr(front->job->tty, TCSADRAIN, &front->modes);
        }
    }
    if (front->anchor != 0) {
        (void)kill(front->anchor, SIGKILL);
        (void)waitpid(front->anchor, NULL, 0);
        front->anchor = 0;
    }
}
