/* The process that becomes CMD, and the nursery that makes one after the other.
 *
 * CMD is forked in the user's session, and waits at the gate until the mutex is
 * held and it may run. The guardian can't make it anew: it has left the user's
 * session, and a session can't be joined. So the nursery stays there. Each CMD
 * must be the guardian's own child all the same, to be reaped by it and nobody
 * else: its parent, a helper, ends at once, and the orphan goes to the nearest
 * subreaper above, which is the guardian. */
#define _GNU_SOURCE
#include "cli/clock.h"
#include "cli/job.h"
#include "util/file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- CMD ----------------------------------------------------------------- */

/* SIMBA_REDIS_PASSWORD and the like are simba's alone. */
static bool is_secret(const char *variable)
{
    static const char ending[] = "_PASSWORD";
    size_t length = strcspn(variable, "=");

    return strncmp(variable, "SIMBA_", strlen("SIMBA_")) == 0 &&
           length > strlen(ending) &&
           strncmp(variable + length - strlen(ending), ending,
                   strlen(ending)) == 0;
}

/* What is held: by us, and by those above us. Without memory CMD does without.
 */
static void put_held(const struct simba__job *job)
{
    const char *above = secure_getenv(SIMBA__HELD);
    char *ours = simba__job_held(job->mutex, job->share->id, job->share->token);
    char *all = NULL;

    if (ours != NULL && asprintf(&all, "%s%s%s", above == NULL ? "" : above,
                                 above == NULL ? "" : " ", ours) >= 0) {
        (void)setenv(SIMBA__HELD, all, 1);
        free(all);
    }
    free(ours);
}

_Noreturn void simba__child_run(struct simba__job *job, int gate)
{
    struct simba__share *share = job->share;
    char word, token[24], slot[16];
    ssize_t length;

    assert(gate >= 0 && job->argv[0] != NULL);
    (void)setpgid(0, 0);
    /* One byte opens the gate. End of file means that the guardian is gone or
     * the mutex was not got: then CMD must not run. */
    do {
        length = read(gate, &word, sizeof word);
    } while (length < 0 && errno == EINTR);
    if (length != 1) {
        _exit(SIMBA__EXIT_FAULT);
    }
    /* Not relied upon: front and guardian end CMD and what is below it. But
     * when both are killed in one stroke, this ends CMD at least. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != atomic_load(&share->guardian)) {
        _exit(SIMBA__EXIT_FAULT);
    }
    /* The guardian may have been stopped between its look at the clock and the
     * opening of the gate. */
    if (simba__clock_ms() >= atomic_load(&share->use_until_ms)) {
        atomic_store(&share->exec_errno, SIMBA__TOO_LATE);
        _exit(SIMBA__EXIT_LOST);
    }
    /* Done here and not by the front: CMD must not read from the terminal
     * before. SIGTTOU is blocked, so a process group in the background may do
     * it. */
    if (job->is_tty_for_cmd && tcgetpgrp(job->tty) == job->front_group &&
        tcsetpgrp(job->tty, getpid()) == 0) {
        atomic_store(&share->is_tty_lent, true);
    }
    (void)snprintf(token, sizeof token, "%" PRIu64, share->token);
    (void)setenv("SIMBA_MUTEX", job->mutex, 1);
    (void)setenv("SIMBA_TOKEN", token, 1);
    (void)setenv("SIMBA_OWNER_ID", share->id, 1);
    if (job->slots > 0 && share->slot != SIMBA_NO_SLOT) {
        (void)snprintf(slot, sizeof slot, "%" PRIu32, share->slot);
        (void)setenv("SIMBA_SLOT", slot, 1);
    } else {
        (void)unsetenv("SIMBA_SLOT"); /* of a simba above us */
    }
    put_held(job);
    if (!job->keeps_secrets) {
        simba__environment_drop(is_secret);
    }
    if (job->kind != SIMBA__JOB_LOCK) { /* systemd speaks to simba */
        (void)unsetenv("NOTIFY_SOCKET");
        (void)unsetenv("WATCHDOG_USEC");
        (void)unsetenv("WATCHDOG_PID");
    }
    (void)sigaction(SIGCHLD, &job->old_sigchld, NULL);
    (void)sigprocmask(SIG_SETMASK, &job->mask, NULL);
    (void)execvp(job->argv[0], job->argv);
    atomic_store(&share->exec_errno, errno);
    _exit(simba__exit_of_exec(errno));
}

