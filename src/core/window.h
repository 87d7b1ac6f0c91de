/* How many acquires of one handle may be under way at a time.
 *
 * A store that is asked a hundred thousand things at once answers none of them
 * in time, and those who asked then ask again. So the rest wait here, and how
 * many may be under way follows from how the store answers, as TCP's window
 * does: more while answers come early, half as many when one is late or fails
 * to come. A pure function of what it is told. */
#ifndef SIMBA_CORE_WINDOW_H
#define SIMBA_CORE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SIMBA__WINDOW_FIRST = 128,
    SIMBA__WINDOW_LEAST = 16,
    SIMBA__WINDOW_MOST = 4096,
};

struct simba__window {
    unsigned size;      /* so many may be under way */
    unsigned under_way; /* so many are */
    unsigned early;     /* answers since it last grew */
    unsigned blind;     /* answers to what was sent before it last shrank */
    bool was_late;      /* ever: from then on it grows slowly */
};

void simba__window_init(struct simba__window *window);

bool simba__window_is_full(const struct simba__window *window);

/** One more is sent. */
void simba__window_sent(struct simba__window *window);

/** One has come to its end, after `took_ms` of the `given_ms` it had; and was
 * the store asked while others waited here? Else the answer says nothing of
 * what more it could take. */
void simba__window_ended(struct simba__window *window,
                         int64_t took_ms,
                         int64_t given_ms,
                         bool is_wanted);

#endif
