/* Several owners of one mutex on a database server: how it is kept, what those
 * see who know of one owner only, and which statements it takes. */
#define _GNU_SOURCE
#include "driver.h"
#include "reported.h"
#include "sent.h"

#include <pthread.h>

static void ask_slots(struct who *who, uint32_t slots)
{
    simba_request request = asking(who);

    request.slots = slots;
    run(who, request);
    if (got.is_queued) {
        LISTEN(who);
    }
    who->token = got.mine ? got.token : who->token;
}

static void renew_slots(struct who *who, uint32_t slots)
{
    run(who, (simba_request){.kind = SIMBA_RENEW, .slots = slots});
}

/* What the names of this test's mutex, and of no other, begin with: what comes
 * after would have to be quoted. */
static int beginning(void)
{
    return (int)strcspn(mutex, " ") + 1;
}

#define OF_MUTEX(column, table)                                                \
    server_sql("SELECT " column " FROM " table " WHERE mutex LIKE '%.*s%%'",   \
               beginning(), mutex)

static int64_t count_rows(void)
{
    return OF_MUTEX("count(*)", "simba_slot");
}

static bool is_quiet(void)
{
    return server_sql("SELECT count(*) FROM simba_mutex WHERE quiet = version "
                      "AND mutex LIKE '%.*s%%'",
                      beginning(), mutex) == 1;
}

/* --- what others see ----------------------------------------------------- */

SQL_TEST(test_sql_slots__several_are_one_owner_to_others)
{
    struct who a = person(&first, "a"), b = person(&second, "b");
    int64_t end_ms;

    a.ttl_ms *= 2;
    ask_slots(&a, 2);
    expect_mine(&a);
    end_ms = got.owner.transition_at_ms;
    ask_slots(&b, 2);
    expect_mine(&b);
    assert_int_equal(got.owned, 2);
    assert_int_equal(OF_MUTEX("count(*)", "simba_mutex m"), 1);
    assert_int_equal(server_sql("SELECT count(*) FROM simba_mutex "
                                "WHERE owner_id = 'slots@' AND mutex LIKE "
                                "'%.*s%%' AND quiet <> version",
                                beginning(), mutex),
                     1);
    assert_int_equal(OF_MUTEX("transition_at", "simba_mutex"), end_ms);
    assert_int_equal(OF_MUTEX("fencing_token", "simba_mutex"), b.token);
    assert_int_equal(count_rows(), 2);
    release(&a); /* whose lease was the longest */
    assert_true(OF_MUTEX("transition_at", "simba_mutex") < end_ms);
    release(&b);
    assert_int_equal(count_rows(), 0);
    assert_int_equal(OF_MUTEX("transition_at", "simba_mutex"), 0);
    assert_true(is_quiet());
}

/* Whose own clock tells it that an owner is dead must see that one is not, also
 * if it is not the one whose lease ends last. */
SQL_TEST(test_sql_slots__each_renewal_changes_what_others_see)
{
    struct who a = person(&first, "a"), b = person(&second, "b");
    int64_t ttl_at;

    a.ttl_ms *= 2;
    ask_slots(&a, 2);
    ask_slots(&b, 2);
    for (int i = 0; i < 3; i++) {
        ttl_at = OF_MUTEX("ttl_at", "simba_mutex");
        renew_slots(&b, 2);
        expect_mine(&b);
        assert_int_not_equal(OF_MUTEX("ttl_at", "simba_mutex"), ttl_at);
    }
}

/* Who knows of one owner takes the mutex when its lease is over, or breaks it,
 * and leaves the rows of simba_slot as they are. */
