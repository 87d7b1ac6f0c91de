/* A store on a database server against the row in memory. */
#define _GNU_SOURCE
#include "driver.h"

#include "fixtures/model_comparison.h"

static void test_sql_model__does_as_the_row_does(void **state)
{
    struct handle *handles[] = {&first, &second, &third, &first, &second};

    (void)state;
    play_against_the_row(handles, 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SQL_TEST(test_sql_model__does_as_the_row_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
