/* What closes itself from inside, each in a process of its own. */
#include "fixtures/api_harness.h"

#include "child.h"

#include <fcntl.h>
#include <string.h>

static void close_service(void *user, const simba_state *state)
{
    (void)state;
    simba_service_close(*(simba_service **)user);
}

static void close_retrieval(void *user, const simba_state *state)
{
    (void)state;
    simba_retrieval_close(*(simba_retrieval **)user);
}

static void close_locker(void *user, const simba_error *why)
{
    (void)why;
    simba_locker_close(*(simba_locker **)user);
}

static int close_scheduler(void *user, const simba_run *run, simba_error *error)
{
    (void)run;
    (void)error;
    simba_scheduler_close(*(simba_scheduler **)user);
    return SIMBA_OK;
}

/* Each opens a store of its own, in a process of its own, that ends by it. */

static void end_by_service(simba_store *store)
{
    simba_contender contender = SIMBA_CONTENDER_INIT;
    static simba_service *service;

    contender.mutex = "own";
    contender.on_acquired = close_service;
    contender.user = &service;
    if (simba_service_open(store, &contender, &service, NULL) == SIMBA_OK) {
        (void)!simba_service_start(service, NULL);
    }
}

static void end_by_locker(simba_store *store)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    static simba_locker *locker;

    options.mutex = "own";
    options.times.max_hold_ms = 1;
    options.on_lost = close_locker;
    options.user = &locker;
    if (simba_locker_open(store, &options, &locker, NULL) == SIMBA_OK) {
        (void)!simba_locker_acquire(locker, -1, NULL, NULL);
    }
}

static void end_by_retrieval(simba_store *store)
{
    simba_retriever retriever = SIMBA_RETRIEVER_INIT;
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    static simba_retrieval *retrieval;
    static simba_locker *locker;

    options.mutex = retriever.mutex = "own";
    retriever.on_changed = close_retrieval;
    retriever.user = &retrieval;
    if (simba_retrieval_open(store, &retriever, &retrieval, NULL) == SIMBA_OK &&
        simba_retrieval_start(retrieval, NULL) == SIMBA_OK &&
        simba_locker_open(store, &options, &locker, NULL) == SIMBA_OK) {
        (void)!simba_locker_acquire(locker, -1, NULL, NULL);
    }
}

static void end_by_scheduler(simba_store *store)
{
    simba_scheduler_options options = SIMBA_SCHEDULER_OPTIONS_INIT;
    static simba_scheduler *scheduler;

    options.mutex = "own";
    options.period_ms = 1;
    options.work = close_scheduler;
    options.user = &scheduler;
    if (simba_scheduler_open(store, &options, &scheduler, NULL) == SIMBA_OK) {
        (void)!simba_scheduler_start(scheduler, NULL);
    }
}

static void end_by_store(simba_store *store)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    static simba_locker *locker;

    options.mutex = "own";
    (void)!simba_locker_open(store, &options, &locker, NULL);
    simba_store_close(store);
}

static void end_itself(void (*end)(simba_store *store), int out)
{
    simba_store *store;

    dup2(out, STDERR_FILENO);
    signal(SIGABRT, SIG_DFL); /* cmocka has a handler for it */
    if (simba_store_open("memory:child", NULL, &store, NULL) == SIMBA_OK) {
        alarm(2 * PATIENCE_MS / 1000); /* so that it ends if nothing ends it */
        end(store);
        pause();
    }
    _exit(0);
}

/* It cannot be done, and to wait for itself would be worse than to say so. */
static void ends_with(void (*end)(simba_store *store), const char *message)
{
    char said[512] = "";
    int pipes[2], status;
    pid_t child;

    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    child = fork();
    if (child == 0) {
        end_itself(end, pipes[1]);
    }
    close(pipes[1]);
    status = status_of(child);
    assert_true(read(pipes[0], said, sizeof said - 1) > 0);
    close(pipes[0]);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_non_null(strstr(said, message));
}

TEST(test_misuse__closing_itself_ends_the_program)
{
    ends_with(end_by_service, "a service was closed by its own callback");
    ends_with(end_by_locker, "a locker was closed by its own callback");
    ends_with(end_by_retrieval, "a retrieval was closed by its own callback");
    ends_with(end_by_scheduler, "a scheduler was closed by its own work");
    ends_with(end_by_store, "with 1 services or lockers still open");
}

TEST(test_misuse__what_is_reserved_for_later_is_refused)
{
    simba_store *store = open_store();
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;
    simba_contender contender = SIMBA_CONTENDER_INIT;
    simba_break wish = SIMBA_BREAK_INIT;
    simba_service *service;
    simba_store *none;

    contender.mutex = wish.mutex = "reserved";
    wish.token = 1;
    contender.reserved = 1;
    options.reserved[0] = wish.reserved[6] = 1;
    assert_int_equal(simba_store_open("memory:reserved", &options, &none, NULL),
                     SIMBA_EINVAL);
    assert_null(none);
    assert_int_equal(simba_service_open(store, &contender, &service, NULL),
                     SIMBA_EINVAL);
    assert_int_equal(simba_admin_break(store, &wish, NULL, NULL), SIMBA_EINVAL);
    simba_store_close(store);
}

TEST(test_misuse__the_library_tells_its_version)
{
    assert_int_equal(simba_version_number(), SIMBA_VERSION_NUMBER);
}

TEST(test_misuse__codes_of_others_have_a_name)
{
    assert_string_equal(simba_status_name(SIMBA_EINTERNAL), "internal");
    assert_string_equal(simba_status_name(SIMBA_EIO), "not-written");
    assert_string_equal(simba_status_name(SIMBA_EIO - 1), "unknown-code");
    assert_string_equal(simba_cause_name(SIMBA_CAUSE_ASKED), "asked");
    assert_string_equal(simba_cause_name((enum simba_cause)8), "unknown");
    assert_string_equal(simba_status_name(1), "unknown-code");
    assert_string_equal(simba_status_name(INT32_MIN), "unknown-code");
}