SQL_TEST(test_sql_slots__what_others_leave_behind_counts_for_nothing)
{
    struct who a = person(&first, "a"), b = person(&second, "b");

    ask_slots(&a, 2);
    ask_slots(&b, 2);
    server_sql("UPDATE simba_mutex SET owner_id = '', acquired_at = 0, "
               "ttl_at = 0, transition_at = 0, version = version + 1 "
               "WHERE mutex LIKE '%.*s%%'",
               beginning(), mutex);
    assert_int_equal(count_rows(), 2);
    renew_slots(&a, 2);
    assert_false(got.mine);
    a = person(&first, "a");
    ask_slots(&a, 2);
    expect_mine(&a);
    assert_int_equal(got.slot, 0);
    assert_int_equal(got.owned, 1);
    assert_int_equal(count_rows(), 1);
    renew_slots(&b, 2);
    assert_false(got.mine);
}

/* Who knows of one owner marks it as broken, and means all. */
SQL_TEST(test_sql_slots__others_break_all)
{
    struct who a = person(&first, "a"), b = person(&second, "b");

    ask_slots(&a, 2);
    ask_slots(&b, 2);
    server_sql("UPDATE simba_tenure SET broken = 1 WHERE mutex LIKE '%.*s%%'",
               beginning(), mutex);
    renew_slots(&a, 2);
    assert_false(got.mine);
    release(&a);
    a = person(&first, "a");
    ask_slots(&a, 2); /* but not who comes after that */
    renew_slots(&a, 2);
    expect_mine(&a);
    renew_slots(&b, 2);
    assert_false(got.mine);
}

/* Nobody tells that one of several is dead, and others go on renewing. */
SQL_TEST(test_sql_slots__who_waits_is_woken_when_the_first_lease_ends)
{
    struct who a = person(&first, "a"), b = person(&second, "b");
    struct who c = person(&third, "c");

    b.ttl_ms = 300;
    b.transition_ms = 100;
    ask_slots(&a, 2);
    ask_slots(&b, 2);
    ask_slots(&c, 2);
    expect_queued(true);
    assert_in_range(got.wait_ms, 1, 400);
    assert_true(handle_woken(&third, mutex, 5000));
    ask_slots(&c, 2);
    expect_mine(&c);
    assert_int_equal(got.slot, 1);
}

#ifndef SERVER_IS_POSTGRES
/* Who has never waited can notify others of its account all the same. */
SQL_TEST(test_sql_slots__nobody_polls_for_those_of_its_account)
{
    struct who a = person(&first, "a"), b = person(&second, "b");
    struct who c = person(&third, "c");

    ask_slots(&a, 2);
    ask_slots(&b, 2);
    ask_slots(&c, 2);
    expect_queued(true);
    assert_false(((struct simba__sql *)third.backend)->has_foreign);
    release(&a);
    assert_true(handle_woken(&third, mutex, PATIENCE_MS));
    ask_slots(&c, 2);
    expect_mine(&c);
}
#endif

/* --- admins -------------------------------------------------------------- */

SQL_TEST(test_sql_slots__one_of_several_is_broken)
{
    struct who a = person(&first, "a"), b = person(&second, "b");

    ask_slots(&a, 3);
    ask_slots(&b, 3);
    run(&a, (simba_request){.kind = SIMBA_BREAK, .token = b.token});
    assert_true(got.mine);
    assert_int_equal(
        server_sql("SELECT count(*) FROM simba_broken WHERE owner_id = 'b' "
                   "AND token = %lld",
                   (long long)b.token),
        1);
    renew_slots(&b, 3);
    assert_false(got.mine);
    renew_slots(&a, 3);
    expect_mine(&a);
    run(&a,
        (simba_request){.kind = SIMBA_BREAK, .token = a.token, .now = true});
    assert_true(got.mine);
    renew_slots(&a, 3);
    assert_false(got.mine);
    memset(&noted, 0, sizeof noted);
    run(&a, (simba_request){.kind = SIMBA_READ, .want_queue = true});
    assert_int_equal(noted.owners, 1);
    assert_string_equal(noted.owner[0].id, "b");
    assert_true(noted.owner[0].is_broken);
}

