#include "core/observe.h"

#include <assert.h>
#include <string.h>

/* A read that is not answered by then is given up, and asked again. */
enum { READ_TIMEOUT_MS = 5000 };

/* After a failure it asks again by this at the latest, however seldom it polls,
 * and after more of them up to so much slower. */
enum { RETRY_MS = 1000, SLOWER_MOST = 8 };

void simba__observe_init(struct simba__observe *o,
                         int64_t poll_ms,
                         bool knows_ended)
{
    assert(poll_ms > 0);
    memset(o, 0, sizeof *o);
    o->poll_ms = poll_ms;
    o->knows_ended = knows_ended;
    o->next_ms = INT64_MAX;
}

/* Identity is the tenure (S5): the same id under another token has changed. */
static bool is_same(const simba_owner *a, const simba_owner *b)
{
    return a->token == b->token && strcmp(a->id, b->id) == 0;
}

static bool is_ended_known(const struct simba__observe_event *event)
{
    return event->ended != 0 && event->ended != SIMBA__ENDED_UNKNOWN;
}

static bool is_same_all(const struct simba__observe *o,
                        const struct simba__observe_event *event)
{
    size_t i = 0;

    if (o->seen_count != event->owner_count) {
        return false;
    }
    while (i < o->seen_count && is_same(&o->seen[i], &event->owners[i])) {
        i++;
    }
    return i == o->seen_count;
}

/* The newest tenure of those that last; 0: none, or it has no token. */
static uint64_t newest_owner(const struct simba__observe_event *event)
{
    return event->owner_count == 0
               ? 0
               : event->owners[event->owner_count - 1].token;
}

/* Nobody could own it beside those who do: while they last, numbers that were
 * given since are of others who have left the queue. */
static bool is_full(const struct simba__observe_event *event)
{
    size_t least = SIZE_MAX;

    for (size_t i = 0; i < event->owner_count; i++) {
        size_t slots = event->owners[i].slots;

        least = slots < least ? slots : least;
    }
    return event->owner_count >= least;
}

/* Each number that was given since the last read must be of one who began, and
 * is there. */
static bool is_number_missed(const struct simba__observe *o,
                             const struct simba__observe_event *event)
{
    uint64_t began = 0;

    for (size_t i = 0; i < event->owner_count; i++) {
        began += event->owners[i].token > o->known;
    }
    return event->next_serial - o->next_serial != began &&
           !(is_same_all(o, event) && is_full(event));
}

/* Of several owners each knows who began before it; and the store tells of one
 * that began after them and is gone. */
static bool is_missed_of_several(const struct simba__observe *o,
                                 const struct simba__observe_event *event)
{
    uint64_t newest = o->known;

    if (o->next_serial != 0 && event->next_serial != 0) {
        return is_number_missed(o, event);
    }
    for (size_t i = 0; i < event->owner_count; i++) {
        const simba_owner *owner = &event->owners[i];
        bool is_last = i + 1 == event->owner_count;

        if (owner->token <= o->known) {
            continue;
        }
        if (newest !=
            (owner->former == 0 && is_last ? event->ended : owner->former)) {
            return true;
        }
        newest = owner->token;
    }
    return is_ended_known(event) && event->ended > newest;
}

/* Has a tenure come and gone that we did not see? What was before we began to
 * look is not missed. */
static bool is_missed(const struct simba__observe *o,
                      const struct simba__observe_event *event)
{
    bool is_other = !is_same_all(o, event);
    bool is_shared = o->seen_count > 1 || event->owner_count > 1 ||
                     (event->owner_count > 0 && event->owners[0].slots > 1);

    if (!o->is_heard) {
        return false;
    }
    if (event->owner_count > 0 && is_shared) {
        return is_missed_of_several(o, event);
    }
    if (o->seen_count > 0 && o->seen[0].token != 0 &&
        o->seen[0].token == newest_owner(event)) {
        return false;
    }
    if (is_ended_known(event)) {
        return event->ended != o->known;
    }
    if (o->next_serial != 0 && event->serial != 0) {
        return event->serial != o->next_serial;
    }
    if (event->ended == SIMBA__ENDED_UNKNOWN || o->is_cut || !is_other) {
        return is_other;
    }
    /* There was no tenure before, or the store does not say. A whole tenure
     * fits between two looks: who is new may not be the neighbour of the one
     * before, free moment or not. */
    return event->owner_count > 0 && (!o->knows_ended || o->seen_count > 0);
}

