/* Stores on database servers: a mutex that nobody waits for, of which one row
 * says it all, and those who do not know that. */
#define _GNU_SOURCE
#include "driver.h"

/* What the names of this test's mutex, and of no other, begin with: what comes
 * after would have to be quoted. */
static int beginning(void)
{
    return (int)strcspn(mutex, " ") + 1;
}

static bool is_quiet(void)
{
    return server_sql("SELECT count(*) FROM simba_mutex m, simba_tenure t "
                      "WHERE m.mutex LIKE '%.*s%%' AND t.mutex = m.mutex "
                      "AND m.quiet = m.version AND t.version = -2",
                      beginning(), mutex) == 1;
}

SQL_TEST(test_sql_request_quiet__until_somebody_waits)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");
    uint64_t before;

    ask(&a);
    assert_true(is_quiet());
    before = a.token;
    release(&a);
    a = person(&first, "a");
    ask(&a);
    expect_mine(&a);
    assert_true(is_quiet());
    assert_true(a.token > before);
    ask(&b);
    expect_queued(true);
    assert_string_equal(got.owner.id, "a");
    assert_int_equal(got.owner.token, a.token);
    assert_false(is_quiet());
    renew(&a);
    expect_mine(&a);
    release(&a);
    ask(&b);
    expect_mine(&b);
    release(&b);
    assert_true(is_quiet());
}

/* S5: what is late does nothing to those who came after. */
SQL_TEST(test_sql_request_quiet__late_ones_change_nothing)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");

    ask(&a);
    release(&a);
    ask(&b);
    expect_mine(&b);
    release(&a);
    renew(&a);
    assert_false(got.mine);
    renew(&b);
    expect_mine(&b);
    ask(&b); /* the answer was lost: asked again */
    expect_mine(&b);
    assert_int_equal(got.token, b.token);
    assert_true(is_quiet());
}

/* Another implementation takes it over when its time is up. */
SQL_TEST(test_sql_request_quiet__not_for_others)
{
    struct who a = person(&first, "a");
    struct who late;

    ask(&a);
    release(&a);
    late = a = person(&first, "a");
    ask(&a);
    late.token = a.token;
    server_sql("UPDATE simba_mutex SET owner_id = 'jvm', "
               "version = version + 1 WHERE mutex LIKE '%.*s%%'",
               beginning(), mutex);
    renew(&late);
    assert_false(got.mine);
    release(&late);
    look(&a);
    assert_string_equal(got.owner.id, "jvm");
    assert_false(is_quiet());
}

/* A renewal that is held up behind a later one, which is 900 ms ahead of it. */
static int renew_late(struct who *who, simba_request *request)
{
    struct who other = person(&second, "other");

    server_hold("UPDATE simba_mutex SET ttl_at = ttl_at + 900, "
                "transition_at = transition_at + 900 WHERE mutex LIKE '%.*s%%'",
                beginning(), mutex);
    *request = (simba_request){.kind = SIMBA_RENEW};
    fill_request(who, request);
    handle_start(&first, request);
    nap_ms(200);
    look(&other);
    server_commit();
    return handle_join(&first, request, &why);
}

/* S1: a renewal goes on with the time at which it came to the server. If it was
 * held up there meanwhile, it must not take back what a later one has given. */
static void renew_behind_another(bool is_quick)
{
    struct who a = person(&first, "a"), b = person(&second, "b");
    simba_request request;
    int status = SIMBA_EUNAVAIL;

    ask(&a);
    if (!is_quick) {
        ask(&b);
        renew(&a); /* the quick one is not worth trying from now on */
    }
    for (int i = 0; i < 5 && status == SIMBA_EUNAVAIL; i++) {
        status = renew_late(&a, &request); /* or it was held up for too long */
    }
    assert_int_equal(status, SIMBA_OK);
    assert_true(request.reply.mine);
    assert_true(server_sql("SELECT transition_at FROM simba_mutex "
                           "WHERE mutex LIKE '%.*s%%'",
                           beginning(),
                           mutex) >= got.store_ms + a.ttl_ms + a.transition_ms);
}

