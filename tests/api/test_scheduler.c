/* One scheduler: its life, its beats, its work. On any store. */
#include "scheduler_driver.h"

#include <pthread.h>

TEST(test_scheduler__goes_through_its_statuses)
{
    simba_store *store = open_store();
    struct shared shared = {0};
    struct job job = {.shared = &shared, .until_told = true};
    simba_scheduler_options options = options_of(fresh_mutex(), &job);
    simba_scheduler *s = open_scheduler(store, &options);

    assert_int_equal(simba_scheduler_status(s), SIMBA_INITIAL);
    assert_int_equal(simba_scheduler_stop(s, NULL), SIMBA_OK);
    assert_int_equal(simba_scheduler_start(s, NULL), SIMBA_OK);
    assert_int_equal(simba_scheduler_start(s, NULL), SIMBA_EMISUSE);
    await(atomic_load(&job.begun) == 1);
    assert_int_equal(simba_scheduler_status(s), SIMBA_RUNNING);
    assert_true(simba_scheduler_is_owner(s));
    assert_int_equal(simba_scheduler_token(s), atomic_load(&job.token));
    assert_int_equal(simba_scheduler_stop(s, NULL), SIMBA_OK);
    assert_int_equal(atomic_load(&job.ended), 1);
    assert_int_equal(simba_scheduler_status(s), SIMBA_INITIAL);
    assert_false(simba_scheduler_is_owner(s));
    simba_scheduler_close(s);
    simba_store_close(store);
}

TEST(test_scheduler__starts_again_with_a_greater_token)
{
    simba_store *store = open_store();
    struct shared shared = {0};
    struct job job = {.shared = &shared};
    simba_scheduler_options options = options_of(fresh_mutex(), &job);
    simba_scheduler *s = open_scheduler(store, &options);
    uint64_t before = 0;

    for (int i = 0; i < 5; i++) {
        int begun = atomic_load(&job.begun);

        assert_int_equal(simba_scheduler_start(s, NULL), SIMBA_OK);
        await(atomic_load(&job.begun) > begun + 1);
        assert_int_equal(simba_scheduler_stop(s, NULL), SIMBA_OK);
        begun = atomic_load(&job.begun);
        assert_int_equal(atomic_load(&job.ended), begun);
        assert_true(atomic_load(&job.token) > before);
        before = atomic_load(&job.token);
        rest_ms(20);
        assert_int_equal(atomic_load(&job.begun), begun); /* it stopped */
    }
    assert_int_equal(counts_of(s).tenures, 5);
    assert_int_equal(counts_of(s).runs, atomic_load(&job.begun));
    assert_false(atomic_load(&shared.is_broken));
    simba_scheduler_close(s);
    simba_store_close(store);
}

TEST(test_scheduler__delay_counts_from_the_end_of_a_run)
{
    simba_store *store = open_store();
    struct shared shared = {0};
    struct job job = {.shared = &shared, .lasts_ms = 40};
    simba_scheduler_options options = options_of(fresh_mutex(), &job);
    simba_scheduler *s;

    options.period_ms = 60;
    s = start_scheduler(store, &options);
    for (int i = 1; i < 4; i++) {
        int64_t ended;

        await(atomic_load(&job.ended) == i);
        ended = atomic_load(&job.ended_ms);
        await(atomic_load(&job.begun) == i + 1);
        assert_true(atomic_load(&job.began_ms) - ended >= 60);
    }
    simba_scheduler_close(s);
    simba_store_close(store);
}