SQL_TEST(test_sql_slots__the_oldest_is_listed)
{
    struct who a = person(&first, "a"), b = person(&second, "b");
    struct who c = person(&third, "c");
    int found = 0;

    ask_slots(&a, 2);
    ask_slots(&b, 2);
    ask(&c);
    memset(&noted, 0, sizeof noted);
    run(&a, (simba_request){.kind = SIMBA_LIST, .mutex = ""});
    for (int i = 0; i < noted.mutexes; i++) {
        if (strcmp(noted.mutex[i].name, mutex) == 0) {
            found++;
            assert_string_equal(noted.mutex[i].owner.id, "a");
            assert_int_equal(noted.mutex[i].owner.token, a.token);
            assert_int_equal(noted.mutex[i].waiting, 1);
        }
    }
    assert_int_equal(found, 1);
}

/* A long queue is not loaded whole, unless it is needed. */
SQL_TEST(test_sql_slots__a_successor_far_behind_is_found)
{
    struct who a = person(&first, "a"), b;

    ask(&a);
    for (int i = 0; i < 40; i++) {
        b = person(&second, i < 39 ? "b" : "last");
        ask(&b);
    }
    run(&a, (simba_request){.kind = SIMBA_RELEASE, .to = "last"});
    assert_string_equal(got.to, "last");
    ask(&b);
    expect_mine(&b);
}

#ifdef SERVER_IS_POSTGRES
/* Who has waited hears at once that it is asked. */
SQL_TEST(test_sql_slots__who_is_asked_is_woken)
{
    struct who a = person(&first, "a"), b = person(&second, "b");
    struct who admin = person(&third, "admin");

    ask(&b);
    ask(&a);
    release(&b);
    ask(&a);
    expect_mine(&a);
    b = person(&second, "b");
    ask(&b);
    handle_woken(&first, mutex, 0);
    run(&admin, (simba_request){.kind = SIMBA_HAND_OVER});
    assert_string_equal(got.to, "b");
    assert_true(handle_woken(&first, mutex, PATIENCE_MS));
    renew(&a);
    assert_string_equal(got.asked, "@");
}
#endif

SQL_TEST(test_sql_slots__others_cannot_be_asked)
{
    struct who a = person(&first, "a"), b = person(&second, "b");

    ask(&a);
    release(&a);
    server_sql("UPDATE simba_mutex SET acquired_at = 1, ttl_at = %lld, "
               "transition_at = %lld, owner_id = 'jvm', version = version + 1 "
               "WHERE mutex LIKE '%.*s%%'",
               (long long)got.store_ms + 60000, (long long)got.store_ms + 60000,
               beginning(), mutex);
    ask(&b);
    expect_queued(true);
    assert_int_equal(try_run(&a, (simba_request){.kind = SIMBA_HAND_OVER}),
                     SIMBA_EINVAL);
    assert_non_null(strstr(why.message, "'jvm'"));
    assert_non_null(strstr(why.message, "cannot be asked"));
}

/* There is room for c, but for b, which came before and wants to be alone. When
 * that is gone c sees it by its backstop, though no wake-up comes. */
SQL_TEST(test_sql_slots__who_waits_for_one_that_waits_looks_again)
{
    struct who a = person(&first, "a"), b = person(&second, "b");
    struct who c = person(&third, "c");
    simba_request again;

    ask_slots(&a, 2);
    ask(&b);
    ask_slots(&c, 2);
    expect_queued(false);
    assert_in_range(got.wait_ms, 1, 2000);
    server_sql("DELETE FROM simba_line WHERE mutex LIKE '%.*s%%' AND id = 'b'",
               beginning(), mutex);
    again = asking(&c);
    again.slots = 2;
    again.is_backstop = true;
    run(&c, again);
    assert_true(got.mine);
}

/* --- tables and rights --------------------------------------------------- */

