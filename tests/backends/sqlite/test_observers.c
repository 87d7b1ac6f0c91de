/* Observers: told of every change of owner, at no cost when there
 * are none; and what a read tells of the tenure before. */
#define _GNU_SOURCE
#include "backends/sqlite/sqlite.h"
#include "driver.h"

#include <errno.h>
#include <sys/inotify.h>
#include <sys/syscall.h>

/* As bare_runtime.c notes what is for observers only. */
#define CHANGED "\t" MUTEX

enum { SOON_MS = 5000, QUIET_MS = 50 };

static void want(struct handle *handle, enum simba_subscription subscription)
{
    simba_loop_enter(handle->loop);
    simba__sqlite_ops.subscription(handle->backend, MUTEX, subscription);
    simba_loop_leave(handle->loop);
}

/* As a retrieval does: it says so, and then it looks. */
static void observe(struct who *who)
{
    want(who->at, SIMBA_SUBSCRIBE_OBSERVE);
    look(who);
}

SQLITE_TEST(test_sqlite_observers__every_change_of_owner_wakes)
{
    struct who alice = person(&first, "alice"), eve = person(&second, "eve");

    must_open(&first, "");
    must_open(&second, "");
    observe(&eve);
    for (int i = 0; i < 3; i++) {
        ask(&alice);
        assert_true(handle_woken(&second, CHANGED, SOON_MS));
        look(&eve);
        assert_string_equal(got.owner.id, "alice");
        renew(&alice);
        assert_false(handle_woken(&second, CHANGED, QUIET_MS));
        release(&alice);
        assert_true(handle_woken(&second, CHANGED, SOON_MS));
        alice = person(&first, "alice");
    }
    assert_false(handle_woken(&second, MUTEX, 0)); /* no waiter asks */
}

/* What is told is what a read would answer. */
SQLITE_TEST(test_sqlite_observers__change_is_told_in_full)
{
    struct who alice = person(&first, "a li ce"), eve = person(&second, "eve");
    simba_owner seen;

    must_open(&first, "");
    must_open(&second, "");
    observe(&eve);
    ask(&alice);
    assert_true(handle_woken(&second, CHANGED, SOON_MS));
    assert_int_equal(handle_observed(&second, &seen), 0);
    look(&eve);
    assert_string_equal(seen.id, "a li ce");
    assert_int_equal(seen.token, got.owner.token);
    assert_int_equal(seen.acquired_at_ms, got.owner.acquired_at_ms);
    assert_int_equal(seen.ttl_at_ms, got.owner.ttl_at_ms);
    assert_int_equal(seen.transition_at_ms, got.owner.transition_at_ms);
    release(&alice);
    assert_true(handle_woken(&second, CHANGED, SOON_MS));
    assert_int_equal(handle_observed(&second, &seen), alice.token);
    assert_string_equal(seen.id, "");
    assert_int_equal(seen.token, 0);
}

static void write_to_wake_files(const char *text)
{
    char command[256];

    snprintf(command, sizeof command,
             "for b in '%s'-simba.d/*.bell; do printf '%s' >>$b; done",
             database, text);
    assert_int_equal(system(command), 0);
}

/* S7: whatever is written to a wake-up file is a wake-up at most. */
SQLITE_TEST(test_sqlite_observers__nonsense_is_a_wake_up)
{
    struct who eve = person(&first, "eve");
    simba_owner seen;

    must_open(&first, "");
    observe(&eve);
    write_to_wake_files("\\tx\\t1\\t2\\n");
    assert_true(handle_woken(&first, "\tx", SOON_MS));
    write_to_wake_files("\\ty\\n\\t\\t\\t\\n");
    assert_true(handle_woken(&first, "\ty", SOON_MS));
    handle_observed(&first, &seen);
    assert_int_equal(seen.token, 0);
    write_to_wake_files("\\tz\\t1\\t2\\t3\\t4\\t5\\tbob\\n");
    assert_true(handle_woken(&first, "\tz", SOON_MS));
    assert_int_equal(handle_observed(&first, &seen), 1);
    assert_string_equal(seen.id, "bob");
    assert_int_equal(seen.token, 2);
}

