/* How many acquires may be under way: by answers that are made up. */
#include "core/window.h"

#include "fixtures/unit_test.h"

enum { GIVEN_MS = 4000 };

/* Fills the window and lets all of them end after so long. */
static void fill_once(struct simba__window *w, int64_t took_ms, bool is_wanted)
{
    unsigned count = 0;

    while (!simba__window_is_full(w)) {
        simba__window_sent(w);
        count++;
    }
    while (count-- > 0) {
        simba__window_ended(w, took_ms, GIVEN_MS, is_wanted);
    }
    assert_int_equal(w->under_way, 0);
}

TEST(test_window__grows_while_answers_come_early)
{
    struct simba__window w;

    simba__window_init(&w);
    fill_once(&w, 10, true);
    assert_int_equal(w.size, 2 * SIMBA__WINDOW_FIRST);
    for (int i = 0; i < 10; i++) {
        fill_once(&w, 10, true);
    }
    assert_int_equal(w.size, SIMBA__WINDOW_MOST);
}

TEST(test_window__answers_that_nobody_waited_for_say_nothing)
{
    struct simba__window w;

    simba__window_init(&w);
    fill_once(&w, 10, false);
    assert_int_equal(w.size, SIMBA__WINDOW_FIRST);
}

TEST(test_window__halves_once_for_all_that_were_late_together)
{
    struct simba__window w;

    simba__window_init(&w);
    fill_once(&w, GIVEN_MS, true);
    assert_int_equal(w.size, SIMBA__WINDOW_FIRST / 2);
    for (int i = 0; i < 10; i++) {
        fill_once(&w, GIVEN_MS, true);
    }
    assert_int_equal(w.size, SIMBA__WINDOW_LEAST);
}

TEST(test_window__grows_by_one_a_round_once_it_was_late)
{
    struct simba__window w;

    simba__window_init(&w);
    fill_once(&w, GIVEN_MS, true);
    for (int i = 0; i < 5; i++) {
        unsigned before = w.size;

        fill_once(&w, 10, true);
        assert_in_range(w.size, before, before + 1);
    }
    assert_true(w.size > SIMBA__WINDOW_FIRST / 2);
}
