/* The SQLite store against the model in memory. */
#define _GNU_SOURCE
#include "driver.h"

#define SPARE_MS(waiter_ms) ((waiter_ms) / 2)
#define LEFT_MS(waiter_ms)  (waiter_ms)
#include "fixtures/model_comparison.h"

SQLITE_TEST(test_sqlite_model__does_as_the_model_does)
{
    struct handle *handles[] = {&first, &first, &first, &first, &first};

    must_open(&first, "?synchronous=normal");
    play_against_the_row(handles, 25, false);
}

SQLITE_TEST(test_sqlite_model__several_own_it_as_in_the_model)
{
    struct handle *handles[] = {&first, &first, &first, &first, &first};

    must_open(&first, "?synchronous=normal");
    play_against_the_row(handles, 25, true);
}
