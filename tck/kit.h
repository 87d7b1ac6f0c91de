/* What the tests of the contract are written with: a context that undoes what a
 * test did, fresh names, expectations, waiting with a deadline.
 *
 * A test never sleeps for luck: it waits for a condition, and a machine that
 * was too slow for what a test wanted to see makes it start again, not fail. */
#ifndef SIMBA_TCK_KIT_H
#define SIMBA_TCK_KIT_H

#include <simba.h>
#include <simba/sys/probe.h>
#include <simba/sys/tck.h>

#include <setjmp.h>
#include <stdatomic.h>

struct tck;

/* --- cases --------------------------------------------------------------- */

/* What a case is for. */
enum tck_mark {
    TCK_QUICK = 1,         /* part of a quick run */
    TCK_SAFETY = 2,        /* holds on a faulty store too */
    TCK_PUSH = 4,          /* only where a release wakes the next */
    TCK_PROCESSES = 8,     /* only where other processes see the store */
    TCK_TENURE_LEASE = 16, /* only where each tenure has a lease of its own */
    TCK_LIST = 32,         /* only where mutexes can be listed */
    TCK_BREAK = 64,        /* only where tenures can be broken */
    TCK_ENDED = 128,       /* only where a read tells which tenure ended last */
    TCK_LAPSES = 256,      /* who waits may be granted by asking by itself, for
                            * a lease or an offer lapses */
    TCK_SESSION = 512,     /* only where a handle has a session */
    TCK_NETWORK = 1024,    /* only where a proxy can stand before the servers */
    TCK_SLOTS = 2048,      /* only where several may own a mutex */
    TCK_NUMBERS_SLOTS = 4096, /* only where each is told its slot */
    TCK_HAND_OVER = 8192,     /* only where a release may name a successor */
    TCK_TELL = 16384,         /* only where owners tell about themselves */
    TCK_BOOK = 32768          /* only where breaks can be read back */
};

struct tck_case {
    const char *name;
    const char *says;
    void (*run)(struct tck *t);
    unsigned marks;
};

struct tck_topic {
    const struct tck_case *cases;
    size_t count;
};

#define TCK_TOPIC(cases)                                                       \
    {                                                                          \
        cases, sizeof(cases) / sizeof(cases)[0]                                \
    }

/** All topics, in the order in which they run; ends with NULL. */
extern const struct tck_topic *const tck_topics[];

/* --- the context --------------------------------------------------------- */

/* What is to be undone when a test ends, newest first. */
struct tck_deed {
    struct tck_deed *next;
    void (*undo)(void *what);
    void *what;
};

/* The lease a test works with. */
struct tck_times {
    int64_t ttl_ms, transition_ms;
};

struct tck {
    const char *url;
    bool is_faulty;
    int64_t patience_ms;
    simba_backend_ops ops; /* of the store under test */
    uint64_t random;       /* state of tck_random() */
    char mutex[40];        /* a fresh name */
    /* So long that nothing lapses in a test, and so short that a test can wait
     * for its end. */
    struct tck_times long_lease, short_lease;
    int64_t least_lease_ms; /* the short one at first */
    bool tells_time;        /* its replies have store_ms */
    /* A release wakes the next: the store pushes, and no shim loses it. */
    bool must_wake;
    unsigned backstops; /* tenures of this try that no wake-up has led to */
    /* Kinds of requests that were not completed, by 1 << kind: each costs its
     * deadline once, and not in every test. */
    unsigned stuck;
    enum { TCK_PROXY_UNTRIED, TCK_PROXY_NONE, TCK_PROXY_FINE } proxying;

    bool (*is_cancelled)(void *user); /* NULL: never */
    void *user;

    struct tck_deed *deeds;
    struct tck_child *child; /* not NULL: this is a child process */
    jmp_buf out;
    char message[640];
};

/** Run one case; t->message says why it failed or was skipped. A case that was
 * cancelled has only been started. */
enum simba_tck_verdict tck_run_case(struct tck *t, const struct tck_case *test);

/** Wait until the store grants anything, and see what it leaves open. */
int tck_await_ready(struct tck *t, simba_store *store, simba_error *error);

/** See to it that this is undone when the test ends, come what may. */
void tck_later(struct tck *t, void (*undo)(void *what), void *what);

/** Undo it now. */
void tck_now(struct tck *t, void *what);

/** Zeroed memory that lives as long as the test. */
void *tck_alloc(struct tck *t, size_t size);

/** Drawn by lot, from the seed of the run. */
uint64_t tck_random(struct tck *t);

/** The same from a state of one's own, for threads. */
uint64_t tck_draw(uint64_t *state);

/** A name of 32 hexadecimal digits that nobody else uses. */
void tck_fresh(char *name);

int64_t tck_lease_ms(const struct tck_times *times);

/* --- expectations -------------------------------------------------------- */

#define TCK_TEXT_OF(x)   #x
#define TCK_DIGITS_OF(x) TCK_TEXT_OF(x)
#define TCK_HERE         __FILE__ ":" TCK_DIGITS_OF(__LINE__)

/** End the test. */
_Noreturn void tck_fail(struct tck *t,
                        const char *where,
                        const char *format,
                        ...) __attribute__((format(printf, 3, 4)));

