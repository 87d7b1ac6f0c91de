/* Sharing mutexes with contenders of Simba on the JVM, whose part a test plays,
 * statement by statement: they only poll, at the end of the lease that they saw
 * and up to a second later, and know of no queue. */
#define _GNU_SOURCE
#define TTL         700
#define LEASE       1000
#define WAITER_MS   4000
#define PATIENCE_MS 20000
#define ANSWER_MS   PATIENCE_MS
#define LEAVES_ROOM true
#include "driver.h"

/* Of leases of a second; where there is but one of them, the step is longer. */
enum { STEP_MS = 2208, ALONE_MS = 2304, EARLY_MS = 200, LATE_MS = 1300 };

#define NOW "cast(unix_timestamp(current_timestamp(3)) * 1000 as unsigned)"

/* As 3.0.2 to 3.1.3 send it; 3.3 counts tokens, too. */
static bool jvm_acquire(int lease_ms)
{
    server_sql(
        "update simba_mutex set acquired_at=" NOW ", ttl_at=(" NOW
        " + %d), transition_at=(" NOW " + %d), owner_id='java', "
        "version=version + 1 where mutex like 'm/%%%d' and "
        "((transition_at < (unix_timestamp(current_timestamp(3)) * 1000))"
        " or (owner_id = 'java' and transition_at > "
        "(unix_timestamp(current_timestamp(3)) * 1000)))",
        lease_ms, lease_ms, (int)getpid());
    return server_sql("select count(*) from simba_mutex where owner_id = 'java'"
                      " and transition_at >= " NOW) == 1;
}

static void jvm_release(void)
{
    server_sql("update simba_mutex set acquired_at=0, ttl_at=0, "
               "transition_at=0, owner_id='', version=version + 1 "
               "where owner_id = 'java'");
}

static int64_t server_ms(void)
{
    return server_sql("select " NOW);
}

static int64_t lease_end_ms(void)
{
    return server_sql("select transition_at from simba_mutex "
                      "where owner_id <> ''");
}

/* How far the server's clock is beyond the last step of the grid. */
static int64_t since_step_ms(void)
{
    return server_ms() % STEP_MS;
}

static void await_step_and(int64_t after_ms)
{
    while (since_step_ms() < after_ms || since_step_ms() > after_ms + 200) {
        nap_ms(5);
    }
}

static int set_up_alone(void **state)
{
    int status = set_up(state);
    struct who a = person(&first, "a");

    look(&a);
    server_try("DELETE FROM simba_mutex");
    server_try("DELETE FROM simba_tenure");
    server_try("DELETE FROM simba_line");
    return status;
}

#undef SQL_TEST
#define SQL_TEST(test) TEST_AROUND(test, set_up_alone, tear_down)

/* One of them had it, then `a`, and `b` waits. */
static void begin(struct who *a, struct who *b)
{
    *a = person(&first, "a");
    *b = person(&second, "b");
    ask(a);
    release(a);
    assert_true(jvm_acquire(LEASE));
    *a = person(&first, "a");
    ask(a);
    expect_queued(true);
    jvm_release();
    ask(a); /* after one of them, one of ours at once */
    assert_true(got.mine);
    /* Who owns it may rely on what it asked for, no more. */
    expect_mine(a);
    ask(b);
    expect_queued(true);
}

static int64_t count_notes(void)
{
    return server_sql("SELECT count(*) FROM simba_line WHERE id = '@'");
}

static int64_t count_quiet(void)
{
    return server_sql("SELECT count(*) FROM simba_mutex "
                      "WHERE owner_id = '' AND quiet = version");
}

/* It asks again in a known second, whenever it has asked before; and then finds
 * the mutex free. */
