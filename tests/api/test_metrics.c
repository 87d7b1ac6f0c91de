/* What is counted, how it is printed, and logs with fields, on any store. */
#include "fixtures/api_harness.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

static simba_locker *open_with(simba_store *store,
                               const simba_locker_options *options)
{
    simba_locker *locker;

    assert_int_equal(simba_locker_open(store, options, &locker, NULL),
                     SIMBA_OK);
    return locker;
}

static simba_locker *open_locker(simba_store *store, const char *mutex)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;

    options.mutex = mutex;
    return open_with(store, &options);
}

static simba_metrics *read_metrics(simba_store *store)
{
    simba_metrics *metrics;

    assert_int_equal(simba_metrics_read(store, &metrics, NULL), SIMBA_OK);
    return metrics;
}

static simba_counts counts_of(simba_store *store, const char *mutex)
{
    simba_metrics *metrics = read_metrics(store);
    simba_counts counts = *simba_metrics_of(metrics, mutex);

    simba_metrics_free(metrics);
    return counts;
}

static simba_store_counts counts_of_store(simba_store *store)
{
    simba_metrics *metrics = read_metrics(store);
    simba_store_counts counts = *simba_metrics_store(metrics);

    simba_metrics_free(metrics);
    return counts;
}

static void assert_adds_up(const simba_histogram *histogram)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < SIMBA_HISTOGRAM_BUCKETS; i++) {
        sum += histogram->buckets[i];
    }
    assert_int_equal(sum, histogram->count);
}

TEST(test_metrics__count_tenures)
{
    simba_store *store = open_store();
    const char *mutex = fresh_mutex();
    simba_locker *locker = open_locker(store, mutex);
    simba_counts counts;

    assert_int_equal(counts_of(store, mutex).acquires, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(simba_locker_acquire(locker, -1, NULL, NULL), 0);
        assert_int_equal(counts_of_store(store).owned, 1);
        assert_int_equal(simba_locker_release(locker, NULL), SIMBA_OK);
    }
    assert_int_equal(counts_of_store(store).contenders, 1);
    simba_locker_close(locker);
    counts = counts_of(store, mutex); /* they outlive the locker */
    assert_int_equal(counts.acquires, 3);
    assert_int_equal(counts.releases, 3);
    assert_int_equal(counts.hand_overs, 0);
    assert_int_equal(counts.abandoned, 0);
    assert_int_equal(counts.wait.count, 3);
    assert_int_equal(counts.hold.count, 3);
    assert_adds_up(&counts.wait);
    assert_adds_up(&counts.hold);
    assert_int_equal(counts_of_store(store).owned, 0);
    assert_int_equal(counts_of_store(store).contenders, 0);
    simba_store_close(store);
}

static void *acquire(void *locker)
{
    return simba_locker_acquire(locker, -1, NULL, NULL) == SIMBA_OK ? locker
                                                                    : NULL;
}

