/* The SQLite store against the model in memory. */
#define _GNU_SOURCE
#include "driver.h"

#include "fixtures/model_comparison.h"

static void test_sqlite_model__does_as_the_row_does(void **state)
{
    struct handle *handles[] = {&first, &first, &first, &first, &first};

    (void)state;
    must_open(&first, "?synchronous=normal");
    play_against_the_row(handles, 25);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SQLITE_TEST(test_sqlite_model__does_as_the_row_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