SQL_TEST(test_sql_slots__tables_of_an_older_make_are_to_be_upgraded)
{
    struct who a = person(&first, "a"), b = person(&second, "b");
    simba_request wish;

    look(&a);
    ask(&a);
    release(&a);
    server_sql("ALTER TABLE simba_line DROP COLUMN slots, DROP COLUMN rank");
    server_sql("ALTER TABLE simba_tenure DROP COLUMN asked");
    a = person(&first, "a");
    ask(&a);
    expect_mine(&a);
    ask(&b);
    expect_queued(true);
    release(&a);
    ask(&b);
    expect_mine(&b);
    release(&b);
    memset(&noted, 0, sizeof noted);
    run(&a, (simba_request){.kind = SIMBA_DOCTOR, .mutex = ""});
    assert_int_equal(finding("tables")->gravity, SIMBA_FINDING_NOTE);
    wish = asking(&a);
    wish.slots = 2;
    assert_int_equal(try_run(&a, wish), SIMBA_EMISCONFIG);
    assert_non_null(strstr(why.message, "simba init --upgrade"));
    run(&b, (simba_request){.kind = SIMBA_INIT, .mutex = "", .upgrade = true});
    a = person(&first, "a");
    ask_slots(&a, 2);
    expect_mine(&a);
    b = person(&second, "b");
    ask_slots(&b, 2);
    expect_mine(&b);
    memset(&noted, 0, sizeof noted);
    run(&a, (simba_request){.kind = SIMBA_DOCTOR, .mutex = ""});
    assert_int_equal(finding("tables")->gravity, SIMBA_FINDING_OK);
}

/* An owner that was there before the upgrade, and wants no slots, is asked to
 * hand over and learns of it: with its next session, or within a minute. */
SQL_TEST(test_sql_slots__who_was_there_before_the_upgrade_can_be_asked)
{
    struct simba__sql *self = (struct simba__sql *)first.backend;

    for (int i = 0; i < 2; i++) {
        struct who a = person(&first, "a"), b = person(&second, "b");
        struct who c = person(&second, "c"), admin = person(&third, "admin");

        ask(&b);
        server_sql("ALTER TABLE simba_line DROP COLUMN slots, "
                   "DROP COLUMN rank");
        server_sql("ALTER TABLE simba_tenure DROP COLUMN asked");
        ask(&a);
        expect_queued(true);
        release(&b);
        ask(&a);
        expect_mine(&a);
        ask(&c);
        run(&admin,
            (simba_request){.kind = SIMBA_INIT, .mutex = "", .upgrade = true});
        run(&admin, (simba_request){.kind = SIMBA_HAND_OVER});
        assert_string_equal(got.to, "c");
        simba_loop_enter(first.loop);
        for (int k = 0; i == 0 && k < SIMBA__SQL_SESSIONS; k++) {
            if (self->sessions[k] != NULL) {
                simba__sql_session_close(self->sessions[k]);
            }
        }
        simba_loop_leave(first.loop);
        if (i == 1) { /* a minute goes by */
            self->look_for_slots_ms = simba_loop_now_ms();
        }
        renew(&a);
        expect_mine(&a);
        assert_string_equal(got.asked, "@");
        release(&a);
        ask(&c);
        release(&c);
    }
}

/* Rows are read as what was asked for: if another request has noted meanwhile
 * that simba_mutex is of an older make, this one begins anew, and learns better
 * here. */
SQL_TEST(test_sql_slots__what_is_noted_meanwhile_is_not_decided_upon)
{
    struct simba__sql *self = (struct simba__sql *)first.backend;
    struct who a = person(&second, "a"), b = person(&first, "b");
    simba_request request = asking(&b);

    ask_slots(&a, 2);
    expect_mine(&a);
    request.slots = 2;
    fill_request(&b, &request);
    server_hold(LOCK_SLOT);
    handle_start(&first, &request);
    nap_ms(300); /* it is held up by now, if all goes well */
    simba_loop_enter(first.loop);
    self->has_no_quiet = self->has_no_token = true;
    simba_loop_leave(first.loop);
    server_let_go();
    if (handle_join(&first, &request, &why) != SIMBA_OK) {
        fail_msg("%s", why.message);
    }
    assert_true(request.reply.mine);
    assert_true(request.reply.token > a.token);
    assert_false(self->has_no_token);
}