/* The newest tenure that an event knows of. */
static uint64_t newest(const struct simba__observe_event *event)
{
    uint64_t owner = newest_owner(event);

    return is_ended_known(event) && event->ended > owner ? event->ended : owner;
}

/* Moves what is known on, and tells what has changed by it. */
static void move_on(struct simba__observe *o,
                    const struct simba__observe_event *event,
                    struct simba__observe_update *up)
{
    up->has_gap = is_missed(o, event);
    up->changed = up->has_gap || !is_same_all(o, event);
    if (up->changed) {
        o->seen = event->owners;
        o->seen_count = event->owner_count;
    }
    if (newest(event) != 0) {
        o->known = newest(event);
    }
    o->next_serial = event->next_serial;
    o->failures = 0;
    o->is_heard = true;
    o->is_cut = false;
}

/* Older than what we know. Tokens grow, and a tenure that has ended does not
 * begin again. */
static bool is_stale(const struct simba__observe *o,
                     const struct simba__observe_event *event)
{
    if (newest(event) == o->known) {
        return newest_owner(event) != 0 || o->seen_count == 0;
    }
    return newest(event) < o->known;
}

static void step_wake(struct simba__observe *o)
{
    if (o->is_reading) {
        o->is_woken = true;
    } else if (o->is_running) {
        o->next_ms = o->now_ms;
    }
}

/* Taken as it is when it is next to what we know; an older one is no news; for
 * one further on, we look ourselves. */
static void step_push(struct simba__observe *o,
                      const struct simba__observe_event *event,
                      struct simba__observe_update *up)
{
    bool is_known = o->is_heard && newest(event) != 0;

    if (!o->is_running || (is_known && is_stale(o, event))) {
        return;
    }
    if (is_known && event->ended == o->known) {
        move_on(o, event, up);
        o->is_ahead = o->is_reading;
        o->next_ms = o->now_ms + o->poll_ms;
    } else {
        step_wake(o);
    }
}

static void give_up(struct simba__observe *o)
{
    unsigned slower = 1U << (o->failures < 3 ? o->failures : 3);
    int64_t retry_ms = o->poll_ms < RETRY_MS ? o->poll_ms : RETRY_MS;

    assert(slower <= SLOWER_MOST);
    o->is_reading = false;
    o->is_cut = true;
    o->failures++;
    o->next_ms = o->now_ms + retry_ms * (int64_t)slower;
}

static void step_answer(struct simba__observe *o,
                        const struct simba__observe_event *event,
                        struct simba__observe_update *up)
{
    if (!o->is_reading || event->seq != o->seq) {
        return; /* given up long ago */
    }
    if (event->type == SIMBA__OBSERVE_FAILED) {
        give_up(o);
        return;
    }
    o->is_reading = false;
    if (event->owned > event->owner_count && !o->wants_all) {
        o->wants_all = o->is_woken = true;
    } else if (!o->is_ahead || !is_stale(o, event)) {
        /* An answer that was given before a push we have heard is no news. */
        move_on(o, event, up);
        o->wants_all = o->wants_all && event->owned > 1;
    }
    o->is_ahead = false;
    /* A wake-up that came meanwhile is followed at once: the sooner, the less
     * is missed, and no more than one read is under way. */
    o->next_ms = o->is_woken ? o->now_ms : o->now_ms + o->poll_ms;
    o->is_woken = false;
}

