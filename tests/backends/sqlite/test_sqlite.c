/* The SQLite store by single requests: owning, waiting in the queue,
 * tokens, tombstones. That the rules themselves are right is the business of
 * tests/core/test_mutex_record.c; here they must survive the tables. */
#define _GNU_SOURCE
#include "driver.h"

#include <time.h>

static uint64_t wall_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* --- owning -------------------------------------------------------------- */

SQLITE_TEST(test_sqlite__free_mutex_is_granted)
{
    struct who alice = person(&first, "alice");

    must_open(&first, "");
    ask(&alice);
    expect_mine(&alice);
    assert_int_equal(got.owner.acquired_at_ms, got.store_ms);
    look(&alice);
    assert_string_equal(got.owner.id, "alice");
    assert_int_equal(got.owner.token, alice.token);
}

SQLITE_TEST(test_sqlite__held_mutex_is_refused)
{
    struct who alice = person(&first, "alice");
    struct who bob = person(&second, "bob");

    must_open(&first, "");
    must_open(&second, "");
    ask(&alice);
    ask(&bob);
    expect_queued(true);
    assert_in_range(got.wait_ms, LEASE - 1000, LEASE);
    assert_string_equal(got.owner.id, "alice");
}

SQLITE_TEST(test_sqlite__asking_again_extends)
{
    struct who alice = person(&first, "alice");
    uint64_t token;

    must_open(&first, "");
    ask(&alice);
    token = alice.token;
    nap_ms(5);
    ask(&alice);
    expect_mine(&alice);
    assert_int_equal(got.token, token);
}

SQLITE_TEST(test_sqlite__renewal_keeps_the_token)
{
    struct who alice = person(&first, "alice");

    must_open(&first, "");
    ask(&alice);
    nap_ms(5);
    renew(&alice);
    expect_mine(&alice);
    assert_int_equal(got.token, alice.token);
    assert_true(got.owner.acquired_at_ms < got.store_ms);
}

SQLITE_TEST(test_sqlite__renewal_with_another_lease_is_kept)
{
    struct who alice = person(&first, "alice");

    must_open(&first, "");
    ask(&alice);
    alice.ttl_ms = 777;
    renew(&alice);
    expect_mine(&alice);
    assert_int_equal(sql("SELECT lease FROM simba_tenure"),
                     777 + alice.transition_ms);
}

SQLITE_TEST(test_sqlite__renewal_of_a_stranger_is_nothing)
{
    struct who alice = person(&first, "alice");
    struct who again = person(&first, "alice");

    must_open(&first, "");
    renew(&alice);
    assert_false(got.mine);
    ask(&alice);
    renew(&again);
    assert_false(got.mine);
    release(&again);
    renew(&alice);
    expect_mine(&alice);
}

SQLITE_TEST(test_sqlite__lease_ends_by_itself)
{
    struct who alice = person(&first, "alice");
    struct who bob = person(&first, "bob");

    must_open(&first, "");
    alice.ttl_ms = 30;
    alice.transition_ms = 20;
    ask(&alice);
    nap_ms(55);
    renew(&alice);
    assert_false(got.mine);
    ask(&bob);
    expect_mine(&bob);
    assert_true(bob.token > alice.token);
}

SQLITE_TEST(test_sqlite__names_are_compared_byte_for_byte)
{
    static const char *const names[] = {"abc", "ABC", "abc ", "a%c",
                                        "a_c", "a'c", "ä",    "a\xcc\x88"};
    struct who who[8];

    must_open(&first, "");
    for (size_t i = 0; i < 8; i++) {
        simba_request request = {.kind = SIMBA_ACQUIRE, .mutex = names[i]};

        who[i] = person(&first, names[i]);
        run(&who[i], request);
        assert_true(got.mine);
    }
    assert_int_equal(sql("SELECT count(*) FROM simba_mutex"), 8);
}

SQLITE_TEST(test_sqlite__longest_names_fit)
{
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1] = "", id[SIMBA_ID_MAX + 1] = "";
    struct who alice = person(&first, id), bob = person(&second, id);
    simba_request request = {.kind = SIMBA_ACQUIRE,
                             .mutex = mutex,
                             .join = true,
                             .waiter_ms = WAITER_MS};

    for (size_t i = 0; i < SIMBA_MUTEX_MAX; i++) {
        memcpy(mutex + 4 * i, "\xf0\x9f\xa6\x81", 5);
    }
    memset(id, 'x', SIMBA_ID_MAX);
    id[SIMBA_ID_MAX] = '\0';
    must_open(&first, "");
    must_open(&second, "");
    run(&alice, request);
    expect_mine(&alice);
    run(&bob, request);
    expect_queued(true);
    run(&alice, (simba_request){.kind = SIMBA_RELEASE, .mutex = mutex});
    assert_true(handle_woken(&second, mutex, PATIENCE_MS));
    run(&bob, request);
    expect_mine(&bob);
}

