/* A mutex is kept as long as the work under it gets on. On any store. */
#include "scheduler_driver.h"

#include <stdlib.h>

/* Short enough to be waited for. A machine that is too slow for them gets twice
 * the times, and so on. */
enum { TTL_MS = 1500, TRANSITION_MS = 1000, PROGRESS_MS = 800 };
enum { KEEP_MS = 3000, ROUNDS = 3 };

static void set_times(simba_times *times, int round)
{
    times->ttl_ms = (int64_t)TTL_MS << round;
    times->transition_ms = (int64_t)TRANSITION_MS << round;
    times->progress_ms = (int64_t)PROGRESS_MS << round;
}

static uint64_t count_stalls(simba_store *store, const char *mutex)
{
    simba_metrics *metrics;
    uint64_t stalls;

    assert_int_equal(simba_metrics_read(store, &metrics, NULL), SIMBA_OK);
    stalls = simba_metrics_of(metrics, mutex)->lost_stalled;
    simba_metrics_free(metrics);
    return stalls;
}

/* A loss while we said that we get on is a fault, unless it is not for want of
 * progress, or we were kept from saying so for so long. */
static void expect_slow(uint64_t stalls, int64_t longest_ms, int round)
{
    assert_true(stalls == 0 || longest_ms > (PROGRESS_MS << round) / 2);
}

/* Says that it gets on, for twice the ttl; returns the longest time in which it
 * did not. */
static int64_t get_on(void (*progress)(void *), void *locker, int round)
{
    int64_t until = now_ms() + ((int64_t)KEEP_MS << round);
    int64_t last = now_ms(), longest = 0;

    while (last < until) {
        int64_t now = now_ms();

        longest = now - last > longest ? now - last : longest;
        last = now;
        progress(locker);
        rest_ms(1);
    }
    return longest;
}

static void count_loss(void *user, const simba_error *why)
{
    assert_int_equal(why->code, SIMBA_ELOST);
    atomic_fetch_add((_Atomic int *)user, 1);
}

static void locker_progress(void *locker)
{
    simba_locker_progress(locker);
}

/* False: the machine was too slow to see it. */
static bool see_locker_stall(int round)
{
    simba_store *store = open_store();
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    _Atomic int losses = 0;
    simba_locker *locker;
    int64_t longest;
    bool is_kept;

    options.mutex = fresh_mutex();
    set_times(&options.times, round);
    options.on_lost = count_loss;
    options.user = &losses;
    locker = must_open_locker(store, &options);
    assert_int_equal(simba_locker_acquire(locker, -1, NULL, NULL), SIMBA_OK);
    longest = get_on(locker_progress, locker, round);
    is_kept = simba_locker_is_owner(locker);
    if (!is_kept) {
        expect_slow(count_stalls(store, options.mutex), longest, round);
    }
    await(atomic_load(&losses) == 1);
    assert_false(simba_locker_is_owner(locker));
    assert_int_equal(simba_locker_release(locker, NULL), SIMBA_ELOST);
    simba_locker_close(locker);
    simba_store_close(store);
    return is_kept;
}

/* It is kept as long as the work gets on, and not longer. */
TEST(test_locker__stalled_work_loses_the_mutex)
{
    int round = 0;

    while (!see_locker_stall(round)) {
        assert_true(++round < ROUNDS);
    }
}

static void count_loss_of_one(void *user,
                              const char *mutex,
                              const simba_error *why)
{
    assert_non_null(mutex);
    count_loss(user, why);
}

static void multi_locker_progress(void *multi)
{
    simba_multi_locker_progress(multi);
}

