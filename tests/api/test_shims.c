/* The shims: what they do to operations and hints, and what they leave alone.
 * The store behind them is in memory unless a test says otherwise. */
#include "harness.h"

#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static char directory[] = "/tmp/simba-shims-XXXXXX";

__attribute__((format(printf, 1, 2))) static simba_store *open_url(
    const char *format,
    ...)
{
    simba_store *store;
    simba_error error;
    char url[512];
    va_list args;

    va_start(args, format);
    vsnprintf(url, sizeof url, format, args);
    va_end(args);
    if (simba_store_open(url, NULL, &store, &error) != SIMBA_OK) {
        fail_msg("%s: %s", url, error.message);
    }
    return store;
}

static simba_locker *open_locker(simba_store *store, const char *mutex)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker;

    options.mutex = mutex;
    options.id = "me \"\\é";
    assert_int_equal(simba_locker_open(store, &options, &locker, NULL),
                     SIMBA_OK);
    return locker;
}

static simba_stat stat_of(simba_store *store, const char *kind)
{
    simba_stat stat;

    assert_int_equal(simba_stat_read(store, kind, &stat, NULL), SIMBA_OK);
    return stat;
}

/* Once through a mutex; the token. */
static uint64_t pass_through(simba_store *store)
{
    simba_locker *locker = open_locker(store, fresh_mutex());
    uint64_t token;

    assert_int_equal(simba_locker_acquire(locker, PATIENCE_MS, &token, NULL),
                     SIMBA_OK);
    assert_true(simba_locker_is_owner(locker));
    assert_int_equal(simba_locker_release(locker, NULL), SIMBA_OK);
    simba_locker_close(locker);
    return token;
}

/* --- stat ---------------------------------------------------------------- */

static void test_shims__stat_counts_and_times(void **state)
{
    simba_store *store = open_url("stat::memory:stat");
    simba_stat acquire, release;

    (void)state;
    for (int i = 0; i < 10; i++) {
        pass_through(store);
    }
    acquire = stat_of(store, "acquire");
    release = stat_of(store, "release");
    assert_int_equal(acquire.started, 10);
    assert_int_equal(acquire.answered, 10);
    assert_int_equal(acquire.mine, 10);
    assert_int_equal(acquire.unknown + acquire.failed, 0);
    assert_true(acquire.least_us <= acquire.p50_us);
    assert_true(acquire.p50_us <= acquire.p99_us);
    assert_true(acquire.p99_us <= acquire.most_us);
    assert_true(acquire.total_us >= acquire.most_us);
    assert_int_equal(release.answered, 10);
    assert_int_equal(release.mine, 0);
    assert_int_equal(stat_of(store, "renew").started, 0);
    simba_store_close(store);
}

static void test_shims__stat_refuses_what_is_not_there(void **state)
{
    simba_store *plain = open_url("memory:plain");
    simba_store *store = open_url("stat::memory:stat");
    simba_stat stat;

    (void)state;
    assert_int_equal(simba_stat_read(plain, "acquire", &stat, NULL),
                     SIMBA_EINVAL);
    assert_int_equal(simba_stat_read(store, "aquire", &stat, NULL),
                     SIMBA_EINVAL);
    simba_store_close(store);
    simba_store_close(plain);
}

struct journal {
    pthread_mutex_t lock;
    char text[4096];
};

static void keep_log(void *user,
                     enum simba_log_level level,
                     const char *component,
                     const char *message)
{
    struct journal *journal = user;
    size_t length;

    (void)level;
    pthread_mutex_lock(&journal->lock);
    length = strlen(journal->text);
    snprintf(journal->text + length, sizeof journal->text - length, "%s: %s\n",
             component, message);
    pthread_mutex_unlock(&journal->lock);
}