SQL_TEST(test_sql_request_quiet__late_renewal_takes_nothing_back)
{
    renew_behind_another(true);
}

SQL_TEST(test_sql_request_quiet__neither_does_one_who_is_waited_for)
{
    renew_behind_another(false);
}

static void forget_what_is_ours(void)
{
    server_sql("ALTER TABLE simba_mutex DROP COLUMN attempt, "
               "DROP COLUMN former, DROP COLUMN quiet");
}

/* Who was there before the table was upgraded learns of it in time. */
SQL_TEST(test_sql_request_quiet__is_learnt_after_an_upgrade)
{
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");

    ask(&a);
    release(&a);
    server_sql("UPDATE simba_tenure SET version = 0 WHERE mutex LIKE '%.*s%%'",
               beginning(), mutex);
    forget_what_is_ours();
    a = person(&first, "a");
    ask(&a);
    expect_mine(&a);
    release(&a);
    /* It looked as if a JVM contender had been there: ten leases ago, then. */
    server_sql("DELETE FROM simba_line WHERE id = '@'");
    run(&b, (simba_request){.kind = SIMBA_INIT, .mutex = "", .upgrade = true});
    for (int i = 0; i < 2; i++) { /* the second time it is quiet */
        b = person(&second, "b");
        ask(&b);
        expect_mine(&b);
        assert_true(is_quiet());
        if (i == 0) {
            release(&b);
        }
    }
    a = person(&first, "a");
    ask(&a);
    expect_queued(true);
    assert_int_equal(got.owner.token, b.token);
    renew(&b);
    expect_mine(&b);
    release(&b);
}

/* S4: a table of an older make than what is known of its tenures, from a backup
 * perhaps, would bring old tokens again. */
SQL_TEST(test_sql_request_quiet__an_older_table_is_refused)
{
    struct who a = person(&first, "a");

    ask(&a);
    release(&a);
    forget_what_is_ours();
    assert_int_equal(try_run(&a, asking(&a)), SIMBA_EMISCONFIG);
    assert_non_null(strstr(why.message, "init --upgrade"));
    run(&a, (simba_request){.kind = SIMBA_INIT, .mutex = "", .upgrade = true});
    ask(&a);
    expect_mine(&a);
}

/* Acquires of three mutexes at once, by sessions of their own. */
static void ask_for_three(struct who *people, int round)
{
    static char names[3][80];
    simba_request requests[3];

    for (int i = 0; i < 3; i++) {
        snprintf(names[i], sizeof names[i], "%s %d.%d", mutex, round, i);
        people[i] = person(&first, "a");
        requests[i] = asking(&people[i]);
        requests[i].mutex = names[i];
        fill_request(&people[i], &requests[i]);
        handle_start(&first, &requests[i]);
    }
    nap_ms(round == 0 ? 0 : 300); /* all are held up by now, if all goes well */
    server_let_go();
    for (int i = 0; i < 3; i++) {
        int status = handle_join(&first, &requests[i], &why);

        if (status == SIMBA_EUNAVAIL) { /* held up too long */
            status = handle_run(&first, &requests[i], &why);
        }
        if (status != SIMBA_OK) {
            fail_msg("%s", why.message);
        }
        assert_true(requests[i].reply.mine);
        people[i].token = requests[i].reply.token;
    }
}

/* S4: that one column is missing, told by several at once, says nothing of the
 * other: tokens stay what they are. */
SQL_TEST(test_sql_request_quiet__what_is_missing_is_noted_once)
{
    struct who people[3];

    ask_for_three(people, 0); /* there are three sessions now */
    forget_what_is_ours();
    server_hold(LOCK_MUTEX);
    ask_for_three(people, 1);
    for (int i = 0; i < 3; i++) {
        assert_true(people[i].token > (uint64_t)INT32_MAX);
    }
    run(&people[0],
        (simba_request){.kind = SIMBA_INIT, .mutex = "", .upgrade = true});
}