/* The embedded stores have our own clock, so that an early beat would show. */
TEST(test_scheduler__rate_keeps_to_multiples_of_the_period)
{
    simba_store *store = open_store();
    struct shared shared = {0};
    struct job job = {.shared = &shared};
    simba_scheduler_options options = options_of(fresh_mutex(), &job);
    simba_scheduler *s;
    int64_t before = 0;

    options.schedule = SIMBA_FIXED_RATE;
    options.period_ms = 50;
    s = start_scheduler(store, &options);
    for (int i = 1; i <= 6; i++) {
        await(atomic_load(&job.begun) >= i);
        rest_ms(1); /* all of the run is written */
        assert_int_equal(atomic_load(&job.beat_ms) % 50, 0);
        assert_true(atomic_load(&job.began_ms) >= atomic_load(&job.beat_ms));
        assert_true(atomic_load(&job.beat_ms) > before);
        before = atomic_load(&job.beat_ms);
        i = atomic_load(&job.begun);
    }
    simba_scheduler_close(s);
    simba_store_close(store);
}

TEST(test_scheduler__beats_missed_by_long_work_are_skipped)
{
    simba_store *store = open_store();
    struct shared shared = {0};
    struct job job = {.shared = &shared, .lasts_ms = 50};
    simba_scheduler_options options = options_of(fresh_mutex(), &job);
    simba_scheduler *s;

    options.schedule = SIMBA_FIXED_RATE;
    options.period_ms = 20;
    s = start_scheduler(store, &options);
    await(atomic_load(&job.begun) >= 3);
    assert_true(atomic_load(&job.skipped) >= 2); /* since the second */
    assert_true(counts_of(s).skipped >= 4);
    assert_int_equal(simba_scheduler_stop(s, NULL), SIMBA_OK);
    assert_false(atomic_load(&shared.is_broken));
    simba_scheduler_close(s);
    simba_store_close(store);
}

TEST(test_scheduler__first_run_waits_for_the_initial_delay)
{
    simba_store *store = open_store();
    struct shared shared = {0};
    struct job job = {.shared = &shared};
    simba_scheduler_options options = options_of(fresh_mutex(), &job);
    simba_scheduler *s;
    int64_t started = now_ms();

    options.initial_delay_ms = 150;
    s = start_scheduler(store, &options);
    await(simba_scheduler_is_owner(s));
    await(atomic_load(&job.begun) > 0);
    assert_true(now_ms() - started >= 150);
    simba_scheduler_close(s);
    simba_store_close(store);
}

/* What was logged. */
struct log {
    _Atomic int failures, overruns;
};

static void on_log(void *user,
                   enum simba_log_level level,
                   const char *component,
                   const char *message)
{
    struct log *log = user;

    (void)level;
    if (strcmp(component, "scheduler") == 0) {
        atomic_fetch_add(&log->failures,
                         strstr(message, "the tea is out") != NULL);
        atomic_fetch_add(&log->overruns, strstr(message, "overrun") != NULL);
    }
}

static simba_store *open_logging(struct log *log)
{
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;

    options.log = on_log;
    options.log_user = log;
    return open_store_with(&options);
}

TEST(test_scheduler__errors_are_logged_and_the_schedule_kept)
{
    struct log log = {0};
    simba_store *store = open_logging(&log);
    struct shared shared = {0};
    struct job job = {.shared = &shared, .rc = SIMBA_EUNAVAIL};
    simba_scheduler_options options = options_of(fresh_mutex(), &job);
    simba_scheduler *s = start_scheduler(store, &options);
    int failures;

    await(atomic_load(&log.failures) >= 3);
    atomic_store(&job.rc, SIMBA_OK);
    failures = atomic_load(&job.ended) + 1; /* one may be under way */
    await(atomic_load(&job.ended) >= failures + 3);
    assert_true(simba_scheduler_is_owner(s)); /* in the same tenure */
    assert_int_equal(counts_of(s).tenures, 1);
    assert_true(counts_of(s).failures >= 3);
    assert_true(counts_of(s).failures <= (uint64_t)failures);
    assert_true(counts_of(s).runs > counts_of(s).failures);
    simba_scheduler_close(s);
    simba_store_close(store);
}