SQL_TEST(test_sql_jvm__one_that_polls_finds_it_free)
{
    struct who a, b, c = person(&third, "c");

    begin(&a, &b);
    assert_int_equal(lease_end_ms() % STEP_MS, 0);
    assert_in_range(lease_end_ms() - got.store_ms, LEASE, LEASE + 2 * STEP_MS);
    renew(&a);
    expect_mine(&a);
    assert_int_equal(lease_end_ms() % STEP_MS, 0);
    await_step_and(LATE_MS + 50);
    renew(&a);
    expect_mine(&a);
    await_step_and(10);
    handle_woken(&second, mutex, 0);
    release(&a);
    assert_true(handle_woken(&second, mutex, PATIENCE_MS));
    ask(&b); /* and knows when to ask again */
    assert_false(got.mine);
    assert_in_range(got.wait_ms, 1, LATE_MS);
    ask(&c);
    expect_queued(false);
    assert_true(jvm_acquire(LEASE));
    jvm_release();
    ask(&b);
    expect_mine(&b);
    assert_int_equal(lease_end_ms() % STEP_MS, 0);
    /* If none of them comes, that costs a second. */
    release(&b);
    ask(&c);
    assert_false(got.mine);
    await((handle_woken(&third, mutex, 0), ask(&c), got.mine));
    assert_true(since_step_ms() >= LATE_MS);
    release(&c);
}

/* The window that it is time for, or was last. */
static int64_t window(void)
{
    return (server_ms() + EARLY_MS) / STEP_MS;
}

/* One of them has it, and one of ours after it: until when? */
static int64_t end_of_follower_ms(struct who *who)
{
    int64_t end_ms;

    assert_true(jvm_acquire(LEASE));
    jvm_release();
    *who = person(&first, "a");
    ask(who);
    assert_true(got.mine);
    end_ms = lease_end_ms();
    release(who);
    return end_ms;
}

/* Two that come in one window may meet, and then wait for three. On a busy
 * machine a window may be over before both have come. */
SQL_TEST(test_sql_jvm__each_of_two_has_windows_of_its_own)
{
    struct who a, b;
    int64_t now, end_ms, other_ms;

    begin(&a, &b);
    leave(&b);
    release(&a);
    do {
        server_sql("UPDATE simba_tenure SET called_until = 1");
        server_sql("UPDATE simba_line SET place = %d WHERE id = '@'",
                   STEP_MS | 1);
        await_step_and(LATE_MS);
        await_step_and(10);
        now = window();
        end_ms = end_of_follower_ms(&a);
        other_ms = end_of_follower_ms(&a);
    } while (window() != now || since_step_ms() > STEP_MS - LEASE);
    assert_int_equal(end_ms, (now + 2) * STEP_MS);
    assert_int_equal(other_ms, (now + 1) * STEP_MS);
    do {
        await_step_and(LATE_MS);
        await_step_and(10);
        now = window();
        end_ms = end_of_follower_ms(&a);
    } while (window() != now);
    assert_int_equal(end_ms, (now + 2) * STEP_MS);
}

/* Of whom no second comes any more, for it need not stay away that long. */
SQL_TEST(test_sql_jvm__one_alone_has_every_window)
{
    struct who a, b;
    int64_t end_ms;

    begin(&a, &b);
    leave(&b);
    release(&a);
    server_sql(
        "UPDATE simba_line SET place = place | 24, lapses_at = lapses_at "
        "- 2 * %d WHERE id = '@'",
        STEP_MS);
    server_sql("UPDATE simba_tenure SET called_until = 1");
    end_ms = end_of_follower_ms(&a);
    assert_int_equal(end_ms % ALONE_MS, 0);
    assert_in_range(end_ms - got.store_ms, LEASE, LEASE + ALONE_MS);
}

/* Nobody but ours: nothing is written that was not before. Nor ten leases after
 * one was seen. */
SQL_TEST(test_sql_jvm__none_costs_nothing)
{
    struct who a = person(&first, "a"), b;

    ask(&a);
    expect_mine(&a);
    assert_int_equal(lease_end_ms(), got.owner.transition_at_ms);
    release(&a);
    assert_int_equal(count_notes(), 0);
    assert_int_equal(count_quiet(), 1);
    begin(&a, &b);
    assert_int_equal(count_notes(), 1);
    run(&a, (simba_request){.kind = SIMBA_READ, .want_queue = true});
    leave(&b);
    release(&a);
    assert_int_equal(count_quiet(), 0);
    server_sql("UPDATE simba_line SET lapses_at = 1 WHERE id = '@'");
    server_sql("UPDATE simba_tenure SET called_until = 1");
    for (int i = 0; i < 2; i++) { /* the first still finds the row */
        a = person(&first, "a");
        ask(&a);
        expect_mine(&a);
        release(&a);
    }
    assert_int_equal(count_notes(), 0);
    assert_int_equal(count_quiet(), 1);
}