/* S4: what others have made of the tables beside it says nothing of
 * simba_mutex: tokens stay what they are. */
SQL_TEST(test_sql_request_quiet__foreign_tables_beside_it_say_nothing_of_it)
{
    struct simba__sql *self = (struct simba__sql *)first.backend;
    struct who a = person(&first, "a");

    ask(&a);
    server_sql("ALTER TABLE simba_told DROP COLUMN until_at");
    server_sql("ALTER TABLE simba_broken DROP COLUMN reason");
    for (int i = 0; i < 4; i++) {
        enum simba_request_kind kinds[] = {SIMBA_TELL, SIMBA_TOLD, SIMBA_BREAKS,
                                           SIMBA_BREAK};

        assert_int_equal(
            try_run(&a, (simba_request){.kind = kinds[i], .reason = "told"}),
            SIMBA_EMISCONFIG);
        assert_false(self->has_no_quiet);
        assert_false(self->has_no_token);
    }
    renew(&a);
    expect_mine(&a); /* no break without its audit */
    release(&a);
    server_sql("DROP TABLE simba_told");
    server_sql("DROP TABLE simba_broken");
    a = person(&first, "a");
    ask(&a);
    assert_true(is_quiet());
    run(&a, (simba_request){.kind = SIMBA_TELL, .reason = "told"});
    run(&a, (simba_request){.kind = SIMBA_BREAK, .reason = "it hangs"});
}

static char pair[2][80]; /* names of two mutexes */

static void name_pair(void)
{
    snprintf(pair[0], sizeof pair[0], "%s one", mutex);
    snprintf(pair[1], sizeof pair[1], "%s two", mutex);
}

static void run_for(struct who *who, const char *name, simba_request request)
{
    request.mutex = name;
    run(who, request);
    who->token = got.mine ? got.token : who->token;
}

/* Two renewals whose mutexes are being read at the same time. */
static void renew_pair(struct who *owners)
{
    simba_request requests[2];

    server_hold(LOCK_LINE);
    for (int i = 0; i < 2; i++) {
        requests[i] = (simba_request){.kind = SIMBA_RENEW, .mutex = pair[i]};
        fill_request(&owners[i], &requests[i]);
        handle_start(&first, &requests[i]);
    }
    nap_ms(300); /* both are held up by now, if all goes well */
    server_let_go();
    for (int i = 0; i < 2; i++) {
        int status = handle_join(&first, &requests[i], &why);

        if (status == SIMBA_EUNAVAIL) { /* held up too long */
            status = handle_run(&first, &requests[i], &why);
        }
        assert_int_equal(status, SIMBA_OK);
        assert_true(requests[i].reply.mine);
        assert_int_equal(requests[i].reply.token, owners[i].token);
    }
}

/* An answer is read as what was asked, whatever was learnt since: an owner that
 * does not would take the mutex for another's, and think that it has lost it.
 */
SQL_TEST(test_sql_request_quiet__two_learn_of_it_at_once)
{
    struct who owners[2] = {person(&first, "a"), person(&first, "b")};

    name_pair();
    run_for(&owners[0], mutex, asking(&owners[0]));
    forget_what_is_ours();
    for (int i = 0; i < 2; i++) {
        owners[i] = person(&first, "a");
        run_for(&owners[i], pair[i], asking(&owners[i]));
        assert_true(got.mine);
    }
    run(&owners[0],
        (simba_request){.kind = SIMBA_INIT, .mutex = "", .upgrade = true});
    for (int i = 0; i < 2; i++) { /* who knows it makes it quiet */
        struct who guest = person(&second, "c");

        run_for(&guest, pair[i], asking(&guest));
        assert_true(got.is_queued);
        run_for(&guest, pair[i], (simba_request){.kind = SIMBA_LEAVE});
    }
    renew_pair(owners);
}
