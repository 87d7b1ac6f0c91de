/* Every way through the API with every allocation failing in turn: the first,
 * then the second, until none is left to fail. A call that fails says
 * SIMBA_ENOMEM, nothing crashes, nothing leaks, and everything can be closed.
 *
 *   test_alloc URL [sqlite]     the latter: SQLite's allocations as well */
#include "fixtures/api_harness.h"

#include "fail.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { WALK_MOST = 20000 };

/* A call may succeed all the same; if not, it must say why. */
static bool went_well(int rc)
{
    if (rc != SIMBA_OK && rc != SIMBA_ENOMEM) {
        fail_msg("%s instead of no memory", simba_status_name(rc));
    }
    if (rc == SIMBA_ENOMEM && !has_failed()) {
        fail_msg("out of memory although there was enough");
    }
    return rc == SIMBA_OK;
}

/* --- ways ---------------------------------------------------------------- */

static void open_and_close(const char *mutex)
{
    simba_store *store;

    (void)mutex;
    if (went_well(simba_store_open(store_url, NULL, &store, NULL))) {
        simba_store_close(store);
    } else {
        assert_null(store);
    }
}

static void open_as_configured(const char *mutex)
{
    simba_store *store;

    (void)mutex;
    if (went_well(simba_store_open(NULL, NULL, &store, NULL))) {
        simba_store_close(store);
    }
}

static void describe_secret(const char *mutex)
{
    char shown[64];

    (void)mutex;
    (void)went_well(simba_store_describe("b", shown, sizeof shown, NULL));
}

static void write_file(const char *name, const char *text)
{
    FILE *out = fopen(name, "w");

    assert_non_null(out);
    assert_int_equal(fchmod(fileno(out), 0600), 0);
    assert_true(fputs(text, out) >= 0);
    fclose(out);
}

/* The store of the other ways is opened when memory is plenty. */
static simba_store *shared_store;

static void lock_and_release(const char *mutex)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker;
    simba_error error;

    options.mutex = mutex;
    if (!went_well(simba_locker_open(shared_store, &options, &locker, NULL))) {
        assert_null(locker);
        return;
    }
    if (went_well(simba_locker_acquire(locker, -1, NULL, &error))) {
        (void)went_well(simba_locker_release(locker, NULL));
    } else {
        assert_int_equal(error.code, SIMBA_ENOMEM);
    }
    simba_locker_close(locker);
}

static void try_once(const char *mutex)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker;

    options.mutex = mutex;
    if (went_well(simba_locker_open(shared_store, &options, &locker, NULL))) {
        (void)went_well(simba_locker_acquire(locker, 0, NULL, NULL));
        simba_locker_close(locker);
    }
}

static void count_call(void *user, const simba_state *state)
{
    (void)state;
    atomic_fetch_add((_Atomic int *)user, 1);
}

/* A service tries again by itself. */
static void serve(const char *mutex)
{
    simba_contender contender = SIMBA_CONTENDER_INIT;
    _Atomic int acquired = 0;
    simba_service *service;

    contender.mutex = mutex;
    contender.on_acquired = count_call;
    contender.user = &acquired;
    if (!went_well(
            simba_service_open(shared_store, &contender, &service, NULL))) {
        return;
    }
    if (went_well(simba_service_start(service, NULL))) {
        await(atomic_load(&acquired) == 1);
        (void)went_well(simba_service_stop(service, NULL));
    }
    simba_service_close(service);
}

static void lock_several(const char *mutex)
{
    simba_multi_locker_options options = SIMBA_MULTI_LOCKER_OPTIONS_INIT;
    const char *names[] = {mutex, "another"};
    simba_multi_locker *multi;

    options.mutexes = names;
    options.count = 2;
    if (!went_well(
            simba_multi_locker_open(shared_store, &options, &multi, NULL))) {
        assert_null(multi);
        return;
    }
    if (went_well(simba_multi_locker_acquire(multi, -1, NULL, NULL))) {
        (void)went_well(simba_multi_locker_release(multi, NULL));
    }
    simba_multi_locker_close(multi);
}

/* What could not be told at once is told later. */
static void observe(const char *mutex)
{
    simba_retriever retriever = SIMBA_RETRIEVER_INIT;
    simba_retrieval *retrieval;
    _Atomic int changes = 0;

    retriever.mutex = mutex;
    retriever.poll_ms = 20;
    retriever.on_changed = count_call;
    retriever.user = &changes;
    if (!went_well(
            simba_retrieval_open(shared_store, &retriever, &retrieval, NULL))) {
        return;
    }
    if (went_well(simba_retrieval_start(retrieval, NULL))) {
        simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
        simba_locker *locker;

        options.mutex = mutex;
        if (went_well(
                simba_locker_open(shared_store, &options, &locker, NULL))) {
            if (went_well(simba_locker_acquire(locker, -1, NULL, NULL))) {
                await(atomic_load(&changes) > 0); /* told, sooner or later */
            }
            simba_locker_close(locker);
        }
    }
    simba_retrieval_close(retrieval);
}

static int work(void *user, const simba_run *run, simba_error *error)
{
    (void)run;
    (void)error;
    atomic_fetch_add((_Atomic int *)user, 1);
    return SIMBA_OK;
}

static void schedule(const char *mutex)
{
    simba_scheduler_options options = SIMBA_SCHEDULER_OPTIONS_INIT;
    simba_scheduler *scheduler;
    _Atomic int runs = 0;

    options.mutex = mutex;
    options.schedule = SIMBA_FIXED_DELAY;
    options.period_ms = 1;
    options.work = work;
    options.user = &runs;
    if (!went_well(
            simba_scheduler_open(shared_store, &options, &scheduler, NULL))) {
        assert_null(scheduler);
        return;
    }
    if (went_well(simba_scheduler_start(scheduler, NULL))) {
        await(atomic_load(&runs) > 0);
    }
    simba_scheduler_close(scheduler);
}