TEST(test_metrics__count_hand_overs_and_waits_in_vain)
{
    simba_store *store = open_store();
    simba_store *other = open_store();
    const char *mutex = fresh_mutex();
    simba_locker *a = open_locker(store, mutex);
    simba_locker *b = open_locker(other, mutex);
    simba_counts counts;
    pthread_t thread;
    int64_t start;
    void *got;

    assert_int_equal(simba_locker_acquire(a, -1, NULL, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire(b, 0, NULL, NULL), SIMBA_EBUSY);
    assert_int_equal(simba_locker_acquire(b, 20, NULL, NULL), SIMBA_ETIMEDOUT);
    assert_int_equal(counts_of(other, mutex).abandoned, 2);
    start = now_ms();
    pthread_create(&thread, NULL, acquire, b);
    await(now_ms() - start > 60);
    simba_locker_close(a);
    pthread_join(thread, &got);
    assert_ptr_equal(got, b);
    counts = counts_of(other, mutex);
    assert_int_equal(counts.acquires, 1);
    assert_int_equal(counts.hand_overs, 1);
    assert_int_equal(counts.wait.count, 1);
    assert_int_equal(counts.abandoned, 2);
    simba_locker_close(b);
    simba_store_close(other);
    simba_store_close(store);
}

TEST(test_metrics__count_losses_by_cause)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_store *store = open_store();
    simba_locker *locker;
    simba_counts counts;

    options.mutex = fresh_mutex();
    options.times.max_hold_ms = 60;
    locker = open_with(store, &options);
    assert_int_equal(simba_locker_acquire(locker, -1, NULL, NULL), SIMBA_OK);
    await(counts_of(store, options.mutex).lost_max_hold == 1);
    simba_locker_close(locker);
    counts = counts_of(store, options.mutex);
    assert_int_equal(counts.acquires, 1);
    assert_int_equal(counts.releases, 0);
    assert_int_equal(counts.lost_expired, 0);
    assert_int_equal(counts.lost_taken, 0);
    assert_int_equal(counts.lost_stalled, 0);
    assert_int_equal(counts.hold.count, 1);
    assert_true(counts.hold.sum_us >= 40000);
    simba_store_close(store);
}

/* Who alerts on owners that vanish must not be woken by an admin's break. */
TEST(test_metrics__tell_what_was_broken_from_what_was_taken)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_break wish = SIMBA_BREAK_INIT;
    simba_store *store = open_store();
    simba_locker *locker;

    options.mutex = wish.mutex = fresh_mutex();
    options.times.ttl_ms = 200;
    locker = open_with(store, &options);
    assert_int_equal(simba_locker_acquire(locker, -1, &wish.token, NULL), 0);
    assert_int_equal(simba_admin_break(store, &wish, NULL, NULL), SIMBA_OK);
    await(counts_of(store, options.mutex).lost_broken == 1);
    assert_int_equal(counts_of(store, options.mutex).lost_taken, 0);
    assert_int_equal(counts_of(store, options.mutex).lost_expired, 0);
    simba_locker_close(locker);
    simba_store_close(store);
}

TEST(test_metrics__count_renewals_and_their_margin)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_store *store = open_store();
    simba_locker *locker;
    simba_counts counts;

    options.mutex = fresh_mutex();
    options.times.ttl_ms = 300;
    options.times.transition_ms = 5000;
    locker = open_with(store, &options);
    assert_int_equal(simba_locker_acquire(locker, -1, NULL, NULL), SIMBA_OK);
    await(counts_of(store, options.mutex).renewals >= 2);
    counts = counts_of(store, options.mutex);
    assert_int_equal(counts.renewal_margin.count, counts.renewals);
    /* Renewed after 200 ms of a lease of 5.3 s. */
    assert_true(counts.renewal_margin.sum_us / counts.renewals < 5100000);
    assert_true(counts.renewal_margin.sum_us > 0);
    simba_locker_close(locker);
    simba_store_close(store);
}

static void overrun(void *user, const simba_state *owners)
{
    (void)owners;
    await(counts_of(((void **)user)[0], ((void **)user)[1]).overruns == 1);
}

TEST(test_metrics__count_callbacks_that_overrun)
{
    simba_contender contender = SIMBA_CONTENDER_INIT;
    simba_store *store = open_store();
    const char *mutex = fresh_mutex();
    void *both[] = {store, (void *)mutex};
    simba_service *service;

    contender.mutex = mutex;
    contender.times.ttl_ms = 1000;
    contender.times.transition_ms = 3000;
    contender.times.budget_ms = 20;
    contender.on_released = overrun;
    contender.user = both;
    service = must_open_service(store, &contender);
    assert_int_equal(simba_service_start(service, NULL), SIMBA_OK);
    await(simba_service_is_owner(service));
    assert_int_equal(simba_service_stop(service, NULL), SIMBA_OK);
    assert_int_equal(counts_of(store, mutex).overruns, 1);
    simba_service_close(service);
    simba_store_close(store);
}