TEST(test_scheduler__running_work_is_told_by_flag_and_descriptor)
{
    simba_store *store = open_store();
    struct shared shared = {0};
    struct job job = {.shared = &shared, .until_told = true};
    simba_scheduler_options options = options_of(fresh_mutex(), &job);
    simba_scheduler *s = open_scheduler(store, &options);

    for (int i = 1; i <= 3; i++) { /* the descriptor is quiet each time */
        assert_int_equal(simba_scheduler_start(s, NULL), SIMBA_OK);
        await(atomic_load(&job.begun) == i);
        rest_ms(20);
        assert_int_equal(atomic_load(&job.ended), i - 1);
        assert_int_equal(simba_scheduler_stop(s, NULL), SIMBA_OK);
        assert_int_equal(atomic_load(&job.ended), i);
        assert_int_equal(atomic_load(&job.told), i);
    }
    assert_int_equal(counts_of(s).overruns, 0);
    simba_scheduler_close(s);
    simba_store_close(store);
}

static void *stop_aside(void *scheduler)
{
    return simba_scheduler_stop(scheduler, NULL) == SIMBA_OK ? scheduler : NULL;
}

TEST(test_scheduler__work_that_ignores_its_end_overruns)
{
    enum { BUDGET_MS = 300 };
    struct log log = {0};
    simba_store *store = open_logging(&log);
    struct shared one = {0}, other = {0};
    struct job deaf = {.shared = &one, .holds = 1};
    struct job next = {.shared = &other};
    char mutex[64];
    simba_scheduler_options options;
    simba_scheduler *a, *b;
    pthread_t stopper;
    void *stopped;
    int64_t asked_ms;

    snprintf(mutex, sizeof mutex, "%s", fresh_mutex());
    options = options_of(mutex, &deaf);
    options.times.budget_ms = BUDGET_MS;
    a = start_scheduler(store, &options);
    await(atomic_load(&deaf.begun) == 1);
    options = options_of(mutex, &next);
    b = start_scheduler(store, &options);
    asked_ms = now_ms();
    pthread_create(&stopper, NULL, stop_aside, a);
    await(atomic_load(&next.begun) > 0);
    assert_true(atomic_load(&next.began_ms) - asked_ms >= BUDGET_MS);
    assert_int_equal(atomic_load(&log.overruns), 1);
    assert_int_equal(counts_of(a).overruns, 1);
    assert_int_equal(simba_scheduler_status(a), SIMBA_STOPPING);
    assert_int_equal(simba_scheduler_start(a, NULL), SIMBA_EMISUSE);
    assert_int_equal(atomic_load(&deaf.ended), 0); /* stop still waits */
    atomic_store(&deaf.holds, 0);
    pthread_join(stopper, &stopped);
    assert_ptr_equal(stopped, a);
    assert_int_equal(atomic_load(&deaf.ended), 1);
    assert_true(atomic_load(&next.token) > atomic_load(&deaf.token));
    simba_scheduler_close(b);
    assert_int_equal(simba_scheduler_start(a, NULL), SIMBA_OK); /* as new */
    await(atomic_load(&deaf.begun) >= 2);
    simba_scheduler_close(a);
    simba_store_close(store);
}

TEST(test_scheduler__two_may_stop_it_at_once)
{
    simba_store *store = open_store();
    struct shared shared = {0};
    struct job job = {.shared = &shared, .until_told = true};
    simba_scheduler_options options = options_of(fresh_mutex(), &job);
    simba_scheduler *s = open_scheduler(store, &options);

    for (int i = 1; i <= 10; i++) {
        pthread_t stopper;
        void *stopped;

        assert_int_equal(simba_scheduler_start(s, NULL), SIMBA_OK);
        await(atomic_load(&job.begun) == i);
        pthread_create(&stopper, NULL, stop_aside, s);
        assert_int_equal(simba_scheduler_stop(s, NULL), SIMBA_OK);
        pthread_join(stopper, &stopped);
        assert_ptr_equal(stopped, s);
        assert_int_equal(atomic_load(&job.ended), i);
    }
    simba_scheduler_close(s);
    simba_store_close(store);
}