static void test_shims__stat_and_fault_log_at_close(void **state)
{
    struct journal journal = {.lock = PTHREAD_MUTEX_INITIALIZER};
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;
    simba_store *store;

    (void)state;
    options.log = keep_log;
    options.log_user = &journal;
    options.log_level = SIMBA_LOG_INFO;
    assert_int_equal(simba_store_open("stat::fault:nth=2:memory:log", &options,
                                      &store, NULL),
                     SIMBA_OK);
    pass_through(store);
    simba_store_close(store);
    assert_non_null(strstr(journal.text, "stat: acquire: 1 started"));
    assert_non_null(strstr(journal.text, "fault: of "));
}

/* --- trace --------------------------------------------------------------- */

/* The whole trace, to be freed. */
static char *read_trace(const char *name)
{
    char path[128];
    char *text = calloc(1, 1 << 20);
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", directory, name);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

static int count_of(const char *text, const char *needle)
{
    int count = 0;

    for (; (text = strstr(text, needle)) != NULL; text += strlen(needle)) {
        count++;
    }
    return count;
}

static void test_shims__trace_tells_what_was_asked_and_answered(void **state)
{
    simba_store *store = open_url("trace:%s/told:memory:trace", directory);
    simba_locker *locker = open_locker(store, "q\"\\é");
    char token[64];
    uint64_t number;
    char *text;

    (void)state;
    assert_int_equal(simba_locker_acquire(locker, -1, &number, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_release(locker, NULL), SIMBA_OK);
    simba_locker_close(locker);
    simba_store_close(store);
    text = read_trace("told");
    snprintf(token, sizeof token, "\"mine\":true,\"token\":%llu",
             (unsigned long long)number);
    assert_int_equal(count_of(text, "\"trace\":\"opened\""), 1);
    assert_int_equal(count_of(text, "\"trace\":\"sent\""), 2);
    assert_int_equal(count_of(text, "\"trace\":\"answered\""), 2);
    assert_int_equal(count_of(text, "\"trace\":\"closed\""), 1);
    assert_int_equal(count_of(text, "\"mutex\":\"q\\\"\\\\é\""), 4);
    assert_int_equal(count_of(text, "\"id\":\"me \\\"\\\\é\""), 4);
    assert_int_equal(count_of(text, "\"op\":\"acquire\""), 2);
    assert_int_equal(count_of(text, token), 1);
    assert_int_equal(count_of(text, "\"ttl_ms\":10000"), 2);
    free(text);
}

static void *wait_for_it(void *argument)
{
    return simba_locker_acquire(argument, PATIENCE_MS, NULL, NULL) == SIMBA_OK
               ? NULL
               : argument;
}

static void test_shims__trace_tells_hints(void **state)
{
    simba_store *store =
        open_url("stat::trace:%s/hints:memory:hints", directory);
    const char *mutex = fresh_mutex();
    simba_locker *a = open_locker(store, mutex);
    simba_locker *b = open_locker(store, mutex);
    pthread_t thread;
    void *failed;
    char *text;

    (void)state;
    assert_int_equal(simba_locker_acquire(a, -1, NULL, NULL), SIMBA_OK);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_it, b), 0);
    await(stat_of(store, "acquire").answered >= 2);
    assert_int_equal(simba_locker_release(a, NULL), SIMBA_OK);
    pthread_join(thread, &failed);
    assert_null(failed);
    await(stat_of(store, "hint").started >= 1);
    simba_locker_close(a);
    simba_locker_close(b);
    simba_store_close(store);
    text = read_trace("hints");
    assert_true(count_of(text, "\"trace\":\"hint\"") >= 1);
    assert_true(count_of(text, "\"in_line\":true") >= 1);
    assert_true(count_of(text, "\"place\":") >= 1);
    free(text);
}

static void test_shims__trace_needs_a_file(void **state)
{
    simba_store *store;
    char url[256];

    (void)state;
    snprintf(url, sizeof url, "trace:%s/no/such/place:memory:x", directory);
    assert_int_equal(simba_store_open(url, NULL, &store, NULL),
                     SIMBA_EMISCONFIG);
    assert_int_equal(simba_store_open("trace::memory:x", NULL, &store, NULL),
                     SIMBA_EINVAL);
}