TEST(test_metrics__sort_durations_into_buckets)
{
    for (size_t i = 1; i < SIMBA_HISTOGRAM_BUCKETS; i++) {
        assert_true(simba_histogram_bound_us(i - 1) <
                    simba_histogram_bound_us(i));
    }
    assert_true(simba_histogram_bound_us(SIMBA_HISTOGRAM_BUCKETS - 1) ==
                UINT64_MAX);
}

/* --- Prometheus ---------------------------------------------------------- */

static char *printed(simba_store *store)
{
    simba_metrics *metrics = read_metrics(store);
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    assert_int_equal(simba_metrics_print(metrics, out), SIMBA_OK);
    fclose(out);
    simba_metrics_free(metrics);
    return text;
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("there is no '%s' in: %s", part, text);
    }
}

/* name{labels} value, or a comment: whatever is not that is not readable. */
static void assert_well_formed(const char *text)
{
    while (*text != '\0') {
        const char *end = strchr(text, '\n');
        const char *value;

        assert_non_null(end);
        if (*text != '#') {
            assert_int_equal(strncmp(text, "simba_", 6), 0);
            value = memrchr(text, ' ', (size_t)(end - text));
            assert_non_null(value);
            assert_true(value[-1] == '}');
            assert_int_equal(strspn(value + 1, "0123456789."),
                             (size_t)(end - value - 1));
        }
        text = end + 1;
    }
}

TEST(test_metrics__are_printed_for_prometheus)
{
    simba_store *store = open_store();
    char mutex[80], line[160];
    simba_locker *locker;
    char *text;

    snprintf(mutex, sizeof mutex, "%s \"\\", fresh_mutex());
    locker = open_locker(store, mutex);
    assert_int_equal(simba_locker_acquire(locker, -1, NULL, NULL), SIMBA_OK);
    text = printed(store);
    assert_well_formed(text);
    snprintf(line, sizeof line, "mutex=\"%.*s\\\"\\\\\"} 1\n",
             (int)strlen(mutex) - 2, mutex);
    assert_has(text, line); /* escaped */
    assert_has(text, "# TYPE simba_acquires_total counter\n");
    assert_has(text, "# TYPE simba_wait_seconds histogram\n");
    assert_has(text, "simba_losses_total{");
    assert_has(text, "cause=\"expired\"} 0\n");
    assert_has(text, "le=\"+Inf\"} 1\n");
    assert_has(text, "simba_reconnects_total{store=\"");
    assert_has(text, "simba_requests_total{store=\"");
    assert_int_equal(counts_of_store(store).requests, 1);
    free(text);
    simba_locker_close(locker);
    simba_store_close(store);
}

TEST(test_metrics__are_saved_whole)
{
    char directory[] = "/tmp/simba-metrics.XXXXXX", path[64];
    simba_store *store = open_store();
    simba_locker *locker = open_locker(store, fresh_mutex());
    struct stat status;
    simba_error error;

    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/a.prom", directory);
    assert_int_equal(simba_locker_acquire(locker, -1, NULL, NULL), SIMBA_OK);
    assert_int_equal(simba_metrics_save(store, path, NULL), SIMBA_OK);
    assert_int_equal(simba_metrics_save(store, path, NULL), SIMBA_OK);
    assert_int_equal(stat(path, &status), 0);
    assert_true(status.st_size > 1000);
    assert_int_equal(status.st_mode & 0777, 0644);
    unlink(path);
    assert_int_equal(rmdir(directory), 0); /* nothing else is left in it */
    assert_int_equal(simba_metrics_save(store, path, &error), SIMBA_EIO);
    assert_non_null(strstr(error.message, "a.prom"));
    assert_int_equal(simba_metrics_save(store, "/dev/null", &error),
                     SIMBA_EDENIED);
    simba_locker_close(locker);
    simba_store_close(store);
}

