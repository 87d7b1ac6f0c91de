/* Many threads, callbacks that wait for each other, and losses that come before
 * anybody looks: nothing may hang. On any store. */
#include "fixtures/api_harness.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>

static simba_locker *open_locker(simba_store *store,
                                 const char *mutex,
                                 int64_t max_hold_ms)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;

    options.mutex = mutex;
    options.times.max_hold_ms = max_hold_ms;
    return must_open_locker(store, &options);
}

static simba_service *open_service(simba_store *store,
                                   const char *mutex,
                                   simba_contender_fn on_acquired,
                                   void *user)
{
    simba_contender contender = SIMBA_CONTENDER_INIT;

    contender.mutex = mutex;
    contender.on_acquired = on_acquired;
    contender.user = user;
    return must_open_service(store, &contender);
}

/* --- lockers ------------------------------------------------------------- */

enum { LOSING_ROUNDS = 300 };

struct loser {
    simba_locker *locker;
    _Atomic int rounds;
};

static void *lose_at_once(void *argument)
{
    struct loser *loser = argument;

    for (int i = 0; i < LOSING_ROUNDS; i++) {
        if (simba_locker_acquire(loser->locker, -1, NULL, NULL) != SIMBA_OK) {
            return NULL;
        }
        simba_locker_release(loser->locker, NULL);
        atomic_fetch_add(&loser->rounds, 1);
    }
    return NULL;
}

/* A tenure of a millisecond is often over before its owner has woken up. */
TEST(test_threads__lost_before_it_was_seen)
{
    simba_store *store = open_store();
    const char *mutex = fresh_mutex();
    struct loser losers[3] = {0};
    pthread_t threads[3];

    for (int i = 0; i < 3; i++) {
        losers[i].locker = open_locker(store, mutex, 1);
        pthread_create(&threads[i], NULL, lose_at_once, &losers[i]);
    }
    for (int i = 0; i < 3; i++) {
        int64_t until = now_ms() + 3 * PATIENCE_MS;

        while (atomic_load(&losers[i].rounds) < LOSING_ROUNDS &&
               now_ms() < until) {
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        }
        assert_int_equal(atomic_load(&losers[i].rounds), LOSING_ROUNDS);
        pthread_join(threads[i], NULL);
        simba_locker_close(losers[i].locker);
    }
    simba_store_close(store);
}

struct crowd {
    simba_store *store;
    const char *mutexes[3];
    _Atomic int turns;
    _Atomic bool is_over;
};

static void *take_turns(void *argument)
{
    struct crowd *crowd = argument;
    simba_locker *lockers[3];

    for (int i = 0; i < 3; i++) {
        lockers[i] = open_locker(crowd->store, crowd->mutexes[i], 0);
    }
    for (int i = 0; !atomic_load(&crowd->is_over); i++) {
        int64_t timeout = i % 4 == 0 ? 0 : i % 4 == 1 ? 3 : -1;

        if (simba_locker_acquire(lockers[i % 3], timeout, NULL, NULL) ==
            SIMBA_OK) {
            simba_locker_release(lockers[i % 3], NULL);
            atomic_fetch_add(&crowd->turns, 1);
        }
    }
    for (int i = 0; i < 3; i++) {
        simba_locker_close(lockers[i]);
    }
    return NULL;
}

/* Drivers, leaders and those who only wait, on one handle. */
TEST(test_threads__hammer_one_handle)
{
    enum { THREADS = 8, TURNS = 600 };
    struct crowd crowd = {.store = open_store()};
    char names[3][64];
    pthread_t threads[THREADS];

    for (int i = 0; i < 3; i++) {
        snprintf(names[i], sizeof names[i], "%s", fresh_mutex());
        crowd.mutexes[i] = names[i];
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, take_turns, &crowd);
    }
    for (int turns = 0; turns < TURNS; turns += 50) {
        await(atomic_load(&crowd.turns) >= turns);
    }
    atomic_store(&crowd.is_over, true);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    simba_store_close(crowd.store);
}

TEST(test_threads__longest_timeout_is_for_ever)
{
    simba_store *store = open_store();
    const char *mutex = fresh_mutex();
    simba_locker *a = open_locker(store, mutex, 0);
    simba_locker *b = open_locker(store, mutex, 100);
    int64_t longest[] = {INT64_MAX, INT64_MAX - 1, INT64_MAX / 2};

    for (size_t i = 0; i < sizeof longest / sizeof *longest; i++) {
        assert_int_equal(simba_locker_acquire(b, -1, NULL, NULL), SIMBA_OK);
        assert_int_equal(simba_locker_acquire(a, longest[i], NULL, NULL),
                         SIMBA_OK);
        assert_int_equal(simba_locker_release(a, NULL), SIMBA_OK);
        simba_locker_release(b, NULL);
    }
    simba_locker_close(a);
    simba_locker_close(b);
    simba_store_close(store);
}

/* --- callbacks ----------------------------------------------------------- */

struct slow {
    _Atomic bool may_go;
    _Atomic int called;
};

