/* Running the contract on a store: which tests, on what terms, and what became
 * of them. */
#include "proxy.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* What is drawn stays below: a double, so JavaScript too, has it whole. */
#define SEED_END (UINT64_C(1) << 53)

/* Nothing lapses within a test; and on a faulty store, where much must be asked
 * again, nothing takes minutes. */
enum {
    LONG_TTL_MS = 20000,
    LONG_TRANSITION_MS = 10000,
    FAULTY_TTL_MS = 900,
    FAULTY_TRANSITION_MS = 600,
    SHORT_LEASE_MS = 1000,
    PATIENCE_MS = 20000,
    FAULTY_PATIENCE_MS = 60000
};

/* --- the cases ----------------------------------------------------------- */

static const struct tck_case *case_at(size_t index)
{
    for (size_t i = 0; tck_topics[i] != NULL; i++) {
        if (index < tck_topics[i]->count) {
            return &tck_topics[i]->cases[index];
        }
        index -= tck_topics[i]->count;
    }
    return NULL;
}

struct need {
    unsigned mark;
    const char *only;
};

static const struct need needs[] = {
    {TCK_PUSH, "where a release wakes the next"},
    {TCK_PROCESSES, "where other processes see the store"},
    {TCK_TENURE_LEASE, "where each tenure has a lease of its own"},
    {TCK_LIST, "where mutexes can be listed"},
    {TCK_BREAK, "where tenures can be broken"},
    {TCK_ENDED, "where a read tells which tenure ended last"},
    {TCK_SESSION, "where a handle has a session"},
    {TCK_NETWORK, "where a proxy can stand before the servers of the URL"},
    {TCK_SLOTS, "where several may own a mutex"},
    {TCK_NUMBERS_SLOTS, "where each of several owners is told its slot"},
    {TCK_HAND_OVER, "where an owner may name its successor"},
    {TCK_TELL, "where owners tell about themselves"},
    {TCK_BOOK, "where breaks can be read back"},
    {0, ""},
};

static simba_tck_case describe(const struct tck_case *test)
{
    const struct need *need = needs;

    while (need->mark != 0 && (test->marks & need->mark) == 0) {
        need++;
    }
    return (simba_tck_case){.name = test->name,
                            .says = test->says,
                            .only = need->only,
                            .is_quick = (test->marks & TCK_QUICK) != 0,
                            .is_safety = (test->marks & TCK_SAFETY) != 0};
}

const simba_tck_case *simba_tck_case_at(size_t index)
{
    static _Thread_local simba_tck_case told;
    const struct tck_case *test = case_at(index);

    if (test == NULL) {
        return NULL;
    }
    told = describe(test);
    return &told;
}

/* --- choosing ------------------------------------------------------------ */

bool simba_tck_is_chosen(const simba_tck_options *options,
                         const simba_tck_case *test)
{
    if ((options->is_quick && !test->is_quick) ||
        (options->is_faulty && !test->is_safety)) {
        return false;
    }
    return options->pattern == NULL ||
           fnmatch(options->pattern, test->name, 0) == 0;
}

static bool is_chosen(const simba_tck_options *options,
                      const struct tck_case *test)
{
    simba_tck_case described = describe(test);

    return simba_tck_is_chosen(options, &described);
}

static size_t count_chosen(const simba_tck_options *options)
{
    const struct tck_case *test;
    size_t count = 0;

    for (size_t i = 0; (test = case_at(i)) != NULL; i++) {
        count += is_chosen(options, test) ? 1 : 0;
    }
    return count;
}

/* What this store lacks of what the case needs; NULL: nothing. */
static const char *lacking(struct tck *t, unsigned marks)
{
    uint32_t can = t->ops.capabilities;
    bool has[] = {(can & SIMBA_CAN_PUSH) != 0,
                  (can & SIMBA_IN_ONE_PROCESS) == 0,
                  (can & SIMBA_HAS_SESSION_LEASE) == 0,
                  (can & SIMBA_CAN_LIST) != 0,
                  (can & SIMBA_CAN_BREAK) != 0,
                  (can & SIMBA_TELLS_ENDED) != 0,
                  (can & SIMBA_HAS_SESSION_LEASE) != 0,
                  (marks & TCK_NETWORK) == 0 || tck_can_proxy(t),
                  (can & SIMBA_CAN_SLOTS) != 0,
                  (can & SIMBA_NUMBERS_SLOTS) != 0,
                  (can & SIMBA_CAN_HAND_OVER) != 0,
                  (can & SIMBA_CAN_TELL) != 0,
                  (can & SIMBA_TELLS_BREAKS) != 0};

    for (size_t i = 0; needs[i].mark != 0; i++) {
        if ((marks & needs[i].mark) != 0 && !has[i]) {
            return needs[i].only;
        }
    }
    return NULL;
}

/* --- running ------------------------------------------------------------- */

struct run {
    simba_tck_options options;
    simba_tck_summary *summary;
    struct tck t;
    size_t index, count;
    bool is_cancelled;
};

static void report(struct run *run,
                   const struct tck_case *test,
                   const simba_tck_result *given)
{
    simba_tck_case described = describe(test);
    simba_tck_result result = *given;

    result.test = &described;
    result.index = run->index;
    result.count = run->count;
    if (run->options.report != NULL) {
        run->options.report(run->options.user, &result);
    }
}

