/* Stores on database servers: what is written of a queue. */
#define _GNU_SOURCE
#include "driver.h"

/* S11: who has lapsed and stands behind others is still in the queue; who comes
 * anew is written all the same. */
SQL_TEST(test_sql_record__those_who_lapsed_keep_nobody_out)
{
    struct who a = person(&first, "a"), b = person(&second, "b"),
               c = person(&third, "c"), d = person(&third, "d"),
               e = person(&third, "e");

    ask(&a);
    expect_mine(&a);
    ask(&b);
    ask(&c);
    ask(&d);
    server_sql("UPDATE simba_line SET lapses_at = 1 WHERE id IN ('c', 'd')");
    ask(&e);
    expect_queued(false);
    assert_int_equal(
        server_sql("SELECT count(*) FROM simba_line WHERE id = 'e'"), 1);
    assert_int_equal(server_sql("SELECT count(*) FROM simba_line "
                                "WHERE id IN ('c', 'd') AND lapses_at = 1"),
                     2);
    release(&a);
    ask(&b);
    expect_mine(&b);
    release(&b);
    assert_string_equal(got.to, "e");
    ask(&e);
    expect_mine(&e);
}