/* On a table as the JVM made it versions are tokens, and small. */
SQL_TEST(test_sql_jvm__first_tenures_of_ours_are_not_theirs)
{
    struct who a = person(&first, "a"), b = person(&second, "b");

    server_sql("DROP TABLE simba_mutex");
    server_sql(
        "CREATE TABLE simba_mutex (mutex varchar(66) NOT NULL PRIMARY "
        "KEY, acquired_at bigint unsigned NOT NULL, ttl_at bigint "
        "unsigned NOT NULL, transition_at bigint unsigned NOT NULL, "
        "owner_id varchar(128) NOT NULL, version int unsigned NOT NULL)");
    for (int i = 0; i < 2; i++) {
        ask(&a);
        expect_mine(&a);
        ask(&b);
        expect_queued(true);
        release(&a);
        ask(&b);
        expect_mine(&b);
        release(&b);
        a = person(&first, "a");
        b = person(&second, "b");
    }
    assert_int_equal(count_notes(), 0);
    assert_true(jvm_acquire(LEASE));
    ask(&a);
    expect_queued(true);
    jvm_release();
    ask(&a);
    expect_mine(&a);
    assert_int_equal(count_notes(), 1);
    release(&a);
    server_sql("DROP TABLE simba_mutex");
}

static int64_t count_selects(void)
{
    return server_sql("SELECT variable_value FROM information_schema."
                      "global_status WHERE variable_name = 'Com_select'");
}

/* It may be gone again for a moment only, and while it comes back each time
 * others of its kind find it owned. */
SQL_TEST(test_sql_jvm__one_that_has_come_is_looked_at_often)
{
    struct who a, b;
    int64_t before, since_ms;

    begin(&a, &b);
    leave(&b);
    release(&a);
    server_sql("UPDATE simba_tenure SET called_until = 1");
    assert_true(jvm_acquire(10 * LEASE));
    a = person(&first, "a");
    ask(&a);
    expect_queued(true);
    before = count_selects();
    since_ms = server_ms();
    while (server_ms() < since_ms + 1000) {
        nap_ms(100); /* and look ourselves, about ten times */
    }
    assert_true(count_selects() - before > 35);
    leave(&a);
}

/* Also while none was seen. */
SQL_TEST(test_sql_jvm__expected_by_the_url)
{
    struct who a = person(&first, "a");
    const char *given = getenv("SIMBA_SERVER_URL");
    char url[256];

    handle_close(&first);
    snprintf(url, sizeof url, "%s%cjvm=fair", given,
             strchr(given, '?') == NULL ? '?' : '&');
    assert_int_equal(try_open(&first, url), SIMBA_OK);
    ask(&a);
    assert_int_equal(count_notes(), 1);
    leave(&a);
}

static void ask_slots(struct who *who)
{
    simba_request request = asking(who);

    request.slots = 3;
    run(who, request);
}

/* Nobody joins several owners when one of them is about to ask: there would be
 * one of ours at any time. */
SQL_TEST(test_sql_jvm__several_leave_room_too)
{
    struct who a = person(&first, "a"), b = person(&second, "b");
    struct who c = person(&third, "c");

    ask(&a);
    release(&a);
    assert_true(jvm_acquire(LEASE));
    a = person(&first, "a");
    ask(&a);
    expect_queued(true);
    jvm_release();
    ask_slots(&a);
    assert_true(got.mine);
    assert_int_equal(lease_end_ms() % STEP_MS, 0);
    await_step_and(LATE_MS +
                   10); /* others may join it for a third of a second */
    ask_slots(&b);
    assert_true(got.mine);
    assert_int_equal(got.slot, 1);
    assert_false(jvm_acquire(LEASE));
    await_step_and(10);
    ask_slots(&c);
    expect_queued(true);
    release(&a);
    ask_slots(&c);
    assert_false(got.mine);
    assert_false(jvm_acquire(LEASE)); /* the last of them is still there */
    release(&b);
    ask_slots(&c);
    assert_false(got.mine);
    assert_true(jvm_acquire(LEASE));
    jvm_release();
    ask_slots(&c);
    assert_true(got.mine);
    assert_int_equal(got.owned, 1);
}