/* As on a full disk: who alerts on it must not look for missing rights. */
TEST(test_metrics__that_cannot_be_written_are_not_denied)
{
    char directory[] = "/tmp/simba-metrics.XXXXXX", path[64];
    simba_store *store = open_store();
    struct rlimit old, low;
    simba_metrics *metrics;
    simba_error error;
    FILE *full = fopen("/dev/full", "w");

    assert_non_null(full);
    metrics = read_metrics(store);
    assert_int_equal(simba_metrics_print(metrics, full), SIMBA_EIO);
    simba_metrics_free(metrics);
    (void)fclose(full);

    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/a.prom", directory);
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    low = (struct rlimit){100, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    assert_int_equal(simba_metrics_save(store, path, &error), SIMBA_EIO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(error.native, EFBIG);
    assert_int_equal(rmdir(directory), 0);
    simba_store_close(store);
}

TEST(test_metrics__beyond_a_thousand_are_counted_together)
{
    simba_store *store = open_store();
    simba_metrics *metrics;
    uint64_t sum = 0;

    for (int i = 0; i < 1010; i++) {
        simba_locker *locker = open_locker(store, fresh_mutex());

        assert_int_equal(simba_locker_acquire(locker, -1, NULL, NULL), 0);
        simba_locker_close(locker);
    }
    metrics = read_metrics(store);
    assert_int_equal(simba_metrics_count(metrics), 1001);
    assert_int_equal(simba_metrics_of(metrics, "")->acquires, 10);
    for (size_t i = 0; i < simba_metrics_count(metrics); i++) {
        sum += simba_metrics_counts(metrics, i)->acquires;
        assert_true(i == 0 || strcmp(simba_metrics_mutex(metrics, i - 1),
                                     simba_metrics_mutex(metrics, i)) < 0);
    }
    assert_int_equal(sum, 1010);
    simba_metrics_free(metrics);
    simba_store_close(store);
}

/* --- logs with fields ---------------------------------------------------- */

struct heard {
    pthread_mutex_t lock;
    char acquired[256], released[256];
};

static void join_fields(const simba_log_event *event, char *text, size_t room)
{
    size_t length = 0;

    for (size_t i = 0; i < event->field_count && length < room; i++) {
        length +=
            (size_t)snprintf(text + length, room - length, "%s=%s;",
                             event->fields[i].key, event->fields[i].value);
    }
}

static void hear(void *user, const simba_log_event *event)
{
    struct heard *heard = user;

    pthread_mutex_lock(&heard->lock);
    if (strstr(event->message, "acquired") != NULL) {
        join_fields(event, heard->acquired, sizeof heard->acquired);
    } else if (strstr(event->message, "released") != NULL) {
        join_fields(event, heard->released, sizeof heard->released);
    }
    pthread_mutex_unlock(&heard->lock);
}

TEST(test_log__events_have_fields)
{
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;
    simba_contender contender = SIMBA_CONTENDER_INIT;
    struct heard heard = {.lock = PTHREAD_MUTEX_INITIALIZER};
    simba_service *service;
    char expected[256];
    simba_store *store;
    uint64_t token;

    options.log_event = hear;
    options.log_user = &heard;
    options.log_level = SIMBA_LOG_INFO;
    contender.mutex = fresh_mutex();
    contender.id = "me";
    store = open_store_with(&options);
    service = must_open_service(store, &contender);
    assert_int_equal(simba_service_start(service, NULL), SIMBA_OK);
    await(simba_service_is_owner(service));
    token = simba_service_token(service);
    simba_service_close(service);
    simba_store_close(store);
    snprintf(expected, sizeof expected, "mutex=%s;id=me;token=%llu;",
             contender.mutex, (unsigned long long)token);
    assert_string_equal(heard.acquired, expected);
    strcat(expected, "cause=stopped;");
    assert_string_equal(heard.released, expected);
    assert_string_equal(simba_log_level_name(SIMBA_LOG_INFO), "info");
}