/* simba_slot is made when it is needed, in databases that are in use. */
SQL_TEST(test_sql_slots__their_table_is_made_on_first_use)
{
    struct who a = person(&first, "a");

    ask(&a);
    release(&a);
    server_sql("DROP TABLE simba_slot");
    a = person(&first, "a");
    ask(&a);
    expect_mine(&a);
    release(&a);
    memset(&noted, 0, sizeof noted);
    run(&a, (simba_request){.kind = SIMBA_DOCTOR, .mutex = ""});
    assert_int_equal(finding("tables")->gravity, SIMBA_FINDING_NOTE);
    assert_non_null(strstr(finding("tables")->text, "simba_slot"));
    assert_non_null(strstr(finding("tables")->text, "simba init"));
    a = person(&first, "a");
    ask_slots(&a, 2);
    expect_mine(&a);
    assert_int_equal(count_rows(), 1);
}

/* An account that was given the tables of before has exclusive mutexes. */
#ifdef SERVER_IS_POSTGRES
#define POOR "poor"
#else
#define POOR "poor@localhost"
#endif

SQL_TEST(test_sql_slots__a_missing_right_is_told)
{
    static const char *const tables[] = {"mutex", "tenure", "line",
                                         "tombstone"};
    struct who a = person(&first, "a");
    struct handle handle;
    struct who poor = person(&handle, "poor");
    simba_request wish;

    ask(&a);
    release(&a);
    server_make_account("poor", "right");
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        server_sql("GRANT SELECT, INSERT, UPDATE, DELETE ON simba_%s TO " POOR,
                   tables[i]);
    }
    assert_int_equal(
        try_open(&handle, server_url("poor:right", SERVER_DATABASE)), SIMBA_OK);
    ask(&poor);
    expect_mine(&poor);
    release(&poor);
    poor = person(&handle, "poor");
    wish = asking(&poor);
    wish.slots = 2;
    assert_int_equal(try_run(&poor, wish), SIMBA_EDENIED);
    assert_non_null(strstr(why.message, "simba_slot"));
    assert_non_null(strstr(why.message, "GRANT"));
#ifdef SERVER_IS_POSTGRES /* MariaDB does not show it such a table */
    memset(&noted, 0, sizeof noted);
    run(&poor, (simba_request){.kind = SIMBA_DOCTOR, .mutex = ""});
    assert_int_equal(finding("rights")->gravity, SIMBA_FINDING_NOTE);
    assert_non_null(strstr(finding("rights")->text, "simba_slot"));
#endif
    handle_close(&handle);
}

/* --- statements ---------------------------------------------------------- */

/* Those who want it alone pay nothing for those who do not. */
SQL_TEST(test_sql_slots__exclusive_mutexes_take_the_statements_they_took)
{
    struct who a = person(&first, "a"), b = person(&first, "b");

    ask(&a);
    release(&a);
    note_statements(&first);
    a = person(&first, "a");
    ask(&a);
    EXPECT_SENT(SIMBA__SQL_QUIET_ACQUIRE);
    nap_ms(2); /* so that it makes the lease end later */
    renew(&a);
    EXPECT_SENT(SIMBA__SQL_QUIET_RENEW);
    ask(&b); /* and again, when it can be notified */
    EXPECT_SENT(SIMBA__SQL_QUIET_ACQUIRE, SIMBA__SQL_LOAD, SIMBA__SQL_LOAD,
                SIMBA__SQL_APPLY);
    nap_ms(2);
    renew(&a);
    EXPECT_SENT(SIMBA__SQL_FAST_RENEW);
    release(&a);
    EXPECT_SENT(SIMBA__SQL_LOAD, SIMBA__SQL_APPLY);
    ask(&b);
    EXPECT_SENT(SIMBA__SQL_FAST_ACQUIRE);
    release(&b);
    EXPECT_SENT(SIMBA__SQL_LOAD, SIMBA__SQL_APPLY);
    a = person(&first, "a");
    ask(&a);
    EXPECT_SENT(SIMBA__SQL_QUIET_ACQUIRE);
    look(&a);
    EXPECT_SENT(SIMBA__SQL_LOAD);
    release(&a);
    EXPECT_SENT(SIMBA__SQL_QUIET_RELEASE);
    note_no_more(&first);
}