/* --- tokens -------------------------------------------------------------- */

SQLITE_TEST(test_sqlite__tokens_follow_the_wall_clock)
{
    struct who alice = person(&first, "alice");
    uint64_t before = wall_us();

    must_open(&first, "");
    ask(&alice);
    assert_true(alice.token >= before && alice.token <= wall_us());
}

SQLITE_TEST(test_sqlite__tokens_grow_over_a_clock_set_back)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");
    int64_t far = INT64_C(9000000000000000);

    must_open(&first, "");
    ask(&alice);
    release(&alice);
    sql("UPDATE simba_mutex SET fencing_token = 9000000000000000");
    ask(&bob);
    assert_int_equal(bob.token, far + 1);
    release(&bob);
    ask(&alice);
    assert_int_equal(alice.token, far + 2);
}

SQLITE_TEST(test_sqlite__tokens_grow_over_a_deleted_file)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");

    must_open(&first, "");
    ask(&alice);
    unlink(database);
    renew(&alice);
    assert_false(got.mine); /* what the file kept is lost */
    ask(&bob);
    expect_mine(&bob);
    assert_true(bob.token > alice.token);
    assert_int_equal(sql("SELECT count(*) FROM simba_mutex"), 1);
}

SQLITE_TEST(test_sqlite__everything_deleted_is_made_anew)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");
    int fd;

    must_open(&first, "");
    must_open(&second, "");
    fd = simba__sqlite_ops.life_fd(first.backend);
    ask(&alice);
    ask(&bob);
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    assert_int_equal(system(command), 0);
    ask(&alice);
    expect_mine(&alice);
    assert_int_equal(simba__sqlite_ops.life_fd(first.backend), fd);
    ask(&bob);
    expect_queued(true);
    assert_int_equal(count_files(""), 3); /* two lives, one wake-up file */
    release(&alice);
    assert_true(handle_woken(&second, MUTEX, PATIENCE_MS));
    ask(&bob);
    expect_mine(&bob);
}

/* --- the queue ----------------------------------------------------------- */

SQLITE_TEST(test_sqlite__first_come_is_first_served)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");
    struct who carol = person(&third, "carol"), dave = person(&first, "dave");

    must_open(&first, "");
    must_open(&second, "");
    must_open(&third, "");
    ask(&alice);
    ask(&bob);
    expect_queued(true);
    ask(&carol);
    expect_queued(false);
    ask(&dave);
    expect_queued(false);
    release(&alice);
    assert_true(handle_woken(&second, MUTEX, PATIENCE_MS));
    assert_true(
        handle_woken(&third, MUTEX, PATIENCE_MS)); /* the second in the queue */
    ask(&carol);
    expect_queued(true);
    assert_in_range(got.wait_ms, 1, OFFER_MS);
    ask(&bob);
    expect_mine(&bob);
    release(&bob);
    ask(&carol);
    expect_mine(&carol);
    release(&carol);
    assert_true(handle_woken(&first, MUTEX, PATIENCE_MS));
    ask(&dave);
    expect_mine(&dave);
    assert_int_equal(sql("SELECT count(*) FROM simba_line"), 0);
}

SQLITE_TEST(test_sqlite__offered_one_who_stays_away_goes_last)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");
    struct who carol = person(&third, "carol");

    must_open(&first, "");
    must_open(&second, "");
    must_open(&third, "");
    ask(&alice);
    ask(&bob);
    ask(&carol);
    release(&alice);
    ask(&carol);
    assert_false(got.mine);
    nap_ms(got.wait_ms + 2);
    ask(&carol);
    expect_mine(&carol);
    ask(&bob);
    expect_queued(true);
    assert_true(got.position > bob.position); /* back to the end */
}

SQLITE_TEST(test_sqlite__who_leaves_offers_it_to_the_next)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");
    struct who carol = person(&third, "carol");

    must_open(&first, "");
    must_open(&second, "");
    must_open(&third, "");
    ask(&alice);
    ask(&bob);
    ask(&carol);
    release(&alice);
    assert_true(handle_woken(&third, MUTEX, PATIENCE_MS));
    leave(&bob);
    assert_true(handle_woken(&third, MUTEX, PATIENCE_MS));
    ask(&carol);
    expect_mine(&carol);
}