void simba__observe_step(struct simba__observe *o,
                         const struct simba__observe_event *event,
                         struct simba__observe_update *up)
{
    memset(up, 0, sizeof *up);
    if (event->now_ms > o->now_ms) {
        o->now_ms = event->now_ms;
    }
    switch (event->type) {
    case SIMBA__OBSERVE_START:
        o->is_running = true;
        o->is_heard = o->is_cut = o->is_ahead = o->wants_all = false;
        o->known = o->next_serial = 0;
        o->seen = NULL;
        o->seen_count = 0;
        o->next_ms = o->now_ms;
        break;
    case SIMBA__OBSERVE_STOP:
        o->is_running = o->is_reading = o->is_woken = false;
        o->next_ms = INT64_MAX;
        break;
    case SIMBA__OBSERVE_READ:
    case SIMBA__OBSERVE_FAILED:
        step_answer(o, event, up);
        break;
    case SIMBA__OBSERVE_WAKE:
        step_wake(o);
        break;
    case SIMBA__OBSERVE_PUSHED:
        step_push(o, event, up);
        break;
    case SIMBA__OBSERVE_TIMER:
        break;
    }
    if (o->is_reading && o->now_ms >= o->timeout_at_ms) {
        give_up(o);
    }
    if (!o->is_reading && o->now_ms >= o->next_ms) {
        o->is_reading = true;
        o->timeout_at_ms = o->now_ms + READ_TIMEOUT_MS;
        up->read = true;
        up->wants_all = o->wants_all;
        up->seq = ++o->seq;
        up->timeout_ms = READ_TIMEOUT_MS;
    }
}

int64_t simba__observe_wake_at(const struct simba__observe *o)
{
    return o->is_reading ? o->timeout_at_ms : o->next_ms;
}

/* --- telling ------------------------------------------------------------- */

/* Where it is, or where it would be, in the order of tokens. */
static size_t find(const struct simba__owners *owners, const simba_owner *owner)
{
    size_t low = 0, high = owners->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (owners->all[middle].token < owner->token) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool has(const struct simba__owners *owners, const simba_owner *owner)
{
    size_t i = find(owners, owner);

    return i < owners->count && is_same(&owners->all[i], owner);
}

/* The first of some who is not among others; NULL: none. */
static simba_owner *find_other(const struct simba__owners *some,
                               const struct simba__owners *others)
{
    size_t i = 0;

    while (i < some->count && has(others, &some->all[i])) {
        i++;
    }
    return i == some->count ? NULL : &some->all[i];
}

/* Who has the slot of one that ended; who wants to be alone came when all the
 * others had ended, too. */
static const simba_owner *find_successor(const struct simba__owners *told,
                                         const struct simba__owners *now,
                                         const simba_owner *ended)
{
    for (size_t i = 0; i < now->count; i++) {
        const simba_owner *owner = &now->all[i];

        if (owner->slot == ended->slot &&
            (owner->slots > 1 || told->count == 1) && !has(told, owner)) {
            return owner;
        }
    }
    return NULL;
}

bool simba__owners_step(struct simba__owners *told,
                        const struct simba__owners *now,
                        simba_owner *before,
                        simba_owner *after)
{
    simba_owner *ended = find_other(told, now);
    const simba_owner *began = ended == NULL ? find_other(now, told)
                                             : find_successor(told, now, ended);

    *before = *after = simba_owner_none();
    if (ended != NULL) {
        size_t i = (size_t)(ended - told->all);

        *before = *ended;
        told->count--;
        memmove(ended, ended + 1, (told->count - i) * sizeof *ended);
    }
    if (began != NULL) {
        size_t i = find(told, began);

        assert(told->all != NULL && told->count < told->room);
        *after = *began;
        memmove(&told->all[i + 1], &told->all[i],
                (told->count - i) * sizeof *told->all);
        told->all[i] = *began;
        told->count++;
    }
    return ended != NULL || began != NULL;
}