/* False: the machine was too slow to see it. */
static bool see_multi_locker_stall(int round)
{
    simba_store *store = open_store();
    simba_multi_locker_options options = SIMBA_MULTI_LOCKER_OPTIONS_INIT;
    const char *mutexes[] = {strdup(fresh_mutex()), strdup(fresh_mutex())};
    _Atomic int losses = 0;
    simba_multi_locker *multi;
    int64_t longest;
    bool is_kept;

    options.mutexes = mutexes;
    options.count = 2;
    set_times(&options.times, round);
    options.on_lost = count_loss_of_one;
    options.user = &losses;
    multi = must_open_multi_locker(store, &options);
    assert_int_equal(simba_multi_locker_acquire(multi, -1, NULL, NULL),
                     SIMBA_OK);
    longest = get_on(multi_locker_progress, multi, round);
    is_kept = simba_multi_locker_is_owner(multi);
    if (!is_kept) {
        expect_slow(count_stalls(store, mutexes[0]) +
                        count_stalls(store, mutexes[1]),
                    longest, round);
    }
    await(atomic_load(&losses) == 1);
    assert_false(simba_multi_locker_is_owner(multi));
    assert_int_equal(simba_multi_locker_release(multi, NULL), SIMBA_ELOST);
    simba_multi_locker_close(multi);
    simba_store_close(store);
    free((void *)mutexes[0]);
    free((void *)mutexes[1]);
    return is_kept;
}

/* One sign of progress is for all of them. */
TEST(test_multi_locker__stalled_work_loses_all)
{
    int round = 0;

    while (!see_multi_locker_stall(round)) {
        assert_true(++round < ROUNDS);
    }
}

/* Work that says that it gets on, or does not. */
struct worker {
    _Atomic bool is_lively;
    _Atomic int begun, ended;
    _Atomic int64_t since_ms;
    _Atomic int64_t longest_ms; /* without a sign of it */
};

static int toil(void *user, const simba_run *run, simba_error *error)
{
    struct worker *worker = user;
    int64_t last = now_ms();

    (void)error;
    atomic_store(&worker->since_ms, last);
    atomic_fetch_add(&worker->begun, 1);
    while (!simba_run_is_stopped(run)) {
        int64_t now = now_ms();

        if (now - last > atomic_load(&worker->longest_ms)) {
            atomic_store(&worker->longest_ms, now - last);
        }
        last = now;
        if (atomic_load(&worker->is_lively)) {
            simba_run_progress(run);
        }
        rest_ms(5);
    }
    atomic_fetch_add(&worker->ended, 1);
    return SIMBA_OK;
}

static simba_scheduler_options lively_options(const char *mutex,
                                              void *user,
                                              int round)
{
    simba_scheduler_options options = options_of(mutex, NULL);

    set_times(&options.times, round);
    options.work = toil;
    options.user = user;
    return options;
}

/* False: the machine was too slow to see it. */
static bool see_scheduler_stall(int round)
{
    simba_store *store = open_store();
    struct worker worker = {.is_lively = true};
    simba_scheduler_options options =
        lively_options(fresh_mutex(), &worker, round);
    simba_scheduler *s = start_scheduler(store, &options);
    bool is_kept;

    await(atomic_load(&worker.begun) > 1 ||
          (atomic_load(&worker.begun) > 0 &&
           now_ms() - atomic_load(&worker.since_ms) > KEEP_MS << round));
    is_kept = atomic_load(&worker.ended) == 0;
    if (!is_kept) {
        expect_slow(count_stalls(store, options.mutex),
                    atomic_load(&worker.longest_ms), round);
    }
    atomic_store(&worker.is_lively, false);
    await(!is_kept || count_stalls(store, options.mutex) > 0);
    await(atomic_load(&worker.ended) > 0);
    simba_scheduler_close(s);
    simba_store_close(store);
    return is_kept;
}

/* It leads for more than a lease while it says so, and loses when it hangs. */
TEST(test_scheduler__work_that_hangs_loses_its_leadership)
{
    int round = 0;

    while (!see_scheduler_stall(round)) {
        assert_true(++round < ROUNDS);
    }
}

/* Between two runs there is nobody to ask. */
TEST(test_scheduler__waiting_for_a_beat_is_no_stall)
{
    simba_store *store = open_store();
    struct shared shared = {0};
    struct job job = {.shared = &shared};
    simba_scheduler_options options = lively_options(fresh_mutex(), &job, 0);
    simba_scheduler *s;
    int64_t began;

    options.work = work;
    options.period_ms = INT64_C(3600) * 1000;
    s = start_scheduler(store, &options);
    await(atomic_load(&job.ended) >= 1);
    began = now_ms();
    await(now_ms() - began > KEEP_MS);
    assert_int_equal(count_stalls(store, options.mutex), 0);
    simba_scheduler_close(s);
    simba_store_close(store);
}