SQLITE_TEST(test_sqlite__who_does_not_join_leaves_no_trace)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");

    must_open(&first, "");
    must_open(&second, "");
    ask(&alice);
    run(&bob, (simba_request){.kind = SIMBA_ACQUIRE, .waiter_ms = WAITER_MS});
    assert_false(got.mine || got.is_queued);
    assert_int_equal(sql("SELECT count(*) FROM simba_line"), 0);
    assert_int_equal(count_files("bell"), 0);
}

SQLITE_TEST(test_sqlite__idle_waiters_do_not_write)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");
    struct stat before, after;
    char log[128];

    must_open(&first, "");
    must_open(&second, "");
    ask(&alice);
    ask(&bob);
    snprintf(log, sizeof log, "%s-wal", database);
    assert_int_equal(stat(log, &before), 0);
    for (int i = 0; i < 10; i++) {
        ask(&bob);
        expect_queued(true);
        /* Its position lives so long from when it asked last (S11). */
        assert_true(sql("SELECT lapses_at FROM simba_line") >=
                    got.store_ms + WAITER_MS);
        look(&bob);
        nap_ms(1);
    }
    assert_int_equal(stat(log, &after), 0);
    assert_int_equal(before.st_size, after.st_size);
    assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
    sql("UPDATE simba_line SET lapses_at = lapses_at - 17500");
    ask(&bob); /* less is left than it must live */
    assert_true(sql("SELECT lapses_at FROM simba_line") ==
                got.store_ms + WAITER_MS * 3 / 2);
}

/* --- a long queue -------------------------------------------------------- */

enum { LONG = 300, READ_MOST = 8 };

/* How many rows of the queue the last request of this handle has read. */
static size_t rows_read(const struct handle *handle)
{
    const struct simba__sqlite *self =
        (const struct simba__sqlite *)handle->backend;

    return self->record.before.queue_count + self->record.before.is_offered;
}

/* Alice owns it, and so many wait, each second one by another handle. */
static void make_long_queue(struct who *alice, struct who *waiters)
{
    must_open(&first, "?synchronous=normal");
    must_open(&second, "?synchronous=normal");
    *alice = person(&first, "alice");
    ask(alice);
    for (size_t i = 0; i < LONG; i++) {
        waiters[i] = person(i % 2 == 0 ? &second : &first, "waiter");
        ask(&waiters[i]);
        expect_queued(i == 0);
        assert_true(i == 0 || got.position > waiters[i - 1].position);
    }
}

SQLITE_TEST(test_sqlite__long_queue_is_not_read_by_who_comes)
{
    struct who alice, waiters[LONG], newcomer = person(&second, "newcomer");

    make_long_queue(&alice, waiters);
    assert_in_range(rows_read(&first), 3, READ_MOST);
    ask(&newcomer);
    expect_queued(false);
    assert_true(got.position > waiters[LONG - 1].position);
    assert_in_range(rows_read(&second), 3, READ_MOST);
}

SQLITE_TEST(test_sqlite__long_queue_is_not_read_by_who_asks_again)
{
    struct who alice, waiters[LONG];
    const size_t asking[] = {0, 1, 2, 3, 4, 5, LONG / 2, LONG - 1};

    make_long_queue(&alice, waiters);
    for (size_t i = 0; i < sizeof asking / sizeof asking[0]; i++) {
        struct who *who = &waiters[asking[i]];

        ask(who);
        expect_queued(asking[i] == 0);
        assert_int_equal(got.position, who->position);
        assert_in_range(rows_read(who->at), 3, READ_MOST);
    }
    assert_int_equal(sql("SELECT count(*) FROM simba_line"), LONG);
}

/* Of who asks without a position, as after a request whose end is not known,
 * it is not known where it stands. */
SQLITE_TEST(test_sqlite__who_waits_is_found_without_its_position)
{
    struct who alice, waiters[LONG];
    uint64_t position;

    make_long_queue(&alice, waiters);
    position = waiters[LONG / 2].position;
    waiters[LONG / 2].position = 0;
    ask(&waiters[LONG / 2]);
    expect_queued(false);
    assert_int_equal(got.position, position);
    assert_int_equal(sql("SELECT count(*) FROM simba_line"), LONG);
}

/* A hand-over: a release, the next one comes, the former owner does. */
SQLITE_TEST(test_sqlite__long_queue_is_not_read_by_a_hand_over)
{
    struct who alice, waiters[LONG];

    make_long_queue(&alice, waiters);
    release(&alice);
    assert_in_range(rows_read(&first), 3, READ_MOST);
    assert_int_equal(sql("SELECT place FROM simba_line WHERE called_until > 0"),
                     waiters[0].position);
    ask(&waiters[0]);
    expect_mine(&waiters[0]);
    assert_in_range(rows_read(&second), 3, READ_MOST);
    alice = person(&first, "alice");
    ask(&alice);
    expect_queued(false);
    assert_true(got.position > waiters[LONG - 1].position);
    assert_in_range(rows_read(&first), 3, READ_MOST);
    assert_int_equal(sql("SELECT count(*) FROM simba_line"), LONG);
}

