/* What all shims have in common, and what stat counts. The store behind them is
 * in memory unless a test says otherwise. */
#include "fixtures/process_resources.h"
#include "shim_driver.h"

#include <string.h>
#include <sys/wait.h>

TEST(test_shims__refuse_what_they_do_not_understand)
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

    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        if (simba_store_open(urls[i], NULL, &store, &error) != SIMBA_EINVAL) {
            fail_msg("%s was not refused", urls[i]);
        }
        assert_null(store);
        assert_int_equal(error.code, SIMBA_EINVAL);
    }
}

/* What the inner store can do comes through, and a child inherits nothing. */
TEST(test_shims__pass_on_what_the_store_offers)
{
    int before = count_descriptors(), status;
    simba_store *plain = open_url("sqlite:%s/plain.db", directory);
    simba_store *store = open_url("stat::trace:%s/%%3A:fault:seed=1:sqlite:%s/"
                                  "shimmed.db",
                                  directory, directory);
    pid_t child;

    assert_int_equal(simba_store_capabilities(store),
                     simba_store_capabilities(plain));
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

/* --- stat ---------------------------------------------------------------- */

TEST(test_shims__stat_counts_and_times)
{
    simba_store *store = open_url("stat::memory:stat");
    simba_stat acquire, release;

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

TEST(test_shims__stat_refuses_what_is_not_there)
{
    simba_store *plain = open_url("memory:plain");
    simba_store *store = open_url("stat::memory:stat");
    simba_stat stat;

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

TEST(test_shims__stat_and_fault_log_at_close)
{
    struct journal journal = {.lock = PTHREAD_MUTEX_INITIALIZER};
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;
    simba_store *store;

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

int main(void)
{
    return run_unit_tests(make_directory, remove_directory);
}
