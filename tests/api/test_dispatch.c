/* What services in an event loop need, on any store: callbacks run by the
 * program's own poll loop, a stop that does not wait, why a tenure ended, and a
 * log that does not repeat itself. */
#include "fixtures/api_harness.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* How far the clock of leases has leapt, as it does on a machine that slept;
 * timers of the kernel have not. In place of libc's. */
static _Atomic int64_t leapt_s;

SIMBA_API int clock_gettime(clockid_t clock, struct timespec *now)
{
    long rc = syscall(SYS_clock_gettime, clock, now);

    if (rc == 0 && clock == CLOCK_BOOTTIME) {
        now->tv_sec += (time_t)atomic_load(&leapt_s);
    }
    return (int)rc;
}

struct seen {
    simba_service *service;
    _Atomic int acquired;
    int released, stopped, status;
    int after_stop;  /* callbacks that came after on_stopped */
    int own_changes; /* changes to ourselves, told by on_changed */
    bool is_elsewhere;
    bool stops_itself;
    enum simba_cause cause;
    pthread_t thread;
};

static void note_thread(struct seen *seen)
{
    seen->is_elsewhere |= !pthread_equal(seen->thread, pthread_self());
    seen->after_stop += seen->stopped;
}

static void on_stopped(void *user, int status)
{
    struct seen *seen = user;

    note_thread(seen);
    seen->stopped++;
    seen->status = status;
}

static void on_acquired(void *user, const simba_state *state)
{
    struct seen *seen = user;

    note_thread(seen);
    assert_int_equal(state->cause, SIMBA_CAUSE_NONE);
    seen->acquired++;
    if (seen->stops_itself) {
        assert_int_equal(
            simba_service_stop_async(seen->service, on_stopped, seen, NULL),
            SIMBA_OK);
    }
}

static void on_released(void *user, const simba_state *state)
{
    struct seen *seen = user;

    note_thread(seen);
    if (seen->released++ == 0) { /* it contends again */
        seen->cause = state->cause;
    }
}

static simba_store *open_dispatched(void)
{
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;

    options.dispatch = true;
    return open_store_with(&options);
}

static simba_contender contender_of(struct seen *seen, const char *mutex)
{
    simba_contender contender = SIMBA_CONTENDER_INIT;

    *seen = (struct seen){.thread = pthread_self(), .status = 1};
    contender.mutex = mutex;
    contender.on_acquired = on_acquired;
    contender.on_released = on_released;
    contender.user = seen;
    return contender;
}

static void start_with(simba_store *store,
                       const simba_contender *contender,
                       struct seen *seen)
{
    seen->service = must_open_service(store, contender);
    assert_int_equal(simba_service_start(seen->service, NULL), SIMBA_OK);
}

static bool is_readable(const simba_store *store, int timeout_ms)
{
    struct pollfd set = {.fd = simba_store_fd(store), .events = POLLIN};

    return poll(&set, 1, timeout_ms) == 1;
}

/* As the loop of a program: sleeps until there is something, and runs it. */
static void turn(simba_store *store)
{
    assert_true(is_readable(store, 10000));
    assert_true(simba_store_dispatch(store, NULL) > 0);
}

TEST(test_dispatch__one_thread_runs_all)
{
    simba_store *store = open_dispatched();
    struct seen seen;
    simba_contender contender = contender_of(&seen, fresh_mutex());

    assert_int_equal(simba_store_dispatch(store, NULL), 0);
    assert_false(is_readable(store, 0));
    start_with(store, &contender, &seen);
    turn(store);
    assert_int_equal(seen.acquired, 1);
    assert_false(is_readable(store, 0)); /* nothing is left */
    assert_int_equal(
        simba_service_stop_async(seen.service, on_stopped, &seen, NULL),
        SIMBA_OK);
    while (seen.stopped == 0) {
        turn(store);
    }
    assert_int_equal(seen.released, 1);
    assert_int_equal(seen.status, SIMBA_OK);
    assert_int_equal(seen.cause, SIMBA_CAUSE_STOPPED);
    assert_int_equal(simba_service_status(seen.service), SIMBA_INITIAL);
    simba_service_close(seen.service);
    assert_false(seen.is_elsewhere);
    assert_int_equal(seen.after_stop, 0);
    simba_store_close(store);
}

