/* Retrievals as handles, in memory: there no change is missed by chance. */
#include "retrieval_driver.h"

/* A callback that does not come back. */
struct sleeper {
    struct sight sight;
    _Atomic bool is_awake;
    _Atomic bool has_begun;
    _Atomic int gaps;
};

static void sleep_first(void *user, const simba_state *change)
{
    struct sleeper *sleeper = user;

    atomic_store(&sleeper->has_begun, true);
    while (!atomic_load(&sleeper->is_awake)) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    if (change->has_gap) {
        atomic_fetch_add(&sleeper->gaps, 1);
    }
    on_changed(&sleeper->sight, change);
}

/* What it does not take is not kept for ever, and the last is told. */
TEST(test_retrieval__a_slow_callback_costs_a_gap)
{
    enum { TENURES = 800 };
    simba_store *store = open_store();
    const char *mutex = fresh_mutex();
    struct sleeper sleeper = {.sight = {.lock = PTHREAD_MUTEX_INITIALIZER}};
    simba_retriever retriever = SIMBA_RETRIEVER_INIT;
    simba_retrieval *retrieval;
    simba_locker *locker;

    retriever.mutex = mutex;
    retriever.poll_ms = 10;
    retriever.on_changed = sleep_first;
    retriever.user = &sleeper;
    retrieval = must_open_retrieval(store, &retriever);
    assert_int_equal(simba_retrieval_start(retrieval, NULL), SIMBA_OK);
    await(simba_retrieval_status(retrieval) == SIMBA_RUNNING);
    for (int i = 0; i < TENURES; i++) {
        simba_locker_close(acquire(store, mutex, i % 2 ? "odd" : "even"));
    }
    locker = acquire(store, mutex, "last");
    await(atomic_load(&sleeper.has_begun));
    atomic_store(&sleeper.is_awake, true);
    await(heard(&sleeper.sight, "last"));
    simba_retrieval_close(retrieval);
    simba_locker_close(locker);
    simba_store_close(store);
    assert_true(sleeper.sight.changes < 2 * TENURES);
    assert_true(atomic_load(&sleeper.gaps) > 0);
    assert_false(sleeper.sight.is_broken);
}

TEST(test_retrieval__refuses_bad_options)
{
    simba_store *store = open_store();
    simba_retriever retriever = SIMBA_RETRIEVER_INIT;
    simba_retrieval *retrieval;
    simba_error error;

    retriever.mutex = "fine";
    assert_int_equal(
        simba_retrieval_open(store, &retriever, &retrieval, &error),
        SIMBA_EINVAL);
    assert_null(retrieval);
    retriever.on_changed = on_changed;
    retriever.poll_ms = -1;
    assert_int_equal(
        simba_retrieval_open(store, &retriever, &retrieval, &error),
        SIMBA_EINVAL);
    retriever.poll_ms = 0;
    retriever.mutex = "}";
    assert_int_equal(
        simba_retrieval_open(store, &retriever, &retrieval, &error),
        SIMBA_EINVAL);
    simba_store_close(store);
}
