/* Threads that contend for one mutex through stores of their own, while the
 * test does something to the servers, and the history checker, which reads
 * afterwards what they asked and heard.
 *
 * Two watch: each owner looks at all others' is_owner while it owns, and
 * `simba verify` judges the trace of all of them. */
#ifndef TESTS_BACKENDS_CROWD_H
#define TESTS_BACKENDS_CROWD_H

#include <stdbool.h>
#include <stdint.h>

#define CROWD_MUTEX "contended"

/** What the store may do to them in this test. A waiter whose connection is
 * down may be passed, and the trace cannot tell that it was. */
enum crowd_bounds {
    CROWD_MUST_EXCLUDE, /* one owner at any time */
    CROWD_MAY_FORGET,   /* the server forgot its owners: tokens still grow */
};

/** Where `simba` is, which judges. */
extern const char *crowd_simba;

/** Their lease. */
extern int64_t crowd_ttl_ms, crowd_transition_ms;

/** Start them at this URL, the trace in this directory. */
void crowd_begin(const char *url, const char *directory);

/** How long it takes until so many more tenures have been, in ms. */
int64_t crowd_await(int more);

/** Stop them, and fail unless all was well. */
void crowd_end(enum crowd_bounds bounds);

/** What `simba verify` finds in a trace. */
struct crowd_verdict {
    int overlaps, others; /* others: tokens, tenures that go on */
    int unfair;
    long long events;
};

struct crowd_verdict crowd_judge(const char *trace);

#endif
