/* The shim fault: what it does to requests and wake-ups, and that the mutex
 * stays one. */
#include "shim_driver.h"

TEST(test_shims__fault_fails_the_nth_request)
{
    simba_store *store = open_url("fault:nth=1:stat::memory:nth");
    simba_locker *locker = open_locker(store, fresh_mutex());

    assert_int_equal(simba_locker_acquire(locker, 0, NULL, NULL),
                     SIMBA_EUNAVAIL);
    assert_int_equal(stat_of(store, "acquire").started, 0);
    assert_int_equal(simba_locker_acquire(locker, 0, NULL, NULL), SIMBA_OK);
    simba_locker_close(locker);
    simba_store_close(store);
}

/* The answer is lost, the effect is there: asked again, the same tenure. */
TEST(test_shims__fault_loses_an_answer)
{
    simba_store *store = open_url("stat::fault:nth=1,as=mute:memory:mute");

    pass_through(store);
    assert_int_equal(stat_of(store, "acquire").unknown, 1);
    assert_int_equal(stat_of(store, "acquire").mine, 1);
    simba_store_close(store);
}

TEST(test_shims__fault_loses_a_request)
{
    simba_store *store = open_url("fault:nth=1,as=lose:stat::memory:lose");

    pass_through(store);
    assert_int_equal(stat_of(store, "acquire").started, 1); /* the second */
    simba_store_close(store);
}

TEST(test_shims__fault_doubles_a_request)
{
    simba_store *store = open_url("fault:nth=1,as=double:stat::memory:double");
    simba_locker *locker = open_locker(store, fresh_mutex());

    assert_int_equal(simba_locker_acquire(locker, 0, NULL, NULL), SIMBA_OK);
    await(stat_of(store, "acquire").answered == 2);
    assert_int_equal(stat_of(store, "acquire").mine, 2);
    simba_locker_close(locker);
    simba_store_close(store);
}

TEST(test_shims__fault_delays_requests_and_answers)
{
    static const char *const ways[] = {"delay", "slow"};

    for (int i = 0; i < 2; i++) {
        simba_store *store = open_url(
            "stat::fault:nth=1,as=%s,late=40,seed=3:memory:late", ways[i]);

        pass_through(store);
        assert_int_equal(stat_of(store, "acquire").answered, 1);
        assert_true(stat_of(store, "acquire").most_us >= 500);
        simba_store_close(store);
    }
}

TEST(test_shims__fault_touches_only_what_it_should)
{
    simba_store *store =
        open_url("stat::fault:fail=100,only=renew:memory:only");

    pass_through(store);
    assert_int_equal(stat_of(store, "acquire").failed, 0);
    simba_store_close(store);
}

/* With every wake-up lost the backstop grants (S10); doubled ones do no harm.
 */
TEST(test_shims__fault_loses_and_doubles_wakes)
{
    static const char *const ways[] = {"wake_lose", "wake_double", "wake_late"};

    for (int i = 0; i < 3; i++) {
        simba_store *store =
            open_url("stat::fault:%s=100:stat::memory:h", ways[i]);
        const char *mutex = fresh_mutex();
        simba_locker *a = open_locker(store, mutex);
        simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
        simba_locker *b;

        options.mutex = mutex;
        options.times.ttl_ms = 300;
        options.times.transition_ms = 200;
        b = must_open_locker(store, &options);
        hand_over(store, a, b);
        if (i == 0) {
            assert_int_equal(stat_of(store, "wake_up").started, 0);
        }
        simba_locker_close(a);
        simba_locker_close(b);
        simba_store_close(store);
    }
}

/* The fate of a request follows from the seed alone. */
TEST(test_shims__fault_is_reproducible)
{
    uint64_t failed[3];
    static const int seeds[] = {7, 7, 8};

    for (int i = 0; i < 3; i++) {
        simba_store *store =
            open_url("stat::fault:seed=%d,fail=30:memory:same", seeds[i]);
        simba_report *report;

        failed[i] = 0;
        for (int k = 0; k < 60; k++) {
            int rc = simba_admin_show(store, "m", &report, NULL);

            failed[i] = failed[i] * 3 + (rc == SIMBA_OK ? 1 : 2);
            simba_report_close(report);
        }
        assert_in_range(stat_of(store, "read").failed, 6, 36);
        simba_store_close(store);
    }
    assert_true(failed[0] == failed[1]);
    assert_true(failed[0] != failed[2]);
}

/* Requests that are lost or late when the store is closed end with it. */
TEST(test_shims__fault_closes_with_operations_under_way)
{
    static const char *const ways[] = {"lose=100", "delay=100,late=60000",
                                       "echo=100,late=60000"};

    for (int i = 0; i < 3; i++) {
        simba_store *store =
            open_url("fault:%s,only=acquire:memory:u%d", ways[i], i);
        simba_locker *locker = open_locker(store, fresh_mutex());

        (void)!simba_locker_acquire(locker, 30, NULL, NULL);
        simba_locker_close(locker);
        simba_store_close(store);
    }
}

struct hammer {
    simba_store *store;
    const char *mutex;
    int *counter;
    int done;
};

static void *hammer(void *argument)
{
    struct hammer *h = argument;
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker;

    options.mutex = h->mutex;
    options.times.ttl_ms = 500;
    options.times.transition_ms = 300;
    locker = must_open_locker(h->store, &options);
    for (int i = 0; i < 5; i++) {
        if (simba_locker_acquire(locker, PATIENCE_MS, NULL, NULL) == SIMBA_OK) {
            int seen = *h->counter;

            *h->counter = seen + 1;
            h->done++;
            (void)!simba_locker_release(locker, NULL);
        }
    }
    simba_locker_close(locker);
    return NULL;
}

/* Whatever goes wrong, one at a time changes the counter. */
TEST(test_shims__exclusion_holds_under_faults)
{
    for (int seed = 1; seed <= 5; seed++) {
        simba_store *stores[2];
        struct hammer hammers[4];
        pthread_t threads[4];
        int counter = 0;
        int done = 0;
        const char *mutex = fresh_mutex();

        for (int i = 0; i < 2; i++) {
            stores[i] = open_url("fault:seed=%d:memory:ham", seed * 2 + i);
        }
        for (int i = 0; i < 4; i++) {
            hammers[i] = (struct hammer){stores[i % 2], mutex, &counter, 0};
            assert_int_equal(
                pthread_create(&threads[i], NULL, hammer, &hammers[i]), 0);
        }
        for (int i = 0; i < 4; i++) {
            pthread_join(threads[i], NULL);
            done += hammers[i].done;
        }
        assert_int_equal(counter, done);
        assert_int_equal(done, 20);
        simba_store_close(stores[0]);
        simba_store_close(stores[1]);
    }
}
