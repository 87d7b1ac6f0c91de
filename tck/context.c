/* The context of one test: running it, undoing what it did, expectations. */
#include "child.h"
#include "kit.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum { TRIES_MOST = 10 };

/* A store that has tried for so long may say that it has not done it: on a busy
 * machine its own limits are reached. Before, that is a failure. */
enum { STORE_SLOW_MS = 900 };

/* How a test left: by its end, or by a jump. */
enum {
    LEFT_FAILED = 1,
    LEFT_SLOW = 2,
    LEFT_SKIPPED = 3,
    LEFT_CANCELLED = 4,
    LEFT_UNWOKEN = 5 /* the end, but without a wake-up that was owed */
};

/* --- undoing ------------------------------------------------------------- */

void tck_later(struct tck *t, void (*undo)(void *what), void *what)
{
    struct tck_deed *deed = calloc(1, sizeof *deed);

    if (deed == NULL) {
        undo(what);
        tck_fail(t, TCK_HERE, "out of memory");
    }
    deed->undo = undo;
    deed->what = what;
    deed->next = t->deeds;
    t->deeds = deed;
}

static void close_store(void *store)
{
    simba_store_close(store);
}

/* What the contenders of a handle were granted by is told until it is closed.
 */
static void count_backstops(struct tck *t, simba_store *store)
{
    simba_metrics *metrics = NULL;

    if (simba_metrics_read(store, &metrics, NULL) != SIMBA_OK) {
        return;
    }
    for (size_t i = 0; i < simba_metrics_count(metrics); i++) {
        t->backstops += (unsigned)simba_metrics_counts(metrics, i)->backstops;
    }
    simba_metrics_free(metrics);
}

void tck_now(struct tck *t, void *what)
{
    struct tck_deed **d = &t->deeds;
    struct tck_deed *deed;

    while (*d != NULL && (*d)->what != what) {
        d = &(*d)->next;
    }
    deed = *d;
    if (deed != NULL) {
        *d = deed->next;
        if (deed->undo == close_store) {
            count_backstops(t, what);
        }
        deed->undo(what);
        free(deed);
    }
}

static void undo_all(struct tck *t)
{
    while (t->deeds != NULL) {
        tck_now(t, t->deeds->what);
    }
}

void *tck_alloc(struct tck *t, size_t size)
{
    void *memory = calloc(1, size);

    if (memory == NULL) {
        tck_fail(t, TCK_HERE, "out of memory");
    }
    tck_later(t, free, memory);
    return memory;
}

/* --- running ------------------------------------------------------------- */

/* 0, or how it left. */
static int run_once(struct tck *t, const struct tck_case *test)
{
    int left;

    assert(t->deeds == NULL);
    t->backstops = 0;
    snprintf(t->mutex, sizeof t->mutex, "tck ");
    tck_fresh(t->mutex + strlen(t->mutex));
    left = setjmp(t->out);
    if (left == 0) {
        test->run(t);
    }
    undo_all(t);
    if (left == 0 && t->backstops > 0 && t->must_wake &&
        (test->marks & TCK_LAPSES) == 0) {
        snprintf(t->message, sizeof t->message,
                 "who waited was granted by asking again, %u times: no wake-up "
                 "came",
                 t->backstops);
        left = LEFT_UNWOKEN;
    }
    return left;
}

/* A machine that was too slow is given more time with every second try. */
static void set_short_lease(struct tck *t, int tries)
{
    int64_t lease = t->least_lease_ms * (1 + tries / 2);

    assert(t->least_lease_ms > 0 && tries >= 0);
    t->short_lease.ttl_ms = lease * 6 / 10;
    t->short_lease.transition_ms = lease - t->short_lease.ttl_ms;
}

enum simba_tck_verdict tck_run_case(struct tck *t, const struct tck_case *test)
{
    int left = LEFT_SLOW;
    bool was_unwoken = false;
    int64_t start = simba_loop_now_ms();

