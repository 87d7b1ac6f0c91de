/* One scheduler as a handle: its options, its thread, its descriptors. On any
 * store. */
#include "fixtures/process_resources.h"
#include "scheduler_driver.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>

struct misuser {
    _Atomic int rc;
};

static int stop_myself(void *user, const simba_run *run, simba_error *error)
{
    struct misuser *m = user;

    atomic_store(&m->rc, simba_scheduler_stop(run->scheduler, error));
    return SIMBA_OK;
}

TEST(test_scheduler__stop_in_its_work_is_misuse)
{
    simba_store *store = open_store();
    struct misuser m = {0};
    simba_scheduler_options options = options_of(fresh_mutex(), NULL);
    simba_scheduler *s;

    options.work = stop_myself;
    options.user = &m;
    s = start_scheduler(store, &options);
    await(atomic_load(&m.rc) == SIMBA_EMISUSE);
    simba_scheduler_close(s);
    simba_store_close(store);
}

static void expect_refused(simba_store *store,
                           const simba_scheduler_options *options,
                           const char *why)
{
    simba_scheduler *s = (simba_scheduler *)store; /* anything but NULL */
    simba_error error = {0};

    assert_int_equal(simba_scheduler_open(store, options, &s, &error),
                     SIMBA_EINVAL);
    assert_null(s);
    assert_non_null(strstr(error.message, why));
}

TEST(test_scheduler__refuses_bad_options)
{
    simba_store *store = open_store();
    struct job job = {0};
    simba_scheduler_options good = options_of("fine", &job), bad;

    expect_refused(store, NULL, "_INIT");
    bad = good, bad.size = 0;
    expect_refused(store, &bad, "_INIT");
    bad = good, bad.work = NULL;
    expect_refused(store, &bad, "work");
    bad = good, bad.period_ms = -1;
    expect_refused(store, &bad, "period is negative");
    bad = good, bad.schedule = SIMBA_FIXED_RATE, bad.period_ms = 0;
    expect_refused(store, &bad, "fixed rate needs a period");
    bad = good, bad.schedule = (enum simba_schedule)7;
    expect_refused(store, &bad, "neither a rate nor a delay");
    bad = good, bad.initial_delay_ms = -1;
    expect_refused(store, &bad, "initial delay is negative");
    bad = good, bad.mutex = NULL;
    expect_refused(store, &bad, "name");
    bad = good, bad.times.ttl_ms = 1;
    expect_refused(store, &bad, "ttl");
    bad = good, bad.times.budget_ms = 1000000;
    expect_refused(store, &bad, "budget");
    bad = good, bad.times.progress_ms = -1;
    expect_refused(store, &bad, "progress");
    bad = good, bad.times.max_hold_ms = 10, bad.times.min_hold_ms = 11;
    expect_refused(store, &bad, "min_hold_ms is longer than max_hold_ms");
    simba_store_close(store);
}

TEST(test_scheduler__has_a_thread_only_while_it_leads)
{
    simba_store *store = open_store();
    struct shared shared = {0};
    struct job first = {.shared = &shared}, second = {.shared = &shared};
    char mutex[64];
    simba_scheduler_options options;
    simba_scheduler *a, *b;

    snprintf(mutex, sizeof mutex, "%s", fresh_mutex());
    options = options_of(mutex, &first);
    a = open_scheduler(store, &options);
    await(count_work_threads() == 0);
    assert_int_equal(simba_scheduler_start(a, NULL), SIMBA_OK);
    await(atomic_load(&first.ended) > 2);
    options = options_of(mutex, &second);
    b = start_scheduler(store, &options);
    await(simba_scheduler_status(b) == SIMBA_RUNNING);
    assert_int_equal(count_work_threads(), 1); /* a's */
    assert_int_equal(simba_scheduler_stop(a, NULL), SIMBA_OK);
    await(atomic_load(&second.ended) > 2);
    await(count_work_threads() == 1); /* b's */
    assert_int_equal(simba_scheduler_stop(b, NULL), SIMBA_OK);
    await(count_work_threads() == 0); /* an entry outlives its thread a bit */
    simba_scheduler_close(a);
    simba_scheduler_close(b);
    simba_store_close(store);
}

/* In the child: the descriptor is gone, and the run is over. */
static int fork_in_work(void *user, const simba_run *run, simba_error *error)
{
    _Atomic int *seen = user;
    int status;
    pid_t child = fork();

    (void)error;
    if (child == 0) {
        _exit(fcntl(run->stop_fd, F_GETFD) == -1 && errno == EBADF &&
                      simba_run_is_stopped(run) &&
                      simba_scheduler_stop(run->scheduler, NULL) ==
                          SIMBA_EFORKED
                  ? 42
                  : 1);
    }
    if (waitpid(child, &status, 0) == child && WIFEXITED(status)) {
        atomic_store(seen, WEXITSTATUS(status));
    }
    return SIMBA_OK;
}

TEST(test_scheduler__a_forked_child_of_the_work_leads_nothing)
{
    simba_store *store = open_store();
    _Atomic int seen = 0;
    simba_scheduler_options options = options_of(fresh_mutex(), NULL);
    simba_scheduler *s;

    options.work = fork_in_work;
    options.user = &seen;
    s = start_scheduler(store, &options);
    await(atomic_load(&seen) != 0);
    assert_int_equal(atomic_load(&seen), 42);
    assert_true(simba_scheduler_is_owner(s));
    simba_scheduler_close(s);
    simba_store_close(store);
}

TEST(test_scheduler__leaks_no_descriptor)
{
    simba_store *store = open_store();
    struct shared shared = {0};
    struct job job = {.shared = &shared};
    simba_scheduler_options options = options_of(fresh_mutex(), &job);
    simba_scheduler *s = open_scheduler(store, &options);
    int before = 0;

    for (int i = 0; i < 5; i++) {
        assert_int_equal(simba_scheduler_start(s, NULL), SIMBA_OK);
        await(atomic_load(&job.ended) > i);
        assert_int_equal(simba_scheduler_stop(s, NULL), SIMBA_OK);
        if (i == 0) {
            before = count_descriptors();
        }
    }
    assert_int_equal(count_descriptors(), before);
    simba_scheduler_close(s);
    simba_store_close(store);
}

/* A run that is over at once still keeps the others from running it again. */
TEST(test_scheduler__stop_keeps_others_out_for_min_hold)
{
    enum { HOLD_MS = 400 };
    simba_store *store = open_store();
    struct shared shared = {0};
    struct job first = {.shared = &shared}, second = {.shared = &shared};
    char mutex[64];
    simba_scheduler_options options;
    simba_scheduler *a, *b;
    int64_t asked_ms;

    snprintf(mutex, sizeof mutex, "%s", fresh_mutex());
    options = options_of(mutex, &first);
    options.times.min_hold_ms = HOLD_MS;
    options.period_ms = INT64_C(3600) * 1000;
    asked_ms = now_ms(); /* the grant comes later */
    a = start_scheduler(store, &options);
    await(atomic_load(&first.ended) == 1);
    options = options_of(mutex, &second);
    b = start_scheduler(store, &options);
    assert_int_equal(simba_scheduler_stop(a, NULL), SIMBA_OK);
    await(atomic_load(&second.begun) > 0);
    assert_true(atomic_load(&second.began_ms) - asked_ms >= HOLD_MS);
    simba_scheduler_close(b);
    simba_scheduler_close(a);
    simba_store_close(store);
}
