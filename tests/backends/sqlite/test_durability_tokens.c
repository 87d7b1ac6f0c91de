/* Tokens without a flush on SQLite, and the log that is copied back when nobody
 * waits for it. What is left of them after a loss of power is told by
 * test_durability.c. */
#define _GNU_SOURCE
#include "forgetful_disk.h"

#include <pthread.h>

enum { SPAN_S = 60 }; /* of a reserve */
enum { TENURES = 60 };

static uint64_t wall_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* How often the disk was waited for. */
static int flushes_to_ask(struct who *who)
{
    int before = flush_count;

    ask(who);
    expect_mine(who);
    return flush_count - before;
}

static int flushes_of_tenure(struct handle *at)
{
    struct who who = person(at, "somebody");
    int flushes = flushes_to_ask(&who);

    release(&who);
    return flushes;
}

static void set_other_boot(void)
{
    sql("UPDATE simba_reserve SET boot = 'x'");
}

static int64_t log_length(void)
{
    struct stat file;
    char path[128];

    snprintf(path, sizeof path, "%s-wal", database);
    assert_int_equal(stat(path, &file), 0);
    return file.st_size;
}

/* --- flushes ------------------------------------------------------------- */

DISK_TEST(test_sqlite_durability_tokens__one_flush_a_minute)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");
    int before;

    must_open(&first, "");
    assert_int_equal(flushes_to_ask(&alice), 1);
    before = flush_count;
    ask(&bob);
    renew(&alice);
    leave(&bob);
    release(&alice);
    assert_int_equal(flush_count, before);
    assert_int_equal(flushes_of_tenure(&first), 0);
    wall_offset_s += SPAN_S + 1;
    assert_int_equal(flushes_of_tenure(&first), 1);
    assert_int_equal(flushes_of_tenure(&first), 0);
}

DISK_TEST(test_sqlite_durability_tokens__is_shared)
{
    must_open(&first, "");
    must_open(&second, "");
    assert_int_equal(flushes_of_tenure(&first), 1);
    assert_int_equal(flushes_of_tenure(&second), 0);
}

/* What another has written is not on disk before he says so. */
DISK_TEST(test_sqlite_durability_tokens__unsure_one_is_not_used)
{
    struct who alice = person(&first, "alice"), bob = person(&second, "bob");
    simba_request elsewhere = asking(&bob);
    int before;

    must_open(&first, "");
    must_open(&second, "");
    flushes_to_fail = 1;
    assert_int_equal(try_run(&alice, asking(&alice)), SIMBA_EUNKNOWN);
    elsewhere.mutex = "elsewhere";
    before = flush_count;
    run(&bob, elsewhere);
    assert_true(got.mine);
    assert_int_equal(flush_count - before, 1);
    assert_true(flushes_to_ask(&alice) > 0); /* and nor does she know */
}

/* What was flushed was so in another file. */
DISK_TEST(test_sqlite_durability_tokens__new_file_has_a_new_one)
{
    char path[128];

    must_open(&first, "");
    assert_int_equal(flushes_of_tenure(&first), 1);
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "%s%s", database, suffixes[i]);
        assert_int_equal(unlink(path), 0);
    }
    snprintf(path, sizeof path, "%s-shm", database);
    assert_int_equal(unlink(path), 0);
    assert_true(flushes_of_tenure(&first) >= 1);
    assert_true(sql("SELECT reserved FROM simba_reserve") > 0);
    assert_int_equal(flushes_of_tenure(&first), 0);
}

/* A backup was written back, or somebody cleaned up. */
DISK_TEST(test_sqlite_durability_tokens__lost_one_is_made_again)
{
    struct who alice = person(&first, "alice");

    must_open(&first, "");
    ask(&alice);
    sql("UPDATE simba_reserve SET reserved = 5, flushed = 5");
    release(&alice);
    assert_int_equal(sql("SELECT flushed FROM simba_reserve"), 5);
    assert_int_equal(flushes_of_tenure(&first), 1);
    assert_true((uint64_t)sql("SELECT reserved FROM simba_reserve") >
                wall_us());
    sql("DELETE FROM simba_reserve");
    assert_int_equal(flushes_of_tenure(&first), 1);
    assert_true((uint64_t)sql("SELECT reserved FROM simba_reserve") >
                wall_us());
}

DISK_TEST(test_sqlite_durability_tokens__none_where_nothing_is_flushed)
{
    must_open(&first, "?synchronous=normal");
    assert_int_equal(flushes_of_tenure(&first), 0);
    assert_int_equal(sql("SELECT reserved FROM simba_reserve"), 0);
}

/* --- boots --------------------------------------------------------------- */

/* With a clock that is right, a boot leaves no trace in the tokens. */
DISK_TEST(test_sqlite_durability_tokens__clock_catches_up)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");

    must_open(&first, "");
    assert_int_equal(flushes_of_tenure(&first), 1);
    set_other_boot();
    assert_int_equal(flushes_to_ask(&alice), 1);
    assert_in_range(alice.token, wall_us() + (SPAN_S - 30) * 1000000,
                    wall_us() + SPAN_S * 1000000);
    release(&alice);
    wall_offset_s += 2 * SPAN_S;
    ask(&bob);
    assert_in_range(bob.token, wall_us() - 30000000, wall_us());
}

