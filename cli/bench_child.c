#define _GNU_SOURCE
#include "bench_child.h"
#include "interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { END_MOST_MS = 3000, LOOK_UP_MS = 100 };

static _Noreturn void be_child(const int down[2],
                               const int up[2],
                               void (*live)(const struct simba__bench_job *job,
                                            struct simba__bench_child *self),
                               const struct simba__bench_job *job)
{
    struct simba__bench_child self = {.in = down[0], .out = up[1]};

    (void)close(down[1]);
    (void)close(up[0]);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    simba__interrupt_ignore(); /* the parent sees to us */
    live(job, &self);
    _exit(0);
}

int simba__bench_child_start(struct simba__bench_child *child,
                             void (*live)(const struct simba__bench_job *job,
                                          struct simba__bench_child *self),
                             const struct simba__bench_job *job,
                             simba_error *error)
{
    int down[2], up[2];

    (void)signal(SIGPIPE, SIG_IGN); /* one that died is heard of */
    memset(child, 0, sizeof(*child));
    if (pipe2(down, O_CLOEXEC) != 0 || pipe2(up, O_CLOEXEC) != 0) {
        return simba_error_set(error, SIMBA_EINTERNAL, errno, "pipe: %s",
                               strerror(errno));
    }
    child->pid = fork();
    if (child->pid == 0) {
        be_child(down, up, live, job);
    }
    (void)close(down[0]);
    (void)close(up[1]);
    child->in = up[0];
    child->out = down[1];
    if (child->pid < 0) {
        return simba_error_set(error, SIMBA_EINTERNAL, errno, "fork: %s",
                               strerror(errno));
    }
    return SIMBA_OK;
}

static void close_pipes(struct simba__bench_child *child)
{
    if (child->out > 0) {
        (void)close(child->out);
        (void)close(child->in);
    }
    child->in = child->out = 0;
}

void simba__bench_child_kill(struct simba__bench_child *child)
{
    if (child->pid > 0) {
        (void)kill(child->pid, SIGKILL);
        while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    child->pid = 0;
    close_pipes(child);
}

/* It may sleep in a store that nobody rings any more. */
void simba__bench_child_end(struct simba__bench_child *child)
{
    int64_t until_ns = simba__bench_now_ns() + END_MOST_MS * INT64_C(1000000);
    struct timespec pause = {0, 1000000};

    close_pipes(child);
    while (child->pid > 0 && simba__bench_now_ns() < until_ns) {
        if (waitpid(child->pid, NULL, WNOHANG) == child->pid) {
            child->pid = 0;
        } else {
            (void)nanosleep(&pause, NULL);
        }
    }
    simba__bench_child_kill(child);
}

bool simba__bench_tell(int fd, const void *what, size_t size)
{
    return write(fd, what, size) == (ssize_t)size;
}

/* A signal may come right before we wait, and then it does not wake us. */
static bool await_answer(int fd)
{
    struct pollfd in = {.fd = fd, .events = POLLIN};

    while (simba__interrupt() == 0) {
        if (poll(&in, 1, LOOK_UP_MS) > 0) {
            return true;
        }
    }
    return false;
}

int simba__bench_hear(int fd, void *what, size_t size, simba_error *error)
{
    size_t heard = 0;
    ssize_t length;

    do {
        if (!await_answer(fd)) {
            return simba__bench_cancel(error);
        }
        length = read(fd, (char *)what + heard, size - heard);
        heard += length > 0 ? (size_t)length : 0;
    } while (heard < size && (length > 0 || (length < 0 && errno == EINTR)));
    if (heard < size) {
        return simba_error_set(error, SIMBA_EINTERNAL, 0,
                               "another process of the bench has died");
    }
    return SIMBA_OK;
}
