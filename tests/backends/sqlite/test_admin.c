/* What an admin asks of the SQLite store, and what only this store can get
 * wrong: breaks that must be on disk, the audit, dead processes in a list, and
 * a doctor who sees how the store is set up. */
#define _GNU_SOURCE
#include "driver.h"

static void break_tenure(struct who *by, uint64_t token, bool now)
{
    struct who admin = *by;

    admin.token = token;
    run(&admin, (simba_request){.kind = SIMBA_BREAK,
                                .now = now,
                                .reason = "it hangs; 'quoted'"});
}

static void ask_store(enum simba_request_kind kind, bool want_queue)
{
    struct who admin = person(&first, "");

    memset(&told, 0, sizeof told);
    run(&admin, (simba_request){.kind = kind,
                                .mutex = kind == SIMBA_READ ? MUTEX : "",
                                .want_queue = want_queue});
}

static const simba_finding *finding(const char *name)
{
    for (int i = 0; i < told.finding_count; i++) {
        if (strcmp(told.findings[i].name, name) == 0) {
            return &told.findings[i];
        }
    }
    fail_msg("the doctor says nothing about %s", name);
    return NULL;
}

/* --- break --------------------------------------------------------------- */

/* Whoever renews through another handle, or after a restart, hears of it. */
SQLITE_TEST(test_sqlite_admin__a_break_is_on_disk)
{
    struct who a, b;

    must_open(&first, "");
    must_open(&second, "");
    a = person(&first, "a");
    b = person(&second, "b");
    ask(&a);
    ask(&b);
    expect_queued(true);
    break_tenure(&b, a.token, false);
    assert_true(got.mine);
    assert_string_equal(got.owner.id, "a");
    assert_int_equal(sql("SELECT broken FROM simba_tenure"), 1);
    renew(&a);
    assert_false(got.mine);
    ask(&b); /* not before the end of the lease */
    expect_queued(true);
    handle_close(&second);
    must_open(&second, "");
    renew(&a);
    assert_false(got.mine);
}

SQLITE_TEST(test_sqlite_admin__a_break_now_offers_it_to_the_next)
{
    struct who a, b;
    uint64_t token;

    must_open(&first, "");
    a = person(&first, "a");
    b = person(&first, "b");
    ask(&a);
    token = a.token;
    ask(&b);
    break_tenure(&a, token, true);
    assert_true(got.mine);
    assert_string_equal(got.owner.id, "");
    assert_true(handle_woken(&first, MUTEX, 5000));
    renew(&a);
    assert_false(got.mine);
    ask(&b);
    assert_true(got.mine);
    assert_true(got.token > token);
}

SQLITE_TEST(test_sqlite_admin__a_break_hits_only_its_token)
{
    struct who a;

    must_open(&first, "");
    a = person(&first, "a");
    ask(&a);
    break_tenure(&a, a.token + 1, true);
    assert_false(got.mine);
    assert_int_equal(got.owner.token, a.token);
    renew(&a);
    assert_true(got.mine);
    assert_int_equal(sql("SELECT count(*) FROM sqlite_schema "
                         "WHERE name = 'simba_broken'"),
                     0);
}

SQLITE_TEST(test_sqlite_admin__breaks_are_audited)
{
    struct who a;
    uint64_t tokens[2];

    must_open(&first, "");
    a = person(&first, "a");
    for (int i = 0; i < 2; i++) {
        a.attempt.low += 1000;
        ask(&a);
        tokens[i] = a.token;
        break_tenure(&a, a.token, true);
    }
    assert_int_equal(sql("SELECT count(*) FROM simba_broken "
                         "WHERE owner_id = 'a' AND at_once = 1 AND "
                         "reason = 'it hangs; ''quoted''' AND wall_us > 0"),
                     2);
    assert_int_equal(sql("SELECT max(token) FROM simba_broken"), tokens[1]);
}

/* Of several owners the one is named whose tenure was broken. */
SQLITE_TEST(test_sqlite_admin__audit_names_which_of_several)
{
    struct who a, b;

    must_open(&first, "");
    a = person(&first, "a");
    b = person(&first, "b");
    ask_slot(&a, 2);
    ask_slot(&b, 2);
    assert_true(got.mine);
    break_tenure(&a, b.token, true);
    assert_true(got.mine);
    assert_int_equal(sql("SELECT count(*) FROM simba_broken "
                         "WHERE owner_id = 'b'"),
                     1);
}

/* --- list and line ------------------------------------------------------- */

SQLITE_TEST(test_sqlite_admin__lists_owners_and_queues)
{
    struct who a, b, c;

    must_open(&first, "");
    must_open(&second, "");
    a = person(&first, "a");
    b = person(&second, "b");
    c = person(&first, "c");
    ask(&a);
    ask(&b);
    ask(&c);
    ask_store(SIMBA_LIST, false);
    assert_int_equal(told.mutex_count, 1);
    assert_string_equal(told.mutexes[0].mutex, MUTEX);
    assert_string_equal(told.mutexes[0].owner.id, "a");
    assert_int_equal(told.mutexes[0].waiting, 2);
    ask_store(SIMBA_READ, true);
    assert_int_equal(told.waiter_count, 2);
    assert_string_equal(told.waiters[0].id, "b");
    assert_string_equal(told.waiters[1].id, "c");
    release(&a);
    ask_store(SIMBA_READ, true); /* it is offered to b, who comes first */
    assert_int_equal(told.waiter_count, 2);
    assert_true(told.waiters[0].is_offered);
    assert_string_equal(told.waiters[0].id, "b");
    assert_false(told.waiters[1].is_offered);
}

