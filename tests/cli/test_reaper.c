/* Who is killed when a lock ends that has locks within: guardians last, for a
 * mutex whose guardian is dead goes to the next. */
#define _GNU_SOURCE
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixtures/unit_test.h"

#include "cli/clock.h"
#include "cli/reaper.h"

enum { LONG_MS = 60000 };

static struct simba__reaper reaper;
static pid_t guardian, other;

static pid_t start_child(const char *name)
{
    int pipes[2];
    pid_t pid;
    char ready;

    assert_int_equal(pipe(pipes), 0);
    pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)prctl(PR_SET_NAME, name);
        (void)!write(pipes[1], "", 1);
        for (;;) {
            (void)pause();
        }
    }
    assert_int_equal(read(pipes[0], &ready, 1), 1);
    close(pipes[0]);
    close(pipes[1]);
    return pid;
}

static int start(void **state)
{
    (void)state;
    reaper = (struct simba__reaper){.root = getpid()};
    other = start_child("other");
    guardian = start_child(SIMBA__REAPER_GUARDIAN);
    return 0;
}

static int end(void **state)
{
    (void)state;
    (void)kill(guardian, SIGKILL);
    (void)kill(other, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0) {
    }
    return 0;
}

#define REAPER_TEST(name) TEST_AROUND(name, start, end)

/* KILL was sent first so long ago, and there is time for so long. */
static void kill_all(int64_t since_ms, int64_t left_ms)
{
    int64_t now_ms = simba__clock_ms();

    simba__reaper_spare(&reaper, now_ms - since_ms, now_ms + left_ms);
    assert_true(simba__reaper_signal(&reaper, SIGKILL, 0) > 0);
}

static bool is_killed(pid_t pid, int how)
{
    return waitpid(pid, NULL, how) == pid;
}

/* However long it takes those who were killed to be gone. */
REAPER_TEST(test_reaper__guardian_outlives_whom_it_guards)
{
    kill_all(LONG_MS, LONG_MS);
    assert_true(is_killed(other, 0));
    assert_false(is_killed(guardian, WNOHANG));
    kill_all(0, LONG_MS); /* it is spared for a moment even then */
    assert_false(is_killed(guardian, WNOHANG));
    kill_all(LONG_MS, LONG_MS);
    assert_true(is_killed(guardian, 0));
}

REAPER_TEST(test_reaper__nobody_is_spared_in_the_last_moment)
{
    kill_all(0, 0);
    assert_true(is_killed(other, 0));
    assert_true(is_killed(guardian, 0));
}