SQLITE_TEST(test_sqlite_observers__one_wakes_oneself)
{
    struct who alice = person(&first, "alice"), eve = person(&first, "eve");

    must_open(&first, "");
    observe(&eve);
    ask(&alice);
    assert_true(handle_woken(&first, CHANGED, SOON_MS));
}

SQLITE_TEST(test_sqlite_observers__only_observers_are_told)
{
    struct who alice = person(&first, "alice"), eve = person(&second, "eve");
    struct who zoe = person(&third, "zoe");

    must_open(&first, "");
    must_open(&second, "");
    must_open(&third, "");
    ask(&alice);
    assert_int_equal(count_files("eyes"), 0);
    observe(&eve);
    look(&zoe); /* looks, but does not watch */
    assert_int_equal(count_files("eyes"), 1);
    release(&alice);
    assert_true(handle_woken(&second, CHANGED, SOON_MS));
    assert_false(handle_woken(&third, CHANGED, QUIET_MS));
    assert_int_equal(handle_wakes(&first), 0);
}

SQLITE_TEST(test_sqlite_observers__closes_with_the_subscription)
{
    struct who eve = person(&first, "eve");
    int files;

    must_open(&first, "");
    must_open(&second, "");
    files = count_files("");
    observe(&eve);
    want(&first, SIMBA_SUBSCRIBE_WAIT);
    look(&eve);
    assert_int_equal(count_files("eyes"), 0);
    observe(&eve);
    assert_int_equal(count_files("eyes"), 1);
    handle_close(&first); /* and with the handle */
    assert_int_equal(count_files(""), files - 1);
}

SQLITE_TEST(test_sqlite_observers__of_the_dead_is_taken_away)
{
    struct who alice = person(&first, "alice"), eve = person(&second, "eve");
    struct simba__sqlite *store;

    must_open(&first, "");
    must_open(&second, "");
    observe(&eve);
    store = (struct simba__sqlite *)second.backend;
    simba__sqlite_watch_forked(store); /* what the kernel does */
    simba__sqlite_life_forked(store);
    assert_int_equal(count_files("eyes"), 1);
    ask(&alice);
    assert_int_equal(count_files("eyes"), 0);
}

SQLITE_TEST(test_sqlite_observers__opens_again_after_a_clean_up)
{
    struct who alice = person(&first, "alice"), eve = person(&second, "eve");
    char command[192];

    must_open(&first, "");
    must_open(&second, "");
    observe(&eve);
    snprintf(command, sizeof command, "rm -rf '%s-simba.d'", database);
    assert_int_equal(system(command), 0);
    look(&eve); /* by its poll */
    ask(&alice);
    assert_true(handle_woken(&second, CHANGED, SOON_MS));
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

SQLITE_TEST(test_sqlite_observers__without_inotify_one_looks_often)
{
    struct who alice = person(&first, "alice"), eve = person(&second, "eve");

    must_open(&first, "");
    must_open(&second, "");
    is_inotify_used_up = true;
    observe(&eve);
    for (int i = 0; i < 3; i++) {
        assert_true(handle_woken(&second, CHANGED, SOON_MS));
        look(&eve);
    }
    is_inotify_used_up = false;
    look(&eve);                                   /* makes a wake-up file */
    while (handle_woken(&second, CHANGED, 500)) { /* no more of those */
    }
    ask(&alice);
    assert_true(handle_woken(&second, CHANGED, SOON_MS));
}

/* --- the tenure before --------------------------------------------------- */

SQLITE_TEST(test_sqlite_observers__read_tells_which_tenure_ended_last)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");
    struct who eve = person(&second, "eve");

    must_open(&first, "");
    must_open(&second, "");
    look(&eve);
    assert_int_equal(got.ended, 0); /* none ever was */
    ask(&alice);
    look(&eve);
    assert_int_equal(got.ended, 0);
    release(&alice);
    look(&eve);
    assert_int_equal(got.ended, alice.token);
    ask(&bob);
    look(&eve);
    assert_int_equal(got.owner.token, bob.token);
    assert_int_equal(got.ended, alice.token);
    bob.ttl_ms *= 2; /* which writes the tenure anew */
    renew(&bob);
    look(&eve);
    assert_int_equal(got.ended, alice.token);
}