static void linger(void *user, const simba_state *change)
{
    struct slow *slow = user;

    (void)change;
    atomic_fetch_add(&slow->called, 1);
    while (!atomic_load(&slow->may_go)) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static void count(void *user, const simba_state *change)
{
    (void)change;
    atomic_fetch_add((_Atomic int *)user, 1);
}

/* Both become ready before the one idle callback thread has woken up. */
TEST(test_threads__idle_callback_thread_is_counted_once)
{
    simba_store *store = open_store();
    char names[3][64];
    struct slow slow = {0};
    _Atomic int first = 0, other = 0;
    simba_service *services[3];

    for (int i = 0; i < 3; i++) {
        snprintf(names[i], sizeof names[i], "%s", fresh_mutex());
    }
    services[0] = open_service(store, names[0], count, &first);
    services[1] = open_service(store, names[1], linger, &slow);
    services[2] = open_service(store, names[2], count, &other);
    assert_int_equal(simba_service_start(services[0], NULL), SIMBA_OK);
    await(atomic_load(&first) == 1); /* now a thread is there, and idle */
    assert_int_equal(simba_service_start(services[1], NULL), SIMBA_OK);
    assert_int_equal(simba_service_start(services[2], NULL), SIMBA_OK);
    await(atomic_load(&other) == 1);
    atomic_store(&slow.may_go, true);
    for (int i = 0; i < 3; i++) {
        simba_service_close(services[i]);
    }
    simba_store_close(store);
}

enum { STOPPERS = 20 }; /* more than there are callback threads */

static struct {
    simba_service *other[STOPPERS];
    _Atomic int inside, stopped;
} circle;

static void stop_other(void *user, const simba_state *change)
{
    (void)change;
    atomic_fetch_add(&circle.inside, 1);
    if (simba_service_stop(user, NULL) == SIMBA_OK) {
        atomic_fetch_add(&circle.stopped, 1);
    }
}

TEST(test_threads__callbacks_may_stop_other_services)
{
    simba_store *store = open_store();
    simba_service *stoppers[STOPPERS];
    _Atomic int owned = 0;

    for (int i = 0; i < STOPPERS; i++) {
        circle.other[i] = open_service(store, fresh_mutex(), count, &owned);
        assert_int_equal(simba_service_start(circle.other[i], NULL), SIMBA_OK);
    }
    await(atomic_load(&owned) == STOPPERS);
    for (int i = 0; i < STOPPERS; i++) {
        stoppers[i] =
            open_service(store, fresh_mutex(), stop_other, circle.other[i]);
        assert_int_equal(simba_service_start(stoppers[i], NULL), SIMBA_OK);
    }
    await(atomic_load(&circle.stopped) == STOPPERS);
    for (int i = 0; i < STOPPERS; i++) {
        simba_service_close(stoppers[i]);
        simba_service_close(circle.other[i]);
    }
    simba_store_close(store);
}

struct restart {
    simba_service *service;
    _Atomic bool is_over;
};

static void *start_again(void *argument)
{
    struct restart *restart = argument;

    while (!atomic_load(&restart->is_over)) {
        (void)!simba_service_start(restart->service, NULL);
    }
    return NULL;
}

TEST(test_threads__stop_returns_though_another_starts)
{
    simba_store *store = open_store();
    struct restart restart = {
        .service = open_service(store, fresh_mutex(), NULL, NULL)};
    _Atomic int rounds = 0;
    pthread_t thread;

    pthread_create(&thread, NULL, start_again, &restart);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(simba_service_stop(restart.service, NULL), SIMBA_OK);
        atomic_fetch_add(&rounds, 1);
    }
    atomic_store(&restart.is_over, true);
    pthread_join(thread, NULL);
    simba_service_close(restart.service);
    simba_store_close(store);
}

/* --- forks --------------------------------------------------------------- */

TEST(test_threads__child_of_a_waiter_has_its_own_memory)
{
    simba_store *store = open_store(), *own = NULL;
    const char *mutex = fresh_mutex();
    simba_locker *holder = open_locker(store, mutex, 0);
    _Atomic int unused = 0;
    simba_service *waiter = open_service(store, mutex, count, &unused);
    int status;
    pid_t child;

    assert_int_equal(simba_locker_acquire(holder, -1, NULL, NULL), SIMBA_OK);
    assert_int_equal(simba_service_start(waiter, NULL), SIMBA_OK);
    await(simba_service_status(waiter) == SIMBA_RUNNING);
    child = fork();
    if (child == 0) {
        simba_service_progress(waiter);
        if (strncmp(store_url, "memory:", 7) == 0 &&
            simba_store_open(store_url, NULL, &own, NULL) == SIMBA_OK) {
            simba_locker *locker = open_locker(own, mutex, 0);

            status = simba_locker_acquire(locker, 0, NULL, NULL);
            simba_locker_close(locker);
            simba_store_close(own);
            _exit(status == SIMBA_OK ? 0 : 1);
        }
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    simba_service_close(waiter);
    simba_locker_close(holder);
    simba_store_close(store);
}

/* --- the pool's timer ---------------------------------------------------- */

static void nap(void *user, const simba_state *state)
{
    (void)state;
    nanosleep(&(struct timespec){.tv_nsec = 6000000}, NULL);
    atomic_fetch_add((_Atomic int *)user, 1);
}

/* The timer that makes the pool grow is set when all that waited is over and
 * the store is closed. */
TEST(test_threads__pool_is_closed_with_its_timer_set)
{
    for (int round = 0; round < 20; round++) {
        simba_store *store = open_store();
        simba_contender contender = SIMBA_CONTENDER_INIT;
        simba_service *services[3];
        _Atomic int naps = 0;

        contender.on_acquired = contender.on_released = nap;
        contender.user = &naps;
        for (int i = 0; i < 3; i++) {
            contender.mutex = fresh_mutex();
            services[i] = must_open_service(store, &contender);
            assert_int_equal(simba_service_start(services[i], NULL), SIMBA_OK);
        }
        await(atomic_load(&naps) > round % 3); /* some are still waiting */
        for (int i = 0; i < 3; i++) {
            simba_service_close(services[i]);
        }
        simba_store_close(store);
        assert_int_equal(atomic_load(&naps) % 2, 0); /* in pairs */
    }
}
