/* A thread that drives a store for its own sake takes on what it submits; what
 * comes while it leaves is not left to it, for it does not come back. */
#include "fixtures/api_harness.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

static _Atomic int *of_module(const char *name)
{
    char path[4096];
    void *module;
    _Atomic int *number;

    snprintf(path, sizeof path, "%s/simba-driven.so",
             getenv("SIMBA_MODULE_PATH"));
    module = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(module);
    number = dlsym(module, name);
    assert_non_null(number);
    dlclose(module);
    return number;
}

static _Atomic int is_asked_to_go;

/* Returns when the other thread is about to leave, so that the release comes
 * then. */
static void go_when_the_other_does(void *user, const simba_state *state)
{
    _Atomic int *is_leaving = user;

    (void)state;
    is_asked_to_go = 1;
    for (int i = 0; i < PATIENCE_MS && !*is_leaving; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static void *stop_service(void *service)
{
    return simba_service_stop(service, NULL) == SIMBA_OK ? service : NULL;
}

TEST(test_driven__who_leaves_takes_on_nothing)
{
    simba_contender contender = SIMBA_CONTENDER_INIT;
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_store *store;
    simba_service *service;
    simba_locker *locker;
    pthread_t thread;
    void *is_stopped;

    assert_int_equal(simba_store_open("driven:", NULL, &store, NULL), SIMBA_OK);
    contender.mutex = "theirs";
    contender.on_released = go_when_the_other_does;
    contender.user = of_module("driven_is_leaving");
    service = must_open_service(store, &contender);
    assert_int_equal(simba_service_start(service, NULL), SIMBA_OK);
    await(simba_service_is_owner(service));
    assert_int_equal(pthread_create(&thread, NULL, stop_service, service), 0);
    await(is_asked_to_go);
    options.mutex = "ours";
    locker = must_open_locker(store, &options);
    *of_module("driven_holds_up") = 1;
    assert_int_equal(simba_locker_acquire(locker, 1000, NULL, NULL), SIMBA_OK);
    assert_int_equal(*of_module("driven_is_leaving"), 1);
    *of_module("driven_holds_up") = 0;
    assert_int_equal(pthread_join(thread, &is_stopped), 0);
    assert_ptr_equal(is_stopped, service);
    assert_int_equal(*of_module("driven_orphans"), 0);
    simba_locker_close(locker);
    simba_service_close(service);
    simba_store_close(store);
}

/* What a shim sends once more, later, is for nobody. */
TEST(test_driven__an_echo_is_for_nobody)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_store *store;
    simba_locker *locker;
    int before;

    assert_int_equal(
        simba_store_open("fault:echo=100,late=20:driven:", NULL, &store, NULL),
        SIMBA_OK);
    *of_module("driven_is_leaving") = *of_module("driven_orphans") = 0;
    before = *of_module("driven_count");
    options.mutex = "ours";
    locker = must_open_locker(store, &options);
    assert_int_equal(simba_locker_acquire(locker, 1000, NULL, NULL), SIMBA_OK);
    await(*of_module("driven_count") >= before + 2);
    assert_int_equal(*of_module("driven_orphans"), 0);
    simba_locker_close(locker);
    simba_store_close(store);
}