/** End the test without a verdict: it is only for stores `where` this holds. */
_Noreturn void tck_skip(struct tck *t, const char *where);

/** End the test if the store leaves requests open: a contender needs all of
 * them. */
void tck_need_all(struct tck *t);

/** The name of a kind of request. */
const char *tck_request_name(enum simba_request_kind kind);

/** End the test if nobody wants it any more. */
void tck_check_wanted(struct tck *t);

/** The machine was too slow to see what this test looks for: start again. */
_Noreturn void tck_too_slow(struct tck *t, const char *where);

/** If the store was, and says so of what was asked at that time: start again.
 */
void tck_check_slow(struct tck *t,
                    const char *where,
                    int64_t since_ms,
                    const simba_error *error);

/** It was not done: start again for that reason, or fail. */
_Noreturn void tck_not_done(struct tck *t,
                            const char *where,
                            int64_t since_ms,
                            const simba_error *error);

/** For a function that takes a simba_error last. */
#define EXPECT_DONE(t, function, ...)                                          \
    do {                                                                       \
        simba_error tck_error_ = {0};                                          \
        int64_t tck_since_ = simba_loop_now_ms();                              \
        if (function(__VA_ARGS__, &tck_error_) != SIMBA_OK) {                  \
            tck_not_done((t), TCK_HERE, tck_since_, &tck_error_);              \
        }                                                                      \
    } while (0)

void tck_expect_number(struct tck *t,
                       const char *where,
                       int64_t got,
                       int64_t wanted);
void tck_expect_text(struct tck *t,
                     const char *where,
                     const char *got,
                     const char *wanted);
void tck_expect_status(struct tck *t, const char *where, int got, int wanted);

#define EXPECT(t, condition)                                                   \
    ((condition) ? (void)0 : tck_fail((t), TCK_HERE, "expected %s", #condition))
#define EXPECT_NUMBER(t, got, wanted)                                          \
    tck_expect_number((t), TCK_HERE ": " #got, (int64_t)(got),                 \
                      (int64_t)(wanted))
#define EXPECT_TEXT(t, got, wanted)                                            \
    tck_expect_text((t), TCK_HERE ": " #got, (got), (wanted))
#define EXPECT_STATUS(t, got, wanted)                                          \
    tck_expect_status((t), TCK_HERE ": " #got, (got), (wanted))

/* --- waiting ------------------------------------------------------------- */

/** When patience ends: only a fault takes so long. */
int64_t tck_patience(const struct tck *t);

/** Rest a moment; when `until_ms` has come, fail for want of `what`. */
void tck_pause(struct tck *t,
               int64_t until_ms,
               const char *where,
               const char *what);

/** Rest until that time of the boot clock. */
void tck_sleep_until(int64_t at_ms);

#define TCK_AWAIT(t, condition, text, until_ms)                                \
    do {                                                                       \
        int64_t tck_until_ = (until_ms);                                       \
        while (!(condition)) {                                                 \
            tck_pause((t), tck_until_, TCK_HERE, text);                        \
        }                                                                      \
    } while (0)
#define AWAIT_UNTIL(t, condition, until_ms)                                    \
    TCK_AWAIT(t, condition, #condition, until_ms)
#define AWAIT(t, condition) TCK_AWAIT(t, condition, #condition, tck_patience(t))

/** Start again when this took longer than the test can bear. */
#define EXPECT_SWIFT(t, since_ms, most_ms)                                     \
    do {                                                                       \
        if (simba_loop_now_ms() - (since_ms) > (most_ms)) {                    \
            tck_too_slow((t), TCK_HERE);                                       \
        }                                                                      \
    } while (0)

/** The least and the most that a time of the store's may take by our clock: a
 * store's may run one percent faster or slower, and so may ours. */
int64_t tck_at_least_ms(int64_t store_ms);
int64_t tck_at_most_ms(int64_t store_ms);

/** Is it that time of the store's, but for rounding? */
bool tck_is_about(int64_t got_ms, int64_t wanted_ms);

/** Fail when less than a lease has passed. */
#define EXPECT_LEASE_PASSED(t, since_ms, lease_ms)                             \
    do {                                                                       \
        int64_t tck_passed_ = simba_loop_now_ms() - (since_ms);                \
        if (tck_passed_ < tck_at_least_ms(lease_ms)) {                         \
            tck_fail((t), TCK_HERE,                                            \
                     "granted %lld ms after a lease of %lld ms began",         \
                     (long long)tck_passed_, (long long)(lease_ms));           \
        }                                                                      \
    } while (0)

/* --- threads ------------------------------------------------------------- */

struct tck_aside;

/** Run something on a thread of its own. It must come to an end by itself, also
 * when the test fails meanwhile. */
struct tck_aside *tck_aside(struct tck *t, void (*run)(void *what), void *what);

bool tck_aside_is_done(const struct tck_aside *aside);

/** Wait for its end. */
void tck_aside_join(struct tck *t, struct tck_aside *aside);

/* --- handles ------------------------------------------------------------- */

/** A new handle on the store under test. */
simba_store *tck_store(struct tck *t);

/** A new handle by another URL; its failure fails the test. */
simba_store *tck_store_at(struct tck *t, const char *url);

#endif
