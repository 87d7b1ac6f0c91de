/* Whatever several processes do, in whatever order, and whenever the power
 * fails: no token comes again (S4). A random walk, with disks set aside at
 * every flush and after every answer, from each of which is booted.
 *
 * SIMBA_WALKS says how many walks there are, SIMBA_WALK with which one they
 * begin. */
#define _GNU_SOURCE
#include "forgetful_disk.h"

enum { WALKS = 1, STEPS = 2000, YEAR_S = 365 * 24 * 3600 };

/* Who has which mutex. Two handles keep what they answer; the third does not
 * flush, and so has a mutex of its own. */
static struct who owners[MUTEXES];
static bool is_owned[MUTEXES];
static struct handle loose;

/* Who is about it, and what. */
static const struct handle *busy_at;
static int busy_with;

static sqlite3 *probe;

/* --- one step ------------------------------------------------------------ */

static struct handle *any_handle(void)
{
    return one_of(2) == 0 ? &first : &second;
}

/* S8: what is not known is asked again. */
static void take(int which, struct handle *at)
{
    struct who who = person(at, "somebody");
    simba_request request = asking(&who);
    int tries = 0;

    request.mutex = mutexes[which];
    while (try_run(&who, request) != SIMBA_OK) {
        assert_true(++tries < 3);
    }
    assert_true(got.mine);
    assert_true(got.token > answered[which]);
    answered[which] = who.token = got.token;
    set_aside();
    owners[which] = who;
    is_owned[which] = true;
}

static void give_back(int which)
{
    simba_request request = {.kind = SIMBA_RELEASE, .mutex = mutexes[which]};

    is_owned[which] = try_run(&owners[which], request) != SIMBA_OK;
    set_aside();
}

static void go_on(int which)
{
    static const enum simba_request_kind kinds[] = {SIMBA_RENEW, SIMBA_ACQUIRE,
                                                    SIMBA_BREAK};
    simba_request request = {.kind = kinds[one_of(3)], .mutex = mutexes[which]};

    request.reason = "why not";
    (void)try_run(&owners[which], request);
    set_aside();
}

static void use(int which, struct handle *at)
{
    busy_at = is_owned[which] ? owners[which].at : at;
    busy_with = which;
    if (!is_owned[which]) {
        take(which, at);
    } else if (one_of(3) > 0) {
        give_back(which);
    } else {
        go_on(which);
    }
}

static void be_loose(void)
{
    struct who who = person(&loose, "loose");
    simba_request request = asking(&who);

    request.mutex = "loose";
    run(&who, request);
    who.token = got.token;
    run(&who, (simba_request){.kind = SIMBA_RELEASE, .mutex = "loose"});
}

/* --- what happens meanwhile ---------------------------------------------- */

/* Another process, while one waits for the disk. Not where that one keeps all
 * others out. */
static void interfere(void)
{
    static bool is_inside;
    int which = (int)one_of(MUTEXES);
    struct handle *at = busy_at == &first ? &second : &first;

    if (is_inside || which == busy_with || one_of(2) == 0 ||
        sqlite3_exec(probe, "BEGIN IMMEDIATE; ROLLBACK", NULL, NULL, NULL) !=
            SQLITE_OK) {
        return;
    }
    is_inside = true;
    if (!is_owned[which]) {
        take(which, at);
    } else if (owners[which].at == at) {
        give_back(which);
    }
    is_inside = false;
}

/* What a version without a reserve does. */
static void act_as_older(int which)
{
    char text[256];
    struct timespec now;

    if (is_owned[which]) {
        return;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(text, sizeof text,
             "UPDATE simba_mutex SET fencing_token ="
             " max(fencing_token + 1, %lld000000)"
             " WHERE mutex = '%s' RETURNING fencing_token",
             (long long)now.tv_sec, which == 1 ? "b" : "c");
    if (which > 0 && sql("SELECT count(*) FROM simba_mutex") > MUTEXES) {
        answered[which] = (uint64_t)sql(text);
        set_aside();
    }
}

static void set_clock(void)
{
    static const int64_t steps_s[] = {1, 20, 61, -30, YEAR_S, -YEAR_S};

    wall_offset_s += steps_s[one_of(one_of(8) == 0 ? 6 : 4)];
}

static void befall(void)
{
    switch (one_of(8)) {
    case 0:
        sql("UPDATE simba_reserve SET boot = 'other'");
        break;
    case 1:
        sql(one_of(2) == 0 ? "PRAGMA wal_checkpoint(PASSIVE)"
                           : "PRAGMA wal_checkpoint(TRUNCATE)");
        break;
    case 2:
        act_as_older((int)one_of(MUTEXES));
        break;
    case 3:
        if (!is_owned[0] && !is_owned[1] && !is_owned[2]) {
            handle_close(&first);
            must_open(&first, "");
        }
        break;
    default:
        set_clock();
    }
}

/* --- the walk ------------------------------------------------------------ */

/* The first of them brings an older file up to date. */
static void begin_walk(void)
{
    memset(is_owned, 0, sizeof is_owned);
    must_open(&first, "");
    handle_close(&first);
    sql("DROP TABLE simba_reserve; PRAGMA user_version = 2");
    close(files[1]); /* that log is gone */
    files[1] = -1;
    assert_int_equal(sqlite3_open(database, &probe), SQLITE_OK);
    is_recording = true;
    must_open(&first, "");
    must_open(&second, "");
    must_open(&loose, "?synchronous=normal");
}

static void walk(void)
{
    for (int i = 0; i < STEPS && moment_count < MOMENTS; i++) {
        amid_flush = interfere;
        flushes_to_fail = one_of(40) == 0;
        use((int)one_of(MUTEXES), any_handle());
        flushes_to_fail = 0;
        amid_flush = NULL;
        if (one_of(10) == 0) {
            be_loose();
        }
        if (one_of(5) == 0) {
            befall();
        }
    }
}

static void end_walk(void)
{
    is_recording = false;
    sqlite3_close(probe);
    handle_close(&loose);
}

static void boot_from_all(unsigned number)
{
    wall_offset_s = -YEAR_S;
    for (int i = 0; i < moment_count; i++) {
        int repeated = count_repeated(i);

        if (repeated > 0) {
            fail_msg("walk %u, disk %d: %d tokens come again", number, i,
                     repeated);
        }
    }
}

static unsigned wish(const char *name, unsigned otherwise)
{
    const char *value = getenv(name);

    return value == NULL ? otherwise : (unsigned)strtoul(value, NULL, 10);
}

DISK_TEST(test_sqlite_durability_walk__no_token_comes_again)
{
    unsigned from = wish("SIMBA_WALK", 1);
    unsigned walks = wish("SIMBA_WALKS", WALKS);

    for (unsigned i = from; i < from + walks; i++) {
        if (i > from) {
            end(state);
            start_empty(state);
        }
        seed = i;
        begin_walk();
        walk();
        end_walk();
        assert_true(moment_count > MOMENTS / 2);
        boot_from_all(i);
        print_message("walk %u: %d disks\n", i, moment_count);
    }
}
