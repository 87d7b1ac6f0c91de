/* The shim trace: what it writes down of requests and wake-ups, and where. */
#include "shim_driver.h"

#include <string.h>

static int count_of(const char *text, const char *needle)
{
    int count = 0;

    for (; (text = strstr(text, needle)) != NULL; text += strlen(needle)) {
        count++;
    }
    return count;
}

TEST(test_shims__trace_tells_what_was_asked_and_answered)
{
    simba_store *store = open_url("trace:%s/told:memory:trace", directory);
    simba_locker *locker = open_locker(store, "q\"\\é");
    char token[64];
    uint64_t number;
    char *text;

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
    assert_int_equal(count_of(text, "\"request\":\"acquire\""), 2);
    assert_int_equal(count_of(text, token), 1);
    assert_int_equal(count_of(text, "\"ttl_ms\":10000"), 2);
    free(text);
}

TEST(test_shims__trace_tells_wakes)
{
    simba_store *store =
        open_url("stat::trace:%s/wakes:memory:wakes", directory);
    const char *mutex = fresh_mutex();
    simba_locker *a = open_locker(store, mutex);
    simba_locker *b = open_locker(store, mutex);
    char *text;

    hand_over(store, a, b);
    await(stat_of(store, "wake_up").started >= 1);
    simba_locker_close(a);
    simba_locker_close(b);
    simba_store_close(store);
    text = read_trace("wakes");
    assert_true(count_of(text, "\"trace\":\"wake_up\"") >= 1);
    assert_true(count_of(text, "\"queued\":true") >= 1);
    assert_true(count_of(text, "\"position\":") >= 1);
    free(text);
}

TEST(test_shims__trace_needs_a_file)
{
    simba_store *store;
    char url[256];

    snprintf(url, sizeof url, "trace:%s/no/such/place:memory:x", directory);
    assert_int_equal(simba_store_open(url, NULL, &store, NULL),
                     SIMBA_EMISCONFIG);
    assert_int_equal(simba_store_open("trace::memory:x", NULL, &store, NULL),
                     SIMBA_EINVAL);
}

/* Who forgets the path is told so, and finds no file of a scheme's name. */
TEST(test_shims__trace_without_a_path_makes_no_file)
{
    static const char *const urls[] = {
        "trace:redis://127.0.0.1:1", "trace:sqlite:/nowhere/x.db",
        "trace:memory:x", "stat:redis://127.0.0.1:1"};
    char before[4096];
    simba_store *store;

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

int main(void)
{
    return run_unit_tests(make_directory, remove_directory);
}
