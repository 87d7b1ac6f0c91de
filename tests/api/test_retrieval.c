/* Watching a mutex, on any store. */
#include "harness.h"

#include <pthread.h>
#include <string.h>

/* What the retriever heard. */
struct ear {
    pthread_mutex_t lock;
    int changes;
    char id[SIMBA_ID_MAX + 1];
    uint64_t newest;
    bool is_broken; /* not in order, or told twice */
};

static void on_changed(void *user, const simba_state *change)
{
    struct ear *ear = user;

    pthread_mutex_lock(&ear->lock);
    ear->is_broken |= strcmp(ear->id, change->before.id) != 0 ||
                      !simba_state_is_changed(change);
    if (change->after.token != 0) {
        ear->is_broken |= change->after.token <= ear->newest;
        ear->newest = change->after.token;
    }
    ear->changes++;
    strcpy(ear->id, change->after.id);
    pthread_mutex_unlock(&ear->lock);
}

static bool heard(struct ear *ear, const char *id)
{
    bool is_so;

    pthread_mutex_lock(&ear->lock);
    is_so = strcmp(ear->id, id) == 0 && (ear->changes > 0 || id[0] == '\0');
    pthread_mutex_unlock(&ear->lock);
    return is_so;
}

static simba_retrieval *watch(simba_store *store,
                              const char *mutex,
                              struct ear *ear)
{
    simba_retriever retriever = SIMBA_RETRIEVER_INIT;
    simba_retrieval *retrieval;

    *ear = (struct ear){.lock = PTHREAD_MUTEX_INITIALIZER};
    retriever.mutex = mutex;
    retriever.poll_ms = 10;
    retriever.on_changed = on_changed;
    retriever.user = ear;
    assert_int_equal(simba_retrieval_open(store, &retriever, &retrieval, NULL),
                     SIMBA_OK);
    assert_int_equal(simba_retrieval_status(retrieval), SIMBA_INITIAL);
    assert_int_equal(simba_retrieval_start(retrieval, NULL), SIMBA_OK);
    assert_int_equal(simba_retrieval_start(retrieval, NULL), SIMBA_EMISUSE);
    return retrieval;
}

static simba_locker *acquire(simba_store *store,
                             const char *mutex,
                             const char *id)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker;

    options.mutex = mutex;
    options.id = id;
    assert_int_equal(simba_locker_open(store, &options, &locker, NULL),
                     SIMBA_OK);
    assert_int_equal(simba_locker_acquire(locker, -1, NULL, NULL), SIMBA_OK);
    return locker;
}

static void test_retrieval__sees_owners_come_and_go(void **state)
{
    simba_store *store = open_store();
    const char *mutex = fresh_mutex();
    struct ear ear;
    simba_retrieval *retrieval = watch(store, mutex, &ear);

    (void)state;
    await(simba_retrieval_status(retrieval) == SIMBA_RUNNING);
    for (int i = 0; i < 3; i++) {
        simba_locker *locker = acquire(store, mutex, i % 2 ? "odd" : "even");
        await(heard(&ear, i % 2 ? "odd" : "even"));
        simba_locker_close(locker);
        await(heard(&ear, ""));
    }
    assert_int_equal(simba_retrieval_stop(retrieval, NULL), SIMBA_OK);
    assert_int_equal(simba_retrieval_status(retrieval), SIMBA_INITIAL);
    assert_int_equal(ear.changes, 6);
    assert_false(ear.is_broken);
    simba_retrieval_close(retrieval);
    simba_store_close(store);
}

static void test_retrieval__never_contends(void **state)
{
    simba_store *store = open_store();
    const char *mutex = fresh_mutex();
    struct ear ear;
    simba_retrieval *retrieval = watch(store, mutex, &ear);
    simba_locker *locker;

    (void)state;
    await(simba_retrieval_status(retrieval) == SIMBA_RUNNING);
    locker = acquire(store, mutex, "alone");
    await(heard(&ear, "alone"));
    simba_locker_close(locker);
    simba_retrieval_close(retrieval); /* while it runs */
    simba_store_close(store);
}

static void test_retrieval__refuses_bad_options(void **state)
{
    simba_store *store = open_store();
    simba_retriever retriever = SIMBA_RETRIEVER_INIT;
    simba_retrieval *retrieval;
    simba_error error;

    (void)state;
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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_retrieval__sees_owners_come_and_go),
        cmocka_unit_test(test_retrieval__never_contends),
        cmocka_unit_test(test_retrieval__refuses_bad_options),
    };

    if (argc > 1) {
        store_url = argv[1];
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