/* Who forgets the path is told so, and finds no file of a scheme's name. */
static void test_shims__trace_without_a_path_makes_no_file(void **state)
{
    static const char *const urls[] = {
        "trace:redis://127.0.0.1:1", "trace:sqlite:/nowhere/x.db",
        "trace:memory:x", "stat:redis://127.0.0.1:1"};
    char before[4096];
    simba_store *store;

    (void)state;
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(directory), 0);
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        assert_int_equal(simba_store_open(urls[i], NULL, &store, NULL),
                         SIMBA_EINVAL);
    }
    assert_int_not_equal(access("redis", F_OK), 0);
    assert_int_not_equal(access("sqlite", F_OK), 0);
    assert_int_not_equal(access("memory", F_OK), 0);
    assert_int_equal(chdir(before), 0);
}

/* --- fault --------------------------------------------------------------- */

static void test_shims__fault_fails_the_nth_operation(void **state)
{
    simba_store *store = open_url("fault:nth=1:stat::memory:nth");
    simba_locker *locker = open_locker(store, fresh_mutex());

    (void)state;
    assert_int_equal(simba_locker_acquire(locker, 0, NULL, NULL),
                     SIMBA_EUNAVAIL);
    assert_int_equal(stat_of(store, "acquire").started, 0);
    assert_int_equal(simba_locker_acquire(locker, 0, NULL, NULL), SIMBA_OK);
    simba_locker_close(locker);
    simba_store_close(store);
}

/* The answer is lost, the effect is there: asked again, the same tenure. */
static void test_shims__fault_loses_an_answer(void **state)
{
    simba_store *store = open_url("stat::fault:nth=1,as=mute:memory:mute");

    (void)state;
    pass_through(store);
    assert_int_equal(stat_of(store, "acquire").unknown, 1);
    assert_int_equal(stat_of(store, "acquire").mine, 1);
    simba_store_close(store);
}

static void test_shims__fault_loses_a_request(void **state)
{
    simba_store *store = open_url("fault:nth=1,as=lose:stat::memory:lose");

    (void)state;
    pass_through(store);
    assert_int_equal(stat_of(store, "acquire").started, 1); /* the second */
    simba_store_close(store);
}

static void test_shims__fault_doubles_a_request(void **state)
{
    simba_store *store = open_url("fault:nth=1,as=double:stat::memory:double");
    simba_locker *locker = open_locker(store, fresh_mutex());

    (void)state;
    assert_int_equal(simba_locker_acquire(locker, 0, NULL, NULL), SIMBA_OK);
    await(stat_of(store, "acquire").answered == 2);
    assert_int_equal(stat_of(store, "acquire").mine, 2);
    simba_locker_close(locker);
    simba_store_close(store);
}

static void test_shims__fault_delays_requests_and_answers(void **state)
{
    static const char *const ways[] = {"delay", "slow"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        simba_store *store = open_url(
            "stat::fault:nth=1,as=%s,late=40,seed=3:memory:late", ways[i]);

        pass_through(store);
        assert_int_equal(stat_of(store, "acquire").answered, 1);
        assert_true(stat_of(store, "acquire").most_us >= 500);
        simba_store_close(store);
    }
}

static void test_shims__fault_touches_only_what_it_should(void **state)
{
    simba_store *store =
        open_url("stat::fault:fail=100,only=renew:memory:only");

    (void)state;
    pass_through(store);
    assert_int_equal(stat_of(store, "acquire").failed, 0);
    simba_store_close(store);
}