SQLITE_TEST(test_sqlite_observers__lapsed_tenure_has_ended)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");

    must_open(&first, "");
    alice.ttl_ms = 100;
    alice.transition_ms = 0;
    ask(&alice);
    do {
        look(&bob);
    } while (got.owner.id[0] != '\0');
    assert_int_equal(got.ended, alice.token);
    ask(&bob);
    look(&bob);
    assert_int_equal(got.ended, alice.token);
}

SQLITE_TEST(test_sqlite_observers__schema_of_before_is_upgraded)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");

    must_open(&first, "");
    ask(&alice);
    handle_close(&first);
    sql("ALTER TABLE simba_tenure DROP COLUMN former;"
        "DROP TABLE simba_reserve; PRAGMA user_version = 1");
    must_open(&first, "");
    assert_int_equal(sql("PRAGMA user_version"), 3);
    look(&bob);
    assert_string_equal(got.owner.id, "alice"); /* nothing was lost */
    assert_int_equal(got.ended, 0);             /* not known */
    release(&alice);
    ask(&bob);
    expect_mine(&bob);
    look(&bob);
    assert_int_equal(got.ended, alice.token);
    must_open(&second, ""); /* found as it should be */
}

SQLITE_TEST(test_sqlite_observers__schema_without_slots_gets_them)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");

    must_open(&first, "");
    ask(&alice);
    handle_close(&first);
    sql("ALTER TABLE simba_tenure DROP COLUMN asked;"
        "ALTER TABLE simba_line DROP COLUMN slots;"
        "ALTER TABLE simba_line DROP COLUMN rank");
    must_open(&first, "");
    assert_int_equal(sql("PRAGMA user_version"), 3);
    look(&bob);
    assert_string_equal(got.owner.id, "alice"); /* nothing was lost */
    release(&alice);
    ask(&bob);
    expect_mine(&bob);
}

/* Programs of before know of one owner only. What they see of several ends when
 * the last of them does, and is no process that could be dead. */
SQLITE_TEST(test_sqlite_observers__several_owners_look_like_one)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");
    simba_request request;

    must_open(&first, "");
    request = asking(&alice);
    request.slots = 2;
    run(&alice, request);
    alice.ttl_ms = bob.ttl_ms = 50000;
    request = asking(&bob);
    request.slots = 2;
    run(&bob, request);
    assert_true(got.mine);
    assert_int_equal(got.slot, 1);
    assert_int_equal(got.owned, 2);
    assert_int_equal(
        sql("SELECT count(*) FROM simba_mutex AS m, simba_slot AS s"
            " WHERE m.owner_id = 'slots@'"
            " AND m.transition_at >= s.transition_at"
            " AND m.fencing_token >= s.token"),
        2);
    assert_int_equal(
        sql("SELECT count(*) FROM simba_tenure AS t, simba_mutex AS m"
            " WHERE t.token = m.fencing_token AND t.handover = 0"
            " AND t.attempt = zeroblob(16)"),
        1);
    release(&bob);
    release(&alice);
    assert_int_equal(sql("SELECT count(*) FROM simba_slot"), 0);
    assert_int_equal(
        sql("SELECT count(*) FROM simba_mutex WHERE owner_id = ''"), 1);
}
