#include "core/window.h"

#include <assert.h>

/* A renewal has no more time than an acquire, and queues at the store behind
 * those that are under way: an answer that takes a quarter of its time is
 * late. */
enum { LATE = 4 };

void simba__window_init(struct simba__window *window)
{
    *window = (struct simba__window){.size = SIMBA__WINDOW_FIRST};
}

bool simba__window_is_full(const struct simba__window *window)
{
    return window->under_way >= window->size;
}

void simba__window_sent(struct simba__window *window)
{
    window->under_way++;
}

static void shrink(struct simba__window *window)
{
    window->size = window->size / 2 > SIMBA__WINDOW_LEAST ? window->size / 2
                                                          : SIMBA__WINDOW_LEAST;
    window->blind = window->under_way;
    window->was_late = true;
    window->early = 0;
}

void simba__window_ended(struct simba__window *window,
                         int64_t took_ms,
                         int64_t given_ms,
                         bool is_wanted)
{
    assert(window->under_way > 0);
    window->under_way--;
    if (window->blind > 0) {
        window->blind--; /* those that were late together count as one */
    } else if (took_ms > given_ms / LATE) {
        shrink(window);
    } else if (is_wanted && window->size < SIMBA__WINDOW_MOST &&
               ++window->early >= (window->was_late ? window->size : 1)) {
        window->size++;
        window->early = 0;
    }
}