/* A program of one thread may block in a stop: nobody else would run what the
 * stop waits for. */
TEST(test_dispatch__who_waits_runs_them)
{
    simba_store *store = open_dispatched();
    struct seen seen;
    simba_contender contender = contender_of(&seen, fresh_mutex());
    int64_t began = now_ms();

    start_with(store, &contender, &seen);
    assert_true(is_readable(store, 10000));
    assert_int_equal(simba_service_stop(seen.service, NULL), SIMBA_OK);
    assert_int_equal(seen.acquired, 1);
    assert_int_equal(seen.released, 1);
    assert_int_equal(simba_service_start(seen.service, NULL), SIMBA_OK);
    assert_true(is_readable(store, 10000));
    simba_service_close(seen.service);
    assert_int_equal(seen.released, 2);
    assert_false(seen.is_elsewhere);
    assert_true(now_ms() - began < 10000);
    simba_store_close(store);
}

static void count_loss(void *user, const simba_error *why)
{
    assert_int_equal(why->code, SIMBA_ELOST);
    assert_int_equal(why->native, SIMBA_CAUSE_MAX_HOLD);
    ++*(int *)user;
}

TEST(test_dispatch__release_runs_on_lost)
{
    simba_store *store = open_dispatched();
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker;
    simba_error error;
    int losses = 0;

    options.mutex = fresh_mutex();
    options.times.max_hold_ms = 50;
    options.on_lost = count_loss;
    options.user = &losses;
    locker = must_open_locker(store, &options);
    assert_int_equal(simba_locker_acquire(locker, -1, NULL, NULL), SIMBA_OK);
    assert_true(is_readable(store, 10000));
    assert_int_equal(simba_locker_release(locker, &error), SIMBA_ELOST);
    assert_int_equal(error.native, SIMBA_CAUSE_MAX_HOLD);
    assert_int_equal(losses, 1);
    simba_locker_close(locker);
    simba_store_close(store);
}

static uint64_t overruns_of(simba_store *store, const char *mutex)
{
    simba_metrics *metrics;
    uint64_t overruns;

    assert_int_equal(simba_metrics_read(store, &metrics, NULL), SIMBA_OK);
    overruns = simba_metrics_of(metrics, mutex)->overruns;
    simba_metrics_free(metrics);
    return overruns;
}

static void note_expiry(void *user, const simba_error *why)
{
    assert_int_equal(why->native, SIMBA_CAUSE_EXPIRED);
    ++*(int *)user;
}

/* A machine that slept finds out while it releases. */
TEST(test_dispatch__release_runs_the_on_lost_it_brings_about)
{
    simba_store *store = open_dispatched();
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    char mutex[64];
    simba_locker *locker;
    int losses = 0;

    snprintf(mutex, sizeof mutex, "%s", fresh_mutex());
    options.mutex = mutex;
    options.times.ttl_ms = 60000;
    options.times.transition_ms = 60000;
    options.times.budget_ms = 20000;
    options.on_lost = note_expiry;
    options.user = &losses;
    locker = must_open_locker(store, &options);
    assert_int_equal(simba_locker_acquire(locker, -1, NULL, NULL), SIMBA_OK);
    atomic_fetch_add(&leapt_s, 150);
    assert_int_equal(simba_locker_release(locker, NULL), SIMBA_ELOST);
    atomic_store(&leapt_s, 0);
    assert_int_equal(losses, 1);
    assert_int_equal(overruns_of(store, mutex), 0);
    simba_locker_close(locker);
    simba_store_close(store);
}

static void wait_for_the_stop(void *user, const simba_state *state)
{
    struct seen *seen = user;

    (void)state;
    seen->acquired++;
    await(simba_service_status(seen->service) == SIMBA_STOPPING);
    await(!simba_service_is_owner(seen->service));
}

static void *dispatch_once(void *store)
{
    assert_true(is_readable(store, 10000));
    assert_int_equal(simba_store_dispatch(store, NULL), 1);
    return NULL;
}

