/* Forks at bad moments, on any store. */
#include "fixtures/api_harness.h"

#include "child.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

/* Without an allocation, which a child of threads does better without. */
static int descriptors(void)
{
    int count = 0;

    for (int fd = 0; fd < 1024; fd++) {
        count += fcntl(fd, F_GETFD) != -1;
    }
    return count;
}

/* --- while a store is opened --------------------------------------------- */

static _Atomic bool is_over;
static _Atomic int opened;

static void *open_and_close(void *argument)
{
    simba_store *store;

    while (!atomic_load(&is_over)) {
        if (simba_store_open(argument, NULL, &store, NULL) == SIMBA_OK) {
            simba_store_close(store);
            atomic_fetch_add(&opened, 1);
        }
    }
    return NULL;
}

/* A store of its own, though the parent was in the midst of opening one. Not in
 * instrumented builds: their allocators do not outlive such a fork. */
static int look_around(int before)
{
    if (descriptors() != before) {
        return 1;
    }
#ifndef SIMBA_INSTRUMENTED
    {
        simba_store *store;

        if (simba_store_open("memory:child", NULL, &store, NULL) != SIMBA_OK) {
            return 2;
        }
        simba_store_close(store);
    }
#endif
    return descriptors() == before ? 0 : 3;
}

TEST(test_fork__while_a_store_is_opened)
{
    enum { FORKS = 30 };
    char url[256];
    pthread_t opener;
    int before;

    snprintf(url, sizeof url, "%s", store_url);
    simba_store_close(open_store()); /* whatever stays open for good does now */
    before = descriptors();
    atomic_store(&is_over, false);
    pthread_create(&opener, NULL, open_and_close, url);
    for (int i = 0; i < FORKS; i++) {
        int seen = atomic_load(&opened);
        pid_t child;

        await(atomic_load(&opened) > seen); /* another moment each time */
        child = fork();
        if (child == 0) {
            _exit(look_around(before));
        }
        assert_int_equal(status_of(child), 0);
    }
    atomic_store(&is_over, true);
    pthread_join(opener, NULL);
}

/* --- handles in a child -------------------------------------------------- */

static void count_call(void *user, const simba_state *state)
{
    (void)state;
    atomic_fetch_add((_Atomic int *)user, 1);
}

static int do_nothing(void *user, const simba_run *run, simba_error *error)
{
    (void)run;
    (void)error;
    atomic_fetch_add((_Atomic int *)user, 1);
    return SIMBA_OK;
}

/* One of each, all of them busy. */
struct handles {
    simba_store *store;
    simba_service *service;
    simba_scheduler *scheduler;
    simba_retrieval *retrieval;
    simba_multi_locker *multi;
    _Atomic int calls, runs, changes;
};

static void open_service_and_scheduler(struct handles *h)
{
    simba_contender contender = SIMBA_CONTENDER_INIT;
    simba_scheduler_options options = SIMBA_SCHEDULER_OPTIONS_INIT;

    contender.mutex = fresh_mutex();
    contender.on_acquired = count_call;
    contender.user = &h->calls;
    h->service = must_open_service(h->store, &contender);
    assert_int_equal(simba_service_start(h->service, NULL), SIMBA_OK);
    options.mutex = fresh_mutex();
    options.schedule = SIMBA_FIXED_DELAY;
    options.period_ms = 5;
    options.work = do_nothing;
    options.user = &h->runs;
    h->scheduler = must_open_scheduler(h->store, &options);
    assert_int_equal(simba_scheduler_start(h->scheduler, NULL), SIMBA_OK);
}

static void open_handles(struct handles *h)
{
    simba_retriever retriever = SIMBA_RETRIEVER_INIT;
    simba_multi_locker_options options = SIMBA_MULTI_LOCKER_OPTIONS_INIT;
    char names[2][64];
    const char *mutexes[] = {names[0], names[1]};

    *h = (struct handles){.store = open_store()};
    open_service_and_scheduler(h);
    retriever.mutex = fresh_mutex();
    retriever.on_changed = count_call;
    retriever.user = &h->changes;
    h->retrieval = must_open_retrieval(h->store, &retriever);
    assert_int_equal(simba_retrieval_start(h->retrieval, NULL), SIMBA_OK);
    snprintf(names[0], sizeof names[0], "%s", fresh_mutex());
    snprintf(names[1], sizeof names[1], "%s", fresh_mutex());
    options.mutexes = mutexes;
    options.count = 2;
    h->multi = must_open_multi_locker(h->store, &options);
    assert_int_equal(simba_multi_locker_acquire(h->multi, -1, NULL, NULL),
                     SIMBA_OK);
    await(atomic_load(&h->calls) == 1 && atomic_load(&h->runs) > 0);
}

static void close_handles(struct handles *h)
{
    simba_multi_locker_close(h->multi);
    simba_retrieval_close(h->retrieval);
    simba_scheduler_close(h->scheduler);
    simba_service_close(h->service);
    simba_store_close(h->store);
}

static bool are_refused(struct handles *h)
{
    simba_scheduler_counts counts = SIMBA_SCHEDULER_COUNTS_INIT;
    simba_contender contender = SIMBA_CONTENDER_INIT;
    simba_metrics *metrics;
    simba_service *service;

    contender.mutex = "of the child";
    return simba_service_start(h->service, NULL) == SIMBA_EFORKED &&
           simba_service_stop(h->service, NULL) == SIMBA_EFORKED &&
           simba_scheduler_start(h->scheduler, NULL) == SIMBA_EFORKED &&
           simba_scheduler_stop(h->scheduler, NULL) == SIMBA_EFORKED &&
           simba_scheduler_count(h->scheduler, &counts) == SIMBA_EFORKED &&
           simba_retrieval_start(h->retrieval, NULL) == SIMBA_EFORKED &&
           simba_retrieval_stop(h->retrieval, NULL) == SIMBA_EFORKED &&
           simba_multi_locker_acquire(h->multi, 0, NULL, NULL) ==
               SIMBA_EFORKED &&
           simba_multi_locker_release(h->multi, NULL) == SIMBA_EFORKED &&
           simba_metrics_read(h->store, &metrics, NULL) == SIMBA_EFORKED &&
           simba_service_open(h->store, &contender, &service, NULL) ==
               SIMBA_EFORKED;
}

static bool are_no_owners(const struct handles *h)
{
    return !simba_service_is_owner(h->service) &&
           simba_service_token(h->service) == 0 &&
           !simba_scheduler_is_owner(h->scheduler) &&
           simba_scheduler_token(h->scheduler) == 0 &&
           !simba_multi_locker_is_owner(h->multi);
}

/* What asks nothing and answers nothing does nothing either. */
static int use_in_child(struct handles *h)
{
    simba_service_progress(h->service);
    simba_multi_locker_cancel(h->multi);
    if (!are_refused(h)) {
        return 1;
    }
    if (!are_no_owners(h)) {
        return 2;
    }
    close_handles(h);
    return 0;
}

TEST(test_fork__handles_are_refused_in_the_child)
{
    struct handles h;
    pid_t child;

    open_handles(&h);
    child = fork();
    if (child == 0) {
        _exit(use_in_child(&h));
    }
    assert_int_equal(status_of(child), 0);
    assert_true(simba_service_is_owner(h.service)); /* the parent's goes on */
    close_handles(&h);
}
