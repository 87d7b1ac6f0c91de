/* Several owners of one mutex, and handing over on purpose; on a store that
 * offers neither: that it says so. */
#include "fixtures/api_harness.h"
#include "fixtures/process_resources.h"

#include <simba/admin.h>
#include <simba/sys/probe.h>

#include <string.h>

static bool can(const simba_store *store, uint32_t capability)
{
    return (simba_store_capabilities(store) & capability) != 0;
}

static simba_locker *open_locker(simba_store *store,
                                 const char *mutex,
                                 uint32_t slots)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;

    options.mutex = mutex;
    options.slots = slots;
    return must_open_locker(store, &options);
}

static simba_service *start_service(simba_store *store,
                                    const char *mutex,
                                    const char *id)
{
    simba_contender contender = SIMBA_CONTENDER_INIT;
    simba_service *service;

    contender.mutex = mutex;
    contender.id = id;
    service = must_open_service(store, &contender);
    assert_int_equal(simba_service_start(service, NULL), SIMBA_OK);
    await(simba_service_status(service) == SIMBA_RUNNING);
    return service;
}

TEST(test_slots__are_refused_where_they_are_not_offered)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_hand_over wish = SIMBA_HAND_OVER_INIT;
    simba_request request = SIMBA_REQUEST_INIT;
    simba_store *store = open_store();
    simba_locker *locker = NULL;
    simba_error error;

    options.mutex = wish.mutex = fresh_mutex();
    options.slots = 2;
    if (!can(store, SIMBA_CAN_SLOTS)) {
        assert_int_equal(simba_locker_open(store, &options, &locker, &error),
                         SIMBA_EINVAL);
        assert_non_null(strstr(error.message, "slots are not offered"));
    }
    options.slots = 1; /* is one owner */
    assert_int_equal(simba_locker_open(store, &options, &locker, &error),
                     SIMBA_OK);
    simba_locker_close(locker);
    if (!can(store, SIMBA_CAN_HAND_OVER)) {
        assert_int_equal(simba_admin_hand_over(store, &wish, NULL, &error),
                         SIMBA_EINVAL);
        assert_non_null(strstr(error.message, "not offered"));
        request.kind = SIMBA_HAND_OVER;
        request.mutex = wish.mutex;
        request.id = "me";
        assert_int_equal(simba_probe(store, &request, &error), SIMBA_EINVAL);
        request.kind = SIMBA_RELEASE;
        request.to = "you";
        assert_int_equal(simba_probe(store, &request, &error), SIMBA_EINVAL);
    }
    simba_store_close(store);
}

