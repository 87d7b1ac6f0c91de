/* Callbacks on threads of the program's own, on any store. */
#include "executor_queue.h"

/* Who it is, or -1. Mostly the next in the queue, but on a slow machine one
 * that was offered it may come too late. */
static int owner_of(struct heard *heard, int count)
{
    while (--count >= 0 && atomic_load(&heard[count].acquired) ==
                               atomic_load(&heard[count].released)) {
    }
    return count;
}

TEST(test_executor__runs_callbacks_in_turn)
{
    enum { ROUNDS = 20 };
    struct queue queue;
    simba_store *store;
    const char *mutex = fresh_mutex();
    struct heard heard[3] = {0};
    simba_service *services[3];

    start_queue(&queue, WORKERS_MOST);
    store = open_with(put, &queue);
    for (int i = 0; i < 3; i++) {
        services[i] = open_service(store, mutex, &heard[i]);
        start(services[i]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        int i;

        await((i = owner_of(heard, 3)) >= 0);
        stop(services[i]);
        start(services[i]);
    }
    for (int i = 0; i < 3; i++) {
        simba_service_close(services[i]);
        assert_int_equal(atomic_load(&heard[i].acquired),
                         atomic_load(&heard[i].released));
        assert_false(atomic_load(&heard[i].is_broken));
        assert_false(atomic_load(&heard[i].is_elsewhere));
    }
    simba_store_close(store);
    end_queue(&queue);
    assert_true(atomic_load(&queue.taken) >= 2 * ROUNDS);
}

static bool run_at_once(void *user, void (*run)(void *argument), void *argument)
{
    is_worker = true;
    run(argument);
    is_worker = false;
    atomic_fetch_add((_Atomic int *)user, 1);
    return true;
}

TEST(test_executor__may_run_them_itself)
{
    _Atomic int runs = 0;
    simba_store *store = open_with(run_at_once, &runs);
    struct heard heard = {0};
    simba_service *service = open_service(store, fresh_mutex(), &heard);

    for (int i = 1; i <= 3; i++) {
        start(service);
        await(atomic_load(&heard.acquired) == i);
        stop(service);
    }
    simba_service_close(service);
    simba_store_close(store);
    assert_int_equal(atomic_load(&runs), 6);
    assert_false(atomic_load(&heard.is_broken));
    assert_false(atomic_load(&heard.is_elsewhere));
}

static bool refuse(void *user, void (*run)(void *argument), void *argument)
{
    (void)run;
    (void)argument;
    atomic_fetch_add((_Atomic int *)user, 1);
    return false;
}

/* S9: whatever becomes of the executor, on_released is told. */
TEST(test_executor__that_refuses_loses_no_callback)
{
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;
    struct log_counter logged = {SIMBA_LOG_DEBUG, "executor refuses", 0};
    _Atomic int asked = 0;
    simba_store *store;
    struct heard heard = {0};
    simba_service *service;

    options.executor = refuse;
    options.executor_user = &asked;
    options.log = count_log;
    options.log_user = &logged;
    store = open_store_with(&options);
    service = open_service(store, fresh_mutex(), &heard);
    start(service);
    await(atomic_load(&heard.acquired) == 1);
    simba_service_close(service);
    assert_int_equal(atomic_load(&heard.released), 1);
    simba_store_close(store);
    assert_int_equal(atomic_load(&asked), 2);
    assert_int_equal(atomic_load(&logged.count), 1);
}

/* --- everything that calls back ------------------------------------------ */

static _Atomic int losses, changes;

static void on_lost(void *user, const simba_error *why)
{
    (void)user;
    (void)why;
    atomic_fetch_add(&losses, is_worker ? 1 : 100);
}

static void on_changed(void *user, const simba_state *state)
{
    (void)user;
    (void)state;
    atomic_fetch_add(&changes, is_worker ? 1 : 100);
}

TEST(test_executor__serves_lockers_and_retrievals)
{
    struct queue queue;
    simba_store *store;
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_retriever retriever = SIMBA_RETRIEVER_INIT;
    simba_locker *locker;
    simba_retrieval *retrieval;

    start_queue(&queue, 1);
    store = open_with(put, &queue);
    retriever.mutex = options.mutex = fresh_mutex();
    retriever.on_changed = on_changed;
    retriever.poll_ms = 10;
    options.on_lost = on_lost;
    options.times.max_hold_ms = 300;
    retrieval = must_open_retrieval(store, &retriever);
    assert_int_equal(simba_retrieval_start(retrieval, NULL), SIMBA_OK);
    locker = must_open_locker(store, &options);
    assert_int_equal(simba_locker_acquire(locker, -1, NULL, NULL), SIMBA_OK);
    await(atomic_load(&losses) == 1);
    await(atomic_load(&changes) >= 1);
    simba_locker_close(locker);
    simba_retrieval_close(retrieval);
    simba_store_close(store);
    end_queue(&queue);
    assert_true(atomic_load(&changes) < 100);
}

static void refuse_options(const simba_store_options *options, const char *why)
{
    simba_store *store;
    simba_error error;

    assert_int_equal(simba_store_open(store_url, options, &store, &error),
                     SIMBA_EINVAL);
    assert_null(store);
    assert_non_null(strstr(error.message, why));
}

TEST(test_store__refuses_bad_options)
{
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;

    options.callback_threads = 4;
    options.executor = refuse;
    refuse_options(&options, "callback_threads is 4");
    options.executor = NULL;
    options.callback_threads = -1;
    refuse_options(&options, "callback_threads is -1");
    options.callback_threads = 100000;
    refuse_options(&options, "1024");
    options.callback_threads = 0;
    options.log_level = (enum simba_log_level)7;
    refuse_options(&options, "log_level is 7");
    options.log_level = SIMBA_LOG_DEFAULT;
    options.config = (enum simba_config_use)3;
    refuse_options(&options, "config is 3");
    options.size = 0;
    refuse_options(&options, "_INIT");
}
