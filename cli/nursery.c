/* The nursery: makes one CMD after the other. The guardian can't: it has left
 * the user's session, and a session can't be joined.
 *
 * Each CMD must be the guardian's own child all the same, to be reaped by it
 * and nobody else. So its parent, a helper, ends at once, and the orphan goes
 * to the nearest subreaper above, which is the guardian. */
#define _GNU_SOURCE
#include "nursery.h"
#include "exit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the helper. The group is made here, too: the guardian is of another
 * session and may not. */
static _Noreturn void deliver(struct simba__job *job, int link, int gate[2])
{
    pid_t cmd = fork();

    if (cmd == 0) {
        (void)close(link);
        (void)close(gate[1]);
        simba__child_run(job, gate[0]);
    }
    if (cmd > 0) {
        (void)setpgid(cmd, cmd);
        atomic_store(&job->share->cmd, cmd);
    }
    _exit(cmd < 0 ? errno : 0);
}

/* 0, or why there is none. When the helper has been waited for, CMD has its
 * new parent. */
static int make_command(struct simba__job *job, int link, int gate[2])
{
    int status = 0;
    pid_t helper;

    if (pipe2(gate, O_CLOEXEC) < 0) {
        gate[0] = gate[1] = -1;
        return errno;
    }
    helper = fork();
    if (helper == 0) {
        deliver(job, link, gate);
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
    if (gate[0] >= 0) {
        (void)close(gate[0]);
    }
    if (gate[1] >= 0) {
        (void)close(gate[1]); /* who waits there ends */
    }
    gate[0] = gate[1] = -1;
}

static void obey(struct simba__job *job, int link, int gate[2], char order)
{
    ssize_t ignored = 0;
    int answer;

    switch (order) {
    case SIMBA__NURSERY_MAKE:
        close_gate(gate);
        answer = make_command(job, link, gate);
        ignored = send(link, &answer, sizeof(answer), MSG_NOSIGNAL);
        break;
    case SIMBA__NURSERY_START:
        ignored = gate[1] < 0 ? 0 : write(gate[1], "!", 1);
        close_gate(gate);
        break;
    default:
        break;
    }
    (void)ignored; /* a guardian that is gone is seen next */
}

_Noreturn void simba__nursery_run(struct simba__job *job, int link)
{
    int gate[2] = {-1, -1};
    char order;
    ssize_t length;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 0);
    (void)prctl(PR_SET_NAME, "simba-nursery");
    for (;;) {
        length = read(link, &order, sizeof(order));
        if (length == 1) {
            obey(job, link, gate, order);
        } else if (length == 0 || errno != EINTR) {
            _exit(0);
        }
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
        simba__nursery_run(job, ends[1]);
    }
    (void)close(ends[1]);
    *link = ends[0];
    return pid;
}

void simba__nursery_order(int link, enum simba__nursery_order order)
{
    char word = (char)order;

    (void)send(link, &word, sizeof(word), MSG_NOSIGNAL | MSG_DONTWAIT);
}

int simba__nursery_answer(int link)
{
    int answer = 0;
    ssize_t length = recv(link, &answer, sizeof(answer), MSG_DONTWAIT);

    if (length == (ssize_t)sizeof(answer)) {
        return answer;
    }
    return length < 0 && (errno == EAGAIN || errno == EINTR) ? -1 : ECHILD;
}

void simba__nursery_end(pid_t nursery)
{
    (void)kill(nursery, SIGKILL);
    while (waitpid(nursery, NULL, (int)__WCLONE) < 0 && errno == EINTR) {
    }
}