TEST(test_slots__so_many_own_it_and_no_more)
{
    enum { SLOTS = 3 };
    simba_store *stores[SLOTS + 1];
    simba_locker *lockers[SLOTS + 1];
    const char *mutex = fresh_mutex();
    uint64_t token, last = 0;

    stores[0] = open_store();
    if (!can(stores[0], SIMBA_CAN_SLOTS)) {
        simba_store_close(stores[0]);
        skip();
    }
    for (int i = 0; i <= SLOTS; i++) {
        stores[i] = i == 0 ? stores[0] : open_store();
        lockers[i] = open_locker(stores[i], mutex, SLOTS);
    }
    for (int i = 0; i < SLOTS; i++) {
        assert_int_equal(simba_locker_acquire(lockers[i], 0, &token, NULL),
                         SIMBA_OK);
        assert_true(token > last);
        assert_int_equal(simba_locker_slot(lockers[i]), i);
        last = token;
    }
    assert_int_equal(simba_locker_acquire(lockers[SLOTS], 0, NULL, NULL),
                     SIMBA_EBUSY);
    assert_int_equal(simba_locker_release(lockers[1], NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire(lockers[SLOTS], 0, NULL, NULL),
                     SIMBA_OK);
    assert_int_equal(simba_locker_slot(lockers[SLOTS]), 1);
    for (int i = 0; i <= SLOTS; i++) {
        assert_int_equal(simba_locker_is_owner(lockers[i]), i != 1);
        simba_locker_close(lockers[i]);
        simba_store_close(stores[i]);
    }
}

TEST(test_slots__report_tells_all_owners)
{
    simba_store *store = open_store();
    const char *mutex = fresh_mutex();
    simba_hand_over wish = SIMBA_HAND_OVER_INIT;
    simba_locker *lockers[2];
    simba_report *report;
    simba_asked asked = SIMBA_ASKED_INIT;
    uint64_t tokens[2];

    if (!can(store, SIMBA_CAN_SLOTS)) {
        simba_store_close(store);
        skip();
    }
    assert_int_equal(simba_admin_show(store, mutex, &report, NULL), SIMBA_OK);
    assert_int_equal(simba_report_owner_count(report), 0);
    assert_null(simba_report_owner_at(report, 0));
    simba_report_close(report);
    for (int i = 0; i < 2; i++) {
        lockers[i] = open_locker(store, mutex, SIMBA_SHARED);
        assert_int_equal(simba_locker_acquire(lockers[i], 0, &tokens[i], NULL),
                         SIMBA_OK);
    }
    assert_int_equal(simba_admin_show(store, mutex, &report, NULL), SIMBA_OK);
    assert_int_equal(simba_report_owner_count(report), 2);
    for (size_t i = 0; i < 2; i++) {
        const simba_owner *owner = simba_report_owner_at(report, i);

        assert_int_equal(owner->token, tokens[i]);
        assert_int_equal(owner->slot, i);
        assert_int_equal(owner->slots, SIMBA_SHARED);
    }
    assert_int_equal(simba_report_owner(report)->token, tokens[0]);
    simba_report_close(report);
    /* Who was meant is told, not the oldest. */
    wish.mutex = mutex;
    wish.token = tokens[1];
    assert_int_equal(simba_admin_hand_over(store, &wish, &asked, NULL),
                     SIMBA_EINVAL); /* nobody waits */
    assert_int_equal(asked.owner.token, tokens[1]);
    simba_locker_close(lockers[0]);
    simba_locker_close(lockers[1]);
    simba_store_close(store);
}

TEST(test_slots__who_shares_keeps_out_who_does_not)
{
    simba_store *store = open_store();
    const char *mutex = fresh_mutex();
    simba_locker *reader, *other, *writer;

    if (!can(store, SIMBA_CAN_SLOTS)) {
        simba_store_close(store);
        skip();
    }
    reader = open_locker(store, mutex, SIMBA_SHARED);
    other = open_locker(store, mutex, SIMBA_SHARED);
    writer = open_locker(store, mutex, 0);
    assert_int_equal(simba_locker_acquire(reader, 0, NULL, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire(other, 0, NULL, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire(writer, 0, NULL, NULL), SIMBA_EBUSY);
    simba_locker_close(reader);
    assert_int_equal(simba_locker_acquire(writer, 0, NULL, NULL), SIMBA_EBUSY);
    assert_int_equal(simba_locker_release(other, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire(writer, 0, NULL, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire(other, 0, NULL, NULL), SIMBA_EBUSY);
    simba_locker_close(writer);
    simba_locker_close(other);
    simba_store_close(store);
}

TEST(test_slots__hands_over_to_the_one_that_is_named)
{
    simba_store *stores[3];
    simba_service *services[3];
    simba_hand_over wish = SIMBA_HAND_OVER_INIT;
    simba_asked asked = SIMBA_ASKED_INIT;
    simba_error error;
    int64_t start;

    wish.mutex = fresh_mutex();
    stores[0] = open_store();
    if (!can(stores[0], SIMBA_CAN_HAND_OVER)) {
        simba_store_close(stores[0]);
        skip();
    }
    assert_int_equal(simba_admin_hand_over(stores[0], &wish, NULL, &error),
                     SIMBA_ELOST);
    services[0] = start_service(stores[0], wish.mutex, "a");
    await(simba_service_is_owner(services[0]));
    assert_int_equal(simba_admin_hand_over(stores[0], &wish, NULL, &error),
                     SIMBA_EINVAL);
    assert_non_null(strstr(error.message, "nobody waits"));
    stores[1] = open_store();
    stores[2] = open_store();
    services[1] = start_service(stores[1], wish.mutex, "b");
    services[2] = start_service(stores[2], wish.mutex, "c");
    wish.to = "nobody";
    assert_int_equal(simba_admin_hand_over(stores[0], &wish, NULL, &error),
                     SIMBA_EINVAL);
    assert_non_null(strstr(error.message, "'nobody' does not wait"));
    assert_true(simba_service_is_owner(services[0]));

    /* The owner does it by itself; b is first in the queue, and passed. */
    assert_int_equal(simba_service_hand_over(services[1], NULL, &error),
                     SIMBA_ELOST);
    assert_int_equal(simba_service_hand_over(services[0], "c", &error),
                     SIMBA_OK);
    await(simba_service_is_owner(services[2]));

    wish.to = "a"; /* an admin asks; the owner is woken */
    start = now_ms();
    await(simba_admin_hand_over(stores[1], &wish, &asked, &error) == SIMBA_OK);
    assert_string_equal(asked.to, "a");
    assert_string_equal(asked.owner.id, "c");
    await(simba_service_is_owner(services[0]));
    assert_true(now_ms() - start < 5000); /* a renewal is due after 6.7 s */
    wish.to = NULL;
    assert_int_equal(simba_admin_hand_over(stores[1], &wish, &asked, &error),
                     SIMBA_OK);
    assert_string_equal(asked.to, "b");
    await(simba_service_is_owner(services[1]));
    for (int i = 0; i < 3; i++) {
        simba_service_close(services[i]);
        simba_store_close(stores[i]);
    }
}

/* Who is named must fit in beside those who stay; else nobody is asked. */
TEST(test_slots__successor_that_does_not_fit_is_refused)
{
    simba_hand_over wish = SIMBA_HAND_OVER_INIT;
    simba_store *store = open_store();
    simba_locker *sharers[2];
    simba_service *writer;
    simba_error error;

    if (!can(store, SIMBA_CAN_HAND_OVER) || !can(store, SIMBA_NUMBERS_SLOTS)) {
        simba_store_close(store);
        skip();
    }
    wish.mutex = fresh_mutex();
    wish.to = "writer";
    for (int i = 0; i < 2; i++) {
        sharers[i] = open_locker(store, wish.mutex, SIMBA_SHARED);
        assert_int_equal(simba_locker_acquire(sharers[i], 0, NULL, NULL),
                         SIMBA_OK);
    }
    writer = start_service(store, wish.mutex, "writer");
    assert_int_equal(simba_admin_hand_over(store, &wish, NULL, &error),
                     SIMBA_EINVAL);
    assert_non_null(strstr(error.message, "no place beside the others"));
    simba_locker_close(sharers[0]);
    await(simba_admin_hand_over(store, &wish, NULL, &error) == SIMBA_OK);
    await(simba_service_is_owner(writer));
    simba_service_close(writer);
    simba_locker_close(sharers[1]);
    simba_store_close(store);
}

/* The index of who owns it next; `from` does no more. */
static int next_owner(simba_service *const services[], int count, int from)
{
    int owner = from;

    await((owner = (owner + 1) % count) != from &&
          simba_service_is_owner(services[owner]));
    return owner;
}

/* Wake-ups are passed on to the first two of a handle, and the successor may
 * stand behind them. It has 300 ms to come, which a busy machine may not give
 * it: then the first has it, as it always would without being woken. */
TEST(test_slots__successor_is_woken_behind_others_of_its_handle)
{
    enum { SERVICES = 6, NAMED = 5, ROUNDS = 3 };
    static const char *const ids[SERVICES] = {"a", "b", "c", "d", "e", "f"};
    const char *mutex = fresh_mutex();
    simba_store *stores[2] = {open_store(), open_store()};
    simba_service *services[SERVICES];
    int owner = 0;

    if (!can(stores[0], SIMBA_CAN_HAND_OVER)) {
        simba_store_close(stores[0]);
        simba_store_close(stores[1]);
        skip();
    }
    for (int i = 0; i < SERVICES; i++) {
        services[i] = start_service(stores[i > 0], mutex, ids[i]);
        await(i > 0 || simba_service_is_owner(services[0]));
    }
    for (int i = 0; i < ROUNDS && owner != NAMED; i++) {
        assert_int_equal(
            simba_service_hand_over(services[owner], ids[NAMED], NULL),
            SIMBA_OK);
        owner = next_owner(services, SERVICES, owner);
    }
    assert_int_equal(owner, NAMED);
    for (int i = 0; i < SERVICES; i++) {
        simba_service_close(services[i]);
    }
    simba_store_close(stores[0]);
    simba_store_close(stores[1]);
}

/* Nobody is kept from what is offered to one that is not there. On a busy
 * machine one round or the other takes longer than an offer by itself. */
TEST(test_slots__successor_that_does_not_wait_costs_no_offer)
{
    enum { OFFER_MS = 300, ROUNDS = 10 };
    const char *mutex = fresh_mutex();
    simba_store *stores[2] = {open_store(), open_store()};
    simba_service *services[2];
    int64_t least_ms = INT64_MAX;

    if (!can(stores[0], SIMBA_CAN_HAND_OVER)) {
        simba_store_close(stores[0]);
        simba_store_close(stores[1]);
        skip();
    }
    services[0] = start_service(stores[0], mutex, "a");
    await(simba_service_is_owner(services[0]));
    services[1] = start_service(stores[1], mutex, "b");
    for (int i = 0; i < ROUNDS && least_ms >= OFFER_MS; i++) {
        int64_t start = now_ms();

        assert_int_equal(
            simba_service_hand_over(services[i % 2], "nobody", NULL), SIMBA_OK);
        await(simba_service_is_owner(services[1 - i % 2]));
        least_ms = now_ms() - start < least_ms ? now_ms() - start : least_ms;
    }
    assert_true(least_ms < OFFER_MS);
    for (int i = 0; i < 2; i++) {
        simba_service_close(services[i]);
        simba_store_close(stores[i]);
    }
}

static uint64_t renewals_of(simba_store *store, const char *mutex)
{
    simba_metrics *metrics;
    uint64_t renewals;

    assert_int_equal(simba_metrics_read(store, &metrics, NULL), SIMBA_OK);
    renewals = simba_metrics_of(metrics, mutex)->renewals;
    simba_metrics_free(metrics);
    return renewals;
}

/* Others of its handle come and go, which wakes all of it. */
TEST(test_slots__owner_beside_a_bustle_renews_seldom)
{
    enum { BUSTLERS = 3 };
    simba_contender contender = SIMBA_CONTENDER_INIT;
    simba_store *store = open_store();
    simba_service *services[BUSTLERS];
    simba_locker *owner;
    int64_t start;

    if (!can(store, SIMBA_CAN_SLOTS)) {
        simba_store_close(store);
        skip();
    }
    contender.mutex = fresh_mutex();
    contender.slots = 2;
    contender.times.max_hold_ms = 20; /* too short to be renewed */
    owner = open_locker(store, contender.mutex, 2);
    assert_int_equal(simba_locker_acquire(owner, 0, NULL, NULL), SIMBA_OK);
    start = now_ms();
    for (int i = 0; i < BUSTLERS; i++) {
        services[i] = must_open_service(store, &contender);
        assert_int_equal(simba_service_start(services[i], NULL), SIMBA_OK);
    }
    await(now_ms() - start > 3000);
    /* After 50 ms, 100, 200, 400, and then each 800. */
    assert_in_range(renewals_of(store, contender.mutex), 0,
                    6 + (now_ms() - start) / 800);
    assert_true(simba_locker_is_owner(owner));
    for (int i = 0; i < BUSTLERS; i++) {
        simba_service_close(services[i]);
    }
    simba_locker_close(owner);
    simba_store_close(store);
}

/* Each thread that had to be woken for it would make the successor wait. */
TEST(test_slots__who_is_not_called_hands_over_without_another_thread)
{
    simba_store *store = open_store();
    simba_locker *locker;
    int before;

    if (!can(store, SIMBA_CAN_HAND_OVER)) {
        simba_store_close(store);
        skip();
    }
    locker = open_locker(store, fresh_mutex(), 0);
    assert_int_equal(simba_locker_acquire(locker, -1, NULL, NULL), SIMBA_OK);
    before = count_threads();
    assert_int_equal(simba_locker_hand_over(locker, NULL, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_release(locker, NULL), SIMBA_ELOST);
    assert_int_equal(count_threads(), before);
    simba_locker_close(locker);
    simba_store_close(store);
}