/* Another thread is in on_acquired, and does not come again for on_released. */
TEST(test_dispatch__stop_runs_what_another_left)
{
    simba_store *store = open_dispatched();
    struct seen seen;
    char mutex[64];
    simba_contender contender;
    pthread_t thread;

    snprintf(mutex, sizeof mutex, "%s", fresh_mutex());
    contender = contender_of(&seen, mutex);
    contender.on_acquired = wait_for_the_stop;
    contender.times.ttl_ms = 60000;
    contender.times.transition_ms = 60000;
    contender.times.budget_ms = 20000;
    start_with(store, &contender, &seen);
    assert_int_equal(pthread_create(&thread, NULL, dispatch_once, store), 0);
    await(seen.acquired == 1);
    assert_int_equal(simba_service_stop(seen.service, NULL), SIMBA_OK);
    pthread_join(thread, NULL);
    assert_int_equal(seen.released, 1);
    assert_false(seen.is_elsewhere);
    assert_int_equal(overruns_of(store, mutex), 0);
    simba_service_close(seen.service);
    simba_store_close(store);
}

/* While it waits for the second nobody runs on_lost of the first. */
TEST(test_dispatch__what_was_lost_meanwhile_is_not_held)
{
    simba_store *store = open_dispatched(), *other = open_store();
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_multi_locker_options both = SIMBA_MULTI_LOCKER_OPTIONS_INIT;
    const char *names[2];
    char first[64], second[64];
    simba_multi_locker *multi;
    simba_locker *locker;

    snprintf(first, sizeof first, "%s a", fresh_mutex());
    snprintf(second, sizeof second, "%s b", fresh_mutex());
    names[0] = first;
    names[1] = second;
    both.mutexes = names;
    both.count = 2;
    both.times.max_hold_ms = 100;
    options.mutex = second;
    options.times.max_hold_ms = 400;
    locker = must_open_locker(other, &options);
    assert_int_equal(simba_locker_acquire(locker, -1, NULL, NULL), SIMBA_OK);
    multi = must_open_multi_locker(store, &both);
    assert_int_equal(simba_multi_locker_acquire(multi, -1, NULL, NULL),
                     SIMBA_ELOST);
    simba_multi_locker_close(multi);
    simba_locker_close(locker);
    simba_store_close(other);
    simba_store_close(store);
}

TEST(test_dispatch__must_be_asked_for)
{
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;
    simba_store *store = open_store(), *other;

    assert_int_equal(simba_store_fd(store), -1);
    assert_int_equal(simba_store_dispatch(store, NULL), SIMBA_EMISUSE);
    simba_store_close(store);
    options.dispatch = true;
    options.callback_threads = 1;
    assert_int_equal(simba_store_open(store_url, &options, &other, NULL),
                     SIMBA_EINVAL);
}