    t->message[0] = '\0';
    for (int i = 0; i < TRIES_MOST && left == LEFT_SLOW; i++) {
        set_short_lease(t, i);
        left = run_once(t, test);
        /* Who waits asks by itself when a lease or an offer ends. On a slow
         * machine that may be just when its wake-up is on the way, but hardly
         * so twice. */
        if (left == LEFT_UNWOKEN && !was_unwoken &&
            simba_loop_now_ms() - start < t->patience_ms) {
            was_unwoken = true;
            left = LEFT_SLOW;
        }
    }
    if (left == LEFT_SKIPPED) {
        return SIMBA_TCK_SKIPPED;
    }
    if (left == LEFT_CANCELLED) {
        return SIMBA_TCK_STARTED;
    }
    return left == 0 ? SIMBA_TCK_PASSED : SIMBA_TCK_FAILED;
}

const char *tck_request_name(enum simba_request_kind kind)
{
    static const char *const names[] = {"",
                                        "acquire",
                                        "renew",
                                        "release",
                                        "leave",
                                        "read",
                                        "list",
                                        "break",
                                        "doctor",
                                        [SIMBA_HAND_OVER] = "hand-over",
                                        [SIMBA_TELL] = "tell",
                                        [SIMBA_TOLD] = "told",
                                        [SIMBA_BREAKS] = "breaks"};

    return (size_t)kind < sizeof names / sizeof names[0] && names[kind] != NULL
               ? names[kind]
               : "";
}

void tck_need_all(struct tck *t)
{
    for (int kind = SIMBA_ACQUIRE; kind <= SIMBA_DOCTOR; kind++) {
        if ((t->stuck & 1U << kind) != 0) {
            tck_fail(t, TCK_HERE,
                     "the backend did not complete %s before; no contender is "
                     "tried on it",
                     tck_request_name((enum simba_request_kind)kind));
        }
    }
}

void tck_check_wanted(struct tck *t)
{
    if (t->child != NULL) {
        tck_child_check_wanted(t);
    } else if (t->is_cancelled != NULL && t->is_cancelled(t->user)) {
        longjmp(t->out, LEFT_CANCELLED);
    }
}