/* --- the nursery --------------------------------------------------------- */

/* 0, or why there is none. When the helper has been waited for, CMD has its
 * new parent. */
static int make_command(struct simba__job *job, int link, int gate[2])
{
    int status = 0;
    pid_t helper, cmd;

    assert(gate[0] < 0 && gate[1] < 0);
    if (pipe2(gate, O_CLOEXEC) < 0) {
        gate[0] = gate[1] = -1;
        return errno;
    }
    helper = fork();
    if (helper == 0) {
        cmd = fork();
        if (cmd == 0) {
            (void)close(link);
            (void)close(gate[1]);
            simba__child_run(job, gate[0]);
        }
        if (cmd > 0) {
            /* Here, too: the guardian is of another session and may not. */
            (void)setpgid(cmd, cmd);
            atomic_store(&job->share->cmd, cmd);
        }
        _exit(cmd < 0 ? errno : 0);
    }
    if (helper < 0) {
        return errno;
    }
    while (waitpid(helper, &status, 0) < 0 && errno == EINTR) {
    }
    (void)close(gate[0]);
    gate[0] = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : ECHILD;
}

static void close_gate(int gate[2])
{
    for (int i = 0; i < 2; i++) {
        if (gate[i] >= 0) {
            (void)close(gate[i]); /* who waits there ends */
        }
        gate[i] = -1;
    }
}

static _Noreturn void be_nursery(struct simba__job *job, int link)
{
    int gate[2] = {-1, -1};
    ssize_t length, ignored = 0;
    int answer;
    char order;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 0);
    (void)prctl(PR_SET_NAME, "simba-nursery");
    for (;;) {
        length = read(link, &order, sizeof order);
        if (length == 0 || (length < 0 && errno != EINTR)) {
            _exit(0);
        }
        if (length == 1 && order == SIMBA__NURSERY_MAKE) {
            close_gate(gate);
            answer = make_command(job, link, gate);
            ignored = send(link, &answer, sizeof answer, MSG_NOSIGNAL);
        } else if (length == 1) {
            ignored = gate[1] < 0 ? 0 : write(gate[1], "!", 1);
            close_gate(gate);
        }
        (void)ignored; /* a guardian that is gone is seen next */
    }
}

/* No signal is sent at its end, which makes it a child that waitpid() does not
 * see unless it is asked to: the guardian's other children are CMD and what CMD
 * left, and of these it must know whether any is left. The guardian has one
 * thread yet, so that a bare clone() does what fork() would. */
static pid_t fork_unseen(void)
{
#if defined(__s390__)
    return (pid_t)syscall(SYS_clone, NULL, 0UL, NULL, NULL, 0UL);
#else
    return (pid_t)syscall(SYS_clone, 0UL, NULL, NULL, NULL, 0UL);
#endif
}

pid_t simba__nursery_start(struct simba__job *job, int front, int *link)
{
    int ends[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
        return -1;
    }
    pid = fork_unseen();
    if (pid == 0) {
        (void)close(ends[0]);
        (void)close(front);
        be_nursery(job, ends[1]);
    }
    (void)close(ends[1]);
    *link = ends[0];
    return pid;
}

void simba__nursery_order(int link, enum simba__nursery_order order)
{
    char word = (char)order;

    (void)send(link, &word, sizeof word, MSG_NOSIGNAL | MSG_DONTWAIT);
}

int simba__nursery_answer(int link)
{
    int answer = 0;
    ssize_t length = recv(link, &answer, sizeof answer, MSG_DONTWAIT);

    if (length == (ssize_t)sizeof answer) {
        return answer;
    }
    return length < 0 && (errno == EAGAIN || errno == EINTR) ? -1 : ECHILD;
}

void simba__nursery_end(pid_t nursery)
{
    assert(nursery > 0); /* else all of our group would be killed */
    (void)kill(nursery, SIGKILL);
    while (waitpid(nursery, NULL, (int)__WCLONE) < 0 && errno == EINTR) {
    }
}