/* S12 */
TEST(test_dispatch__is_not_for_a_forked_child)
{
    simba_store *store = open_dispatched();
    int fd = simba_store_fd(store), status;
    pid_t child = fork();

    if (child == 0) {
        _exit(simba_store_dispatch(store, NULL) == SIMBA_EFORKED &&
                      simba_store_fd(store) == -1 && fcntl(fd, F_GETFD) == -1
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    simba_store_close(store);
}

/* --- a stop that does not wait ------------------------------------------- */

TEST(test_stop_async__from_its_own_callback)
{
    simba_store *store = open_dispatched();
    struct seen seen;
    simba_contender contender = contender_of(&seen, fresh_mutex());

    seen.stops_itself = true;
    start_with(store, &contender, &seen);
    while (seen.stopped == 0) {
        turn(store);
    }
    assert_int_equal(seen.released, 1);
    assert_int_equal(seen.after_stop, 0);
    simba_service_close(seen.service);
    simba_store_close(store);
}

TEST(test_stop_async__is_answered_once_each)
{
    simba_store *store = open_dispatched();
    struct seen seen;
    simba_contender contender = contender_of(&seen, fresh_mutex());

    seen.service = must_open_service(store, &contender);
    assert_int_equal(
        simba_service_stop_async(seen.service, on_stopped, &seen, NULL),
        SIMBA_OK); /* it was never started */
    assert_int_equal(
        simba_service_stop_async(seen.service, on_stopped, &seen, NULL),
        SIMBA_EMISUSE);
    turn(store);
    assert_int_equal(seen.stopped, 1);
    assert_int_equal(seen.status, SIMBA_OK);
    assert_int_equal(
        simba_service_stop_async(seen.service, on_stopped, &seen, NULL),
        SIMBA_OK);
    simba_service_close(seen.service); /* which waits for it */
    assert_int_equal(seen.stopped, 2);
    simba_store_close(store);
}

/* --- why it ended -------------------------------------------------------- */

static enum simba_cause cause_of_break(simba_store *store, bool now)
{
    struct seen seen;
    char mutex[64];
    simba_contender contender;
    simba_break how = SIMBA_BREAK_INIT;

    snprintf(mutex, sizeof mutex, "%s", fresh_mutex());
    contender = contender_of(&seen, mutex);
    contender.times.ttl_ms = 300;
    contender.times.transition_ms = 3000; /* what SQL servers need */
    start_with(store, &contender, &seen);
    turn(store);
    how.mutex = mutex;
    how.token = simba_service_token(seen.service);
    how.reason = "a test";
    how.now = now;
    assert_int_equal(simba_admin_break(store, &how, NULL, NULL), SIMBA_OK);
    while (seen.released == 0) {
        turn(store);
    }
    simba_service_close(seen.service);
    return seen.cause;
}

TEST(test_cause__of_a_loss_is_told)
{
    simba_store *store = open_dispatched();
    struct seen seen;
    simba_contender contender = contender_of(&seen, fresh_mutex());

    assert_int_equal(cause_of_break(store, false), SIMBA_CAUSE_BROKEN);
    assert_int_equal(cause_of_break(store, true), SIMBA_CAUSE_TAKEN);
    contender.times.max_hold_ms = 50;
    start_with(store, &contender, &seen);
    while (seen.released == 0) {
        turn(store);
    }
    assert_int_equal(seen.cause, SIMBA_CAUSE_MAX_HOLD);
    simba_service_close(seen.service);
    simba_store_close(store);
}

static void note_change(void *user, const simba_state *state)
{
    struct seen *seen = user;

    seen->own_changes += simba_state_is_owner(state, "the one");
}

/* The store names the one whose tenure was broken until its lease is over. It
 * has been told by on_released, and must not think that it leads again. */
TEST(test_cause__who_was_broken_is_not_told_of_itself)
{
    simba_store *store = open_dispatched();
    struct seen seen;
    char mutex[64];
    simba_contender contender;
    simba_break how = SIMBA_BREAK_INIT;

    snprintf(mutex, sizeof mutex, "%s", fresh_mutex());
    contender = contender_of(&seen, mutex);
    contender.id = "the one";
    contender.on_changed = note_change;
    contender.times.ttl_ms = 300;
    contender.times.transition_ms = 3000;
    start_with(store, &contender, &seen);
    turn(store);
    how.mutex = mutex;
    how.token = simba_service_token(seen.service);
    how.reason = "a test";
    assert_int_equal(simba_admin_break(store, &how, NULL, NULL), SIMBA_OK);
    while (seen.acquired < 2) {
        turn(store);
    }
    assert_int_equal(seen.cause, SIMBA_CAUSE_BROKEN);
    assert_int_equal(seen.own_changes, 0);
    simba_service_close(seen.service);
    simba_store_close(store);
}

/* --- the log ------------------------------------------------------------- */

struct two_counters {
    struct log_counter warnings, all;
};

static void count_both(void *user,
                       enum simba_log_level level,
                       const char *component,
                       const char *message)
{
    struct two_counters *counters = user;

    count_log(&counters->warnings, level, component, message);
    count_log(&counters->all, level, component, message);
}

/* A store that is away for an hour fills no disk. */
TEST(test_log__tells_of_retries_once)
{
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;
    struct two_counters counters = {{SIMBA_LOG_WARN, "fault: ", 0},
                                    {SIMBA_LOG_DEBUG, "fault: ", 0}};
    struct seen seen;
    simba_contender contender = contender_of(&seen, fresh_mutex());
    simba_store *store;

    options.log = count_both;
    options.log_user = &counters;
    options.log_level = SIMBA_LOG_DEBUG;
    assert_int_equal(simba_store_open("fault:fail=100:memory:retries", &options,
                                      &store, NULL),
                     SIMBA_OK);
    start_with(store, &contender, &seen);
    await(atomic_load(&counters.all.count) >= 3);
    assert_int_equal(atomic_load(&counters.warnings.count), 1);
    simba_service_close(seen.service);
    simba_store_close(store);
}
