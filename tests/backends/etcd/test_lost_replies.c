/* One transaction goes wrong: its reply is lost, it was never sent, it arrives
 * when others have been carried out. Whichever it is of a story of several
 * contenders, the story goes on, and leaves nothing behind. */
#define _GNU_SOURCE
#include "driver.h"

static const char *const names[] = {"none",   "lost", "unsent", "late",
                                    "latest", "full", "refused"};

static void ask_until_mine(struct who *who, int most_ms, const char *what)
{
    int64_t until_ms = simba_loop_now_ms() + most_ms;

    for (;;) {
        ask(who);
        if (got.mine) {
            return;
        }
        if (simba_loop_now_ms() > until_ms) {
            fail_msg("%s, transaction %d: %s is not granted; owner \"%s\", "
                     "wait %lld",
                     names[wire.fault], wire.at, what, got.owner.id,
                     (long long)got.wait_ms);
        }
        (void)handle_woken(who->at, mutex, 20);
    }
}

static void try(struct who *who)
{
    simba_request request = asking(who);

    request.join = false;
    run(who, request);
}

static void expect_gone(struct who *who)
{
    int64_t until_ms = simba_loop_now_ms() + 2500;

    do {
        told.waiter_count = 0;
        run(who, (simba_request){.kind = SIMBA_READ, .want_queue = true});
    } while (simba_loop_now_ms() < until_ms &&
             (told.waiter_count > 0 || got.owner.id[0] != '\0'));
    if (told.waiter_count > 0 || got.owner.id[0] != '\0') {
        fail_msg("%s, transaction %d: %d waiters and the owner \"%s\" are left",
                 names[wire.fault], wire.at, told.waiter_count, got.owner.id);
    }
}

/* How many transactions there were. With slots there is another owner all the
 * time. */
static int tell_story(enum fault fault, int at, uint32_t slots)
{
    struct who a = person(&first, "a"), b = person(&second, "b");
    struct who c = person(&second, "c"), d = person(&first, "d");
    struct who e = person(&first, "e"), other = person(&second, "other");
    int count;

    a.slots = b.slots = c.slots = d.slots = other.slots = slots;
    snprintf(mutex, sizeof mutex, "%s-%d-%u", names[fault], at, slots);
    expect_fault(fault == NO_FAULT ? LOST : fault,
                 fault == NO_FAULT ? 1000 : at);
    ask_until_mine(&a, 2500, "the first");
    if (slots > 0) {
        ask_until_mine(&other, 2500, "the other");
        assert_true(other.token > a.token);
    }
    ask(&b);
    assert_true(got.is_queued);
    ask(&c);
    assert_true(got.is_queued);
    leave(&c);
    renew(&a);
    if (!got.mine) {
        fail_msg("%s, transaction %d: not renewed", names[fault], at);
    }
    try(&d);
    assert_false(got.mine);
    run(&a,
        (simba_request){.kind = SIMBA_RELEASE,
                        .to = fault == LATE || fault == UNSENT ? "b" : NULL});
    ask_until_mine(&b, 2500, "the second");
    assert_true(b.token > a.token);
    release(&b);
    if (slots > 0) {
        renew(&other);
        assert_true(got.mine);
        release(&other);
    }
    count = wire.count;
    let_late_arrive();
    expect_gone(&e);
    try(&e);
    if (!got.mine) {
        fail_msg("%s, transaction %d: nobody is granted afterwards",
                 names[fault], at);
    }
    release(&e);
    return count;
}

static void tell_stories(enum fault fault)
{
    bool has_slots = fault == LOST || fault == LATE || fault == LATEST;

    for (uint32_t slots = 0; slots <= (has_slots ? 2 : 0); slots += 2) {
        int count = tell_story(NO_FAULT, (int)fault, slots);

        assert_in_range(count, 8, 40);
        for (int at = 1; at <= count; at++) {
            tell_story(fault, at, slots);
        }
    }
}

#define STORIES(name, fault)                                                   \
    TEST_AROUND(name, open_handles, close_handles)                             \
    {                                                                          \
        tell_stories(fault);                                                   \
    }

STORIES(test_etcd__goes_on_when_a_reply_is_lost, LOST)
STORIES(test_etcd__goes_on_when_a_transaction_is_not_sent, UNSENT)
STORIES(test_etcd__goes_on_when_a_transaction_is_late, LATE)
STORIES(test_etcd__goes_on_when_a_transaction_is_latest, LATEST)
STORIES(test_etcd__goes_on_when_the_quota_is_full_and_it_was_done, FULL)
STORIES(test_etcd__goes_on_when_the_quota_is_full_and_it_was_not, REFUSED)

