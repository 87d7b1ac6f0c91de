#include "core/observe.h"

#include <assert.h>
#include <string.h>

/* A read that is not answered by then is given up, and asked again. */
enum { READ_TIMEOUT_MS = 5000 };

/* Hints are followed, but not as a storm. */
enum { HINT_SPACING_MS = 2 };

/* After failures, up to this much slower than the poll. */
enum { SLOWER_MOST = 8 };

void simba__observe_init(struct simba__observe *o, int64_t poll_ms)
{
    assert(poll_ms > 0);
    memset(o, 0, sizeof *o);
    o->poll_ms = poll_ms;
    o->next_ms = INT64_MAX;
}

/* Identity is the tenure (S5): the same id under another token has changed. */
static bool is_same(const simba_owner *a, const simba_owner *b)
{
    return a->token == b->token && strcmp(a->id, b->id) == 0;
}

static void take_in(struct simba__observe *o,
                    const simba_owner *owner,
                    struct simba__observe_update *up)
{
    o->failures = 0;
    o->is_heard = true;
    o->next_ms = o->now_ms + (o->is_hinted ? HINT_SPACING_MS : o->poll_ms);
    o->is_hinted = false;
    if (!is_same(&o->seen, owner)) {
        up->changed = true;
        up->before = o->seen;
        up->after = *owner;
        o->seen = *owner;
    }
}

static void give_up(struct simba__observe *o)
{
    unsigned slower = 1U << (o->failures < 3 ? o->failures : 3);

    assert(slower <= SLOWER_MOST);
    o->is_reading = false;
    o->failures++;
    o->next_ms = o->now_ms + o->poll_ms * (int64_t)slower;
}

static void step_answer(struct simba__observe *o,
                        const struct simba__observe_event *event,
                        struct simba__observe_update *up)
{
    if (!o->is_reading || event->seq != o->seq) {
        return; /* given up long ago */
    }
    o->is_reading = false;
    if (event->type == SIMBA__OBSERVE_READ) {
        take_in(o, event->owner, up);
    } else {
        give_up(o);
    }
}

static void step_hint(struct simba__observe *o)
{
    if (o->is_reading) {
        o->is_hinted = true;
    } else if (o->is_running) {
        o->next_ms = o->now_ms;
    }
}

static void dispatch(struct simba__observe *o,
                     const struct simba__observe_event *event,
                     struct simba__observe_update *up)
{
    switch (event->type) {
    case SIMBA__OBSERVE_START:
        o->is_running = true;
        o->is_heard = false;
        o->seen = simba_owner_none();
        o->next_ms = o->now_ms;
        break;
    case SIMBA__OBSERVE_STOP:
        o->is_running = o->is_reading = o->is_hinted = false;
        o->next_ms = INT64_MAX;
        break;
    case SIMBA__OBSERVE_READ:
    case SIMBA__OBSERVE_FAILED:
        step_answer(o, event, up);
        break;
    case SIMBA__OBSERVE_HINT:
        step_hint(o);
        break;
    case SIMBA__OBSERVE_TIMER:
        break;
    }
}

void simba__observe_step(struct simba__observe *o,
                         const struct simba__observe_event *event,
                         struct simba__observe_update *up)
{
    memset(up, 0, sizeof *up);
    if (event->now_ms > o->now_ms) {
        o->now_ms = event->now_ms;
    }
    dispatch(o, event, up);
    if (o->is_reading && o->now_ms >= o->timeout_at_ms) {
        give_up(o);
    }
    if (!o->is_reading && o->now_ms >= o->next_ms) {
        o->is_reading = true;
        o->timeout_at_ms = o->now_ms + READ_TIMEOUT_MS;
        up->read = true;
        up->seq = ++o->seq;
        up->timeout_ms = READ_TIMEOUT_MS;
    }
}

int64_t simba__observe_wake_at(const struct simba__observe *o)
{
    return o->is_reading ? o->timeout_at_ms : o->next_ms;
}