/* The process that waits before it is watched, though the queue is long. */
SQLITE_TEST(test_sqlite__who_comes_last_watches_the_one_before)
{
    struct who alice, waiters[LONG], last = person(&third, "last");
    const struct simba__sqlite *self;

    make_long_queue(&alice, waiters);
    must_open(&third, "?synchronous=normal");
    ask(&last);
    expect_queued(false);
    self = (const struct simba__sqlite *)third.backend;
    assert_int_equal(self->watch.waiting.count, 1);
    assert_non_null(simba__hash_find(
        &self->watch.obstacles,
        ((const struct simba__sqlite *)first.backend)->process));
}

/* --- tombstones, breaking ------------------------------------------------ */

SQLITE_TEST(test_sqlite__undone_attempt_stays_undone)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");

    must_open(&first, "");
    ask(&alice);
    run(&alice, (simba_request){.kind = SIMBA_RELEASE, .tombstone_ms = 80});
    ask(&alice);
    assert_false(got.mine || got.is_queued);
    ask(&bob);
    expect_mine(&bob);
    release(&bob);
    nap_ms(85);
    ask(&alice);
    expect_mine(&alice);
    run(&bob, (simba_request){.kind = SIMBA_RELEASE, .tombstone_ms = 80});
    /* The lapsed one is swept out with the next. */
    assert_int_equal(sql("SELECT count(*) FROM simba_tombstone"), 1);
}

SQLITE_TEST(test_sqlite__broken_tenure_is_not_renewed)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");

    must_open(&first, "");
    ask(&alice);
    sql("UPDATE simba_tenure SET broken = 1");
    renew(&alice);
    assert_false(got.mine);
    ask(&alice);
    assert_false(got.mine);
    leave(&alice);
    ask(&bob);
    expect_mine(&bob);
    renew(&bob);
    expect_mine(&bob);
}

/* A program that knows of one owner only has ended the tenures of several by
 * their row in simba_mutex. What it left in simba_slot is over. */
SQLITE_TEST(test_sqlite__slots_of_an_ended_crowd_do_not_come_back)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");
    struct who carol = person(&first, "carol");

    must_open(&first, "");
    ask_slot(&alice, 2);
    assert_true(got.mine);
    sql("UPDATE simba_mutex SET owner_id = '', acquired_at = 0, ttl_at = 0,"
        " transition_at = 0, version = version + 1");
    ask_slot(&bob, 2);
    assert_true(got.mine);
    assert_int_equal(sql("SELECT count(*) FROM simba_slot"), 1);
    ask_slot(&carol, 2);
    assert_true(got.mine);
    renew(&alice);
    assert_false(got.mine);
}

/* Programs that know of one owner only watch the row of several for its lease:
 * that is the longest of theirs, and not how long they have been there. */
SQLITE_TEST(test_sqlite__lease_of_several_is_the_longest_of_theirs)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");
    struct who carol = person(&first, "carol");
    simba_request longer = {.kind = SIMBA_RENEW, .slots = 3};

    must_open(&first, "");
    ask_slot(&alice, 3);
    sql("UPDATE simba_slot SET acquired_at = acquired_at - 1000000");
    ask_slot(&bob, 3);
    assert_int_equal(sql("SELECT lease FROM simba_tenure"), LEASE);
    carol.ttl_ms = 1000;
    ask_slot(&carol, 3);
    assert_true(got.mine);
    assert_int_equal(sql("SELECT lease FROM simba_tenure"), LEASE);
    alice.ttl_ms = 2 * TTL;
    run(&alice, longer);
    assert_true(got.mine);
    assert_int_equal(sql("SELECT lease FROM simba_tenure"), LEASE + TTL);
}

/* The row of several is nobody's: whoever was the last to come in may die, and
 * a program of another boot that knows of one owner only must not take that for
 * the end of all. It waits and sees. */
SQLITE_TEST(test_sqlite__row_of_several_is_of_no_process)
{
    struct who alice = person(&first, "alice");

    must_open(&first, "");
    ask_slot(&alice, 2);
    assert_int_equal(sql("SELECT count(*) FROM simba_tenure"
                         " WHERE process = '' AND boot <> ''"),
                     1);
}