TEST_AROUND(test_etcd__goes_on_when_there_was_no_memory,
            open_handles,
            close_handles)
{
    for (uint32_t slots = 0; slots <= 2; slots += 2) {
        int count;

        wanted = refused_at = 0;
        tell_story(NO_FAULT, 100, slots);
        count = wanted;
        assert_in_range(count, 8, 40);
        for (int at = 1; at <= count; at++) {
            wanted = 0;
            refused_at = at;
            tell_story(NO_FAULT, 100 + at, slots);
        }
    }
}

/* S8: the handle lives on, and would keep the mutex for nobody. */
TEST_AROUND(test_etcd__a_try_that_was_refused_is_not_granted_late,
            open_handles,
            close_handles)
{
    struct who a = person(&first, "a"), b = person(&second, "b");
    simba_request request = asking(&b);

    ask(&a);
    assert_true(got.mine);
    request.join = false;
    expect_fault(LATEST, 1);
    assert_int_equal(try_run(&b, request), SIMBA_EUNKNOWN);
    try(&b);
    assert_false(got.mine);
    run(&b, (simba_request){.kind = SIMBA_RELEASE, .tombstone_ms = LEASE});
    release(&a);
    let_late_arrive();
    run(&b, (simba_request){.kind = SIMBA_READ});
    assert_string_equal(got.owner.id, "");
}

/* The keys of "a/q" would be in a queue of "a". */
TEST(test_etcd__a_namespace_has_no_slash)
{
    static const char *const refused[] = {"//h/a/b", "//h/a//b", "//h/a%2fb"};
    static const char *const taken[] = {"//h", "//h/", "//h/a", "//h/a/"};
    simba__etcd_settings settings;

    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_equal(simba__etcd_settings_init(&settings, refused[i], &why),
                         SIMBA_EINVAL);
        assert_non_null(strstr(why.message, "no slash"));
        simba__servers_fini(&settings.servers);
    }
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        assert_int_equal(simba__etcd_settings_init(&settings, taken[i], &why),
                         SIMBA_OK);
        assert_string_equal(settings.prefix, i < 2 ? "simba/" : "a/");
        simba__servers_fini(&settings.servers);
    }
}

/* S5, break: no renewal is accepted any more, in whatever words. */
TEST_AROUND(test_etcd__a_broken_tenure_is_not_acquired_again,
            open_handles,
            close_handles)
{
    struct who a = person(&first, "a"), b = person(&second, "b");

    ask(&a);
    assert_true(got.mine);
    run(&b, (simba_request){.kind = SIMBA_BREAK, .token = a.token});
    assert_true(got.mine);
    ask(&a);
    assert_false(got.mine);
}

/* Of several owners any; and who waits is woken by that. */
TEST_AROUND(test_etcd__any_of_several_owners_is_broken,
            open_handles,
            close_handles)
{
    struct who a = person(&first, "a"), b = person(&second, "b");
    struct who c = person(&first, "c"), d = person(&second, "d");

    a.slots = 3;
    b.slots = c.slots = 2;
    ask(&a);
    ask(&b);
    assert_true(got.mine && got.owned == 2 && got.slots == 2);
    ask(&c);
    assert_true(got.is_queued);
    told.owner_count = 0;
    run(&d, (simba_request){.kind = SIMBA_READ, .want_queue = true});
    assert_int_equal(told.owner_count, 2);
    assert_string_equal(told.owners[1].id, "b");
    assert_int_equal(told.owners[0].slots, 3);
    assert_true(got.owned == 2 && got.slots == 2);
    run(&d,
        (simba_request){.kind = SIMBA_BREAK, .token = b.token, .now = true});
    assert_true(got.mine);
    renew(&b);
    assert_false(got.mine);
    assert_true(handle_woken(&first, mutex, LEASE));
    ask(&c);
    assert_true(got.mine);
    run(&d, (simba_request){.kind = SIMBA_BREAK, .token = a.token});
    assert_true(got.mine);
    renew(&a);
    assert_false(got.mine);
    renew(&c);
    assert_true(got.mine);
    release(&c);
}

/* Whoever finds room, and that others are faster, comes after them: nobody
 * passes it in the queue. */
TEST_AROUND(test_etcd__who_is_passed_again_and_again_joins_the_queue,
            open_handles,
            close_handles)
{
    struct who a = person(&first, "a"), b = person(&second, "b");
    int status;

    a.slots = b.slots = 2;
    ask(&a);
    assert_true(got.mine);
    churn.is_on = true;
    status = try_run(&b, asking(&b));
    churn.is_on = false;
    assert_int_equal(status, SIMBA_OK);
    assert_true(got.mine);
    b.token = got.token;
    release(&b);
    release(&a);
}

