/* What owners tell about themselves; on a store that has no place for it: that
 * it says so. */
#include "fixtures/api_harness.h"

#include <simba/admin.h>

#include <string.h>
#include <unistd.h>

static bool can_tell(const simba_store *store)
{
    return (simba_store_capabilities(store) & SIMBA_CAN_TELL) != 0;
}

static size_t count_told(simba_store *store,
                         const char *mutex,
                         simba_told *first)
{
    simba_report *report;
    size_t count;

    assert_int_equal(simba_admin_told(store, mutex, &report, NULL), SIMBA_OK);
    count = simba_report_told_count(report);
    if (count > 0) {
        *first = *simba_report_told(report, 0);
    }
    simba_report_close(report);
    return count;
}

TEST(test_tell__is_refused_where_it_is_not_offered)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_store *store = open_store();
    simba_locker *locker = NULL;
    simba_report *report = NULL;
    simba_error error;

    options.mutex = fresh_mutex();
    options.tell = 1U << 30;
    assert_int_equal(simba_locker_open(store, &options, &locker, &error),
                     SIMBA_EINVAL);
    options.tell = SIMBA_TELL_HOST;
    if (!can_tell(store)) {
        assert_int_equal(simba_locker_open(store, &options, &locker, &error),
                         SIMBA_EINVAL);
        assert_non_null(strstr(error.message, "has no place"));
        assert_int_equal(simba_admin_told(store, NULL, &report, &error),
                         SIMBA_EINVAL);
        assert_null(report);
    }
    simba_store_close(store);
}

TEST(test_tell__owner_is_described_until_it_releases)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_store *store = open_store(), *other = open_store();
    simba_locker *locker;
    simba_told told;
    uint64_t token;

    if (can_tell(store)) {
        options.mutex = fresh_mutex();
        options.tell = SIMBA_TELL_PID | SIMBA_TELL_USER | SIMBA_TELL_COMMAND;
        options.command = "backup redis://ann:secret@h/0 --password=secret x";
        locker = must_open_locker(store, &options);
        assert_int_equal(simba_locker_acquire(locker, 30000, &token, NULL),
                         SIMBA_OK);
        await(count_told(other, options.mutex, &told) == 1);
        assert_int_equal(told.token, token);
        assert_int_equal(told.pid, getpid());
        assert_string_equal(told.host, ""); /* was not asked for */
        assert_string_not_equal(told.user, "");
        assert_string_equal(told.command, "backup redis://h/0 --password=* x");
        assert_int_equal(simba_locker_release(locker, NULL), SIMBA_OK);
        await(count_told(other, options.mutex, &told) == 0);
        simba_locker_close(locker);
    }
    simba_store_close(other);
    simba_store_close(store);
}

/* With each renewal it is told again, so it outlives the first lease. */
TEST(test_tell__lasts_as_long_as_the_tenure)
{
    simba_contender contender = SIMBA_CONTENDER_INIT;
    simba_store *store = open_store();
    simba_service *service;
    int64_t lease_ms, transition_ms, start;
    simba_told told;

    if (can_tell(store)) {
        simba_store_lease(store, &lease_ms, &transition_ms);
        contender.mutex = fresh_mutex();
        contender.times.ttl_ms = 2500;
        contender.times.transition_ms = 1000;
        contender.tell = SIMBA_TELL_COMMAND;
        service = must_open_service(store, &contender);
        assert_int_equal(simba_service_start(service, NULL), SIMBA_OK);
        await(count_told(store, contender.mutex, &told) == 1);
        start = now_ms();
        await(now_ms() - start > 5000);
        assert_true(simba_service_is_owner(service));
        await(count_told(store, contender.mutex, &told) == 1);
        assert_non_null(strstr(told.command, "tell")); /* this program */
        assert_int_equal(simba_service_stop(service, NULL), SIMBA_OK);
        simba_service_close(service);
    }
    simba_store_close(store);
}
