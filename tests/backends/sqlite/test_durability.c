/* What a loss of power leaves of an SQLite store: boots from what a disk may
 * have kept, as it was at every flush and after every answer. */
#define _GNU_SOURCE
#include "forgetful_disk.h"

/* More tenures than fit into a log before it is copied back, twice. */
enum { TENURES = 36 };

/* The wall clock is so far behind that tokens have nothing but the last one to
 * go by, and each is flushed. */
#define AHEAD     UINT64_C(4000000000000000000)
#define SET_AHEAD "UPDATE simba_mutex SET fencing_token = 4000000000000000000"

/* Tenure after tenure, every ten seconds, with somebody in the queue and a
 * renewal now and then. */
static void live(const char *parameters, const char *before)
{
    must_open(&first, parameters);
    sql("INSERT INTO simba_mutex VALUES ('m/1 {a}:''b''%\"', 0, 0, 0, '', 1, "
        "1)");
    sql(before);
    flush_count = 0;
    is_recording = true;
    for (int i = 0; i < TENURES; i++) {
        struct who alice = person(&first, "alice");
        struct who bob = person(&first, "bob");

        wall_offset_s += 10;
        ask(&alice);
        answered[0] = alice.token;
        set_aside();
        if (i % 4 == 0) {
            ask(&bob);
            renew(&alice);
            leave(&bob);
            set_aside();
        }
        release(&alice);
        set_aside();
    }
    is_recording = false;
}

/* S4, whenever the power fails. */
DISK_TEST(test_sqlite_durability__no_token_comes_again)
{
    live("", SET_AHEAD);
    assert_true(answered[0] > AHEAD);
    assert_true(moment_count > 3 * TENURES);
    for (int i = 0; i < moment_count; i++) {
        assert_int_equal(count_repeated(i), 0);
    }
}

/* Also of those that were given out without a flush, with a clock that is
 * behind after the boot. */
DISK_TEST(test_sqlite_durability__no_reserved_token_comes_again)
{
    live("", "");
    assert_in_range(flush_count, TENURES / 6, TENURES);
    wall_offset_s = -3600;
    for (int i = 0; i < moment_count; i++) {
        assert_int_equal(count_repeated(i), 0);
    }
}

/* Without flushes tokens do come again: the disk above forgets what it must. */
DISK_TEST(test_sqlite_durability__disk_forgets)
{
    int repeated = 0;

    live("?synchronous=normal", SET_AHEAD);
    for (int i = 0; i < moment_count; i++) {
        repeated += count_repeated(i);
    }
    assert_true(repeated > 0);
}

/* S8: what may not be on disk is not known, and asking again makes sure. */
DISK_TEST(test_sqlite_durability__failed_flush_is_unknown)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");
    int last;

    must_open(&first, "");
    ask(&bob);
    release(&bob);
    sql(SET_AHEAD);
    is_recording = true;
    is_lost_for_good = true;
    flushes_to_fail = 1;
    assert_int_equal(try_run(&alice, asking(&alice)), SIMBA_EUNKNOWN);
    assert_non_null(strstr(why.message, "log"));
    ask(&alice);
    expect_mine(&alice);
    last = moment_count & ~1; /* one that has only what was flushed */
    moment_count = last;
    answered[0] = alice.token;
    set_aside();
    assert_int_equal(count_repeated(last), 0);
}

DISK_TEST(test_sqlite_durability__audit_stays)
{
    struct who alice = person(&first, "alice");

    must_open(&first, "");
    ask(&alice);
    run(&alice, (simba_request){.kind = SIMBA_BREAK, .reason = "it hangs"});
    is_recording = true;
    set_aside();
    boot_from(0);
    assert_int_equal(sql("SELECT count(*) FROM simba_broken"), 1);
}

/* Without a log a commit is the end of the journal's name, and that is in the
 * directory. */
DISK_TEST(test_sqlite_durability__journal_does_not_come_back)
{
    struct who alice = person(&first, "alice");

    must_open(&first, "");
    handle_close(&first);
    sql("PRAGMA journal_mode=DELETE");
    must_open(&first, "");
    ask(&alice);
    expect_mine(&alice);
    assert_true(S_ISDIR(last_flushed));
}
