/* The schedule machine in random histories, watched by a checker of its own. */
#include "schedule_driver.h"

/* Random histories. The checker keeps its own books: from the events it fed
 * and the updates it got, never from the fields of the machine. */

struct history {
    uint64_t random;
    struct simba__schedule_config config;
    int64_t now;
    bool aligned;
    int64_t offset;
    bool owned;
    bool working;
    uint64_t token;
    uint64_t run;
    int64_t first;       /* first beat of the tenure, by the grid's clock */
    int64_t last;        /* last beat that ran in the tenure */
    uint64_t ran;        /* beats of the tenure that ran */
    uint64_t skipped;    /* beats of the tenure reported as skipped */
    int64_t not_before;  /* fixed delay: no run is due before this */
    uint64_t total_runs; /* so that the test can tell that it tested */
    uint64_t total_skipped;
};

static uint64_t draw(struct history *h, uint64_t bound)
{
    uint64_t x = h->random += UINT64_C(0x9E3779B97F4A7C15);

    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (x ^ (x >> 31)) % bound;
}

static int64_t grid_time(const struct history *h)
{
    return h->now + h->offset;
}

static bool is_rate(const struct history *h)
{
    return h->config.kind == SIMBA__SCHEDULE_FIXED_RATE;
}

static void check_run(struct history *h)
{
    assert_true(h->owned);
    assert_false(h->working);
    assert_int_equal(up.token, h->token);
    assert_int_equal(up.run, h->run + 1);
    assert_true(up.beat_ms <= grid_time(h));
    if (is_rate(h)) {
        assert_int_equal((up.beat_ms - h->first) % h->config.period_ms, 0);
        assert_true(up.beat_ms >= h->first);
        assert_true(h->ran == 0 || up.beat_ms > h->last);
        assert_true(grid_time(h) - up.beat_ms < h->config.period_ms);
    } else {
        assert_int_equal(up.beat_ms, h->not_before);
    }
    h->working = true;
    h->run = up.run;
    h->last = up.beat_ms;
    h->ran++;
    h->total_runs++;
}

/* Every beat up to now has either run or been reported, and none twice. The
 * beat of this very instant may go either way. */
static void check_beats_add_up(const struct history *h)
{
    int64_t now = grid_time(h);
    int64_t period = h->config.period_ms;
    uint64_t before =
        now > h->first ? (uint64_t)((now - h->first - 1) / period + 1) : 0;
    bool ran_now = h->ran > 0 && h->last == now;

    assert_int_equal(h->ran + h->skipped, before + (ran_now ? 1 : 0));
}

static void feed(struct history *h, struct simba__schedule_event event)
{
    event.now_ms = h->now;
    simba__schedule_step(&machine, &event, &up);
    h->skipped += up.skipped;
    h->total_skipped += up.skipped;
    if ((up.flags & SIMBA__SCHEDULE_RUN) != 0) {
        check_run(h);
    }
    assert_int_equal(simba__schedule_is_working(&machine), h->working);
    if (!h->owned || h->working) {
        expect_wake_at(NEVER);
    } else {
        assert_true(simba__schedule_wake_at(&machine) > h->now);
    }
}

static void feed_acquired(struct history *h)
{
    struct simba__schedule_event event = {.type = SIMBA__SCHEDULE_ACQUIRED};

    event.aligned = draw(h, 2) == 0;
    event.store_offset_ms = (int64_t)draw(h, 20000) - 10000;
    event.token = ++h->token;
    h->owned = true;
    h->aligned = event.aligned && is_rate(h);
    h->offset = h->aligned ? event.store_offset_ms : 0;
    h->first = grid_time(h) + h->config.initial_delay_ms;
    while (h->aligned && h->first % h->config.period_ms != 0) {
        h->first++;
    }
    h->not_before = h->first;
    h->ran = 0;
    h->skipped = 0;
    feed(h, event);
}

static void feed_released(struct history *h)
{
    struct simba__schedule_event event = {.type = SIMBA__SCHEDULE_RELEASED};
    bool was_owned = h->owned;
    bool of_this_tenure = h->owned && h->working && h->ran > 0;

    h->owned = false;
    feed(h, event);
    assert_int_equal(up.flags, of_this_tenure ? SIMBA__SCHEDULE_STOP_WORK : 0);
    if (of_this_tenure) {
        expect_stop(h->run, h->token);
    }
    if (was_owned && is_rate(h)) {
        check_beats_add_up(h);
    }
    h->offset = 0;
    h->aligned = false;
}

static void feed_done(struct history *h)
{
    struct simba__schedule_event event = {.type = SIMBA__SCHEDULE_DONE};

    h->working = false;
    if (h->owned && h->ran > 0) { /* else it is work of an earlier tenure */
        h->not_before = h->now + h->config.period_ms;
    }
    feed(h, event);
}

static void feed_offset(struct history *h)
{
    struct simba__schedule_event event = {.type = SIMBA__SCHEDULE_OFFSET};

    /* Only forward: a step back makes beats come again, which "add up" does
     * not know of. */
    event.store_offset_ms = h->offset + (int64_t)draw(h, 30);
    if (h->aligned) {
        h->offset = event.store_offset_ms;
    }
    feed(h, event);
}

/* A timer on time must start the work, one a millisecond early must not. */
static void feed_timer(struct history *h)
{
    struct simba__schedule_event event = {.type = SIMBA__SCHEDULE_TIMER};
    int64_t wake_at = simba__schedule_wake_at(&machine);

    if (wake_at != NEVER && draw(h, 2) == 0) {
        h->now = wake_at - 1;
        feed(h, event);
        assert_int_equal(up.flags, 0);
        h->now = wake_at;
    }
    feed(h, event);
    assert_int_equal(up.flags, wake_at <= h->now ? SIMBA__SCHEDULE_RUN : 0);
}

static void feed_random(struct history *h)
{
    h->now += (int64_t)draw(h, draw(h, 8) == 0 ? 400 : 40);
    switch (draw(h, 8)) {
    case 0:
        feed_released(h); /* sometimes of what is not owned */
        break;
    case 1:
        if (!h->owned) {
            feed_acquired(h);
        }
        break;
    case 2:
    case 3:
    case 4:
        if (h->working) {
            feed_done(h);
        }
        break;
    case 5:
        feed_offset(h);
        break;
    default:
        feed_timer(h);
        break;
    }
}

static void start_history(struct history *h, uint64_t seed)
{
    memset(h, 0, sizeof *h);
    h->random = seed;
    h->config.kind = draw(h, 2) == 0 ? SIMBA__SCHEDULE_FIXED_RATE
                                     : SIMBA__SCHEDULE_FIXED_DELAY;
    h->config.initial_delay_ms = draw(h, 2) == 0 ? 0 : (int64_t)draw(h, 150);
    h->config.period_ms = (int64_t)draw(h, 100) + (is_rate(h) ? 1 : 0);
    h->now = (int64_t)draw(h, 2000) - 1000;
    simba__schedule_init(&machine, &h->config);
}

TEST(test_schedule_history__random_histories_keep_the_rules)
{
    uint64_t runs = 0;
    uint64_t skipped = 0;

    for (uint64_t seed = 1; seed <= 2000; seed++) {
        struct history h;

        start_history(&h, seed);
        for (int i = 0; i < 200; i++) {
            feed_random(&h);
        }
        runs += h.total_runs;
        skipped += h.total_skipped;
    }
    assert_true(runs > 10000); /* a checker that saw nothing proves nothing */
    assert_true(skipped > 10000);
}