_Noreturn void tck_skip(struct tck *t, const char *where)
{
    assert(t->child == NULL); /* a child has no way out of its own */
    snprintf(t->message, sizeof t->message, "%s", where);
    longjmp(t->out, LEFT_SKIPPED);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

_Noreturn void tck_fail(struct tck *t,
                        const char *where,
                        const char *format,
                        ...)
{
    char what[512];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    snprintf(t->message, sizeof t->message, "%.100s: %s", base_name(where),
             what);
    if (t->child != NULL) {
        tck_child_fail(t->child, t->message);
    }
    longjmp(t->out, LEFT_FAILED);
}

static _Noreturn void leave_slow(struct tck *t)
{
    if (t->child != NULL) {
        tck_child_fail(t->child, t->message);
    }
    longjmp(t->out, LEFT_SLOW);
}

_Noreturn void tck_too_slow(struct tck *t, const char *where)
{
    snprintf(t->message, sizeof t->message,
             "%.100s: this machine was too slow to see it, %d times",
             base_name(where), TRIES_MOST);
    leave_slow(t);
}

void tck_check_slow(struct tck *t,
                    const char *where,
                    int64_t since_ms,
                    const simba_error *error)
{
    if (error->code == SIMBA_EUNAVAIL && !t->is_faulty &&
        simba_loop_now_ms() - since_ms >= STORE_SLOW_MS) {
        snprintf(t->message, sizeof t->message,
                 "%.100s: the store was too slow, %d times: %.300s",
                 base_name(where), TRIES_MOST, error->message);
        leave_slow(t);
    }
}

_Noreturn void tck_not_done(struct tck *t,
                            const char *where,
                            int64_t since_ms,
                            const simba_error *error)
{
    tck_check_slow(t, where, since_ms, error);
    tck_fail(t, where, "%s: %s", simba_status_name(error->code),
             error->message);
}

void tck_expect_number(struct tck *t,
                       const char *where,
                       int64_t got,
                       int64_t wanted)
{
    if (got != wanted) {
        tck_fail(t, where, "expected %" PRId64 ", got %" PRId64, wanted, got);
    }
}

void tck_expect_text(struct tck *t,
                     const char *where,
                     const char *got,
                     const char *wanted)
{
    if (strcmp(got, wanted) != 0) {
        tck_fail(t, where, "expected \"%s\", got \"%s\"", wanted, got);
    }
}

void tck_expect_status(struct tck *t, const char *where, int got, int wanted)
{
    if (got != wanted) {
        tck_fail(t, where, "expected %s, got %s", simba_status_name(wanted),
                 simba_status_name(got));
    }
}

/* --- chance and time ----------------------------------------------------- */

uint64_t tck_random(struct tck *t)
{
    return tck_draw(&t->random);
}

uint64_t tck_draw(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void tck_fresh(char *name)
{
    simba_id_uuid(name);
}

int64_t tck_lease_ms(const struct tck_times *times)
{
    return times->ttl_ms + times->transition_ms;
}

int64_t tck_at_least_ms(int64_t store_ms)
{
    return store_ms - store_ms / 48 - 10;
}

int64_t tck_at_most_ms(int64_t store_ms)
{
    return store_ms + store_ms / 48 + 10;
}

/* A store may round its times; nobody rounds by more than this. */
enum { ROUNDING_MS = 2 };

bool tck_is_about(int64_t got_ms, int64_t wanted_ms)
{
    /* A store that cannot tell an end answers the last time there is. */
    return got_ms > wanted_ms ? got_ms - wanted_ms <= ROUNDING_MS
                              : wanted_ms - got_ms <= ROUNDING_MS;
}

int64_t tck_patience(const struct tck *t)
{
    return simba_loop_now_ms() + t->patience_ms;
}

void tck_pause(struct tck *t,
               int64_t until_ms,
               const char *where,
               const char *what)
{
    tck_check_wanted(t);
    if (simba_loop_now_ms() > until_ms) {
        tck_fail(t, where, "waited in vain for %s", what);
    }
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

void tck_sleep_until(int64_t at_ms)
{
    struct timespec at = {.tv_sec = (time_t)(at_ms / 1000),
                          .tv_nsec = (long)(at_ms % 1000) * 1000000};

    assert(at_ms >= 0);
    while (simba_loop_now_ms() < at_ms) {
        clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &at, NULL);
    }
}

/* --- threads ------------------------------------------------------------- */

struct tck_aside {
    pthread_t thread;
    void (*run)(void *what);
    void *what;
    _Atomic bool is_done;
};

static void *run_aside(void *argument)
{
    struct tck_aside *aside = argument;

    aside->run(aside->what);
    atomic_store(&aside->is_done, true);
    return NULL;
}

static void end_aside(void *what)
{
    struct tck_aside *aside = what;

    (void)pthread_join(aside->thread, NULL);
}

struct tck_aside *tck_aside(struct tck *t, void (*run)(void *what), void *what)
{
    struct tck_aside *aside = tck_alloc(t, sizeof *aside);

    assert(run != NULL);
    aside->run = run;
    aside->what = what;
    if (pthread_create(&aside->thread, NULL, run_aside, aside) != 0) {
        tck_fail(t, TCK_HERE, "no thread");
    }
    tck_later(t, end_aside, aside);
    return aside;
}

bool tck_aside_is_done(const struct tck_aside *aside)
{
    return atomic_load(&aside->is_done);
}

void tck_aside_join(struct tck *t, struct tck_aside *aside)
{
    AWAIT(t, tck_aside_is_done(aside));
    tck_now(t, aside);
}

/* --- handles ------------------------------------------------------------- */

simba_store *tck_store_at(struct tck *t, const char *url)
{
    simba_store *store;
    simba_error error;

    if (simba_store_open(url, NULL, &store, &error) != SIMBA_OK) {
        tck_fail(t, TCK_HERE, "cannot open the store: %s", error.message);
    }
    tck_later(t, close_store, store);
    return store;
}

simba_store *tck_store(struct tck *t)
{
    return tck_store_at(t, t->url);
}