/* With every hint lost the backstop grants (S10); doubled ones do no harm. */
static void test_shims__fault_loses_and_doubles_hints(void **state)
{
    static const char *const ways[] = {"hint_lose", "hint_double", "hint_late"};

    (void)state;
    for (int i = 0; i < 3; i++) {
        simba_store *store =
            open_url("stat::fault:%s=100:stat::memory:h", ways[i]);
        const char *mutex = fresh_mutex();
        simba_locker *a = open_locker(store, mutex);
        simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
        simba_locker *b;
        pthread_t thread;
        void *failed;

        options.mutex = mutex;
        options.ttl_ms = 300;
        options.transition_ms = 200;
        assert_int_equal(simba_locker_open(store, &options, &b, NULL),
                         SIMBA_OK);
        assert_int_equal(simba_locker_acquire(a, -1, NULL, NULL), SIMBA_OK);
        assert_int_equal(pthread_create(&thread, NULL, wait_for_it, b), 0);
        await(stat_of(store, "acquire").answered >= 2);
        assert_int_equal(simba_locker_release(a, NULL), SIMBA_OK);
        pthread_join(thread, &failed);
        assert_null(failed);
        if (i == 0) {
            assert_int_equal(stat_of(store, "hint").started, 0);
        }
        simba_locker_close(a);
        simba_locker_close(b);
        simba_store_close(store);
    }
}

/* The fate of an operation follows from the seed alone. */
static void test_shims__fault_is_reproducible(void **state)
{
    uint64_t failed[3];
    static const int seeds[] = {7, 7, 8};

    (void)state;
    for (int i = 0; i < 3; i++) {
        simba_store *store =
            open_url("stat::fault:seed=%d,fail=30:memory:same", seeds[i]);
        simba_report *report;

        failed[i] = 0;
        for (int k = 0; k < 60; k++) {
            int rc = simba_admin_show(store, "m", &report, NULL);

            failed[i] = failed[i] * 3 + (rc == SIMBA_OK ? 1 : 2);
            simba_report_close(report);
        }
        assert_in_range(stat_of(store, "read").failed, 6, 36);
        simba_store_close(store);
    }
    assert_true(failed[0] == failed[1]);
    assert_true(failed[0] != failed[2]);
}

/* Operations that are lost or late when the store is closed end with it. */
static void test_shims__fault_closes_with_operations_under_way(void **state)
{
    static const char *const ways[] = {"lose=100", "delay=100,late=60000",
                                       "echo=100,late=60000"};

    (void)state;
    for (int i = 0; i < 3; i++) {
        simba_store *store =
            open_url("fault:%s,only=acquire:memory:u%d", ways[i], i);
        simba_locker *locker = open_locker(store, fresh_mutex());

        (void)!simba_locker_acquire(locker, 30, NULL, NULL);
        simba_locker_close(locker);
        simba_store_close(store);
    }
}

struct hammer {
    simba_store *store;
    const char *mutex;
    int *counter;
    int done;
};

static void *hammer(void *argument)
{
    struct hammer *h = argument;
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker;

    options.mutex = h->mutex;
    options.ttl_ms = 500;
    options.transition_ms = 300;
    assert_int_equal(simba_locker_open(h->store, &options, &locker, NULL),
                     SIMBA_OK);
    for (int i = 0; i < 5; i++) {
        if (simba_locker_acquire(locker, PATIENCE_MS, NULL, NULL) == SIMBA_OK) {
            int seen = *h->counter;

            *h->counter = seen + 1;
            h->done++;
            (void)!simba_locker_release(locker, NULL);
        }
    }
    simba_locker_close(locker);
    return NULL;
}

