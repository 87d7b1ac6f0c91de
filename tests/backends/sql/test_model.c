/* A store on a database server against the model in memory. */
#define _GNU_SOURCE
#include "driver.h"

#include <string.h>

/* Each release is tried by one statement first, as if the last ones had come to
 * an offer. */
static void try_offers(void)
{
    struct handle *handles[] = {&first, &second, &third};

    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++) {
        struct simba__sql *self = (struct simba__sql *)handles[i]->backend;

        memset(self->offers, UINT8_MAX, sizeof self->offers);
    }
}

#define BEFORE_REQUEST  try_offers
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