/* Also while tokens are ahead of the clock. */
DISK_TEST(test_sqlite_durability_tokens__deleted_row_is_not_begun_again)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");

    must_open(&first, "");
    flushes_of_tenure(&first);
    set_other_boot();
    ask(&alice);
    release(&alice);
    sql("DELETE FROM simba_mutex; DELETE FROM simba_tenure");
    ask(&bob);
    assert_true(bob.token > alice.token);
}

DISK_TEST(test_sqlite_durability_tokens__clock_that_is_behind_counts)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");
    uint64_t before;

    must_open(&first, "");
    ask(&alice);
    release(&alice);
    before = (uint64_t)sql("SELECT reserved FROM simba_reserve");
    set_other_boot();
    wall_offset_s -= 3600;
    for (int i = 1; i < 4; i++) {
        bob = person(&first, "bob");
        assert_int_equal(flushes_to_ask(&bob), 1); /* the clock has no room */
        assert_int_equal(bob.token, before + (uint64_t)i);
        release(&bob);
    }
}

/* Containers with boot ids of their own, in turns. */
DISK_TEST(test_sqlite_durability_tokens__boots_in_turn_stay_at_the_clock)
{
    struct who alice;

    must_open(&first, "");
    for (int i = 0; i < TENURES; i++) {
        alice = person(&first, "alice");
        assert_true(flushes_to_ask(&alice) >= 1);
        release(&alice);
        set_other_boot();
    }
    assert_true(alice.token < wall_us() + (SPAN_S + 1) * UINT64_C(1000000));
}

/* --- the log ------------------------------------------------------------- */

/* All that a log that is copied back needs of the disk, releases wait for. */
DISK_TEST(test_sqlite_durability_tokens__log_is_not_for_acquires)
{
    int before;

    must_open(&first, "");
    flushes_of_tenure(&first);
    before = flush_count;
    for (int i = 0; i < TENURES; i++) {
        assert_int_equal(flushes_of_tenure(&first), 0);
    }
    assert_in_range(flush_count - before, 3, TENURES);
    assert_in_range(log_length(), 1, 100 * 1100);
}

/* Owners who die, one after the other. */
DISK_TEST(test_sqlite_durability_tokens__log_of_acquires_ends)
{
    must_open(&first, "");
    for (int i = 0; i < 5 * TENURES; i++) {
        struct who alice = person(&first, "alice");

        ask(&alice);
        expect_mine(&alice);
        reboot();
    }
    assert_in_range(log_length(), 1, 800 * 1100);
}

struct crowd {
    struct handle *at;
    char mutex[16];
    pthread_t thread;
    int64_t longest; /* the log */
    bool is_served;
};

static bool serve(const struct crowd *one,
                  struct who *who,
                  simba_request request)
{
    simba_error error;
    int rc;

    request.mutex = one->mutex;
    fill_request(who, &request);
    rc = handle_run(one->at, &request, &error);
    who->token = request.reply.token;
    return rc == SIMBA_OK;
}

static void *never_pause(void *argument)
{
    struct crowd *one = argument;

    one->is_served = true;
    for (uint64_t i = 1; i <= 20 * TENURES && one->is_served; i++) {
        struct who who = {.at = one->at, .id = "x", .attempt = {7, i}};

        who.ttl_ms = who.transition_ms = TTL;
        one->is_served =
            serve(one, &who, asking(&who)) && who.token != 0 &&
            serve(one, &who, (simba_request){.kind = SIMBA_RELEASE});
        if (log_length() > one->longest) {
            one->longest = log_length();
        }
    }
    return NULL;
}

/* The disk is slow, and there is always somebody who writes. */
DISK_TEST(test_sqlite_durability_tokens__log_of_many_ends)
{
    struct crowd crowd[] = {{.at = &first}, {.at = &second}, {.at = &third}};

    slowness_ms = 2;
    for (int i = 0; i < 3; i++) {
        must_open(crowd[i].at, "");
        snprintf(crowd[i].mutex, sizeof crowd[i].mutex, "m%d", i);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(
            pthread_create(&crowd[i].thread, NULL, never_pause, &crowd[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(crowd[i].thread, NULL);
    }
    for (int i = 0; i < 3; i++) {
        assert_true(crowd[i].is_served);
        assert_in_range(crowd[i].longest, 1, 5000 * 1100);
    }
}

/* --- older files --------------------------------------------------------- */

DISK_TEST(test_sqlite_durability_tokens__older_file_gets_one)
{
    struct who alice = person(&first, "alice"), bob = person(&first, "bob");

    must_open(&first, "");
    ask(&alice);
    handle_close(&first);
    sql("DROP TABLE simba_reserve; PRAGMA user_version = 2");
    must_open(&first, "");
    assert_int_equal(sql("PRAGMA user_version"), 3);
    look(&bob);
    assert_string_equal(got.owner.id, "alice");
    release(&alice);
    assert_int_equal(flushes_to_ask(&bob), 1);
    assert_true(bob.token > alice.token);
}

/* Who runs the text by hand does so statement by statement. */
DISK_TEST(test_sqlite_durability_tokens__version_is_told_last)
{
    simba_backend_config config = {.url = "", .rest = ""};
    char *text = simba__sqlite_ops.schema(&config, false, &why);
    const char *version;

    assert_non_null(text);
    version = strstr(text, "PRAGMA user_version");
    assert_non_null(version);
    assert_null(strstr(version, "CREATE"));
    assert_null(strstr(version, "INSERT"));
    free(text);
}