/* A plain read costs as little as before. */
SQLITE_TEST(test_sqlite_admin__tells_no_queue_unasked)
{
    struct who a, b;

    must_open(&first, "");
    a = person(&first, "a");
    b = person(&first, "b");
    ask(&a);
    ask(&b);
    ask_store(SIMBA_READ, false);
    assert_int_equal(told.waiter_count, 0);
    leave(&b);
    release(&a);
    ask_store(SIMBA_LIST, false);
    assert_int_equal(told.mutex_count, 0);
}

/* Rows of another boot are nobody's: the list does not show them. */
SQLITE_TEST(test_sqlite_admin__lists_nothing_of_another_boot)
{
    struct who a, b;

    must_open(&first, "");
    must_open(&second, "");
    a = person(&second, "a");
    b = person(&second, "b");
    ask(&a);
    ask(&b);
    handle_close(&second);
    reboot();
    ask_store(SIMBA_LIST, false);
    assert_int_equal(told.mutex_count, 0);
}

/* Of all that it has read it keeps a part: who waits for 10,000 mutexes shall
 * not pay for all of their pages. */
SQLITE_TEST(test_sqlite_admin__keeps_few_pages)
{
    struct who anyone;
    sqlite3_int64 before;
    char mutex[65];

    must_open(&first, "");
    must_open(&second, ""); /* by whom the file was not made */
    anyone = person(&second, "");
    sql("WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n "
        "LIMIT 20000) INSERT INTO simba_mutex SELECT printf('%064d', i), 0, 0, "
        "0, 'somebody', 1, i FROM n");
    before = sqlite3_memory_used();
    for (int i = 0; i < 20000; i += 7) {
        snprintf(mutex, sizeof mutex, "%064d", i);
        run(&anyone, (simba_request){.kind = SIMBA_READ, .mutex = mutex});
    }
    assert_true(sqlite3_memory_used() - before < 1200 * 1024);
}

/* --- doctor -------------------------------------------------------------- */

SQLITE_TEST(test_sqlite_admin__doctor_finds_a_good_store_good)
{
    must_open(&first, "");
    ask_store(SIMBA_DOCTOR, false);
    assert_int_equal(finding("file-system")->gravity, SIMBA_FINDING_OK);
    assert_int_equal(finding("journal")->gravity, SIMBA_FINDING_OK);
    assert_int_equal(finding("integrity")->gravity, SIMBA_FINDING_OK);
    assert_int_equal(finding("clock")->gravity, SIMBA_FINDING_OK);
    assert_int_equal(finding("crash-handover")->gravity, SIMBA_FINDING_OK);
    assert_int_equal(finding("permissions")->gravity, SIMBA_FINDING_OK);
    assert_int_equal(finding("room")->gravity, SIMBA_FINDING_OK);
    assert_non_null(strstr(finding("permissions")->text, "600"));
    assert_int_equal(strlen(strstr(finding("boot")->text, "boot id ")) > 36, 1);
}

SQLITE_TEST(test_sqlite_admin__doctor_sees_the_settings)
{
    must_open(&first, "?synchronous=full&crash_handover=off");
    ask_store(SIMBA_DOCTOR, false);
    assert_int_equal(finding("synchronous")->gravity, SIMBA_FINDING_OK);
    assert_int_equal(finding("crash-handover")->gravity, SIMBA_FINDING_NOTE);
    handle_close(&first);
    must_open(&first, "?synchronous=normal&fs=trust");
    ask_store(SIMBA_DOCTOR, false);
    assert_int_equal(finding("synchronous")->gravity, SIMBA_FINDING_NOTE);
    assert_int_equal(finding("sharing")->gravity, SIMBA_FINDING_WEAK);
}

SQLITE_TEST(test_sqlite_admin__doctor_sees_who_may_write)
{
    must_open(&first, "");
    assert_int_equal(chmod(database, 0666), 0);
    ask_store(SIMBA_DOCTOR, false);
    assert_int_equal(finding("permissions")->gravity, SIMBA_FINDING_WEAK);
}

/* --- init ---------------------------------------------------------------- */

/* What is printed, run by hand, makes a file that the store takes as its own.
 */
SQLITE_TEST(test_sqlite_admin__printed_schema_makes_a_store)
{
    simba_error error;
    char *text = simba__sqlite_ops.schema(NULL, false, &error);
    struct who a;

    assert_non_null(text);
    assert_int_equal(access(database, F_OK), -1);
    sql(text);
    free(text);
    must_open(&first, "");
    a = person(&first, "a");
    ask(&a);
    assert_true(got.mine);
    ask_store(SIMBA_INIT, false);
    assert_int_equal(finding("schema")->gravity, SIMBA_FINDING_OK);
}

/* What fs=trust cannot do is not offered with it. */
SQLITE_TEST(test_sqlite_admin__trusted_file_offers_no_slots)
{
    const uint32_t less =
        SIMBA_CAN_SLOTS | SIMBA_NUMBERS_SLOTS | SIMBA_CAN_HAND_OVER;

    must_open(&first, "");
    assert_int_equal(first.backend->ops->capabilities & less, less);
    handle_close(&first);
    must_open(&first, "?fs=trust");
    assert_int_equal(first.backend->ops->capabilities & less, 0);
    assert_true(first.backend->ops->capabilities & SIMBA_CAN_BREAK);
}
