/* Between processes: who is told, by what, and when. */
#define _GNU_SOURCE
#include "backends/sqlite/sqlite.h"
#include "other_process.h"

#include <sys/inotify.h>
#include <sys/syscall.h>

/* --- wake-ups ------------------------------------------------------------ */

SQLITE_TEST(test_sqlite_notify__owner_alone_sets_up_no_watch)
{
    struct who alice = person(&first, "alice");
    char command[128];

    must_open(&first, "");
    ask(&alice);
    renew(&alice);
    release(&alice);
    snprintf(command, sizeof command, "ls -l /proc/%d/fd | grep -q inotify",
             (int)getpid());
    assert_int_not_equal(system(command), 0);
    assert_int_equal(count_files(""), 1);
}

SQLITE_TEST(test_sqlite_notify__wake_names_the_mutex)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");
    struct who zoe = person(&first, "zoe"), yan = person(&second, "yan");
    simba_request other = asking(&bob);

    other.mutex = "other";
    must_open(&first, "");
    must_open(&second, "");
    ask(&alice);
    ask(&bob);
    run(&zoe, other);
    run(&yan, other);
    assert_true(got.is_queued);
    release(&alice);
    assert_true(handle_woken(&second, MUTEX, PATIENCE_MS));
    assert_false(handle_woken(&second, "other", 50));
    assert_int_equal(handle_wakes(&second), 1);
}

SQLITE_TEST(test_sqlite_notify__many_wake_ups_do_not_fill_the_disk)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");
    char command[192];

    must_open(&first, "?synchronous=normal");
    must_open(&second, "?synchronous=normal");
    for (int i = 0; i < 3000; i++) {
        ask(&alice);
        ask(&bob);
        release(&alice);
        if (!handle_woken(&second, MUTEX, 1000)) {
            fail_msg("wake-up %d was lost", i);
        }
        ask(&bob);
        expect_mine(&bob);
        release(&bob);
        alice = person(&first, "alice");
        bob = person(&second, "bob");
    }
    snprintf(command, sizeof command,
             "test $(cat '%s'-simba.d/*.bell | wc -c)"
             " -lt 33000",
             database);
    assert_int_equal(system(command), 0);
}

/* Stands before the C library's: no descriptor is to be had. */
static _Atomic bool is_inotify_used_up;

int inotify_init1(int flags)
{
    if (is_inotify_used_up) {
        errno = EMFILE;
        return -1;
    }
    return (int)syscall(SYS_inotify_init1, flags);
}

SQLITE_TEST(test_sqlite_notify__without_inotify_there_are_still_wakes)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");

    must_open(&first, "");
    must_open(&second, "");
    ask(&alice);
    is_inotify_used_up = true;
    ask(&bob);
    expect_queued(true);
    assert_true(handle_woken(&second, MUTEX, PATIENCE_MS));
    assert_true(
        handle_woken(&second, MUTEX, PATIENCE_MS)); /* again and again */
    release(&alice);
    assert_true(handle_woken(&second, MUTEX, OFFER_MS));
    is_inotify_used_up = false;
    ask(&bob);
    expect_mine(&bob);
    while (handle_woken(&second, MUTEX, 500)) { /* and no more */
    }
}

/* The watch is set up with the next asking. */
SQLITE_TEST(test_sqlite_notify__listens_as_soon_as_it_can)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");

    must_open(&first, "");
    must_open(&second, "");
    ask(&alice);
    is_inotify_used_up = true;
    ask(&bob);
    is_inotify_used_up = false;
    assert_true(handle_woken(&second, MUTEX, PATIENCE_MS));
    ask(&bob);
    while (handle_woken(&second, MUTEX, 500)) { /* the last made-up ones */
    }
    release(&alice);
    assert_true(handle_woken(&second, MUTEX, OFFER_MS));
}

SQLITE_TEST(test_sqlite_notify__processes_are_served_in_order)
{
    struct who alice = person(&first, "alice");
    struct child waiters[6];

    must_open(&first, "");
    ask(&alice);
    for (int i = 0; i < 6; i++) {
        waiters[i] = start("wait", "", "waiter");
        hear(&waiters[i], "queued");
    }
    release(&alice);
    for (int i = 0; i < 6; i++) {
        hear(&waiters[i], "owner");
    }
    for (int i = 0; i < 6; i++) {
        finish(&waiters[i], 0);
    }
    ask(&alice);
    expect_mine(&alice);
    assert_true(sql("SELECT version FROM simba_mutex") >= 15);
}

int main(int argc, char **argv)
{
    int rc = play(argc, argv);

    return rc >= 0 ? rc : run_unit_tests(NULL, NULL);
}