static void count(simba_tck_summary *summary, enum simba_tck_verdict verdict)
{
    summary->passed += verdict == SIMBA_TCK_PASSED ? 1 : 0;
    summary->failed += verdict == SIMBA_TCK_FAILED ? 1 : 0;
    summary->skipped += verdict == SIMBA_TCK_SKIPPED ? 1 : 0;
}

static void run_case(struct run *run, const struct tck_case *test)
{
    const char *lack = lacking(&run->t, test->marks);
    simba_tck_result result = {.message = ""};
    int64_t start = simba_loop_now_ms();

    report(run, test, &result);
    if (lack != NULL) {
        result.verdict = SIMBA_TCK_SKIPPED;
        result.message = lack;
    } else {
        result.verdict = tck_run_case(&run->t, test);
        result.message =
            result.verdict == SIMBA_TCK_PASSED ? "" : run->t.message;
    }
    if (result.verdict == SIMBA_TCK_STARTED) {
        run->is_cancelled = true;
        return;
    }
    result.elapsed_ms = simba_loop_now_ms() - start;
    count(run->summary, result.verdict);
    report(run, test, &result);
}

static bool is_cancelled(struct run *run)
{
    const simba_tck_options *options = &run->options;

    run->is_cancelled |=
        options->is_cancelled != NULL && options->is_cancelled(options->user);
    return run->is_cancelled;
}

static void run_all(struct run *run)
{
    const struct tck_case *test;
    int64_t start = simba_loop_now_ms();

    for (size_t i = 0; (test = case_at(i)) != NULL && !is_cancelled(run); i++) {
        if (is_chosen(&run->options, test)) {
            run_case(run, test);
            run->index++;
        }
    }
    run->summary->elapsed_ms = simba_loop_now_ms() - start;
}

static void set_times(struct tck *t)
{
    int64_t least = t->ops.least_lease_ms;

    t->least_lease_ms = least > SHORT_LEASE_MS ? least : SHORT_LEASE_MS;
    t->long_lease.ttl_ms = LONG_TTL_MS;
    t->long_lease.transition_ms = LONG_TRANSITION_MS;
    if (t->is_faulty) {
        t->long_lease.ttl_ms = FAULTY_TTL_MS > least ? FAULTY_TTL_MS : least;
        t->long_lease.transition_ms = FAULTY_TRANSITION_MS;
    }
}

/* The shim loses wake-ups. */
static bool is_fault_shim(const char *url)
{
    return url != NULL && strstr(url, "fault:") != NULL;
}

static int take_options(struct run *run,
                        const simba_tck_options *given,
                        simba_error *error)
{
    simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;

    if (given->size == 0) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "the options must be set up by their _INIT "
                               "macro");
    }
    memcpy(&options, given,
           given->size < sizeof options ? given->size : sizeof options);
    run->options = options;
    run->count = count_chosen(&options);
    if (run->count == 0) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "no test has such a name");
    }
    if (options.patience_ms == 0) {
        run->options.patience_ms =
            options.is_faulty ? FAULTY_PATIENCE_MS : PATIENCE_MS;
    }
    while (run->options.seed == 0) {
        if (getrandom(&run->options.seed, sizeof run->options.seed, 0) < 0) {
            run->options.seed = 1;
        }
        run->options.seed %= SEED_END;
    }
    return SIMBA_OK;
}

/* `simba` hands its --store on as the variable. What is no URL is the name of a
 * store in a config file. */
static const char *url_of(const char *store)
{
    const char *url = store != NULL ? store : secure_getenv("SIMBA_STORE");

    return url != NULL && strchr(url, ':') != NULL ? url : store;
}

int simba_tck_run(const simba_tck_options *given,
                  simba_tck_summary *summary,
                  simba_error *error)
{
    struct run run = {.summary = summary};
    simba_store_options opening = SIMBA_STORE_OPTIONS_INIT;
    simba_store *store = NULL;
    int rc = take_options(&run, given, error);

    memset(summary, 0, sizeof *summary);
    /* One that cannot be reached is told at once, not by every test. */
    opening.wait_ms = run.options.is_faulty ? 0 : 1;
    if (rc == SIMBA_OK) {
        rc = simba_store_open(run.options.store, &opening, &store, error);
    }
    if (rc != SIMBA_OK) {
        return is_cancelled(&run)
                   ? simba_error_set(error, SIMBA_ECANCELED, 0, "cancelled")
                   : rc;
    }
    summary->seed = run.options.seed;
    run.t.url = url_of(run.options.store);
    run.t.is_faulty = run.options.is_faulty;
    run.t.patience_ms = run.options.patience_ms;
    run.t.random = run.options.seed;
    run.t.is_cancelled = run.options.is_cancelled;
    run.t.user = run.options.user;
    run.t.ops = *simba_probe_ops(store);
    run.t.must_wake = (run.t.ops.capabilities & SIMBA_CAN_PUSH) != 0 &&
                      !run.options.is_faulty && !is_fault_shim(run.t.url);
    set_times(&run.t);
    tck_fresh(run.t.mutex);
    if (!run.options.is_faulty) {
        rc = tck_await_ready(&run.t, store, error);
    }
    /* Closed again: children that tests fork open it themselves, and a store
     * may ask that it be closed when they are forked. */
    simba_store_close(store);
    if (!is_cancelled(&run) && rc == SIMBA_OK) {
        run_all(&run);
    }
    return run.is_cancelled
               ? simba_error_set(error, SIMBA_ECANCELED, 0, "cancelled")
               : rc;
}
