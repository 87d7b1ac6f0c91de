/* Names of servers, and a name server that does not answer: who has a session
 * goes on. */
#define _GNU_SOURCE
#include "driver.h"

#include "fixtures/name_server.h"

#include <stdatomic.h>

#ifdef SERVER_IS_POSTGRES
#define URL "postgres://simba@db.example:%s/postgres?sslmode=disable"
#else
#define URL "mysql://simba@db.example:%s/simba?option_file=/dev/null&tls=off"
#endif

enum { STUCK_MS = 30000 };

static _Atomic bool is_stuck, is_unknown;
static _Atomic int asked;

/* It takes its time while it is stuck. */
static int be_asked_for_name(void)
{
    atomic_fetch_add(&asked, 1);
    for (int i = 0; i < STUCK_MS && atomic_load(&is_stuck); i += 10) {
        nap_ms(10);
    }
    return atomic_load(&is_unknown) || atomic_load(&is_stuck) ? EAI_AGAIN : 0;
}

static int open_by_name(void **state)
{
    char url[256];

    (void)state;
    set_up(NULL);
    handle_close(&first);
    snprintf(url, sizeof url, URL, getenv("SIMBA_SERVER_PORT"));
    assert_int_equal(try_open(&first, url), SIMBA_OK);
    return 0;
}

static int close_all(void **state)
{
    atomic_store(&is_stuck, false);
    atomic_store(&is_unknown, false);
    return tear_down(state);
}

#define NAMES_TEST(test) TEST_AROUND(test, open_by_name, close_all)

NAMES_TEST(test_sql_connection_names__a_name_leads_to_the_server)
{
    struct who a = person(&first, "a");

    ask(&a);
    expect_mine(&a);
    assert_true(atomic_load(&asked) > 0);
}

NAMES_TEST(test_sql_connection_names__says_that_a_name_is_not_known)
{
    struct who a = person(&first, "a");

    atomic_store(&is_unknown, true);
    assert_int_equal(try_run(&a, asking(&a)), SIMBA_EUNAVAIL);
    assert_non_null(strstr(why.message, "db.example"));
    assert_non_null(strstr(why.message, gai_strerror(EAI_AGAIN)));
}

/* The one session is busy with a row that is locked, so another is opened, in
 * vain; when the first has given up, the second renewal has its turn. */
NAMES_TEST(test_sql_connection_names__a_stuck_name_server_holds_up_no_renewal)
{
    struct who a = person(&first, "a");
    struct who b = person(&first, "b");
    simba_request ask_other = asking(&b);
    simba_request held = {.kind = SIMBA_RENEW};
    int before;

    ask_other.mutex = "another";
    ask(&a);
    run(&b, ask_other);
    b.token = got.token;
    server_hold("SELECT 1 FROM simba_mutex WHERE owner_id = 'a' FOR UPDATE");
    fill_request(&a, &held);
    before = atomic_load(&asked);
    atomic_store(&is_stuck, true);
    handle_start(&first, &held);
    run(&b, (simba_request){.kind = SIMBA_RENEW, .mutex = "another"});
    assert_true(got.mine);
    assert_true(atomic_load(&is_stuck)); /* it has not answered yet */
    while (atomic_load(&asked) == before) {
        nap_ms(5); /* its thread may not have come to it */
    }
    (void)handle_join(&first, &held, &why);
    server_let_go();
}

/* Closing does not wait for it either. */
NAMES_TEST(test_sql_connection_names__a_stuck_name_server_holds_up_no_close)
{
    struct who a = person(&first, "a");
    simba_request request = asking(&a);
    int64_t began_ms = simba_loop_now_ms();

    atomic_store(&is_stuck, true);
    request.deadline_ms = began_ms + 100;
    assert_int_equal(try_run(&a, request), SIMBA_EUNAVAIL);
    handle_close(&first);
    assert_true(simba_loop_now_ms() - began_ms < STUCK_MS / 2);
    must_open(&first);
}
