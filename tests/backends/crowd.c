/* Threads that contend, and who watches them; see crowd.h. */
#define _GNU_SOURCE
#include "crowd.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <simba.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4, PATIENCE_MS = 60000 };

const char *crowd_simba;
int64_t crowd_ttl_ms = 1500, crowd_transition_ms = 1000;

static simba_store *stores[THREADS];
static simba_locker *lockers[THREADS];
static pthread_t threads[THREADS];
static char trace[128];
static _Atomic bool is_over;
static _Atomic int doubles, regressions, tenures;
static _Atomic uint64_t last_token;

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void nap_ms(int64_t ms)
{
    struct timespec nap = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&nap, NULL);
}

/* --- contenders ---------------------------------------------------------- */

static void look_around(int me)
{
    for (int i = 0; i < THREADS; i++) {
        if (i != me && simba_locker_is_owner(lockers[i]) &&
            simba_locker_is_owner(lockers[me]) &&
            simba_locker_is_owner(lockers[i])) {
            atomic_fetch_add(&doubles, 1);
        }
    }
}

/* Of two tenures that follow each other the later has the greater token. */
static void note_token(int me, uint64_t token)
{
    uint64_t last = atomic_load(&last_token);

    if (token <= last && simba_locker_is_owner(lockers[me])) {
        atomic_fetch_add(&regressions, 1);
    }
    while (last < token &&
           !atomic_compare_exchange_weak(&last_token, &last, token)) {
    }
}

static void *contend(void *argument)
{
    int me = (int)(intptr_t)argument;

    while (!atomic_load(&is_over)) {
        uint64_t token;

        if (simba_locker_acquire(lockers[me], 500, &token, NULL) != SIMBA_OK) {
            nap_ms(1);
            continue;
        }
        look_around(me);
        note_token(me, token);
        nap_ms(1);
        look_around(me);
        atomic_fetch_add(&tenures, 1);
        (void)!simba_locker_release(lockers[me], NULL);
    }
    return NULL;
}

static void open_contender(int which, const char *url)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_error error;

    options.mutex = CROWD_MUTEX;
    options.times.ttl_ms = crowd_ttl_ms;
    options.times.transition_ms = crowd_transition_ms;
    if (simba_store_open(url, NULL, &stores[which], &error) != SIMBA_OK ||
        simba_locker_open(stores[which], &options, &lockers[which], &error) !=
            SIMBA_OK) {
        fail_msg("%s", error.message);
    }
}

void crowd_begin(const char *url, const char *directory)
{
    char traced[1400];

    atomic_store(&is_over, false);
    atomic_store(&last_token, 0);
    atomic_store(&doubles, 0);
    atomic_store(&regressions, 0);
    atomic_store(&tenures, 0);
    snprintf(trace, sizeof trace, "%s/trace.jsonl", directory);
    unlink(trace); /* of the test before */
    snprintf(traced, sizeof traced, "trace:%s:%s", trace, url);
    for (int i = 0; i < THREADS; i++) {
        open_contender(i, traced);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, contend, (void *)(intptr_t)i);
    }
}

int64_t crowd_await(int more)
{
    int64_t from = now_ms();
    int wanted = atomic_load(&tenures) + more;

    while (atomic_load(&tenures) < wanted) {
        if (now_ms() - from > PATIENCE_MS) {
            fail_msg("nobody owns it any more after %d tenures",
                     atomic_load(&tenures));
        }
        nap_ms(1);
    }
    return now_ms() - from;
}

/* --- judging ------------------------------------------------------------- */

static void count_finding(struct crowd_verdict *verdict, const char *line)
{
    static const char overlap[] = "{\"finding\":\"overlap\"";
    static const char unfair[] = "{\"finding\":\"unfair\"";

    if (strncmp(line, "{\"events\":", 10) == 0) {
        verdict->events = atoll(line + 10);
    } else if (strncmp(line, overlap, sizeof overlap - 1) == 0) {
        verdict->overlaps++;
    } else if (strncmp(line, unfair, sizeof unfair - 1) == 0) {
        verdict->unfair++;
    } else {
        verdict->others++;
        print_message("%s", line);
    }
}

struct crowd_verdict crowd_judge(const char *path)
{
    struct crowd_verdict verdict = {0, 0, 0, 0};
    char command[600], line[1024];
    FILE *told;
    int status;

    snprintf(command, sizeof command, "'%s' --json verify '%s'", crowd_simba,
             path);
    told = popen(command, "re");
    assert_non_null(told);
    while (fgets(line, sizeof line, told) != NULL) {
        count_finding(&verdict, line);
    }
    status = pclose(told);
    assert_true(status == 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 1));
    assert_true(verdict.events > 0);
    return verdict;
}

void crowd_end(enum crowd_bounds bounds)
{
    struct crowd_verdict verdict;

    atomic_store(&is_over, true);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        simba_locker_close(lockers[i]);
        simba_store_close(stores[i]);
    }
    verdict = crowd_judge(trace);
    assert_int_equal(verdict.others, 0);
    if (bounds == CROWD_MUST_EXCLUDE) {
        /* Of two owners at once the second may note its token first. */
        assert_int_equal(atomic_load(&regressions), 0);
        assert_int_equal(verdict.overlaps, 0);
        assert_int_equal(atomic_load(&doubles), 0);
    }
    assert_true(verdict.events > 2 * atomic_load(&tenures));
}