/* Whatever goes wrong, one at a time changes the counter. */
static void test_shims__exclusion_holds_under_faults(void **state)
{
    (void)state;
    for (int seed = 1; seed <= 5; seed++) {
        simba_store *stores[2];
        struct hammer hammers[4];
        pthread_t threads[4];
        int counter = 0;
        int done = 0;
        const char *mutex = fresh_mutex();

        for (int i = 0; i < 2; i++) {
            stores[i] = open_url("fault:seed=%d:memory:ham", seed * 2 + i);
        }
        for (int i = 0; i < 4; i++) {
            hammers[i] = (struct hammer){stores[i % 2], mutex, &counter, 0};
            assert_int_equal(
                pthread_create(&threads[i], NULL, hammer, &hammers[i]), 0);
        }
        for (int i = 0; i < 4; i++) {
            pthread_join(threads[i], NULL);
            done += hammers[i].done;
        }
        assert_int_equal(counter, done);
        assert_int_equal(done, 20);
        simba_store_close(stores[0]);
        simba_store_close(stores[1]);
    }
}

/* --- all of them --------------------------------------------------------- */

static void test_shims__refuse_what_they_do_not_understand(void **state)
{
    static const char *const urls[] = {
        "fault:seed=x:memory:m",
        "fault:lose=101:memory:m",
        "fault:lose=60,fail=60:memory:m",
        "fault:nonsense=1:memory:m",
        "fault:seed=1",
        "fault:as=nothing:memory:m",
        "stat:x:memory:m",
        "stat:",
        "stat::",
        "stat::nosuchstore:x",
        "trace:%zz:memory:m",
        "fault:only=sleep:memory:m",
    };
    simba_error error;
    simba_store *store;

    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        if (simba_store_open(urls[i], NULL, &store, &error) != SIMBA_EINVAL) {
            fail_msg("%s was not refused", urls[i]);
        }
        assert_null(store);
        assert_int_equal(error.code, SIMBA_EINVAL);
    }
}

static int count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    while (readdir(dir) != NULL) {
        count++;
    }
    closedir(dir);
    return count;
}

/* What the inner store offers comes through, and a child inherits nothing. */
static void test_shims__pass_on_what_the_store_offers(void **state)
{
    int before = count_descriptors(), status;
    simba_store *plain = open_url("sqlite:%s/plain.db", directory);
    simba_store *store = open_url("stat::trace:%s/%%3A:fault:seed=1:sqlite:%s/"
                                  "shimmed.db",
                                  directory, directory);
    pid_t child;

    (void)state;
    assert_int_equal(simba_admin_offers(store), simba_admin_offers(plain));
    assert_true(simba_store_life_fd(store) >= 0);
    pass_through(store);
    child = fork();
    if (child == 0) {
        _exit(count_descriptors() == before ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    simba_store_close(store);
    simba_store_close(plain);
    free(read_trace(":"));
}

static int make_directory(void **state)
{
    (void)state;
    return mkdtemp(directory) == NULL;
}

static int remove_directory(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shims__stat_counts_and_times),
        cmocka_unit_test(test_shims__stat_refuses_what_is_not_there),
        cmocka_unit_test(test_shims__stat_and_fault_log_at_close),
        cmocka_unit_test(test_shims__trace_tells_what_was_asked_and_answered),
        cmocka_unit_test(test_shims__trace_tells_hints),
        cmocka_unit_test(test_shims__trace_needs_a_file),
        cmocka_unit_test(test_shims__trace_without_a_path_makes_no_file),
        cmocka_unit_test(test_shims__fault_fails_the_nth_operation),
        cmocka_unit_test(test_shims__fault_loses_an_answer),
        cmocka_unit_test(test_shims__fault_loses_a_request),
        cmocka_unit_test(test_shims__fault_doubles_a_request),
        cmocka_unit_test(test_shims__fault_delays_requests_and_answers),
        cmocka_unit_test(test_shims__fault_touches_only_what_it_should),
        cmocka_unit_test(test_shims__fault_loses_and_doubles_hints),
        cmocka_unit_test(test_shims__fault_is_reproducible),
        cmocka_unit_test(test_shims__fault_closes_with_operations_under_way),
        cmocka_unit_test(test_shims__exclusion_holds_under_faults),
        cmocka_unit_test(test_shims__refuse_what_they_do_not_understand),
        cmocka_unit_test(test_shims__pass_on_what_the_store_offers),
    };

    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