/* A fault is told while the next one is being set. */
TEST_AROUND(test_driver__a_fault_is_over_before_the_next,
            open_handles,
            close_handles)
{
    struct who a = person(&first, "a");

    for (int i = 0; i < 20; i++) {
        simba_request request = asking(&a);

        fill_request(&a, &request);
        expect_fault(UNSENT, 1);
        handle_start(&first, &request);
        expect_fault(UNSENT, 1000);
        (void)handle_join(&first, &request, &why);
        release(&a);
        a = person(&first, "a");
    }
}

static bool is_watching(struct handle *handle)
{
    bool is_watching;

    simba_loop_enter(handle->loop);
    is_watching = SIMBA__ETCD(handle->backend)->is_watching;
    simba_loop_leave(handle->loop);
    return is_watching;
}

/* A server that confirms no watch is left when somebody has waited in vain. */
TEST_AROUND(test_etcd__goes_on_when_a_watch_is_not_confirmed,
            open_handles,
            close_handles)
{
    struct who a = person(&first, "a"), b = person(&second, "b");
    int64_t since_ms;

    ask(&a);
    run(&b, (simba_request){.kind = SIMBA_READ});
    simba_loop_enter(second.loop);
    SIMBA__ETCD(second.backend)->is_watching = false; /* none is sent */
    simba_loop_leave(second.loop);
    ask(&b);
    assert_true(got.is_queued);
    since_ms = simba_loop_now_ms();
    await(is_watching(&second)); /* on another connection */
    assert_true(simba_loop_now_ms() - since_ms < 5000);
    release(&a);
    ask_until_mine(&b, 2500, "who waits");
    release(&b);
}

/* S10: each of them costs an offer, and no wake-up but the store's own is
 * needed. */
TEST_AROUND(test_etcd__silent_waiters_in_a_row_are_passed_over,
            open_handles,
            close_handles)
{
    struct who a = person(&first, "a"), b = person(&second, "b");
    struct who c = person(&second, "c"), d = person(&second, "d");
    struct who e = person(&first, "e");
    int64_t since_ms;

    ask(&a);
    ask(&b);
    ask(&c);
    ask(&d);
    ask(&e);
    assert_true(got.is_queued && !got.is_head);
    since_ms = simba_loop_now_ms();
    release(&a);
    do {
        if (!handle_woken(&first, mutex, LEASE)) {
            fail_msg("%s", "nobody is woken");
        }
        ask(&e);
    } while (!got.mine);
    assert_in_range(simba_loop_now_ms() - since_ms, 3 * OFFER_MS, LEASE);
    release(&e);
}

/* Whoever is named is woken, also one that does not watch the owner; and those
 * behind it do not take themselves for the first. */
TEST_AROUND(test_etcd__successor_is_woken_wherever_it_stands,
            open_handles,
            close_handles)
{
    static const char *const ids[] = {"0", "1", "2", "3", "4",
                                      "5", "6", "7", "8", "9"};
    struct who a = person(&first, "a"), waits[10];
    int64_t since_ms;

    ask(&a);
    for (int i = 0; i < 10; i++) {
        waits[i] = person(i < 8 ? &first : &second, ids[i]);
        ask(&waits[i]);
        assert_true(got.is_queued);
    }
    (void)handle_woken(&second, mutex, 0);
    since_ms = simba_loop_now_ms();
    run(&a, (simba_request){.kind = SIMBA_RELEASE, .to = "8"});
    assert_string_equal(got.to, "8");
    assert_true(handle_woken(&second, mutex, LEASE));
    ask(&waits[8]);
    assert_true(got.mine || simba_loop_now_ms() - since_ms > OFFER_MS);
    assert_true(
        handle_woken(&second, mutex, LEASE)); /* it went from before 9 */
    ask(&waits[9]);
    assert_true(got.is_queued && !got.is_head);
    release(&waits[8]);
    ask(&waits[9]);
    assert_false(got.mine);
    ask_until_mine(&waits[0], 2500, "the first");
    release(&waits[0]);
}

/* S11: who came last before us has left, and another waits still. */
TEST_AROUND(test_etcd__who_comes_after_one_that_left_is_not_the_first,
            open_handles,
            close_handles)
{
    struct who a = person(&first, "a"), b = person(&second, "b");
    struct who c = person(&second, "c"), d = person(&first, "d");

    ask(&a);
    ask(&b);
    ask(&c);
    leave(&c);
    ask(&d);
    assert_true(got.is_queued && !got.is_head);
    release(&a);
    ask(&d);
    assert_false(got.mine);
    ask(&b);
    assert_true(got.mine);
}
