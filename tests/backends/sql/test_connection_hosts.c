/* Several servers by one URL: after a failover the first of them is a standby,
 * and the primary is another. */
#define _GNU_SOURCE
#include "driver.h"

/* Two directories with sockets: a server that takes no changes, and one that
 * does. */
static const char *url_of_both(const char *more)
{
    static char url[1024];

    snprintf(url, sizeof url, "postgres://simba@/postgres?host=%s,%s%s",
             getenv("SIMBA_STANDBY_DIR"), getenv("SIMBA_SERVER_DIR"), more);
    return url;
}

SQL_TEST(test_sql_connection_hosts__finds_the_one_that_takes_changes)
{
    struct handle handle;
    struct who a = person(&handle, "a");

    assert_int_equal(try_open(&handle, url_of_both("")), SIMBA_OK);
    ask(&a);
    expect_mine(&a);
    release(&a);
    handle_close(&handle);
}

/* What the URL says counts. */
SQL_TEST(test_sql_connection_hosts__takes_any_when_told)
{
    struct handle handle;
    struct who a = person(&handle, "a");

    assert_int_equal(
        try_open(&handle, url_of_both("&target_session_attrs=any")), SIMBA_OK);
    assert_int_equal(try_run(&a, asking(&a)), SIMBA_EMISCONFIG);
    assert_non_null(strstr(why.message, "read-only"));
    handle_close(&handle);
}
