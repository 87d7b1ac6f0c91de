/* Ways through the API on a system that has no more threads or descriptors to
 * give: the first fails, then the second, until none is left. What cannot be
 * done says why, what can wait is done later, and nothing is left behind.
 *
 *   starve_walk URL */
#include "fixtures/api_harness.h"
#include "fixtures/process_resources.h"

#include "starve.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WALK_MOST = 100 };

/* A call may succeed all the same; if not, it must say why. */
static bool went_well(int rc, const simba_error *error)
{
    if (rc == SIMBA_OK) {
        return true;
    }
    if (rc != SIMBA_EINTERNAL && rc != SIMBA_ENOMEM) {
        fail_msg("%s instead of a shortage", simba_strerror(rc));
    }
    if (strstr(error->message, strerror(0)) != NULL) {
        fail_msg("no reason: %s", error->message);
    }
    return false;
}

/* --- the ways ------------------------------------------------------------ */

static simba_store *open_hungry(void)
{
    simba_store *store;
    simba_error error;

    errno = 0; /* what is told of is not what happened before */
    return went_well(simba_store_open(store_url, NULL, &store, &error), &error)
               ? store
               : NULL;
}

static _Atomic int calls;

static void count_call(void *user, const simba_state *state)
{
    (void)user;
    (void)state;
    atomic_fetch_add(&calls, 1);
}

static void lock_and_release(simba_store *store, const char *mutex)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    SIMBA_LOCKER_SCOPE simba_locker *locker = NULL, *other = NULL;
    simba_error error;

    options.mutex = mutex;
    locker = must_open_locker(store, &options);
    other = must_open_locker(store, &options);
    if (went_well(simba_locker_acquire(locker, -1, NULL, &error), &error)) {
        int rc = simba_locker_acquire(other, 10, NULL, &error);

        assert_true(rc == SIMBA_ETIMEDOUT || !went_well(rc, &error));
    }
}

/* It tries again by itself. */
static void serve(simba_store *store, const char *mutex)
{
    simba_contender contender = SIMBA_CONTENDER_INIT;
    simba_service *service;

    contender.mutex = mutex;
    contender.on_acquired = contender.on_released = count_call;
    atomic_store(&calls, 0);
    service = must_open_service(store, &contender);
    assert_int_equal(simba_service_start(service, NULL), SIMBA_OK);
    await(atomic_load(&calls) == 1);
    assert_int_equal(simba_service_stop(service, NULL), SIMBA_OK);
    assert_int_equal(atomic_load(&calls), 2);
    simba_service_close(service);
}

static void watch(simba_store *store, const char *mutex)
{
    simba_retriever retriever = SIMBA_RETRIEVER_INIT;
    simba_retrieval *retrieval;

    retriever.mutex = mutex;
    retriever.on_changed = count_call;
    retrieval = must_open_retrieval(store, &retriever);
    assert_int_equal(simba_retrieval_start(retrieval, NULL), SIMBA_OK);
    await(simba_retrieval_status(retrieval) == SIMBA_RUNNING);
    simba_retrieval_close(retrieval);
}

static int count_run(void *user, const simba_run *run, simba_error *error)
{
    (void)user;
    (void)run;
    (void)error;
    atomic_fetch_add(&calls, 1);
    return SIMBA_OK;
}

static void schedule(simba_store *store, const char *mutex)
{
    simba_scheduler_options options = SIMBA_SCHEDULER_OPTIONS_INIT;
    simba_scheduler *scheduler;
    simba_error error;

    options.mutex = mutex;
    options.schedule = SIMBA_FIXED_DELAY;
    options.period_ms = 1;
    options.work = count_run;
    atomic_store(&calls, 0);
    if (!went_well(simba_scheduler_open(store, &options, &scheduler, &error),
                   &error)) {
        return;
    }
    assert_int_equal(simba_scheduler_start(scheduler, NULL), SIMBA_OK);
    await(atomic_load(&calls) > 1);
    simba_scheduler_close(scheduler);
}

/* --- walking ------------------------------------------------------------- */

static int alone; /* entries of the threads that are not the library's */

static void *tell_thread(void *user)
{
    *(pid_t *)user = gettid();
    return NULL;
}

/* With the first thread the thread sanitizer starts one of its own, for good:
 * counted once that first one has left no entry. */
static int count_alone(void)
{
    char entry[64];
    pthread_t thread;
    pid_t id = 0;

    assert_int_equal(pthread_create(&thread, NULL, tell_thread, &id), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    snprintf(entry, sizeof entry, "/proc/self/task/%d", (int)id);
    await(access(entry, F_OK) != 0);
    return entries_of("/proc/self/task");
}

static void walk(void (*way)(simba_store *store, const char *mutex))
{
    int descriptors;

    simba_store_close(open_store()); /* whatever stays open for good does now */
    descriptors = entries_of("/proc/self/fd");
    for (int n = 1; n < WALK_MOST; n++) {
        simba_store *store;
        bool is_over;

        starve_at(n);
        store = open_hungry();
        if (store != NULL) {
            way(store, fresh_mutex());
        }
        is_over = !has_starved();
        starve_at(0);
        simba_store_close(store);
        /* The entry of a thread outlives it a little. */
        await(entries_of("/proc/self/task") == alone);
        assert_int_equal(entries_of("/proc/self/fd"), descriptors);
        if (is_over) {
            assert_true(n > 5);
            return;
        }
    }
    fail_msg("%s", "never came to its end");
}

TEST(test_starve__lockers)
{
    walk(lock_and_release);
}

TEST(test_starve__services)
{
    walk(serve);
}

TEST(test_starve__retrievals)
{
    walk(watch);
}

TEST(test_starve__schedulers)
{
    walk(schedule);
}

/* --- for a while --------------------------------------------------------- */

/* A callback thread that cannot start is tried again until it can, and
 * complained of once. In memory: there no other thread is wanted. */
TEST(test_starve__callbacks_wait_for_a_thread)
{
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;
    simba_contender contender = SIMBA_CONTENDER_INIT;
    struct log_counter errors = {SIMBA_LOG_ERROR, "no thread", 0};
    simba_store *store;
    simba_service *service;

    options.log = count_log;
    options.log_user = &errors;
    assert_int_equal(simba_store_open("memory:a", &options, &store, NULL), 0);
    contender.mutex = fresh_mutex();
    contender.on_acquired = count_call;
    atomic_store(&calls, 0);
    service = must_open_service(store, &contender);
    (void)starve_threads(true);
    assert_int_equal(simba_service_start(service, NULL), SIMBA_OK);
    await(simba_service_is_owner(service));
    await(starve_threads(true) > 0);
    await(starve_threads(true) > 0);
    assert_int_equal(atomic_load(&calls), 0);
    (void)starve_threads(false);
    await(atomic_load(&calls) == 1);
    simba_service_close(service);
    simba_store_close(store);
    assert_int_equal(atomic_load(&errors.count), 1);
}

int main(int argc, char **argv)
{
    char directory[] = "/tmp/simba-starve-XXXXXX", command[64];
    int rc;

    alone = count_alone();
    if (argc < 2) {
        return 1;
    }
    store_url = argv[1];
    if (mkdtemp(directory) == NULL || chdir(directory) != 0) {
        return 1;
    }
    rc = run_unit_tests(NULL, NULL);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return chdir("/") == 0 && system(command) == 0 ? rc : 1;
}
