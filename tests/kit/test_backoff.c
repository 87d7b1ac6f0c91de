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

TEST(test_backoff__an_outage_is_told_at_once_and_each_minute)
{
    struct simba__outage outage = {0};

    assert_int_equal(simba__outage_news(&outage, 5000), 0);
    assert_int_equal(simba__outage_news(&outage, 5001), -1);
    assert_int_equal(simba__outage_news(&outage, 64999), -1);
    assert_int_equal(simba__outage_news(&outage, 65000), 60);
    assert_int_equal(simba__outage_news(&outage, 124999), -1);
    assert_int_equal(simba__outage_news(&outage, 126000), 121);
    outage.since_ms = 0; /* it was over */
    assert_int_equal(simba__outage_news(&outage, 126001), 0);
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
