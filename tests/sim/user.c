/* The user on a node: two callbacks, called one after the other on a thread of
 * their own, each taking its time. */
#include "sim/world.h"

static int64_t callback_us(struct world *w, struct node *n)
{
    int64_t budget_us = w->config.lease.budget_ms * 1000;

    if (w->callback_us != 0) { /* a told story, not a drawn one */
        return w->callback_us;
    }
    if (world_chance(w, w->weather.slow_callback)) {
        n->is_excused = true;
        return budget_us * 2;
    }
    return (int64_t)world_random(w, (uint64_t)budget_us / 3 + 1);
}

static void hear_released(struct world *w, int i, enum simba__cause cause)
{
    static const char *const causes[] = {"stop",     "expired", "gone",
                                         "max_hold", "stalled", "asked"};
    struct node *n = &w->node[i];
    int64_t from =
        n->callback_free_us > w->now_us ? n->callback_free_us : w->now_us;

    world_say(w, "n%d released (%s)", i, causes[cause]);
    n->is_told = false;
    n->is_calling = true;
    n->callback_free_us = from + callback_us(w, n);
    world_post_local(w, i, SIMBA__RETURNED, n->callback_free_us - w->now_us);
}

void user_hear(struct world *w, int i, const struct simba__contend_update *up)
{
    struct node *n = &w->node[i];

    if (up->tell & SIMBA__TELL_RELEASED) {
        hear_released(w, i, up->cause);
    }
    if (up->tell & SIMBA__TELL_OVERRUN) {
        n->is_excused = true;
        world_say(w, "n%d overruns", i);
    }
    if (up->tell & SIMBA__TELL_ACQUIRED) {
        w->tenures++;
        n->is_told = true;
        n->is_inside = true;
        n->is_excused = false;
        n->was_refused = false;
        n->callback_free_us = w->now_us + callback_us(w, n);
        world_say(w, "n%d acquired, token %llu", i,
                  (unsigned long long)up->token);
    }
    if (up->tell & SIMBA__TELL_CLOCK_JUMP) { /* no clock here ever steps */
        violate(w, S1, "n%d saw a step of the store's clock", i);
    }
    if (up->tell & SIMBA__TELL_UNRELEASED) {
        world_say(w, "n%d gives up releasing", i);
    }
    if (up->tell & SIMBA__TELL_STOPPED) {
        world_say(w, "n%d stopped", i);
        if (n->wants) { /* it changed its mind meanwhile */
            world_post_local(w, i, SIMBA__START, 0);
        }
    }
}
