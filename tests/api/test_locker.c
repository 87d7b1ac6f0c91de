/* The locker, on any store. */
#include "fixtures/api_harness.h"
#include "fixtures/process_resources.h"

#include <simba/admin.h>

#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>

static simba_locker *open_locker(simba_store *store, const char *mutex)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;

    options.mutex = mutex;
    return must_open_locker(store, &options);
}

TEST(test_locker__acquires_and_releases)
{
    simba_store *store = open_store();
    simba_locker *locker = open_locker(store, fresh_mutex());
    uint64_t first, second;

    assert_false(simba_locker_is_owner(locker));
    assert_int_equal(simba_locker_acquire(locker, -1, &first, NULL), SIMBA_OK);
    assert_true(simba_locker_is_owner(locker));
    assert_int_equal(simba_locker_token(locker), first);
    assert_int_equal(simba_locker_release(locker, NULL), SIMBA_OK);
    assert_false(simba_locker_is_owner(locker));
    assert_int_equal(simba_locker_token(locker), 0);
    assert_int_equal(simba_locker_acquire(locker, 0, &second, NULL), SIMBA_OK);
    assert_true(second > first);
    simba_locker_close(locker);
    simba_store_close(store);
}

TEST(test_locker__tries_once_and_finds_it_busy)
{
    simba_store *store = open_store();
    const char *mutex = fresh_mutex();
    simba_locker *a = open_locker(store, mutex);
    simba_locker *b = open_locker(store, mutex);
    simba_error error;

    assert_int_equal(simba_locker_acquire(a, -1, NULL, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire(b, 0, NULL, &error), SIMBA_EBUSY);
    assert_int_equal(error.code, SIMBA_EBUSY);
    assert_int_equal(simba_locker_release(a, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire(b, 0, NULL, NULL), SIMBA_OK);
    simba_locker_close(b);
    simba_locker_close(a);
    simba_store_close(store);
}

TEST(test_locker__gives_up_at_its_timeout)
{
    simba_store *store = open_store();
    const char *mutex = fresh_mutex();
    simba_locker *a = open_locker(store, mutex);
    simba_locker *b = open_locker(store, mutex);
    int64_t start;

    assert_int_equal(simba_locker_acquire(a, -1, NULL, NULL), SIMBA_OK);
    start = now_ms();
    assert_int_equal(simba_locker_acquire(b, 120, NULL, NULL), SIMBA_ETIMEDOUT);
    assert_true(now_ms() - start >= 115);
    simba_locker_close(a);
    assert_int_equal(simba_locker_acquire(b, 0, NULL, NULL), SIMBA_OK);
    simba_locker_close(b);
    simba_store_close(store);
}

struct waiter {
    simba_locker *locker;
    int rc;
    int64_t timeout_ms;
    _Atomic bool is_done;
    pthread_t thread;
};

static void *wait_for_it(void *argument)
{
    struct waiter *w = argument;

    w->rc = simba_locker_acquire(w->locker, w->timeout_ms, NULL, NULL);
    atomic_store(&w->is_done, true);
    return NULL;
}

static void start_waiter(struct waiter *w, simba_locker *locker)
{
    *w = (struct waiter){.locker = locker, .timeout_ms = -1};
    assert_int_equal(pthread_create(&w->thread, NULL, wait_for_it, w), 0);
}

TEST(test_locker__is_cancelled_from_another_thread)
{
    simba_store *store = open_store();
    const char *mutex = fresh_mutex();
    simba_locker *a = open_locker(store, mutex);
    simba_locker *b = open_locker(store, mutex);
    struct waiter w;

    simba_locker_cancel(b); /* without a wait, nothing happens */
    assert_int_equal(simba_locker_acquire(a, -1, NULL, NULL), SIMBA_OK);
    start_waiter(&w, b);
    await((simba_locker_cancel(b), atomic_load(&w.is_done)));
    pthread_join(w.thread, NULL);
    assert_int_equal(w.rc, SIMBA_ECANCELED);
    simba_locker_close(a);
    simba_locker_close(b);
    simba_store_close(store);
}

TEST(test_locker__hands_over_to_a_waiter)
{
    simba_store *store = open_store();
    simba_store *other = open_store();
    const char *mutex = fresh_mutex();
    simba_locker *a = open_locker(store, mutex);
    simba_locker *b = open_locker(other, mutex);
    struct waiter w;

    assert_int_equal(simba_locker_acquire(a, -1, NULL, NULL), SIMBA_OK);
    start_waiter(&w, b);
    assert_false(atomic_load(&w.is_done));
    simba_locker_close(a);
    await(atomic_load(&w.is_done));
    pthread_join(w.thread, NULL);
    assert_int_equal(w.rc, SIMBA_OK);
    simba_locker_close(b);
    simba_store_close(other);
    simba_store_close(store);
}

TEST(test_locker__double_acquire_is_misuse)
{
    simba_store *store = open_store();
    simba_locker *locker = open_locker(store, fresh_mutex());

    assert_int_equal(simba_locker_acquire(locker, -1, NULL, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire(locker, -1, NULL, NULL),
                     SIMBA_EMISUSE);
    assert_true(simba_locker_is_owner(locker));
    simba_locker_close(locker);
    simba_store_close(store);
}

static void count_loss(void *user, const simba_error *why)
{
    assert_int_equal(why->code, SIMBA_ELOST);
    atomic_fetch_add((_Atomic int *)user, 1);
}

TEST(test_locker__is_told_when_it_lost)
{
    simba_store *store = open_store();
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker;
    _Atomic int losses = 0;

    options.mutex = fresh_mutex();
    options.times.max_hold_ms = 100;
    options.on_lost = count_loss;
    options.user = &losses;
    locker = must_open_locker(store, &options);
    assert_int_equal(simba_locker_acquire(locker, -1, NULL, NULL), SIMBA_OK);
    await(atomic_load(&losses) == 1);
    assert_false(simba_locker_is_owner(locker));
    assert_int_equal(simba_locker_release(locker, NULL), SIMBA_ELOST);
    assert_int_equal(simba_locker_acquire(locker, -1, NULL, NULL), SIMBA_OK);
    simba_locker_close(locker);
    simba_store_close(store);
}

static struct log_counter overruns = {SIMBA_LOG_WARN, "not ended in time", 0};

static void work_on(void *user, const simba_error *why)
{
    (void)user;
    (void)why;
    await(atomic_load(&overruns.count) == 1);
}

/* S6: an overrun is reported. */
TEST(test_locker__tells_of_work_that_goes_on)
{
    simba_store_options how = SIMBA_STORE_OPTIONS_INIT;
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_store *store;
    simba_locker *locker;

    how.log = count_log;
    how.log_user = &overruns;
    store = open_store_with(&how);
    options.mutex = fresh_mutex();
    options.times.max_hold_ms = 50;
    options.times.budget_ms = 50;
    options.on_lost = work_on;
    locker = must_open_locker(store, &options);
    assert_int_equal(simba_locker_acquire(locker, -1, NULL, NULL), SIMBA_OK);
    await(atomic_load(&overruns.count) == 1);
    simba_locker_close(locker);
    simba_store_close(store);
}

TEST(test_locker__scope_releases)
{
    simba_store *store = open_store();
    const char *mutex = fresh_mutex();
    simba_locker *b = open_locker(store, mutex);

    {
        SIMBA_LOCKER_SCOPE simba_locker *a = open_locker(store, mutex);
        assert_int_equal(simba_locker_acquire(a, -1, NULL, NULL), SIMBA_OK);
        assert_int_equal(simba_locker_acquire(b, 0, NULL, NULL), SIMBA_EBUSY);
    }
    assert_int_equal(simba_locker_acquire(b, 0, NULL, NULL), SIMBA_OK);
    simba_locker_close(b);
    simba_store_close(store);
}

TEST(test_locker__names_deadlines)
{
    simba_store *store = open_store();
    simba_locker *locker = open_locker(store, fresh_mutex());
    int64_t use, hard, before = now_ms();

    simba_locker_deadlines(locker, &use, &hard);
    assert_int_equal(use, 0);
    assert_int_equal(hard, 0);
    assert_int_equal(simba_locker_acquire(locker, -1, NULL, NULL), SIMBA_OK);
    simba_locker_deadlines(locker, &use, &hard);
    assert_in_range(use - before, 13654, 13654 + PATIENCE_MS);
    assert_int_equal(hard - use, 2000); /* B */
    simba_locker_close(locker);
    simba_store_close(store);
}

TEST(test_locker__tells_the_stores_clock)
{
    simba_store *store = open_store();
    const char *mutex = fresh_mutex();
    simba_locker *locker = open_locker(store, mutex);
    simba_report *report = NULL;
    int64_t ahead, granted, before, store_ms;

    assert_false(simba_locker_clock(locker, &ahead, &granted));
    before = now_ms();
    assert_int_equal(simba_locker_acquire(locker, -1, NULL, NULL), SIMBA_OK);
    assert_int_equal(simba_admin_show(store, mutex, &report, NULL), SIMBA_OK);
    store_ms = simba_report_store_ms(report);
    simba_report_close(report);
    /* A store that tells no time tells none here either. */
    assert_int_equal(simba_locker_clock(locker, &ahead, &granted),
                     store_ms != 0);
    if (store_ms != 0) {
        assert_in_range(granted - ahead - before, 0, PATIENCE_MS);
        assert_true(store_ms >= granted);
        /* Never early: by our reckoning the store is not yet there. */
        assert_in_range(store_ms - before - ahead, 0, PATIENCE_MS);
    }
    simba_locker_close(locker);
    simba_store_close(store);
}

TEST(test_locker__refuses_bad_options)
{
    static const char *const names[] = {"", "}x", "a\nb", "\xff", NULL};
    simba_store *store = open_store();
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker;
    simba_error error;

    for (int i = 0; i < 5; i++) {
        options.mutex = names[i];
        assert_int_equal(simba_locker_open(store, &options, &locker, &error),
                         SIMBA_EINVAL);
        assert_null(locker);
    }
    assert_int_equal(simba_locker_open(store, NULL, &locker, &error),
                     SIMBA_EINVAL);
    options.mutex = "fine";
    options.id = "a@@b";
    assert_int_equal(simba_locker_open(store, &options, &locker, &error),
                     SIMBA_EINVAL);
    options.id = NULL;
    options.times.ttl_ms = 99;
    assert_int_equal(simba_locker_open(store, &options, &locker, &error),
                     SIMBA_EINVAL);
    options.times.ttl_ms = INT64_MAX;
    assert_int_equal(simba_locker_open(store, &options, &locker, &error),
                     SIMBA_EINVAL);
    options.times.ttl_ms = INT64_MIN;
    assert_int_equal(simba_locker_open(store, &options, &locker, &error),
                     SIMBA_EINVAL);
    options.times.ttl_ms = 10000;
    options.times.budget_ms = 60000;
    assert_int_equal(simba_locker_open(store, &options, &locker, &error),
                     SIMBA_EINVAL);
    assert_non_null(strstr(error.message, "at most 7320 ms"));
    assert_int_equal(simba_times_budget_most_ms(INT64_MAX, INT64_MAX), 0);
    assert_int_equal(simba_times_budget_most_ms(INT64_MIN, INT64_MIN), 0);
    options.times.budget_ms = simba_times_budget_most_ms(10000, 6000) + 1;
    assert_int_equal(simba_locker_open(store, &options, &locker, &error),
                     SIMBA_EINVAL);
    options.times.budget_ms--;
    assert_int_equal(simba_locker_open(store, &options, &locker, &error),
                     SIMBA_OK);
    simba_locker_close(locker);
    simba_store_close(store);
}

/* A store of its own works, but SQLite cannot have one file in both. */
static bool open_in_child(void)
{
    bool is_file = strncmp(store_url, "sqlite:", 7) == 0;
    simba_store *store = NULL;
    simba_locker *locker;
    bool is_fine;

    if (is_file &&
        simba_store_open(store_url, NULL, &store, NULL) != SIMBA_EFORKED) {
        return false;
    }
    if (simba_store_open(is_file ? "memory:child" : store_url, NULL, &store,
                         NULL) != SIMBA_OK) {
        return false;
    }
    locker = open_locker(store, "of the child");
    is_fine = simba_locker_acquire(locker, -1, NULL, NULL) == SIMBA_OK &&
              simba_locker_is_owner(locker);
    simba_locker_close(locker);
    simba_store_close(store);
    return is_fine;
}

static int try_in_child(simba_store *store, simba_locker *locker)
{
    simba_error error;
    bool is_fine =
        simba_locker_acquire(locker, 0, NULL, &error) == SIMBA_EFORKED &&
        simba_locker_release(locker, &error) == SIMBA_EFORKED &&
        !simba_locker_is_owner(locker) && simba_locker_token(locker) == 0;

    simba_locker_close(locker);
    simba_store_close(store);
    return is_fine && open_in_child() ? 0 : 1;
}

TEST(test_locker__is_not_inherited_by_a_fork)
{
    simba_store *store = open_store();
    simba_locker *locker = open_locker(store, fresh_mutex());
    int status;
    pid_t child;

    assert_int_equal(simba_locker_acquire(locker, -1, NULL, NULL), SIMBA_OK);
    child = fork();
    if (child == 0) {
        _exit(try_in_child(store, locker));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(simba_locker_is_owner(locker)); /* and still works here */
    assert_int_equal(simba_locker_release(locker, NULL), SIMBA_OK);
    simba_locker_close(locker);
    simba_store_close(store);
}

TEST(test_locker__leaves_no_descriptor_to_a_fork)
{
    int before = count_descriptors(), status;
    simba_store *store = open_store();
    simba_locker *locker = open_locker(store, fresh_mutex());
    pid_t child;

    assert_int_equal(simba_locker_acquire(locker, -1, NULL, NULL), SIMBA_OK);
    child = fork();
    if (child == 0) {
        _exit(count_descriptors() - before);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    simba_locker_close(locker);
    simba_store_close(store);
}

/* Ten waiters, and the counter is changed by one at a time. */
struct hammer {
    const char *mutex;
    simba_store *store;
    int *counter;
};

static void *hammer(void *argument)
{
    struct hammer *h = argument;
    simba_locker *locker = open_locker(h->store, h->mutex);

    for (int i = 0; i < 10; i++) {
        if (simba_locker_acquire(locker, -1, NULL, NULL) == SIMBA_OK) {
            int seen = *h->counter;
            nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
            *h->counter = seen + 1;
            simba_locker_release(locker, NULL);
        }
    }
    simba_locker_close(locker);
    return NULL;
}

TEST(test_locker__excludes_many_threads)
{
    simba_store *stores[2] = {open_store(), open_store()};
    char mutex[64];
    pthread_t threads[10];
    struct hammer h[2];
    int counter = 0;

    snprintf(mutex, sizeof mutex, "%s", fresh_mutex());
    for (int i = 0; i < 2; i++) {
        h[i] = (struct hammer){mutex, stores[i], &counter};
    }
    for (int i = 0; i < 10; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, &h[i % 2]),
                         0);
    }
    for (int i = 0; i < 10; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(counter, 100);
    simba_store_close(stores[1]);
    simba_store_close(stores[0]);
}

/* --- callers of other versions ------------------------------------------- */

/* What lies behind the struct that it knows is something else of its. */
TEST(test_locker__older_callers_get_defaults)
{
    simba_store *store = open_store();
    simba_locker_options known = SIMBA_LOCKER_OPTIONS_INIT, given;
    simba_locker *locker;

    memset(&given, 0xff, sizeof given);
    known.size = (uint32_t)offsetof(simba_locker_options, slots);
    known.mutex = fresh_mutex();
    memcpy(&given, &known, known.size);
    locker = must_open_locker(store, &given);
    assert_int_equal(simba_locker_acquire(locker, -1, NULL, NULL), SIMBA_OK);
    simba_locker_close(locker);
    simba_store_close(store);
}

/* An option that is not obeyed must not look as if it were. */
TEST(test_locker__newer_callers_are_told_what_is_not_there)
{
    simba_store *store = open_store();
    struct {
        simba_locker_options known;
        uint64_t more;
    } given = {SIMBA_LOCKER_OPTIONS_INIT, 0};
    simba_locker *locker;
    simba_error error;

    given.known.size = sizeof given;
    given.known.mutex = fresh_mutex();
    simba_locker_close(must_open_locker(store, &given.known));
    given.more = (uint64_t)1 << 56;
    assert_int_equal(simba_locker_open(store, &given.known, &locker, &error),
                     SIMBA_EINVAL);
    assert_null(locker);
    assert_non_null(strstr(error.message, "newer"));
    simba_store_close(store);
}

static void is_refused(simba_store *store,
                       const simba_locker_options *options,
                       const char *said)
{
    simba_locker *locker;
    simba_error error;

    assert_int_equal(simba_locker_open(store, options, &locker, &error),
                     SIMBA_EINVAL);
    assert_null(locker);
    assert_non_null(strstr(error.message, said));
}

/* A later version may give them a meaning, which this one does not obey. */
TEST(test_locker__what_is_reserved_must_be_0)
{
    simba_store *store = open_store();
    simba_locker_options good = SIMBA_LOCKER_OPTIONS_INIT, bad;

    good.mutex = fresh_mutex();
    bad = good, bad.reserved = 1;
    is_refused(store, &bad, "newer");
    bad = good, bad.times.reserved[1] = 1;
    is_refused(store, &bad, "newer");
    bad = good, bad.size = UINT32_MAX; /* never set up */
    is_refused(store, &bad, "SIMBA_LOCKER_OPTIONS_INIT");
    simba_store_close(store);
}