static void measure(const char *mutex)
{
    simba_metrics *metrics;

    (void)mutex;
    if (went_well(simba_metrics_read(shared_store, &metrics, NULL))) {
        simba_metrics_free(metrics);
    }
}

static void guard_a_file(const char *mutex)
{
    simba_guard_file *guard;

    (void)mutex;
    if (went_well(simba_guard_file_open("guard", &guard, NULL))) {
        (void)went_well(simba_guard_file_enter(guard, 1, -1, NULL));
        simba_guard_file_close(guard);
    }
}

/* What an admin asks of a store in which "walked" is owned. */

static void list_all(const char *mutex)
{
    simba_report *report;

    (void)mutex;
    if (went_well(simba_admin_list(shared_store, "*", &report, NULL))) {
        simba_report_close(report);
    } else {
        assert_null(report);
    }
}

static void show_one(const char *mutex)
{
    simba_report *report;

    if (went_well(simba_admin_show(shared_store, mutex, &report, NULL))) {
        simba_report_close(report);
    } else {
        assert_null(report);
    }
}

static void ask_the_doctor(const char *mutex)
{
    simba_report *report;

    (void)mutex;
    if (went_well(simba_admin_doctor(shared_store, &report, NULL))) {
        simba_report_close(report);
    } else {
        assert_null(report);
    }
}

static void write_the_schema(const char *mutex)
{
    char *text;

    (void)mutex;
    if (went_well(simba_admin_schema(store_url, false, &text, NULL))) {
        free(text);
    } else {
        assert_null(text);
    }
}

/* --- walking ------------------------------------------------------------- */

static int walk(const char *name, void (*way)(const char *mutex))
{
    long before = live_blocks();

    for (int n = 1; n < WALK_MOST; n++) {
        fail_at(n);
        way("walked");
        if (!has_failed()) {
            fail_at(0);
            print_message("# %s: %d allocations\n", name, n - 1);
            assert_int_equal(live_blocks(), before);
            return n - 1;
        }
        fail_at(0);
    }
    fail_msg("%s never came to its end", name);
    return 0;
}

static void walk_shared(const char *name, void (*way)(const char *mutex))
{
    long before = live_blocks();

    /* Opened anew for each, so that nothing is warm. */
    assert_int_equal(simba_store_open(store_url, NULL, &shared_store, NULL),
                     SIMBA_OK);
    fail_at(0);
    for (int n = 1; n < WALK_MOST; n++) {
        fail_at(n);
        way("walked");
        if (!has_failed()) {
            break;
        }
    }
    fail_at(0);
    simba_store_close(shared_store);
    print_message("# %s\n", name);
    assert_int_equal(live_blocks(), before);
}

TEST(test_alloc__opening_a_store)
{
    assert_true(walk("open", open_and_close) > 3);
}

TEST(test_alloc__opening_as_configured)
{
    char text[512], *here = getcwd(NULL, 0);

    snprintf(text, sizeof text,
             "store = a\nttl = 10s\n[store a]\nurl = %s\ntransition = 5s\n"
             "[store b]\nurl = redis://h\npassword_file = %s/password\n",
             store_url, here);
    free(here);
    write_file("simba.conf", text);
    write_file("password", "secret\n");
    setenv("SIMBA_CONFIG", "simba.conf", 1);
    assert_true(walk("configured", open_as_configured) > 10);
    assert_true(walk("password", describe_secret) > 10);
    unsetenv("SIMBA_CONFIG");
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    setenv("SIMBA_STORE", store_url, 1);
    assert_true(walk("environment", open_as_configured) > 3);
}

TEST(test_alloc__lockers)
{
    walk_shared("locker", lock_and_release);
    walk_shared("locker, once", try_once);
}

TEST(test_alloc__services)
{
    walk_shared("service", serve);
}

TEST(test_alloc__several_mutexes)
{
    walk_shared("multi locker", lock_several);
}

TEST(test_alloc__retrievals)
{
    walk_shared("retrieval", observe);
}

TEST(test_alloc__schedulers)
{
    walk_shared("scheduler", schedule);
}

TEST(test_alloc__metrics)
{
    walk_shared("metrics", measure);
}

TEST(test_alloc__guards)
{
    assert_true(walk("guard", guard_a_file) >= 2);
}

TEST(test_alloc__admin)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_store *other = open_store();
    simba_locker *owner;

    options.mutex = "walked";
    options.times.ttl_ms = INT64_C(3600) * 1000; /* no renewal meddles */
    owner = must_open_locker(other, &options);
    assert_int_equal(simba_locker_acquire(owner, -1, NULL, NULL), SIMBA_OK);
    walk_shared("list", list_all);
    walk_shared("show", show_one);
    walk_shared("doctor", ask_the_doctor);
    walk("schema", write_the_schema);
    simba_locker_close(owner);
    simba_store_close(other);
}

int main(int argc, char **argv)
{
    char directory[] = "/tmp/simba-alloc.XXXXXX", command[64];
    int rc;

    store_url = argv[1];
    if (argc > 2) {
        fail_in_sqlite();
    }
    if (mkdtemp(directory) == NULL || chdir(directory) != 0) {
        return 1;
    }
    rc = run_unit_tests(NULL, NULL);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return chdir("/") == 0 && system(command) == 0 ? rc : 1;
}
