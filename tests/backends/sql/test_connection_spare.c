/* Sessions that were opened for a rush and are not needed any more. */
#define _GNU_SOURCE
#include "driver.h"

#include <sys/resource.h>

enum { RUSH = 5 };

/* Owners whose rows somebody else has locked. */
struct rush {
    struct who owners[RUSH];
    simba_request renewals[RUSH];
    char names[RUSH][96];
};

static void acquire_all(struct rush *rush)
{
    for (int i = 0; i < RUSH; i++) {
        simba_request request;

        rush->owners[i] = person(&first, "owner");
        snprintf(rush->names[i], sizeof rush->names[i], "%s %d", mutex, i);
        request = asking(&rush->owners[i]);
        request.mutex = rush->names[i];
        run(&rush->owners[i], request);
        rush->owners[i].token = got.token;
    }
}

/* Each renewal waits in a session of its own. */
static void renew_at_once(struct rush *rush)
{
    server_hold("SELECT 1 FROM simba_mutex WHERE owner_id = 'owner' "
                "FOR UPDATE");
    for (int i = 0; i < RUSH; i++) {
        rush->renewals[i] =
            (simba_request){.kind = SIMBA_RENEW, .mutex = rush->names[i]};
        fill_request(&rush->owners[i], &rush->renewals[i]);
        handle_start(&first, &rush->renewals[i]);
    }
    for (int i = 0; i < RUSH; i++) { /* refused: the lock was in the way */
        (void)handle_join(&first, &rush->renewals[i], &why);
    }
    server_let_go();
}

static void await_sessions(int64_t count)
{
    int64_t until_ms = simba_loop_now_ms() + 2 * PATIENCE_MS;

    while (server_count_sessions() != count) {
        if (simba_loop_now_ms() > until_ms) {
            fail_msg("there are still %lld sessions",
                     (long long)server_count_sessions());
        }
        nap_ms(100);
    }
}

SQL_TEST(test_sql_connection_spare__are_closed)
{
    static struct rush rush;
    struct who a = person(&first, "a");
    struct who b = person(&second, "b");

    acquire_all(&rush);
    ask(&a);
    ask(&b);
    expect_queued(true);
    renew_at_once(&rush);
    assert_true(server_count_sessions() >= RUSH);
    /* One of each handle, and the notify session. */
    await_sessions(3);
    renew(&a);
    expect_mine(&a);
    handle_woken(&second, mutex, 0);
    release(&a);
    assert_true(handle_woken(&second, mutex, PATIENCE_MS));
    ask(&b);
    expect_mine(&b);
}

/* Whichever of the descriptors of a connection is the one too many. */
SQL_TEST(test_sql_connection_spare__waits_for_descriptors)
{
    struct who a = person(&first, "a");
    struct rlimit all, few;
    int lowest = dup(0);

    close(lowest);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &all), 0);
    ask(&a);
    expect_mine(&a);
    for (int i = 0; i < 12; i++) {
        simba_request request = {.kind = SIMBA_RENEW,
                                 .deadline_ms = simba_loop_now_ms() + 300};

        server_kill_sessions();
        few = (struct rlimit){(rlim_t)(lowest + i), all.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        (void)try_run(&a, request);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &all), 0);
        renew_in_the_end(&a);
    }
}
