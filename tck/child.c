#include "child.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_FAILED = 1, DISMISSAL_MS = 3000 };

_Noreturn void tck_child_fail(struct tck_child *self, const char *message)
{
    snprintf(self->message, sizeof self->message, "in a child process: %s",
             message);
    atomic_store(&self->is_failed, true);
    _exit(EXIT_FAILED);
}

static void reap(struct tck_child *child)
{
    if (child->pid > 0) {
        (void)kill(child->pid, SIGKILL);
        while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR) {
        }
        child->pid = 0;
    }
}

/* What it owns would stay owned until the end of its lease, so it is asked to
 * go first. */
static void dismiss(struct tck_child *child)
{
    int64_t until = simba_loop_now_ms() + DISMISSAL_MS;

    atomic_store(&child->is_unwanted, true);
    if (child->pid <= 0 || kill(child->pid, SIGCONT) != 0) {
        return;
    }
    while (simba_loop_now_ms() < until) {
        if (waitpid(child->pid, NULL, WNOHANG) == child->pid) {
            child->pid = 0;
            return;
        }
        tck_sleep_until(simba_loop_now_ms() + 1);
    }
}

static void end_child(void *what)
{
    struct tck_child *child = what;

    dismiss(child);
    reap(child);
    child->parent->backstops += atomic_load(&child->backstops);
    (void)munmap(child, sizeof *child);
}

static _Noreturn void leave(struct tck *t)
{
    while (t->deeds != NULL) {
        tck_now(t, t->deeds->what);
    }
    atomic_store(&t->child->backstops, t->backstops);
    _exit(0);
}

void tck_child_check_wanted(struct tck *t)
{
    assert(t->child != NULL);
    if (atomic_load(&t->child->is_unwanted)) {
        leave(t);
    }
}

/* What the parent had open is the parent's; the child has deeds of its own. */
static _Noreturn void be_child(struct tck *parent,
                               struct tck_child *self,
                               void (*live)(struct tck *t,
                                            struct tck_child *self))
{
    struct tck t = *parent;

    assert(parent->child == NULL);
    t.deeds = NULL;
    t.backstops = 0;
    t.child = self;
    t.random += (uint64_t)getpid() << 32; /* draw other lots than the parent */
    live(&t, self);
    leave(&t);
}

struct tck_child *tck_child(struct tck *t,
                            void (*live)(struct tck *t, struct tck_child *self))
{
    struct tck_child *child = mmap(NULL, sizeof *child, PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t parent = getpid();
    pid_t pid;

    if (child == MAP_FAILED) {
        tck_fail(t, TCK_HERE, "no shared memory: %s", strerror(errno));
    }
    child->parent = t;
    tck_later(t, end_child, child);
    pid = fork();
    if (pid < 0) {
        tck_fail(t, TCK_HERE, "cannot fork: %s", strerror(errno));
    }
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(0);
        }
        be_child(t, child, live);
    }
    child->pid = pid; /* the page is shared: only the parent writes it */
    return child;
}

static void pass_on(struct tck *t, struct tck_child *child)
{
    if (atomic_load(&child->is_failed)) {
        tck_fail(t, "child", "%s", child->message);
    }
}

void tck_child_await(struct tck *t, struct tck_child *child, int step)
{
    int64_t until = tck_patience(t);

    assert(step > 0);
    while (atomic_load(&child->step) < step) {
        pass_on(t, child);
        tck_pause(t, until, TCK_HERE, "a child process");
    }
}

void tck_child_obey(struct tck *t, struct tck_child *self, int order)
{
    AWAIT(t, atomic_load(&self->order) >= order);
}

void tck_child_join(struct tck *t, struct tck_child *child)
{
    int64_t until = tck_patience(t);
    int status = 0;

    assert(child->pid > 0);
    while (waitpid(child->pid, &status, WNOHANG) == 0) {
        tck_pause(t, until, TCK_HERE, "the end of a child process");
    }
    child->pid = 0;
    pass_on(t, child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        tck_fail(t, TCK_HERE, "a child process died, wait status %d", status);
    }
}

void tck_child_signal(struct tck *t, struct tck_child *child, int signal)
{
    if (signal == SIGKILL) {
        reap(child);
    } else if (child->pid <= 0 || kill(child->pid, signal) != 0) {
        tck_fail(t, TCK_HERE, "cannot signal a child: %s", strerror(errno));
    }
}
