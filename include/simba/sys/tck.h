/**
 * @file simba/sys/tck.h
 * The contract every store keeps, as tests that can be run on any store:
 * `simba tck --store URL` does so, and a program can.
 *
 * Each test draws mutex names of its own, opens handles of its own by the URL,
 * and leaves nothing owned behind, so that it can be run on a server that
 * others use. docs/backends.md lists the tests and says what they ask for.
 *
 * Link with -lsimba_tck -lsimba, or with simba::simba_tck of the CMake package.
 */
#ifndef SIMBA_SYS_TCK_H
#define SIMBA_SYS_TCK_H

#include <simba/error.h>
#include <simba/export.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

SIMBA_BEGIN_DECLS

/** One test of the contract. */
typedef struct simba_tck_case {
    const char *name; /**< "topic.what_holds", static */
    const char *says; /**< what it asks of a store, one sentence, static */
    const char *only; /**< which stores it is for; "" for all of them */
    bool is_quick;    /**< part of a quick run */
    bool is_safety;   /**< holds on a store that loses and delays as well */
} simba_tck_case;

enum simba_tck_verdict {
    SIMBA_TCK_STARTED, /**< told before a test runs */
    SIMBA_TCK_PASSED,
    SIMBA_TCK_FAILED,
    SIMBA_TCK_SKIPPED /**< the store cannot do what it asks for */
};

/** What became of one test. */
typedef struct simba_tck_result {
    const simba_tck_case *test;
    enum simba_tck_verdict verdict;
    int64_t elapsed_ms;
    /** Failed: "file:line: what was expected, and what came". Skipped: why.
     * Else "". Borrowed. */
    const char *message;
    size_t index; /**< of this test among those chosen, from 0 */
    size_t count; /**< how many were chosen */
} simba_tck_result;

/** Called on the thread of simba_tck_run(), twice for each test: when it
 * starts, and when it has ended. */
typedef void (*simba_tck_report_fn)(void *user, const simba_tck_result *result);

typedef struct simba_tck_options {
    uint32_t size;       /**< set by SIMBA_TCK_OPTIONS_INIT */
    const char *store;   /**< URL; NULL: as simba_store_open() */
    const char *pattern; /**< names to run, as of glob(7); NULL: all */
    bool is_quick;       /**< only a small choice that takes a few seconds */
    /** The store loses, delays or doubles what it is asked, as the shim `fault`
     * does: only what is safe there is run, and waits are patient. */
    bool is_faulty;
    uint64_t seed; /**< of what tests draw by lot; 0: another each time */
    /** How long a test waits for what must come; 0: 20 000, and 60 000 on a
     * faulty store. */
    int64_t patience_ms;
    simba_tck_report_fn report; /**< may be NULL */
    void *user;                 /**< first argument of report */
    /** May be NULL. Asked now and then; once it is true the run ends: what the
     * test under way has is given back, and no other is begun. */
    bool (*is_cancelled)(void *user);
} simba_tck_options;

/* clang-format off */
#define SIMBA_TCK_OPTIONS_INIT                                                 \
    {(uint32_t)sizeof(simba_tck_options), 0, 0, false, false, 0, 0, 0, 0, 0}
/* clang-format on */

/** What became of a run. */
typedef struct simba_tck_summary {
    size_t passed, failed, skipped;
    int64_t elapsed_ms;
    uint64_t seed;
} simba_tck_summary;

/**
 * Run the contract on a store.
 *
 * @param options       copied; not NULL
 * @param[out] summary  how many passed and failed; not NULL
 * @param[out] error    filled on failure; may be NULL
 * @return SIMBA_OK when it was run, whatever the tests say; SIMBA_ECANCELED
 *         when it was ended early, with what it came to in `summary`;
 *         SIMBA_EINVAL when no test has such a name; else why the store could
 *         not be opened
 *
 * Threads: one run at a time. Some tests fork.
 */
SIMBA_API SIMBA_MUST_USE int simba_tck_run(const simba_tck_options *options,
                                           simba_tck_summary *summary,
                                           simba_error *error);

/**
 * The tests in the order in which they run.
 *
 * @param index  from 0
 * @return until the next call on this thread; NULL beyond the last
 *
 * Threads: any thread.
 */
SIMBA_API const simba_tck_case *simba_tck_case_at(size_t index);

/** Would a run with these options run this test, if the store can do what it
 * asks for? Threads: any thread. */
SIMBA_API bool simba_tck_is_chosen(const simba_tck_options *options,
                                   const simba_tck_case *test);

SIMBA_END_DECLS

#endif
