#include "kit/backoff.h"

#include "fixtures/unit_test.h"

#include <simba/sys/backend.h>

static void expect_wait(struct simba__backoff *backoff, int64_t wait_ms)
{
    int64_t before_ms = simba_loop_now_ms();
    int64_t at_ms = simba__backoff_until(backoff);

    assert_true(at_ms >= before_ms + wait_ms);
    assert_true(at_ms <= simba_loop_now_ms() + wait_ms);
}

TEST(test_backoff__doubles_up_to_its_bound_and_begins_anew)
{
    struct simba__backoff backoff = {.first_ms = 20, .most_ms = 100};

    expect_wait(&backoff, 20);
    expect_wait(&backoff, 40);
    expect_wait(&backoff, 80);
    expect_wait(&backoff, 100);
    expect_wait(&backoff, 100);
    simba__backoff_reset(&backoff);
    expect_wait(&backoff, 20);
}
