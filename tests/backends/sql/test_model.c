/* A store on a database server against the model in memory. */
#define _GNU_SOURCE
#include "driver.h"

#define SHARED_REQUESTS 1000
#include "fixtures/model_comparison.h"

SQL_TEST(test_sql_model__does_as_the_model_does)
{
    struct handle *handles[] = {&first, &second, &third, &first, &second};

    play_against_the_row(handles, 50, false);
}

SQL_TEST(test_sql_model__several_own_it_as_in_the_model)
{
    struct handle *handles[] = {&first, &second, &third, &first, &second};

    play_against_the_row(handles, 50, true);
}
