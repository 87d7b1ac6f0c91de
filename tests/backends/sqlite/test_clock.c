/* What a reboot does to the SQLite store, and what is not one. */
#define _GNU_SOURCE
#include "driver.h"

#include <time.h>

/* Alice's handle is gone, and the machine was booted anew. */
static void reboot_over(struct who *alice)
{
    must_open(&first, "");
    ask(alice);
    handle_close(&first);
    reboot();
    sql("UPDATE simba_mutex SET ttl_at = ttl_at + 1000000000,"
        " transition_at = transition_at + 1000000000");
}

/* It is owned, and with right: the lease that was watched ended before we
 * asked. */
static bool is_over(int64_t end_ms)
{
    return got.mine && now_ms() >= end_ms;
}

SQLITE_TEST(test_sqlite_clock__reboot_frees_every_mutex)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");

    reboot_over(&alice);
    must_open(&second, "");
    look(&bob);
    assert_string_equal(got.owner.id, "");
    ask(&bob);
    expect_mine(&bob);
    assert_true(bob.token > alice.token);
}

SQLITE_TEST(test_sqlite_clock__reboot_empties_the_queue)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");
    struct who carol = person(&third, "carol");

    must_open(&first, "");
    must_open(&second, "");
    ask(&alice);
    ask(&bob);
    release(&alice); /* and it is offered to bob */
    ask(&alice);
    handle_close(&first);
    handle_close(&second);
    reboot();
    must_open(&third, "");
    ask(&carol);
    expect_mine(&carol);
    assert_int_equal(sql("SELECT count(*) FROM simba_line"), 0);
}

/* Some containers have a boot id of their own: whose process is alive on this
 * kernel is not of another boot. */
SQLITE_TEST(test_sqlite_clock__living_owner_is_of_this_boot)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");

    must_open(&first, "");
    must_open(&second, "");
    ask(&alice);
    sql("UPDATE simba_tenure SET boot = 'x'");
    ask(&bob);
    expect_queued(true);
    sql("UPDATE simba_line SET boot = 'y'");
    release(&alice);
    assert_true(handle_woken(&second, MUTEX, PATIENCE_MS));
    ask(&bob);
    expect_mine(&bob);
}

SQLITE_TEST(test_sqlite_clock__shared_file_is_watched_for_a_lease)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");
    int64_t wait_ms, asked_ms;

    alice.ttl_ms = 200;
    alice.transition_ms = 200;
    reboot_over(&alice);
    must_open(&second, "?fs=trust");
    nap_ms(450); /* seen is what counts, not what has passed */
    ask(&bob);
    expect_queued(true);
    wait_ms = got.wait_ms;
    assert_in_range(wait_ms, 400, 419);
    nap_ms(100);
    sql("UPDATE simba_mutex SET version = version + 1"); /* it was renewed */
    asked_ms = now_ms();
    ask(&bob);
    assert_in_range(got.wait_ms, 400, 419);
    nap_ms(200);
    ask(&bob);
    if (!is_over(asked_ms + 400)) { /* a busy machine may be late */
        expect_queued(true);
        assert_in_range(got.wait_ms, 1, 219);
        nap_ms(got.wait_ms + 2);
        ask(&bob);
    }
    expect_mine(&bob);
    renew(&bob);
    expect_mine(&bob);
}

/* The directory beside the database, as a cleaner leaves it. */
static void empty_directory(void)
{
    char command[192];

    snprintf(command, sizeof command, "rm -f '%s'-simba.d/*", database);
    assert_int_equal(system(command), 0);
}

/* A container has a boot id of its own, and somebody emptied the directory: the
 * missing file of its owner proves nothing. */
SQLITE_TEST(test_sqlite_clock__missing_file_of_another_boot_is_no_death)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");

    must_open(&first, "");
    must_open(&second, "");
    ask(&alice);
    sql("UPDATE simba_tenure SET boot = 'x'");
    empty_directory();
    look(&bob);
    assert_string_equal(got.owner.id, "alice");
    ask(&bob);
    expect_queued(true);
    renew(&alice); /* which makes its file anew */
    expect_mine(&alice);
    release(&alice);
    ask(&bob);
    expect_mine(&bob);
}

/* If nobody is heard of it for its lease, it is over; whoever of this boot
 * looks counts on from who has looked before. */
SQLITE_TEST(test_sqlite_clock__processes_share_what_they_saw)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");
    struct who carol = person(&third, "carol");
    int64_t began_ms, left_ms;

    alice.ttl_ms = alice.transition_ms = 1000;
    must_open(&first, "");
    ask(&alice);
    handle_close(&first);
    empty_directory();
    sql("UPDATE simba_tenure SET boot = 'x'");
    must_open(&second, "");
    began_ms = now_ms();
    ask(&bob);
    expect_queued(true);
    leave(&bob);
    handle_close(&second);
    nap_ms(500);
    must_open(&third, "");
    ask(&carol);
    if (!is_over(began_ms + 2000)) { /* a busy machine may be late */
        expect_queued(true);
        left_ms = began_ms + 2000 + 42 + 10 - now_ms();
        assert_in_range(got.wait_ms, left_ms > 1 ? left_ms - 1 : 0, 1600);
    }
    await((ask(&carol), got.mine));
    assert_true(now_ms() - began_ms >= 2000);
    assert_int_equal(sql("SELECT count(*) FROM simba_sighting"), 0);
}

/* Of several owners, too, one of another boot without a file is over after its
 * lease, whatever the clock of that boot had come to. */
SQLITE_TEST(test_sqlite_clock__slot_of_another_boot_ends_with_its_lease)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");

    alice.ttl_ms = alice.transition_ms = 200;
    must_open(&first, "");
    ask_slot(&alice, 2);
    handle_close(&first);
    empty_directory();
    sql("UPDATE simba_tenure SET boot = 'x';"
        "UPDATE simba_slot SET boot = 'x', ttl_at = ttl_at + 1000000000,"
        " transition_at = transition_at + 1000000000;"
        "UPDATE simba_mutex SET ttl_at = ttl_at + 1000000000,"
        " transition_at = transition_at + 1000000000");
    must_open(&second, "");
    ask(&bob);
    expect_queued(true);
    assert_in_range(got.wait_ms, 400, 419);
    nap_ms(got.wait_ms + 2);
    ask(&bob);
    expect_mine(&bob);
}

/* On a shared file several owners are watched as one is: there a lock that is
 * not to be seen may be another machine's. */
SQLITE_TEST(test_sqlite_clock__several_in_a_shared_file_are_watched)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");

    must_open(&first, "");
    ask_slot(&alice, 2);
    handle_close(&first);
    reboot();
    sql("UPDATE simba_slot SET boot = 'x', process = '" DEAD "'");
    must_open(&second, "?fs=trust");
    ask(&bob);
    expect_queued(true);
    assert_string_equal(got.owner.id, SIMBA__CROWD_ID);
}