static struct who far, near;

/* Others come and go while an answer is under way. */
static void *come_and_go(void *statement)
{
    (void)statement;
    ask_slots(&near, 3);
    release(&near);
    near = person(&second, "near");
    return NULL;
}

/* Who is far from the server keeps its slot beside many who are near. */
SQL_TEST(test_sql_slots__a_renewal_is_not_held_up_by_who_comes_and_goes)
{
    far = person(&first, "far");
    near = person(&second, "near");
    ask_slots(&far, 3);
    nap_ms(2);
    note_statements(&first);
    before_send = come_and_go;
    renew_slots(&far, 3);
    expect_mine(&far);
    assert_int_equal(got.token, far.token);
    assert_int_equal(got.slot, 0);
    assert_int_equal(got.slots, 3);
    assert_int_equal(got.owned, 1);
    EXPECT_SENT(SIMBA__SQL_SLOT_RENEW);
    note_no_more(&first);
}

/* What is written goes by what was read before the renewal of another. */
static int64_t renewed_until_ms;

static void *renew_before_apply(void *statement)
{
    if (*(enum simba__sql_statement *)statement == SIMBA__SQL_APPLY_SLOTS) {
        before_send = NULL;
        nap_ms(2);
        renew_slots(&far, 3);
        expect_mine(&far);
        renewed_until_ms = got.owner.transition_at_ms;
    }
    return NULL;
}

SQL_TEST(test_sql_slots__a_renewal_holds_up_nobody_and_is_kept)
{
    near = person(&first, "near");
    far = person(&second, "far");
    near.ttl_ms *= 4; /* its lease ends last, so that it is shown */
    ask_slots(&near, 3);
    ask_slots(&far, 3);
    note_statements(&first);
    for (int i = 0; i < 2; i++) {
        before_send = renew_before_apply;
        if (i == 0) {
            release(&near);
        } else {
            near = person(&first, "near");
            ask_slots(&near, 3);
            expect_mine(&near);
            assert_int_equal(got.slot, 0);
        }
        EXPECT_SENT(SIMBA__SQL_LOAD, SIMBA__SQL_LOAD_SLOTS,
                    SIMBA__SQL_APPLY_SLOTS);
        assert_true(OF_MUTEX("transition_at", "simba_mutex") >=
                    renewed_until_ms);
    }
    note_no_more(&first);
}

/* A tenure that was read before it was renewed is not written as it was then.
 */
SQL_TEST(test_sql_slots__what_a_renewal_has_changed_is_read_again)
{
    struct who admin = person(&first, "admin");

    far = person(&second, "far");
    ask_slots(&far, 3);
    note_statements(&first);
    before_send = renew_before_apply;
    run(&admin, (simba_request){.kind = SIMBA_BREAK, .token = far.token});
    assert_true(got.mine);
    assert_int_equal(sent[sent_count - 1], SIMBA__SQL_APPLY_SLOTS);
    assert_int_equal(sent[sent_count - 2], SIMBA__SQL_LOAD_SLOTS);
    assert_int_equal(OF_MUTEX("transition_at", "simba_slot"), renewed_until_ms);
    note_no_more(&first);
}
