/* What the contenders of a mixed group have in common: how they write down what
 * they believe, and how long they own. `judge` reads it.
 *
 *   W ns    wants it            A ns    owns it
 *   S ns    still owns it       R ns    is about to release it
 *   E ns    wants it no more
 *   G ns sent until    read that it owns it, for which it had asked at `sent`:
 * by that its lease, first or renewed, ends at `until`
 *
 * Only players tell G: a JVM does not say when it asked.
 * Times are of CLOCK_MONOTONIC, as System.nanoTime() is on Linux. Each line is
 * one write, so that one who is killed has said all. */
#ifndef INTEROP_CONTENDER_H
#define INTEROP_CONTENDER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What is told to each: URL MUTEX ID TTL_MS TRANSITION_MS HOLD_MS SECONDS. */
struct plan {
    const char *url, *mutex, *id;
    int ttl_ms, transition_ms, hold_ms;
    int64_t until_ns;
};

static inline int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline void nap_ns(int64_t ns)
{
    nanosleep(&(struct timespec){ns / 1000000000, ns % 1000000000}, NULL);
}

static inline void nap_ms(int64_t ms)
{
    nap_ns(ms * 1000000);
}

static inline void say_of(char what, int64_t ns)
{
    char line[32];
    int length = snprintf(line, sizeof line, "%c %lld\n", what, (long long)ns);

    if (write(1, line, (size_t)length) != length) {
        exit(1);
    }
}

static inline void say(char what)
{
    say_of(what, now_ns());
}

/* It has just read that it owns it. */
static inline void say_granted(const struct plan *plan, int64_t sent_ns)
{
    char line[96];
    int64_t lease_ns =
        ((int64_t)plan->ttl_ms + plan->transition_ms) * INT64_C(1000000);
    int length =
        snprintf(line, sizeof line, "G %lld %lld %lld\n", (long long)now_ns(),
                 (long long)sent_ns, (long long)(sent_ns + lease_ns));

    if (write(1, line, (size_t)length) != length) {
        exit(1);
    }
}

/* Is a player to be stopped at this request? At one of INTEROP_STOPS; 0: none.
 */
static inline bool is_to_stop(void)
{
    const char *text = getenv("INTEROP_STOPS");
    long stops = text == NULL ? 0 : strtol(text, NULL, 10);

    return stops > 0 && random() % stops == 0;
}

/* The player is stopped in so many ns, for a second more than a lease. */
static inline void stop_in(const struct plan *plan, int64_t ns)
{
    pid_t player = getpid();

    signal(SIGCHLD, SIG_IGN); /* nobody waits for it */
    if (fork() != 0) {
        return;
    }
    nap_ns(ns);
    if (getppid() == player && kill(player, SIGSTOP) == 0) {
        nap_ms((int64_t)plan->ttl_ms + plan->transition_ms + 1000);
        (void)kill(player, SIGCONT);
    }
    _exit(0);
}

static inline struct plan read_plan(char **argv)
{
    struct plan plan = {argv[0], argv[1], argv[2], 0, 0, 0, 0};

    plan.ttl_ms = (int)strtol(argv[3], NULL, 10);
    plan.transition_ms = (int)strtol(argv[4], NULL, 10);
    plan.hold_ms = (int)strtol(argv[5], NULL, 10);
    plan.until_ns = now_ns() + strtoll(argv[6], NULL, 10) * 1000000000;
    return plan;
}

static inline bool is_time_left(const struct plan *plan)
{
    return now_ns() < plan->until_ns;
}

/* Works for as long as it is to own; ends early when it does not. Who is found
 * to own it owned it a moment ago, too: so the time is taken first, and one who
 * is stopped in between has claimed nothing. */
static inline void work(const struct plan *plan,
                        bool (*is_owner)(void *user),
                        void *user)
{
    int64_t at_ns = now_ns();
    int64_t until_ns = at_ns + (int64_t)plan->hold_ms * 1000000;

    for (char what = 'A'; at_ns < until_ns && is_owner(user); what = 'S') {
        say_of(what, at_ns);
        nap_ms(2);
        at_ns = now_ns();
    }
    say('R');
}

#endif
