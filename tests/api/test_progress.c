/* A mutex is kept as long as the work under it gets on. On any store. */
#include "scheduler_driver.h"

#include <stdlib.h>

static void count_loss(void *user, const simba_error *why)
{
    assert_int_equal(why->code, SIMBA_ELOST);
    atomic_fetch_add((_Atomic int *)user, 1);
}

/* It is kept as long as the work gets on, and not longer. */
TEST(test_locker__stalled_work_loses_the_mutex)
{
    simba_store *store = open_store();
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    _Atomic int losses = 0;
    simba_locker *locker;
    int64_t until;

    options.mutex = fresh_mutex();
    options.times.ttl_ms = 1500;
    options.times.transition_ms = 1000;
    options.times.progress_ms = 800;
    options.on_lost = count_loss;
    options.user = &losses;
    locker = must_open_locker(store, &options);
    assert_int_equal(simba_locker_acquire(locker, -1, NULL, NULL), SIMBA_OK);
    until = now_ms() + 3000;
    await((simba_locker_progress(locker), now_ms() > until));
    assert_true(simba_locker_is_owner(locker));
    await(atomic_load(&losses) == 1);
    assert_false(simba_locker_is_owner(locker));
    assert_int_equal(simba_locker_release(locker, NULL), SIMBA_ELOST);
    simba_locker_close(locker);
    simba_store_close(store);
}

static void count_loss_of_one(void *user,
                              const char *mutex,
                              const simba_error *why)
{
    assert_non_null(mutex);
    count_loss(user, why);
}

/* One sign of progress is for all of them. */
TEST(test_multi_locker__stalled_work_loses_all)
{
    simba_store *store = open_store();
    simba_multi_locker_options options = SIMBA_MULTI_LOCKER_OPTIONS_INIT;
    const char *mutexes[] = {strdup(fresh_mutex()), strdup(fresh_mutex())};
    _Atomic int losses = 0;
    simba_multi_locker *multi;
    int64_t until;

    options.mutexes = mutexes;
    options.count = 2;
    options.times.ttl_ms = 1500;
    options.times.transition_ms = 1000;
    options.times.progress_ms = 800;
    options.on_lost = count_loss_of_one;
    options.user = &losses;
    multi = must_open_multi_locker(store, &options);
    assert_int_equal(simba_multi_locker_acquire(multi, -1, NULL, NULL),
                     SIMBA_OK);
    until = now_ms() + 3000;
    await((simba_multi_locker_progress(multi), now_ms() > until));
    assert_true(simba_multi_locker_is_owner(multi));
    await(atomic_load(&losses) == 1);
    assert_false(simba_multi_locker_is_owner(multi));
    assert_int_equal(simba_multi_locker_release(multi, NULL), SIMBA_ELOST);
    simba_multi_locker_close(multi);
    simba_store_close(store);
    free((void *)mutexes[0]);
    free((void *)mutexes[1]);
}

/* Work that says that it gets on, or does not. */
struct worker {
    _Atomic bool is_lively;
    _Atomic int begun, ended;
    _Atomic int64_t since_ms;
};

static int toil(void *user, const simba_run *run, simba_error *error)
{
    struct worker *worker = user;

    (void)error;
    atomic_store(&worker->since_ms, now_ms());
    atomic_fetch_add(&worker->begun, 1);
    while (!simba_run_is_stopped(run)) {
        if (atomic_load(&worker->is_lively)) {
            simba_run_progress(run);
        }
        rest_ms(5);
    }
    atomic_fetch_add(&worker->ended, 1);
    return SIMBA_OK;
}

/* Short enough to be waited for, long enough for a slow machine. */
static simba_scheduler_options lively_options(const char *mutex, void *user)
{
    simba_scheduler_options options = options_of(mutex, NULL);

    options.times.ttl_ms = 1500;
    options.times.transition_ms = 1000;
    options.times.progress_ms = 800;
    options.work = toil;
    options.user = user;
    return options;
}

/* It leads for more than a lease while it says so, and loses when it hangs. */
TEST(test_scheduler__work_that_hangs_loses_its_leadership)
{
    simba_store *store = open_store();
    struct worker worker = {.is_lively = true};
    simba_scheduler_options options = lively_options(fresh_mutex(), &worker);
    simba_scheduler *s = start_scheduler(store, &options);
    simba_metrics *metrics;

    await(atomic_load(&worker.begun) > 0 &&
          now_ms() - atomic_load(&worker.since_ms) > 3000);
    assert_int_equal(simba_metrics_read(store, &metrics, NULL), SIMBA_OK);
    assert_int_equal(simba_metrics_of(metrics, options.mutex)->lost_stalled, 0);
    simba_metrics_free(metrics);
    atomic_store(&worker.is_lively, false);
    await(atomic_load(&worker.ended) > 0);
    assert_int_equal(simba_metrics_read(store, &metrics, NULL), SIMBA_OK);
    assert_true(simba_metrics_of(metrics, options.mutex)->lost_stalled > 0);
    simba_metrics_free(metrics);
    simba_scheduler_close(s);
    simba_store_close(store);
}

/* Between two runs there is nobody to ask. */
TEST(test_scheduler__waiting_for_a_beat_is_no_stall)
{
    simba_store *store = open_store();
    struct shared shared = {0};
    struct job job = {.shared = &shared};
    simba_scheduler_options options = lively_options(fresh_mutex(), &job);
    simba_scheduler *s;
    simba_metrics *metrics;
    int64_t began;

    options.work = work;
    options.period_ms = INT64_C(3600) * 1000;
    s = start_scheduler(store, &options);
    await(atomic_load(&job.ended) == 1);
    began = now_ms();
    await(now_ms() - began > 3000);
    assert_int_equal(simba_metrics_read(store, &metrics, NULL), SIMBA_OK);
    assert_int_equal(simba_metrics_of(metrics, options.mutex)->lost_stalled, 0);
    simba_metrics_free(metrics);
    simba_scheduler_close(s);
    simba_store_close(store);
}
