/* Other processes at the same database: the test's own program, started anew
 * with a role. A child says what it does on a pipe, a line at a time. */
#ifndef TESTS_BACKENDS_SQLITE_OTHER_PROCESS_H
#define TESTS_BACKENDS_SQLITE_OTHER_PROCESS_H

#include "driver.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

struct child {
    pid_t pid;
    FILE *says;
};

static inline int64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* argv: program, role, database, parameters, id. */
static inline struct child start(const char *role,
                                 const char *parameters,
                                 const char *id)
{
    char self[] = "/proc/self/exe";
    char *arguments[] = {self,
                         (char *)(uintptr_t)role,
                         database,
                         (char *)(uintptr_t)parameters,
                         (char *)(uintptr_t)id,
                         NULL};
    posix_spawn_file_actions_t actions;
    struct child child;
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    assert_int_equal(
        posix_spawn(&child.pid, self, &actions, NULL, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    child.says = fdopen(ends[0], "r");
    assert_non_null(child.says);
    return child;
}

/* Waits until the child says so. */
static inline void hear(struct child *child, const char *word)
{
    char line[256];

    if (fgets(line, sizeof line, child->says) == NULL) {
        fail_msg("the child said nothing, not even %s", word);
    }
    line[strcspn(line, "\n")] = '\0';
    assert_string_equal(line, word);
}

static inline void finish(struct child *child, int signal_number)
{
    int status;

    if (signal_number != 0) {
        kill(child->pid, signal_number);
    }
    assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
    if (signal_number == 0) {
        assert_int_equal(status, 0);
    }
    fclose(child->says);
}

/* --- roles --------------------------------------------------------------- */

static inline void say(const char *word)
{
    puts(word);
    fflush(stdout);
}

/* Asks until it is granted, waiting for wake-ups; for at most ten seconds. */
static inline bool contend(struct who *who)
{
    int64_t until_ms = simba_loop_now_ms() + 10000;

    while (simba_loop_now_ms() < until_ms) {
        ask(who);
        if (got.mine) {
            return true;
        }
        handle_woken(who->at, MUTEX, (int)(got.wait_ms + 1));
    }
    return false;
}

/* Owns it until it is killed. */
static inline int role_hold(struct who *who)
{
    ask(who);
    say(got.mine ? "owner" : "refused");
    nap_ms(20000);
    return 0;
}

/* Stands in the queue and hears nothing, until it is killed. */
static inline int role_stand(struct who *who)
{
    ask(who);
    say(got.is_queued ? "queued" : "not queued");
    nap_ms(20000);
    return 0;
}

/* Waits for the mutex, has it for a moment, and goes. */
static inline int role_wait(struct who *who)
{
    ask(who);
    say(got.is_queued ? "queued" : "not queued");
    if (!contend(who)) {
        return 1;
    }
    say("owner");
    release(who);
    return 0;
}

/* Goes to live in a time namespace where the machine was booted long ago.
 * False when that is not allowed. */
static inline bool shift_clock(void)
{
    FILE *offsets;
    pid_t pid;

    if (unshare(CLONE_NEWTIME) != 0) {
        return false;
    }
    offsets = fopen("/proc/self/timens_offsets", "w");
    if (offsets == NULL || fputs("boottime 1000000 0", offsets) < 0 ||
        fclose(offsets) != 0) {
        return false;
    }
    pid = fork(); /* only children live there */
    if (pid != 0) {
        waitpid(pid, NULL, 0);
        _exit(0);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return true;
}

/* Plays a role in a child; -1: this is not a child. */
static inline int play(int argc, char **argv)
{
    struct who who;

    if (argc < 5) {
        return -1;
    }
    snprintf(database, sizeof database, "%s", argv[2]);
    if (strcmp(argv[1], "shift") == 0 && !shift_clock()) {
        say("not allowed");
        return 0;
    }
    must_open(&first, argv[3]);
    who = person(&first, argv[4]);
    if (strcmp(argv[1], "hold") == 0 || strcmp(argv[1], "shift") == 0) {
        return role_hold(&who);
    }
    if (strcmp(argv[1], "stand") == 0) {
        return role_stand(&who);
    }
    if (strcmp(argv[1], "wait") == 0) {
        int rc = role_wait(&who);

        handle_close(&first);
        return rc;
    }
    return 2;
}

#endif
